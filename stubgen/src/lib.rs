//! JSON Schema to typed stubs: `.pyi`, `.d.ts`, Markdown and JSON, byte-stable.
//!
//! The output depends on the input alone: no clock, no I/O, no map order. The same `tools/list` entry gives the same
//! bytes on every machine, build and feature set.

mod app;
mod call;
mod canon;
mod category;
mod definition;
mod editors;
mod forge;
mod hidden;
mod ident;
mod markdown;
mod observed;
mod path;
mod python;
mod schema;
mod server;
mod templates;
mod text;
mod tool;
mod typescript;

pub use app::{App, SCHEME as APP_SCHEME};
pub use canon::{canonical_json, digest, identity_json, pretty_json, sha256, short_digest};
pub use definition::Definition;
pub use editors::editor_files;
pub use forge::{forge_dts, forge_pyi};
pub use hidden::{is_format, is_hidden, is_rtl, is_usual};
pub use ident::{assign_idents, is_tool_ident};
pub use observed::Observed;
pub use path::At;
pub use schema::{KeywordForm, NOTE, subschemas};
pub use server::{ServerDef, ServerStubs, generate};
pub use text::{head, many_lines, one_line};
pub use tool::{Annotations, OVERRIDE, Param, ToolStub, View};
