//! Literals of a script that doubles do not hold. Whole ones become BigInt, by an `n` behind them.

use std::borrow::Cow;

use crate::outline::{MAX_READS, Place};
use crate::position;

/// Text of a literal at byte offsets, if there can be one.
fn literal(script: &str, (start, end): (u32, u32)) -> Option<&str> {
    let text = script.get(start as usize..end as usize)?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'+' | b'-');
    let is_begun = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    Some(text).filter(|text| is_begun && text.bytes().all(is_part))
}

/// True for a literal without point and exponent.
pub fn is_whole(literal: &str) -> bool {
    let is_prefixed =
        literal.starts_with('0') && literal[1..].starts_with(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E');
    is_prefixed || !literal.contains(['.', 'e', 'E'])
}

/// The first of the literals, with their places.
pub fn shown(script: &str, numbers: &[(u32, u32)]) -> Vec<(Place, String)> {
    let shown = numbers
        .iter()
        .take(MAX_READS)
        .filter_map(|at| literal(script, *at).map(|text| (position(script, at.0 as usize), text.to_owned())));
    shown.collect()
}

/// The script with whole literals as BigInt, and the places of what was inserted.
///
/// # Errors
/// The literal that cannot be true.
pub fn widened<'s>(script: &'s str, numbers: &[(u32, u32)]) -> Result<(Cow<'s, str>, Vec<Place>), &'static str> {
    if !numbers.is_sorted_by(|a, b| a.1 <= b.0) {
        return Err("the numbers are not in order");
    }
    let (mut code, mut places, mut done) = (String::new(), Vec::new(), 0);
    let (mut line, mut column) = (1, 1);
    for at in numbers {
        let end = at.1 as usize;
        if !is_whole(literal(script, *at).ok_or("a number is not in the script")?) {
            continue;
        }
        let more = &script[done..end];
        let (down, right) = position(more, more.len());
        (line, column) = if down == 1 { (line, column + right - 1) } else { (line + down - 1, right) };
        places.push((line, column));
        code.push_str(more);
        code.push('n');
        (column, done) = (column + 1, end);
    }
    if places.is_empty() {
        return Ok((Cow::Borrowed(script), places));
    }
    code.push_str(&script[done..]);
    Ok((Cow::Owned(code), places))
}
