//! `forgefs scripts list`, `lock` and `check`: what a lock has, what is refused, and what differs from it.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Fence, Output};
use crate::faulty::samples;

/// Tool lists of two servers; nothing behind them.
fn tools() -> Value {
    let reads = json!({"readOnlyHint": true});
    let object = json!({"type": "object"});
    let refund = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "additionalProperties": false,
    });
    json!({
        "shop": {"tools": [
            {"name": "list_orders", "annotations": reads, "inputSchema": object},
            {"name": "refund_order", "inputSchema": refund},
        ]},
        "crm": {"tools": [{"name": "find", "annotations": reads, "inputSchema": object}]},
    })
}

const REFUND: &str = "\
// Refunds an order.
export default async function () {
  const found = await crm.find({});
  await forge.stash.put('last', found);
  await forge.readResource('crm', 'crm://note');
  return await shop.refund_order({ id: '1' });
}
";

const ALL: &str = "\
# calls: shop.list_orders
def main():
    for tool in [\"list_orders\"]:
        call_tool(\"shop\", tool)
    ls(\"/\")
    return scripts.refund()
";

/// A folder of two scripts, one of which calls the other.
fn fence() -> Fence {
    let fence = Fence::new();
    fence.write("forge.toml", "[scripts]\npath = \"scripts/\"\n");
    fence.write("tools.json", &tools().to_string());
    fence.write("scripts/refund.js", REFUND);
    fence.write("scripts/billing/all.star", ALL);
    // These are no scripts.
    for ignored in ["scripts/README.md", "scripts/.hidden.js", "scripts/types.d.ts", "scripts/billing/tsconfig.json"] {
        fence.write(ignored, "no code (");
    }
    fence
}

fn scripts(fence: &Fence, args: &[&str]) -> Output {
    let all = ["--config", "forge.toml", "--catalog", "tools.json", "scripts"];
    fence.run(all.iter().chain(args))
}

fn lock(fence: &Fence) -> String {
    fs::read_to_string(fence.work().join("scripts.lock")).unwrap_or_default()
}

#[test]
fn a_lock_lists_what_scripts_may_do_and_is_the_same_bytes_each_time() {
    let fence = fence();
    let listed = scripts(&fence, &["list"]).success();
    assert_eq!(listed.stdout.matches("it is not locked").count(), 2, "{listed:?}");
    let missing = scripts(&fence, &["check"]);
    assert!(missing.code == Some(1) && missing.stdout.contains("there is no scripts.lock"), "{missing:?}");

    let written = scripts(&fence, &["lock"]).success();
    insta::assert_snapshot!("lock_written", written.stdout);
    let text = lock(&fence);
    insta::assert_snapshot!("lock", text);

    let again = scripts(&fence, &["lock"]).success();
    assert_eq!(again.stdout, "scripts.lock is up to date: 2 scripts\n");
    assert_eq!(lock(&fence), text);
    let checked = scripts(&fence, &["check"]).success();
    assert_eq!(checked.stdout, "2 scripts: as scripts.lock says\n");
    assert!(checked.stderr.contains("no tests"), "{checked:?}");
    let listed = scripts(&fence, &["list", "--json"]).success().object();
    assert!(listed["scripts"].as_array().is_some_and(|all| all.iter().all(|one| one["locked"] == true)), "{listed}");
    assert_eq!(listed["scripts"][0]["calls"], json!(["scripts.refund", "shop.list_orders"]));
}

/// Edits of files, and a part of what `check` says of each.
const EDITS: &[(&str, &str, &str, &str)] = &[
    ("scripts/refund.js", "'1'", "'2'", "refund:\n  another text"),
    ("scripts/refund.js", "'1'", "'2'", "billing/all:\n  scripts.refund, which it calls, has another text"),
    ("scripts/refund.js", "crm.find", "shop.list_orders", "may call shop.list_orders"),
    ("scripts/refund.js", "crm.find", "shop.list_orders", "no longer calls crm.find"),
    (
        "scripts/refund.js", "forge.stash.put('last', found)", "forge.search('x')",
        "uses discovery\n  no longer uses stash",
    ),
    (
        "scripts/refund.js",
        "  return",
        "  for (;;) await crm.find({});\n  return",
        "nothing in the text bounds the number",
    ),
    (
        "tools.json",
        "\"required\"",
        "\"description\":\"new\",\"required\"",
        "shop.refund_order, which it calls, has another definition",
    ),
    (
        "tools.json",
        "\"name\":\"find\",\"annotations\":{\"readOnlyHint\":true",
        "\"name\":\"find\",\"annotations\":{\"readOnlyHint\":false",
        "crm.find, which it calls, may write now",
    ),
    ("tools.json", "\"find\"", "\"found\"", "scripts/refund.js:3:23: error: TOOL_NOT_FOUND"),
    ("scripts.lock", "uses = [\n    \"stash\",", "uses = [\n    \"runs\",\n    \"stash\",", "no longer uses runs"),
    ("scripts.lock", "most_calls = 3", "most_calls = 9", "at most 3 calls"),
    ("scripts.lock", "writes = true", "writes = false", "may write now"),
];

#[test]
fn each_difference_between_a_lock_and_what_is_there_is_named() {
    let fence = fence();
    scripts(&fence, &["lock"]).success();
    for (file, from, to, told) in EDITS {
        let path = fence.work().join(file);
        let before = fs::read_to_string(&path).expect("a file");
        let edited = before.replacen(from, to, 1);
        assert_ne!(edited, before, "{from} is not in {file}:\n{before}");
        fs::write(&path, edited).expect("a file");
        let checked = scripts(&fence, &["check"]);
        assert!(checked.code == Some(1) && checked.stdout.contains(told), "{file}, {to}: {told}\n{checked:?}");
        let as_json = scripts(&fence, &["check", "--json"]).object();
        assert_eq!(as_json["passed"], false, "{as_json}");
        fs::write(&path, before).expect("a file");
    }
    scripts(&fence, &["check"]).success();
    fs::remove_file(fence.work().join("scripts/billing/all.star")).expect("a file");
    let gone = scripts(&fence, &["check"]);
    assert!(gone.code == Some(1) && gone.stdout.contains("billing/all:\n  the script is gone"), "{gone:?}");
    fence.write("scripts.lock", &lock(&fence).replace("[scripts.\"refund\"]", "[scripts.\"refund\"]\nmay = true"));
    let broken = scripts(&fence, &["check"]);
    assert!(broken.code == Some(2) && broken.stderr.contains("unknown field `may`"), "{broken:?}");
    assert!(broken.stderr.contains("scripts.lock:"), "{broken:?}");
}

/// A script that cannot be locked, and a part of what is said of it.
const REFUSED: &[(&str, &str, &str)] = &[
    ("bad.js", "await shop.refund_order({})", "scripts/bad.js:1:7: error: INVALID_ARGS"),
    ("bad.js", "await shop.nothing({})", "scripts/bad.js:1:7: error: TOOL_NOT_FOUND"),
    ("bad.js", "await (", "scripts/bad.js:1:8: error:"),
    ("bad.js", " \n", "scripts/bad.js: error: SYNTAX_ERROR: the script is empty"),
    (
        "bad.star",
        "x = [read_resource]\nx[0](\"crm\", \"crm://note\")",
        "bad.star: error: it may call more than its text shows",
    ),
    ("bad.js", "await crm.find({})", "fix: write `export default async function"),
    ("bad.js", "const t = 'find';\nawait crm[t]({})", "bad.js: error: it may call more than its text shows"),
    ("bad.js", "const f = (x) => x;\nf(forge)", "bad.js: error: it may call more than its text shows"),
    ("bad.js", "const k = 'stash';\nforge[k].get('x')", "bad.js: error: it may call more than its text shows"),
    ("bad.js", "const { callTool, ...rest } = forge;\nrest", "bad.js: error: it may call more than its text shows"),
    (
        "bad.js",
        "const t = 'c' + 'rm';\nawait forge.server(t).find({})",
        "bad.js: error: it may call more than its text shows",
    ),
    (
        "bad.js",
        "const { callTool } = forge;\nconst t = 'fi' + 'nd';\nawait callTool('crm', t, {})",
        "bad.js: error: it may call more than its text shows",
    ),
    (
        "bad.js",
        "await forge.callTool.call(null, 'crm', 'find', {})",
        "bad.js: error: it may call more than its text shows",
    ),
    ("bad.js", "const f = (x) => x;\nawait f(crm).find({})", "bad.js: error: it may call more than its text shows"),
    (
        "bad.js",
        "let { callTool: f } = forge;\nf = f;\nawait f('crm', 'find', {})",
        "bad.js: error: it may call more than its text shows",
    ),
    ("bad.js", "await [crm.find][0]({})", "bad.js: error: it may call more than its text shows"),
    ("bad.js", "await crm?.find({})", "bad.js: error: it may call more than its text shows"),
    (
        "bad.js",
        "const { server } = forge;\nawait server('crm').find({})",
        "bad.js: error: it may call more than its text shows",
    ),
    ("bad.js", "await forge.server.call('x', 'crm').find({})", "bad.js: error: it may call more than its text shows"),
    ("bad.js", "await globalThis.crm.find({})", "bad.js: error: it may call more than its text shows"),
    ("bad.star", "t = \"f\" + \"ind\"\ncall_tool(\"crm\", t)", "bad.star: error: it may call more than its text shows"),
    ("bad.star", "x = [forge]", "bad.star: error: it may call more than its text shows"),
    ("bad.star", "g = getattr\ng(crm, \"find\")()", "bad.star: error: it may call more than its text shows"),
    ("bad.star", "[getattr][0](crm, \"find\")()", "bad.star: error: it may call more than its text shows"),
    ("bad.star", "[call_tool][0](\"crm\", \"find\")", "bad.star: error: it may call more than its text shows"),
    ("bad.star", "[crm][0].find()", "bad.star: error: it may call more than its text shows"),
    ("bad.star", "f = lambda x: x\nf(crm.find)()", "bad.star: error: it may call more than its text shows"),
    ("bad.js", "// calls: crm.*\nawait crm['f' + 'ind']({})", "bad.js:1:1: error: `crm.*`: name each tool"),
    (
        "bad.js",
        "// calls: crm.nothing\nawait crm['f' + 'ind']({})",
        "bad.js:1:1: error: there is no tool `crm.nothing`",
    ),
    ("bad.js", "await scripts.nothing({})", "bad.js: error: there is no script `nothing`"),
    ("bad.js", "await scripts.bad({})", "bad.js: error: it calls itself: bad → bad"),
    ("refund.js", "await scripts.billing.all({})", "refund.js: error: it calls itself: refund → billing/all → refund"),
];

#[test]
fn a_script_that_may_do_more_than_its_text_shows_is_not_locked() {
    for (file, code, told) in REFUSED {
        let fence = fence();
        fence.write(format!("scripts/{file}"), code);
        let refused = scripts(&fence, &["lock"]);
        assert!(refused.code == Some(1) && refused.stdout.contains(told), "{code}: {told}\n{refused:?}");
        assert!(refused.stdout.contains("scripts.lock is not written") && lock(&fence).is_empty(), "{refused:?}");
        let as_json = scripts(&fence, &["lock", "--json"]).object();
        assert!(as_json["locked"] == false && as_json["written"] == false, "{as_json}");
    }
}

#[test]
fn a_folder_with_a_mistake_is_refused_with_its_place() {
    for (file, told) in [
        ("scripts/two words.js", "scripts/two words.js: \"two words\" is no identifier"),
        (
            "scripts/class.js",
            "scripts/class.js: \"class\" is no identifier of Python and JavaScript, or a reserved word",
        ),
        ("scripts/lambda/x.star", "scripts/lambda/x.star: \"lambda\" is no identifier"),
        ("scripts/refund.ts", "scripts/refund.ts: its tool has the same name as that of scripts/refund.js"),
        (
            "scripts/billing_all.js",
            "scripts/billing_all.js: its tool has the same name as that of scripts/billing/all.star",
        ),
        ("scripts/old.mjs", "scripts/old.mjs: a script does not end in .mjs"),
        ("scripts/a/b/c/d/e/f/g/h/i/j.js", "over 8 folders below each other"),
    ] {
        let fence = fence();
        fence.write(file, "1");
        let refused = scripts(&fence, &["list"]);
        assert!(refused.code == Some(2) && refused.stderr.contains(told), "{told}: {refused:?}");
    }
    let fence = fence();
    fence.write("scripts/large.js", &"1;".repeat(40_000));
    let large = scripts(&fence, &["list"]);
    assert!(
        large.code == Some(2) && large.stderr.contains("scripts/large.js: 80000 bytes, over the limit"),
        "{large:?}"
    );
    fence.write("forge.toml", "[scripts]\npath = \"nowhere\"\n");
    let missing = scripts(&fence, &["lock"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("nowhere: No such file"), "{missing:?}");
    fence.write("forge.toml", "");
    let none = scripts(&fence, &["check", "--json"]);
    assert!(none.code == Some(2) && none.stdout.contains("there is no folder of scripts"), "{none:?}");
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_refused_and_one_within_is_a_script() {
    use std::os::unix::fs::symlink;
    let fence = fence();
    let link = fence.work().join("scripts/same.js");
    symlink("refund.js", &link).expect("a link");
    let listed = scripts(&fence, &["list"]).success();
    assert!(listed.stdout.contains("same  it is not locked"), "{listed:?}");
    fence.write("secret.js", "1");
    for target in ["../secret.js", "/proc/self/environ", "billing"] {
        fs::remove_file(&link).expect("a link");
        symlink(target, &link).expect("a link");
        let refused = scripts(&fence, &["list"]);
        let told = if target == "billing" { "it is a link to a folder" } else { "the link leads out of the folder" };
        assert!(refused.code == Some(2) && refused.stderr.contains(told), "{target}: {refused:?}");
    }
}

#[test]
fn a_tool_with_only_from_is_called_by_the_scripts_that_it_names_alone() {
    let fence = Fence::new();
    let rule = "[servers.tickets.tools.\"get_*\"]\nonly_from = [\"scripts.read\"]\n";
    fence.write("forge.toml", &format!("{}\n[scripts]\npath = \"scripts/\"\n{rule}", samples()));
    let code = "export default async function () {\n  return await tickets.get_ticket({ id: 1 });\n}\n";
    fence.write("scripts/read.js", code);
    fence.write("plain.js", code);
    let told = "tickets.get_ticket is callable only from scripts.read";
    for refused in [
        fence.run(["call", "tickets", "get_ticket", "{\"id\": 1}"]),
        fence.run(["run", "plain.js"]),
        fence.run(["check", "plain.js"]),
    ] {
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(refused.code == Some(1) && said.contains(told), "{refused:?}");
    }
    let note =
        "export default async function () {\n  return await tickets.add_comment({ id: 1, body: \"HELD\" });\n}\n";
    fence.write("scripts/note.js", note);
    fence.run(["scripts", "lock"]).success();
    assert!(lock(&fence).contains("tool = \"get_ticket\""), "{}", lock(&fence));
    // What a locked script passes on may be what its caller may not read.
    for (args, code, says) in [
        (&["run", "--dry-run", "--lang", "js", "-"][..], "return await scripts.note()", "tickets.add_comment(…)"),
        (&["run", "--lang", "js", "-"], "await scripts.note(); throw new Error('stop')", "tickets.add_comment"),
    ] {
        let output = fence.run_with_input(args.iter().copied(), code);
        assert!(output.stderr.contains(says) && !output.stderr.contains("HELD"), "{output:?}");
    }
    fence.write("scripts/other.js", code);
    let refused = fence.run(["scripts", "lock"]);
    assert!(
        refused.code == Some(1) && refused.stdout.contains("scripts/other.js:2:16: error: TOOL_DENIED"),
        "{refused:?}"
    );
    assert!(refused.stdout.contains(told), "{refused:?}");
}
