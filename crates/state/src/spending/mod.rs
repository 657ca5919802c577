//! Rate limits and budgets of a gateway, decided before a call is sent.
//!
//! A rate limit is a token bucket. A budget is spent once: per run, per session, and per UTC day, which all gateways
//! with one configuration share. The gateway, a profile and a client may each have them, and each must hold. The price of a call is taken from all budgets or from none. The [`State`] holds what
//! is used.

mod limits;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::{Charge, Counter, Spent, State, day_file};
use base::error::{Error, ErrorCode, Result};
use base::principal::Principal;
use config::{Amount, Config};
use limits::ServerLimits;

/// Rate limits and budgets of a configuration.
#[derive(Debug)]
pub struct Spending {
    servers: HashMap<String, ServerLimits>,
    /// Budgets of the gateway, its profiles and its clients.
    budgets: HashMap<Owner, Budgets>,
    /// True if there is a budget, or a price is configured.
    counts: bool,
    state: Arc<dyn State>,
}

/// Owner of budgets. Each that a call belongs to must have room for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    Gateway,
    Profile(Arc<str>),
    Client(Arc<str>),
}

impl Owner {
    /// Key of its buckets and sums, which is no server's name; `None` for the gateway.
    fn key(&self) -> Option<String> {
        match self {
            Self::Gateway => None,
            Self::Profile(name) => Some(format!("profile:{name}")),
            Self::Client(name) => Some(format!("client:{name}")),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("the gateway"),
            Self::Profile(name) => write!(f, "the profile `{name}`"),
            Self::Client(name) => write!(f, "the client `{name}`"),
        }
    }
}

#[derive(Debug)]
struct Budgets {
    limits: config::Budgets,
    /// File of the day's sum.
    day: Option<Arc<Path>>,
}

/// Sums that the calls of one run are charged to.
#[derive(Debug)]
pub struct Account {
    /// That of the run, which stays in this process.
    run: Arc<Mutex<Amount>>,
    session: Counter,
    /// Narrowest first.
    owners: Vec<Owner>,
}

impl Account {
    /// The account of a run of `principal`, whose profile this is.
    #[must_use]
    pub fn new(principal: &Principal, profile: Option<&str>) -> Self {
        let session = Counter::Session(Arc::clone(&principal.session));
        let profile = profile.map(|name| Owner::Profile(name.into()));
        let owners = [Owner::Client(Arc::clone(&principal.client))].into_iter().chain(profile).chain([Owner::Gateway]);
        Self { run: Arc::default(), session, owners: owners.collect() }
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

/// Payment of a call. Dropped before the call goes out, it is refunded.
#[derive(Debug)]
pub struct Paid {
    /// The cost; zero if no budget and no price is configured.
    pub cost: Amount,
    /// True once the call goes out.
    pub is_sent: bool,
    run: Arc<Mutex<Amount>>,
    charges: Vec<Charge>,
    state: Arc<dyn State>,
}

impl Paid {
    /// Refunds a call that was refused after all, also where the future is dropped.
    pub async fn refund(mut self) {
        // Its drop refunds no more.
        self.is_sent = true;
        if let Some(refunded) = self.give_back() {
            // A refund that fails is logged.
            let _ = refunded.await;
        }
    }

    fn give_back(&self) -> Option<JoinHandle<()>> {
        let mut run = self.run.lock();
        *run = run.minus(self.cost);
        drop(run);
        let (cost, charges, state) = (self.cost, self.charges.clone(), Arc::clone(&self.state));
        let runtime = Handle::try_current().ok().filter(|_| !charges.is_empty())?;
        Some(runtime.spawn(async move { state.refund(cost, &charges).await }))
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if !self.is_sent {
            self.give_back();
        }
    }
}

impl Spending {
    /// Spending of `config`; sums and buckets in `state` stay.
    pub fn new(config: &Config, state: Arc<dyn State>) -> Arc<Self> {
        let profiles = config.profiles.iter().map(|(name, of)| (Owner::Profile(name.as_str().into()), &of.budgets));
        let clients = config.clients.iter().map(|(name, of)| (Owner::Client(name.as_str().into()), &of.budgets));
        let all = [(Owner::Gateway, &config.budgets)].into_iter().chain(profiles).chain(clients);
        let budgets: HashMap<Owner, Budgets> = all
            .map(|(owner, limits)| {
                let file = |folder: &Path| day_file(folder, config, owner.key().as_deref()).into();
                let day = limits.folder.as_deref().map(file);
                (owner, Budgets { limits: limits.clone(), day })
            })
            .collect();
        let is_priced =
            |server: &config::Server| server.cost != Amount::ONE || server.tools.iter().any(|rule| rule.cost.is_some());
        let has_budget = |of: &Budgets| of.limits.run.or(of.limits.session).or(of.limits.day).is_some();
        let servers = config.servers.iter().map(|(name, server)| (name.clone(), ServerLimits::new(server)));
        Arc::new(Self {
            servers: servers.collect(),
            counts: budgets.values().any(has_budget) || config.servers.values().any(is_priced),
            budgets,
            state,
        })
    }

    /// Files with sums of the day that cannot be read: calls are refused.
    pub fn unreadable(&self) -> impl Iterator<Item = &Path> {
        let is_unknown = |file: &&Arc<Path>| self.state.known(&Counter::Day(Arc::clone(file))).is_none();
        // A store says what it holds when it is asked.
        let files = self.budgets.values().filter(|_| !self.state.is_shared()).filter_map(|of| of.day.as_ref());
        files.filter(is_unknown).map(AsRef::as_ref)
    }

    fn owned<'a>(&'a self, account: &'a Account) -> impl Iterator<Item = (&'a Owner, &'a Budgets)> {
        account.owners.iter().filter_map(|owner| Some((owner, self.budgets.get(owner)?)))
    }

    /// Pays for a call before it is made, from the budgets of its run, its session and the day.
    ///
    /// # Errors
    /// `RATE_LIMIT` with `retry_after_secs` in its data, `BUDGET_EXCEEDED` with the rest of the budget; nothing is
    /// spent then.
    pub async fn charge(&self, item: Item<'_>, account: &Account) -> Result<Paid> {
        // A server known only from a file has no entry, and cannot be called either.
        let Some(limits) = self.servers.get(item.server) else { return Ok(self.free()) };
        limits.admit(item, &*self.state).await?;
        for (owner, of) in self.owned(account) {
            if let Some(rate) = of.limits.rate {
                let bucket = owner.key().unwrap_or_else(|| "*".to_owned());
                limits::admit(&*self.state, &bucket, rate, item, &owner.to_string()).await?;
            }
        }
        let cost = if item.free || !self.counts { Amount::ZERO } else { limits.cost(item.tool) };
        if cost.is_zero() {
            return Ok(self.free());
        }
        // The run's sum first: it is given back where another refuses.
        let (limit, scope) = self.least(Kind::Run, account, |limits| limits.run);
        {
            let mut run = account.run.lock();
            let sum = run.plus(cost);
            if let Some(limit) = limit.filter(|limit| sum > *limit) {
                return Err(exceeded(item, cost, limit, *run, &scope, None));
            }
            *run = sum;
        }
        let budgets = self.charges(account);
        let charges = budgets.iter().map(|(charge, _)| charge.clone()).collect();
        let (run, state) = (Arc::clone(&account.run), Arc::clone(&self.state));
        let mut paid = Paid { cost, is_sent: false, run, charges, state };
        // On its own: of a call that is dropped meanwhile it is known what was taken, and that is refunded.
        let spend = tokio::spawn(async move {
            let spent = paid.state.spend(cost, &paid.charges).await;
            if !matches!(spent, Ok(Spent::Done)) {
                paid.charges.clear();
            }
            spent.map(|spent| (paid, spent))
        });
        let (paid, spent) = spend.await.map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))??;
        let Spent::Refused { charge, spent, renews } = spent else { return Ok(paid) };
        let Some((Charge { limit: Some(limit), .. }, scope)) = budgets.get(charge) else { return Ok(self.free()) };
        Err(exceeded(item, cost, *limit, spent, scope, renews))
    }

    fn free(&self) -> Paid {
        let (run, charges, state) = (Arc::default(), Vec::new(), Arc::clone(&self.state));
        Paid { cost: Amount::ZERO, is_sent: false, run, charges, state }
    }

    /// The lowest limit of a kind, of all owners.
    fn least<'a>(
        &'a self,
        kind: Kind,
        account: &'a Account,
        limit: fn(&config::Budgets) -> Option<Amount>,
    ) -> (Option<Amount>, Scope<'a>) {
        let limits = self.owned(account).filter_map(|(owner, of)| Some((limit(&of.limits)?, owner)));
        let (limit, owner) = limits.min_by_key(|(limit, _)| *limit).unzip();
        (limit, Scope { kind, owner: owner.unwrap_or(&Owner::Gateway) })
    }

    fn charges<'a>(&'a self, account: &'a Account) -> Vec<(Charge, Scope<'a>)> {
        let (limit, scope) = self.least(Kind::Session, account, |limits| limits.session);
        let mut charges = vec![(Charge { counter: account.session.clone(), limit }, scope)];
        for (owner, of) in self.owned(account) {
            if let (Some(file), Some(limit)) = (&of.day, of.limits.day) {
                let day = Charge { counter: Counter::Day(Arc::clone(file)), limit: Some(limit) };
                charges.push((day, Scope { kind: Kind::Day, owner }));
            }
        }
        charges
    }

    /// Spent today, and the gateway's budget of the day, if there is one.
    pub fn today(&self) -> Option<(Amount, Amount)> {
        let of = self.budgets.get(&Owner::Gateway)?;
        let (file, limit) = (of.day.as_ref()?, of.limits.day?);
        Some((self.state.known(&Counter::Day(Arc::clone(file)))?, limit))
    }
}

/// Scope of a budget.
#[derive(Clone, Copy)]
struct Scope<'a> {
    kind: Kind,
    owner: &'a Owner,
}

#[derive(Clone, Copy)]
enum Kind {
    Run,
    Session,
    Day,
}

impl Kind {
    /// Its name, and what to do when it is spent.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Run => ("run", "make fewer or cheaper calls in one script; the next has its own budget"),
            Self::Session => ("session", "it is for the whole session; only the operator can raise it"),
            Self::Day => ("day", "there is a new budget from midnight UTC on"),
        }
    }
}

fn exceeded(
    item: Item<'_>,
    cost: Amount,
    limit: Amount,
    spent: Amount,
    scope: &Scope<'_>,
    renews: Option<String>,
) -> Error {
    let left = limit.minus(spent);
    let (name, fix) = scope.kind.words();
    let of = match scope.owner {
        Owner::Gateway => String::new(),
        owner => format!(" of {owner}"),
    };
    let message = format!("{} costs {cost}; only {left} of the {name} budget{of} of {limit} is left", item.label);
    let mut data = json!({
        "budget": name,
        "of": scope.owner.key(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;

    #[tokio::test]
    async fn what_a_dropped_call_has_paid_is_refunded_unless_it_went_out() {
        let state = Arc::new(Embedded::default());
        let text = "[servers.x]\ncommand = \"x\"\n[budgets]\nsession = 9\n";
        let config = Config::parse(text, Path::new("/forge.toml"), &|_| None).expect("a configuration");
        let spending = Spending::new(&config, Arc::<Embedded>::clone(&state));
        let principal = Principal::local();
        let (account, session) = (Account::new(&principal, None), Counter::Session(principal.session));
        let item = Item { server: "x", tool: None, label: "x", free: false };
        let mut expected = Amount::ZERO;
        for (what, is_sent) in [("sent", true), ("paid", false), ("refunded", true), ("paying", false)] {
            let mut charge = Box::pin(spending.charge(item, &account));
            match what {
                "paying" => assert!(futures::poll!(&mut charge).is_pending(), "it waits for what it takes"),
                _ => {
                    let mut paid = charge.as_mut().await.expect("there is enough");
                    assert_eq!(state.known(&session), Some(expected.plus(Amount::ONE)), "{what}");
                    paid.is_sent = is_sent;
                    match what {
                        "refunded" => paid.refund().await,
                        _ => drop(paid),
                    }
                }
            }
            drop(charge);
            if what == "sent" {
                expected = Amount::ONE;
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!((state.known(&session), *account.run.lock()), (Some(expected), expected), "{what}");
        }
    }
}
