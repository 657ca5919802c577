//! How often servers are called, and what calls cost: decided before a call is sent, for all that a gateway serves.
//!
//! A rate is a bucket that refills evenly (`rates`). A budget is spent once: per run, per session, and per UTC day,
//! the last one in a file that all gateways with one configuration share (`day`). The price of a call is taken from
//! all budgets together or from none, and whoever takes does so alone: calls made at once cannot overspend.

mod day;
mod rates;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::config::{self, Amount, Config};
use crate::error::{Error, ErrorCode, Result};
use day::{Day, Taken};
use rates::ServerLimits;

/// The rates and budgets of a gateway.
#[derive(Debug)]
pub struct Spending {
    servers: HashMap<String, Arc<ServerLimits>>,
    budgets: config::Budgets,
    day: Option<Day>,
    /// Whether there is a budget, or a price that somebody has thought about.
    counts: bool,
    /// Held while something is taken; the same for all configurations that a gateway ever had.
    taking: Arc<tokio::sync::Mutex<()>>,
}

/// What was spent of one budget.
#[derive(Debug, Default)]
pub struct SpendCounter(AtomicU64);

impl SpendCounter {
    /// So far.
    #[must_use]
    pub fn spent(&self) -> Amount {
        Amount::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, spent: Amount) {
        self.0.store(spent.micros(), Ordering::Relaxed);
    }
}

/// A call that is to be paid for.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The server's configured name.
    pub server: &'a str,
    /// The tool's wire name; `None` for resources and prompts.
    pub tool: Option<&'a str>,
    /// What it is called in messages.
    pub label: &'a str,
    /// Whether it costs anything at all.
    pub free: bool,
}

impl Spending {
    /// Nothing spent yet, but for what is on record for today.
    #[must_use]
    pub fn new(config: &Config) -> Arc<Self> {
        Self::following(config, &HashMap::new(), Arc::default())
    }

    /// That of another configuration: rates that it does not change go on where they are.
    #[must_use]
    pub fn reloaded(&self, config: &Config) -> Arc<Self> {
        Self::following(config, &self.servers, Arc::clone(&self.taking))
    }

    fn following(
        config: &Config,
        before: &HashMap<String, Arc<ServerLimits>>,
        taking: Arc<tokio::sync::Mutex<()>>,
    ) -> Arc<Self> {
        let server_limits = |(name, server): (&String, &config::Server)| {
            let same = before.get(name).filter(|server_limits| server_limits.are_of(server)).map(Arc::clone);
            (
                name.clone(),
                same.unwrap_or_else(|| Arc::new(ServerLimits::new(server, before.get(name).map(Arc::as_ref)))),
            )
        };
        let budgets = config.budgets.clone();
        let path = config.path.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let day = budgets.folder.as_deref().map(|folder| Day::new(folder, &path.unwrap_or_default()));
        let is_priced =
            |server: &config::Server| server.cost != Amount::ONE || server.tools.iter().any(|rule| rule.cost.is_some());
        let has_budget = budgets.run.or(budgets.session).or(budgets.day).is_some();
        Arc::new(Self {
            servers: config.servers.iter().map(server_limits).collect(),
            counts: has_budget || config.servers.values().any(is_priced),
            budgets,
            day,
            taking,
        })
    }

    /// Pays for a call before it is made, out of the budgets of its run and its session and that of the day. Says what
    /// it costs; nothing where nobody counts.
    ///
    /// # Errors
    /// `RATE_LIMIT` with `retry_after_secs` in its data, `BUDGET_EXCEEDED` with what is left; nothing is spent then.
    pub async fn charge(&self, item: Item<'_>, run: &SpendCounter, session: &SpendCounter) -> Result<Amount> {
        // A server that is known from a file only has no entry, and cannot be called either.
        let Some(server_limits) = self.servers.get(item.server) else { return Ok(Amount::ZERO) };
        server_limits.admit(item)?;
        let cost = if item.free || !self.counts { Amount::ZERO } else { server_limits.cost(item.tool) };
        if cost.is_zero() {
            return Ok(cost);
        }
        let _alone = self.taking.lock().await;
        for (counter, limit, scope) in [(run, self.budgets.run, RUN), (session, self.budgets.session, SESSION)] {
            if let Some(limit) = limit
                && counter.spent().plus(cost) > limit
            {
                return Err(exceeded(item, cost, limit, counter.spent(), scope, None));
            }
        }
        if let (Some(day), Some(limit)) = (&self.day, self.budgets.day)
            && let Taken::Refused { spent, renews } = day.take(cost, limit, SystemTime::now()).await?
        {
            return Err(exceeded(item, cost, limit, spent, DAY, Some(renews)));
        }
        run.set(run.spent().plus(cost));
        session.set(session.spent().plus(cost));
        Ok(cost)
    }

    /// Gives back what a call would have cost that was refused after all.
    pub async fn refund(&self, cost: Amount, run: &SpendCounter, session: &SpendCounter) {
        if cost.is_zero() {
            return;
        }
        let _alone = self.taking.lock().await;
        run.set(run.spent().minus(cost));
        session.set(session.spent().minus(cost));
        if let Some(day) = &self.day {
            day.give_back(cost, SystemTime::now()).await;
        }
    }

    /// What was spent today and may be, where there is a budget of the day.
    #[must_use]
    pub fn today(&self) -> Option<(Amount, Amount)> {
        let (day, limit) = (self.day.as_ref()?, self.budgets.day?);
        Some((day.spent(SystemTime::now())?, limit))
    }
}

/// What a budget is for.
struct Scope {
    name: &'static str,
    fix: &'static str,
}

const RUN: Scope = Scope { name: "run", fix: "make fewer or cheaper calls in one script; the next has its own budget" };
const SESSION: Scope = Scope { name: "session", fix: "it is for the whole session; only the operator can raise it" };
const DAY: Scope = Scope { name: "day", fix: "there is a new budget from midnight UTC on" };

fn exceeded(item: Item<'_>, cost: Amount, limit: Amount, spent: Amount, scope: Scope, renews: Option<String>) -> Error {
    let left = limit.minus(spent);
    let Scope { name, fix } = scope;
    let message = format!("{} costs {cost}, and of the budget of {limit} for the {name} {left} is left", item.label);
    let mut data = json!({
        "budget": name,
        "limit": limit,
        "spent": spent,
        "left": left,
        "cost": cost,
    });
    if let Some(renews) = renews {
        data["renews"] = Value::String(renews);
    }
    Error::new(ErrorCode::BudgetExceeded, message).hint(fix).data(data)
}
