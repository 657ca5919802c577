//! The expression of a line that an error is about, and where its value comes from.

use super::source::{Chain, Origin, Source, closing};
use super::{FailedScript, answer};

/// Errors of Starlark about a value that is read by `[…]`.
const INDEXED: &[&str] = &["Key ", "Operation ", "Type of parameters mismatch, expected `int`"];

/// Most expressions of a line, from the error on, that are looked at for the one that it is about.
const MAX_CHAINS: usize = 100;

/// The expression that an error is about, and a better message.
pub(super) struct Subject {
    pub(super) expression: String,
    pub(super) message: Option<String>,
}

/// A look at the line of an error.
pub(super) struct Look<'s> {
    pub(super) script: &'s FailedScript<'s>,
    pub(super) source: Source<'s>,
    pub(super) message: &'s str,
    pub(super) line: &'s str,
    /// Offset of the line in the code, and of the error in the line.
    pub(super) start: usize,
    pub(super) at: usize,
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

    pub(super) fn javascript(&self, message: &str) -> Option<Subject> {
        if message.starts_with("SyntaxError: ") && !self.script.answers.is_empty() {
            let argument = &self.line[self.line.find("JSON.parse(")? + "JSON.parse".len()..];
            let expression = argument[..closing(argument)?].trim_matches(['(', ')']).to_owned();
            return Some(Subject { expression, message: None });
        }
        let error = message.strip_prefix("TypeError: ")?;
        // QuickJS names no expression, V8 does.
        if error.ends_with("not a function") {
            let chain = self.chain(|chain| chain.rest.starts_with('(') || chain.rest.starts_with("?.("))?;
            let (expression, shown) = self.whole(chain, chain.base());
            let message = Some(format!("TypeError: `{shown}{}` is not a function", chain.text));
            return Some(Subject { expression, message });
        }
        // QuickJS reads the iterator first.
        let unspreadable = error.strip_prefix("cannot read property 'Symbol.iterator' of ");
        if unspreadable.is_some() || error.contains("not iterable") {
            return self.not_iterable(unspreadable);
        }
        if error.starts_with("Cannot convert undefined or null to object") {
            let before = ["entries(", "keys(", "values(", "fromEntries("];
            let is_argument = |chain: &Chain<'_>| before.iter().any(|call| self.line[..chain.start].ends_with(call));
            let expression = self.chain(is_argument)?.text.to_owned();
            let message = Some(format!("TypeError: `{expression}` is undefined or null, it has no entries"));
            return Some(Subject { expression, message });
        }
        if error.contains("igInt") || error.contains("bigint") {
            let chains = Source::chains(self.line).into_iter().take(MAX_CHAINS);
            let mut origins = chains.filter(|chain| !chain.is_called() && self.about(chain.text).is_some());
            let subject = |chain: Chain<'_>| Subject {
                expression: chain.text.to_owned(),
                message: Some(format!("{message}, at `{}`", chain.text)),
            };
            return origins.next().map(subject);
        }
        let (value, property) = unread(error)?;
        let (dotted, indexed) = (format!(".{property}"), format!("[{property}]"));
        let reads = |text: &str| {
            let dotted = text.strip_prefix(&dotted);
            dotted.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())) || text.starts_with(&indexed)
        };
        let call = |chain: &Chain<'_>| closing(chain.rest).filter(|_| chain.rest.starts_with('('));
        let end = |chain: &Chain<'_>| chain.start + chain.text.len();
        let is_near = |chain: &Chain<'_>| {
            let behind = call(chain).map(|closed| end(chain) + closed);
            end(chain) >= self.at || behind.is_some_and(|behind| (behind..=behind + 1).contains(&self.at))
        };
        for chain in Source::chains(self.line).into_iter().filter(is_near).take(MAX_CHAINS) {
            // `items.find((x) => x.name).name`: the answer of the call, not what its function reads. V8's place is behind
            // the call, that of QuickJS before it.
            let closed = call(&chain);
            let is_method = chain.text.contains('.') || self.line[..chain.start].ends_with('.');
            if is_method && closed.is_some_and(|closed| reads(&chain.rest[closed..])) {
                let (expression, shown) = self.whole(chain, chain.base());
                let message = format!("TypeError: `{shown}{}(…)` is {value}, it has no `{property}`", chain.text);
                return Some(Subject { expression, message: Some(message) });
            }
            for (dot, _) in chain.text.match_indices(['.', '[']).chain([(chain.text.len(), "")]) {
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

    /// The value of a loop, a spread or a pattern; `value` says that it is undefined or null.
    fn not_iterable(&self, value: Option<&str>) -> Option<Subject> {
        let chain = self.chain(|chain| {
            let before = self.line[..chain.start].trim_end_matches(['(', ' ']);
            let before = before.strip_suffix("await").unwrap_or(before).trim_end();
            before.ends_with("...") || before.ends_with(" of") || before.ends_with('=')
        })?;
        let expression = self.line[chain.start..].to_owned();
        let awaited = self.line[..chain.start].trim_end().ends_with("await");
        let expression = if awaited { format!("await {expression}") } else { expression };
        let shown = if chain.rest.starts_with('(') { "the value".to_owned() } else { format!("`{}`", chain.text) };
        let message = match value {
            Some(value) => format!("TypeError: {shown} is {value}, which is not iterable"),
            None => format!("TypeError: {shown} is not iterable"),
        };
        Some(Subject { expression, message: Some(message) })
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

    pub(super) fn starlark(&self, message: &str) -> Option<Subject> {
        let rest = &self.line[self.at..];
        let chain = Source::chains(rest).first().copied().filter(|chain| chain.start == 0)?;
        let attribute = message.strip_prefix("Object of type `").and_then(|rest| rest.split('`').nth(2));
        let owner = match attribute {
            Some(attribute) => chain.text.find(&format!(".{attribute}")).map_or(chain.text, |dot| &chain.text[..dot]),
            None if message.starts_with("Operation `len()`") && chain.text == "len" => chain.rest.strip_prefix('(')?,
            None if message.starts_with("Operation `(iter)`") && chain.text == "for" => rest.split_once(" in ")?.1,
            None if message.contains("`text` doesn't match") => chain.rest.strip_prefix('(')?,
            None if INDEXED.iter().any(|start| message.starts_with(start)) => match chain.text.rfind('[') {
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
    pub(super) fn about(&self, expression: &'_ str) -> Option<(String, Option<String>)> {
        let source = self.source;
        // An expression may itself be a call: `of await shop.list()`.
        let direct = Source { code: expression, is_javascript: source.is_javascript };
        if let Some(Origin::Call { form, call, is_awaited }) = direct.value(expression)
            && let Some(told) = self.of_call(None, form, &call, is_awaited)
        {
            return Some(told);
        }
        let root = Source::chains(expression).first()?.root().to_owned();
        let (mut told, mut read) = (Vec::new(), expression.to_owned());
        for (name, origin) in source.trail(self.name_in_code(&root)?, self.start + self.line.len()) {
            match origin {
                Origin::Call { form: "parallel" | "forge.parallel", .. } if self.reads_results(name, &read) => {
                    told.push(format!(
                        "`{name}.results` is the values of parallel: a list with None where a call failed"
                    ));
                    let fix = format!("leave out what is None; `{name}.errors` says why each call failed");
                    return Some((told.join("; "), Some(fix).filter(|_| self.message.contains("NoneType"))));
                }
                Origin::Call { form, call, is_awaited } => {
                    let (about, fix) = self.of_call(Some(name), form, &call, is_awaited)?;
                    told.push(about);
                    return Some((told.join("; "), fix));
                }
                Origin::Part(of) => {
                    told.push(format!("`{name}` is `{of}`"));
                    read = of.to_owned();
                }
                Origin::Item(of) => {
                    told.push(format!("`{name}` is an item of `{of}`"));
                    read = of.to_owned();
                }
                Origin::Key(of) => {
                    let what = format!("`{name}` is a key of `{of}`, not an item");
                    return Some((what, Some(format!("loop over the items: `for (const {name} of {of})`"))));
                }
                Origin::Taken(of) => match *of {
                    Origin::Call { form, call, is_awaited } => {
                        let what = if expression == name { "it".to_owned() } else { format!("`{name}`") };
                        let (about, fix) = self.of_call(None, form, &call, is_awaited)?;
                        told.push(format!("{what} is taken from {about}"));
                        return Some((told.join("; "), fix));
                    }
                    Origin::Part(of) | Origin::Item(of) => told.push(format!("`{name}` is taken from `{of}`")),
                    Origin::Taken(_) | Origin::Key(_) => return None,
                },
            }
        }
        (!told.is_empty()).then(|| (told.join("; "), None))
    }

    /// True if `read` takes the values of the outcomes `name`, in Starlark. In JavaScript both are the same array.
    fn reads_results(&self, name: &str, read: &str) -> bool {
        !self.script.is_javascript && read.contains(&format!("{name}.results"))
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
                let what = "a list of outcomes {ok, value, error}: the value of one is `.value`; `.results` of the list has all values";
                Some((subject(what.to_owned()), None))
            }
            "try_call" => {
                let what = format!("an outcome {{ok, value, error}}: its value is `{}.value`", name.unwrap_or("r"));
                Some((subject(what), None))
            }
            _ => {
                let fix = answer::way(self, name.unwrap_or("answer"), shape?);
                Some((subject(format!("the answer of {form}: {}", shape?)), fix))
            }
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
