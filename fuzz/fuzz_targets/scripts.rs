//! Any bytes as TypeScript that unfolds: made ready within the published bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs::fuzzing::scripts(data));
