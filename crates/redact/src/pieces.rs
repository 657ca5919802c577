//! Secrets split over several consecutive texts: lines of a key, blocks of an answer.

use serde_json::Value;

use super::PlaceholderWriter;
use super::scan::{self, Found, rank, replace};
use crate::secret;

/// Redacts secrets with one piece in each of several consecutive texts; true if there were any.
pub(super) fn take_out(writer: Option<&PlaceholderWriter<'_>>, items: &mut [Value]) -> bool {
    let mut texts: Vec<&mut String> = items.iter_mut().filter_map(text_of).collect();
    if texts.len() < 2 {
        return false;
    }
    let mut joined = String::new();
    let mut ends = Vec::with_capacity(texts.len());
    for text in &texts {
        joined.push_str(text);
        ends.push(joined.len());
    }
    let mut found = secret::places(&joined);
    scan::spent(joined.len());
    scan::credentials(&joined, &mut found);
    found.retain(|found| {
        let first = ends.partition_point(|end| *end <= found.from);
        found.rank <= rank::SHAPE && ends.get(first).is_some_and(|end| found.to > *end)
    });
    whole(&joined, &ends, &mut found);
    // From last to first, so that earlier positions stay valid.
    found.sort_unstable_by_key(|found| std::cmp::Reverse((found.from, found.to)));
    let mut before = usize::MAX;
    for Found { from, to, label, rank } in found {
        if to > before {
            continue;
        }
        before = from;
        let first = ends.partition_point(|end| *end <= from);
        let name = replace(&joined[from..to], vec![Found { from: 0, to: to - from, label, rank }], writer);
        for (index, text) in texts.iter_mut().enumerate().skip(first) {
            let start = index.checked_sub(1).map_or(0, |last| ends[last]);
            if start >= to {
                break;
            }
            let place = from.max(start) - start..to.min(ends[index]) - start;
            text.replace_range(place, if index == first { &name } else { "" });
        }
    }
    before < usize::MAX
}

/// Drops a secret that is complete in its first text: the next text would be taken for more of it.
fn whole(joined: &str, ends: &[usize], found: &mut Vec<Found>) {
    let mut own: Vec<Found> = Vec::new();
    let mut piece = usize::MAX;
    found.sort_unstable_by_key(|found| found.from);
    found.retain(|cut| {
        let first = ends.partition_point(|end| *end <= cut.from);
        let start = first.checked_sub(1).map_or(0, |last| ends[last]);
        if piece != first {
            piece = first;
            own.clear();
            scan::spent(ends[first] - start);
            scan::credentials(&joined[start..ends[first]], &mut own);
        }
        let dots = |from, to| joined[from..to].bytes().filter(|byte| *byte == b'.').count();
        own.iter().filter(|own| start + own.from == cut.from && own.label == cut.label).all(|own| match cut.label {
            "jwt" => dots(start + own.from, start + own.to) < dots(cut.from, cut.to),
            "private-key" => joined[..cut.to].ends_with("-----"),
            _ => false,
        })
    });
}

/// A text, or the text of an MCP block.
fn text_of(item: &mut Value) -> Option<&mut String> {
    match item {
        Value::String(text) => Some(text),
        Value::Object(block) if block.get("type")? == "text" => match block.get_mut("text")? {
            Value::String(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
