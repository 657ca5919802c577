//! Any bytes as an answer of a server: parsed, redacted and rendered within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_run::broker::fuzzing::answers(data));
