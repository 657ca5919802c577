//! Fuzz target: any text as a script.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use wire::Language;

use super::super::validate::{fuzzing::Tree, prepare};

/// Longest generated script.
const MAX_BYTES: usize = 64 << 10;
/// CPU time far beyond any script of this size, sanitizer included.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Levels of the tree that one token can open: a statement, its expression, a chain, a member, a call, an argument.
const LEVELS_PER_TOKEN: usize = 8;

/// Fragments of scripts, for bytes that are not text.
#[rustfmt::skip]
const PIECES: [&str; 128] = [
    "a", "b", "x", "1", "0.5", "\"s\"", "'t'", "`u`", "`${", "}`", "/re/g", "/(?<n>a)[/]/v", "/", "//", "/*", "*/",
    "\n", "\r\n", "\u{2028}", "\u{2029}", "\u{feff}", "#!", "<!--", "-->", " ", ";", ",", ".", "?.", "...", "(", ")",
    "[", "]", "{", "}", "=>", "=", "==", "===", "!", "!=", "+", "++", "-", "--", "*", "**", "%", "&&", "||", "??",
    "?", ":", "<", ">", "<<", ">>>", "~", "^", "|", "@", "#p", "\\u0061", "async ", "await ", "function ",
    "function*", "return ", "yield ", "class ", "extends ", "super", "new ", "new.target", "this", "arguments",
    "eval", "Function", "globalThis", "import(", "import ", "import.meta", "export ", "export default ", "from 'm'",
    "let ", "const ", "var ", "if(", "else ", "for(", "of ", "in ", "while(", "do ", "switch(", "case ", "default:",
    "break ", "continue ", "try{", "catch{", "finally{", "throw ", "typeof ", "delete ", "void ", "instanceof ",
    "with(", "\"use strict\"", "static ", "get ", "set ", "interface ", "type ", "enum ", "namespace ", "declare ",
    "abstract ", "as ", "satisfies ", "readonly ", "keyof ", ": any", "<T>", "private ", "constructor",
];

/// Treats `data` as a script, or as indexes of fragments. Returns the code for the worker, if any.
pub fn validator(data: &[u8]) -> Option<String> {
    let (first, rest) = data.split_first()?;
    let script = match first % 4 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        _ => rest.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]).collect(),
    };
    prepared(&script)
}

/// CPU time of this thread, independent of the machine's load.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock").into()
}

fn prepared(script: &str) -> Option<String> {
    let started = cpu_time();
    let prepared = prepare(Language::Javascript, script, MAX_BYTES);
    let took = cpu_time() - started;
    assert!(took < MAX_TIME, "{took:?} for {script:?}");
    let place = |line: u32, column: u32| {
        let text = script.split('\n').nth(line as usize - 1).expect("the line is one of the script");
        assert!(column > 0 && column as usize <= text.encode_utf16().count() + 1, "column {column} in {text:?}");
    };
    match prepared {
        Err(error) => {
            assert!(!error.message.is_empty() && error.message.len() < 1000, "{}", error.message);
            assert!(!error.message.contains("panicked"), "{} in {script:?}", error.message);
            let is_whole = script.trim().is_empty() || script.len() > MAX_BYTES;
            assert!(is_whole || error.line > 0, "no place: {} in {script:?}", error.message);
            if error.line > 0 {
                place(error.line, error.column);
            }
            None
        }
        Ok(prepared) => {
            let tree = Tree::of(&prepared.code);
            assert!(tree.is_one_function, "{}", prepared.code);
            assert!(tree.depth <= LEVELS_PER_TOKEN * (tree.bound + 3), "depth {tree:?} in {}", prepared.code);
            for (at, text) in prepared.code.split('\n').enumerate().skip(1) {
                for column in [1, text.encode_utf16().count() / 2 + 1, text.encode_utf16().count() + 1] {
                    let (line, column) = prepared.original(at as u32 + 1, column as u32);
                    place(line, column);
                }
            }
            Some(prepared.code)
        }
    }
}
