//! Parses clients' files, with the place of a mistake.

use jsonc_parser::errors::ParseError;
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::Value;

use config::{Position, position};

/// JSON as clients accept it. The parser's other leniency would hide mistakes.
pub(in crate::cli) const JSON: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses JSON with comments and trailing commas; `null` without a value.
pub(in crate::cli) fn json(text: &str) -> Result<Value, String> {
    parse_to_serde_value(text, &JSON).map_err(|error| json_mistake(&error))
}

/// Parses TOML.
pub(in crate::cli) fn toml(text: &str) -> Result<Value, String> {
    let mistake = |error: toml::de::Error| {
        let message = error.message().replace('\n', "; ");
        match error.span().map(|span| position(text, span.start)) {
            Some(Position { line, column }) => format!("{line}:{column}: {message}"),
            None => message,
        }
    };
    let table: toml::Table = toml::from_str(text).map_err(mistake)?;
    serde_json::to_value(table).map_err(|error| error.to_string())
}

/// Says where the mistake is, and what.
pub(in crate::cli) fn json_mistake(error: &ParseError) -> String {
    format!("{}:{}: {}", error.line_display(), error.column_display(), error.kind())
}
