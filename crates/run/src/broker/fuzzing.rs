//! Fuzz targets: arbitrary answers, schemas and arguments.

use serde_json::{Value, json};

use super::arguments::allowed;
use super::normalise::{Origin, tool_answer};
use super::schema::{Check, Dialect, Halt, Patterns, Problems};
use super::{Attachments, sample};
use base::error::Effect;
use base::json;
use base::limits;
use base::meter::Meter;
use config::Limits;
use inputs::{CHURN, Input, holds, spent, warmed};
use redact::{Results, Surface};
use upstream::{Block, ToolAnswer};

/// Steps of a check.
const STEPS: u64 = 300_000;
/// Most bytes of a generated answer.
const MOST: usize = 100_000;

const LEAVES: &[&str] = &[
    "a", "{", "}", "[", "]", ",", ":", "\\u0000", "\\\"", "$serde_json::private::Number", "password", "ghp_", "a@b.cd",
    "1", "<<EMAIL:1>>", "eyJ", "-----BEGIN ", "null", "0,", "[0],", "{\"\":0},", "jsonrpc",
];

/// Checks that a server's line is parsed in linear memory, that its values take the measured memory, and that its text
/// leaves redacted and rendered at a linear size.
pub fn answers(data: &[u8]) {
    warmed(check_answers, data);
}

fn check_answers(data: &[u8]) {
    let mut input = Input::new(data);
    let text = input.json(LEAVES, MOST);
    let line = match input.byte() % 6 {
        0 => text.clone(),
        1 => format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{text}}}"),
        2 => format!("[{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{text}}},{text}]"),
        3 => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{text}}}"),
        4 => format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":{text}}}}}"),
        _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[],\"structuredContent\":{text}}}}}"),
    };
    let (_, memory) = spent(|| upstream::count_messages(line.as_bytes()));
    holds(&limits::MESSAGE_MEMORY, line.len(), memory.peak, &line);
    holds(&limits::MESSAGE_MEMORY, line.len(), memory.total / CHURN, &line);
    as_json(&text);
    as_answer(&mut input, text);
}

fn as_json(text: &str) {
    let Ok(measure) = json::measure(text.as_bytes()) else { return };
    holds(&limits::JSON_MEMORY, text.len(), measure.tree_bytes, &text);
    let (parsed, memory) = spent(|| json::parse::<Value>(text.as_bytes(), usize::MAX));
    assert!(memory.kept <= measure.tree_bytes + 64, "{memory:?} beside {measure:?} for {text:?}");
    let Ok(value) = parsed else { return };
    let (laid, compact) = (json::laid_out(text), json::compact(text));
    assert!(json::compact(&laid) == compact, "{text:?}");
    holds(&limits::LAID_OUT_BYTES, compact.len(), laid.len(), &text);
    let (clean, memory) = spent(|| redact::json(Surface::Answer(Results::SecretsAndPii), value));
    holds(&limits::REDACTED_BYTES, text.len(), json::written(&clean), &text);
    holds(&limits::REDACTION_MEMORY, text.len(), memory.peak, &text);
    holds(&limits::REDACTION_MEMORY, text.len(), memory.total / CHURN, &text);
}

fn as_answer(input: &mut Input<'_>, text: String) {
    let shown = text.clone();
    // A server sends a text as JSON, which has six bytes for a control character.
    let (bytes, block) = match (input.byte() % 3, serde_json::from_str(&text)) {
        (0, Ok(value)) => (text.len(), Block::Other(json!({ "type": "image", "data": value }))),
        (1, Ok(value)) => (text.len(), Block::Other(value)),
        _ => (json::written(&json!(text)), Block::Text(text)),
    };
    let answer = ToolAnswer {
        content: vec![block; input.times(6)],
        failed: input.byte().is_multiple_of(2).then(Effect::default),
        ..ToolAnswer::default()
    };
    let (bytes, limits) = (bytes * answer.content.len(), Limits::default());
    let attachments = Attachments::default();
    let origin = Origin { server: "s", tool: "t", limits: &limits, attachments: &attachments, is_whole: false };
    let (answered, memory) = spent(|| tool_answer(answer, &origin).1);
    holds(&limits::ANSWER_MEMORY, bytes, memory.peak, &shown);
    match answered {
        Ok(value) => {
            holds(&limits::ANSWER_BYTES, bytes, json::written(&value), &shown);
            let settled = attachments.settle(value, |_| false);
            assert!(settled.blocks.len() <= 30);
        }
        Err(error) => assert!(error.message.len() <= 5_000, "{}", error.message.len()),
    }
}

/// Checks that validation and samples stay within the published steps and memory.
pub fn schemas(data: &[u8]) {
    warmed(check_schemas, data);
}

fn check_schemas(data: &[u8]) {
    let mut input = Input::new(data);
    let schema = input.schema();
    let value = arguments(&mut input);
    let bytes = (schema.to_string().len(), value.to_string().len());
    // Enough to measure a step's cost; `hostile.rs` spends the full limit.
    let steps = allowed(bytes.1, bytes.0).min(STEPS);
    let (meter, patterns) = (Meter::new(steps), Patterns::default());
    let (checked, memory) = spent(|| {
        let dialect = Dialect::of(&schema, &meter)?;
        Check::new(&schema, dialect, &meter, &patterns).find(&value, Problems::default())
    });
    holds(&limits::SCHEMA_MEMORY, bytes.0 + bytes.1, memory.peak, &(&value, &schema));
    // Every allocation is paid for in steps.
    let worked = 1_000 * (steps - meter.left()) as usize + (1 << 20);
    assert!(memory.total <= worked, "{memory:?} of {worked} for {value} of {schema}");
    match checked {
        Ok(problems) => assert!(problems.line().len() < 3_000, "{} for {value} of {schema}", problems.line()),
        Err(Halt::Unreadable(why)) => assert!(why.len() < 1_000, "{why} for {schema}"),
        Err(_) => {}
    }
    let (made, memory) = spent(|| sample::of(Some(&schema)));
    holds(&limits::SAMPLE_BYTES, 0, json::written(&made), &schema);
    holds(&limits::SAMPLE_MEMORY, 0, memory.peak, &schema);
}

fn arguments(input: &mut Input<'_>) -> Value {
    const TEXTS: &[&str] = &["a", "aaaa", "x", "@", ".", "(", "1", "2020-01-01T", "http://", "é"];
    let inner = serde_json::from_str(&input.json(TEXTS, 20_000)).unwrap_or(Value::Null);
    let nested = (0..input.times(100)).fold(inner.clone(), |value, at| match at % 3 {
        0 => json!({ "a": value }),
        1 => json!([value]),
        _ => json!({ "b": value }),
    });
    json!({ "a": nested, "b": inner, "c d": vec![input.text(TEXTS, 200); input.times(200)] })
}

#[cfg(test)]
mod tests {
    use inputs::property;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A list that has just grown already has room for each of its values.
    #[test]
    fn a_list_takes_what_is_measured_for_it_whatever_its_length() {
        answers(b"warm");
        for item in ["true", "0", "[]", "\"\"", "[0]"] {
            for length in [1, 4, 5, 33, 129, 1_025, 4_097] {
                as_json(&format!("[{}]", vec![item; length].join(",")));
            }
        }
    }

    proptest! {
        #![proptest_config(property())]

        #[test]
        fn answers_take_linear_memory(data in vec(any::<u8>(), 0..300)) {
            answers(&data);
        }

        #[test]
        fn schemas_take_linear_steps_and_memory(data in vec(any::<u8>(), 0..400)) {
            schemas(&data);
        }
    }
}
