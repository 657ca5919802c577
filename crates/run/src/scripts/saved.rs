//! A script that ran as a function script: its literals as parameters, by the parts that a checker found in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::{Form, Language, Literal, Parts};

use super::returned::{javascript_type, starlark_type};
use base::{json, limits};

/// Most memory of a literal's values.
const MAX_VALUE: usize = 1 << 20;

/// True for a name that a script can have: folders and file, each an identifier of all languages.
pub fn is_script_name(name: &str) -> bool {
    let folders = name.matches('/').count();
    folders < limits::SCRIPT_FOLDERS.max && name.split('/').all(stubgen::is_tool_ident)
}

/// Wishes about a function.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Sentence that documents it, on one line.
    pub doc: String,
    /// JSON Schema of its value; `None` if it is not known.
    pub returns: Option<Value>,
    /// True if no literal becomes a parameter.
    pub keep: bool,
    /// Arguments whose literals become parameters; of all if empty.
    pub only: Vec<String>,
    /// Literals of the whole script that become parameters, by the begin of their texts, with the same number for those of
    /// one parameter; `None` takes those in arguments of tools.
    pub at: Option<BTreeMap<u32, usize>>,
}

/// Extension of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extension {
    /// JavaScript.
    Js,
    /// TypeScript.
    Ts,
    /// Starlark.
    Star,
}

impl Extension {
    /// The extension without a dot.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Js => "js",
            Self::Ts => "ts",
            Self::Star => "star",
        }
    }
}

/// A function script in the making.
#[derive(Debug)]
pub struct Saved {
    /// Its text.
    pub code: String,
    /// Extension of its file.
    pub extension: Extension,
    /// Its parameters: name and default as written, empty without one.
    pub params: Vec<(String, String)>,
    /// Begins of the literals that the parameters come from, in the same order; empty for a function as it was.
    pub at: Vec<u32>,
    /// The same with their types, as a person reads them; empty until a checker has found them.
    pub signature: String,
}

/// A parameter of the function.
struct Param {
    name: String,
    key: String,
    value: Value,
    default: String,
    at: u32,
    number: usize,
}

/// The function that a script becomes.
///
/// # Errors
/// Reasons against it.
pub fn function(code: &str, language: Language, parts: &Parts, wanted: &Wanted) -> Result<Saved, String> {
    const LYING: &str = "the checker named places that the script has not";
    if parts.is_partial {
        return Err(format!("the script has over {} literals, names or long texts", wire::MAX_PARTS));
    }
    let body = match &parts.form {
        Form::Taken if wanted.only.is_empty() => (0, 0),
        Form::Taken => return Err("the script is a function with parameters of its own".to_owned()),
        Form::Function { body, .. } | Form::Main { body, .. } => *body,
        Form::Statements | Form::Last(_) | Form::Result { .. } => (0, u32::try_from(code.len()).unwrap_or(u32::MAX)),
    };
    let mut draft =
        Draft { code, language, edits: Vec::new(), removed: Vec::new(), params: Vec::new(), taken: BTreeSet::new() };
    draft.taken.extend(parts.names.iter().cloned());
    let others: &[Literal] = if wanted.at.is_some() { &parts.others } else { &[] };
    let is_inside = |it: &&Literal| !wanted.keep && body.0 <= it.at.0 && it.at.1 <= body.1;
    let mut offered = 0;
    for literal in parts.literals.iter().chain(others).filter(is_inside) {
        let number = wanted.at.as_ref().map_or(Some(0), |at| at.get(&literal.at.0).copied());
        if let Some(number) = number.filter(|_| wanted.only.is_empty() || wanted.only.contains(&literal.key)) {
            draft.offer(literal, number).ok_or(LYING)?;
            offered += 1;
        }
    }
    if wanted.at.as_ref().is_some_and(|at| at.len() != offered) {
        return Err("a literal outside of its function differs, or one of its parameters".to_owned());
    }
    if let Some(missing) = wanted.only.iter().find(|key| !draft.params.iter().any(|param| param.key == **key)) {
        return Err(format!("no literal stands in an argument `{missing}` of a tool"));
    }
    let text = match parts.form {
        Form::Taken => with_final_newline(code),
        _ => draft.text(parts, wanted, body).ok_or(LYING)?,
    };
    let extension = match (language, parts.typed) {
        (Language::Starlark, _) => Extension::Star,
        (Language::Javascript, true) => Extension::Ts,
        (Language::Javascript, false) => Extension::Js,
    };
    let at = draft.params.iter().map(|param| param.at).collect();
    let params = draft.params.into_iter().map(|param| (param.name, param.default)).collect();
    Ok(Saved { code: text, extension, params, at, signature: String::new() })
}

struct Draft<'c> {
    code: &'c str,
    language: Language,
    /// Replacements: from, to, text.
    edits: Vec<(usize, usize, String)>,
    /// Lines and statements that go.
    removed: Vec<Range<usize>>,
    params: Vec<Param>,
    /// Names that a parameter cannot have.
    taken: BTreeSet<String>,
}

impl Draft<'_> {
    /// Makes a literal a parameter; one of the same key, value and number is the same parameter.
    fn offer(&mut self, literal: &Literal, number: usize) -> Option<()> {
        let (from, to) = (literal.at.0 as usize, literal.at.1 as usize);
        let default = self.code.get(from..to)?.to_owned();
        let value: Value = json::parse(literal.value.get().as_bytes(), MAX_VALUE).ok()?;
        if let Some((begin, end)) = literal.constant.filter(|_| stubgen::is_tool_ident(&literal.key)) {
            return self.constant(literal, (begin as usize, end as usize), (value, default));
        }
        let is_same = |it: &&Param| it.key == literal.key && it.value == value && it.number == number;
        let known = self.params.iter().find(is_same);
        let name = match known {
            Some(param) => param.name.clone(),
            None => {
                let name = self.name_for(&literal.key);
                self.taken.insert(name.clone());
                let (key, at) = (literal.key.clone(), literal.at.0);
                self.params.push(Param { name: name.clone(), key, value, default, at, number });
                name
            }
        };
        match literal.property {
            Some(begin) if name == literal.key => self.edits.push((begin as usize, to, name)),
            _ => self.edits.push((from, to, name)),
        }
        Some(())
    }

    /// Makes a constant a parameter of its name, in place of its statement. Its scope is that of the function, so that no
    /// other literal is the same parameter.
    fn constant(
        &mut self,
        literal: &Literal,
        (begin, end): (usize, usize),
        (value, default): (Value, String),
    ) -> Option<()> {
        let (name, at) = (literal.key.clone(), literal.at.0);
        let (before, rest) = (self.code.get(..begin)?, self.code.get(end..)?);
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let tail = rest.find('\n').map_or(rest, |at| &rest[..=at]);
        // Its line goes with it, and a comment behind it.
        let is_starlark = self.language == Language::Starlark;
        let comment = if is_starlark { "#" } else { "//" };
        let is_line =
            before[line..].trim().is_empty() && (tail.trim().is_empty() || tail.trim_start().starts_with(comment));
        let (begin, end) = if is_line { (line, end + tail.len()) } else { (begin, end) };
        let next = after_comments(&self.code[end..]).chars().next();
        // What follows could go on with the statement before.
        let is_apart = is_starlark || next.is_none_or(|c| c.is_alphanumeric() || "_$'\"{};".contains(c));
        let left = match (is_apart, is_line) {
            (true, _) => "",
            (false, true) => ";\n",
            (false, false) => ";",
        };
        self.edits.push((begin, end, left.to_owned()));
        self.removed.push(begin..end);
        self.params.push(Param { key: name.clone(), name, value, default, at, number: usize::MAX - at as usize });
        Some(())
    }

    /// A name like the key that the script has not.
    fn name_for(&self, key: &str) -> String {
        let plain: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let begin = plain.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        let begin = if begin.is_empty() { "value" } else { begin };
        let is_free = |name: &str| stubgen::is_tool_ident(name) && !self.taken.contains(name);
        if is_free(begin) {
            return begin.to_owned();
        }
        let join = if self.language == Language::Starlark { "_" } else { "" };
        (2..).map(|number| format!("{begin}{join}{number}")).find(|name| is_free(name)).unwrap_or_default()
    }

    fn text(&mut self, parts: &Parts, wanted: &Wanted, body: (u32, u32)) -> Option<String> {
        let returns = match self.language {
            Language::Javascript => wanted.returns.as_ref().map(javascript_type),
            Language::Starlark => wanted.returns.as_ref().map(starlark_type),
        };
        if let Form::Main { params, returns: place, .. } = &parts.form {
            let list = self.starlark_params();
            self.edits.push((*params as usize, *params as usize, list));
            if let (Some(place), Some(kind)) = (place, returns) {
                self.edits.push((*place as usize, *place as usize, format!(" -> {kind}")));
            }
            return Some(with_final_newline(&self.edited(0, self.code.len())?));
        }
        if let Form::Last(at) = parts.form {
            self.edits.push((at as usize, at as usize, "return ".to_owned()));
        }
        let indent = if self.language == Language::Starlark { "    " } else { "  " };
        let mut inner = self.indented(body, indent, &parts.verbatim)?;
        let (mut before, mut name) = ("", "");
        match &parts.form {
            Form::Result { is_perhaps } => {
                if *is_perhaps {
                    inner.insert_str(0, "    result = None\n");
                }
                inner.push_str("\n    return result");
            }
            Form::Function { before: end, is_expression, name: own, .. } => {
                if *is_expression {
                    inner = format!("{indent}return {};", inner.trim());
                }
                before = self.code.get(..*end as usize)?;
                name = own;
            }
            _ => {}
        }
        Some(match self.language {
            Language::Starlark => {
                let kind = returns.map(|kind| format!(" -> {kind}")).unwrap_or_default();
                let (params, doc) = (self.starlark_params(), &wanted.doc);
                let inner = if inner.trim().is_empty() { "    pass" } else { &inner };
                format!("def main({params}){kind}:\n    \"\"\"{doc}\"\"\"\n{inner}\n")
            }
            Language::Javascript => {
                let head = self.javascript_head(parts.typed, &wanted.doc, returns.as_deref(), name);
                let before =
                    if before.trim().is_empty() { String::new() } else { format!("{}\n\n", before.trim_end()) };
                format!("{before}{head} {{\n{inner}\n}}\n")
            }
        })
    }

    fn starlark_params(&self) -> String {
        let all = self
            .params
            .iter()
            .map(|param| format!("{}: {} = {}", param.name, starlark_type(&schema_of(&param.value)), param.default));
        all.collect::<Vec<_>>().join(", ")
    }

    fn javascript_head(&self, typed: bool, doc: &str, returns: Option<&str>, name: &str) -> String {
        let types = self.params.iter().map(|param| (&param.name, javascript_type(&schema_of(&param.value))));
        let types: Vec<String> = types.map(|(name, kind)| format!("{name}?: {kind}")).collect();
        let defaults = self.params.iter().map(|param| format!("{} = {}", param.name, param.default));
        let defaults = defaults.collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        let (has_params, separator) = (!types.is_empty(), if typed { "; " } else { ", " });
        let types = types.join(separator);
        let mut comment = format!("/**\n * {doc}\n");
        let mut list = if has_params { format!("{{ {defaults} }}") } else { String::new() };
        let mut promise = String::new();
        if typed {
            if has_params {
                list.push_str(&format!(": {{ {types} }}"));
            }
            promise = returns.map(|kind| format!(": Promise<{kind}>")).unwrap_or_default();
        } else if has_params || returns.is_some() {
            comment.push_str(" *\n");
            if has_params {
                comment.push_str(&format!(" * @param {{{{ {types} }}}} options\n"));
            }
            if let Some(kind) = returns {
                comment.push_str(&format!(" * @returns {{Promise<{kind}>}}\n"));
            }
        }
        format!("{comment} */\nexport default async function{name} ({list}){promise}")
    }

    /// A part of the code with its lines indented anew, and the edits in it.
    fn indented(&mut self, (from, to): (u32, u32), indent: &str, verbatim: &[(u32, u32)]) -> Option<String> {
        let whole = self.code.get(from as usize..to as usize)?;
        let from = from as usize + (whole.len() - whole.trim_start().len());
        let to = from + whole.trim().len();
        let blank = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        let begin = self.code[..from].rfind('\n').map_or(0, |at| at + 1);
        let first = self.code[begin..from].trim().is_empty().then_some(from - begin);
        let mut starts = Vec::new();
        for (at, _) in self.code.get(from..to)?.match_indices('\n') {
            let start = from + at + 1;
            let is_inside = verbatim.iter().any(|(a, b)| (*a as usize) < start && start <= *b as usize);
            let line = self.code.get(start..to)?.lines().next().unwrap_or_default();
            let is_inside = is_inside || self.removed.iter().any(|gone| gone.contains(&start));
            if !is_inside && !line.trim().is_empty() {
                starts.push((start, blank(line)));
            }
        }
        let least = starts.iter().map(|(_, blank)| *blank).chain(first).min().unwrap_or(0);
        for (start, _) in starts {
            self.edits.push((start, start + least, indent.to_owned()));
        }
        Some(format!("{indent}{}", self.edited(from, to)?.trim_start()))
    }

    /// A part of the code with the edits in it.
    fn edited(&mut self, from: usize, to: usize) -> Option<String> {
        self.edits.sort();
        let (mut text, mut at) = (String::new(), from);
        for (begin, end, new) in self.edits.iter().filter(|(begin, _, _)| from <= *begin && *begin <= to) {
            text.push_str(self.code.get(at..*begin)?);
            text.push_str(new);
            at = (*end).min(to);
        }
        text.push_str(self.code.get(at..to)?);
        Some(text)
    }
}

/// The text from its first statement on.
fn after_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let ended = [("//", "\n"), ("/*", "*/")].into_iter().find_map(|(begin, end)| {
            let comment = text.strip_prefix(begin)?;
            Some(comment.split_once(end).map_or("", |(_, rest)| rest))
        });
        match ended {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

fn with_final_newline(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// JSON Schema of a literal.
fn schema_of(value: &Value) -> Value {
    let kind = match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::Array(items) => {
            let mut kinds: Vec<Value> = Vec::new();
            for item in items.iter().map(schema_of) {
                if !kinds.contains(&item) {
                    kinds.push(item);
                }
            }
            let items = if kinds.len() == 1 { kinds.swap_remove(0) } else { serde_json::json!({ "anyOf": kinds }) };
            return serde_json::json!({ "type": "array", "items": items });
        }
        _ => "string",
    };
    serde_json::json!({ "type": kind })
}
