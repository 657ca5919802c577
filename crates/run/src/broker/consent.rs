//! Asks the user to approve calls.
//!
//! The question shows the tool, every argument without secrets, the reason, and the servers whose data the run holds. A
//! call that cannot be shown in full is refused. A consent, for the run or the session, covers one tool with its
//! current definition and one rule: another rule, or a changed tool, asks again. A refusal holds for the run.
//! Concurrent calls of one tool share one question that shows them all. Without a way to ask there is no consent, or the
//! call [waits](super::parked) for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use scopeguard::ScopeGuard;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::Broker;
use super::evidence::definition;
use super::ledger::Call;
use super::parked::Parked;
use super::planned::Planned;
use super::policy::{self, PendingCall, Reason};
use crate::session::{Approvals, Consent};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use catalog::people::{self, MARK};
use redact::Surface;
use upstream::{Ask, Caller, Operation, Question, Speaker};

/// Time that a question waits for concurrent calls of the same tool.
const GATHER: Duration = Duration::from_millis(20);
/// Most such times, while calls of the run are still being validated.
const GATHERS: usize = 50;
/// Most calls of one question.
const MAX_CALLS: usize = 10;

const ONCE: &str = "allow once";
const RUN: &str = "allow for this run";
const SESSION: &str = "allow for this session";
const DENY: &str = "deny";

/// Source of consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approver {
    /// The user, through the client.
    #[default]
    User,
    /// The operator: running the command is consent.
    Operator,
}

/// Source and scope of a consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// By the user, with the plan of the script.
    Plan,
    /// By the user, for this call.
    Once,
    /// By the user, for all of its kind in the run.
    Run,
    /// By the user, for all of its kind in the session.
    Session,
    /// Earlier in the run.
    RunBefore,
    /// Earlier in the session.
    SessionBefore,
    /// By the operator, with `--yes`.
    Operator,
    /// By a person, for this call, while no run was there.
    Waited {
        /// Id of the approval.
        id: Arc<str>,
        /// By which person, and when.
        who: Arc<str>,
    },
}

impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "by the user, with the plan",
            Self::Once => "by the user, once",
            Self::Run => "by the user, for the run",
            Self::Session => "by the user, for the session",
            Self::RunBefore => "before, for the run",
            Self::SessionBefore => "before, for the session",
            Self::Operator => "by the operator, with --yes",
            Self::Waited { who, .. } => who,
        })
    }
}

/// Consents of one run, and open questions.
#[derive(Default)]
pub(super) struct Consents(Mutex<ConsentState>);

#[derive(Default)]
struct ConsentState {
    granted: BTreeSet<Consent>,
    refused: BTreeMap<Consent, String>,
    /// Questions that the user put away: these calls wait, and are asked about no more.
    dismissed: BTreeMap<Consent, String>,
    planned: Vec<Planned>,
    /// Calls of the run that are being validated.
    arriving: usize,
    /// Questions that further calls can join.
    open: HashMap<Vec<Consent>, Arc<Batch>>,
    /// One question at a time for each key.
    turns: HashMap<Vec<Consent>, Arc<tokio::sync::Mutex<()>>>,
}

/// Calls of one question.
#[derive(Default)]
struct Batch {
    /// Each with the digest of its arguments.
    calls: Mutex<Vec<(Shown, String)>>,
    settled: OnceCell<Settled>,
}

/// Arguments of one call for the user, one line each.
type Shown = Vec<String>;

/// Outcome of a question.
#[derive(Debug, Clone)]
pub(super) enum Settled {
    Granted(Approval),
    /// The user said no, or nothing.
    Refused(Error),
    /// The user put the question away.
    Dismissed(Error),
    /// No one could be asked.
    Unable(Error),
}

impl Settled {
    fn approval(self) -> Result<Approval> {
        match self {
            Self::Granted(how) => Ok(how),
            Self::Refused(error) | Self::Dismissed(error) | Self::Unable(error) => Err(error),
        }
    }
}

impl Consents {
    /// Has questions wait for the call that is validated now, until the guard is dropped.
    pub(super) fn arriving<'c>(&'c self) -> ScopeGuard<&'c Self, impl FnOnce(&'c Self)> {
        self.0.lock().arriving += 1;
        scopeguard::guard(self, |consents| consents.0.lock().arriving -= 1)
    }

    /// Waits for calls that were made together with one that needs consent.
    async fn gather(&self) {
        for _ in 0..GATHERS {
            tokio::time::sleep(GATHER).await;
            if self.0.lock().arriving == 0 {
                return;
            }
        }
    }

    /// The remembered decision about all of `wanted`; `None` if any of it must be asked.
    async fn remembered(&self, wanted: &[Consent], session: &Approvals) -> Result<Option<Settled>> {
        let mut allowed = Vec::with_capacity(wanted.len());
        for consent in wanted {
            allowed.push(session.has(consent).await?);
        }
        let state = self.0.lock();
        if let Some(refusal) = wanted.iter().find_map(|consent| state.refused.get(consent)) {
            return Ok(Some(Settled::Refused(denied(format!("{refusal}, for the rest of this run")))));
        }
        if allowed.iter().all(|allowed| *allowed) {
            return Ok(Some(Settled::Granted(Approval::SessionBefore)));
        }
        let all = wanted.iter().zip(allowed).all(|(consent, allowed)| allowed || state.granted.contains(consent));
        Ok(all.then_some(Settled::Granted(Approval::RunBefore)))
    }

    /// Joins the question about `wanted` while it can show the call, or opens one.
    fn join(&self, wanted: &[Consent], shown: Shown, hash: String) -> Arc<Batch> {
        let mut state = self.0.lock();
        if let Some(batch) = state.open.get(wanted) {
            let mut calls = batch.calls.lock();
            let lines = || calls.iter().map(|(shown, _)| shown).chain([&shown]).flatten();
            let bytes: usize = lines().map(String::len).sum();
            if calls.len() < MAX_CALLS && lines().count() <= limits::SHOWN_FIELDS.max && bytes <= limits::SHOWN.max {
                calls.push((shown, hash));
                return Arc::clone(batch);
            }
        }
        let batch = Arc::new(Batch { calls: vec![(shown, hash)].into(), ..Batch::default() });
        state.open.insert(wanted.to_vec(), Arc::clone(&batch));
        batch
    }

    fn turn(&self, wanted: &[Consent]) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.0.lock().turns.entry(wanted.to_vec()).or_default())
    }

    /// Closes the question to further calls.
    fn close(&self, wanted: &[Consent], batch: &Arc<Batch>) -> (Vec<Shown>, Vec<String>) {
        let mut state = self.0.lock();
        if state.open.get(wanted).is_some_and(|open| Arc::ptr_eq(open, batch)) {
            state.open.remove(wanted);
        }
        batch.calls.lock().iter().cloned().unzip()
    }

    /// Takes the calls of a plan that the user consented to.
    pub(super) fn plan(&self, planned: Vec<Planned>) {
        self.0.lock().planned = planned;
    }

    /// Reads and counts them.
    pub(super) fn with_plan<T>(&self, read: impl FnOnce(&mut [Planned]) -> T) -> T {
        read(&mut self.0.lock().planned)
    }

    fn dismiss(&self, wanted: &[Consent], why: &str) {
        self.0.lock().dismissed.extend(wanted.iter().map(|consent| (consent.clone(), why.to_owned())));
    }

    /// Why the user is not asked about `wanted` again.
    fn dismissed(&self, wanted: &[Consent]) -> Option<Settled> {
        let state = self.0.lock();
        let why = wanted.iter().find_map(|consent| state.dismissed.get(consent))?;
        Some(Settled::Unable(denied(why.clone())))
    }

    fn refuse(&self, wanted: &[Consent], why: &str) {
        self.0.lock().refused.extend(wanted.iter().map(|consent| (consent.clone(), why.to_owned())));
    }

    fn grant(&self, wanted: &[Consent]) {
        self.0.lock().granted.extend(wanted.iter().cloned());
    }
}

impl Broker {
    /// Gets the user's consent to a call; returns how it was given.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when the user says no, does not answer, cannot be asked, or cannot be shown the whole call;
    /// `APPROVAL_WAITS` in place of these two where approvals wait.
    pub(super) async fn approve(
        &self,
        call: &Call<'_>,
        asked: &PendingCall<'_>,
        reasons: &[Reason],
    ) -> Result<Approval> {
        let wanted: Vec<Consent> = reasons.iter().map(|reason| consent(asked, reason)).collect();
        if let Some(settled) = self.run.consents.remembered(&wanted, &self.context.session.approvals).await? {
            return settled.approval();
        }
        if self.context.policy.approver == Approver::Operator {
            return Ok(Approval::Operator);
        }
        if self.is_planned(asked, &wanted) {
            return Ok(Approval::Plan);
        }
        let fields = shown(arguments(asked)).map_err(|error| {
            error.context(format_args!("{} needs approval, and cannot be shown whole", asked.label()))
        })?;
        let parked = self.parked(call, asked, reasons).await?;
        if let Some(decided) = parked.as_ref().and_then(Parked::decided) {
            return decided;
        }
        let shown = (fields.clone(), call.key().1);
        let settled = self.settle(asked, reasons, &wanted, shown, parked.is_some()).await?;
        match (parked, settled) {
            (Some(parked), Settled::Unable(error)) => Err(self.park(parked, asked, fields, error).await),
            (None, Settled::Unable(error)) if self.has_lost_its_wait() => {
                let what = format!("{}; it cannot wait, since its run has no journal", error.message);
                Err(denied(what).hint("the operator has to look at the log"))
            }
            (parked, settled) => {
                if let Some(parked) = parked {
                    parked.answered(matches!(settled, Settled::Granted(_)), self.id()).await;
                }
                settled.approval()
            }
        }
    }

    /// Has a question answered, together with those of concurrent calls of the same tool. The first of them asks; if it is
    /// given up, the next one does.
    async fn settle(
        &self,
        asked: &PendingCall<'_>,
        reasons: &[Reason],
        wanted: &[Consent],
        (fields, hash): (Shown, String),
        may_wait: bool,
    ) -> Result<Settled> {
        let batch = self.run.consents.join(wanted, fields, hash);
        let ask = async || {
            let turn = self.run.consents.turn(wanted);
            let _turn = turn.lock().await;
            self.run.consents.gather().await;
            let (calls, hashes) = self.run.consents.close(wanted, &batch);
            // Another question for the same key may have been answered meanwhile.
            let remembered = self.run.consents.remembered(wanted, &self.context.session.approvals).await?;
            Ok(match remembered.or_else(|| self.run.consents.dismissed(wanted)) {
                Some(settled) => settled,
                None => self.ask(asked, reasons, wanted, (&calls, &hashes), may_wait).await,
            })
        };
        batch.settled.get_or_try_init(ask).await.cloned()
    }

    /// Asks the user. Where the call `may_wait`, a question that was put away is not answered.
    async fn ask(
        &self,
        asked: &PendingCall<'_>,
        reasons: &[Reason],
        wanted: &[Consent],
        (calls, hashes): (&[Shown], &[String]),
        may_wait: bool,
    ) -> Settled {
        let name = format!("{}.{}", asked.entry.ident, asked.what());
        let because = policy::all_of(reasons);
        let needs = format!("{name} needs approval ({because})");
        let Some(caller) = &self.context.caller else {
            let hint = "a client that offers `elicitation` can be asked; `--yes` of `forgefs run` and `call` approves beforehand";
            return Settled::Unable(denied(format!("{needs}, and no client can be asked")).hint(hint));
        };
        let about = self.about(asked, wanted, hashes)();
        match self.decision(&**caller, self.message(asked, &because, calls), about, &name).await {
            Settled::Granted(how) => {
                self.remember(&how, wanted).await;
                Settled::Granted(how)
            }
            Settled::Dismissed(error) if may_wait => {
                let why = format!("{needs}, and {}", error.message);
                self.run.consents.dismiss(wanted, &why);
                Settled::Unable(denied(why))
            }
            Settled::Refused(error) | Settled::Dismissed(error) => {
                self.run.consents.refuse(wanted, &error.message);
                Settled::Refused(error)
            }
            Settled::Unable(mut error) => {
                error.message = format!("{needs}, and {}", error.message);
                Settled::Unable(error)
            }
        }
    }

    async fn remember(&self, how: &Approval, wanted: &[Consent]) {
        if *how == Approval::Run {
            self.run.consents.grant(wanted);
        }
        for consent in wanted.iter().filter(|_| *how == Approval::Session) {
            if let Err(error) = self.context.session.approvals.grant(consent).await {
                tracing::warn!(%error, "an approval for the session is kept for the run alone");
                self.run.consents.grant(wanted);
            }
        }
    }

    /// Asks the user about `name`; `about` is the digest of what an answer allows.
    pub(super) async fn decision(&self, caller: &dyn Caller, message: String, about: String, name: &str) -> Settled {
        let params = json!({"message": message, "requestedSchema": form()});
        let answer = {
            let _held = self.run.pause.hold();
            let question = Question { ask: Ask::Elicitation, params, name: None, about, put_off: None };
            caller.ask(Speaker::Gateway, question).await
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Settled::Unable(error.with_code(ErrorCode::ApprovalDenied)),
        };
        let action = answer.get("action").and_then(Value::as_str);
        let accepted = action == Some("accept");
        match answer.pointer("/content/decision").and_then(Value::as_str).filter(|_| accepted) {
            Some(ONCE) => Settled::Granted(Approval::Once),
            Some(RUN) => Settled::Granted(Approval::Run),
            Some(SESSION) => Settled::Granted(Approval::Session),
            Some(DENY) => Settled::Refused(denied(format!("the user denied {name}"))),
            _ if action == Some("decline") => Settled::Refused(denied(format!("the user declined {name}"))),
            _ => {
                let undecided = denied(format!("the user did not decide about {name}"));
                if action == Some("cancel") { Settled::Dismissed(undecided) } else { Settled::Refused(undecided) }
            }
        }
    }

    /// The question: facts of the gateway first, then each call with all its arguments.
    pub(super) fn message(&self, asked: &PendingCall<'_>, because: &str, calls: &[Shown]) -> String {
        let name = format!("{}.{}", asked.entry.ident, asked.what());
        let times = if calls.len() > 1 { format!(" {} times", calls.len()) } else { String::new() };
        let mut message = format!("ForgeFS asks: may {} be called{times}?", people::line(&name));
        let mut put = |indent: &str, text: &str| message.push_str(&format!("\n{MARK}{indent}{text}"));
        if let Some(stub) = asked.stub.filter(|stub| stub.name != stub.ident) {
            put("", &format!("The server calls it: {}", people::quoted(&stub.name)));
        }
        put("", &format!("Because: {}", people::line(because)));
        let labels: Vec<String> = self.taint.now().labels.into_iter().collect();
        if !labels.is_empty() {
            put("", &format!("The script holds data of: {}", people::line(&labels.join(", "))));
        }
        for (fields, number) in calls.iter().zip(1..) {
            match calls.len() {
                1 => put("", "With:"),
                count => put("", &format!("Call {number} of {count}, with:")),
            }
            fields.iter().for_each(|field| put("  ", field));
        }
        message
    }
}

/// Form for the user. It has no default: a key pressed too early allows nothing.
fn form() -> Value {
    json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": [ONCE, RUN, SESSION, DENY]},
        },
        "required": ["decision"],
    })
}

pub(super) fn denied(why: String) -> Error {
    Error::new(ErrorCode::ApprovalDenied, why)
}

pub(super) fn consent(asked: &PendingCall<'_>, reason: &Reason) -> Consent {
    let (server, origin) = (asked.entry.name.clone(), Arc::clone(&asked.entry.origin));
    // All resources of one server share one consent.
    let (tool, digest) = (asked.operation.name().into_owned(), definition(asked).to_owned());
    Consent { server, origin, tool, digest, rule: reason.to_string() }
}

/// Lines of all arguments, without secrets.
///
/// # Errors
/// See [`people::fields`].
pub(super) fn shown(arguments: Value) -> Result<Vec<String>> {
    people::fields(&redact::json(Surface::Log, arguments.clone()), &arguments)
}

/// Arguments as the script wrote them, without the values of placeholders.
pub(super) fn arguments(asked: &PendingCall<'_>) -> Value {
    let written = asked.written.and_then(|written| serde_json::from_str(written).ok());
    written.unwrap_or_else(|| match asked.operation {
        Operation::List | Operation::Connect => Value::Null,
        Operation::Tool { arguments, .. } | Operation::Prompt { arguments, .. } => Value::Object(arguments.clone()),
        Operation::Resource { uri, .. } => Value::String(uri.clone()),
        Operation::Complete { params, .. } => Value::Object(params.clone()),
    })
}
