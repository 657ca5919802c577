//! Explains the error that ended a script: the value that it came from, and what to write instead.

mod answer;
mod look;
mod node;
mod python;
mod source;
mod syntax;

use wire::{Language, ScriptError, ScriptErrorKind, Server};

use self::look::{Look, Subject};
pub(crate) use self::node::ABSENT;
use self::source::Source;

/// Longest explanation added to a message, in bytes.
const MAX_ADDED: usize = 600;

/// A handle in a call.
const SENT: &str = "it is sent as base64; scripts cannot read the bytes";

/// A failed script and what is known of its values.
pub(crate) struct FailedScript<'s> {
    /// The code with the error's positions.
    pub(crate) code: &'s str,
    /// JavaScript; else Starlark.
    pub(crate) is_javascript: bool,
    /// Its servers.
    pub(crate) servers: &'s [Server],
    /// Functions of the script that made calls, as written, and the shape of the last answer of each.
    pub(crate) answers: &'s [(String, String)],
}

/// The error with what helps its author.
pub(crate) fn explain(script: &FailedScript<'_>, error: ScriptError) -> ScriptError {
    if error.kind == ScriptErrorKind::Call {
        let about =
            of_argument(script, &error).map(|about| format!("; {}", &about[..about.floor_char_boundary(MAX_ADDED)]));
        return ScriptError { message: error.message.clone() + &about.unwrap_or_default(), ..error };
    }
    if !matches!(error.kind, ScriptErrorKind::Script | ScriptErrorKind::Syntax) {
        return error;
    }
    let source = Source { code: script.code, is_javascript: script.is_javascript };
    let Some((line, start)) = source.line(error.line) else { return error };
    let at = source.at(line, error.column);
    let look = Look { script, source, message: &error.message, line, start, at };
    let subject = if script.is_javascript { look.javascript(&error.message) } else { look.starlark(&error.message) };
    let mut message = match &subject {
        Some(Subject { message: Some(message), .. }) => message.clone(),
        _ => error.message.clone(),
    };
    let habit = match script.is_javascript {
        true => node::habit(&message, line),
        false => python::habit(&message, line, &line[at..], &script.code[start..]),
    };
    let expression = subject.as_ref().map(|subject| subject.expression.as_str());
    let about = expression.and_then(|expression| look.about(expression));
    let is_answer = script.is_javascript || about.is_some();
    let json = expression.filter(|_| is_answer).and_then(|expression| answer::of_any(&look, expression));
    if let Some((about, _)) = &about {
        message.push_str("; ");
        message.push_str(&about[..about.floor_char_boundary(MAX_ADDED)]);
    }
    let hidden = hidden(script, source, &error.message, &line[at..]);
    let fix = error.fix.or(hidden).or(about.and_then(|(_, fix)| fix)).or(json).or(habit);
    ScriptError { message, fix, ..error }
}

/// The answer that the missing value of an argument was taken from.
fn of_argument(script: &FailedScript<'_>, error: &ScriptError) -> Option<String> {
    let missing = error.message.split_once("argument `")?.1;
    let name = missing.split_once("` is missing").map(|(name, _)| name).filter(|name| !name.contains('`'))?;
    let source = Source { code: script.code, is_javascript: script.is_javascript };
    let (line, start) = source.line(error.line)?;
    let forms = if script.is_javascript { [": ", ":"] } else { [" = ", "="] };
    let (at, form) = forms.into_iter().find_map(|form| Some((line.find(&format!("{name}{form}"))?, form)))?;
    let at = at + name.len() + form.len();
    let value = Source::chains(&line[at..]).into_iter().find(|chain| chain.start == 0)?;
    let look = Look { script, source, message: &error.message, line, start, at };
    look.about(value.base()).map(|(about, _)| about).filter(|about| about.contains(" is the answer of "))
}

/// The way for a name that the script gives a value of its own, which hides a server or is not there yet.
fn hidden(script: &FailedScript<'_>, source: Source<'_>, message: &str, rest: &str) -> Option<String> {
    let (early, local) = (message.strip_prefix("ReferenceError: "), message.strip_prefix("Local variable `"));
    let name = match (early.filter(|text| text.contains("initializ")), local) {
        (Some(text), _) => text.split('\'').nth(1).or_else(|| text.split(' ').next())?,
        (_, Some(text)) => text.split('`').next()?,
        _ if message.starts_with("Object of type `namespace`") => Source::chains(rest).first()?.root(),
        _ => return None,
    };
    if script.servers.iter().any(|server| server.ident == name) {
        return Some(match source.giver(name) {
            Some(line) => {
                format!("`{line}` hides the server `{name}`: name it otherwise, such as `{name}_`")
            }
            None => {
                format!("`import {name}` hides the server `{name}`: leave it out, or write `import {name} as {name}_`")
            }
        });
    }
    local.map(|_| match script.code.lines().any(|text| text.starts_with(&format!("{name} ="))) {
        true => format!(
            "the function gives `{name}` a value, so it has its own: choose another name there, or keep it in a dict, as \
             `state[\"{name}\"]`"
        ),
        false => format!("give `{name}` a value before this line"),
    })
}

/// A syntax error of JavaScript with what to write instead.
pub(crate) fn of_syntax(code: &str, error: ScriptError) -> ScriptError {
    let source = Source { code, is_javascript: true };
    if error.fix.is_some() || error.kind != ScriptErrorKind::Syntax {
        return error;
    }
    let Some((line, _)) = source.line(error.line) else { return error };
    let at = source.at(line, error.column);
    let fix = syntax::javascript(code, &error.message, line, at);
    ScriptError { fix, ..error }
}

/// The correction of a name that a script does not have. `line` is the line that it stands in.
pub(crate) fn of_name(language: Language, name: &str, line: &str) -> Option<String> {
    match language {
        Language::Javascript => node::habit(&format!("ReferenceError: {name} is not defined"), line),
        Language::Starlark => python::habit(&format!("Variable `{name}` not found"), line, line, line),
    }
}
