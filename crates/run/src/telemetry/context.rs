//! Trace context of an execution (W3C Trace Context, which MCP carries in `_meta`: SEP-414).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::{Ended, EndedCall, Traces};
use base::outcome::Outcome;
use upstream::TraceContext;

/// Trace context of one execution.
#[derive(Debug, Default)]
pub struct Trace {
    /// Context of the client's request, if it is part of a trace.
    client: Option<SpanContext>,
    /// Our own context, if spans are exported.
    own: Option<SpanContext>,
}

impl Trace {
    /// A new context: a child of the client's, or the root of a new trace. Without `traces` there is none of ours.
    pub fn begin(traces: Option<&Arc<Traces>>, client: Option<&TraceContext>) -> Self {
        let client = client.and_then(parse);
        let own = traces.map(|_| match &client {
            // The start of the trace decides about sampling.
            Some(client) => within(client, span_id()),
            None => {
                let trace = TraceId::from_bytes(random());
                SpanContext::new(trace, span_id(), TraceFlags::SAMPLED, false, Default::default())
            }
        });
        Self { client, own }
    }

    /// Trace id for records.
    pub fn id(&self) -> Option<String> {
        let context = self.own.as_ref().or(self.client.as_ref())?;
        Some(context.trace_id().to_string())
    }

    /// Span id of a call, and the trace context for its server. Without spans of our own that is the client's context.
    pub fn call(&self) -> (Option<[u8; 8]>, Option<TraceContext>) {
        match (&self.own, &self.client) {
            (Some(own), _) => {
                let id = span_id();
                (Some(id.to_bytes()), Some(written(own, id)))
            }
            (None, Some(client)) => (None, Some(written(client, client.span_id()))),
            (None, None) => (None, None),
        }
    }

    /// Spans of an execution: its own, and one per sent call.
    pub(super) fn spans(&self, ended: &Ended<'_>) -> Vec<SpanData> {
        let Some(own) = self.own.as_ref().filter(|own| own.is_sampled()) else { return Vec::new() };
        let mut attributes = vec![
            KeyValue::new("mcp.session.id", ended.session.to_owned()),
            KeyValue::new("forgefs.calls", i64::try_from(ended.calls.len()).unwrap_or(i64::MAX)),
        ];
        attributes.extend(ended.language.map(|language| KeyValue::new("forgefs.language", language)));
        attributes.extend(ended.engine.map(|engine| KeyValue::new("forgefs.engine", engine)));
        let name = match ended.language {
            Some(language) => format!("{} {language}", ended.what),
            None => ended.what.to_owned(),
        };
        let parent = self.client.as_ref().map_or(SpanId::INVALID, SpanContext::span_id);
        let times = (ended.began, ended.began + ended.took);
        let mut execution = span(own.clone(), parent, name, times, ended.outcome, attributes);
        execution.span_kind = SpanKind::Server;
        execution.parent_span_is_remote = self.client.is_some();
        let calls = ended.calls.iter().filter_map(|call| call_span(own, call));
        std::iter::once(execution).chain(calls).collect()
    }
}

fn call_span(own: &SpanContext, call: &EndedCall<'_>) -> Option<SpanData> {
    let EndedCall { record, server } = call;
    let (id, method, server) = (SpanId::from_bytes(record.span?), record.method?, (*server)?);
    let bytes = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let mut attributes = vec![
        KeyValue::new("mcp.method.name", method),
        KeyValue::new("forgefs.server", server.to_owned()),
        KeyValue::new("forgefs.bytes.sent", bytes(record.args_bytes)),
        KeyValue::new("forgefs.bytes.received", bytes(record.answer_bytes)),
    ];
    let mut name = format!("{method} {server}");
    if method == "tools/call" {
        attributes.push(KeyValue::new("gen_ai.tool.name", record.tool.clone()));
        name = format!("{name}.{}", record.tool);
    }
    if !record.cost.is_zero() {
        attributes.push(KeyValue::new("forgefs.cost", record.cost.number()));
    }
    let context = within(own, id);
    let times = (record.began.0, record.began.0 + call.took());
    Some(span(context, own.span_id(), name, times, record.outcome, attributes))
}

/// A span of the trace that another one is in.
fn within(other: &SpanContext, id: SpanId) -> SpanContext {
    SpanContext::new(other.trace_id(), id, other.trace_flags(), false, other.trace_state().clone())
}

fn span(
    span_context: SpanContext,
    parent_span_id: SpanId,
    name: String,
    (start_time, end_time): (SystemTime, SystemTime),
    outcome: Outcome,
    mut attributes: Vec<KeyValue>,
) -> SpanData {
    let status = match outcome {
        Outcome::Ok => Status::Unset,
        failed => {
            attributes.push(KeyValue::new("error.type", failed.to_string()));
            Status::error(failed.to_string())
        }
    };
    SpanData {
        span_context,
        parent_span_id,
        parent_span_is_remote: false,
        span_kind: SpanKind::Client,
        name: name.into(),
        start_time,
        end_time,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: InstrumentationScope::builder("forgefs").with_version(env!("CARGO_PKG_VERSION")).build(),
    }
}

/// Parses a trace context; `None` if it is invalid by the specification.
fn parse(heard: &TraceContext) -> Option<SpanContext> {
    let mut carrier = HashMap::from([("traceparent".to_owned(), heard.parent.clone())]);
    carrier.extend(heard.state.clone().map(|state| ("tracestate".to_owned(), state)));
    let context = TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier);
    let found = context.span().span_context().clone();
    found.is_valid().then_some(found)
}

fn written(context: &SpanContext, span: SpanId) -> TraceContext {
    let flags = context.trace_flags().to_u8();
    let state = context.trace_state().header();
    TraceContext {
        parent: format!("00-{}-{span}-{flags:02x}", context.trace_id()),
        state: (!state.is_empty()).then_some(state),
    }
}

fn span_id() -> SpanId {
    SpanId::from_bytes(random())
}

/// Random bytes, not all zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [1; N];
    // Without randomness trace ids collide, which is no reason to stop.
    let _ = getrandom::fill(&mut bytes);
    bytes[0] |= 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    fn heard(parent: &str) -> TraceContext {
        TraceContext { parent: parent.to_owned(), state: Some("vendor=1".to_owned()) }
    }

    #[test]
    fn what_is_no_trace_context_is_not_passed_on() {
        for wrong in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
            "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01\r\nx: y",
        ] {
            assert_eq!(Trace::begin(None, Some(&heard(wrong))).call().1, None, "{wrong}");
        }
        let (id, told) = Trace::begin(None, Some(&heard(PARENT))).call();
        assert_eq!((id, told), (None, Some(heard(PARENT))), "without spans of our own, word for word");
    }
}
