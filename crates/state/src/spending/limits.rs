//! Rate limits and prices of a server.

use serde_json::json;

use super::Item;
use crate::State;
use base::error::{Error, ErrorCode, Result};
use config::{Amount, PerTool, Rate, Server, ToolRule};

/// Rate limits and prices of one server.
#[derive(Debug)]
pub(super) struct ServerLimits {
    rate: Option<Rate>,
    rates: PerTool<RuleRate>,
    cost: Amount,
    costs: PerTool<Amount>,
}

/// Rate limit of one rule for tools, shared by its tools.
#[derive(Debug, Clone)]
struct RuleRate {
    rate: Rate,
    /// First name or pattern of the rule, which identifies its bucket.
    rule: String,
}

impl ServerLimits {
    pub(super) fn new(server: &Server) -> Self {
        let of_rule = |rule: &ToolRule| {
            let name = rule.tools.entries().first()?.to_string();
            Some(RuleRate { rate: rule.rate?, rule: name })
        };
        Self {
            rate: server.rate,
            rates: ToolRule::by_tool(&server.tools, of_rule),
            cost: server.cost,
            costs: ToolRule::by_tool(&server.tools, |rule| rule.cost),
        }
    }

    /// Price of a call: a tool's full name beats patterns; of several patterns the highest price counts.
    pub(super) fn cost(&self, tool: Option<&str>) -> Amount {
        tool.and_then(|tool| self.costs.one(tool)).copied().unwrap_or(self.cost)
    }

    /// Admits a call that every bucket has room for. Narrow buckets come first: a token taken from one is lost when a
    /// wider one refuses, but then the wider one is the bottleneck.
    pub(super) async fn admit(&self, item: Item<'_>, state: &dyn State) -> Result<()> {
        let of_tool: Vec<(&str, &RuleRate)> = item.tool.into_iter().flat_map(|tool| self.rates.all(tool)).collect();
        for (name, RuleRate { rate, rule }) in of_tool {
            let bucket = format!("{}/{rule}", item.server);
            admit(state, &bucket, *rate, item, &format!("{}'s `{name}`", item.server)).await?;
        }
        match self.rate {
            Some(rate) => admit(state, item.server, rate, item, item.server).await,
            None => Ok(()),
        }
    }
}

pub(super) async fn admit(state: &dyn State, bucket: &str, rate: Rate, item: Item<'_>, of: &str) -> Result<()> {
    let Err(wait) = state.admit(bucket, rate).await? else { return Ok(()) };
    // Rounded up: a retry after exactly this time passes.
    let seconds = ((wait.as_secs_f64() * 1000.0).ceil() / 1000.0).max(0.001);
    let Rate { calls, per, burst } = rate;
    let per = humantime::format_duration(per);
    let message =
        format!("{}: rate limit: {of} allows {calls} calls/{per} (burst {burst}); retry in {seconds} s", item.label);
    Err(Error::new(ErrorCode::RateLimit, message)
        .hint(format!("wait {seconds} s before calling again, or make fewer calls"))
        .data(json!({ "retry_after_secs": seconds })))
}
