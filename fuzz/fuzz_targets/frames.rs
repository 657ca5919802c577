//! Any bytes as frames of either side, and as a worker's frames in a run: refused, or valid and within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs_run::sandbox::fuzzing::frames(data));
