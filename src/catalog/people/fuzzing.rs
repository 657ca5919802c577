//! Fuzz target: arbitrary foreign text for people.

use serde_json::{Value, json};

use crate::base::limits;
use crate::fuzzing::{CHURN, Input, spent, warmed};
use crate::upstream::Ask;

const PIECES: &[&str] =
    &["a", "     ", "\u{a0}", "\u{300}", "\u{202e}", "\u{1}", "▌", "\"", "\\", "to", "https://", "xn--", "é"];

/// Checks that text, arguments, forms and addresses are shown at a linear size and within their lines.
pub fn shown(data: &[u8]) {
    warmed(check_shown, data);
}

fn check_shown(data: &[u8]) {
    let mut input = Input::new(data);
    let text = input.text(PIECES, 20_000);
    let ((visible, line, quoted), memory) =
        spent(|| (super::visible(&text).len(), super::line(&text).into_owned(), super::quoted(&text)));
    for shown in [visible, line.len(), quoted.len()] {
        limits::SHOWN_BYTES.holds(text.len(), shown, &text);
    }
    limits::SHOWN_MEMORY.holds(text.len(), memory.peak, &text);
    for shown in [&line, &quoted] {
        assert!(!shown.chars().any(super::is_hidden) && !shown.contains(super::MARK), "{shown:?} for {text:?}");
    }
    let arguments: Value = serde_json::from_str(&input.json(PIECES, 20_000)).unwrap_or_else(|_| json!({ "to": text }));
    let bytes = arguments.to_string().len();
    let (lines, memory) = spent(|| super::fields(&arguments));
    limits::SHOWN_MEMORY.holds(bytes, memory.peak, &arguments);
    limits::SHOWN_MEMORY.holds(bytes, memory.total / CHURN, &arguments);
    match lines {
        Ok(lines) => assert!(lines.iter().map(String::len).sum::<usize>() <= limits::SHOWN.max, "{arguments}"),
        Err(error) => assert!(error.message.len() < 500, "{error}"),
    }
    let form = json!({ "message": text, "mode": input.one(&["form", "url"]), "url": format!("https://{text}"),
        "requestedSchema": { "properties": arguments } });
    let bytes = form.to_string().len();
    for ask in [Ask::Elicitation, Ask::Sampling] {
        let (asked, memory) = spent(|| super::relayed("s", ask, form.clone()));
        limits::SHOWN_MEMORY.holds(bytes, memory.peak, &form);
        let written = asked.map_or_else(|error| error.message.len(), |asked| asked.to_string().len());
        limits::SHOWN_BYTES.holds(bytes, written, &form);
    }
}
