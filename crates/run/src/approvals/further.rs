//! Decisions that cover further calls of a run: all of one tool, or those that the text of its script shows. Each is an
//! approval of its own without arguments, which a call that needs one finds beside its own.

use serde_json::Value;

use super::{Approval, Approvals, Call, Choice, Decision, Scope, Standing, VERSION, id};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::time::now_ms;

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
    pub fn is_for_all(&self) -> bool {
        self.call.args_hash.is_empty() && self.decision.as_ref().is_some_and(|decision| decision.scope == Scope::Run)
    }

    /// True if it is about the same tool in the same run.
    fn is_like(&self, call: &Call) -> bool {
        self.call.with_any_arguments() == call.with_any_arguments()
    }
}

impl Call {
    /// The same call with any arguments.
    pub fn with_any_arguments(&self) -> Self {
        Self { args_hash: String::new(), ..self.clone() }
    }
}

impl Further {
    /// The further calls like that of an approval.
    pub fn like(approval: &Approval) -> Self {
        Self {
            call: approval.call.with_any_arguments(),
            label: approval.label.clone(),
            reasons: approval.reasons.clone(),
            repeats: true,
        }
    }
}

impl Approvals {
    /// Allows a call that waits, and every further one of its tool in its run; those that wait too are decided with it.
    ///
    /// # Errors
    /// As of [`Approvals::decide`].
    pub async fn allow_run(&self, id: &str, by: &str) -> Result<Approval> {
        let first = self.settle(id, Scope::Run, by).await?;
        let further = Further::like(&first);
        let choice = Choice { is_allowed: true, by, reason: None };
        for other in self.list().await? {
            let is_covered = other.is_like(&further.call)
                && other.standing(now_ms()) == Standing::Waits
                && other.reasons.iter().all(|reason| further.reasons.contains(reason));
            if is_covered {
                self.decide(&other.id, choice).await?;
            }
        }
        self.add(&first, Scope::Run, by, further, None).await?;
        Ok(first)
    }

    /// Allows a call that waits, and the calls that the text of its script shows, as often as it shows them, for this
    /// script alone, by its digest.
    ///
    /// # Errors
    /// As of [`Approvals::decide`]; `INVALID_ARGS` when it was decided meanwhile, `LIMIT_EXCEEDED` when the calls are too
    /// many.
    pub async fn allow_plan(&self, id: &str, by: &str, calls: Vec<Further>, script: &str) -> Result<Approval> {
        let first = self.settle(id, Scope::Plan, by).await?;
        let listed = self.list().await?;
        // A place in the text is spent by this call, by one that was allowed or made, and by an earlier decision.
        let is_spent = |other: &&Approval| {
            other.id == first.id || matches!(other.standing(now_ms()), Standing::Allowed | Standing::Used)
        };
        let mut spent: Vec<&Approval> = listed.iter().filter(is_spent).collect();
        for further in calls {
            if let Some(position) = spent.iter().position(|other| other.is_like(&further.call)) {
                spent.remove(position);
                if !further.repeats {
                    continue;
                }
            }
            self.add(&first, Scope::Plan, by, further, Some(script)).await?;
        }
        Ok(first)
    }

    /// Decides about the call that a decision for more is made for: once, while it waits.
    async fn settle(&self, id: &str, scope: Scope, by: &str) -> Result<Approval> {
        self.change(id, |approval| match approval.standing(now_ms()) {
            Standing::Waits => {
                let (at_ms, by) = (now_ms(), by.to_owned());
                approval.decision = Some(Decision { is_allowed: true, at_ms, by, scope, reason: None });
                Ok(())
            }
            standing => {
                let what = format!("approval {} does not wait any more: {}", approval.id, standing.word());
                Err(Error::new(ErrorCode::InvalidArgs, what).hint("look at the list again"))
            }
        })
        .await
    }

    /// Takes back what a decision allowed beside its own call.
    pub(super) async fn revoke_further(&self, parent: &Approval, by: &str) -> Result<()> {
        if parent.decision.as_ref().is_none_or(|decision| decision.scope == Scope::Once) {
            return Ok(());
        }
        for other in self.list().await? {
            if other.parent.as_ref() != Some(&parent.id) {
                continue;
            }
            self.change(&other.id, |approval| {
                if approval.standing(now_ms()) == Standing::Allowed {
                    let (at_ms, by, scope) = (now_ms(), by.to_owned(), Scope::Once);
                    approval.decision = Some(Decision { is_allowed: false, at_ms, by, scope, reason: None });
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn add(
        &self,
        first: &Approval,
        scope: Scope,
        by: &str,
        further: Further,
        script: Option<&str>,
    ) -> Result<()> {
        let Further { call, label, reasons, repeats } = further;
        let words = if repeats { "any number of calls in this run" } else { "one more call in this run" };
        let scope = if repeats { Scope::Run } else { scope };
        let at_ms = now_ms();
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
                parent: Some(first.id.clone()),
                script: script.map(str::to_owned),
            };
            if self.swap(&approval.id, None, Some(&approval)).await? {
                return Ok(());
            }
        }
        Err(limits::APPROVALS_KEPT.exceeded(ErrorCode::LimitExceeded, limits::APPROVALS_KEPT.max + 1))
    }

    /// The decision that covers a call of a script, by the script's digest, beside the call's own.
    pub(super) async fn further(&self, call: &Call, reasons: &[String], script: &str) -> Result<Option<Approval>> {
        let any = call.with_any_arguments();
        for number in 0..=limits::APPROVALS_KEPT.max {
            let Some(approval) = self.find(&id(&any, number)).await? else { return Ok(None) };
            let is_same = approval.call == any
                && approval.script.as_ref().is_none_or(|known| known == script)
                && reasons.iter().all(|reason| approval.reasons.contains(reason));
            if is_same && approval.standing(now_ms()) == Standing::Allowed {
                return Ok(Some(approval));
            }
        }
        Err(Error::new(ErrorCode::ApprovalDenied, "too many approvals of one tool are kept for this run"))
    }
}
