//! Any bytes as foreign text that people are shown: within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs::fuzzing::shown(data));
