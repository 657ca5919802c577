//! Any bytes as a glob and a path: matched within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_catalog::fuzzing::patterns(data));
