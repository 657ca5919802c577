//! OpenAPI documents as tools: one for each operation, with the plan of its request.
//!
//! [`Api::read`] makes both of a document, which is untrusted: its size, its values, its `$ref`s and what they become are
//! bounded, and every step is metered. [`Plan::request`] makes a request of arguments. Nothing here is sent.

mod address;
mod body;
mod document;
mod names;
mod operation;
mod parameters;
mod refs;
mod request;
mod schema;
mod style;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};
use url::Url;

use self::document::Document;
use self::names::Names;
use self::operation::Operation;
use self::refs::Refs;
use base::error::{Error, ErrorCode};
use base::json;
use base::limits;
use base::memory;
use base::meter::{Halt, Meter, Stopped};
use base::text::{brief, head};

pub use body::{essence, is_json, is_text};
pub use operation::CATEGORY;
pub use request::{Plan, Request};

/// Methods whose operations become tools. `OPTIONS` and `TRACE` are about the connection.
const METHODS: &[&str] = &["get", "head", "put", "post", "delete", "patch"];
/// Operations left out that are named.
const NAMED: usize = 10;
/// Most bytes of the description of the whole.
const MAX_ABOUT: usize = 8 << 10;

/// Where a document comes from, and what the configuration says of it.
pub struct Source<'s> {
    /// The document.
    pub bytes: &'s [u8],
    /// Its URL, if it has one.
    pub url: Option<&'s Url>,
    /// Its folder, if it is a file.
    pub folder: Option<&'s Path>,
    /// The configured address of its operations.
    pub base: Option<&'s Url>,
    /// Lower-case names of headers that the configuration sets.
    pub headers: &'s BTreeSet<String>,
    /// Names in the query that the configuration sets.
    pub query: &'s BTreeSet<String>,
    /// True for the tools that the configuration shows. Of others only the name is made.
    pub is_shown: &'s dyn Fn(&str) -> bool,
}

/// A document as tools.
pub struct Api {
    /// Address of its operations.
    pub base: Url,
    /// Version of the specification, such as `3.0.3`.
    pub version: String,
    /// Title and description.
    pub about: String,
    /// Definitions as in `tools/list`.
    pub tools: Vec<Value>,
    /// Bytes of the definitions and plans.
    pub bytes: usize,
    /// How each tool is called, by its name.
    pub plans: BTreeMap<String, Plan>,
    /// Operations that were left out, with the reason.
    pub notes: Vec<String>,
}

/// Reason why there is no tool of an operation.
pub(super) enum Problem {
    /// Only of this one.
    Here(String),
    /// The work was stopped.
    Stopped(Stopped),
}

impl From<Stopped> for Problem {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl Api {
    /// Makes tools of a document.
    ///
    /// # Errors
    /// The document is not usable, and why; or the work was stopped.
    pub fn read(source: &Source<'_>, meter: &Meter) -> Result<Self, Halt> {
        // Parsing and checking the document are linear in its size.
        meter.spend(4_000 + source.bytes.len() as u64)?;
        let document = Document::read(source.bytes)?;
        let refs = Refs::of(&document, source.folder);
        let base = address::base(source.url, source.base, document.root.get("servers"))?;
        let mut api = Self {
            base,
            version: document.written.clone(),
            about: about(&document.root),
            tools: Vec::new(),
            bytes: 0,
            plans: BTreeMap::new(),
            notes: Vec::new(),
        };
        let (mut names, mut left_out) = (Names::default(), Vec::new());
        for (path, file, item) in paths(&document, &refs, &mut left_out) {
            for method in METHODS {
                let Some(operation) = item.get(*method).and_then(Value::as_object) else { continue };
                let id = operation.get("operationId").and_then(Value::as_str);
                let name = names.take(id, method, path);
                if !(source.is_shown)(&name) {
                    let tool = json!({ "name": name, "inputSchema": { "type": "object" } });
                    api.add(tool, 0)?;
                    continue;
                }
                let operation = Operation { name: &name, method, path, file, item, fields: operation };
                match operation.make(source, &document, &refs, meter) {
                    Ok((tool, plan)) => {
                        api.add(tool, plan.bytes())?;
                        api.plans.insert(name, plan);
                    }
                    Err(Problem::Here(why)) => {
                        left_out.push(format!("{} {}: {why}", method.to_ascii_uppercase(), brief(path)));
                    }
                    Err(Problem::Stopped(Stopped::Spent)) => return Err(too_much(method, path).into()),
                    Err(Problem::Stopped(stopped)) => return Err(Halt::Stopped(stopped)),
                }
            }
        }
        api.notes = left_out;
        api.settle()?;
        Ok(api)
    }

    /// Adds a tool, whose plan has these bytes: texts of the document that many operations share.
    fn add(&mut self, tool: Value, plan: usize) -> Result<(), Error> {
        limits::OPENAPI_OPERATIONS
            .check(self.tools.len() + 1)
            .map_err(|error| error.with_code(ErrorCode::UpstreamError))?;
        self.bytes += json::written(&tool) + plan;
        if self.bytes > memory::list_bytes() {
            let (most, tools) = (memory::list_bytes(), self.tools.len());
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            let what = format!(
                "its tools have more than {most} bytes, the limit for one server, from {name} on ({tools} fit)"
            );
            return Err(Error::new(ErrorCode::UpstreamError, what)
                .hint("raise `memory.list`, or leave operations out with `allow` and `deny`"));
        }
        self.tools.push(tool);
        Ok(())
    }

    /// Shortens the notes. A document of which nothing remains is an error.
    fn settle(&mut self) -> Result<(), Error> {
        let all = self.notes.len();
        if let (true, Some(first)) = (self.tools.is_empty(), self.notes.first()) {
            let what = format!("none of its {all} operations becomes a tool; the first is {first}");
            return Err(Error::new(ErrorCode::UpstreamError, what));
        }
        self.notes.truncate(NAMED);
        if all > NAMED {
            self.notes.push(format!("and {} more operations are left out", all - NAMED));
        }
        for note in &mut self.notes {
            *note = format!("left out: {}", head(note, 500));
        }
        Ok(())
    }
}

/// Path items in the order of their paths, with the file that they are in.
fn paths<'d>(
    document: &'d Document,
    refs: &'d Refs<'_>,
    left_out: &mut Vec<String>,
) -> Vec<(&'d str, usize, &'d Map<String, Value>)> {
    let paths = document.root.get("paths").and_then(Value::as_object);
    let mut items = Vec::new();
    for (path, item) in paths.into_iter().flatten().filter(|(path, _)| path.starts_with('/')) {
        match refs.follow(0, item) {
            Ok((file, Value::Object(item))) => items.push((path.as_str(), file, item)),
            Ok(_) => left_out.push(format!("{}: it is no object", brief(path))),
            Err(why) => left_out.push(format!("{}: {why}", brief(path))),
        }
    }
    items.sort_by_key(|(path, ..)| *path);
    items
}

fn too_much(method: &str, path: &str) -> Error {
    let what = format!(
        "reading the document takes too much work: it ended at {} {}",
        method.to_ascii_uppercase(),
        brief(path)
    );
    Error::new(ErrorCode::UpstreamError, what).hint("remove operations or schemas from it")
}

fn about(root: &Value) -> String {
    let text = |key: &str| root.pointer(key).and_then(Value::as_str).unwrap_or_default();
    let (title, description) = (text("/info/title"), text("/info/description"));
    let about = if description.is_empty() { title.to_owned() } else { format!("{title}\n\n{description}") };
    head(&about, MAX_ABOUT).to_owned()
}
