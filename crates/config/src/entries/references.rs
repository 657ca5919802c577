//! Translates `${…}` of other hosts into the syntax of `forge.toml`.

use std::path::Path;

use super::hidden::has_secret;
use crate::expand::is_name;

/// Scope of a value's references.
pub(super) struct Scope<'a> {
    /// True if the host expands references; else every text is literal.
    pub(super) expands: bool,
    /// Value of `${workspaceFolder}`.
    pub(super) project: Option<&'a Path>,
    /// Definitions of `${input:…}`.
    pub(super) inputs: &'a [Input],
    /// True to drop defaults that are credentials.
    pub(super) hides: bool,
    /// Name of the server.
    pub(super) server: &'a str,
    /// True for a variable that no input may stand for.
    pub(super) is_other: &'a dyn Fn(&str) -> bool,
    /// True for a variable that the server's own `env` sets, for the program to expand.
    pub(super) is_own: &'a dyn Fn(&str) -> bool,
}

impl Scope<'_> {
    /// True if a default of the variable `name` must not be written.
    fn is_hidden(&self, name: &str, default: &str) -> bool {
        self.hides && has_secret(name, default)
    }
}

/// Finds the references that the host expands, or the program.
pub(super) fn references(value: &str, scope: &Scope<'_>) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = value[from..].find("${") {
        let start = from + at;
        match value[start..].find('}') {
            Some(end) => {
                from = start + end + 1;
                if scope.expands || (scope.is_own)(&value[start + 2..from - 1]) {
                    found.push((start, from));
                }
            }
            None => break,
        }
    }
    found
}

/// An input that VS Code asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Name in references.
    pub id: String,
    /// Text of the question.
    pub description: Option<String>,
    /// Answer that is offered; `None` for a password.
    pub default: Option<String>,
}

/// A translated value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    /// In the syntax of `forge.toml`.
    pub(super) text: String,
    /// Required variables.
    pub(super) needs: Vec<String>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// References to the folder that the host has open, without their braces, each with the variable in its place.
    pub(super) folders: Vec<(String, String)>,
    /// References that stay as text, without their braces.
    pub(super) unknown: Vec<String>,
    /// Variables with a default, in place of answers that the user gave the editor.
    pub(super) answers: Vec<String>,
}

/// Translates one value.
pub(super) fn translate(value: &str, scope: &Scope<'_>) -> Text {
    let mut out = Text::default();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        out.text.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let reference = after.split_once('}').filter(|_| scope.expands);
        match reference {
            Some((inner, tail)) => {
                one(inner, scope, &mut out);
                rest = tail;
            }
            None => {
                out.text.push_str("$${");
                rest = after;
            }
        }
    }
    out.text.push_str(rest);
    out
}

/// Variables that a text of `forge.toml` refers to.
pub fn variables(text: &str) -> impl Iterator<Item = String> {
    text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next()).map(str::to_owned)
}

fn one(inner: &str, scope: &Scope<'_>, out: &mut Text) {
    if (scope.is_own)(inner) {
        return out.text.push_str(&format!("$${{{inner}}}"));
    }
    match inner.split_once(':') {
        Some(("env", name)) => variable(name, None, inner, out),
        Some(("input", id)) => input(id, scope, out),
        Some((name, default)) if default.starts_with('-') => {
            let default = Some(&default[1..]).filter(|default| !scope.is_hidden(name, default));
            variable(name, default, inner, out);
        }
        None if matches!(inner, "userHome") => out.text.push_str("${HOME}"),
        None if matches!(inner, "pathSeparator" | "/") => out.text.push(std::path::MAIN_SEPARATOR),
        None if matches!(inner, "workspaceFolder" | "workspaceFolderBasename") => folder(inner, scope, out),
        None => variable(inner, None, inner, out),
        Some((name, default)) if scope.is_hidden(name, default) => need(&variable_name(name), out),
        Some(_) => literal(inner, out),
    }
}

fn variable(name: &str, default: Option<&str>, inner: &str, out: &mut Text) {
    match default {
        // `$${` would be an escape here.
        _ if !is_name(name) || out.text.ends_with('$') => literal(inner, out),
        Some(default) => out.text.push_str(&format!("${{{name}:-{default}}}")),
        None => need(name, out),
    }
}

fn need(name: &str, out: &mut Text) {
    out.text.push_str(&format!("${{{name}}}"));
    if !out.needs.iter().any(|known| known == name) {
        out.needs.push(name.to_owned());
    }
}

/// Turns an input of the editor into a variable of the same name, or of the server's own if that is another's.
fn input(id: &str, scope: &Scope<'_>, out: &mut Text) {
    let own = || variable_name(&format!("{}_{id}", scope.server));
    let name = Some(variable_name(id)).filter(|name| !(scope.is_other)(name)).unwrap_or_else(own);
    let known = scope.inputs.iter().find(|input| input.id == id);
    match known
        .and_then(|input| input.default.as_deref())
        .filter(|default| !default.contains(['}', '$']) && !scope.is_hidden(id, default))
    {
        Some(default) => {
            out.text.push_str(&format!("${{{name}:-{default}}}"));
            out.answers.push(name.clone());
        }
        None => need(&name, out),
    }
    let asked = known.and_then(|input| input.description.as_deref());
    out.notes.push(match asked {
        Some(asked) => format!("{name} is what the editor asks for: {asked}"),
        None => format!("{name} stands for the editor's input `{id}`"),
    });
}

fn folder(inner: &str, scope: &Scope<'_>, out: &mut Text) {
    let Some(project) = scope.project else {
        // Disabled until someone says which folder.
        need(&variable_name(inner), out);
        return out.folders.push((inner.to_owned(), variable_name(inner)));
    };
    let path = match inner {
        "workspaceFolder" => project.to_string_lossy(),
        _ => project.file_name().unwrap_or_default().to_string_lossy(),
    };
    out.text.push_str(&path.replace("${", "$${"));
}

fn literal(inner: &str, out: &mut Text) {
    out.text.push_str(&format!("$${{{inner}}}"));
    out.unknown.push(inner.to_owned());
}

/// Makes a name for an environment variable from any text.
pub(super) fn variable_name(from: &str) -> String {
    let mut name = String::new();
    for c in from.chars() {
        match c.is_ascii_alphanumeric() {
            true => name.push(c.to_ascii_uppercase()),
            false if !name.is_empty() && !name.ends_with('_') => name.push('_'),
            false => {}
        }
    }
    let name = name.trim_end_matches('_');
    match name.chars().next() {
        None => "VALUE".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: &str) -> Text {
        let inputs = [
            Input { id: "api-key".to_owned(), description: Some("Your key".to_owned()), default: None },
            Input { id: "host".to_owned(), description: None, default: Some("localhost".to_owned()) },
        ];
        translate(
            value,
            &Scope {
                expands: true,
                project: Some(Path::new("/p/app")),
                inputs: &inputs,
                hides: false,
                server: "s",
                is_other: &|name| name == "PATH",
                is_own: &|name| name == "OWN",
            },
        )
    }

    #[test]
    fn the_forms_of_all_hosts_become_ours() {
        for (theirs, ours) in [
            ("plain $HOME 100%", "plain $HOME 100%"),
            ("Bearer ${env:TOKEN}", "Bearer ${TOKEN}"),
            ("${TOKEN} ${TOKEN:-x}", "${TOKEN} ${TOKEN:-x}"),
            ("${userHome}/x", "${HOME}/x"),
            ("${workspaceFolder}/x", "/p/app/x"),
            ("${workspaceFolderBasename}", "app"),
            ("${input:api-key}", "${API_KEY}"),
            ("${input:host}", "${HOST:-localhost}"),
            ("${input:path}", "${S_PATH}"),
            ("${command:pick} ${file:/x}", "$${command:pick} $${file:/x}"),
            ("${unclosed", "$${unclosed"),
            ("${a b}", "$${a b}"),
            ("X: ${OWN}", "X: $${OWN}"),
            ("$${TOKEN}", "$$${TOKEN}"),
        ] {
            assert_eq!(run(theirs).text, ours, "{theirs}");
        }
    }

    #[test]
    fn what_must_be_set_is_listed_once() {
        assert_eq!(run("${A} ${env:B} ${A} ${C:-d} ${input:api-key}").needs, ["A", "B", "API_KEY"]);
        assert_eq!(run("${input:api-key}").notes, ["API_KEY is what the editor asks for: Your key"]);
    }

    #[test]
    fn a_host_that_replaces_nothing_means_its_text_literally() {
        let scope = Scope {
            expands: false,
            project: None,
            inputs: &[],
            hides: false,
            server: "s",
            is_other: &|_| false,
            is_own: &|_| false,
        };
        let text = translate("${TOKEN} ${file:/x}", &scope);
        assert_eq!((text.text.as_str(), text.needs.len()), ("$${TOKEN} $${file:/x}", 0));
        assert!(text.unknown.is_empty(), "its own text is no loss");
    }

    #[test]
    fn what_is_not_known_here_is_told_apart_from_text() {
        for (value, unknown) in [
            ("${command:pick} ${file:/x} ${a b}", &["command:pick", "file:/x", "a b"][..]),
            ("$${TOKEN}", &["TOKEN"]),
            ("${TOKEN} ${env:B} ${userHome} ${C:-d} ${unclosed", &[]),
        ] {
            assert_eq!(run(value).unknown, unknown, "{value}");
        }
        assert_eq!(run("${input:host} ${input:api-key}").answers, ["HOST"]);
    }

    #[test]
    fn names_of_variables_are_made_of_anything() {
        for (from, name) in [("api-key", "API_KEY"), ("9 lives", "_9_LIVES"), ("é", "VALUE"), ("a--b-", "A_B")] {
            assert_eq!(variable_name(from), name);
        }
    }
}
