//! Looks at a script's text: the expressions of a line, and where a name got its value. No parser is at hand where a
//! script fails, and a wrong guess is only a wrong hint. Every look is bounded by the script, which has 64 KiB at most.

/// Most steps from a name to the one that it was taken from.
const MAX_STEPS: usize = 4;
/// Longest expression in a message, in bytes.
const MAX_SHOWN: usize = 80;
/// Most bytes that are looked at around a name, and for the end of a call: a name can stand ten thousand times in a line.
const NEAR: usize = 200;
const MAX_CALL: usize = 2000;

/// Where a name got its value, as far as the text shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin<'s> {
    /// The answer of a call.
    Call {
        /// The function as written, such as `shop.list_orders`.
        form: &'s str,
        /// The call as written, or its function where that is long.
        call: String,
        /// False if JavaScript lacks an `await`.
        is_awaited: bool,
    },
    /// A part of another value: this expression.
    Part(&'s str),
    /// An item of this expression.
    Item(&'s str),
    /// A key of this expression: `for (const name in items)`.
    Key(&'s str),
    /// Taken out of it by a pattern.
    Taken(Box<Origin<'s>>),
}

/// A look at one script.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub(super) code: &'s str,
    pub(super) is_javascript: bool,
}

/// A chain such as `a.b[0].c`, with the text behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain<'s> {
    pub(super) text: &'s str,
    pub(super) start: usize,
    pub(super) rest: &'s str,
}

impl<'s> Chain<'s> {
    /// The first name.
    pub(super) fn root(self) -> &'s str {
        let end = self.text.find(|c: char| !is_name(c)).unwrap_or(self.text.len());
        &self.text[..end]
    }

    /// The chain without its last part.
    pub(super) fn base(self) -> &'s str {
        let end = self.text.rfind(['.', '[']).unwrap_or(self.text.len());
        self.text[..end].trim_end_matches(['?', '.'])
    }

    pub(super) fn is_called(self) -> bool {
        self.rest.starts_with('(')
    }
}

impl<'s> Source<'s> {
    /// The text of a line, from 1, and the offset where it begins.
    pub(super) fn line(self, line: u32) -> Option<(&'s str, usize)> {
        let mut start = 0;
        for (text, number) in self.code.split('\n').zip(1..) {
            if number == line {
                return Some((text, start));
            }
            start += text.len() + 1;
        }
        None
    }

    /// The offset of a column, from 1: JavaScript counts units of UTF-16, Starlark characters.
    pub(super) fn at(self, line: &str, column: u32) -> usize {
        let mut left = column.saturating_sub(1) as usize;
        for (at, c) in line.char_indices() {
            if left == 0 {
                return at;
            }
            left = left.saturating_sub(if self.is_javascript { c.len_utf16() } else { 1 });
        }
        line.len()
    }

    /// The chains of a text, in order.
    pub(super) fn chains(text: &'s str) -> Vec<Chain<'s>> {
        let mut chains = Vec::new();
        let mut at = 0;
        while let Some(more) = text[at..].find(|c: char| c.is_alphabetic() || matches!(c, '_' | '$')) {
            let start = at + more;
            let end = start + chain_end(&text[start..]);
            chains.push(Chain { text: &text[start..end], start, rest: &text[end..] });
            at = end.max(start + 1);
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
        chains
    }

    /// Where `name` got its value, by the last place before `offset` that gives it one.
    pub(super) fn origin(self, name: &str, offset: usize) -> Option<Origin<'s>> {
        if name.is_empty() {
            return None;
        }
        let before = self.code.get(..offset)?;
        let mut end = before.len();
        while let Some(at) = before[..end].rfind(name) {
            end = at;
            let after = &self.code[at + name.len()..];
            if self.is_word(at, after)
                && let Some(origin) = self.given(at, after)
            {
                return Some(origin);
            }
        }
        None
    }

    /// The first line that gives `name` a value, as far as messages show it.
    pub(super) fn giver(self, name: &str) -> Option<&'s str> {
        let of_argument = |at: usize| {
            !self.is_javascript && self.code[..at].rsplit('\n').next().is_some_and(|line| line.contains('('))
        };
        let gives = |(at, _): &(usize, &str)| {
            let after = &self.code[at + name.len()..];
            let is_assigned = || assigned(after.trim_start()).is_some() && !of_argument(*at);
            self.is_word(*at, after) && (is_assigned() || self.given(*at, after).is_some())
        };
        let (at, _) = self.code.match_indices(name).find(gives)?;
        let start = self.code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.code[start..].lines().next().unwrap_or_default().trim();
        Some(&line[..line.floor_char_boundary(MAX_SHOWN)])
    }

    /// True if a name that stands at this place before `after` is no part of another.
    fn is_word(self, at: usize, after: &str) -> bool {
        !self.code[..at].ends_with(|c: char| is_name(c) || c == '.') && !after.starts_with(is_name)
    }

    /// The origin of a name that stands before `after`, if it is given a value here.
    fn given(self, at: usize, after: &'s str) -> Option<Origin<'s>> {
        let next = after.trim_start();
        if let Some(value) = assigned(next) {
            return self.value(value);
        }
        for word in ["of ", "in "] {
            if let Some(items) = next.strip_prefix(word)
                && self.is_loop(at)
            {
                let key = Self::chains(items).first().copied().filter(|_| self.is_javascript && word == "in ");
                return Some(key.map_or_else(|| self.item(items), |of| Origin::Key(of.text)));
            }
        }
        if !self.is_javascript {
            return None;
        }
        // `{ a, name } = value`, `[name, b] = value`.
        let next = &next[..next.floor_char_boundary(NEAR)];
        let close = next.find(['}', ']', '=', '\n', ';', '(']).filter(|at| matches!(next.as_bytes()[*at], b'}' | b']'));
        if let Some(close) = close
            && let Some(value) = assigned(after.trim_start()[close + 1..].trim_start())
        {
            return self.value(value).map(|origin| Origin::Taken(Box::new(origin)));
        }
        // `items.map((name) => …)`.
        let parameters = next.find(['\n', ';', '{', '=']).map(|end| &next[..end])?;
        let is_parameter =
            next[parameters.len()..].starts_with("=>") && parameters.chars().all(|c| " ,)_".contains(c) || is_name(c));
        let called = self.code[..at].trim_end_matches(['(', ' ']).len();
        let near = self.code.floor_char_boundary(called.saturating_sub(NEAR));
        let over = &self.code[near..called];
        if is_parameter {
            let line = over.rfind('\n').map_or(0, |newline| newline + 1);
            let chain = Self::chains(&over[line..]).pop()?;
            let is_last = near + line + chain.start + chain.text.len() == called;
            return Some(Origin::Item(chain.base())).filter(|_| is_last && chain.base() != chain.text);
        }
        None
    }

    fn item(self, items: &'s str) -> Origin<'s> {
        match self.value(items) {
            Some(call @ Origin::Call { .. }) => Origin::Taken(Box::new(call)),
            _ => Origin::Item(Self::chains(items).first().map_or("", |chain| chain.text)),
        }
    }

    /// True if the name at this place is the variable of a loop or comprehension.
    fn is_loop(self, at: usize) -> bool {
        let before = self.code[..at].trim_end();
        let word = before.rsplit(|c: char| !is_name(c)).next().unwrap_or_default();
        matches!(word, "for" | "const" | "let" | "var")
    }

    /// Where a value that begins here comes from.
    pub(super) fn value(self, text: &'s str) -> Option<Origin<'s>> {
        let bare = text.trim_start_matches('(');
        let awaited = bare.strip_prefix("await ").map(|rest| rest.trim_start_matches('('));
        let value = awaited.unwrap_or(bare);
        if !value.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$')) {
            return None;
        }
        let end = chain_end(value);
        let chain = Chain { text: &value[..end], start: 0, rest: &value[end..] };
        if !chain.is_called() {
            return Some(Origin::Part(chain.text));
        }
        let closed = closing(chain.rest);
        let behind = closed.map_or("", |closed| chain.rest[closed..].trim_start_matches(')'));
        if behind.starts_with(['.', '[']) || behind.starts_with("?.") {
            return None;
        }
        let call = match closed {
            Some(closed) if end + closed <= MAX_SHOWN && !chain.rest[..closed].contains('\n') => &value[..end + closed],
            _ => chain.text,
        };
        let is_awaited = awaited.is_some() || !self.is_javascript;
        Some(Origin::Call { form: chain.text, call: call.to_owned(), is_awaited })
    }

    /// The call that a name's value comes from, and the steps between: each an expression and its origin.
    pub(super) fn trail(self, name: &'s str, offset: usize) -> Vec<(&'s str, Origin<'s>)> {
        let (mut trail, mut name) = (Vec::new(), name);
        while trail.len() < MAX_STEPS
            && let Some(origin) = self.origin(name, offset)
        {
            let next = match &origin {
                Origin::Part(of) | Origin::Item(of) => Self::chains(of).first().map(|chain| chain.root()),
                Origin::Taken(of) => match &**of {
                    Origin::Part(of) => Self::chains(of).first().map(|chain| chain.root()),
                    _ => None,
                },
                Origin::Call { .. } | Origin::Key(_) => None,
            };
            trail.push((name, origin));
            match next {
                Some(next) if next != name => name = next,
                _ => break,
            }
        }
        trail
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// The value behind `=`, unless this is a comparison or an arrow.
fn assigned(text: &str) -> Option<&str> {
    text.strip_prefix('=').filter(|rest| !rest.starts_with(['=', '>'])).map(str::trim_start)
}

/// Length of the chain that begins here.
fn chain_end(text: &str) -> usize {
    let mut at = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    loop {
        let rest = &text[at..];
        let dots = if rest.starts_with("?.") { 2 } else { usize::from(rest.starts_with('.')) };
        if dots > 0 && rest[dots..].starts_with(|c: char| is_name(c) && !c.is_numeric()) {
            let name = &rest[dots..];
            at += dots + name.find(|c: char| !is_name(c)).unwrap_or(name.len());
        } else if rest.starts_with('[')
            && let Some(end) = rest.find([']', '\n', ';']).filter(|end| rest.as_bytes()[*end] == b']' && *end < 40)
        {
            at += end + 1;
        } else {
            return at;
        }
    }
}

/// Length of the parenthesised text that begins here, with both parentheses; strings in it are skipped.
pub(super) fn closing(text: &str) -> Option<usize> {
    let text = &text[..text.floor_char_boundary(MAX_CALL)];
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(mark) if c == mark => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
            None if matches!(c, '(' | '[' | '{') => depth += 1,
            None if matches!(c, ')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Origin, Source};

    #[test]
    fn a_name_leads_to_where_it_got_its_value() {
        for (code, name, wanted) in [
            ("const a = await s.t({ n: \")\" });\na", "a", "Call s.t"),
            ("const a = s.t({});\na", "a", "Call s.t, not awaited"),
            ("let a = b.c[0];\na", "a", "Part b.c[0]"),
            ("const { x, a } = await s.t();\na", "a", "Taken Call s.t"),
            ("const [a] = b;\na", "a", "Taken Part b"),
            ("b.items.map((a, i) => a", "a", "Item b.items"),
            ("for (const a of b.items) a", "a", "Item b.items"),
            ("for (const a in b.items) a", "a", "Key b.items"),
            ("const a = await s.t().x;\na", "a", "none"),
            ("a === 1; x.a = 2; ba = 3;\na", "a", "none"),
            ("const a = (await s.t({}));\na", "a", "Call s.t"),
            ("日本 = é; const a = é.ü;\na", "a", "Part é.ü"),
        ] {
            fn shown(origin: Option<Origin<'_>>) -> String {
                match origin {
                    None => "none".to_owned(),
                    Some(Origin::Call { form, is_awaited: true, .. }) => format!("Call {form}"),
                    Some(Origin::Call { form, .. }) => format!("Call {form}, not awaited"),
                    Some(Origin::Part(of)) => format!("Part {of}"),
                    Some(Origin::Item(of)) => format!("Item {of}"),
                    Some(Origin::Key(of)) => format!("Key {of}"),
                    Some(Origin::Taken(of)) => format!("Taken {}", shown(Some(*of))),
                }
            }
            let source = Source { code, is_javascript: true };
            assert_eq!(shown(source.origin(name, code.len())), wanted, "{code}");
        }
    }

    #[test]
    fn any_text_can_be_looked_at() {
        let parts = [
            "a", ".", "[", "]", "(", ")", "=", ">", "é", "😀", "\n", " of ", "{", "}", "\"", "\\", "await ", "?.", "$",
        ];
        let mut seed = 7_usize;
        for _ in 0..20_000 {
            let mut code = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                code.push_str(parts[(seed >> 33) % parts.len()]);
            }
            for is_javascript in [true, false] {
                let source = Source { code: &code, is_javascript };
                for name in ["a", "é", "$", ""] {
                    let _ = source.trail(name, code.len());
                }
                let _ = Source::chains(&code);
            }
        }
    }
}
