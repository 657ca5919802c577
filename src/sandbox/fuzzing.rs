//! Fuzz targets of the host side, and their property tests.
//!
//! Built only for tests and with the feature `fuzzing`, since a conversation with a worker and the inner bounds of the
//! static layer are private. Each function takes any input and panics when an invariant does not hold.

mod frames;
mod scripts;
mod validator;

pub use frames::frames;
pub use scripts::scripts;
pub use validator::validator;

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

        #[test]
        fn any_bytes_as_a_script_are_refused_with_a_place_or_wrapped(data in vec(any::<u8>(), 0..200)) {
            super::validator(&data);
        }
    }
}
