//! Fuzz targets of the gateway, and their property tests: for any input of n bytes, steps are at most a·n + b and
//! memory c·n + d, by the table of `src/base/limits/bounds.rs`.
//!
//! Built only for tests and with the feature `fuzzing`. Each target takes any bytes and panics when a bound does not
//! hold. A check stands beside the code that it checks; here are the generators of inputs and the memory counter.

mod input;
mod memory;

use std::cell::{Cell, RefCell};

pub(crate) use input::Input;
pub(crate) use memory::spent;

pub use crate::catalog::fuzzing::{definitions, patterns, queries};
pub use crate::catalog::people::fuzzing::shown;
pub use crate::run::broker::fuzzing::{answers, schemas};

/// Total allocation per byte of peak memory: without metered steps, this grows when work is repeated.
pub(crate) const CHURN: usize = 20;

thread_local! {
    static IS_COLD: Cell<bool> = const { Cell::new(false) };
    static WARM: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// True while one-time initialisation may run, so that memory is not checked.
pub(crate) fn is_cold() -> bool {
    IS_COLD.get()
}

/// Checks an input, after a few small ones that trigger one-time initialisation.
pub(crate) fn warmed(check: Target, data: &[u8]) {
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

/// Every target by name: a property test below, and a file of fuzz/.
pub const TARGETS: &[(&str, Target)] = &[
    ("answers", answers),
    ("definitions", definitions),
    ("patterns", patterns),
    ("queries", queries),
    ("schemas", schemas),
    ("shown", shown),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn config() -> ProptestConfig {
        ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() }
    }

    /// `PROPTEST_CASES` sets the number.
    fn cases() -> u32 {
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48)
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn answers_take_linear_memory(data in vec(any::<u8>(), 0..300)) {
            answers(&data);
        }

        #[test]
        fn definitions_give_stubs_of_linear_size(data in vec(any::<u8>(), 0..300)) {
            definitions(&data);
        }

        #[test]
        fn patterns_take_linear_steps(data in vec(any::<u8>(), 0..100)) {
            patterns(&data);
        }

        #[test]
        fn queries_take_linear_steps(data in vec(any::<u8>(), 0..100)) {
            queries(&data);
        }

        #[test]
        fn schemas_take_linear_steps_and_memory(data in vec(any::<u8>(), 0..400)) {
            schemas(&data);
        }

        #[test]
        fn what_is_shown_is_of_linear_size(data in vec(any::<u8>(), 0..200)) {
            shown(&data);
        }
    }

    /// cargo-fuzz has its own toolchain, so no test builds its targets: each is one line that a test reads.
    #[test]
    fn every_target_is_a_file_of_fuzz_and_a_property() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let (manifest, readme) = (read("fuzz/Cargo.toml"), read("fuzz/README.md"));
        for (name, _) in TARGETS {
            let target = read(&format!("fuzz/fuzz_targets/{name}.rs"));
            assert!(target.contains(&format!("fuzz_target!(|data: &[u8]| forgefs::fuzzing::{name}(data));")), "{name}");
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
            assert!(readme.contains(&format!("`{name}`")), "{name}");
            assert!(read("src/fuzzing.rs").contains(&format!("{name}(&data);")), "{name} is no property");
        }
    }
}
