//! `forgefs policy`: profiles made of what clients called, and changes of the configuration tried on it.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Era, Fence, Output};
use crate::faulty::has_python;

/// An argument that no output may have.
const PRIVATE: &str = "words-of-a-customer";

fn server(fence: &Fence, name: &str, keys: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/policy.py");
    let args = [script, name.into(), fence.work().join("calls.log")];
    format!("[servers.{name}]\ncommand = \"python3\"\nargs = {args:?}\n{keys}\n")
}

const CI: &str = "[clients.ci]\ntoken_sha256 = \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"\n";

/// Three servers and a client beside this machine's user.
fn config(fence: &Fence) -> String {
    [
        server(fence, "chat", "approval = \"writes\""),
        server(fence, "vault", ""),
        server(fence, "web", "deny = [\"hidden\"]"),
        CI.to_owned(),
    ]
    .concat()
}

/// A gateway whose log has calls of two clients: allowed, approved, refused.
async fn made() -> Option<(Fence, String)> {
    let fence = has_python("tests/servers/policy.py")?;
    let config = config(&fence);
    let session = fence.serve_in(Era::Modern, &config).await;
    session.ready(&["chat", "vault", "web"]).await;
    session.execute("starlark", &format!("web.send(text={PRIVATE:?})")).await;
    session.execute("starlark", "[web.look(), web.look()][0]").await;
    session.execute("starlark", "read_resource('vault', 'vault://data')").await;
    session.execute_err("starlark", "call_tool('web', ''.join(['hid', 'den']))").await;
    session.execute_err("starlark", "chat.post(to='x')").await;
    session.close().await;
    let session = fence.connect(Era::Modern, fence.forgefs(["--as", "ci", "serve"])).await;
    session.ready(&["web"]).await;
    session.execute("starlark", "web.look()").await;
    session.close().await;
    fence.run(["call", "chat", "send", "{}", "--yes"]).success();
    Some((fence, config))
}

fn suggested(fence: &Fence, client: &str) -> String {
    let output = fence.run(["policy", "suggest", "--client", client]).success();
    let today = output.stdout.split(", last ").nth(1).and_then(|rest| rest.get(..10)).unwrap_or_default();
    assert_eq!(today.len(), 10, "{output:?}");
    output.stdout.replace(today, "TODAY")
}

/// Changed kinds of calls, as `client server.tool before>after count`.
fn changes(output: &Output) -> Vec<String> {
    let object = output.object();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let changes = object["changes"].as_array().expect("changes").iter();
    changes
        .map(|one| {
            let [client, server, tool, before, after] =
                ["client", "server", "tool", "before", "after"].map(|key| text(one, key));
            format!("{client} {server}.{tool} {before}>{after} {}", one["calls"])
        })
        .collect()
}

fn tried(fence: &Fence, config: &str) -> Output {
    fence.write("next.toml", config);
    fence.run(["policy", "try", "next.toml", "--json"])
}

/// Appends lines to the log.
fn append(fence: &Fence, lines: &[&[u8]]) {
    let mut file = fs::OpenOptions::new().append(true).open(fence.audit()).expect("a log");
    lines.iter().for_each(|line| file.write_all(&[line, &b"\n"[..]].concat()).expect("written"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suggested_profile_allows_what_was_called_and_nothing_else() {
    let Some((fence, config)) = made().await else { return };
    let local = suggested(&fence, "local");
    let want = "\
# local, as it called
[profiles.local]
servers = [\"chat\", \"vault\", \"web\"]
allow = [
  \"chat.send\", # 1 call, last TODAY, 1 after approval, which goes on
  \"vault.*\", # no tool: 1 call, last TODAY
  \"web.look\", # 2 calls, last TODAY
  \"web.send\", # 1 call, last TODAY
]
deny = [
  \"vault.*\", # its tools
]
# not in it: chat.post: 1 call, last TODAY: asked about, and not approved
# not in it: web.hidden: 1 call, last TODAY: TOOL_NOT_FOUND
[clients.local]
profile = \"local\"
";
    assert_eq!(local, want);
    assert_eq!(suggested(&fence, "local"), local);
    let ci = suggested(&fence, "ci");
    let want = "# ci, as it called\n[profiles.ci]\nservers = [\"web\"]\nallow = [\n  \"web.look\", # 1 call, last TODAY\n]\n\
        # Write into [clients.ci]: profile = \"ci\"\n";
    assert_eq!(ci, want);
    let both = fence.run(["policy", "suggest", "--json"]).success();
    assert!(!both.stdout.contains(PRIVATE) && !local.contains(PRIVATE));
    let both = both.object();
    let of = |at: usize| both["suggestions"][at]["toml"].as_str().unwrap_or_default();
    assert_eq!([of(0).lines().count(), of(1).lines().count()], [ci.lines().count(), local.lines().count()]);

    // Pasted, it decides so.
    let pasted = format!("{config}profile = \"ci\"\n{}{}", of(0), of(1));
    let output = tried(&fence, &pasted);
    assert_eq!((changes(&output), output.code), (vec!["local chat.post asks>refused 1".to_owned()], Some(1)));
    fence.write("forge.toml", &pasted);
    for (client, tool, is_there) in [
        ("ci", ["web", "look"], true),
        ("ci", ["web", "send"], false),
        ("ci", ["chat", "send"], false),
        ("local", ["web", "send"], true),
        ("local", ["chat", "send"], true),
        ("local", ["chat", "post"], false),
        ("local", ["web", "make"], false),
        ("local", ["vault", "look"], false),
    ] {
        let call = fence.run(["--as", client, "call", tool[0], tool[1], "{}", "--yes"]);
        assert_eq!(call.code == Some(0), is_there, "{client} {tool:?}: {call:?}");
    }
    let read = fence.run_with_input(["run", "-", "--lang", "starlark"], "read_resource('vault', 'vault://data')");
    assert!(read.success().stdout.contains("data of vault"));
    // A profile of this name is there now, and what it has beside its lists stays.
    let more = "[profiles.ci.budgets]\n# A day\nday = 5 # calls\n[profiles.ci]\napproval = \"writes\"\n";
    fence.write("forge.toml", &pasted.replace("[profiles.ci]\n", more));
    let next = fence.run(["policy", "suggest", "--client", "ci"]).success().stdout;
    for says in [
        "[profiles.ci-2]\n",
        "# As in [profiles.ci], but for its lists:\n",
        "\nbudgets = { day = 5 }\n",
        "\napproval = \"writes\"\n",
    ] {
        assert!(next.contains(says), "{says}: {next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_is_tried_on_the_log() {
    let Some((fence, config)) = made().await else { return };
    let look = "local web.look allowed>";
    let unlisted = config.replace("args = [", "args = [\"-B\", ").replace("deny = [\"hidden\"]", "");
    let flow = "[[flows]]\nfrom = \"web\"\nto = \"web\"\naction = \"deny\"\n[[flows]]\nfrom = \"vault\"\nto = \"*\"\naction = \"deny\"\n";
    let strict = "[groups.a]\nservers = [\"web\"]\nisolation = \"strict\"\n";
    for (next, want) in [
        (config.clone(), vec![]),
        (format!("{config}{flow}{strict}"), vec![]),
        (config.replace("deny = [\"hidden\"]", ""), vec!["local web.hidden refused>allowed 1".to_owned()]),
        (
            config.replace("approval = \"writes\"", ""),
            vec!["local chat.post asks>allowed 1".to_owned(), "local chat.send asks>allowed 1".to_owned()],
        ),
        (
            config.replace("\"hidden\"", "\"hidden\", \"look\""),
            vec!["ci web.look allowed>refused 1".to_owned(), format!("{look}refused 2")],
        ),
        (
            config.replace("deny = ", "approval = \"always\"\ndeny = "),
            vec![
                "ci web.look allowed>asks 1".to_owned(),
                format!("{look}asks 2"),
                "local web.send allowed>asks 1".to_owned(),
            ],
        ),
        (config.replace(CI, ""), vec!["ci web.look allowed>refused 1".to_owned()]),
        (
            format!("{config}profile = \"p\"\n[profiles.p]\ndeny = [\"*.look\"]\n"),
            vec!["ci web.look allowed>refused 1".to_owned()],
        ),
        // An entry that matches nothing holds the tools, as in a gateway.
        (
            format!("{config}profile = \"p\"\n[profiles.p]\ndeny = [\"web.lok\"]\n"),
            vec!["ci web.look allowed>refused 1".to_owned()],
        ),
        (
            format!("{config}[servers.web.tools.look]\nonly_from = [\"scripts.x\"]\n[scripts]\npath = \"scripts\"\n"),
            vec!["ci web.look allowed>refused 1".to_owned(), format!("{look}refused 2")],
        ),
        // Of servers that start otherwise nothing is known.
        (unlisted.clone(), vec![]),
        (
            unlisted.replace("[servers.vault]\n", "[servers.vault]\nenabled = false\n"),
            vec!["local vault.read_resource allowed>refused 1".to_owned()],
        ),
    ] {
        fs::create_dir_all(fence.work().join("scripts")).expect("a folder");
        let output = tried(&fence, &next);
        assert_eq!(changes(&output), want, "{next}\n{output:?}");
        assert_eq!(output.code, Some(i32::from(!want.is_empty())), "{output:?}");
        let undecided = if next.contains("\"-B\"") { 6 } else { 0 };
        assert_eq!(output.object()["not_decided"].as_array().map(Vec::len), Some(undecided), "{output:?}");
    }
    fence.write("next.toml", &config.replace("\"hidden\"", "\"hidden\", \"look\""));
    let text = fence.run(["policy", "try", "next.toml", "--client", "ci"]);
    assert!(
        text.stdout.starts_with("web     look  ci") && text.stdout.ends_with("the configuration denies web.look\n"),
        "{text:?}"
    );
    assert_eq!(text.stdout.lines().count(), 1, "{text:?}");
    for says in ["1 calls are decided otherwise, 0 as before, 0 not by this log", "arguments, budgets and rate limits"]
    {
        assert!(text.stderr.contains(says), "{says}: {text:?}");
    }
    let broken = fence.run(["policy", "try", "nowhere.toml", "--json"]);
    assert_eq!((broken.code, broken.object()["ok"].clone()), (Some(2), json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_a_run_held_decides_about_its_calls() {
    // A profile without the server of the data would refuse the call.
    let of_ci = "[profiles.ci]\nservers = [\"chat\", \"web\"]\nallow = [\n  \"chat.*\", # no tool: its data was held\n";
    let Some(fence) = has_python("tests/servers/policy.py") else { return };
    let config = config(&fence);
    fence.write("forge.toml", &config);
    fence.run_with_input(["run", "-", "--lang", "starlark"], "vault.look()\nweb.send(text='x')").success();
    fence.run(["call", "web", "send", "{}"]).success();
    let ended = fs::read_to_string(fence.audit()).expect("a log");
    let mut ended: Value = serde_json::from_str(ended.lines().next_back().expect("a line")).expect("a record");
    ended["principal"] = "ci".into();
    ended["calls"][0]["labels"] = json!(["chat"]);
    append(&fence, &[ended.to_string().as_bytes()]);
    assert!(suggested(&fence, "ci").contains(of_ci), "{}", suggested(&fence, "ci"));
    // A profile of this name would be that of every client.
    fence.write("forge.toml", &config.replace("[clients.ci]", "[clients.default]"));
    ended["principal"] = "default".into();
    append(&fence, &[ended.to_string().as_bytes()]);
    assert!(suggested(&fence, "default").contains("[profiles.default-2]\n"));
    let of = fs::read_to_string(fence.audit()).expect("a log");
    let kept: Vec<&str> = of.lines().filter(|line| !line.contains("\"principal\":\"default\"")).collect();
    fs::write(fence.audit(), kept.join("\n") + "\n").expect("written");
    fence.write("forge.toml", &config);
    for (more, want) in [
        ("[[flows]]\nfrom = \"vault\"\nto = \"web\"\naction = \"deny\"\n", "local web.send allowed>refused 1"),
        ("[[flows]]\nfrom = \"vault\"\nto = \"web\"\naction = \"approve\"\n", "local web.send allowed>asks 1"),
        (
            "[groups.a]\nservers = [\"web\"]\nisolation = \"strict\"\n[groups.b]\nservers = [\"vault\"]\nisolation = \"strict\"\n",
            "local web.send allowed>refused 1",
        ),
    ] {
        assert_eq!(changes(&tried(&fence, &format!("{config}{more}"))), [want], "{more}");
        // The end of a run is not on record: what it held is not known.
        let line = br#"{"event":"sent","run":"0123456789ab","call":1,"time":"TIME","server":"web","tool":"look","args":"","verdict":"allowed","session":"s"}"#;
        let now = fs::read_to_string(fence.audit()).expect("a log");
        let now = now.split("\"time\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a time");
        append(&fence, &[String::from_utf8_lossy(line).replace("TIME", now).as_bytes()]);
        let output = tried(&fence, &format!("{config}{more}"));
        assert_eq!(changes(&output), [want], "{more}");
        assert_eq!(output.object()["not_decided"].as_array().map(Vec::len), Some(1), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_takes_along_what_it_may_call() {
    let Some(fence) = has_python("tests/servers/policy.py") else { return };
    let code = "/** Looks. */\nexport default async function ({ far }: { far?: boolean }): Promise<string> {\n  if (far) { return String(await web.look({})); }\n  return String(await vault.look({}));\n}\n";
    fence.write("scripts/peek.ts", code);
    let config = format!("[scripts]\npath = \"scripts\"\n{}", config(&fence));
    fence.write("forge.toml", &config);
    fence.run(["scripts", "lock"]).success();
    fence.run(["call", "scripts", "peek", "{}"]).success();
    let suggestion = fence.run(["policy", "suggest"]).success().stdout;
    let lists: Vec<&str> = suggestion.lines().filter(|line| line.starts_with("  \"")).collect();
    assert!(lists[0].starts_with("  \"vault.look\", # 1 call, last "), "{suggestion}");
    assert_eq!(lists[1], "  \"web.look\", # a script that is called may call it");
    assert!(lists[2].starts_with("  \"peek\", # 1 call"), "{suggestion}");
    assert_eq!(changes(&tried(&fence, &format!("{config}{suggestion}"))), [""; 0]);
    for (text, want) in [(code.replace("vault.look", "web.look").as_str(), "allowed>refused"), (code, "")] {
        fence.write("scripts/peek.ts", text);
        fence.run(["scripts", "lock"]).success();
        let changes = changes(&tried(&fence, &config));
        assert_eq!(changes.concat().contains("vault.look allowed>refused 1"), !want.is_empty(), "{text}: {changes:?}");
    }
    // The policy would let each call pass, but the script is not shown.
    let narrower = suggestion.replace(lists[1], "");
    let hidden = tried(&fence, &format!("{config}{narrower}"));
    assert_eq!(changes(&hidden), ["local scripts.peek allowed>refused 1"], "{hidden:?}");
    let session = fence.serve(&format!("{config}{suggestion}")).await;
    // Scripts are judged, and shown, a moment later.
    for _ in 0..200 {
        if session.call("ls", json!({"depth": 3})).await.text.contains("peek") {
            assert_eq!(session.execute("javascript", "await scripts.peek({ far: true })").await, "data of web");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("no script: {}", session.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_files_count_and_broken_lines_are_told() {
    let Some(fence) = has_python("tests/servers/policy.py") else { return };
    fence.write("forge.toml", &config(&fence));
    let nothing = fence.run(["policy", "suggest"]).success();
    assert!(
        nothing.stdout.is_empty() && nothing.stderr.contains("no such call of the last 30 days is on record in "),
        "{nothing:?}"
    );
    let call = || _ = fence.run(["call", "web", "look", "{}"]).success();
    call();
    for number in [2, 1] {
        fs::rename(fence.audit(), fence.audit().with_extension(format!("{number}.jsonl"))).expect("renamed");
        call();
    }
    let old = fs::read_to_string(fence.audit()).expect("a log").replace("\"time\":\"20", "\"time\":\"1");
    let old = old.lines().next_back().expect("a line").replace("\"id\":\"", "\"id\":\"0").into_bytes();
    append(&fence, &[b"{\"id\":\"ab", b"\xff\xfe\x00", b"{\"x\":1}", &vec![b'x'; (16 << 20) + 1], &old]);
    // A last line without an end may still be written.
    fs::OpenOptions::new().append(true).open(fence.audit()).expect("a log").write_all(b"{\"id\":").expect("written");
    let output = fence.run(["policy", "suggest", "--json"]).success();
    let told = output.object();
    assert_eq!(
        told["suggestions"][0]["toml"].as_str().map(|toml| toml.matches("3 calls").count()),
        Some(1),
        "{output:?}"
    );
    assert_eq!(told["broken_lines"], 4, "{output:?}");
    assert!(output.stderr.contains("warning: 4 lines of the log are no records"), "{output:?}");
    for json in [&["audit", "list"][..], &["audit", "list", "--json"]] {
        let listed = fence.run(json).success();
        assert_eq!(listed.stdout.lines().count(), 4, "{listed:?}");
        assert!(listed.stderr.contains("warning: 4 lines of the log are no records\n"), "{listed:?}");
    }
    let all = fence.run(["policy", "suggest", "--json", "--days", "36500"]).success().object();
    assert_eq!(
        all["suggestions"][0]["toml"].as_str().map(|toml| toml.matches("3 calls").count()),
        Some(0),
        "a hundred years"
    );

    let unknown = fence.run(["policy", "suggest", "--client", "cii"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("has a client `cii`") && unknown.stderr.contains("did you mean `ci`?"),
        "{unknown:?}"
    );
    let silent = fence.run(["policy", "suggest", "--client", "ci"]).success();
    assert!(
        silent.stdout.is_empty() && silent.stderr.contains("no such call of the last 30 days is on record"),
        "{silent:?}"
    );
    fence.write("forge.toml", &format!("{}[audit]\nto = \"off\"\n", config(&fence)));
    let off = fence.run(["policy", "suggest"]);
    assert!(off.code == Some(2) && off.stderr.contains("audit records do not go to a file"), "{off:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_a_log_are_no_toml_and_no_control_of_a_terminal() {
    let Some(fence) = has_python("tests/servers/policy.py") else { return };
    let config = config(&fence);
    fence.write("forge.toml", &config);
    fence.run(["call", "web", "look", "{}"]).success();
    let names = [
        "x\n[profiles.evil]\nservers = [\"vault\"]",
        "console/x\ny",
        "\u{1b}[31mred",
        "\"]\nallow = [\"*.*\"]\n#",
        "\u{202e}\u{7f}\u{85}\r",
        "::error::x",
        "*",
        "{look,send}",
        "\\",
        "",
    ];
    let text = fs::read_to_string(fence.audit()).expect("a log");
    let whole: Value = serde_json::from_str(text.lines().nth(1).expect("a line")).expect("a record");
    for (number, name) in names.iter().enumerate() {
        let mut record = whole.clone();
        record["id"] = format!("00000000000{number}").into();
        record["principal"] = if number % 2 == 0 { "ci" } else { name }.into();
        let mut calls = vec![record["calls"][0].clone(); 4];
        calls[0]["server"] = (*name).into();
        calls[1]["tool"] = (*name).into();
        calls[2]["from"] = (*name).into();
        calls[3]["labels"] = json!([name]);
        record["calls"] = calls.into();
        append(&fence, &[record.to_string().as_bytes()]);
    }
    let mut huge = whole;
    huge["calls"][0]["tool"] = "t".repeat(100_000).into();
    append(&fence, &[huge.to_string().as_bytes()]);
    let output = fence.run(["policy", "suggest"]).success();
    let both = format!("{}{}", output.stdout, output.stderr);
    assert!(both.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{both:?}");
    let parsed: toml::Table =
        toml::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{}", output.stdout));
    let profiles = parsed["profiles"].as_table().expect("profiles");
    assert_eq!(profiles.keys().collect::<Vec<_>>(), ["ci", "local"], "{}", output.stdout);
    for profile in profiles.values() {
        assert_eq!(profile["servers"], toml::Value::from(vec!["web"]), "{}", output.stdout);
        assert_eq!(profile["allow"], toml::Value::from(vec!["web.look"]), "{}", output.stdout);
    }
    assert!(output.stderr.contains("warning: 1 lines of the log are no records, or name too much"), "{output:?}");
    let tried = tried(&fence, &config.replace("deny = [\"hidden\"]", "deny = [\"look\"]"));
    assert_eq!(tried.code, Some(1), "{tried:?}");
    fence.run(["policy", "try", "next.toml"]).stdout.chars().for_each(|c| assert!(c == '\n' || !c.is_control()));
}
