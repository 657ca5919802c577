//! Reads the calls of a script from its syntax tree: names followed through `const`, literals, and the control around
//! each call. What is not plain is left out. An outline without a call that the script may make has to be partial: each
//! name of a server is followed to its calls, or makes it so.

mod javascript;
mod starlark;

use serde_json::Value;
use wire::{Args, How, Known, Name, Outline, Place, Read, Site, Target, Used};

pub(super) use javascript::outline as of_javascript;
pub(super) use starlark::outline as of_starlark;

/// The object that has all of the script API.
const FORGE: &str = "forge";

/// Deepest chain of names that is followed.
const MAX_LEVELS: usize = 16;

/// Most answers of one `Promise.all`, with those of another one in it by its name.
const MAX_ALL: usize = 100;

/// Where a value comes from.
#[derive(Debug, Clone)]
enum Origin {
    /// An undeclared name and what follows it; true if a text named the server.
    Names(Vec<String>, bool),
    /// Part of the answer of the call with this number; true for its promise.
    Answer { call: usize, path: Vec<String>, is_promise: bool },
    /// Several of them, as `Promise.all` gives them; true for the promise.
    All(Vec<Option<Origin>>, bool),
}

impl Origin {
    /// A part of it.
    fn part(self, name: &str) -> Option<Self> {
        match self {
            Self::Names(mut names, is_named) => {
                push(&mut names, name)?;
                Some(Self::Names(names, is_named))
            }
            Self::Answer { call, mut path, is_promise: false } => {
                push(&mut path, name)?;
                Some(Self::Answer { call, path, is_promise: false })
            }
            Self::All(items, false) => items.into_iter().nth(name.parse().ok()?)?,
            Self::Answer { .. } | Self::All(..) => None,
        }
    }

    /// Any item of it.
    fn item(self) -> Option<Self> {
        if self.is_answer() { self.part(ITEM) } else { None }
    }

    fn is_answer(&self) -> bool {
        matches!(self, Self::Answer { .. })
    }

    /// True for a server, a tool, or a function that calls one (`callers`): passed on, it hides which tool is called.
    fn hides(&self, callers: &[&str], is_global: impl Fn(&str) -> bool) -> bool {
        let Self::Names(names, is_server) = self else { return false };
        match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [FORGE] => true,
            [name] | [FORGE, name] if callers.contains(name) => true,
            [root, ..] => *is_server || !is_global(root),
            [] => false,
        }
    }

    /// Calls and names that it is made of.
    fn size(&self) -> usize {
        let Self::All(items, _) = self else { return 1 };
        1 + items.iter().map(|item| item.as_ref().map_or(1, Self::size)).sum::<usize>()
    }

    fn awaited(self) -> Self {
        match self {
            Self::Answer { call, path, .. } => Self::Answer { call, path, is_promise: false },
            Self::All(items, _) => Self::All(items.into_iter().map(|item| item.map(Self::awaited)).collect(), false),
            names @ Self::Names(..) => names,
        }
    }
}

/// Properties of promises.
const OF_PROMISES: &[&str] = &["then", "catch", "finally", "constructor", "toString"];

/// Step of a path that stands for any item.
const ITEM: &str = "[]";

fn push(path: &mut Vec<String>, name: &str) -> Option<()> {
    (path.len() < wire::MAX_PATH && name.len() <= 200).then(|| path.push(name.to_owned()))
}

/// A reader of a language's syntax tree.
trait Drafting {
    /// What it has found so far.
    fn draft(&mut self) -> &mut Draft;

    /// Reads a part that runs as `flow` says.
    fn under(&mut self, flow: Flow, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.draft().flow, flow);
        read(self);
        self.draft().flow = outer;
    }

    /// Reads a test and both ways behind it, of which the second may ask for the same by another name.
    fn ways(
        &mut self,
        is_choice: bool,
        test: impl FnOnce(&mut Self),
        first: impl FnOnce(&mut Self),
        second: impl FnOnce(&mut Self),
    ) {
        let outer = if is_choice { self.draft().choose() } else { self.draft().choice };
        test(self);
        let choice = std::mem::replace(&mut self.draft().choice, outer);
        let flow = self.draft().flow.branch();
        self.under(flow, |reader| {
            first(reader);
            reader.draft().choice = choice;
            second(reader);
        });
        self.draft().choice = outer;
    }
}

/// The outline in the making.
#[derive(Default)]
struct Draft {
    outline: Outline,
    /// Calls whose answer the script changes: its keys are no longer those of the tool.
    changed: Vec<usize>,
    /// Keys of answers that the script asks for before it reads them.
    asked: Vec<(usize, Read)>,
    /// Bytes left for names.
    room: usize,
    /// Bytes left for literals, of which a long one may be named often.
    literals: usize,
    flow: Flow,
    /// True behind a `return` or `throw`, which may be conditional.
    has_left: bool,
    /// True where a script asks for what may not be there.
    is_guarded: bool,
    /// Number of the choice around what is read, 0 without one, and of the last one.
    choice: u32,
    choices: u32,
}

impl Draft {
    fn new(code: &str) -> Self {
        let (room, literals) = (code.len() + (8 << 10), code.len() * 2);
        Self { room, literals, flow: Flow::STRAIGHT, ..Self::default() }
    }

    fn is_certain(&self) -> bool {
        self.flow.is_certain && !self.has_left
    }

    /// Begins a choice, unless one is around it; returns that around it.
    fn choose(&mut self) -> u32 {
        let outer = self.choice;
        if outer == 0 {
            self.choices += 1;
            self.choice = self.choices;
        }
        outer
    }

    /// Makes reads since `from` no questions: the script takes `whole`, of which they are parts, in their place.
    fn unask(&mut self, from: usize, whole: Option<Origin>) {
        let Some(Origin::Answer { call, path, .. }) = whole else { return };
        let asked = self.asked.iter_mut().skip(from);
        let is_part = |read: &Read| read.path.len() > path.len() && read.path.starts_with(&path);
        asked.filter(|(of, read)| *of == call && is_part(read)).for_each(|(_, read)| read.how = How::Key);
    }

    /// Takes room for names; a name may stand for a long path, over and over.
    fn has_room(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// The value of an argument, where there is room for it.
    fn known(&mut self, value: &Value) -> Known {
        let text = value.to_string();
        let Some(left) = self.literals.checked_sub(text.len()) else { return Known::Nothing };
        self.literals = left;
        Known::Json(text)
    }

    /// Adds a call, unless there are too many.
    fn add(&mut self, at: Place, target: Target, args: Args, is_awaited: bool) -> Option<usize> {
        if self.outline.calls.len() >= wire::MAX_CALLS || !self.has_room(target.bytes() + args.names()) {
            self.outline.is_partial = true;
            return None;
        }
        let (is_certain, repeats) = (self.is_certain() && is_awaited, self.flow.repeats);
        self.outline.calls.push(Site { at, target, args, is_certain, repeats, answered: None, reads: Vec::new() });
        Some(self.outline.calls.len() - 1)
    }

    /// Notes a part of the script API.
    fn used(&mut self, used: Option<Used>) {
        let Some(used) = used.filter(|used| !self.outline.uses.contains(used)) else { return };
        if self.outline.uses.len() < wire::MAX_CALLS && self.has_room(used.server().map_or(0, String::len)) {
            self.outline.uses.insert(used);
        } else {
            self.outline.is_partial = true;
        }
    }

    /// Notes a read of `key` from what comes from an answer.
    fn read(&mut self, origin: &Origin, key: &str, how: How, at: impl FnOnce() -> Place) {
        let Origin::Answer { call, path, is_promise } = origin else { return };
        let how = if *is_promise { How::OfPromise } else { how };
        if (*is_promise && OF_PROMISES.contains(&key)) || path.len() >= wire::MAX_PATH {
            return;
        }
        let path: Vec<String> = path.iter().map(String::as_str).chain([key]).map(str::to_owned).collect();
        let bytes = path.iter().map(String::len).sum();
        if self.is_guarded {
            if self.asked.len() < wire::MAX_READS && self.has_room(bytes) {
                let how = if *is_promise { how } else { How::Guarded };
                self.asked.push((*call, Read { at: at(), path, how, is_certain: false, choice: self.choice }));
            }
            return;
        }
        let (is_certain, choice) = (self.is_certain(), self.choice);
        if self.outline.calls.get(*call).is_some_and(|site| site.reads.len() < wire::MAX_READS)
            && self.has_room(bytes)
            && let Some(site) = self.outline.calls.get_mut(*call)
        {
            site.reads.push(Read { at: at(), path, how, is_certain, choice });
        }
    }

    /// Notes an undeclared name, at the first place that certainly runs.
    fn name(&mut self, name: &str, at: impl FnOnce() -> Place, is_certain: bool, fix: impl FnOnce() -> Option<String>) {
        if let Some(known) = self.outline.names.iter_mut().find(|known| known.name == name) {
            if is_certain && !known.is_certain {
                (known.at, known.is_certain) = (at(), true);
            }
        } else if self.outline.names.len() < wire::MAX_READS {
            let fix = fix();
            if self.has_room(name.len() + fix.as_ref().map_or(0, String::len)) {
                self.outline.names.push(Name { name: name.to_owned(), at: at(), is_certain, fix });
            }
        }
    }

    /// Notes that the script certainly has these answers by now.
    fn wait(&mut self, origin: &Origin) {
        let now = self.outline.calls.len();
        match origin {
            Origin::Answer { call, .. } => {
                if let Some(site) = self.outline.calls.get_mut(*call) {
                    site.answered.get_or_insert(now);
                }
            }
            Origin::All(items, _) => items.iter().flatten().for_each(|item| self.wait(item)),
            Origin::Names(..) => {}
        }
    }

    fn finish(mut self) -> Outline {
        for call in &self.changed {
            if let Some(site) = self.outline.calls.get_mut(*call) {
                site.reads.clear();
            }
        }
        for (call, asked) in &self.asked {
            if let Some(site) = self.outline.calls.get_mut(*call) {
                // Behind the question it reads what need not be there: a part, or another way.
                site.reads.retain_mut(|read| {
                    let is_behind = !read.is_certain && read.path.starts_with(&asked.path);
                    let is_further = read.path.len() > asked.path.len() || read.choice > 0;
                    let is_kept = is_further && matches!(read.how, How::Key | How::Guarded);
                    read.how = if is_behind && is_kept { How::Guarded } else { read.how };
                    !is_behind || is_kept
                });
            }
        }
        for (call, asked) in self.asked {
            if let Some(site) = self.outline.calls.get_mut(call).filter(|site| site.reads.len() < wire::MAX_READS)
                && asked.how == How::Guarded
                && !self.changed.contains(&call)
            {
                site.reads.push(asked);
            }
        }
        self.outline
    }
}

/// The control around a piece of code.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    is_certain: bool,
    repeats: bool,
}

impl Flow {
    const STRAIGHT: Self = Self { is_certain: true, repeats: false };

    fn branch(self) -> Self {
        Self { is_certain: false, ..self }
    }

    fn repeated(self) -> Self {
        Self { is_certain: false, repeats: true }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::{Check, Language};

    /// Pieces of scripts that outlines are made of, in an order that need not make sense.
    const JAVASCRIPT: &[&str] = &[
        "const a = s;\n",
        "const { b, c: { d } } = await s.t();\n",
        "await a.b.c.d.e.f.g.h.i.j.k();\n",
        "a['x']?.y;\n",
        "for (const e of s.t()) {\n",
        "}\n",
        "if (x) {\n",
        "try {\n",
        "} catch {}\n",
        "await s.t({ a, ...b, 'c': [1, { d: -2 }] });\n",
        "const f = async () => {\n",
        "};\n",
        "await f();\n",
        "const [g, h] = await Promise.all([s.t(), s.u()]);\n",
        "g.x.y[0].z;\n",
        "return g;\n",
        "h.map((i) => i.j);\n",
        "r.s = 1;\n",
        "await forge.callTool('s', 't', {});\n",
        "`${a}`;\n",
        "const { cat, stash: kept } = forge;\n",
        "await forge.readResource('s', 'u'); await forge.prompt('p' + i, 'n');\n",
        "forge[a]; forge.stash.get('k'); manifest.servers();\n",
        "é🎉.x();\n",
        "const long = '0123456789'.repeat(9);\n",
        "await s.t({ long, again: long });\n",
    ];
    const STARLARK: &[&str] = &[
        "a = s\n",
        "b = s.t()\n",
        "b[\"k\"][0][\"é🎉\"]\n",
        "def f(x = s.t()):\n",
        "    return s.t(a = [1, -2, {\"k\": None}])\n",
        "for c in s.t():\n",
        "    c[\"k\"]\n",
        "f()\n",
        "[d.e for d in b if d]\n",
        "call_tool(\"s\", \"t\", **b)\n",
        "b[\"k\"] = 1\n",
        "try_call(s.t, a = 1)\n",
        "lambda x: s.t(x)\n",
        "fail(\"x\")\n",
        "if a:\n",
        "    b = 1\n",
        "x = f\"{s.t()}\"\n",
        "a, b = s.t(), 1\n",
        "stash.get(\"k\")\n",
        "forge.ls(\"/\")\n",
        "x = [forge, prompt(\"s\", \"p\")]\n",
    ];

    #[test]
    fn answers_that_are_named_over_and_over_stay_few() {
        let lines = (1..60).map(|n| format!("const a{n} = await Promise.all([a{0}, a{0}, ...a{0}]);\n", n - 1));
        let code = format!("const a0 = await Promise.all([s.t(), s.t()]);\n{}return a59;", lines.collect::<String>());
        let language = Language::Javascript;
        let check =
            Check { check: 0, language, code, max_bytes: 1 << 20, max_levels: 400, signature: false, parts: false };
        let facts = crate::check::check(&check).expect("a script");
        assert_eq!(facts.outline.calls.iter().map(|site| site.answered).collect::<Vec<_>>(), [Some(2), Some(2)]);
    }

    proptest! {
        #[test]
        fn outlines_stay_within_what_a_gateway_takes(picks in proptest::collection::vec(0..100_usize, 1..60), twice in 1..40_usize) {
            for (language, pieces) in [(Language::Javascript, JAVASCRIPT), (Language::Starlark, STARLARK)] {
                let code: String = picks.iter().map(|pick| pieces[pick % pieces.len()]).collect::<String>().repeat(twice);
                let check = Check { check: 0, language, code: code.clone(), max_bytes: 1 << 20, max_levels: 400, signature: false, parts: true };
                if let Ok(facts) = crate::check::check(&check) {
                    let judged = facts.outline.judge(code.len());
                    prop_assert!(judged.is_ok(), "{judged:?} for {code}");
                }
            }
        }
    }
}
