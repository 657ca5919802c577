//! The stub of one tool.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::context;
use serde_json::Value;

use crate::app::App;
use crate::definition::Definition;
use crate::observed::Observed;
use crate::python::Python;
use crate::schema::{Budget, Shape, Translator};
use crate::typescript::TypeScript;
use crate::{canon, ident, markdown, templates, text};

/// Most bytes of parameter and field descriptions in one view: many may refer to a long one.
pub(crate) const MAX_DESCRIPTIONS: usize = 512 << 10;

/// Key in `_meta` of a definition that the operator has overridden.
pub const OVERRIDE: &str = "forgefs/override";

/// Result section for a tool without answers so far: the cheapest way to its type.
const UNOBSERVED: &str = "Not observed yet: after the first call, this file and the stub have the type.";
/// The same for a tool that only reads.
const UNOBSERVED_READ: &str =
    "Not observed yet: a script that returns one answer shows it, and then this file and the stub have the type.";

/// One tool, for scripts and for the model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolStub {
    /// Wire name.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// Identifier of the server.
    pub server: Arc<str>,
    /// Folder, when the server has category folders.
    pub category: Option<String>,
    /// First sentence of the description, cut at a word, one line.
    pub summary: String,
    /// One-line Python signature, without `def` and the colon.
    pub signature: String,
    /// Required parameters first, each group sorted by wire name.
    pub params: Vec<Param>,
    /// Python type of the result.
    pub result: String,
    /// Annotations of the tool.
    pub annotations: Annotations,
    /// The Python stub.
    pub pyi: String,
    /// Short content digest, as in the stub's header.
    pub digest: String,
    /// The raw entry of `tools/list`.
    pub definition: Arc<Definition>,
    /// Bytes of the definition as canonical JSON.
    pub definition_bytes: usize,
    /// Its part for MCP Apps, if it has one.
    pub app: Option<Box<App>>,
    /// Widened or ignored parts.
    pub notes: Vec<String>,
    /// Full SHA-256 of the canonical definition.
    pub(crate) full_digest: String,
    /// Key of a declared result that is nothing but a text: libraries wrap every text like that.
    pub(crate) only_text: Option<Box<str>>,
}

/// One parameter of a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Param {
    /// Identifier in scripts.
    pub ident: String,
    /// Name on the wire.
    pub wire: String,
    /// True if the schema requires it.
    pub required: bool,
    /// Sanitised description.
    pub description: Option<String>,
    /// Python type of its values.
    pub ty: String,
}

impl ToolStub {
    pub(crate) fn new(
        name: &str,
        ident: String,
        category: Option<String>,
        server: Arc<str>,
        raw: &Value,
        scratch: &mut String,
    ) -> ToolStub {
        let full_digest = canon::digest_of(raw, scratch);
        let definition_bytes = scratch.len();
        let shape = shape(&ident, raw, definition_bytes, None);
        let idents = param_idents(&shape);
        let mut python = Python::new(&shape.named);
        let mut letters = MAX_DESCRIPTIONS;
        let params = shape.params.iter().zip(&idents).map(|(field, ident)| Param {
            ident: ident.clone(),
            wire: field.wire.to_owned(),
            required: field.required,
            description: field.described(&mut letters),
            ty: python.ty(&field.ty),
        });
        let mut stub = ToolStub {
            name: name.to_owned(),
            server,
            category,
            signature: Python::signature(&shape, &ident, &idents),
            params: params.collect(),
            result: python.ty(&shape.result),
            annotations: Annotations::read(raw),
            pyi: String::new(),
            digest: full_digest[..8].to_owned(),
            app: App::read(raw),
            definition_bytes,
            full_digest,
            notes: shape.notes.clone(),
            summary: told(raw, text::summary),
            ident,
            only_text: only_text(raw).map(Into::into),
            definition: Arc::new(Definition::new(raw)),
        };
        stub.pyi = stub.pyi_of(&shape, &idents, &told(raw, text::doc), None);
        stub
    }

    /// The Python stub, with an observation of the result.
    pub fn pyi_with(&self, observed: Option<&Observed>) -> Cow<'_, str> {
        let Some(observed) = self.usable(observed) else { return self.pyi.as_str().into() };
        let raw = self.definition.tree();
        let shape = self.shape(&raw, Some(observed));
        self.pyi_of(&shape, &param_idents(&shape), &told(&raw, text::doc), Some(observed)).into()
    }

    /// `doc` is the summary, and short sentences behind it.
    fn pyi_of(&self, shape: &Shape<'_>, idents: &[String], doc: &str, observed: Option<&Observed>) -> String {
        let mut python = Python::new(&shape.named);
        let blocks: Vec<String> = shape.named.iter().map(|named| python.class(named)).collect();
        let definition = python.definition(shape, &self.ident, idents, doc);
        templates::render(
            templates::PYI,
            context! {
                above => above(&self.name, &self.ident, &shape.notes),
                header => header(&self.server, &self.ident, self.annotations, &self.digest),
                imports => python.imports().unwrap_or_default(),
                blocks,
                result => observed.map(|observed| observed.words(self.annotations)),
                definition,
            },
        )
    }

    /// Types of its definition `raw`.
    pub(crate) fn shape<'a>(&self, raw: &'a Value, observed: Option<&'a Observed>) -> Shape<'a> {
        let schema = observed.and_then(|observed| observed.schema.as_ref());
        shape(&self.ident, raw, self.definition_bytes, schema)
    }

    /// The signature, with an observation of the result.
    pub fn signature_with(&self, observed: Option<&Observed>) -> Cow<'_, str> {
        let Some(observed) = self.usable(observed) else { return self.signature.as_str().into() };
        let raw = self.definition.tree();
        let shape = self.shape(&raw, Some(observed));
        Python::signature(&shape, &self.ident, &param_idents(&shape)).into()
    }

    /// The TypeScript stub.
    pub fn dts(&self) -> String {
        self.dts_with(None)
    }

    /// The TypeScript stub, with an observation of the result.
    pub fn dts_with(&self, observed: Option<&Observed>) -> String {
        let (observed, raw) = (self.usable(observed), self.definition.tree());
        let shape = self.shape(&raw, observed);
        let typescript = TypeScript::new(&shape.named);
        templates::render(
            templates::DTS,
            context! {
                above => above(&self.name, &self.ident, &shape.notes),
                header => header(&self.server, &self.ident, self.annotations, &self.digest),
                blocks => shape.named.iter().map(|named| typescript.interface(named)).collect::<Vec<_>>(),
                result => observed.map(|observed| observed.words(self.annotations)),
                definition => typescript.definition(&shape, &self.ident, &told(&raw, text::doc)),
            },
        )
    }

    /// Full documentation in Markdown.
    pub fn md(&self) -> String {
        self.md_with(None)
    }

    /// Full documentation in Markdown, with an observation of the result.
    pub fn md_with(&self, observed: Option<&Observed>) -> String {
        let (observed, raw) = (self.usable(observed), self.definition.tree());
        let shape = self.shape(&raw, observed);
        let idents = param_idents(&shape);
        let mut python = Python::new(&shape.named);
        let mut letters = MAX_DESCRIPTIONS;
        let params = markdown::params(&shape, &idents, &mut python, &mut letters);
        let types: Vec<_> = shape
            .named
            .iter()
            .map(|named| context! { name => named.name.as_str(), lines => markdown::named(named, &mut python, &mut letters) })
            .collect();
        let result = match (observed, raw.get("outputSchema")) {
            (Some(Observed { schema: None, .. }), _) if self.annotations.read_only == Some(true) => {
                UNOBSERVED_READ.to_owned()
            }
            (Some(Observed { schema: None, .. }), _) => UNOBSERVED.to_owned(),
            (Some(observed), _) => {
                format!("{}, {}.", markdown::code(&python.ty(&shape.result)), observed.words(self.annotations))
            }
            (None, Some(_)) => markdown::code(&python.ty(&shape.result)),
            (None, None) => "Not described: JSON if the tool answers with JSON, else text.".to_owned(),
        };
        let description = raw.get("description").and_then(Value::as_str).unwrap_or("");
        templates::render(
            templates::MD,
            context! {
                path => format!("{}.{}", self.server, self.ident),
                description => markdown::quotation(description),
                overridden => raw.get("_meta").is_some_and(|meta| meta.get(OVERRIDE).is_some()),
                wire => if self.name == self.ident { String::new() } else { markdown::code(&text::comment_name(&self.name)) },
                params,
                types,
                result,
                hints => self.annotations.words(),
                notes => shape.notes,
                digest => self.digest.as_str(),
            },
        )
    }

    /// Path of its files without a suffix: `server/tool`, or `server/category/tool`.
    pub fn path(&self) -> String {
        match &self.category {
            Some(category) => format!("{}/{category}/{}", self.server, self.ident),
            None => format!("{}/{}", self.server, self.ident),
        }
    }

    /// Raw definition, pretty-printed with sorted keys; invisible characters are escaped.
    pub fn json(&self) -> String {
        canon::pretty_json(&self.definition.tree())
    }

    /// The wire name of a parameter given as identifier or wire name; the exact wire name wins.
    pub fn wire_param(&self, ident_or_wire: &str) -> Option<&str> {
        let by = |key: fn(&Param) -> &str| self.params.iter().find(|param| key(param) == ident_or_wire);
        by(|param| &param.wire).or_else(|| by(|param| &param.ident)).map(|param| param.wire.as_str())
    }

    /// URI of the page that shows its answers, if it has one.
    pub fn page(&self) -> Option<&str> {
        self.app.as_ref()?.page.as_deref()
    }

    /// True if only pages of its server call it.
    pub fn is_for_pages(&self) -> bool {
        self.app.as_ref().is_some_and(|app| app.is_hidden)
    }

    /// Full SHA-256 of the canonical definition.
    pub fn full_digest(&self) -> String {
        self.full_digest.clone()
    }
}

/// Types of a definition of `bytes`; those of the result by `observed`, if given.
pub(crate) fn shape<'a>(ident: &str, raw: &'a Value, bytes: usize, observed: Option<&'a Value>) -> Shape<'a> {
    let declared = raw.get("outputSchema").filter(|schema| !schema.is_null());
    Translator::shape(ident, raw.get("inputSchema"), observed.or(declared), Budget::new(bytes))
}

fn only_text(raw: &Value) -> Option<&str> {
    let properties = raw.get("outputSchema")?.get("properties")?.as_object()?;
    let (key, schema) = properties.iter().next().filter(|_| properties.len() == 1)?;
    (schema.get("type")? == "string").then_some(key)
}

fn param_idents(shape: &Shape<'_>) -> Vec<String> {
    let wires: Vec<&str> = shape.params.iter().map(|field| field.wire).collect();
    ident::assign_param_idents(&wires)
}

/// The first of a definition's texts of which `part` is not empty.
fn told(raw: &Value, part: fn(&str) -> String) -> String {
    let annotated = raw.get("annotations").and_then(|annotations| annotations.get("title"));
    [raw.get("description"), raw.get("title"), annotated]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(part)
        .find(|part| !part.is_empty())
        .unwrap_or_default()
}

/// Comment lines above the header: the wire name if it differs, and the notes.
fn above(name: &str, ident: &str, notes: &[String]) -> Vec<String> {
    let wire = (name != ident).then(|| format!("wire name: {}", text::comment_name(name)));
    wire.into_iter().chain(notes.iter().map(|note| format!("note: {note}"))).collect()
}

fn header(server: &str, ident: &str, annotations: Annotations, digest: &str) -> String {
    match annotations.word() {
        Some(word) => format!("{server}.{ident} {word} {digest}"),
        None => format!("{server}.{ident} {digest}"),
    }
}

/// The server's annotations of a tool; `None` where it gave none. They are claims, not guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotations {
    /// Changes nothing.
    pub read_only: Option<bool>,
    /// May destroy something.
    pub destructive: Option<bool>,
    /// A repeated call has no further effect.
    pub idempotent: Option<bool>,
    /// Reaches beyond a closed world.
    pub open_world: Option<bool>,
}

impl Annotations {
    fn read(raw: &Value) -> Annotations {
        let hint = |key: &str| raw.get("annotations").and_then(|annotations| annotations.get(key)?.as_bool());
        Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }

    /// The most important word for a caller.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Annotations { read_only: Some(true), .. } => Some("read-only"),
            Annotations { destructive: Some(true), .. } => Some("destructive"),
            Annotations { idempotent: Some(true), .. } => Some("idempotent"),
            Annotations { read_only: Some(false), .. } | Annotations { destructive: Some(false), .. } => Some("writes"),
            Annotations { open_world: Some(true), .. } => Some("open-world"),
            _ => None,
        }
    }

    /// All annotations, one word each; empty if there are none.
    pub fn words(&self) -> String {
        let said = [
            (self.read_only, "read-only", "writes"),
            (self.destructive, "destructive", "not destructive"),
            (self.idempotent, "idempotent", "not idempotent"),
            (self.open_world, "open-world", "closed-world"),
        ];
        let words: Vec<&str> =
            said.iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { *yes } else { *no })).collect();
        if words.is_empty() { String::new() } else { format!("{}.", words.join(", ")) }
    }
}
