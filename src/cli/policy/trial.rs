//! `forgefs policy try`: which calls of the log a changed configuration decides otherwise.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Past;
use crate::cli::style::{Cell, Role, Table};
use crate::cli::times::Times;
use crate::cli::{Failure, Ui, shapes};
use base::time::rfc3339;
use config::Config;
use run::broker::{Hindsight, Ruling};
use state::audit::{Decided, Seen};

/// Matters that no log decides.
const UNKNOWN: &str = "arguments, budgets and rate limits, pins, hooks, answers of people";
/// Most lines about calls that are not decided.
const MAX_LINES: usize = 20;

/// Client, server and tool of calls, the decisions before and after, and the rule or the reason.
type Kind = [String; 6];

pub(super) fn trial(config: &Config, next: Config, past: &Past, times: Times, ui: Ui) -> Result<u8, Failure> {
    let log = past.read(config, ui)?;
    let next = Hindsight::new(next).map_err(Failure::of_usage)?.after(config);
    let (mut changes, mut unknown): (BTreeMap<Kind, Seen>, BTreeMap<Kind, Seen>) = Default::default();
    let mut same = 0;
    for (call, seen) in &log.rows {
        let (after, rule) = match next.decide(call) {
            Ruling::Allowed => ("allowed", "no rule is against it".to_owned()),
            Ruling::Asks(rules) => ("asks", rules),
            Ruling::Refused(error) => ("refused", error.message),
            Ruling::Unknown(why) => ("unknown", why),
        };
        let (before, after, rule) = match &call.decided {
            Decided::Allowed => ("allowed", after, rule),
            Decided::Approved | Decided::NotApproved => ("asks", after, rule),
            Decided::Refused(_) => ("refused", after, rule),
            Decided::Otherwise(why) => ("unknown", "unknown", why.clone()),
        };
        if before == after && after != "unknown" {
            same += seen.count;
            continue;
        }
        let kinds = if after == "unknown" { &mut unknown } else { &mut changes };
        let kind = [&call.client, &call.server, &call.tool, before, after, &rule].map(str::to_owned);
        kinds.entry(kind).or_default().add(*seen);
    }
    if past.format.json {
        let all = |kinds: &BTreeMap<Kind, Seen>| kinds.iter().map(json).collect::<Vec<_>>();
        let (changes, unknown) = (all(&changes), all(&unknown));
        let object = json!({
            "changes": changes, "same": same, "not_decided": unknown, "never_decided": UNKNOWN,
            "broken_lines": log.broken, "left_out": log.left_out,
        });
        shapes::print(object, ui);
    } else {
        show(&changes, times, ui);
        for ([client, server, tool, .., why], seen) in unknown.iter().take(MAX_LINES) {
            ui.note(&format!("not decided by this log: {} × {server}.{tool} by {client}: {why}", seen.count));
        }
        let [changed, unknown] = [&changes, &unknown].map(|of| of.values().map(|seen| seen.count).sum::<u64>());
        ui.note(&format!("{changed} calls are decided otherwise, {same} as before, {unknown} not by this log"));
        ui.note(&format!("no log decides {UNKNOWN}"));
    }
    Ok(u8::from(!changes.is_empty()))
}

fn show(changes: &BTreeMap<Kind, Seen>, times: Times, ui: Ui) {
    let head = ["SERVER", "TOOL", "CLIENT", "CALLS", "BEFORE", "AFTER", "FIRST", "LAST", "RULE"];
    let mut table = Table::new(head, &[3], &[8]);
    for (kind, seen) in changes {
        let [client, server, tool, before, after, rule] = kind.each_ref().map(|text| Cell::plain(text));
        let [first, last] = [seen.first, seen.last].map(|ms| Cell::new(Role::Faint, &times.ago(ms)));
        table.push([server, tool, client, Cell::plain(&seen.count.to_string()), before, after, first, last, rule]);
    }
    ui.table(&table);
}

fn json(([client, server, tool, before, after, rule], seen): (&Kind, &Seen)) -> Value {
    let (calls, first, last) = (seen.count, rfc3339(seen.first), rfc3339(seen.last));
    json!({
        "client": client, "server": server, "tool": tool, "before": before, "after": after, "rule": rule,
        "calls": calls, "first": first, "last": last,
    })
}
