//! Rate limits, prices and budgets: `rate`, `cost`, `tools` of a server, and `[budgets]`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::error::ConfigError;
use super::key::Key;
use super::patterns::{Patterns, PerTool};
use super::raw::{RawBudgets, RawRate, RawTool};
use super::units::{DAY, MILLI, MINUTE};
use super::{Approval, scripts};

/// An amount in the operator's unit, in exact millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Amount(u64);

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// Default price of a call.
    pub const ONE: Self = Self(MICROS);
    /// Largest amount.
    const MOST: Self = Self(1_000_000_000 * MICROS);

    /// From millionths.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// In millionths.
    pub fn micros(self) -> u64 {
        self.0
    }

    /// True for zero.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// As a float, for display.
    pub fn number(self) -> f64 {
        self.0 as f64 / MICROS as f64
    }

    /// Saturating sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Saturating difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `None` for a negative, non-finite or too large number, or more than six decimals.
    pub(super) fn read(number: f64) -> Option<Self> {
        let micros = number * MICROS as f64;
        let whole = micros.round();
        let fits = (0.0..=Self::MOST.0 as f64).contains(&whole) && (micros - whole).abs() < 1e-3;
        fits.then_some(Self(whole as u64))
    }
}

const MICROS: u64 = 1_000_000;

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / MICROS)?;
        match self.0 % MICROS {
            0 => Ok(()),
            rest => write!(f, ".{}", format!("{rest:06}").trim_end_matches('0')),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % MICROS {
            0 => serializer.serialize_u64(self.0 / MICROS),
            _ => serializer.serialize_f64(self.number()),
        }
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A rate limit: at most `burst` calls at once, and `calls` per `per` in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls that are refilled evenly in each `per`.
    pub calls: u32,
    /// The period.
    pub per: Duration,
    /// Capacity of the bucket.
    pub burst: u32,
}

/// One `[servers.<name>.tools.<pattern>]` entry: rules for some tools of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRule {
    /// The tools: one name or pattern.
    pub tools: Patterns,
    /// Rate limit shared by these tools.
    pub rate: Option<Rate>,
    /// Price of a call, in place of the server's.
    pub cost: Option<Amount>,
    /// Approval, in place of the server's.
    pub approval: Option<Approval>,
    /// Scripts that may call them, by wire name; `None` for all callers. Every rule for a tool counts.
    pub only_from: Option<BTreeSet<String>>,
}

impl ToolRule {
    /// The setting `of` each rule of a server, by tool.
    pub fn by_tool<T>(rules: &[Self], of: impl Fn(&Self) -> Option<T>) -> PerTool<T> {
        let named = rules.iter().flat_map(|rule| rule.tools.entries().iter().map(move |name| (name.as_str(), rule)));
        PerTool::new(named.filter_map(|(name, rule)| Some((name, of(rule)?))))
    }
}

/// A table of budgets: `[budgets]` for all, or those of a profile or client. `None` means no budget.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budgets {
    /// Rate limit of all calls.
    pub rate: Option<Rate>,
    /// Per script, or per request of the client.
    pub run: Option<Amount>,
    /// Per session.
    pub session: Option<Amount>,
    /// Per UTC day, shared by all gateways with this configuration file.
    pub day: Option<Amount>,
    /// Folder of the day's record; set with a budget of the day.
    pub folder: Option<PathBuf>,
}

/// Parses a table of budgets.
pub(super) fn budgets(key: &Key<'_>, raw: RawBudgets) -> Result<Budgets, ConfigError> {
    // Zero would be a budget that forbids everything.
    let amount = |name: &str, given| key.key(name).amount(given, Amount(1)..=Amount::MOST);
    let day = amount("day", raw.day)?;
    let folder = key.state_folder().filter(|_| day.is_some());
    if day.is_some() && folder.is_none() {
        let error = key.key("day").at_value("there is no folder to keep what was spent in");
        return Err(error.with_hint("set HOME or XDG_STATE_HOME"));
    }
    let rate = rate(key, raw.rate)?;
    Ok(Budgets { rate, run: amount("run", raw.run)?, session: amount("session", raw.session)?, day, folder })
}

/// Price of calls, of a server or of some of its tools; may be zero.
pub(super) fn cost(key: &Key<'_>, raw: Option<f64>) -> Result<Option<Amount>, ConfigError> {
    key.key("cost").amount(raw, Amount::ZERO..=Amount(1_000_000 * MICROS))
}

/// Rate limit, of a server, of some of its tools or of a table of budgets.
pub(super) fn rate(key: &Key<'_>, raw: Option<RawRate>) -> Result<Option<Rate>, ConfigError> {
    const MOST: u32 = 1_000_000;
    let (Some(RawRate { calls, per, burst }), key) = (raw, key.key("rate")) else { return Ok(None) };
    let Some(calls) = key.key("calls").count(calls, 1..=MOST)? else {
        return Err(key.at_value("has no `calls`").with_hint("write it like { calls = 60, per = \"1m\" }"));
    };
    let per = key.key("per").duration(per, 10 * MILLI..=DAY)?.unwrap_or(MINUTE);
    let burst = key.key("burst").count(burst, 1..=MOST)?.unwrap_or(calls);
    Ok(Some(Rate { calls, per, burst }))
}

/// Parses the rules of one entry of `[servers.<name>.tools]`.
pub(super) fn tool(key: &Key<'_>, raw: RawTool) -> Result<ToolRule, ConfigError> {
    Ok(ToolRule {
        tools: Patterns::key(key)?,
        rate: rate(key, raw.rate)?,
        cost: cost(key, raw.cost)?,
        approval: key.key("approval").word(raw.approval)?,
        only_from: key.given("only_from", raw.only_from, scripts::only_from)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_read_as_they_are_written() {
        for (number, text) in
            [(0.0, "0"), (1.0, "1"), (0.1, "0.1"), (2.25, "2.25"), (0.000_001, "0.000001"), (1e9, "1000000000")]
        {
            assert_eq!(Amount::read(number).map(|amount| amount.to_string()).as_deref(), Some(text));
        }
        for number in [-1.0, -0.000_001, 1e-7, 0.123_456_78, 1.1e9, f64::NAN, f64::INFINITY] {
            assert_eq!(Amount::read(number), None, "{number}");
        }
        let tenth = Amount::read(0.1).expect("an amount");
        assert_eq!((0..10).fold(Amount::ZERO, |sum, _| sum.plus(tenth)), Amount::ONE);
    }
}
