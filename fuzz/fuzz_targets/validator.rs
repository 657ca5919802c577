//! Any bytes as a script: refused with a place in it, or wrapped so that nothing gets out of the wrapper.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forgefs::sandbox::fuzzing::validator(data));
