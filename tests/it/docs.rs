//! Pages of the documentation that are made from tables of the code.

use std::path::Path;

/// Set by `cargo xtask docs`, which writes the pages in place of comparing them.
const WRITE: &str = "FORGEFS_WRITE_DOCS";

#[test]
fn the_page_of_errors_is_what_the_table_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors.md");
    let made = forgefs::error::documentation();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&page, &made).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(written == made, "docs/errors.md is not current: `cargo xtask docs` writes it");
}

/// A code that is left out of the list has no row.
#[test]
fn every_code_has_a_row() {
    let known = serde_json::from_str::<wire::ErrorCode>("\"nothing\"").expect_err("no code").to_string();
    let known: Vec<&str> = known.split('`').skip(3).step_by(2).collect();
    let listed = forgefs::error::CODES.map(forgefs::error::code_name);
    assert_eq!(listed.as_slice(), known.as_slice());
}
