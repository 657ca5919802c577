//! Any bytes as a script: refused with a position, or wrapped so that nothing escapes the wrapper, and then accepted by
//! the engine.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(code) = forgefs_worker::fuzzing::validator(data) else { return };
    // A scope of QuickJS takes ten times as long as all the rest. Known difference: QuickJS wants a `;` where a line
    // ends with U+2028 or U+2029.
    if data.len() % 8 == 0
        && !code.contains(['\u{2028}', '\u{2029}'])
        && let Err(error) = forgefs_worker::fuzzing::quickjs_compiles(&code)
    {
        panic!("QuickJS refuses what the static layer takes: {error}\n{code}");
    }
});
