//! Rate limits, prices and budgets: `rate`, `cost`, `tools` of a server, and `[budgets]`.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::document::KeyPath;
use super::error::ConfigError;
use super::patterns::{Patterns, PerTool};
use super::raw::{Number, RawBudgets, RawRate, RawTool};
use super::values::Values;
use super::{Approval, policy, scripts};

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
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// In millionths.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.0
    }

    /// True for zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// As a float, for display.
    #[must_use]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
pub(super) fn budgets(values: Values<'_>, key: &KeyPath, raw: RawBudgets) -> Result<Budgets, ConfigError> {
    // Zero would be a budget that forbids everything.
    let range = Amount(1)..=Amount::MOST;
    let day = values.amount(&key.key("day"), raw.day, range.clone())?;
    let folder = values.own_folder("XDG_STATE_HOME", ".local/state").filter(|_| day.is_some());
    if day.is_some() && folder.is_none() {
        let error = values.document.at_value(&key.key("day"), "there is no folder to keep what was spent in");
        return Err(error.with_hint("set HOME or XDG_STATE_HOME"));
    }
    Ok(Budgets {
        rate: rate(&values, &key.key("rate"), raw.rate)?,
        run: values.amount(&key.key("run"), raw.run, range.clone())?,
        session: values.amount(&key.key("session"), raw.session, range)?,
        day,
        folder,
    })
}

/// Price of a server's calls; may be zero.
pub(super) fn cost(values: &Values<'_>, key: &KeyPath, raw: Option<Number>) -> Result<Option<Amount>, ConfigError> {
    values.amount(key, raw, Amount::ZERO..=Amount(1_000_000 * MICROS))
}

pub(super) fn rate(values: &Values<'_>, key: &KeyPath, raw: Option<RawRate>) -> Result<Option<Rate>, ConfigError> {
    const MINUTE: Duration = Duration::from_secs(60);
    const PER: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(86_400);
    let Some(raw) = raw else { return Ok(None) };
    if raw.calls.is_none() {
        let error = values.document.at_value(key, "has no `calls`");
        return Err(error.with_hint("write it like { calls = 60, per = \"1m\" }"));
    }
    let calls = values.count(&key.key("calls"), raw.calls, 1, 1..=1_000_000)?;
    let per = values.duration(&key.key("per"), raw.per, MINUTE, PER)?;
    let burst = values.count(&key.key("burst"), raw.burst, calls, 1..=1_000_000)?;
    Ok(Some(Rate { calls, per, burst }))
}

/// Parses the rules of one entry of `[servers.<name>.tools]`.
pub(super) fn tool(values: &Values<'_>, key: &KeyPath, tools: &str, raw: RawTool) -> Result<ToolRule, ConfigError> {
    Ok(ToolRule {
        tools: Patterns::key(values, key, tools.to_owned())?,
        rate: rate(values, &key.key("rate"), raw.rate)?,
        cost: cost(values, &key.key("cost"), raw.cost)?,
        approval: policy::approval(values, key, raw.approval)?,
        only_from: scripts::only_from(values, &key.key("only_from"), raw.only_from)?,
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
