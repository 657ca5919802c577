//! Calls that wait for approval, and decisions about them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Console;
use super::access::Person;
use base::error::{Error, ErrorCode, Result};
use base::principal::Principal;
use base::time::now_ms;
use run::approvals::{Approval, Approvals, Call, Choice, Further, Scope, Standing};

/// Most decided approvals of a list.
const DECIDED: usize = 50;
/// Most that wait whose plan is read from their scripts.
const PLANS: usize = 10;

/// A decision.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decide {
    allow: bool,
    #[serde(default)]
    scope: Scope,
    reason: Option<String>,
    /// Digest of the plan as it was shown.
    plan: Option<String>,
}

/// The plan of a script whose call waits.
struct Planned {
    /// Its steps.
    steps: Value,
    /// Its calls that need approval.
    calls: Vec<Further>,
    /// Digest of the script.
    script: String,
    /// Digest of all that a decision for it covers.
    digest: String,
}

impl Console {
    fn inbox(&self) -> Result<Arc<Approvals>> {
        self.gateway.waiting_approvals().ok_or_else(|| {
            Error::new(ErrorCode::InvalidArgs, "approvals need a home folder to be kept in")
                .hint("set HOME, or XDG_STATE_HOME, where the gateway starts")
        })
    }

    /// Approvals that wait, and the last decisions.
    pub(super) async fn approvals(self: &Arc<Self>) -> Result<Value> {
        let approvals = self.inbox()?;
        let now = now_ms();
        let all = approvals.list().await?;
        let (waiting, mut decided): (Vec<&Approval>, Vec<&Approval>) =
            all.iter().partition(|approval| approval.standing(now) == Standing::Waits);
        let mut shown = Vec::with_capacity(waiting.len());
        for (number, approval) in waiting.into_iter().enumerate() {
            let plan = if number < PLANS { self.plan_of(approval).await } else { None };
            shown.push(self.object(approval, now, plan.as_ref()));
        }
        decided.sort_by_key(|approval| approval.decision.as_ref().map_or(approval.until_ms, |decision| decision.at_ms));
        let decided = decided.into_iter().rev().take(DECIDED).map(|approval| self.object(approval, now, None));
        Ok(json!({
            "waiting": shown,
            "decided": decided.collect::<Vec<_>>(),
            "waits": approvals.wait().is_some(),
        }))
    }

    /// Decides about a call that waits.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it does not wait, or its plan is not known.
    pub(super) async fn decide(self: &Arc<Self>, id: &str, decide: &Decide, by: &Person) -> Result<Value> {
        let approvals = self.inbox()?;
        let by = format!("{} in the console", by.name);
        let decided = match (decide.allow, decide.scope) {
            (false, _) | (true, Scope::Once) => {
                let reason = decide.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
                approvals.decide(id, Choice { is_allowed: decide.allow, by: &by, reason }).await?
            }
            (true, Scope::Run) => approvals.allow_run(id, &by).await?,
            (true, Scope::Plan) => {
                let wrong = |what: String| Error::new(ErrorCode::InvalidArgs, what).hint("look at the list again");
                let approval = approvals.get(id).await?;
                let Some(plan) = self.plan_of(&approval).await else {
                    return Err(wrong(format!("the plan of run {} is not known", approval.asker.run)));
                };
                if decide.plan.as_ref() != Some(&plan.digest) {
                    return Err(wrong("the plan is not the one that was shown".to_owned()));
                }
                approvals.allow_plan(id, &by, plan.calls, &plan.script).await?
            }
        };
        tracing::info!(target: "forgefs::console", approval = id, by, allowed = decide.allow, "an approval was decided");
        Ok(self.object(&decided, now_ms(), None))
    }

    /// Effect of a tool by its annotations; `None` if they say nothing, or there is no such tool.
    fn effect(&self, server: &str, tool: &str) -> Option<&'static str> {
        let catalog = self.gateway.catalog();
        catalog.tool(server, tool).ok().and_then(|(_, stub)| stub.annotations.word())
    }

    /// The object of other programs, with its times as the page computes with them, the effect of its tool, and the plan.
    fn object(&self, approval: &Approval, now: u64, plan: Option<&Planned>) -> Value {
        let mut object = approval.shape(now);
        object["asked_ms"] = approval.at_ms.into();
        object["until_ms"] = approval.ends_ms().into();
        object["effect"] = self.effect(&approval.call.server, &approval.call.tool).into();
        object["plan"] = plan.map_or(Value::Null, |plan| plan.steps.clone());
        object["plan_digest"] = plan.map(|plan| plan.digest.as_str()).into();
        if let Some(decision) = &approval.decision {
            object["decision"]["at_ms"] = decision.at_ms.into();
        }
        if let Some(used) = &approval.used {
            object["used"]["at_ms"] = used.at_ms.into();
        }
        object
    }

    /// The plan of the script whose call waits, and the calls of it that need approval; `None` if the journal of its run
    /// is gone, or the text does not show all calls that need approval.
    async fn plan_of(&self, approval: &Approval) -> Option<Planned> {
        let (run, _) = self.journal(&approval.asker.run).await.ok()??;
        let profile = self.gateway.profile_of(&Principal::of(&approval.call.client));
        let principal = Principal { profile: profile.map(Into::into), ..Principal::of(&approval.call.client) };
        let session = self.gateway.open_only_session(principal);
        let context = self.gateway.execution_context(&session);
        let judged = context.check(run.head.language, &run.head.code).await.ok()?;
        let own = approval.call.with_any_arguments();
        let in_chain = |asks: Further| Further { call: Call { chain: own.chain.clone(), ..asks.call }, ..asks };
        let calls: Vec<Further> = judged.asks.into_iter().map(in_chain).collect();
        if !calls.iter().any(|further| further.call == own) {
            return None;
        }
        let script = stubgen::digest(&run.head.code);
        let covered: Vec<Value> =
            calls.iter().map(|further| json!([further.call, further.reasons, further.repeats])).collect();
        let digest = stubgen::digest(stubgen::canonical_json(&json!([script, covered])));
        let steps = judged.plan.steps.iter().map(|step| {
            let mut object = json!(step);
            object["effect"] = step.tool.as_ref().and_then(|tool| self.effect(&step.server, tool)).into();
            object
        });
        let steps = steps.collect();
        Some(Planned { steps, calls, script, digest })
    }
}
