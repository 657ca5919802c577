//! Calls of a log, counted while it is read: its size does not matter, the number of distinct calls does.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::follow::Follower;
use super::hooks::HookRecord;
use super::record::{CallRecord, Description, Line};
use super::verdict::Verdict;
use base::error::{ErrorCode, code_name};
use base::labels::Labels;
use base::outcome::Outcome;
use base::principal::LOCAL;
use base::time::unix_ms;

/// Most distinct calls that are counted; further ones are counted together.
const MAX_ROWS: usize = 20_000;
/// Most bytes of the names and labels of one call: no gateway writes more.
const MAX_BYTES: usize = 4 << 10;
/// Most calls kept of runs whose end was not read yet.
const MAX_OPEN: usize = 10_000;

/// Words of the refusal of a tool that differs from its review.
const QUARANTINED: &str = " is quarantined: ";

/// Calls that the policy cannot tell apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PastCall {
    /// Client whose token it came with, or [`LOCAL`].
    pub client: String,
    /// Its profile then.
    pub profile: Option<String>,
    /// The server's identifier, or what the client wrote.
    pub server: String,
    /// The tool's identifier, the operation for resources and prompts, or what the client wrote.
    pub tool: String,
    /// The script that made it, if it is one that was called itself: `scripts.name`.
    pub from: Option<String>,
    /// Servers whose data the run held; `None` where only the dispatch is on record.
    pub labels: Option<Labels>,
    /// Decision of the policy.
    pub decided: Decided,
}

/// Decision of the policy about a call on record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decided {
    /// No rule was against it.
    Allowed,
    /// A rule asked, and a person or the operator approved.
    Approved,
    /// A rule asked in vain, or would have asked: it was a dry run.
    NotApproved,
    /// A rule refused it, or it named what the client did not have; the code.
    Refused(String),
    /// Something other than the policy prevented or answered it; what.
    Otherwise(String),
}

/// Number of calls, with the first and the last time in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Number.
    pub count: u64,
    /// First time.
    pub first: u64,
    /// Last time.
    pub last: u64,
}

impl Seen {
    /// Counts these too.
    pub fn add(&mut self, other: Self) {
        self.first = if self.count == 0 { other.first } else { self.first.min(other.first) };
        self.last = self.last.max(other.last);
        self.count += other.count;
    }
}

/// Calls of a log.
#[derive(Debug, Default)]
pub struct PastCalls {
    /// Distinct calls.
    pub rows: BTreeMap<PastCall, Seen>,
    /// Calls that are in none of the rows: there are too many distinct ones.
    pub left_out: u64,
    /// Lines that are no record.
    pub broken: u64,
    since: u64,
    /// Runs without an end so far, by id.
    open: BTreeMap<String, (Description, Vec<CallRecord>)>,
    opened: usize,
}

impl PastCalls {
    /// Counts the calls since a time, of the file at `path` and its rotated files. Nothing where there is no file.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(path: &Path, since: SystemTime) -> io::Result<Self> {
        let mut calls = Self { since: unix_ms(since), ..Self::default() };
        // A full disk leaves half a record, which may end inside a character.
        Follower::new(path.to_owned()).look(|line| calls.take(&String::from_utf8_lossy(line)))?;
        calls.close();
        Ok(calls)
    }

    fn take(&mut self, line: &str) {
        match Line::read(line) {
            Some(Line::Ended(record)) => {
                // It has all calls of its run.
                self.opened -= self.open.remove(&record.id).map_or(0, |(_, calls)| calls.len());
                record.calls.iter().for_each(|call| self.count(&record.run, call, Some(call.labels.clone())));
            }
            Some(Line::Sent(run, begun, call)) => {
                let (description, calls) = self.open.entry(run).or_default();
                // The first line of the run, which may stand behind one of a call that was made at the same time.
                if !begun.run.session.is_empty() {
                    *description = begun.run;
                }
                calls.push(CallRecord { args: String::new(), ..*call });
                self.opened += 1;
                if self.opened > MAX_OPEN {
                    self.close();
                }
            }
            None => self.broken += 1,
        }
    }

    /// Counts the calls of runs that have no end: their gateway was killed, or they are under way.
    fn close(&mut self) {
        self.opened = 0;
        for (run, calls) in std::mem::take(&mut self.open).into_values() {
            calls.iter().for_each(|call| self.count(&run, call, None));
        }
    }

    fn count(&mut self, run: &Description, call: &CallRecord, labels: Option<Labels>) {
        let at = unix_ms(call.began.0);
        if at < self.since {
            return;
        }
        let row = PastCall {
            client: run.principal.clone().unwrap_or_else(|| LOCAL.to_owned()),
            profile: run.profile.as_deref().map(str::to_owned),
            server: call.server.clone(),
            tool: call.tool.clone(),
            from: call.from.clone(),
            labels,
            decided: Decided::of(call),
        };
        let seen = Seen { count: 1, first: at, last: at };
        let names = [Some(&row.client), Some(&row.server), Some(&row.tool), row.from.as_ref(), row.profile.as_ref()];
        let bytes = names.into_iter().flatten().chain(row.labels.iter().flatten()).map(|name| name.len() + 16);
        if bytes.sum::<usize>() > MAX_BYTES {
            self.broken += 1;
        } else if let Some(known) = self.rows.get_mut(&row) {
            known.add(seen);
        } else if self.rows.len() < MAX_ROWS {
            self.rows.insert(row, seen);
        } else {
            self.left_out += 1;
        }
    }
}

impl Decided {
    fn of(call: &CallRecord) -> Self {
        use ErrorCode::{ApprovalDenied, ApprovalWaits, GroupPolicyDenied, ServerNotFound, ToolDenied, ToolNotFound};
        let decides = |hook: &HookRecord| hook.on == "call" && hook.decision != "allow" && !hook.only_logs;
        if let Some(hook) = call.hooks.iter().find(|hook| decides(hook)) {
            return Self::Otherwise(format!("decided by the hook {}", hook.hook));
        }
        let code = match (&call.verdict, call.outcome) {
            (Verdict::Allowed, _) => return Self::Allowed,
            (Verdict::Approved(_), _) => return Self::Approved,
            (Verdict::WouldAsk(_), _) => return Self::NotApproved,
            (Verdict::Inherited(_), _) => return Self::Otherwise("answered by an earlier run".to_owned()),
            // By pins, which are no part of the configuration.
            (Verdict::Denied(why), _) if why.contains(QUARANTINED) => return Self::Otherwise("quarantined".to_owned()),
            (Verdict::Denied(_), Outcome::Failed(code)) => code,
            (Verdict::Refused(code, _), _) => *code,
            _ => return Self::Otherwise("no decision on record".to_owned()),
        };
        match code {
            ApprovalDenied | ApprovalWaits => Self::NotApproved,
            ToolDenied | GroupPolicyDenied | ServerNotFound | ToolNotFound => Self::Refused(code_name(code)),
            _ => Self::Otherwise(code_name(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(id: &str, calls: &[&str]) -> String {
        let call =
            |tool: &&str| format!("{{\"tool\":\"{tool}\",\"time\":\"2026-01-01T00:00:00Z\",\"verdict\":\"allowed\"}}");
        let calls: Vec<String> = calls.iter().map(call).collect();
        format!("{{\"id\":\"{id}\",\"calls\":[{}]}}", calls.join(","))
    }

    fn sent(run: &str, tool: &str) -> String {
        let begun = "\"session\":\"s\",\"principal\":\"ci\"";
        format!(
            "{{\"event\":\"sent\",\"run\":\"{run}\",\"tool\":\"{tool}\",\"time\":\"2026-01-01T00:00:00Z\",\"verdict\":\"allowed\",{begun}}}"
        )
    }

    fn counts(calls: &PastCalls) -> Vec<(&str, &str, u64)> {
        calls.rows.iter().map(|(call, seen)| (&*call.client, &*call.tool, seen.count)).collect()
    }

    #[test]
    fn a_call_counts_once_whether_its_run_ended_or_not() {
        let mut calls = PastCalls::default();
        for line in [sent("a", "x"), sent("b", "y"), ended("a", &["x", "z"]), sent("b", "y")] {
            calls.take(&line);
        }
        calls.close();
        assert_eq!(counts(&calls), [("ci", "y", 2), ("local", "x", 1), ("local", "z", 1)]);
        assert!(calls.rows.keys().all(|call| call.labels.is_some() == (call.client == "local")));
    }

    #[test]
    fn memory_is_bounded_by_distinct_calls_and_open_runs() {
        let mut calls = PastCalls::default();
        for number in 0..MAX_ROWS + 10 {
            calls.take(&ended("a", &[&format!("t{number}"), "t1"]));
            calls.take(&sent(&format!("r{number}"), "t2"));
            assert!(calls.open.len() <= MAX_OPEN && calls.opened <= MAX_OPEN);
        }
        calls.close();
        // Its row as one of `ci` is there since the open runs were counted first.
        assert_eq!((calls.rows.len(), calls.left_out, calls.opened), (MAX_ROWS, 11, 0));
        assert_eq!(calls.rows.values().map(|seen| seen.count).max(), Some(20_011));
    }
}
