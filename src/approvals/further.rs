//! Decisions that cover further calls of a run: all of one tool, or those that the text of its script shows. Each is an
//! approval of its own without arguments, which a call that needs one finds beside its own.

use serde_json::Value;

use super::{Approval, Approvals, Call, Choice, Decision, Scope, Standing, VERSION, id, now};
use crate::error::{Error, ErrorCode, Result};
use crate::limits;

/// A call that a decision covers, with any arguments.
#[derive(Debug, Clone)]
pub struct Further {
    /// The call; its digest of arguments is empty.
    pub call: Call,
    /// The tool in messages.
    pub label: String,
    /// Rules that want approval.
    pub reasons: Vec<String>,
    /// True if it may be made any number of times.
    pub repeats: bool,
}

impl Approval {
    /// True for one that covers every call of its tool in the run.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        self.call.args_hash.is_empty() && self.decision.as_ref().is_some_and(|decision| decision.scope == Scope::Run)
    }

    /// True if it is about the same tool in the same run.
    fn is_like(&self, call: &Call) -> bool {
        Call { args_hash: String::new(), ..self.call.clone() } == Call { args_hash: String::new(), ..call.clone() }
    }
}

impl Further {
    /// The further calls like that of an approval.
    #[must_use]
    pub fn like(approval: &Approval) -> Self {
        Self {
            call: Call { args_hash: String::new(), ..approval.call.clone() },
            label: approval.label.clone(),
            reasons: approval.reasons.clone(),
            repeats: true,
        }
    }
}

impl Approvals {
    /// Allows a call that waits, and further ones of its run; those among them that wait too are decided with it.
    ///
    /// # Errors
    /// As of [`Approvals::decide`]; `LIMIT_EXCEEDED` when they are too many.
    pub async fn allow_further(&self, id: &str, scope: Scope, by: &str, calls: Vec<Further>) -> Result<Approval> {
        let choice = Choice { is_allowed: true, by, reason: None };
        let first = self.decide(id, choice).await?;
        let listed = self.list().await?;
        let mut spent: Vec<&Approval> = listed.iter().filter(|other| !other.call.args_hash.is_empty()).collect();
        for other in listed.iter().filter(|other| other.id != first.id && other.standing(now()) == Standing::Waits) {
            let covers = |further: &Further| {
                other.is_like(&further.call) && other.reasons.iter().all(|reason| further.reasons.contains(reason))
            };
            if calls.iter().any(covers) {
                self.decide(&other.id, choice).await?;
            }
        }
        for further in calls {
            // A place in the text whose call waits, or was made, is spent.
            let is_spent = |other: &&Approval| {
                other.is_like(&further.call) && !matches!(other.standing(now()), Standing::Denied | Standing::Expired)
            };
            if scope == Scope::Plan
                && !further.repeats
                && let Some(position) = spent.iter().position(is_spent)
            {
                spent.remove(position);
                continue;
            }
            self.add(&first, scope, by, further).await?;
        }
        self.change(id, |approval| {
            if let Some(decision) = &mut approval.decision {
                decision.scope = scope;
            }
            Ok(())
        })
        .await
    }

    async fn add(&self, first: &Approval, scope: Scope, by: &str, further: Further) -> Result<()> {
        let Further { call, label, reasons, repeats } = further;
        let scope = if repeats { Scope::Run } else { scope };
        let words = if repeats { "any number of calls in this run" } else { "one more call in this run" };
        let at_ms = now();
        let decision = Decision { is_allowed: true, at_ms, by: by.to_owned(), scope, reason: None };
        for number in 0..=limits::APPROVALS_KEPT.max {
            let approval = Approval {
                version: VERSION,
                id: id(&call, number),
                asker: first.asker.clone(),
                call: call.clone(),
                label: label.clone(),
                reasons: reasons.clone(),
                labels: first.labels.clone(),
                arguments: Value::Null,
                question: format!("Allowed with approval {}: {words}, with any arguments.", first.id),
                at_ms,
                until_ms: at_ms.saturating_add(first.holds_ms),
                holds_ms: first.holds_ms,
                told: None,
                decision: Some(decision.clone()),
                used: None,
            };
            if self.swap(&approval.id, None, Some(&approval)).await? {
                return Ok(());
            }
        }
        Err(limits::APPROVALS_KEPT.exceeded(ErrorCode::LimitExceeded, limits::APPROVALS_KEPT.max + 1))
    }

    /// The decision that covers a call beside its own.
    pub(super) async fn further(&self, call: &Call, reasons: &[String]) -> Result<Option<Approval>> {
        let any = Call { args_hash: String::new(), ..call.clone() };
        for number in 0..=limits::APPROVALS_KEPT.max {
            let Some(approval) = self.find(&id(&any, number)).await? else { return Ok(None) };
            let is_same = approval.call == any && reasons.iter().all(|reason| approval.reasons.contains(reason));
            if is_same && approval.standing(now()) == Standing::Allowed {
                return Ok(Some(approval));
            }
        }
        Err(Error::new(ErrorCode::ApprovalDenied, "too many approvals of one tool are kept for this run"))
    }
}
