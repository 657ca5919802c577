//! Any bytes as JSON: through every engine it keeps its value, or meets a named limit.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_worker::fuzzing::json_converters(data));
