//! A locked script in an attacker's hands: injected arguments, computed names, answers that carry code.

use serde_json::json;

use super::Shelf;
use crate::executable::engines;

/// A script that goes where its arguments say, locked for `bank.list` alone.
const JAVASCRIPT: &str = "// calls: bank.list\n\
    export default async function ({ path, args }: { path: string[]; args: unknown[] }): Promise<unknown> {\n  \
    let it: any = { forge, bank, post, scripts };\n  const last = path.pop() as string;\n  \
    for (const name of path) it = it[name];\n  \
    try { return await it[last](...args); } catch (e) { return (e as any).code ?? `${e}`; }\n}\n";
/// The same by name.
const NAMED: &str = "// calls: bank.list\n\
    export default async function ({ server, tool, args }: { server: string; tool: string; args: Record<string, unknown> }): Promise<unknown> {\n  \
    try { return await forge.callTool(server, tool, args); } catch (e) { return (e as any).code; }\n}\n";
const STARLARK: &str = "# calls: bank.list\n\
    def main(server: str, tool: str, args: dict):\n    \
    outcome = try_call(lambda: call_tool(server, tool, **args))\n    \
    return outcome.value if outcome.ok else outcome.error.code\n";
const OTHER: &str = "export default async function (): Promise<string> { return await bank.pay({ n: 99 }); }\n";

/// Requests that a locked script must not make, as path and arguments.
const REQUESTS: [&str; 15] = [
    r#"{"path": ["bank", "pay"], "args": [{"n": 1}]}"#,
    r#"{"path": ["forge", "callTool"], "args": ["bank", "pay", {"n": 1}]}"#,
    r#"{"path": ["post", "note"], "args": [{"text": "x"}]}"#,
    r#"{"path": ["scripts", "other"], "args": [{}]}"#,
    r#"{"path": ["forge", "callTool"], "args": ["scripts", "other", {}]}"#,
    r#"{"path": ["forge", "callTool"], "args": ["scripts", "any", {"path": ["bank", "pay"], "args": [{"n": 1}]}]}"#,
    r#"{"path": ["forge", "stash", "put"], "args": ["key", 1]}"#,
    r#"{"path": ["forge", "stash", "get"], "args": ["key"]}"#,
    r#"{"path": ["forge", "stash", "keys"], "args": []}"#,
    r#"{"path": ["forge", "runs", "list"], "args": []}"#,
    r#"{"path": ["forge", "results", "list"], "args": []}"#,
    r#"{"path": ["forge", "search"], "args": ["pay"]}"#,
    r#"{"path": ["forge", "cat"], "args": ["/bank/pay.pyi"]}"#,
    r#"{"path": ["forge", "readResource"], "args": ["bank", "bank://all"]}"#,
    r#"{"path": ["forge", "prompt"], "args": ["bank", "any", {}]}"#,
];

#[test]
fn a_locked_script_does_nothing_that_its_lock_does_not_have() {
    let files = [("any.ts", JAVASCRIPT), ("named.ts", NAMED), ("named_star.star", STARLARK), ("other.ts", OTHER)];
    let Some(shelf) = Shelf::new(&files, "") else { return };
    for engine in engines() {
        let run = |code: &str| {
            let answer = shelf.bank.json(&["--engine", engine], code);
            assert_eq!(answer["ok"], json!(true), "{answer}");
            answer["value"].clone()
        };
        for request in REQUESTS {
            let value = run(&format!("return await scripts.any({request})"));
            // A server without resources or prompts refuses earlier.
            let is_offered = !request.contains("readResource") && !request.contains("prompt");
            assert!(value == json!("TOOL_DENIED") || !is_offered, "{engine}: {request}: {value}");
        }
        let listed = run(r#"return await scripts.any({"path": ["bank", "list"], "args": [{}]})"#);
        assert_eq!(listed, json!([]), "{engine}");
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
