//! Fuzz target: arbitrary foreign text for people.

use serde_json::{Value, json};

use base::limits;
use inputs::{CHURN, Input, holds, spent, warmed};
use upstream::Ask;

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
        holds(&limits::SHOWN_BYTES, text.len(), shown, &text);
    }
    holds(&limits::SHOWN_MEMORY, text.len(), memory.peak, &text);
    for shown in [&line, &quoted] {
        assert!(!shown.chars().any(super::is_hidden) && !shown.contains(super::MARK), "{shown:?} for {text:?}");
    }
    let arguments: Value = serde_json::from_str(&input.json(PIECES, 20_000)).unwrap_or_else(|_| json!({ "to": text }));
    let bytes = arguments.to_string().len();
    let (lines, memory) = spent(|| super::fields(&arguments, &arguments));
    holds(&limits::SHOWN_MEMORY, bytes, memory.peak, &arguments);
    holds(&limits::SHOWN_MEMORY, bytes, memory.total / CHURN, &arguments);
    match lines {
        Ok(lines) => assert!(lines.iter().map(String::len).sum::<usize>() <= limits::SHOWN.max, "{arguments}"),
        Err(error) => assert!(error.message.len() < 500, "{error}"),
    }
    let form = json!({ "message": text, "mode": input.one(&["form", "url"]), "url": format!("https://{text}"),
        "requestedSchema": { "properties": arguments } });
    let bytes = form.to_string().len();
    for ask in [Ask::Elicitation, Ask::Sampling] {
        let (asked, memory) = spent(|| super::relayed("s", ask, form.clone()));
        holds(&limits::SHOWN_MEMORY, bytes, memory.peak, &form);
        let written = asked.map_or_else(|error| error.message.len(), |asked| asked.to_string().len());
        holds(&limits::SHOWN_BYTES, bytes, written, &form);
    }
}

#[cfg(test)]
mod tests {
    use inputs::property;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property())]

        #[test]
        fn what_is_shown_is_of_linear_size(data in vec(any::<u8>(), 0..200)) {
            super::shown(&data);
        }
    }
}
