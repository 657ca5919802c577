//! `env_files`: variables for `${NAME}` beside those of the environment. No server inherits them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::expand::is_name;
use super::key::Key;
use base::{files, limits};

/// Files of `env_files`, and the variables in them.
#[derive(Default)]
pub(super) struct EnvFiles {
    pub(super) paths: Vec<PathBuf>,
    pub(super) variables: BTreeMap<String, String>,
}

impl EnvFiles {
    /// The value of a variable. Those that locate the gateway's own folders come from the environment alone.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|_| !locates(name)).cloned()
    }
}

/// True for a variable that locates the gateway's own folders.
fn locates(name: &str) -> bool {
    name.starts_with("XDG_") || matches!(name, "HOME" | "LOCALAPPDATA")
}

/// Reads the files. Of two values the later one counts.
pub(super) fn read(key: &Key<'_>, raw: Option<Vec<String>>) -> Result<EnvFiles, ConfigError> {
    let raw = raw.unwrap_or_default();
    if raw.len() > limits::ENV_FILES.max {
        let (files, most) = (raw.len(), limits::ENV_FILES.max);
        return Err(key.at_value(format!("{files} files, over the limit of {most}")));
    }
    let mut read = EnvFiles::default();
    for (index, written) in raw.into_iter().enumerate() {
        let key = key.index(index);
        let path = key.path(written.clone())?;
        let text = text(&path).map_err(|why| key.at_value(format!("`{written}`: {why}")))?;
        for (line, number) in text.trim_start_matches('\u{feff}').lines().zip(1_usize..) {
            match variable(line) {
                Ok(Some((name, value))) => drop(read.variables.insert(name, value)),
                Ok(None) => {}
                Err(why) => {
                    let message = format!("`{written}`, line {number}: {why}");
                    let form = "write NAME=value, NAME='value' or NAME=\"value\", each in one line";
                    return Err(key.at_value(message).with_hint(form));
                }
            }
        }
        read.paths.push(path);
    }
    Ok(read)
}

/// The variables of one file that count, as of [`EnvFiles::get`]; lines that are none are left out.
pub(super) fn variables_in(path: &Path) -> BTreeMap<String, String> {
    let text = text(path).unwrap_or_default();
    let all = text.trim_start_matches('\u{feff}').lines().filter_map(|line| variable(line).ok().flatten());
    all.filter(|(name, _)| !locates(name)).collect()
}

/// A variable as a line of such a file, with its line end.
pub fn variable_line(name: &str, value: &str) -> String {
    let mut line = format!("{name}=\"");
    for character in value.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '"' | '\\' | '$' | '`' => line.extend(['\\', character]),
            plain => line.push(plain),
        }
    }
    line + "\"\n"
}

fn text(path: &Path) -> Result<String, String> {
    files::read_text(path, limits::ENV_FILE.max as u64).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => error.to_string(),
    })
}

/// The variable of a line; `None` for an empty one and for a comment. Nothing in it is expanded. An error never shows the
/// line, which may hold a secret.
fn variable(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, rest) = line.split_once('=').ok_or("there is no `=`")?;
    let (name, rest) = (name.trim(), rest.trim());
    if !is_name(name) {
        return Err("not the name of a variable");
    }
    let (value, behind) = match rest.chars().next() {
        Some('\'') => rest[1..].split_once('\'').map(|(value, behind)| (value.to_owned(), behind)).ok_or(UNCLOSED)?,
        Some('"') => quoted(&rest[1..])?,
        _ => {
            let mut marks = rest.match_indices('#').map(|(at, _)| at);
            let end = marks.find(|at| *at == 0 || rest[..*at].ends_with([' ', '\t'])).unwrap_or(rest.len());
            (rest[..end].trim_end().to_owned(), "")
        }
    };
    match behind.trim_start() {
        behind if behind.is_empty() || behind.starts_with('#') => Ok(Some((name.to_owned(), value))),
        _ => Err("there is text behind the closing quote"),
    }
}

const UNCLOSED: &str = "a quote is not closed in its line";

/// A value in double quotes, and what is behind it.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match characters.next().ok_or(UNCLOSED)?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                plain @ ('"' | '\\' | '$' | '`') => value.push(plain),
                other => value.extend(['\\', other]),
            },
            character => value.push(character),
        }
    }
    Err(UNCLOSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_written_is_read_as_the_same_value() {
        for value in ["", "plain", "a b#c", "it's", "\"$x\"", "a\\nb", "a\nb\r\n", "`\u{e9}\\", " b "] {
            let line = variable_line("A", value);
            assert_eq!(line.lines().count(), 1, "{line}");
            assert_eq!(variable(&line), Ok(Some(("A".to_owned(), value.to_owned()))), "{line}");
        }
    }

    #[test]
    fn lines_are_read_as_other_tools_read_them() {
        for (line, value) in [
            ("A=b", "b"),
            ("export A=b", "b"),
            ("  A = b c  # comment", "b c"),
            ("A=b#c", "b#c"),
            ("A=", ""),
            ("A= # comment", ""),
            ("A='b # $c \\n'  # comment", "b # $c \\n"),
            (r#"A="b \"c\" \$d \\ \w""#, r#"b "c" $d \ \w"#),
            ("A=\"b\\nc\"", "b\nc"),
            ("A=${B}=c", "${B}=c"),
        ] {
            assert_eq!(variable(line), Ok(Some(("A".to_owned(), value.to_owned()))), "{line}");
        }
        for line in ["", "  ", "# A=b"] {
            assert_eq!(variable(line), Ok(None), "{line}");
        }
        for line in ["A", "1A=b", "A B=c", "=b", "A='b", "A=\"b", "A=\"b\\", "A='b'c"] {
            assert!(variable(line).is_err(), "{line}");
        }
    }
}
