//! Calls whose approval waits for a person: parked where no user can be asked, made when the run is resumed after a
//! person has allowed them.

use serde_json::json;

use super::consent::{Approval, arguments, denied};
use super::evidence::definition;
use super::ledger::Call;
use super::policy::{PendingCall, Reason};
use super::{Broker, Evidence};
use crate::approvals::{self, Approvals, Asker, Choice, Known, VERSION};
use base::error::{Error, ErrorCode, Result};
use base::time::{now_ms, rfc3339};
use catalog::people;
use redact::Surface;
use state::journal::Waits;

/// A call that may wait, and what is known of it.
pub(super) struct Parked<'b> {
    approvals: &'b Approvals,
    evidence: &'b Evidence,
    call: approvals::Call,
    reasons: Vec<String>,
    op: u64,
    known: Known,
}

impl Broker {
    /// State of a call's approval; `None` if it cannot wait: nothing waits, or its run has no journal to be
    /// resumed from.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read.
    pub(super) async fn parked(
        &self,
        call: &Call<'_>,
        asked: &PendingCall<'_>,
        reasons: &[Reason],
    ) -> Result<Option<Parked<'_>>> {
        let approvals = self.context.policy.waiting.as_deref().filter(|approvals| approvals.wait().is_some());
        let evidence = self.evidence().filter(|evidence| evidence.is_written());
        let (Some(approvals), Some(evidence)) = (approvals, evidence) else { return Ok(None) };
        let (op, args_hash) = call.key();
        let chain = evidence.root().unwrap_or_else(|| self.id()).to_owned();
        let call = approvals::Call { chain, args_hash, ..self.any_like(asked) };
        let reasons: Vec<String> = reasons.iter().map(Reason::to_string).collect();
        let known = approvals.known(&call, &reasons, (self.id(), self.run.recorder.script())).await?;
        Ok(Some(Parked { approvals, evidence, call, reasons, op, known }))
    }

    /// True if calls wait for approval, but not those of this run: it has no journal, since none can be written.
    pub(super) fn has_lost_its_wait(&self) -> bool {
        let waiting = self.context.policy.waiting.as_deref();
        waiting.is_some_and(|approvals| approvals.wait().is_some()) && self.evidence().is_some_and(Evidence::is_lost)
    }

    /// The calls of this operation by this client, in any chain and with any arguments.
    pub(super) fn any_like(&self, asked: &PendingCall<'_>) -> approvals::Call {
        approvals::Call {
            client: self.context.session.principal().client.to_string(),
            server: asked.entry.name.clone(),
            origin: asked.entry.origin.to_string(),
            tool: asked.operation.name().into_owned(),
            definition: definition(asked).to_owned(),
            ..approvals::Call::default()
        }
    }

    /// Parks a call that no user could be asked about, for the reason in `error`; returns the error for the script.
    pub(super) async fn park(
        &self,
        parked: Parked<'_>,
        asked: &PendingCall<'_>,
        fields: Vec<String>,
        error: Error,
    ) -> Error {
        let Parked { approvals, evidence, call, reasons, op, known } = parked;
        // A killed gateway may have left people untold. Telling them counts as the script's time: it must not stretch that
        // call by call.
        let is_untold = |approval: &approvals::Approval| approval.asker.run != self.id() && approval.told.is_none();
        let kept = match known {
            Known::Kept(approval) if is_untold(&approval) => Ok(approvals.tell(*approval).await),
            Known::Kept(approval) => Ok(*approval),
            Known::Nothing(id) => approvals.ask(self.approval(id, call, reasons, asked, fields)).await,
        };
        let approval = match kept {
            Ok(approval) => approval,
            Err(mut refused) => {
                refused.message = format!("{}; {}", error.message, refused.message);
                return refused;
            }
        };
        let (id, until_ms) = (approval.id, approval.until_ms);
        let waits = Waits { op, at_ms: now_ms(), approval: id.clone(), reasons: approval.reasons, until_ms };
        evidence.waits(waits, asked.label());
        let message = format!("{}: it waits for approval {id}", error.message);
        Error::new(ErrorCode::ApprovalWaits, message).data(json!({ "approval": id }))
    }

    fn approval(
        &self,
        id: String,
        call: approvals::Call,
        reasons: Vec<String>,
        asked: &PendingCall<'_>,
        fields: Vec<String>,
    ) -> approvals::Approval {
        let session = &self.context.session;
        let wait = self.context.policy.waiting.as_ref().and_then(|approvals| approvals.wait()).unwrap_or_default();
        let (at_ms, holds_ms) = (now_ms(), u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        approvals::Approval {
            version: VERSION,
            id,
            asker: Asker { client_name: session.client(), session: session.id().to_owned(), run: self.id().to_owned() },
            call,
            label: format!("{}.{}", asked.entry.ident, asked.what()),
            labels: self.taint.now().labels,
            arguments: redact::json(Surface::Log, arguments(asked)),
            question: self.message(asked, &reasons.join("; "), &[fields]),
            reasons,
            at_ms,
            until_ms: at_ms.saturating_add(holds_ms),
            holds_ms,
            ..approvals::Approval::default()
        }
    }

    /// Uses up the approval that a call was admitted by, just before it is sent.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when another run has used it, or a person has withdrawn it.
    pub(super) async fn use_up(&self, call: &Call<'_>, approval: Option<&str>) -> Result<()> {
        match (approval, &self.context.policy.waiting) {
            (Some(id), Some(approvals)) => approvals.use_up(id, self.id(), call.key().0).await,
            (None, _) => Ok(()),
            (Some(_), None) => Err(denied("approvals do not wait any more".to_owned())),
        }
    }

    /// Gives it back when the call was not made.
    pub(super) async fn give_back(&self, call: &Call<'_>, approval: Option<&str>) {
        if let (Some(id), Some(approvals)) = (approval, &self.context.policy.waiting) {
            approvals.give_back(id, self.id(), call.key().0).await;
        }
    }
}

impl Parked<'_> {
    /// The consent or refusal of a person; `None` while it waits, or before anyone was asked.
    pub(super) fn decided(&self) -> Option<Result<Approval>> {
        let Known::Kept(approval) = &self.known else { return None };
        let decision = approval.decision.as_ref()?;
        let who = format!("by {} at {}, approval {}", decision.by, rfc3339(decision.at_ms), approval.id);
        Some(match decision.is_allowed {
            true => Ok(Approval::Waited { id: approval.id.as_str().into(), who: who.into() }),
            false => {
                let reason = decision.reason.as_deref().map(|reason| format!(": {}", people::line(reason)));
                Err(denied(format!("{} was denied {who}{}", approval.label, reason.unwrap_or_default())))
            }
        })
    }

    /// Closes an approval that waits, since the client's user has answered the question now.
    pub(super) async fn answered(&self, is_allowed: bool, run: &str) {
        let Known::Kept(approval) = &self.known else { return };
        let closed = async {
            let choice = Choice { is_allowed, by: "the user, through the client", reason: None };
            self.approvals.decide(&approval.id, choice).await?;
            if is_allowed { self.approvals.use_up(&approval.id, run, self.op).await } else { Ok(()) }
        };
        closed.await.unwrap_or_else(|error| tracing::warn!(%error, "an approval goes on waiting"));
    }
}
