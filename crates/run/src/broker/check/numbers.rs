//! Literals that a double does not hold.

use wire::Language;
use wire::numbers::is_whole;

use base::error::{Error, ErrorCode};
use base::text::head;

/// Most characters of a literal that are shown.
const MAX_SHOWN: usize = 80;

/// The note of such a literal: what the script gets, and what to write.
pub(super) fn rounded(literal: &str, language: Language) -> Error {
    let shown = head(literal, MAX_SHOWN);
    if is_whole(literal) {
        let message =
            format!("`{shown}` is beyond 2^53, where a number loses digits: it is read as the BigInt `{shown}n`");
        let fix = format!(
            "write `{shown}n`, which keeps its digits and does not mix with numbers, or a rounded number such as `1e18`"
        );
        return Error::new(ErrorCode::ScriptError, message).hint(fix);
    }
    let read = literal.replace('_', "").parse().unwrap_or(f64::INFINITY);
    let (of, infinite) = match language {
        Language::Javascript => ("number", "Infinity"),
        Language::Starlark => ("float", "inf"),
    };
    let read = if read.is_finite() { format!("{read:?}") } else { infinite.to_owned() };
    let message = format!("`{shown}` is no {of} of its digits: it is read as `{read}`");
    Error::new(ErrorCode::ScriptError, message).hint(format!("write `{read}` if that is meant, or the digits as text"))
}
