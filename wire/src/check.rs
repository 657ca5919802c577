//! Scripts to parse, and what a checker found in them.

use serde::{Deserialize, Serialize};

use crate::{Language, Outline, ScriptError, Signature};

/// Memory that parsing a script may take: bytes for each byte of code, and for any script. docs/limits.md has both.
pub const PARSING_MEMORY: (usize, usize) = (600, 512 << 10);

/// The error of code that nests too deeply to be parsed. A checker says it with a place; one whose parser ran out of
/// stack dies, and the gateway says it.
pub const TOO_DEEP: &str =
    "the code is nested too deeply: give inner parts names with `const`, or make functions of them";

/// One script to parse.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    /// Number of this check, which its answer carries.
    pub check: u64,
    /// Its language. JavaScript may be TypeScript.
    pub language: Language,
    /// The script, without a byte order mark.
    pub code: String,
    /// Longest code that may come of it, in bytes.
    pub max_bytes: usize,
    /// Deepest syntax tree, in levels.
    pub max_levels: usize,
    /// True if the script must be a function with a signature, which becomes part of the facts.
    pub signature: bool,
    /// True if the parts of the script are asked for.
    pub parts: bool,
}

/// The answer to a [`Check`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    /// The check that it answers.
    pub check: u64,
    /// The facts of a script that can run, or its first error with a place in the script as written.
    pub result: Result<Facts, ScriptError>,
}

/// Facts that parsing found in a script. [`crate::Module`] holds them to the script.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Facts {
    /// The script without types, where it has any.
    pub stripped: Option<Stripped>,
    /// Where its value comes from. Offsets are in the stripped code, where there is one, else in the script with its
    /// [`numbers`](Self::numbers) as BigInt.
    pub value: ValueOf,
    /// Literals that a double does not hold: byte offsets in the script as written, in order.
    #[serde(default)]
    pub numbers: Vec<(u32, u32)>,
    /// Its calls. Places are in the module that the script becomes, or in Starlark.
    pub outline: Outline,
    /// Its signature, where the check asks for one.
    pub signature: Option<Signature>,
    /// Its parts, where the check asks for them.
    pub parts: Option<Box<crate::Parts>>,
}

/// TypeScript as JavaScript.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stripped {
    /// The JavaScript.
    pub code: String,
    /// Places of it that have one in the script, in order and each once: line and column of the code, line and column of the script.
    /// All count from 0; columns are UTF-16 units.
    pub map: Vec<[u32; 4]>,
}

/// The part of a script that gives its value, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ValueOf {
    /// Its result.
    #[default]
    Return,
    /// The expression that begins here, up to the end.
    Last(u32),
    /// The function that it consists of, from here to there.
    Function(u32, u32),
    /// The same, with a first parameter in braces, which cannot be taken from nothing: without arguments it gets `{}`.
    Destructured(u32, u32),
    /// The function of the name from here to there, which it declares and does not call.
    Named(u32, u32),
}

impl ValueOf {
    /// True for a script that consists of a function, which can take arguments.
    pub const fn is_function(self) -> bool {
        matches!(self, Self::Function(..) | Self::Destructured(..))
    }
}
