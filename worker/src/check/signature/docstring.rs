//! Docstrings: a description, and sections about arguments and the value.

/// A docstring.
#[derive(Debug, Default)]
pub(super) struct Docstring {
    pub(super) text: String,
    /// Names of parameters and what is said of each.
    pub(super) args: Vec<(String, String)>,
    pub(super) returns: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Text,
    Args,
    Returns,
}

/// Parses a docstring with sections as `Args:` and `Returns:`, which are indented.
pub(super) fn parse(text: &str) -> Docstring {
    let mut doc = Docstring::default();
    let margin = margin(text);
    let mut section = Section::Text;
    let mut item = None;
    let mut lines: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = if index == 0 { line.trim() } else { line.get(margin..).unwrap_or_default().trim_end() };
        let indent = line.len() - line.trim_start().len();
        section = match (line, indent) {
            ("Args:" | "Arguments:" | "Parameters:", _) => {
                item = None;
                Section::Args
            }
            ("Returns:" | "Return:", _) => Section::Returns,
            (line, 0) if !line.is_empty() => Section::Text,
            _ => section,
        };
        if matches!(line, "Args:" | "Arguments:" | "Parameters:" | "Returns:" | "Return:") {
            continue;
        }
        let words = line.trim();
        match section {
            Section::Text => lines.push(line),
            Section::Returns => add(&mut doc.returns, words),
            Section::Args => {
                let at = *item.get_or_insert(indent);
                match (named(words), doc.args.last_mut()) {
                    (Some((name, text)), _) if indent <= at && !words.is_empty() => {
                        doc.args.push((name.to_owned(), text.to_owned()));
                    }
                    (_, Some((_, text))) => add(text, words),
                    _ => {}
                }
            }
        }
    }
    doc.text = lines.join("\n").trim().to_owned();
    doc
}

/// Columns before the text of all lines but the first.
fn margin(text: &str) -> usize {
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines.map(|line| line.len() - line.trim_start_matches(' ').len()).min().unwrap_or(0)
}

/// The name and the text of `country: Two letters.` or `country (str): Two letters.`
fn named(line: &str) -> Option<(&str, &str)> {
    let (name, text) = line.split_once(':')?;
    let name = name.split_once('(').map_or(name, |(name, _)| name).trim().trim_start_matches('*');
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| (name, text.trim()))
}

fn add(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}
