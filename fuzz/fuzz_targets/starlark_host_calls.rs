//! Any bytes as a Starlark script that calls the host: it ends within its limits and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_worker::fuzzing::starlark_host_calls(data));
