//! Types that no schema can say, and what to write instead.

use oxc_ast::ast::TSType;
use oxc_span::GetSpan as _;

use super::{Fit, unfit};

/// Refuses a function.
pub(super) fn function_at<T>(at: u32) -> Fit<T> {
    unfit(
        at,
        "a function cannot be passed to a tool or returned by it",
        "leave it out, or take the data that it would compute",
    )
}

/// Says why a type cannot be part of a signature.
pub(super) fn refused<T>(kind: &TSType<'_>) -> Fit<T> {
    let at = kind.span().start;
    let (what, instead) = match kind {
        TSType::TSFunctionType(_) | TSType::TSConstructorType(_) => return function_at(at),
        TSType::TSSymbolKeyword(_) => ("`symbol` has no JSON form", "write `string`"),
        TSType::TSNeverKeyword(_) => ("`never` has no values", "leave the property out"),
        TSType::TSVoidKeyword(_) => ("`void` is a type of returned values alone", "write `null`"),
        TSType::TSMappedType(_) => ("mapped types are not read", "write the properties out, or `Record<string, …>`"),
        TSType::TSTemplateLiteralType(_) => ("template literal types are not read", "write `string`"),
        TSType::TSConditionalType(_) | TSType::TSInferType(_) => {
            ("conditional types are not read", "write the type out")
        }
        TSType::TSIntersectionType(_) => ("only object types can be joined by `&`", "write one object type"),
        TSType::TSImportType(_) => ("types of other files are not read", "write the type in this file"),
        TSType::TSTypePredicate(_) => ("a type predicate has no JSON form", "write `boolean`"),
        TSType::JSDocUnknownType(_) => ("`?` alone is not a type", "write `unknown`"),
        _ => ("computed types are not read", "write the type out"),
    };
    unfit(at, what, instead)
}

/// The correction of a type that is not one of this file.
pub(super) fn instead_of(name: &str) -> &'static str {
    match name {
        "String" | "str" => "write `string`",
        "Number" | "int" | "float" => "write `number`",
        "Boolean" | "bool" => "write `boolean`",
        "Date" => "dates cross as text: write `string`, and make a date of it in the script",
        "Map" | "WeakMap" => "write `Record<string, …>`",
        "Set" | "WeakSet" | "Iterable" => "write an array: `string[]`",
        "Function" => "a function cannot be passed to a tool: take the data that it would compute",
        "Promise" => "a promise can be returned alone: write the type of its value",
        "Partial" | "Required" | "Pick" | "Omit" | "Exclude" | "Extract" | "NonNullable" => "write the properties out",
        "Uint8Array" | "ArrayBuffer" | "Buffer" | "Blob" => {
            "bytes cross as text: write `string`, and encode them as base64"
        }
        "BigInt" => "write `bigint`",
        _ => "declare the type in this file, or write it out",
    }
}
