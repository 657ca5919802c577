//! What a proxy knows of the messages that it passes: requests in flight, and what the next daemon must hear again.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::mcp;
use base::error::{Error, ErrorCode, code_name};
use base::lines::trim;
use base::{limits, random};

/// Requests that call no server: the next daemon may answer them as well.
const REPEATABLE: [&str; 11] = [
    "initialize", "logging/setLevel", "ping", "prompts/list", "resources/list", "resources/subscribe",
    "resources/templates/list", "resources/unsubscribe", "server/discover", "subscriptions/listen", "tools/list",
];
/// Stream of changes, which is opened again at any number of daemons.
const LISTEN: &str = "subscriptions/listen";
/// Messages of a client's handshake and settings.
const INITIALIZE: &str = "initialize";
const INITIALIZED: &str = "notifications/initialized";
const CANCELLED: &str = "notifications/cancelled";

/// Parts of a message that a proxy looks at.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Parameters that a proxy looks at.
#[derive(Deserialize)]
struct Params<'a> {
    uri: Option<String>,
    #[serde(borrow, rename = "requestId")]
    request: Option<&'a RawValue>,
}

/// Fate of a message of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// For the client.
    Pass,
    /// An answer to a message that the proxy repeated.
    Swallow,
    /// The daemon ends, and has answered what it had received: what is unanswered was not begun.
    Goodbye,
}

/// A request in flight.
struct InFlight {
    /// The line, if it is short enough to be kept.
    line: Option<Vec<u8>>,
    /// True if another daemon may answer it, whatever this one has done.
    is_repeatable: bool,
    is_initialize: bool,
    is_stream: bool,
}

/// A request for the next daemon.
struct Again {
    line: Vec<u8>,
    is_stream: bool,
}

/// State of one client's connection.
#[derive(Default)]
pub(super) struct Traffic {
    in_flight: BTreeMap<String, InFlight>,
    /// The client's handshake, once it was answered, and what it set since.
    initialize: Option<Vec<u8>>,
    initialized: Option<Vec<u8>>,
    level: Option<Vec<u8>>,
    subscribed: BTreeMap<String, Vec<u8>>,
    /// Unanswered requests of the daemon.
    asked: BTreeSet<String>,
    /// Ids of repeated messages.
    repeated: BTreeSet<String>,
    /// Requests for the next daemon, and their ids: without a goodbye none is repeated twice.
    again: Vec<Again>,
    tried: BTreeSet<String>,
}

impl Traffic {
    /// False for a line that the daemon must not see: an answer to a question of an earlier one.
    pub(super) fn is_for_daemon(&self, line: &[u8]) -> bool {
        match serde_json::from_slice(trim(line)) {
            Ok(Envelope { id: Some(id), method: None, .. }) => self.asked.contains(&key(id)),
            _ => true,
        }
    }

    /// Notes a line that was sent as a whole.
    pub(super) fn sent(&mut self, line: &[u8]) {
        let Ok(Envelope { id, method, params, .. }) = serde_json::from_slice(trim(line)) else { return };
        let fits = line.len() <= limits::KEPT_MESSAGE.max;
        let params = || params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
        match (id.map(key), method.as_deref()) {
            (Some(id), Some(method)) => {
                // What has another id is answered without one: it would be in flight for good.
                let is_known = id.starts_with('"') || id.parse::<i64>().is_ok();
                match method {
                    "logging/setLevel" if fits => self.level = Some(line.to_vec()),
                    "resources/subscribe" if fits && self.subscribed.len() < limits::SUBSCRIBED.max => {
                        let uri = params().and_then(|params| params.uri);
                        uri.map(|uri| self.subscribed.insert(uri, line.to_vec()));
                    }
                    "resources/unsubscribe" => {
                        let uri = params().and_then(|params| params.uri);
                        uri.map(|uri| self.subscribed.remove(&uri));
                    }
                    _ => {}
                }
                let is_repeatable = REPEATABLE.contains(&method) && (method == LISTEN || !self.tried.remove(&id));
                let (is_initialize, is_stream) = (method == INITIALIZE, method == LISTEN);
                let line = (fits && is_known).then(|| line.to_vec());
                self.in_flight.insert(id, InFlight { line, is_repeatable, is_initialize, is_stream });
            }
            (Some(id), None) => drop(self.asked.remove(&id)),
            (None, Some(INITIALIZED)) if fits => self.initialized = Some(line.to_vec()),
            // There will be no answer.
            (None, Some(CANCELLED)) => {
                let request = params().and_then(|params| Some(key(params.request?)));
                request.map(|request| self.in_flight.remove(&request));
            }
            _ => {}
        }
    }

    /// Notes a line of the daemon.
    pub(super) fn received(&mut self, line: &[u8]) -> Fate {
        let Ok(Envelope { id, method, params, error }) = serde_json::from_slice(trim(line)) else { return Fate::Pass };
        match (id.map(key), method.as_deref()) {
            (Some(id), None) if self.repeated.remove(&id) => return Fate::Swallow,
            (Some(id), None) => {
                let answered = self.in_flight.remove(&id);
                self.tried.remove(&id);
                if let Some(InFlight { line, is_initialize: true, .. }) = answered.filter(|_| error.is_none()) {
                    self.initialize = line;
                }
            }
            (Some(id), Some(_)) => drop(self.asked.insert(id)),
            (None, Some(mcp::GOODBYE)) => return Fate::Goodbye,
            (None, Some(CANCELLED)) => {
                let params = params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
                let request = params.and_then(|params| Some(key(params.request?)));
                request.map(|request| self.asked.remove(&request));
            }
            _ => {}
        }
        Fate::Pass
    }

    /// Notes that the daemon is gone, after its goodbye if `is_clean`. Returns lines for the client: errors for its requests
    /// in flight, except those that the next daemon may answer, and cancellations of the daemon's own.
    pub(super) fn lost(&mut self, is_clean: bool) -> Vec<Vec<u8>> {
        let mut told = Vec::new();
        // The next daemon repeats the handshake before anything else.
        let mut requests: Vec<_> = std::mem::take(&mut self.in_flight).into_iter().collect();
        requests.sort_by_key(|(_, request)| !request.is_initialize);
        self.tried.clear();
        for (id, request) in requests {
            match request.line.filter(|_| is_clean || request.is_repeatable) {
                Some(line) => {
                    self.again.push(Again { line, is_stream: request.is_stream });
                    self.tried.insert(id);
                }
                None => told.push(failed(&id, &gone())),
            }
        }
        told.extend(std::mem::take(&mut self.asked).into_iter().map(|id| cancelled(&id)));
        self.repeated.clear();
        told
    }

    /// Lines that the next daemon has to hear first.
    pub(super) fn repeat(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let settings = self.level.iter().chain(self.subscribed.values());
        // A client of 2026-07-28 has neither handshake nor such settings.
        if let Some(initialize) = &self.initialize {
            let mut renumbered = |line: &Vec<u8>| {
                let id = format!("forgefs-{}", random::id());
                let line = with_id(line, &id)?;
                self.repeated.insert(Value::from(id).to_string());
                Some(line)
            };
            lines.extend(renumbered(initialize));
            lines.extend(self.initialized.clone());
            lines.extend(settings.filter_map(&mut renumbered));
        }
        for Again { line, .. } in std::mem::take(&mut self.again) {
            // In flight from here on, whatever becomes of the connection.
            self.sent(&line);
            lines.push(line);
        }
        lines
    }

    /// True if the client waits for no answer of the next daemon. A stream of changes can wait for its next request.
    pub(super) fn is_idle(&self) -> bool {
        self.again.iter().all(|again| again.is_stream)
    }
}

/// An id as the key of a table: its JSON, in one form.
fn key(id: &RawValue) -> String {
    serde_json::from_str::<Value>(id.get()).map_or_else(|_| id.get().to_owned(), |id| id.to_string())
}

/// A request with another id.
fn with_id(line: &[u8], id: &str) -> Option<Vec<u8>> {
    let mut request: Value = serde_json::from_slice(trim(line)).ok()?;
    request["id"] = id.into();
    serde_json::to_vec(&request).ok()
}

/// Error of a request that was in flight when the daemon ended.
fn gone() -> Error {
    let what = "the gateway ended before it answered, and it is not known which calls of this request were made";
    Error::new(ErrorCode::TransportDead, what).hint(
        "`ls /runs` names the run, and execute(resume=…, code=…) repeats no call that was made; a new gateway answers from here on, without the \
         stash and the results of this session",
    )
}

/// Error of a request that no daemon can take.
pub(super) fn unreachable(line: &[u8], why: &str) -> Option<Vec<u8>> {
    let Ok(Envelope { id: Some(id), method: Some(_), .. }) = serde_json::from_slice(trim(line)) else { return None };
    let error = Error::new(ErrorCode::TransportDead, format!("no gateway runs, and nothing was sent: {why}"));
    Some(failed(&key(id), &error.hint("`forgefs daemon start` says what is wrong; then send the request again")))
}

/// An error as the answer to a request. `id` is JSON.
fn failed(id: &str, error: &Error) -> Vec<u8> {
    const INTERNAL: i32 = -32603;
    let data = json!({ "code": code_name(error.code), "suggestedFix": error.suggested_fix() });
    let answer = json!({ "code": INTERNAL, "message": error.to_string(), "data": data });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{answer}}}").into_bytes()
}

fn cancelled(id: &str) -> Vec<u8> {
    let why = "\"reason\":\"the gateway that asked has ended\"";
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{CANCELLED}\",\"params\":{{\"requestId\":{id},{why}}}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: Vec<Vec<u8>>) -> Vec<String> {
        lines.into_iter().map(|line| String::from_utf8(line).expect("text")).collect()
    }

    #[test]
    fn the_next_daemon_hears_the_handshake_the_settings_and_unanswered_lists_and_no_call() {
        let mut traffic = Traffic::default();
        for line in [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"forge:///a"}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"forge:///b"}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"forge:///a"}}"#,
            r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"execute"}}"#,
            r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"execute"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
        ] {
            assert!(traffic.is_for_daemon(line.as_bytes()), "{line}");
            traffic.sent(line.as_bytes());
        }
        for id in 0..5 {
            assert_eq!(
                traffic.received(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}").as_bytes()),
                Fate::Pass
            );
        }
        let question = br#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#;
        assert_eq!(traffic.received(question), Fate::Pass, "the daemon's numbers are its own");
        let answer = br#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
        assert!(traffic.is_for_daemon(answer));
        assert_eq!(traffic.received(answer), Fate::Pass);

        let told = texts(traffic.lost(false));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].starts_with(r#"{"jsonrpc":"2.0","id":6,"error":{"#) && told[0].contains("TRANSPORT_DEAD"),
            "{told:?}"
        );
        assert!(told[1].contains("notifications/cancelled") && told[1].contains(r#""requestId":5"#), "{told:?}");
        assert!(!traffic.is_for_daemon(answer), "the one who asked is gone");

        let heard = texts(traffic.repeat());
        let methods: Vec<_> = heard.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).collect();
        let named: Vec<_> = methods.iter().map(|line| line["method"].as_str().unwrap_or_default()).collect();
        let expected = [INITIALIZE, INITIALIZED, "logging/setLevel", "resources/subscribe", "tools/list"];
        assert_eq!(named, expected, "{heard:?}");
        assert_eq!((&methods[3]["params"]["uri"], &methods[4]["id"]), (&json!("forge:///b"), &json!("l")));
        for repeated in [0, 2, 3] {
            let answer = json!({ "jsonrpc": "2.0", "id": methods[repeated]["id"], "result": {} }).to_string();
            assert_eq!(traffic.received(answer.as_bytes()), Fate::Swallow);
        }
        // A list that ended two daemons is not tried at a third.
        assert!(texts(traffic.lost(false))[0].contains(r#""id":"l","error""#));
        assert!(traffic.is_idle() && traffic.repeat().len() == 4, "the handshake and the settings alone");
    }

    #[test]
    fn a_call_that_a_daemon_has_not_begun_at_its_goodbye_is_for_the_next_one() {
        let (mut traffic, call) = (Traffic::default(), br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
        traffic.sent(call);
        let goodbye = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}", mcp::GOODBYE);
        assert_eq!(traffic.received(goodbye.as_bytes()), Fate::Goodbye);
        assert!(traffic.lost(true).is_empty() && !traffic.is_idle());
        assert_eq!(traffic.repeat(), [call.to_vec()]);
        assert!(texts(traffic.lost(false))[0].contains("TRANSPORT_DEAD"), "the next one may have begun it");
    }

    #[test]
    fn lines_that_are_no_messages_are_passed_and_not_kept() {
        let mut traffic = Traffic::default();
        let long =
            format!(r#"{{"id":1,"method":"tools/list","params":{{"x":"{}"}}}}"#, "x".repeat(limits::KEPT_MESSAGE.max));
        for line in ["", "x", "[]", "{}", "[{\"id\":1}]", "{\"id\":{},\"method\":7}", &long] {
            assert!(traffic.is_for_daemon(line.as_bytes()));
            traffic.sent(line.as_bytes());
            assert_eq!(traffic.received(b"junk"), Fate::Pass);
        }
        assert_eq!(traffic.lost(false).len(), 1, "the long one");
        assert!(traffic.repeat().is_empty());
    }
}
