//! How often servers may be called, what calls cost, and what may be spent: `rate`, `cost`, `tools` of a server, and
//! `[budgets]`.

use std::collections::BTreeMap;
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
use super::{Approval, policy};

/// What a call costs, or may be spent, in whatever unit the operator counts: millionths of it, so that sums are exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Amount(u64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// What a call costs where nothing else is said.
    pub const ONE: Self = Self(MICROS);
    /// The largest that can be written.
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

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// As a number, for who adds nothing to it.
    #[must_use]
    pub fn number(self) -> f64 {
        self.0 as f64 / MICROS as f64
    }

    /// Together; the largest amount there is where that is too much.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left of it; nothing where it is less.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `None` for what is negative, no number, too much, or has more than six decimals.
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

/// How often something may be called: at most `burst` at once, and `calls` in each `per` in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls that become possible again in `per`, evenly.
    pub calls: u32,
    /// That time.
    pub per: Duration,
    /// Calls that are possible at once after a pause.
    pub burst: u32,
}

/// One `[servers.<name>.tools.<pattern>]` entry: what holds for some tools of a server only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRule {
    /// Which tools, one name or pattern.
    pub tools: Patterns,
    /// How often they may be called, all of them together.
    pub rate: Option<Rate>,
    /// What one call costs, in place of what the server's entry says.
    pub cost: Option<Amount>,
    /// When the user is asked, in place of what the server's entry says.
    pub approval: Option<Approval>,
}

impl ToolRule {
    /// What `of` finds in the rules of a server, by tool.
    pub fn by_tool<T>(rules: &[Self], of: impl Fn(&Self) -> Option<T>) -> PerTool<T> {
        let named = rules.iter().flat_map(|rule| rule.tools.entries().iter().map(move |name| (name.as_str(), rule)));
        PerTool::new(named.filter_map(|(name, rule)| Some((name, of(rule)?))))
    }
}

/// What may be spent: the `[budgets]` table. `None` is no budget at all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budgets {
    /// By one script, or one request of the client.
    pub run: Option<Amount>,
    /// By one session.
    pub session: Option<Amount>,
    /// In one day, midnight to midnight UTC, by all gateways with this configuration file.
    pub day: Option<Amount>,
    /// Folder where what was spent today is kept; there is one when there is a budget of the day.
    pub folder: Option<PathBuf>,
}

pub(super) fn budgets(values: Values<'_>, raw: RawBudgets) -> Result<Budgets, ConfigError> {
    let key = KeyPath::root("budgets");
    // The least that can be written: zero would be a budget that forbids everything.
    let range = Amount(1)..=Amount::MOST;
    let day = values.amount(&key.key("day"), raw.day, range.clone())?;
    let folder = values.own_folder("XDG_STATE_HOME", ".local/state").filter(|_| day.is_some());
    if day.is_some() && folder.is_none() {
        let error = values.document.at_value(&key.key("day"), "there is no folder to keep what was spent in");
        return Err(error.with_hint("set HOME or XDG_STATE_HOME"));
    }
    Ok(Budgets {
        run: values.amount(&key.key("run"), raw.run, range.clone())?,
        session: values.amount(&key.key("session"), raw.session, range)?,
        day,
        folder,
    })
}

/// What the calls of a server cost. Nothing, if the file says 0.
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

/// The rules of `[servers.<name>.tools]`.
pub(super) fn tools(
    values: &Values<'_>,
    key: &KeyPath,
    raw: BTreeMap<String, RawTool>,
) -> Result<Vec<ToolRule>, ConfigError> {
    let rule = |(name, raw): (String, RawTool)| {
        let key = key.key(&name);
        Ok(ToolRule {
            tools: Patterns::key(values, &key, name)?,
            rate: rate(values, &key.key("rate"), raw.rate)?,
            cost: cost(values, &key.key("cost"), raw.cost)?,
            approval: policy::approval(values, &key, raw.approval)?,
        })
    };
    raw.into_iter().map(rule).collect()
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
