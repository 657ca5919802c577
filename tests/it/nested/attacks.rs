//! A locked script in an attacker's hands: injected arguments, computed names, answers that carry code.

use serde_json::json;

use super::Shelf;

/// A script that does what its arguments say, locked for `bank.list` alone.
const JAVASCRIPT: &str = "// calls: bank.list\n\
    export default async function ({ code }: { code: string }): Promise<unknown> {\n  \
    const AsyncFunction = (async () => {}).constructor as any;\n  \
    try { return await new AsyncFunction('forge', 'bank', 'post', 'scripts', code)(forge, bank, post, scripts); }\n  \
    catch (e) { return `${(e as any).code}`; }\n}\n";
/// The same where code cannot be made of text: the attacker has the names.
const NAMED: &str = "// calls: bank.list\n\
    export default async function ({ server, tool, args }: { server: string; tool: string; args: Record<string, unknown> }): Promise<unknown> {\n  \
    try { return await forge.callTool(server, tool, args); } catch (e) { return (e as any).code; }\n}\n";
const STARLARK: &str = "# calls: bank.list\n\
    def main(server: str, tool: str, args: dict) -> object:\n    \
    outcome = forge.parallel([lambda: forge.call_tool(server, tool, args)])\n    \
    errors = outcome.errors\n    \
    return errors[0].code if errors else outcome.results[0]\n";
const OTHER: &str = "export default async function (): Promise<string> { return await bank.pay({ n: 99 }); }\n";

/// Requests that a locked script must not make, as its code.
const REQUESTS: [&str; 15] = [
    "return await bank.pay({ n: 1 })",
    "return await bank['p' + 'ay']({ n: 1 })",
    "return await forge.callTool('bank', 'pay', { n: 1 })",
    "return await forge.callTool('BANK', 'pay', { n: 1 })",
    "return await forge.server('bank').pay({ n: 1 })",
    "return await post.note({ text: 'x' })",
    "return await scripts.other({})",
    "return await forge.callTool('scripts', 'other', {})",
    "return await forge.readResource('bank', 'bank://all')",
    "return await forge.prompt('bank', 'any', {})",
    "return await forge.stash.put('key', 1)",
    "return await forge.stash.get('key')",
    "return await forge.runs.list()",
    "return await forge.results.list()",
    "return await forge.search('pay')",
];

#[test]
fn a_locked_script_does_nothing_that_its_lock_does_not_have() {
    let files = [("any.ts", JAVASCRIPT), ("named.ts", NAMED), ("named_star.star", STARLARK), ("other.ts", OTHER)];
    let Some(shelf) = Shelf::new(&files, "") else { return };
    let engines: &[&str] = if cfg!(feature = "v8") { &["quickjs", "v8"] } else { &["quickjs"] };
    for engine in engines {
        let run = |code: &str| {
            let answer = shelf.bank.json(&["--engine", engine], code);
            assert_eq!(answer["ok"], json!(true), "{answer}");
            answer["value"].clone()
        };
        for code in REQUESTS {
            let value = run(&format!("return await scripts.any({})", json!({ "code": code })));
            // An engine without `eval` refuses earlier.
            assert!(value == json!("TOOL_DENIED") || value == json!("undefined"), "{engine}: {code}: {value}");
        }
        for script in ["named", "named_star"] {
            for (server, tool, expected) in [
                ("bank", "list", json!([])),
                ("bank", "pay", json!("TOOL_DENIED")),
                ("post", "note", json!("TOOL_DENIED")),
                ("scripts", "other", json!("TOOL_DENIED")),
                ("scripts", script, json!("TOOL_DENIED")),
            ] {
                let args = json!({ "server": server, "tool": tool, "args": if tool == "pay" { json!({ "n": 1 }) } else { json!({}) } });
                let value = run(&format!("return await scripts.{script}({args})"));
                let is_refused = value == json!("INVALID_ARGS") && expected == json!("TOOL_DENIED");
                assert!(value == expected || is_refused, "{engine}: {script}: {server}.{tool}: {value}");
            }
        }
    }
    assert_eq!(shelf.bank.paid(), [0_u64; 0]);
}
