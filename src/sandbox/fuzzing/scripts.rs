//! Fuzz target: TypeScript that expands: enums that double, namespaces, decorators, types.

use wire::Language;

use super::super::validate::prepare;
use crate::fuzzing::{CHURN, Input, spent, warmed};
use crate::limits;

/// Longest generated script.
const MAX_BYTES: usize = 32 << 10;

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
];

/// Checks that a script is refused in few words, or prepared in linear memory.
pub fn scripts(data: &[u8]) {
    warmed(check_scripts, data);
}

fn check_scripts(data: &[u8]) {
    let script = Input::new(data).text(LINES, MAX_BYTES);
    let (prepared, memory) = spent(|| prepare(Language::Javascript, &script, MAX_BYTES));
    limits::SCRIPT_MEMORY.holds(script.len(), memory.peak, &script);
    limits::SCRIPT_MEMORY.holds(script.len(), memory.total / CHURN, &script);
    match prepared {
        Ok(ready) => assert!(ready.code.len() <= MAX_BYTES + 100, "{} for {script:?}", ready.code.len()),
        Err(error) => assert!(error.message.len() < 1_000, "{}", error.message),
    }
}
