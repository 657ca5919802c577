//! Any bytes as TypeScript that expands: prepared within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_worker::fuzzing::scripts(data));
