//! Consent to a whole plan: one question before a script runs, in place of one for each call.
//!
//! It covers the planned calls of tools with `approval = "plan"`: each as often as its text calls it, with the arguments that
//! the user saw. What a checker says is not trusted: the broker compares each call, and asks about one beyond the plan.

use serde::Serialize;
use serde_json::{Map, Value, json};
use stubgen::ToolStub;
use wire::{Args, Known, Site};

use super::consent::{Settled, shown};
use super::policy::PendingCall;
use super::{Approval, Approver, Broker, Plan, arguments};
use crate::session::Consent;
use base::error::Result;
use base::limits;
use catalog::people::{self, MARK};
use upstream::Operation;

/// One planned call, or several alike.
#[derive(Debug, Clone, Serialize)]
pub struct Planned {
    /// The tool, and the rule that asks.
    consent: Consent,
    /// The tool in messages.
    label: String,
    /// Arguments by wire name; `None` for one that the script decides when it runs.
    fields: Vec<(String, Option<Value>)>,
    /// True if there may be other arguments.
    is_open: bool,
    /// Calls that are left; `None` if the text does not bound them.
    left: Option<usize>,
}

impl Planned {
    pub(super) fn new(consent: Consent, label: String, stub: &ToolStub, site: &Site) -> Self {
        let (fields, is_open) = match &site.args {
            Args::Named(fields, is_open) => (fields.as_slice(), *is_open),
            Args::Unknown | Args::Positional(_) => (&[][..], true),
        };
        let field =
            |(name, known): &(String, Known)| (arguments::wire_name(stub, name).to_owned(), arguments::value_of(known));
        let fields = fields.iter().map(field);
        Self { consent, label, fields: fields.collect(), is_open, left: (!site.repeats).then_some(1) }
    }

    /// True if the call is what the user saw.
    fn covers(&self, consent: &Consent, arguments: &Map<String, Value>) -> bool {
        let field = |name: &str| self.fields.iter().find(|(known, _)| known == name);
        let is_shown = |(name, value): (&String, &Value)| match field(name) {
            Some((_, Some(known))) => known == value,
            Some((_, None)) => true,
            None => self.is_open,
        };
        // An argument that was shown and is not sent makes another call, unless the tool takes `null` for "not sent".
        let is_sent = |(name, value): &(String, Option<Value>)| match value {
            Some(value) => value.is_null() || arguments.contains_key(name),
            None => true,
        };
        self.left != Some(0)
            && self.consent == *consent
            && arguments.iter().all(is_shown)
            && self.fields.iter().all(is_sent)
    }

    /// Lines for the user: the call, then each argument.
    fn shown(&self) -> Result<Vec<String>> {
        let known = self.fields.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        let often = if self.left.is_none() { ", as often as the script likes" } else { "" };
        let mut lines = vec![format!("{}{often}", people::line(&self.label))];
        let fields = shown(Value::Object(known))?;
        lines.extend(fields.into_iter().map(|field| format!("  {field}")));
        let open: Vec<&str> =
            self.fields.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_str()).collect();
        if !open.is_empty() {
            lines.push(format!("  decided by the script: {}", people::line(&open.join(", "))));
        }
        if self.is_open {
            lines.push("  and other arguments that the script decides".to_owned());
        }
        Ok(lines)
    }
}

impl Broker {
    /// Asks about a plan before its script runs, if rules want that. Of a plan that cannot be shown whole, and where the
    /// user cannot be asked, each call is asked about, or refused, when it is made.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when the user says no.
    pub async fn approve_plan(&self, planned: Vec<Planned>, plan: &Plan) -> Result<()> {
        let Some(caller) = &self.context.caller else { return Ok(()) };
        if planned.is_empty() || self.run.is_dry || self.context.policy.approver == Approver::Operator {
            return Ok(());
        }
        let (mut shown, mut bytes) = (Vec::new(), 0);
        for (call, number) in planned.iter().zip(1..) {
            // A call that cannot be shown is asked about, and refused, when it is made.
            let Ok(lines) = call.shown() else { return Ok(()) };
            let lines = format!("{number}. {}", lines.join("\n   "));
            bytes += lines.len();
            if bytes > limits::SHOWN.max {
                return Ok(());
            }
            shown.push(lines);
        }
        let about = plan.to_string();
        let whole = Consent {
            server: String::new(),
            origin: "".into(),
            tool: "plan".to_owned(),
            digest: stubgen::digest(stubgen::canonical_json(&json!([planned, about]))),
            rule: String::new(),
        };
        if !self.context.session.approvals.has(&whole).await? {
            let mut message = "ForgeFS asks: may this script run?".to_owned();
            let lines = shown.iter().flat_map(|call| call.lines()).map(str::to_owned);
            for line in ["It would call:".to_owned()]
                .into_iter()
                .chain(lines)
                .chain(about.lines().map(|line| people::line(line).into_owned()))
            {
                message.push_str(&format!("\n{MARK}{line}"));
            }
            if message.len() > limits::SHOWN.max {
                return Ok(());
            }
            match self.decision(&**caller, message, whole.digest.clone(), "the plan of this script").await {
                Settled::Granted(Approval::Session) => self.context.session.approvals.grant(&whole).await?,
                Settled::Granted(_) => {}
                Settled::Refused(error) | Settled::Dismissed(error) => return Err(error),
                Settled::Unable(_) => return Ok(()),
            }
        }
        self.run.consents.plan(planned);
        Ok(())
    }

    /// True if the user consented to this call with the plan; counts it.
    pub(super) fn is_planned(&self, asked: &PendingCall<'_>, wanted: &[Consent]) -> bool {
        let Operation::Tool { arguments, .. } = asked.operation else { return false };
        let [consent] = wanted else { return false };
        self.run.consents.with_plan(|planned| {
            let Some(call) = planned.iter_mut().find(|call| call.covers(consent, arguments)) else { return false };
            call.left = call.left.map(|left| left - 1);
            true
        })
    }
}
