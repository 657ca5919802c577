//! Formats parameter lists like ruff.

use super::WIDTH;
use crate::text;

/// A parameter ready for layout.
pub(super) struct Param {
    pub(super) flat: String,
    /// Over several lines, if `flat` is too long for a line of its own.
    pub(super) broken: Option<String>,
    pub(super) comment: String,
}

/// On one line, on one indented line, or one parameter per line: the first that fits, as in ruff.
pub(super) fn lay_out_def(out: &mut String, params: &[Param], rest: &str, result: &str, body: &str) {
    let after = format!(" -> {result}:{body}");
    let after_width = after.lines().next().map_or(0, text::width);
    let mut flat = String::new();
    if !params.is_empty() {
        flat.push_str("*, ");
        flat.push_str(&params.iter().map(|param| param.flat.as_str()).collect::<Vec<_>>().join(", "));
    }
    if !rest.is_empty() {
        flat.push_str(if params.is_empty() { "" } else { ", " });
        flat.push_str(rest);
    }
    let plain = params.iter().all(|param| param.comment.is_empty());
    let width = text::width(&flat);
    if plain && text::width(out) + 2 + width + after_width <= WIDTH {
        out.push_str(&format!("({flat}){after}"));
    } else if flat.is_empty() {
        // Only for a very long name: ruff then breaks the return type.
        out.push_str(&format!("() -> (\n    {result}\n):{body}"));
    } else if plain && 4 + width <= WIDTH {
        out.push_str(&format!("(\n    {flat}\n){after}"));
    } else {
        out.push_str("(\n");
        if !params.is_empty() {
            out.push_str("    *,\n");
        }
        params.iter().for_each(|param| push_param(out, param));
        if !rest.is_empty() {
            out.push_str(&format!("    {rest},\n"));
        }
        out.push_str(&format!("){after}"));
    }
}

fn push_param(out: &mut String, param: &Param) {
    let line = param.broken.as_deref().unwrap_or(&param.flat);
    let behind = 4 + text::width(line) + 5 + text::width(&param.comment) <= WIDTH && param.broken.is_none();
    if !param.comment.is_empty() && !behind {
        out.push_str(&format!("    # {}\n", param.comment));
    }
    out.push_str(&format!("    {line},"));
    if !param.comment.is_empty() && behind {
        out.push_str(&format!("  # {}", param.comment));
    }
    out.push('\n');
}
