//! Errors of arguments that do not fit, in the words of the script's language.

use std::collections::HashSet;

use stubgen::ToolStub;
use wire::Language;

use super::check::plain;
use super::schema::{MAX_LEVELS, Problems};
use base::error::{Error, ErrorCode, did_you_mean, nearest};
use base::text::head;
use catalog::manifest::ServerEntry;

/// Most parameters that an unknown name is compared with.
const MAX_COMPARED: usize = 500;
/// Most parts of a parameter in a hint, and most bytes of one.
const MAX_PARTS: usize = 12;
const MAX_PART: usize = 80;
/// Most bytes of a signature in a hint.
const MAX_SIGNATURE: usize = 4 << 10;
/// Most bytes of a definition whose signature is made for the hint; larger ones have that of the stub.
const MAX_SIGNED: usize = 32 << 10;

/// The language of a script, and the names by which it calls parameters that have others on the wire.
pub(super) struct Spelling {
    language: Option<Language>,
    /// Wire name, and the name in the script.
    said: Vec<(String, String)>,
}

impl Spelling {
    /// By the names of the arguments as written. In Starlark, a parameter that is missing has its identifier.
    pub(super) fn new<'n>(stub: &ToolStub, written: impl Iterator<Item = &'n str>, language: Option<Language>) -> Self {
        let renamed = || stub.params().iter().take(MAX_COMPARED).filter(|param| param.ident != param.wire);
        let written: HashSet<&str> = if renamed().next().is_some() { written.collect() } else { HashSet::new() };
        let is_said = |ident: &str, wire: &str| {
            written.contains(ident) || language == Some(Language::Starlark) && !written.contains(wire)
        };
        let said = renamed().filter(|param| is_said(&param.ident, &param.wire));
        Self { language, said: said.map(|param| (param.wire.clone(), param.ident.clone())).collect() }
    }

    /// The text of a problem, which begins with the parameter or says that it is missing.
    fn of(&self, text: String) -> String {
        let (before, rest) = match text.split_once('`') {
            Some((before @ ("" | "argument "), rest)) => (before, rest),
            _ => return text,
        };
        for (wire, ident) in &self.said {
            let behind = rest.strip_prefix(wire.as_str()).filter(|behind| behind.starts_with(['`', '.']));
            // An argument that is missing in another one has its name there.
            if let Some(behind) = behind.filter(|behind| before.is_empty() || *behind == "` is missing") {
                return format!("{before}`{ident}{behind}");
            }
        }
        text
    }
}

/// The signature of a tool as a script in this language calls it; Python's where there is no script.
pub(super) fn signature(entry: &ServerEntry, stub: &ToolStub, language: Option<Language>) -> String {
    if stub.definition_bytes > MAX_SIGNED {
        return head(stub.signature(), MAX_SIGNATURE).to_owned();
    }
    let observed = entry.observed.of(stub);
    let signature = match language {
        Some(Language::Javascript) => stub.javascript_signature(observed.as_ref()),
        Some(Language::Starlark) | None => stub.signature_with(observed.as_ref()).into_owned(),
    };
    head(&signature, MAX_SIGNATURE).to_owned()
}

/// The error of arguments with these problems.
pub(super) fn refusal(entry: &ServerEntry, stub: &ToolStub, mut problems: Problems, spelling: &Spelling) -> Error {
    let idents = || stub.params().iter().take(MAX_COMPARED).map(|param| param.ident.as_str());
    for problem in &mut problems.told {
        problem.text = spelling.of(std::mem::take(&mut problem.text));
    }
    let line = problems.line();
    let inside = inside(stub, &problems, spelling.language);
    let meant: Vec<String> = problems
        .told
        .into_iter()
        .flat_map(|problem| match &problem.unknown {
            Some(name) => nearest(name, idents()),
            None => problem.meant,
        })
        .collect();
    let signature = signature(entry, stub, spelling.language);
    let hint = match inside.or_else(|| did_you_mean(&meant)) {
        Some(meant) => format!("{meant} The signature is {signature}"),
        None => format!("the signature is {signature}"),
    };
    invalid(stub, line).hint(hint)
}

/// The parameter that has the unknown names as parts, or whose part is missing, with its parts as a script writes them.
fn inside(stub: &ToolStub, problems: &Problems, language: Option<Language>) -> Option<String> {
    let raw = stub.definition.tree();
    let root = raw.get("inputSchema")?;
    let mut params = stub.params().iter().take(MAX_COMPARED).filter_map(|param| {
        let schema = plain(root, root.get("properties")?.get(&param.wire)?)?;
        Some((&param.ident, schema.get("properties")?.as_object()?))
    });
    let (ident, parts) = params.find(|(ident, parts)| {
        problems.told.iter().any(|problem| match &problem.unknown {
            Some(name) => parts.contains_key(name),
            None => problem.text.ends_with(&format!("is missing in `{ident}`")),
        })
    })?;
    let is_plain = |part: &str| part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let form = |part: &str| match language {
        Some(Language::Javascript) if is_plain(part) => format!("{part}: …"),
        _ => format!("{part:?}: …"),
    };
    let parts: Vec<String> = parts.keys().take(MAX_PARTS).map(|part| form(head(part, MAX_PART))).collect();
    let (parts, sign) = (parts.join(", "), if language == Some(Language::Javascript) { ":" } else { " =" });
    Some(format!("`{ident}` takes these: `{ident}{sign} {{ {parts} }}`."))
}

/// The error of arguments of a tool.
pub(super) fn invalid(stub: &ToolStub, what: String) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("{}: {what}", stub.ident))
}

/// The error of arguments that the check of an input schema does not reach the end of.
pub(super) fn too_deep(stub: &ToolStub) -> Error {
    let text = format!("{}: its input schema nests more than {MAX_LEVELS} schemas in these arguments", stub.ident);
    Error::new(ErrorCode::LimitExceeded, text).hint("send less nested arguments; this limit is fixed (docs/limits.md)")
}
