//! Explains the error that ended a script: the value that it came from, and what to write instead.

mod habits;
mod source;
mod syntax;

use wire::{Language, ScriptError, ScriptErrorKind, Server};

use self::source::{Chain, Origin, Source};

/// Longest explanation added to a message, in bytes.
const MAX_ADDED: usize = 600;

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
    if !matches!(error.kind, ScriptErrorKind::Script | ScriptErrorKind::Syntax) {
        return error;
    }
    let source = Source { code: script.code, is_javascript: script.is_javascript };
    let Some((line, start)) = source.line(error.line) else { return error };
    let column = (error.column.saturating_sub(1)) as usize;
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let look = Look { script, source, line, start, at };
    let subject = if script.is_javascript { look.javascript(&error.message) } else { look.starlark(&error.message) };
    let mut message = match &subject {
        Some(Subject { message: Some(message), .. }) => message.clone(),
        _ => error.message.clone(),
    };
    let habit = match script.is_javascript {
        true => habits::javascript(&message, line),
        false => habits::starlark(&message, line, &line[at..]),
    };
    let about = subject.and_then(|subject| look.about(&subject.expression));
    if let Some((about, _)) = &about {
        message.push_str("; ");
        message.push_str(&about[..about.floor_char_boundary(MAX_ADDED)]);
    }
    let fix = error.fix.or(habit).or(about.and_then(|(_, fix)| fix));
    ScriptError { message, fix, ..error }
}

/// A syntax error of JavaScript with what to write instead.
pub(crate) fn of_syntax(code: &str, error: ScriptError) -> ScriptError {
    let source = Source { code, is_javascript: true };
    if error.fix.is_some() || error.kind != ScriptErrorKind::Syntax {
        return error;
    }
    let Some((line, _)) = source.line(error.line) else { return error };
    let column = error.column.saturating_sub(1) as usize;
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let fix = syntax::javascript(code, &error.message, line, at);
    ScriptError { fix, ..error }
}

/// What to write in place of a name that a script does not have. `line` is the line that it stands in.
pub(crate) fn of_name(language: Language, name: &str, line: &str) -> Option<String> {
    match language {
        Language::Javascript => habits::javascript(&format!("ReferenceError: {name} is not defined"), line),
        Language::Starlark => habits::starlark(&format!("Variable `{name}` not found"), line, line),
    }
}

/// The expression that an error is about, and a better message.
struct Subject {
    expression: String,
    message: Option<String>,
}

struct Look<'s> {
    script: &'s FailedScript<'s>,
    source: Source<'s>,
    line: &'s str,
    /// Offset of the line in the code, and of the error in the line.
    start: usize,
    at: usize,
}

impl<'s> Look<'s> {
    /// The chain of the line that contains the error's place, else the first behind it, of those that `fit`.
    fn chain(&self, fit: impl Fn(&Chain<'s>) -> bool) -> Option<Chain<'s>> {
        let chains: Vec<_> = Source::chains(self.line).into_iter().filter(fit).collect();
        let holds = |chain: &&Chain<'_>| chain.start <= self.at && self.at <= chain.start + chain.text.len();
        chains
            .iter()
            .find(holds)
            .or_else(|| chains.iter().find(|chain| chain.start >= self.at))
            .or(chains.first())
            .copied()
    }

    fn javascript(&self, message: &str) -> Option<Subject> {
        let error = message.strip_prefix("TypeError: ")?;
        // QuickJS names no expression, V8 does.
        if error.ends_with("not a function") {
            let chain = self.chain(|chain| chain.rest.starts_with('(') || chain.rest.starts_with("?.("))?;
            let (expression, shown) = self.whole(chain, chain.base());
            let message = Some(format!("TypeError: `{shown}{}` is not a function", chain.text));
            return Some(Subject { expression, message });
        }
        if error.contains("not iterable") {
            let chain = self.chain(|chain| {
                let before = self.line[..chain.start].trim_end_matches(['(', ' ']);
                let before = before.strip_suffix("await").unwrap_or(before).trim_end();
                before.ends_with("...") || before.ends_with(" of") || before.ends_with('=')
            })?;
            let expression = self.line[chain.start..].to_owned();
            let awaited = self.line[..chain.start].trim_end().ends_with("await");
            let expression = if awaited { format!("await {expression}") } else { expression };
            let shown = if chain.rest.starts_with('(') { "the value".to_owned() } else { format!("`{}`", chain.text) };
            return Some(Subject { expression, message: Some(format!("TypeError: {shown} is not iterable")) });
        }
        let (value, property) = unread(error)?;
        let dotted = format!(".{property}");
        let reads = |text: &str| {
            text.strip_prefix(&dotted).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        for chain in Source::chains(self.line).into_iter().filter(|chain| chain.start + chain.text.len() >= self.at) {
            for (dot, _) in chain.text.match_indices('.').chain([(chain.text.len(), "")]) {
                if reads(&chain.text[dot..]) || (dot == chain.text.len() && reads(chain.rest)) {
                    let owner = &chain.text[..dot];
                    let (expression, shown) = self.whole(chain, owner);
                    let message = Some(format!("TypeError: `{shown}{owner}` is {value}, it has no `{property}`"));
                    return Some(Subject { expression, message });
                }
            }
        }
        None
    }

    /// The expression that a chain goes on from, as in `(await shop.list()).items`, or else `owner`; and how messages
    /// show that there is something before the chain.
    fn whole(&self, chain: Chain<'s>, owner: &str) -> (String, &'static str) {
        let before = self.line[..chain.start].trim_end_matches(['.', '?']);
        if before.len() == chain.start || !before.ends_with(')') {
            return (owner.to_owned(), "");
        }
        let mut depth = 0_usize;
        for (at, c) in before.char_indices().rev() {
            match c {
                ')' => depth += 1,
                '(' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let callee = Source::chains(&before[..at]).last().copied().filter(|callee| {
                    callee.start + callee.text.len() == at && !matches!(callee.text, "return" | "of" | "in" | "await")
                });
                let start = callee.map_or(at, |callee| callee.start);
                return (before[start..].to_owned(), "….");
            }
        }
        (owner.to_owned(), "….")
    }

    fn starlark(&self, message: &str) -> Option<Subject> {
        let rest = &self.line[self.at..];
        let chain = Source::chains(rest).first().copied().filter(|chain| chain.start == 0)?;
        let attribute = message.strip_prefix("Object of type `").and_then(|rest| rest.split('`').nth(2));
        let owner = match attribute {
            Some(attribute) => chain.text.find(&format!(".{attribute}")).map_or(chain.text, |dot| &chain.text[..dot]),
            None if message.starts_with("Key ") || message.starts_with("Operation ") => match chain.text.rfind('[') {
                Some(bracket) => &chain.text[..bracket],
                None => chain.text,
            },
            None => return None,
        };
        let message = message
            .starts_with("Object of type `NoneType`")
            .then(|| format!("`{owner}` is None, it has no `{}`", attribute.unwrap_or_default()));
        Some(Subject { expression: owner.to_owned(), message })
    }

    /// Where the value of an expression comes from in words, and what to write instead.
    fn about(&self, expression: &'_ str) -> Option<(String, Option<String>)> {
        let source = self.source;
        // An expression may itself be a call: `of await shop.list()`.
        let direct = Source { code: expression, is_javascript: source.is_javascript };
        if let Some(Origin::Call { form, call, is_awaited }) = direct.value(expression) {
            return self.of_call(None, form, &call, is_awaited);
        }
        let root = Source::chains(expression).first()?.root().to_owned();
        let mut told: Vec<String> = Vec::new();
        for (name, origin) in source.trail(self.name_in_code(&root)?, self.start + self.line.len()) {
            match origin {
                Origin::Call { form, call, is_awaited } => {
                    let (about, fix) = self.of_call(Some(name), form, &call, is_awaited)?;
                    told.push(about);
                    return Some((told.join("; "), fix));
                }
                Origin::Part(of) => told.push(format!("`{name}` is `{of}`")),
                Origin::Item(of) => told.push(format!("`{name}` is an item of `{of}`")),
                Origin::Taken(of) => match *of {
                    Origin::Call { form, call, is_awaited } => {
                        let what = if expression == name { "it".to_owned() } else { format!("`{name}`") };
                        let (about, fix) = self.of_call(None, form, &call, is_awaited)?;
                        told.push(format!("{what} is taken from {about}"));
                        return Some((told.join("; "), fix));
                    }
                    Origin::Part(of) | Origin::Item(of) => told.push(format!("`{name}` is taken from `{of}`")),
                    Origin::Taken(_) => return None,
                },
            }
        }
        (!told.is_empty()).then(|| (told.join("; "), None))
    }

    /// The same text in the code, which outlives the expression.
    fn name_in_code(&self, name: &str) -> Option<&'s str> {
        let at = self.script.code.find(name)?;
        self.script.code.get(at..at + name.len())
    }

    fn of_call(
        &self,
        name: Option<&str>,
        form: &str,
        call: &str,
        is_awaited: bool,
    ) -> Option<(String, Option<String>)> {
        let subject = |what: String| match name {
            Some(name) => format!("`{name}` is {what}"),
            None => what,
        };
        let shape = self.script.answers.iter().find(|(made, _)| made == form).map(|(_, shape)| shape);
        let root = form.split_once('.').map_or("", |(root, _)| root);
        let is_call =
            matches!(root, "forge" | "manifest") || self.script.servers.iter().any(|server| server.ident == root);
        if !is_awaited && is_call {
            return Some((subject(format!("a promise: `await {call}`")), Some("write the `await`".to_owned())));
        }
        match form {
            "forge.parallel" if self.script.is_javascript => {
                let what =
                    "the results of forge.parallel: an array with null where a call failed; its `.errors` say why";
                Some((subject(what.to_owned()), None))
            }
            "parallel" | "forge.parallel" => {
                let what = "the outcomes of parallel: the value of one is `.value`, all values are `.results`";
                Some((subject(what.to_owned()), None))
            }
            "try_call" => {
                let what = format!("an outcome {{ok, value, error}}: its value is `{}.value`", name.unwrap_or("r"));
                Some((subject(what), None))
            }
            _ => Some((subject(format!("the answer of {form}: {}", shape?)), None)),
        }
    }
}

/// Value and property of `cannot read property 'x' of undefined` (QuickJS) and `Cannot read properties of undefined
/// (reading 'x')` (V8).
fn unread(message: &str) -> Option<(&str, &str)> {
    if let Some(rest) = message.strip_prefix("cannot read property '") {
        let (property, value) = rest.rsplit_once("' of ")?;
        return Some((value, property));
    }
    let rest = message.strip_prefix("Cannot read properties of ")?;
    let (value, property) = rest.split_once(" (reading '")?;
    Some((value, property.strip_suffix("')")?))
}
