//! `${VAR}` and `${VAR:-default}` in string values.

use super::Env;

/// An expanded value, with the values it took from the environment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    /// Expanded text.
    pub(super) text: String,
    /// Variables that were set, with their values; without defaults.
    pub(super) taken: Vec<(String, String)>,
}

/// Replaces every reference in `text`. `$${` stands for a literal `${`; a `$` before anything else is literal. Values
/// of variables are not expanded again.
pub(super) fn expand(text: &str, env: Env<'_>) -> Result<Expanded, Fault> {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), taken: Vec::new() };
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            expanded.text.push_str(&rest[..at - 1]);
            expanded.text.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        expanded.text.push_str(&rest[..at]);
        let (reference, after) = rest[at + 2..].split_once('}').ok_or(Fault::Unclosed)?;
        rest = after;
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if !is_name(name) {
            return Err(Fault::Malformed);
        }
        if default.is_some_and(|default| default.contains("${")) {
            return Err(Fault::Nested);
        }
        // As in a shell, `:-` also replaces an empty variable.
        match (env(name), default) {
            (Some(value), None) => expanded.take(name, value),
            (Some(value), Some(_)) if !value.is_empty() => expanded.take(name, value),
            (_, Some(default)) => expanded.text.push_str(default),
            (None, None) => return Err(Fault::Unset(name.to_owned())),
        }
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

impl Expanded {
    /// A value without expansion.
    pub(super) fn verbatim(text: String) -> Self {
        Self { text, taken: Vec::new() }
    }

    fn take(&mut self, name: &str, value: String) {
        self.text.push_str(&value);
        self.taken.push((name.to_owned(), value));
    }
}

/// Names in the references of `text`.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let references = text.match_indices("${").filter(|(at, _)| !text[..*at].ends_with('$'));
    let inside = references.filter_map(|(at, _)| text[at + 2..].split_once('}'));
    inside
        .map(|(reference, _)| reference.split_once(":-").map_or(reference, |(name, _)| name))
        .filter(|name| is_name(name))
}

/// True if the value has a reference.
pub(super) fn has_reference(text: &str) -> bool {
    text.contains("${")
}

/// True if the text can be the name of a variable in a reference.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reason why a value cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Unset(String),
    Unclosed,
    Malformed,
    Nested,
}

impl Fault {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Unset(name) => format!("environment variable `{name}` is not set"),
            Self::Unclosed => "`${` without `}`".to_owned(),
            Self::Malformed => "not a reference to a variable".to_owned(),
            Self::Nested => "a default cannot hold another reference".to_owned(),
        }
    }

    pub(super) fn hint(&self) -> String {
        match self {
            Self::Unset(name) => format!("export {name}, or give it a default with ${{{name}:-…}}"),
            Self::Unclosed | Self::Malformed | Self::Nested => {
                "write ${NAME} or ${NAME:-default}; $${ stands for a literal ${".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<String, Fault> {
        expand(text, &|name| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "REF" => Some("${A}".to_owned()),
            _ => None,
        })
        .map(|expanded| expanded.text)
    }

    #[test]
    fn references_and_defaults_are_replaced() {
        assert_eq!(run("a ${A} b ${NONE:-x:-y} ${A:-z}").as_deref(), Ok("a 1 b x:-y 1"));
        assert_eq!(run("${EMPTY}|${EMPTY:-d}|${NONE:-}").as_deref(), Ok("|d|"));
    }

    #[test]
    fn what_a_variable_holds_is_not_expanded_again() {
        assert_eq!(run("${REF}").as_deref(), Ok("${A}"));
    }

    #[test]
    fn dollars_that_are_not_references_stay() {
        assert_eq!(run("$A $ $$ $5 {A} 100%$").as_deref(), Ok("$A $ $$ $5 {A} 100%$"));
        assert_eq!(run("$${A} $$${A} é$${").as_deref(), Ok("${A} $${A} é${"));
    }

    #[test]
    fn every_other_form_is_a_fault() {
        assert_eq!(run("${NONE}"), Err(Fault::Unset("NONE".to_owned())));
        assert_eq!(run("x ${A"), Err(Fault::Unclosed));
        for text in ["${}", "${1A}", "${A-x}", "${A:?x}", "${ A }", "${é}", "${:-x}"] {
            assert_eq!(run(text), Err(Fault::Malformed), "{text}");
        }
        assert_eq!(run("${NONE:-${A}}"), Err(Fault::Nested));
    }
}
