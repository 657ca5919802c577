//! Decisions that cover further calls of a run: all of one tool, or those that the text of its script shows. Each is an
//! approval of its own without arguments, which a call that needs one finds beside its own.

use super::{Approval, Approvals, Call, Decision, Scope, Standing, VERSION, id};
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
    /// Calls that its decision covers.
    pub(super) fn scope(&self) -> Scope {
        self.decision.as_ref().map_or(Scope::Once, |decision| decision.scope)
    }

    /// True for one that covers every call of its tool in the run.
    pub(super) fn is_for_all(&self) -> bool {
        self.call.args_hash.is_empty() && self.scope() == Scope::Run
    }

    /// True if its decision was for more than its own call.
    pub(super) fn has_further(&self) -> bool {
        self.parent.is_none() && self.scope() != Scope::Once
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

impl Approvals {
    /// Allows a call that waits, and every further one of its tool in its run; those that wait too are decided with it.
    ///
    /// # Errors
    /// As of [`Approvals::decide`].
    pub async fn allow_run(&self, id: &str, by: &str) -> Result<Approval> {
        let listed = self.list().await?;
        let first = self.settle(id, Scope::Run, by).await?;
        let (call, label, reasons) = (first.call.with_any_arguments(), first.label.clone(), first.reasons.clone());
        let further = Further { call, label, reasons, repeats: true };
        let added = self.add(&first, by, further.clone(), None).await;
        let first = self.whole(first, by, added).await?;
        let is_covered = |other: &&Approval| {
            other.is_like(&further.call) && other.reasons.iter().all(|reason| further.reasons.contains(reason))
        };
        for other in listed.iter().filter(is_covered) {
            let allowed = self.change(&other.id, |other| {
                if other.standing(now_ms()) == Standing::Waits {
                    other.decision = Some(Decision::now(true, Scope::Once, by));
                }
                Ok(())
            });
            // The further decision covers it too.
            allowed.await.map(drop).unwrap_or_else(|error| tracing::warn!(%error, "an approval goes on waiting"));
        }
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
        // A place in the text is spent by this call, by one that was allowed or made, and by an earlier decision.
        let is_spent = |other: &Approval| matches!(other.standing(now_ms()), Standing::Allowed | Standing::Used);
        let add = async {
            let mut spent: Vec<Approval> = self.list().await?.into_iter().filter(is_spent).collect();
            for further in calls {
                if let Some(position) = spent.iter().position(|other| other.is_like(&further.call)) {
                    spent.remove(position);
                    if !further.repeats {
                        continue;
                    }
                }
                self.add(&first, by, further, Some(script)).await?;
            }
            Ok(())
        };
        let added = add.await;
        self.whole(first, by, added).await
    }

    /// Decides about the call that a decision for more is made for: once, while it waits.
    async fn settle(&self, id: &str, scope: Scope, by: &str) -> Result<Approval> {
        self.change(id, |approval| match approval.standing(now_ms()) {
            Standing::Waits => {
                approval.decision = Some(Decision::now(true, scope, by));
                Ok(())
            }
            standing => {
                let what = format!("approval {} does not wait any more: {}", approval.id, standing.word());
                Err(Error::new(ErrorCode::InvalidArgs, what).hint("look at the list again"))
            }
        })
        .await
    }

    /// The approval of a decision for more, if all of that was `added` and no one has denied the call meanwhile; else the
    /// decision is taken back, as none at all.
    async fn whole(&self, first: Approval, by: &str, added: Result<()>) -> Result<Approval> {
        let stands = async {
            added?;
            match self.get(&first.id).await?.decision == first.decision {
                true => Ok(()),
                // A denial takes back what it finds: there may be more now.
                false => Err(Error::new(ErrorCode::InvalidArgs, format!("approval {} was denied meanwhile", first.id))),
            }
        };
        let Err(error) = stands.await else { return Ok(first) };
        let revoked = self.revoke_further(&first.id, by).await;
        let is_revoked = revoked.is_ok();
        let undecided = self.change(&first.id, |approval| {
            if approval.used.is_none() && approval.decision == first.decision {
                // Denied where more stays allowed: a further denial takes that back.
                let denied = || first.decision.clone().map(|decision| Decision { is_allowed: false, ..decision });
                approval.decision = if is_revoked { None } else { denied() };
            }
            Ok(())
        });
        revoked.and(undecided.await).and(Err(error))
    }

    /// Takes back what a decision allowed beside its own call: all that can be, whatever fails.
    pub(super) async fn revoke_further(&self, parent: &str, by: &str) -> Result<()> {
        let now = now_ms();
        // To any run: a script's call may be used up by one, and allowed to the next.
        let is_further = |other: &Approval| other.parent.as_deref() == Some(parent) && other.allows("", now);
        let further = self.each(|other| is_further(&other).then_some(other.id)).await?;
        let mut done = Ok(());
        for id in further.into_iter().flatten() {
            let revoked = self.change(&id, |approval| {
                if approval.allows("", now_ms()) {
                    approval.decision = Some(Decision::now(false, approval.scope(), by));
                }
                Ok(())
            });
            done = revoked.await.map(drop).and(done);
        }
        done
    }

    async fn add(&self, first: &Approval, by: &str, further: Further, script: Option<&str>) -> Result<()> {
        let Further { call, label, reasons, repeats } = further;
        let (scope, words) = match repeats {
            true => (Scope::Run, "any number of calls in this run"),
            false => (Scope::Plan, "one more call in this run"),
        };
        let decision = Decision::now(true, scope, by);
        let at_ms = decision.at_ms;
        for number in 0..=limits::APPROVALS_KEPT.max {
            let approval = Approval {
                version: VERSION,
                id: id(&call, number),
                asker: first.asker.clone(),
                call: call.clone(),
                label: label.clone(),
                reasons: reasons.clone(),
                labels: first.labels.clone(),
                question: format!("Allowed with approval {}: {words}, with any arguments.", first.id),
                at_ms,
                until_ms: at_ms.saturating_add(first.holds_ms),
                holds_ms: first.holds_ms,
                decision: Some(decision.clone()),
                parent: Some(first.id.clone()),
                script: script.map(str::to_owned),
                ..Approval::default()
            };
            if self.swap(&approval.id, None, Some(&approval)).await? {
                return Ok(());
            }
        }
        Err(limits::APPROVALS_KEPT.exceeded(ErrorCode::LimitExceeded, limits::APPROVALS_KEPT.max + 1))
    }
}
