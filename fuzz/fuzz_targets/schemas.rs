//! Any bytes as a schema and arguments: checked within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_run::broker::fuzzing::schemas(data));
