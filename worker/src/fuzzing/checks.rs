//! Any text as a script for the checker, and TypeScript that unfolds.

use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use wire::{Check, Facts, Language, Module, ScriptError};

use super::Choices;
use crate::check::{check, is_wrapped};

/// Longest script that is made.
const MAX_BYTES: usize = 32 << 10;
/// Pieces of one script: type arguments that stay open take quadratic time, which the gateway's deadline ends.
const MAX_PIECES: usize = 600;
/// Levels of a syntax tree.
const MAX_LEVELS: usize = 500;
/// Processor time far beyond what a script of this size may take, sanitizer included.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Stack on which the deepest script that is made can be parsed in any build. A checker has less, and dies of it.
const STACK: usize = 2 << 30;
/// Bytes that parsing may allocate altogether, for each that it may have at once.
#[cfg(test)]
const CHURN: usize = 20;

/// Pieces that scripts are made of where the bytes are no text.
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

/// Lines of TypeScript that unfold: enums that double, namespaces, decorators, types.
const LINES: &[&str] = &[
    "enum E { A = 'xxxxxxxx', B = A + A, C = B + B, D = C + C, F = D + D, G = F + F, H = G + G, I = H + H }\n",
    "enum E { J = `${E.I}${E.I}`, K = J + E['J'] + J, L = (K + K) + (K + K) }\n",
    "const enum C { A = 1 << 30, B = A * 1e300, D = `${B}${B}${B}` }\n",
    "enum Z { A = Z.B, B = Z.A, 'a b' = 1, c }\n",
    "namespace N { export const a = 1; export namespace M { export enum E { A = 'y' } } }\n",
    "type T<A> = A extends [infer B, ...infer C] ? T<C> : never;\n",
    "interface I { a: string; b(): void }\n",
    "class P { constructor(private readonly a: number, public b = 'x') {} }\n",
    "abstract class A<T> { abstract a: T; declare b: number; @d c = 1 }\n",
    "const x = <T,>(a: T) => a satisfies T as unknown as T;\n",
    "let v: Array<Array<Array<number>>> = [];\n",
    "let f = a < b > (c);\n",
    "((((((((((1))))))))));\n",
    "`${`${`${1}`}`}`;\n",
    "a?.b!.c as any;\n",
    "/(a|b)*[^]{1,9}/v.test(x);\n",
    "return 1\n",
    "else ",
    "x => ",
    "[",
    "{",
    "}",
    "]",
    "(",
    ")",
    "<",
    ">",
    "!",
    "-",
    "'",
    "`",
    "\\u{61}",
    "// ",
    "/*",
    "\u{2028}",
    "\u{0}",
    "\u{202e}",
    "😀",
    "\r\n",
];

/// `data` is a script, or says which pieces make one: it is refused with a place in it, or becomes a module of one
/// function whose positions lead back into it. Answers the module, if there is any.
pub fn validator(data: &[u8]) -> Option<String> {
    let (first, rest) = data.split_first()?;
    let script = match first % 4 {
        0 => String::from_utf8_lossy(&rest[..rest.len().min(MAX_BYTES)]).into_owned(),
        _ => rest.iter().take(MAX_PIECES).map(|byte| PIECES[usize::from(*byte) % PIECES.len()]).collect(),
    };
    on_a_large_stack(|| judged(&script, parsed(&script)))
}

/// A script of lines that unfold, repeated: it is refused in few words or checked in linear memory, whatever of it is
/// folded or unfolded.
pub fn scripts(data: &[u8]) {
    let script = repeated(&mut Choices(data));
    on_a_large_stack(|| judged(&script, within_memory(&script)));
}

#[cfg(not(test))]
fn within_memory(script: &str) -> Result<Facts, ScriptError> {
    parsed(script)
}

/// Counts what parsing takes, after small scripts for which is made whatever is made once a process.
#[cfg(test)]
fn within_memory(script: &str) -> Result<Facts, ScriptError> {
    let _ = (parsed("enum E { A = 1 }"), parsed("1 +"));
    let (result, spent) = inputs::spent(|| parsed(script));
    let (each, besides) = wire::PARSING_MEMORY;
    let most = script.len() * each + besides;
    assert!(spent.peak <= most, "{} bytes at once, {most} allowed: {script:?}", spent.peak);
    assert!(spent.total / CHURN <= most, "{} bytes, {most} allowed at once: {script:?}", spent.total);
    result
}

/// A few of [`LINES`], each alone or repeated.
fn repeated(choices: &mut Choices<'_>) -> String {
    let mut script = String::new();
    for _ in 0..=choices.next() % 6 {
        let line = choices.of(LINES);
        let room = (MAX_BYTES - script.len()) / line.len();
        let times = match choices.next() % 4 {
            0 | 1 => 1,
            2 => 1 + choices.next(),
            _ => room,
        };
        script.push_str(&line.repeat(times.min(room)));
    }
    script
}

fn on_a_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).expect("a thread starts");
        parser.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn parsed(script: &str) -> Result<Facts, ScriptError> {
    parsed_as(Language::Javascript, script)
}

fn parsed_as(language: Language, script: &str) -> Result<Facts, ScriptError> {
    let asked = Check {
        check: 1,
        language,
        code: script.to_owned(),
        max_bytes: MAX_BYTES,
        max_levels: MAX_LEVELS,
        signature: false,
        parts: true,
    };
    let started = cpu_time();
    let result = check(&asked);
    let took = cpu_time() - started;
    assert!(took < MAX_TIME, "{took:?} for {script:?}");
    result
}

/// Processor time of this thread: whatever else the machine does.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock").into()
}

fn judged(script: &str, result: Result<Facts, ScriptError>) -> Option<String> {
    let place = |line: u32, column: u32| {
        let text = script.split('\n').nth(line as usize - 1).expect("the line is one of the script");
        assert!(column > 0 && column as usize <= text.encode_utf16().count() + 1, "column {column} in {text:?}");
    };
    match result {
        Err(error) => {
            assert!(!error.message.is_empty() && error.message.len() < 1000, "{}", error.message);
            assert!(error.line > 0, "no place: {} in {script:?}", error.message);
            place(error.line, error.column);
            None
        }
        Ok(mut facts) => {
            let mut outline = std::mem::take(&mut facts.outline);
            let stripped = facts.stripped.as_ref().map_or(0, |stripped| stripped.code.len());
            outline.judge(script.len().max(stripped)).unwrap_or_else(|why| panic!("{why}: {script:?}"));
            let module = Module::new(script, facts).unwrap_or_else(|why| panic!("{why}: {script:?}"));
            assert!(module.code.len() <= MAX_BYTES + 100, "{} for {script:?}", module.code.len());
            assert!(is_wrapped(&module.code), "{}", module.code);
            for at in outline.places() {
                let (line, column) = module.original(at.0, at.1);
                place(line, column);
            }
            for (at, text) in module.code.split('\n').enumerate().skip(1) {
                for column in [1, text.encode_utf16().count() / 2 + 1, text.encode_utf16().count() + 1] {
                    let (line, column) = module.original(at as u32 + 1, column as u32);
                    place(line, column);
                }
            }
            Some(module.code)
        }
    }
}
