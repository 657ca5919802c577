//! Any bytes as frames of either side, and as what a worker says in a run: refused, or lawful and within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs::sandbox::fuzzing::frames(data));
