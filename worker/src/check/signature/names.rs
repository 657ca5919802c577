//! Names that parameters can have: callers in every language write them.

use super::{Fit, unfit};

/// Words that Python, Starlark or JavaScript reserve, sorted.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "arguments", "as", "assert", "async", "await", "break", "case", "catch", "class",
    "const", "continue", "debugger", "def", "default", "del", "delete", "do", "elif", "else", "enum", "eval", "except",
    "export", "extends", "false", "finally", "for", "from", "function", "global", "if", "implements", "import", "in",
    "instanceof", "interface", "is", "lambda", "let", "load", "new", "nonlocal", "not", "null", "or", "package", "pass",
    "private", "protected", "public", "raise", "return", "static", "super", "switch", "this", "throw", "true", "try",
    "typeof", "undefined", "var", "void", "while", "with", "yield",
];
/// Longest name of a parameter, in bytes.
const MAX_NAME: usize = 64;

/// Refuses a name that not every language can write.
pub(super) fn check(name: &str, at: u32) -> Fit<()> {
    let shown = &name[..name.floor_char_boundary(MAX_NAME)];
    let mut bytes = name.bytes();
    let is_plain = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.len() > MAX_NAME {
        let message =
            format!("the name of the parameter `{shown}…` has {} bytes, over the limit of {MAX_NAME}", name.len());
        return unfit(at, message, "give it a shorter name");
    }
    if !is_plain || name == "__proto__" {
        let message = format!("`{shown}` cannot be the name of a parameter in Python and JavaScript");
        return unfit(at, message, "use letters, digits and `_`");
    }
    if RESERVED.binary_search(&name).is_ok() {
        let message = format!("`{shown}` is a reserved word of Python or JavaScript, and cannot name a parameter");
        return unfit(at, message, format!("give it another name, such as `{shown}_`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_reserved_words_are_sorted() {
        assert!(super::RESERVED.is_sorted_by(|a, b| a < b));
    }
}
