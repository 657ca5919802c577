//! Parts of a script, from which a function with parameters is made.

use serde::{Deserialize, Serialize};

use crate::Json;

/// Most literals, places and names.
pub const MAX_PARTS: usize = 1000;

/// Parts of a script. Offsets are bytes of the script as written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Parts {
    /// True for TypeScript.
    pub typed: bool,
    /// Form of the script.
    pub form: Form,
    /// Literals in arguments of tools, and constants at the top, in order, none within another.
    pub literals: Vec<Literal>,
    /// Literals elsewhere that a name can stand for, likewise. They are named by a property, an argument or a variable.
    pub others: Vec<Literal>,
    /// The script with a word for each of these literals, and without comments and layout; in JavaScript also without types
    /// and the names of its variables. Empty with too many literals.
    pub outline: String,
    /// Texts of several lines, whose lines cannot be indented.
    pub verbatim: Vec<(u32, u32)>,
    /// Names that it declares or reads.
    pub names: Vec<String>,
    /// True if it has more than is listed here.
    pub is_partial: bool,
}

/// Form of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Statements that return their value, or have none.
    #[default]
    Statements,
    /// Statements whose last is an expression, which begins here: their value.
    Last(u32),
    /// Starlark that assigns its value to `result`.
    Result {
        /// True if it does so only within an `if` or a loop, and may end without a value.
        is_perhaps: bool,
    },
    /// A JavaScript function without parameters.
    Function {
        /// End of the text before its statement.
        before: u32,
        /// Its statements, or its expression.
        body: (u32, u32),
        /// True if the body is an expression.
        is_expression: bool,
        /// Its name, which may be empty.
        name: String,
    },
    /// Starlark whose value is that of `main()`, which has no parameters.
    Main {
        /// Behind the opening parenthesis.
        params: u32,
        /// Behind the closing one, if no type follows it.
        returns: Option<u32>,
        /// The body.
        body: (u32, u32),
    },
    /// A function that has parameters.
    Taken,
}

/// A literal that can become a parameter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Literal {
    /// Its text.
    pub at: (u32, u32),
    /// Begin of the JavaScript property `key: literal` that it ends.
    pub property: Option<u32>,
    /// The statement `const NAME = literal` or `NAME = literal` at the top, if it is one.
    #[serde(default)]
    pub constant: Option<(u32, u32)>,
    /// Name of the argument or constant; `value` for one elsewhere without a name.
    pub key: String,
    /// Its value: text, a number, a boolean, or a list of these.
    pub value: Json,
}
