//! Any bytes as a tool list: a catalog and its files within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_catalog::fuzzing::definitions(data));
