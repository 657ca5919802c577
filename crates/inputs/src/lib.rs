//! Troublesome inputs for the fuzz targets and property tests, and the memory that work on them takes.
//!
//! For any input of n bytes, steps are at most a·n + b and memory c·n + d, by the table of `base::limits`. A target takes
//! any bytes and panics when a bound does not hold; it stands beside the code that it checks, and is built only for tests
//! and with the feature `fuzzing` of its crate.

mod input;
mod memory;

use std::cell::{Cell, RefCell};

use base::limits::{Bound, Counted};
use proptest::test_runner::Config as ProptestConfig;

pub use input::Input;
pub use memory::{Spent, spent};

/// Total allocation per byte of peak memory: without metered steps, this grows when work is repeated.
pub const CHURN: usize = 20;

thread_local! {
    static IS_COLD: Cell<bool> = const { Cell::new(false) };
    static WARM: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// True while one-time initialisation may run, so that memory is not checked.
pub fn is_cold() -> bool {
    IS_COLD.get()
}

/// Checks an input, after a few small ones that trigger one-time initialisation.
pub fn warmed(check: Target, data: &[u8]) {
    let is_new = WARM.with_borrow_mut(|warm| {
        let is_new = !warm.contains(&(check as usize));
        warm.extend(is_new.then_some(check as usize));
        is_new
    });
    if is_new {
        IS_COLD.set(true);
        (0..8).for_each(|first| check(&[first; 12]));
        IS_COLD.set(false);
    }
    check(data);
}

/// Checks one input.
pub type Target = fn(&[u8]);

/// Panics when the work on an input of `bytes` took more than its bound.
pub fn holds(bound: &Bound, bytes: usize, took: usize, input: &dyn std::fmt::Debug) {
    let most = bound.of(bytes);
    let Bound { work, counted, .. } = bound;
    if *counted == Counted::Memory && is_cold() {
        return;
    }
    if took > most {
        let input = format!("{input:?}");
        let input = base::text::head(&input, 20_000);
        panic!("{work}: {took} {counted:?} for {bytes} bytes, over {most}: {input}");
    }
}

/// Settings of a property that checks a target: `PROPTEST_CASES` sets the number of cases.
#[must_use]
pub fn property() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
