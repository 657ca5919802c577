//! Any bytes as foreign text for people: within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_catalog::people::fuzzing::shown(data));
