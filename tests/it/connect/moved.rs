//! `forgefs connect` on a terminal, and `--import`.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::{CLIENTS, connect, content, files, home, parsed, parsed_text, put, table};
use crate::client::{Fence, Output, finish};
use crate::faulty::has_python;

/// Runs a program on a terminal, with these answers. With a file, the first question is open when that is written, and
/// answered then.
const TERMINAL: &str = "\
import os, pty, sys
answers, file, text = sys.argv[1:4]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[4], sys.argv[4:])
def answer():
    os.write(terminal, answers.encode().decode('unicode_escape').encode())
if not file:
    answer()
seen = b''
while True:
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    if not read:
        break
    os.write(1, read)
    if file and b'[y/N]' not in seen and b'[y/N]' in seen + read:
        with open(file, 'w') as other:
            other.write(text)
        answer()
    seen += read
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// Servers of these tests do not start: none is tried.
fn on_a_terminal(fence: &Fence, answers: &str, args: &[&str]) -> Output {
    written_meanwhile(fence, answers, ("", ""), args)
}

/// Another program writes this file, path and text, while the first question is open.
fn written_meanwhile(fence: &Fence, answers: &str, file: (&str, &str), args: &[&str]) -> Output {
    let unchecked = if args.contains(&"--import") { &["--no-check"][..] } else { &[] };
    terminal(fence, answers, file, &[args, unchecked].concat())
}

fn terminal(fence: &Fence, answers: &str, file: (&str, &str), args: &[&str]) -> Output {
    let mut python = Command::new("python3");
    python
        .args(["-c", TERMINAL, answers, file.0, file.1, env!("CARGO_BIN_EXE_forgefs"), "connect"])
        .args(args)
        .current_dir(fence.work());
    fence.enclose(&mut python);
    finish(&mut python, "")
}

#[test]
fn on_a_terminal_it_asks_before_each_file() {
    let Some(fence) = has_python("a terminal") else { return };
    let (cursor, zed) = (put(&fence, ".cursor/mcp.json", "{}"), put(&fence, ".config/zed/settings.json", "{}"));
    let output = on_a_terminal(&fence, "n\\ny\\n", &[]).success();
    assert!(output.stdout.contains("found: Cursor, Zed"), "{}", output.stdout);
    assert!(output.stdout.contains("Connect Cursor? [y/N]"), "{}", output.stdout);
    assert_eq!(fs::read_to_string(&cursor).expect("a file"), "{}");
    assert!(parsed(&zed).pointer("/context_servers/forgefs").is_some(), "{}", output.stdout);
    on_a_terminal(&fence, "\\n\\n", &["zed", "--undo"]).success();
    assert!(parsed(&zed).pointer("/context_servers/forgefs").is_some());
    on_a_terminal(&fence, "yes\\n", &["zed", "--undo"]).success();
    assert_eq!(fs::read_to_string(&zed).expect("a file"), "{}");
}

#[test]
fn the_servers_of_a_client_move_behind_the_gateway_when_asked_to_on_a_terminal() {
    use std::os::unix::fs::PermissionsExt as _;
    for (client, file, place, _) in CLIENTS {
        let Some(fence) = has_python("a terminal") else { return };
        let before = content(client, table(place));
        let path = put(&fence, file, &before);
        let old = files(&fence);
        // Neither without a terminal nor by --yes.
        connect(&fence, &[client, "--import"]).success();
        assert_eq!(connect(&fence, &[client, "--import", "--yes"]).code, Some(2));
        on_a_terminal(&fence, "n\\n", &[client, "--import"]).success();
        assert_eq!(files(&fence), old);
        let output = on_a_terminal(&fence, "y\\n", &[client, "--import"]).success();
        assert!(output.stdout.contains("Move github to ~/.config/forgefs/forge.toml"), "{}", output.stdout);
        assert!(!output.stdout.contains("planted"), "{}", output.stdout);
        let forge = home(&fence).join(".config/forgefs/forge.toml");
        let written = parsed(&forge);
        assert_eq!(written["servers"]["github"]["command"], "npx", "{client}");
        assert_eq!(written["servers"]["github"]["env"]["GITHUB_TOKEN"], "${GITHUB_TOKEN}", "{client}");
        let variables = forge.with_extension("env");
        let text = fs::read_to_string(&variables).expect("a file of variables");
        assert!(text.contains("GITHUB_TOKEN=\"planted-token\"\n"), "{client}: {text}");
        assert_eq!(fs::metadata(&variables).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&forge).expect("it is there").permissions().mode() & 0o777, 0o600);
        let servers = parsed(&path)[table(place)].as_object().expect("a table").clone();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["forgefs"], "{client}");
        assert_eq!(parsed(&path)["unknown"], parsed_text(client, &before)["unknown"]);
        // The comment above a server goes with it; those about other things stay.
        let left = fs::read_to_string(&path).expect("a file");
        assert!(!left.contains("the forge") && left.contains("planted-comment"), "{client}: {left}");
        // A second time there is nothing to move.
        let again = on_a_terminal(&fence, "y\\n", &[client, "--import"]).success();
        assert!(again.stdout.contains("connected already"), "{}", again.stdout);
        assert_eq!(parsed(&forge), written);
        connect(&fence, &[client, "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&path).expect("a file"), before);
    }
}

/// Claude Code writes its file at each start.
#[test]
fn the_servers_come_back_to_a_client_that_edited_its_file_since() {
    for (client, file, place, _) in CLIENTS {
        let Some(fence) = has_python("a terminal") else { return };
        let before = content(client, table(place));
        let path = put(&fence, file, &before);
        on_a_terminal(&fence, "y\\n", &[client, "--import"]).success();
        let moved = fs::read_to_string(&path).expect("a file");
        fs::write(&path, moved.replace("dark", "light")).expect("written");
        let output = connect(&fence, &[client, "--undo", "--yes"]).success();
        assert!(output.stderr.contains("back in it: github"), "{client}: {}", output.stderr);
        assert!(!format!("{}{}", output.stdout, output.stderr).contains("planted"), "{client}: {}", output.stdout);
        let (now, old) = (parsed(&path), parsed_text(client, &before.replace("dark", "light")));
        assert_eq!(now, old, "{client}");
        // A connection that moves nothing has nothing to bring back.
        connect(&fence, &[client, "--yes"]).success();
        let text = fs::read_to_string(&path).expect("a file").replace("github", "other").replace("light", "grey");
        fs::write(&path, text).expect("written");
        connect(&fence, &[client, "--undo", "--yes"]).success();
        let servers = parsed(&path)[table(place)].as_object().expect("a table").clone();
        assert!(servers.contains_key("other") && !servers.contains_key("github"), "{client}: {servers:?}");
    }
}

#[test]
fn a_server_that_does_not_start_behind_the_gateway_stays_in_its_client() {
    let Some(fence) = has_python("a terminal") else { return };
    let exe = env!("CARGO_BIN_EXE_forgefs");
    let servers = json!({
        "works": {"command": exe, "args": ["demo-server", "tickets"]},
        "fails": {"command": "python3", "args": ["-c", "import sys; sys.exit('no such account')"], "env": {"API_TOKEN": "planted-5f3a9c1e7b2d"}},
        "gone": {"command": "/nowhere/at-all"},
        "off": {"command": "/nowhere/off", "disabled": true},
    });
    let file = put(&fence, ".cursor/mcp.json", json!({"mcpServers": servers}).to_string());
    let output = terminal(&fence, "y\\n", ("", ""), &["cursor", "--import"]).success();
    let after = parsed(&file)["mcpServers"].clone();
    assert_eq!((&after["fails"], &after["gone"]), (&servers["fails"], &servers["gone"]), "{}", output.stdout);
    assert!(after.get("works").is_none() && after.get("off").is_none(), "{}", output.stdout);
    for says in [
        "fails: stays where it is: it does not start behind ForgeFS: ",
        "gone: stays where it is: ",
        "Move works, off to",
    ] {
        assert!(output.stdout.contains(says), "no {says} in {}", output.stdout);
    }
    assert!(!output.stdout.contains("planted"), "{}", output.stdout);
    let forge = parsed(&home(&fence).join(".config/forgefs/forge.toml"));
    assert_eq!(forge["servers"].as_object().expect("servers").keys().collect::<Vec<_>>(), ["off", "works"]);
}

#[test]
fn only_a_server_that_works_the_same_behind_the_gateway_leaves_its_client() {
    use std::os::unix::fs::PermissionsExt as _;
    // Configuration, server of the client, whether it stays there, and what is said.
    let cases = [
        (
            "command = 's'\nenv.TOKEN = 'one'",
            json!({"command": "s", "env": {"TOKEN": "one"}}),
            false,
            "Take out gh, which",
        ),
        (
            "command = 's'\nenv.TOKEN = 'one'",
            json!({"command": "s", "env": {"TOKEN": "two"}}),
            true,
            "gh: stays where it is",
        ),
        ("command = 's'\ncwd = '/one'", json!({"command": "s", "cwd": "/two"}), true, "gh: stays where it is"),
        (
            "url = 'https://h.test/mcp'\nheaders.X-Team = 'one'",
            json!({"url": "https://h.test/mcp", "headers": {"X-Team": "two"}}),
            true,
            "gh: stays where it is",
        ),
        ("command = 's'\nenabled = false", json!({"command": "s"}), true, "is disabled"),
        ("command = 'other'", json!({"command": "s", "args": ["${workspaceFolder}"]}), true, "no server to move"),
        (
            "command = 'other'",
            json!({"command": "s", "args": ["${workspaceFolder}"]}),
            true,
            "gh: stays where it is: `${workspaceFolder}` in its args[0] means another folder in each project",
        ),
        // What the client alone is concerned with is no loss, everything else is.
        ("command = 's'", json!({"command": "s", "alwaysAllow": ["x"], "trust": true}), false, "Take out gh, which"),
        ("command = 's'", json!({"command": "s", "envFile": ".env"}), true, "write what that file sets as `env`"),
        ("command = 'o'", json!({"command": "s", "envFile": ".env"}), true, "gh: stays where it is: ForgeFS does not"),
        ("command = 'o'", json!({"command": "s", "sandbox": {}}), true, "nothing like its `sandbox`"),
        (
            "command = 'o'",
            json!({"command": "s", "args": ["-x", "${command:pick}"]}),
            true,
            "does not know `${command:…}` in its args[1]; write the value",
        ),
        (
            "command = 'o'",
            json!({"command": "s", "env": {"A": "${planted one}"}}),
            true,
            "does not know `${planted one}` in its env.A",
        ),
        (
            "command = 'o'",
            json!({"url": "https://h.test/mcp", "auth": {"CLIENT_ID": "a", "realm": "b"}}),
            true,
            "nothing like `realm` of its login",
        ),
    ];
    for (existing, server, stays, said) in cases {
        let Some(fence) = has_python("a terminal") else { return };
        let forge = put(&fence, ".config/forgefs/forge.toml", format!("[servers.mine]\n{existing}\n"));
        fs::set_permissions(&forge, fs::Permissions::from_mode(0o644)).expect("a mode");
        let before = fs::read_to_string(&forge).expect("a file");
        let path = put(&fence, ".cursor/mcp.json", json!({"mcpServers": {"gh": server}}).to_string());
        let output = on_a_terminal(&fence, "y\\n", &["cursor", "--import"]).success();
        assert!(output.stdout.contains(said), "{existing}: {}", output.stdout);
        assert!(!output.stdout.contains("no servers found"), "{existing}: {}", output.stdout);
        let after = parsed(&path);
        assert!(after.pointer("/mcpServers/forgefs").is_some(), "{existing}: {}", output.stdout);
        assert_eq!(after.pointer("/mcpServers/gh").is_some(), stays, "{existing}: {}", output.stdout);
        assert_eq!(fs::read_to_string(&forge).expect("a file"), before, "{existing}");
        assert_eq!(fs::metadata(&forge).expect("it is there").permissions().mode() & 0o777, 0o644, "{existing}");
    }
    // One that stays is not written either, and holds up no other.
    let Some(fence) = has_python("a terminal") else { return };
    let both = json!({"gh": {"command": "s", "envFile": ".env"}, "time": {"command": "t"}});
    let path = put(&fence, ".cursor/mcp.json", json!({"mcpServers": both}).to_string());
    let output = on_a_terminal(&fence, "y\\n", &["cursor", "--import"]).success();
    let after = parsed(&path)["mcpServers"].as_object().expect("servers").clone();
    assert_eq!(after.keys().collect::<Vec<_>>(), ["gh", "forgefs"], "{}", output.stdout);
    assert_eq!(after["gh"], both["gh"]);
    let forge = parsed(&home(&fence).join(".config/forgefs/forge.toml"));
    assert_eq!(forge["servers"].as_object().expect("servers").keys().collect::<Vec<_>>(), ["time"]);
    // Nor is one that means the folder of each project.
    let Some(fence) = has_python("a terminal") else { return };
    let both = json!({"gh": {"command": "s", "args": ["${workspaceFolder}"]}, "time": {"command": "t"}});
    let path = put(&fence, ".cursor/mcp.json", json!({"mcpServers": both}).to_string());
    on_a_terminal(&fence, "y\\n", &["cursor", "--import"]).success();
    assert_eq!(parsed(&path)["mcpServers"]["gh"], both["gh"]);
    let forge = parsed(&home(&fence).join(".config/forgefs/forge.toml"));
    assert_eq!(forge["servers"].as_object().expect("servers").keys().collect::<Vec<_>>(), ["time"]);
    // Two that allow different tools do not become one.
    let Some(fence) = has_python("a terminal") else { return };
    let both = json!({"all": {"command": "s"}, "some": {"command": "s", "disabledTools": ["drop"]}});
    put(&fence, ".cursor/mcp.json", json!({"mcpServers": both}).to_string());
    on_a_terminal(&fence, "y\\n", &["cursor", "--import"]).success();
    let forge = parsed(&home(&fence).join(".config/forgefs/forge.toml"));
    assert_eq!(forge["servers"], json!({"all": {"command": "s"}, "some": {"command": "s", "deny": ["drop"]}}));
    // One that moves makes the file private, and is named as what an undo leaves.
    let Some(fence) = has_python("a terminal") else { return };
    let forge = put(&fence, ".config/forgefs/forge.toml", "[servers.mine]\ncommand = 'x'\n");
    fs::set_permissions(&forge, fs::Permissions::from_mode(0o644)).expect("a mode");
    put(&fence, ".cursor/mcp.json", json!({"mcpServers": {"gh": {"command": "s"}}}).to_string());
    let output = on_a_terminal(&fence, "y\\n", &["cursor", "--import"]).success();
    assert_eq!(fs::metadata(&forge).expect("it is there").permissions().mode() & 0o777, 0o600);
    for said in ["forge.toml: added gh; the old file is", "stay, until you remove them: gh"] {
        assert!(output.stdout.contains(said), "{}", output.stdout);
    }
    assert!(!output.stdout.contains("takes all back"), "{}", output.stdout);
}

#[test]
fn no_server_leaves_its_client_for_a_configuration_that_is_or_would_be_invalid() {
    for (existing, said) in [
        ("nonsense = 1\n", "correct it first"),
        ("[servers.mine\n", "correct it first"),
        ("servers = { mine = { command = 'x' } }\n", "[servers.NAME]"),
    ] {
        let Some(fence) = has_python("a terminal") else { return };
        put(&fence, ".config/forgefs/forge.toml", existing);
        put(&fence, ".cursor/mcp.json", json!({"mcpServers": {"gh": {"command": "s"}}}).to_string());
        let old = files(&fence);
        let output = on_a_terminal(&fence, "y\\n", &["cursor", "--import"]);
        assert_eq!(output.code, Some(1), "{existing}: {}", output.stdout);
        assert!(output.stdout.contains(said), "{existing}: {}", output.stdout);
        assert_eq!(files(&fence), old, "{existing}");
        let forge = fence.write("forge.toml", existing);
        fence.write("servers.json", &json!({"mcpServers": {"gh": {"command": "s"}}}).to_string());
        let output = fence.run(["init", "--import", "servers.json", "--append"]);
        assert_eq!(output.code, Some(2), "{existing}: {}", output.stderr);
        assert!(output.stderr.contains(said), "{existing}: {}", output.stderr);
        assert_eq!(fs::read_to_string(&forge).expect("a file"), existing);
    }
}

#[test]
fn a_server_that_its_client_changes_while_the_question_is_open_is_not_moved_in_its_old_form() {
    for (later, moves) in [
        (json!({"mcpServers": {"gh": {"command": "s", "env": {"TOKEN": "new"}}}}), false),
        (json!({"mcpServers": {}}), false),
        // What else the client writes is no reason.
        (json!({"mcpServers": {"gh": {"command": "s"}}, "starts": 2}), true),
    ] {
        let Some(fence) = has_python("a terminal") else { return };
        let path = put(&fence, ".cursor/mcp.json", json!({"mcpServers": {"gh": {"command": "s"}}}).to_string());
        let file = (crate::real::path(&path), later.to_string());
        let output = written_meanwhile(&fence, "y\\n", (file.0, &file.1), &["cursor", "--import"]);
        assert_eq!(output.code, Some(i32::from(!moves)), "{later}: {}", output.stdout);
        assert_eq!(home(&fence).join(".config/forgefs/forge.toml").exists(), moves, "{later}: {}", output.stdout);
        let now = parsed(&path);
        if moves {
            assert_eq!(now["starts"], 2);
            assert!(now.pointer("/mcpServers/gh").is_none() && now.pointer("/mcpServers/forgefs").is_some(), "{now}");
        } else {
            assert_eq!(now, later);
            assert!(output.stdout.contains("changed its server gh in the meantime; try again"), "{}", output.stdout);
        }
    }
}
