//! The stub of one tool.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

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
/// Bytes of a definition from which its schemas are translated at once. Others are when they are first wanted, which may be
/// in a request.
const LARGE: usize = 16 << 10;

/// Key in `_meta` of a definition that the operator has overridden.
pub const OVERRIDE: &str = "forgefs/override";

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
    /// Annotations of the tool.
    pub annotations: Annotations,
    /// Short content digest, as in the stub's header.
    pub digest: String,
    /// The raw entry of `tools/list`.
    pub definition: Arc<Definition>,
    /// Bytes of the definition as canonical JSON.
    pub definition_bytes: usize,
    /// Its part for MCP Apps, if it has one.
    pub app: Option<Box<App>>,
    /// Full SHA-256 of the canonical definition.
    pub(crate) full_digest: String,
    /// Key of a declared result that is nothing but a text: libraries wrap every text like that.
    pub(crate) only_text: Option<Box<str>>,
    /// Types of its schemas, made when they are first wanted, which those of most tools never are.
    typed: OnceLock<Box<Typed>>,
}

/// The types of a tool in Python.
#[derive(Clone, Debug)]
struct Typed {
    signature: String,
    params: Vec<Param>,
    result: String,
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

/// Views of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Python stub.
    Pyi,
    /// TypeScript declaration.
    Dts,
    /// Full documentation in Markdown.
    Md,
    /// The raw definition, pretty-printed with sorted keys; invisible characters are escaped.
    Json,
}

impl View {
    /// Every view, with the suffix of its file.
    pub const ALL: [(&'static str, Self); 4] =
        [(".pyi", Self::Pyi), (".d.ts", Self::Dts), (".md", Self::Md), (".json", Self::Json)];
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
        let stub = ToolStub {
            name: name.to_owned(),
            ident,
            server,
            category,
            summary: told(raw, text::summary),
            annotations: Annotations::read(raw),
            digest: full_digest[..8].to_owned(),
            definition: Arc::new(Definition::new(raw)),
            definition_bytes: scratch.len(),
            app: App::read(raw),
            full_digest,
            only_text: only_text(raw).map(Into::into),
            typed: OnceLock::new(),
        };
        if stub.definition_bytes > LARGE {
            stub.typed();
        }
        stub
    }

    fn typed(&self) -> &Typed {
        self.typed.get_or_init(|| {
            let raw = self.definition.tree();
            let shape = self.shape(&raw, None);
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
            let params = params.collect();
            let signature = Python::signature(&shape, &self.ident, &idents);
            Box::new(Typed { signature, params, result: python.ty(&shape.result) })
        })
    }

    /// One-line Python signature, without `def` and the colon.
    pub fn signature(&self) -> &str {
        &self.typed().signature
    }

    /// The signature, with an observation of the result.
    pub fn signature_with(&self, observed: Option<&Observed>) -> Cow<'_, str> {
        let Some(observed) = self.usable(observed) else { return self.signature().into() };
        let raw = self.definition.tree();
        let shape = self.shape(&raw, Some(observed));
        Python::signature(&shape, &self.ident, &param_idents(&shape)).into()
    }

    /// Required parameters first, each group sorted by wire name.
    pub fn params(&self) -> &[Param] {
        &self.typed().params
    }

    /// Members of each parameter's type by its wire name, to compare types: of a union each, of literals each value.
    pub fn members(&self) -> BTreeMap<String, BTreeSet<String>> {
        let raw = self.definition.tree();
        let shape = self.shape(&raw, None);
        let mut python = Python::new(&shape.named);
        shape.params.iter().map(|field| (field.wire.to_owned(), python.members(&field.ty))).collect()
    }

    /// Python type of the result.
    pub(crate) fn result(&self) -> &str {
        &self.typed().result
    }

    /// Bytes of the definition if nothing has needed its types yet: the next that does translates them.
    pub fn untranslated_bytes(&self) -> usize {
        if self.typed.get().is_some() { 0 } else { self.definition_bytes }
    }

    /// Text of a view, with an observation of the result.
    pub fn view(&self, view: View, observed: Option<&Observed>) -> String {
        let raw = self.definition.tree();
        if view == View::Json {
            return canon::pretty_json(&raw);
        }
        let observed = self.usable(observed);
        if view == View::Md {
            return markdown::document(self, &raw, observed);
        }
        let shape = self.shape(&raw, observed);
        // The summary, and short sentences behind it.
        let doc = told(&raw, text::doc);
        let (mark, imports, blocks, definition) = if view == View::Pyi {
            let mut python = Python::new(&shape.named);
            let blocks: Vec<String> = shape.named.iter().map(|named| python.class(named)).collect();
            let definition = python.definition(&shape, &self.ident, &param_idents(&shape), &doc);
            ("#", python.imports().unwrap_or_default(), blocks, definition)
        } else {
            let typescript = TypeScript::new(&shape.named);
            let blocks = shape.named.iter().map(|named| typescript.interface(named)).collect();
            ("//", String::new(), blocks, typescript.definition(&shape, &self.ident, &doc))
        };
        let wire = (self.name != self.ident).then(|| format!("wire name: {}", text::comment_name(&self.name)));
        let notes = shape.notes.iter().map(|note| format!("note: {note}"));
        templates::render(
            templates::STUB,
            context! {
                mark,
                above => wire.into_iter().chain(notes).collect::<Vec<_>>(),
                header => self.header(),
                imports,
                blocks,
                result => observed.map(|observed| observed.words(self.annotations)),
                definition,
            },
        )
    }

    fn header(&self) -> String {
        let word = self.annotations.word().map(|word| format!("{word} ")).unwrap_or_default();
        format!("{}.{} {word}{}", self.server, self.ident, self.digest)
    }

    /// Types of its definition `raw`; those of the result by `observed`, if given.
    pub(crate) fn shape<'a>(&self, raw: &'a Value, observed: Option<&'a Observed>) -> Shape<'a> {
        let observed = observed.and_then(|observed| observed.schema.as_ref());
        let declared = raw.get("outputSchema").filter(|schema| !schema.is_null());
        let budget = Budget::new(self.definition_bytes);
        Translator::shape(&self.ident, raw.get("inputSchema"), observed.or(declared), budget)
    }

    /// Path of its files without a suffix: `server/tool`, or `server/category/tool`.
    pub fn path(&self) -> String {
        match &self.category {
            Some(category) => format!("{}/{category}/{}", self.server, self.ident),
            None => format!("{}/{}", self.server, self.ident),
        }
    }

    /// The wire name of a parameter given as identifier or wire name; the exact wire name wins.
    pub fn wire_param(&self, ident_or_wire: &str) -> Option<&str> {
        let by = |key: fn(&Param) -> &str| self.params().iter().find(|param| key(param) == ident_or_wire);
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

fn only_text(raw: &Value) -> Option<&str> {
    let properties = raw.get("outputSchema")?.get("properties")?.as_object()?;
    let (key, schema) = properties.iter().next().filter(|_| properties.len() == 1)?;
    (schema.get("type")? == "string").then_some(key)
}

pub(crate) fn param_idents(shape: &Shape<'_>) -> Vec<String> {
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
