//! The signature of a function script: what it takes and gives, as JSON Schema.

use serde::{Deserialize, Serialize};

use crate::Json;

/// Longest description of a script, in bytes.
pub const MAX_DOC: usize = 8 << 10;
/// Largest schema of a signature, as JSON in bytes.
pub const MAX_SCHEMA: usize = 64 << 10;
/// Most types in the two schemas of a signature together.
pub const MAX_TYPES: usize = 1000;
/// Deepest nesting of types in a schema.
pub const MAX_TYPE_LEVELS: usize = 16;

/// Memory that reading a signature may take beside parsing, in bytes.
pub const SIGNATURE_MEMORY: usize = 4 << 20;

/// Keywords of the schemas that checkers make. A gateway takes no other.
pub const SCHEMA_KEYWORDS: &[&str] = &[
    "type", "description", "default", "enum", "anyOf", "properties", "required", "additionalProperties", "items",
    "prefixItems", "minItems", "maxItems",
];

/// The signature of a script that consists of a function.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Signature {
    /// Its documentation, without the parts about parameters and the value.
    pub doc: String,
    /// JSON Schema of the object that it takes.
    pub params: Json,
    /// JSON Schema of its value, if the script says what it is.
    pub returns: Option<Json>,
}
