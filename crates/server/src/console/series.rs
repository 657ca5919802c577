//! Sums over time: runs, calls, failures, costs and latencies of the runs of the audit log.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use super::index::{Call, Entry, quantile};
use super::{Asked, Console, wrong};
use base::error::Result;
use base::outcome::Outcome;
use base::principal::Principal;
use base::task;
use base::time::now_ms;

/// Steps of a series.
const STEPS: usize = 60;
/// Keys with a series of their own; the rest is one.
const KEYS: usize = 8;
const OTHERS: &str = "others";
/// Rows of the table of latencies.
const ROWS: usize = 50;
/// Longest period, in hours.
const MOST: u64 = 24 * 366;
const HOUR_MS: u64 = 3_600_000;

/// Key by which calls are summed.
#[derive(Debug, Clone, Copy)]
enum By {
    Client,
    Server,
    Tool,
}

impl By {
    fn named(word: &str) -> Result<Self> {
        match word {
            "client" => Ok(Self::Client),
            "" | "server" => Ok(Self::Server),
            "tool" => Ok(Self::Tool),
            _ => Err(wrong(format!("`by` is `{}`", base::text::brief(word)), "give client, server or tool")),
        }
    }

    fn key(self, entry: &Entry, call: &Call) -> String {
        match self {
            Self::Client => entry.client.to_string(),
            Self::Server => call.server.to_string(),
            Self::Tool => format!("{}.{}", call.server, call.tool),
        }
    }
}

#[derive(Default)]
struct Sum {
    calls: Vec<u64>,
    failed: Vec<u64>,
    cost: Vec<f64>,
    took: Vec<f64>,
}

impl Sum {
    fn new() -> Self {
        Self { calls: vec![0; STEPS], failed: vec![0; STEPS], cost: vec![0.0; STEPS], took: Vec::new() }
    }

    fn add(&mut self, other: Self) {
        for step in 0..STEPS {
            self.calls[step] += other.calls[step];
            self.failed[step] += other.failed[step];
            self.cost[step] += other.cost[step];
        }
        self.took.extend(other.took);
    }

    fn total(&self) -> u64 {
        self.calls.iter().sum()
    }
}

impl Console {
    /// Sums of the last hours.
    pub(super) async fn series(self: &Arc<Self>, asked: &Asked) -> Result<Value> {
        let hours = asked.number("hours")?.unwrap_or(24).clamp(1, MOST);
        let by = By::named(asked.text("by"))?;
        let (all, now, four_tools) = (self.entries().await?, now_ms(), self.shown_tokens as u64);
        let summed = move || {
            let mut object = summed(&all, by, now.saturating_sub(hours * HOUR_MS), now);
            object["saved"] = saved(&all, now.saturating_sub(hours * HOUR_MS), four_tools);
            Ok(object)
        };
        task::apart(summed).await
    }
}

fn summed(all: &[Arc<Entry>], by: By, from_ms: u64, to_ms: u64) -> Value {
    let step_ms = ((to_ms - from_ms) / STEPS as u64).max(1);
    let step = |at_ms: u64| match at_ms {
        at if (from_ms..=to_ms).contains(&at) => {
            Some((usize::try_from((at - from_ms) / step_ms).unwrap_or(0)).min(STEPS - 1))
        }
        _ => None,
    };
    let (mut sums, mut errors) = (HashMap::<String, Sum>::new(), BTreeMap::<Cow<'_, str>, u64>::new());
    let (mut runs, mut refused) = (vec![0_u64; STEPS], vec![0_u64; STEPS]);
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); STEPS];
    for entry in all {
        let of_run = step(entry.at_ms);
        if let Some(of_run) = of_run.filter(|_| entry.language.is_some()) {
            runs[of_run] += 1;
        }
        if of_run.is_some() && !matches!(entry.outcome, Outcome::Ok | Outcome::Unfinished) {
            *errors.entry(entry.outcome.name()).or_default() += 1;
        }
        for call in &entry.calls {
            // A run may have begun before this time, and its calls may have no time of their own.
            let at = if call.at_ms == 0 { of_run } else { step(call.at_ms) };
            let Some(at) = at else { continue };
            if call.is_refused {
                refused[at] += 1;
            }
            let is_made = !call.is_refused && !call.is_inherited && call.outcome != Outcome::Planned;
            if !is_made {
                continue;
            }
            let sum = sums.entry(by.key(entry, call)).or_insert_with(Sum::new);
            sum.calls[at] += 1;
            sum.failed[at] += u64::from(!matches!(call.outcome, Outcome::Ok | Outcome::Running));
            sum.cost[at] += call.cost.number();
            sum.took.extend(call.ms);
            took[at].extend(call.ms);
        }
    }
    let mut sums: Vec<(String, Sum)> = sums.into_iter().collect();
    sums.sort_by(|(one, a), (other, b)| (b.total(), one).cmp(&(a.total(), other)));
    let latency: Vec<Value> = sums.iter_mut().take(ROWS).map(|(key, sum)| latency(key, sum)).collect();
    let mut rest = Sum::new();
    for (_, sum) in sums.split_off(KEYS.min(sums.len())) {
        rest.add(sum);
    }
    if rest.total() > 0 {
        sums.push((OTHERS.to_owned(), rest));
    }
    took.iter_mut().for_each(|took| took.sort_by(f64::total_cmp));
    let percentile = |share| took.iter().map(|took| quantile(took, share)).collect::<Vec<_>>();
    let of = |values: fn(&Sum) -> Value| -> BTreeMap<&str, Value> {
        sums.iter().map(|(key, sum)| (key.as_str(), values(sum))).collect()
    };
    json!({
        "from_ms": from_ms,
        "to_ms": to_ms,
        "step_ms": step_ms,
        "keys": sums.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        "calls": of(|sum| json!(sum.calls)),
        "failed": of(|sum| json!(sum.failed)),
        "cost": of(|sum| json!(sum.cost)),
        "refused": refused,
        "runs": runs,
        "errors": errors,
        "latency": latency,
        "p50_ms": percentile(0.5),
        "p95_ms": percentile(0.95),
    })
}

/// Estimated tokens of tool lists that agents were not sent: for each of their scripts one turn, with the list of its time.
fn saved(all: &[Arc<Entry>], from_ms: u64, four_tools: u64) -> Value {
    let is_agents = |entry: &&Arc<Entry>| {
        entry.at_ms >= from_ms && entry.client_name.is_some() && !entry.client.starts_with(Principal::CONSOLE)
    };
    let lists: Vec<u64> = all.iter().filter(is_agents).filter_map(|entry| entry.plain_list).collect();
    let tokens = lists.iter().fold(0_u64, |sum, list| sum.saturating_add(list.saturating_sub(four_tools)));
    json!({ "tokens": tokens, "runs": lists.len() })
}

fn latency(key: &str, sum: &mut Sum) -> Value {
    sum.took.sort_by(f64::total_cmp);
    json!({
        "key": key,
        "calls": sum.total(),
        "p50_ms": quantile(&sum.took, 0.5),
        "p95_ms": quantile(&sum.took, 0.95),
        "p99_ms": quantile(&sum.took, 0.99),
    })
}
