//! The page with every key of `forge.toml.example` and its text.

use std::collections::BTreeMap;

const EXAMPLE: &str = include_str!("../../../forge.toml.example");

/// The page, made from the example.
pub(super) fn page() -> String {
    let mut page = Page::default();
    keys().for_each(|line| page.line(line));
    page.paragraph();
    include_str!("../../../templates/configuration.md").to_owned() + &page.text
}

/// The lines with every key: without the first paragraph, which is about the file, and without entries to copy.
fn keys() -> impl Iterator<Item = &'static str> {
    EXAMPLE.lines().skip_while(|line| *line != "#").take_while(|line| !line.starts_with("# --- Well-known servers"))
}

#[derive(Default)]
struct Page {
    text: String,
    /// Lines of the comment above the next setting.
    comment: Vec<&'static str>,
    /// Texts of keys, for settings that say "As above.", and the last of them.
    above: BTreeMap<&'static str, String>,
    last: String,
    is_in_table: bool,
    has_section: bool,
}

impl Page {
    fn line(&mut self, line: &'static str) {
        if let Some(title) = line.strip_prefix("# --- ") {
            self.section(title.trim_end_matches('-').trim());
        } else if let Some(text) = line.strip_prefix("# ") {
            self.comment.push(text.trim());
        } else if line.is_empty() || line == "#" {
            self.paragraph();
        } else if let Some(header) = line.strip_prefix('#').filter(|setting| setting.starts_with('[')) {
            self.table(header);
        } else if let Some((key, value)) = line.strip_prefix('#').and_then(|setting| setting.split_once(" = ")) {
            self.key(key, value);
        }
    }

    fn section(&mut self, title: &str) {
        self.paragraph();
        (self.is_in_table, self.has_section) = (false, true);
        self.text.push_str(&format!("\n## {title}\n"));
    }

    /// A comment that stands above no setting.
    fn paragraph(&mut self) {
        if !self.comment.is_empty() {
            self.is_in_table = false;
            let text = linked(&self.comment.join(" "));
            self.text.push_str(&format!("\n{text}\n"));
            self.comment.clear();
        }
    }

    fn table(&mut self, header: &'static str) {
        self.is_in_table = false;
        let comment = self.comment_of(header);
        self.text.push_str(&format!("\n### `{header}`\n"));
        if !comment.is_empty() {
            self.text.push_str(&format!("\n{comment}\n"));
        }
    }

    fn key(&mut self, key: &'static str, value: &str) {
        let comment = self.comment_of(key).replace('|', "\\|");
        if !self.has_section {
            self.section("Variables");
        }
        if !self.is_in_table {
            self.is_in_table = true;
            self.text.push_str("\n| key | meaning |\n|---|---|\n");
        }
        self.text.push_str(&format!("| `{key} = {}` | {comment} |\n", value.replace('|', "\\|")));
    }

    /// The comment above a setting, or that of the last one with the same name.
    fn comment_of(&mut self, name: &'static str) -> String {
        let own = linked(&self.comment.join(" "));
        self.comment.clear();
        let own = match (own.as_str(), self.above.get(name)) {
            ("As above." | "", Some(of_name)) => of_name.clone(),
            ("As above.", None) => self.last.clone(),
            _ => own,
        };
        self.above.insert(name, own.clone());
        self.last.clone_from(&own);
        own
    }
}

/// Makes links of the pages that a comment names, and escapes what would be markup outside of code.
fn linked(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let text: Vec<_> =
        parts.map(|(at, part)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() }).collect();
    let text = text.join("`");
    let word = |word: &str| {
        let name = word.trim_matches(['(', ')', '.', ',', ';', ':']);
        match name.strip_prefix("docs/") {
            Some(page) if page.ends_with(".md") => word.replace(name, &format!("[{page}]({page})")),
            _ => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_has_every_key_and_table() {
    let page = page();
    let settings = keys().filter_map(|line| line.strip_prefix('#')).filter(|line| !line.starts_with(' '));
    let (mut keys, mut tables) = (0, 0);
    for setting in settings.filter(|setting| !setting.is_empty()) {
        match setting.starts_with('[') {
            true => tables += 1,
            false => keys += 1,
        }
    }
    assert_eq!(page.matches("\n### `[").count(), tables);
    assert_eq!(page.matches("\n| `").count(), keys);
}
