//! Fuzz targets of the host side, and their property tests.
//!
//! Only built for tests and with the feature `fuzzing`: a conversation with a worker is internal. Each
//! function takes any input and panics when an invariant does not hold.

mod frames;

pub use frames::frames;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn frames_of_a_hostile_worker_are_refused_or_counted(data in vec(any::<u8>(), 0..400)) {
            super::frames(&data);
        }
    }
}
