//! Pages of the documentation that are made from tables of the code.

use std::path::Path;

/// Set by `cargo xtask docs`, which writes the pages in place of comparing them.
const WRITE: &str = "FORGEFS_WRITE_DOCS";

#[test]
fn the_pages_are_what_the_tables_say() {
    let pages = [("errors.md", forgefs::error::documentation()), ("limits.md", forgefs::limits::documentation())];
    for (name, made) in pages {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&page, &made).expect("the page can be written");
        }
        let written = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(written == made, "docs/{name} is not current: `cargo xtask docs` writes it");
    }
}

/// A code that is left out of the list has no row.
#[test]
fn every_code_has_a_row() {
    let known = serde_json::from_str::<wire::ErrorCode>("\"nothing\"").expect_err("no code").to_string();
    let known: Vec<&str> = known.split('`').skip(3).step_by(2).collect();
    let listed = forgefs::error::CODES.map(forgefs::error::code_name);
    assert_eq!(listed.as_slice(), known.as_slice());
}
