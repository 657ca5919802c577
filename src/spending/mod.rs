//! Rate limits and budgets of a gateway, decided before a call is sent.
//!
//! A rate limit is a token bucket. A budget is spent once: per run, per session, and per UTC day, which all gateways
//! with one configuration share. The price of a call is taken from all budgets or from none. The [`State`] holds what
//! is used.

mod limits;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::{self, Amount, Config};
use crate::error::{Error, ErrorCode, Result};
use crate::principal::Principal;
use crate::state::{Charge, Counter, Spent, State, day_file};
use limits::ServerLimits;

/// Rate limits and budgets of a configuration.
#[derive(Debug)]
pub struct Spending {
    servers: HashMap<String, ServerLimits>,
    budgets: config::Budgets,
    /// File of the day's sum.
    day: Option<Arc<Path>>,
    /// True if there is a budget, or a price is configured.
    counts: bool,
    state: Arc<dyn State>,
}

/// Counters that the calls of one run are charged to. Dropping it ends the run's sum.
#[derive(Debug)]
pub struct Account {
    run: Counter,
    session: Counter,
    state: Arc<dyn State>,
}

impl Drop for Account {
    fn drop(&mut self) {
        self.state.end(&self.run);
    }
}

/// A call to pay for.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The server's configured name.
    pub server: &'a str,
    /// The tool's wire name; `None` for resources and prompts.
    pub tool: Option<&'a str>,
    /// Name in messages.
    pub label: &'a str,
    /// True if it costs nothing.
    pub free: bool,
}

impl Spending {
    /// Spending of `config`; sums and buckets in `state` stay.
    #[must_use]
    pub fn new(config: &Config, state: Arc<dyn State>) -> Arc<Self> {
        let budgets = config.budgets.clone();
        let path = config.path.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let day = budgets.folder.as_deref().map(|folder| day_file(folder, &path.unwrap_or_default()).into());
        let is_priced =
            |server: &config::Server| server.cost != Amount::ONE || server.tools.iter().any(|rule| rule.cost.is_some());
        let has_budget = budgets.run.or(budgets.session).or(budgets.day).is_some();
        let servers = config.servers.iter().map(|(name, server)| (name.clone(), ServerLimits::new(server)));
        Arc::new(Self {
            servers: servers.collect(),
            counts: has_budget || config.servers.values().any(is_priced),
            budgets,
            day,
            state,
        })
    }

    /// The account of a run of `principal`.
    #[must_use]
    pub fn account(&self, run: &str, principal: &Principal) -> Account {
        let session = Counter::Session(Arc::clone(&principal.session));
        Account { run: Counter::Run(run.into()), session, state: Arc::clone(&self.state) }
    }

    /// Pays for a call before it is made, from the budgets of its run, its session and the day. Returns its cost; zero if
    /// no budget and no price is configured.
    ///
    /// # Errors
    /// `RATE_LIMIT` with `retry_after_secs` in its data, `BUDGET_EXCEEDED` with the rest of the budget; nothing is
    /// spent then.
    pub async fn charge(&self, item: Item<'_>, account: &Account) -> Result<Amount> {
        // A server known only from a file has no entry, and cannot be called either.
        let Some(limits) = self.servers.get(item.server) else { return Ok(Amount::ZERO) };
        limits.admit(item, &*self.state).await?;
        let cost = if item.free || !self.counts { Amount::ZERO } else { limits.cost(item.tool) };
        if cost.is_zero() {
            return Ok(cost);
        }
        let budgets = self.charges(account);
        let charges: Vec<Charge> = budgets.iter().map(|(charge, _)| charge.clone()).collect();
        let Spent::Refused { charge, spent, renews } = self.state.spend(cost, &charges).await? else { return Ok(cost) };
        let Some((Charge { limit: Some(limit), .. }, scope)) = budgets.get(charge) else { return Ok(cost) };
        Err(exceeded(item, cost, *limit, spent, *scope, renews))
    }

    /// Refunds a call that was refused after all.
    pub async fn refund(&self, cost: Amount, account: &Account) {
        if !cost.is_zero() {
            let counters: Vec<Counter> = self.charges(account).into_iter().map(|(charge, _)| charge.counter).collect();
            self.state.refund(cost, &counters).await;
        }
    }

    fn charges(&self, account: &Account) -> Vec<(Charge, Scope)> {
        let charge = |counter: &Counter, limit| Charge { counter: counter.clone(), limit };
        let mut charges = vec![
            (charge(&account.run, self.budgets.run), RUN),
            (charge(&account.session, self.budgets.session), SESSION),
        ];
        if let (Some(file), Some(limit)) = (&self.day, self.budgets.day) {
            charges.push((charge(&Counter::Day(Arc::clone(file)), Some(limit)), DAY));
        }
        charges
    }

    /// Spent today, and the budget of the day, if there is one.
    #[must_use]
    pub fn today(&self) -> Option<(Amount, Amount)> {
        let (file, limit) = (self.day.as_ref()?, self.budgets.day?);
        Some((self.state.known(&Counter::Day(Arc::clone(file)))?, limit))
    }
}

/// Scope of a budget.
#[derive(Clone, Copy)]
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
    let message = format!("{} costs {cost}; only {left} of the {name} budget of {limit} is left", item.label);
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
