//! `forgefs add`, `remove`, `enable`, `disable` and `list`, by the real executable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::{Fence, Output, finish, up};
use crate::faulty::has_python;

const FORGEFS: &str = env!("CARGO_BIN_EXE_forgefs");
const TOKEN: &str = "ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";

/// `forgefs --config forge.toml …` in the fence.
fn on_file(fence: &Fence, args: &[&str]) -> Output {
    fence.run([&["--config", "forge.toml"], args].concat())
}

fn add_sample(fence: &Fence, name: &str) -> Output {
    on_file(fence, &["add", name, "--", FORGEFS, "demo-server", "tickets"])
}

fn text(fence: &Fence) -> String {
    fs::read_to_string(fence.work().join("forge.toml")).unwrap_or_else(|error| error.to_string())
}

/// Files beside `forge.toml` that editing could leave.
fn beside(fence: &Fence) -> Vec<String> {
    let entries =
        fs::read_dir(fence.work()).expect("the folder").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = entries.filter(|name| name != "forge.toml").collect();
    names.sort();
    names
}

#[test]
fn a_server_is_tried_shown_written_and_served() {
    let fence = Fence::new();
    let added = fence.run(["add", "desk", "--", FORGEFS, "demo-server", "tickets"]).success();
    for says in
        ["desk: tools ", "read-only    list_tickets", "\nAnnotations: ", "It runs as you, outside the script sandbox"]
    {
        assert!(added.stdout.contains(says), "no {says:?} in {}", added.stdout);
    }
    let file = fence.work().parent().expect("the fence").join("home/.config/forgefs/forge.toml");
    assert!(added.stderr.contains(&format!("added desk to {}", file.display())), "{}", added.stderr);
    let listing = fence.run(["ls"]).success().stdout;
    assert!(regex::Regex::new(&up("desk")).expect("a pattern").is_match(&listing), "{listing}");
    let listed = fence.run(["list"]).success().stdout;
    assert!(listed.starts_with("desk  stdio  enabled ") && listed.contains("demo-server tickets"), "{listed}");
    let checked = fence.run(["list", "--check"]).success().stdout;
    assert!(checked.contains("ready, "), "{checked}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&file).expect("written").permissions().mode() & 0o777, 0o600);
    }
    let again = fence.run(["add", "Desk", "--", "no-such-program"]);
    assert!(again.code == Some(2) && again.stderr.contains("a server `desk` already"), "{again:?}");
    fence.run(["disable", "desk"]).success();
    assert!(fence.run(["list"]).success().stdout.starts_with("desk  stdio  disabled"));
    assert!(fence.run(["ls"]).success().stdout.contains("disabled"));
    fence.run(["enable", "desk"]).success();
    fence.run(["remove", "desk"]).success();
    let nothing = fence.run(["list"]).success();
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("`forgefs add` adds one"), "{nothing:?}");
}

/// Files of every form: each keeps its bytes when a server is added and removed again.
const FILES: &[(&str, &str)] = &[
    ("empty", ""),
    ("comments", "# mine\n\n# [servers.x]\n"),
    (
        "crlf and a byte order mark",
        "\u{feff}# mine\r\n[servers.old]\r\ncommand = \"x\"\r\nenabled = false\r\n\r\n[sandbox]\r\nworkers = 3 # three\r\n",
    ),
    ("inline", "servers = { old = { command = \"x\", enabled = false } } # all of them\n[sandbox]\nworkers = 3\n"),
    ("dotted", "servers.old.command = \"x\"\nservers.old.enabled = false\n"),
    ("a table of tables", "[servers]\nold = { command = \"x\", enabled = false }\n\n[manifest]\nobserve = true\n"),
    (
        "spread",
        "[servers.old]\ncommand = \"x\"\nenabled = false\n[sandbox]\nworkers = 3\n\n[servers.old.rate] # here\ncalls = 3\n# end\n",
    ),
];

#[test]
fn every_other_byte_survives_in_files_of_every_form() {
    for (form, before) in FILES {
        let fence = Fence::new();
        fence.write("forge.toml", before);
        add_sample(&fence, "desk.one").success();
        let added = text(&fence);
        assert!(added.contains("demo-server") && added.contains("\"desk.one\""), "{form}: {added}");
        assert!(on_file(&fence, &["ls"]).success().stdout.contains("desk_one/"), "{form}");
        on_file(&fence, &["disable", "desk.one"]).success();
        assert_ne!(text(&fence), added, "{form}");
        on_file(&fence, &["remove", "desk.one"]).success();
        assert_eq!(&text(&fence), before, "{form}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_not_written_unless_it_must_be() {
    let Some(fence) = has_python("tests/servers/faulty.py") else { return };
    fence.write("dies.py", "import sys\nprint('no database at 10.0.0.1', file=sys.stderr)\nsys.exit(3)\n");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--", "no-such-program-anywhere"], 3, "no-such-program-anywhere"),
        (&["--", "python3", "dies.py"], 3, "no database"),
        (&["--", "cat"], 3, "it sends back what it is sent: it is no MCP server"),
        // One that ends before it is asked may be told as that alone.
        (&["--", "echo", "hello there"], 3, "it closed the connection before the handshake"),
        (&["--", "sh", "-c", "echo hello there; read line"], 3, "(stdout, not MCP) hello there"),
        (&["http://127.0.0.1:9/mcp"], 3, "does not answer"),
        (&["http://127.0.0.1:9/mcp"], 3, "broken is not connected: could not send to it"),
        (&["ftp://example.com/"], 2, "not an http or https URL"),
        (&["npx"], 2, "a command follows `--`: forgefs add broken -- npx"),
        (&["example.com/mcp"], 2, "is not a URL; forgefs add broken https://example.com/mcp"),
        (&["localhost:3901/mcp"], 2, "is not a URL; forgefs add broken http://localhost:3901/mcp"),
        (&["./server.sh"], 2, "a command follows `--`: forgefs add broken -- ./server.sh"),
        (&["https://example.com/mcp", "--env", "A=b"], 2, "--env and --cwd are for a command"),
        (&["--header", "a", "--", "x"], 2, "'NAME: VALUE'"),
        (&["http://127.0.0.1:9/mcp", "-H", "Authorization: Bearer "], 2, "the value after Bearer is empty"),
        (&["--env", "MISSING_TOKEN", "--", "x"], 2, "environment variable `MISSING_TOKEN` is not set"),
        (&["--", "forgefs", "serve"], 2, "it is ForgeFS itself"),
        (&[], 2, "required"),
    ];
    for (words, code, says) in cases {
        let output = on_file(&fence, &[&["add", "broken"], *words].concat());
        assert_eq!(output.code, Some(*code), "{words:?}: {output:?}");
        assert!(output.stderr.contains(says), "{words:?}: no {says:?} in {}", output.stderr);
        assert!(!output.stderr.contains("[forgefs: started"), "{words:?}: {output:?}");
        assert!(!fence.work().join("forge.toml").exists(), "{words:?}");
    }
    for name in ["a b", "results", "é", ""] {
        let output = on_file(&fence, &["add", name, "--no-check", "--", "x"]);
        assert!(output.code == Some(2) && output.stderr.contains("not usable as the name"), "{name}: {output:?}");
    }
    on_file(&fence, &["add", "broken", "--no-check", "--", "python3", "dies.py"]).success();
    assert!(text(&fence).contains("[servers.broken]"));
}

#[test]
fn a_program_that_says_nothing_is_given_up_before_one_that_installs_first_would_be() {
    let fence = Fence::new();
    let output = on_file(&fence, &["add", "broken", "--", "sleep", "600"]);
    assert!(
        output.code == Some(3) && output.stderr.contains("it has said nothing in 30 s: is it an MCP"),
        "{output:?}"
    );
    assert!(!fence.work().join("forge.toml").exists());
}

#[test]
fn a_server_that_keeps_a_session_is_written_with_its_share() {
    let fence = Fence::new();
    for (name, package, is_kept) in [
        ("browser", "@playwright/mcp@latest", true),
        ("devtools", "chrome-devtools-mcp", true),
        ("thinking", "@modelcontextprotocol/server-sequential-thinking", true),
        ("files", "@modelcontextprotocol/server-filesystem", false),
    ] {
        on_file(&fence, &["add", name, "--no-check", "--", "npx", "-y", package]).success();
        let written = text(&fence);
        let (before, entry) = written.split_once(&format!("[servers.{name}]")).expect("written");
        assert_eq!(entry.contains("share = \"session\""), is_kept, "{entry}");
        assert_eq!(
            before.trim_end().lines().last().is_some_and(|line| line.starts_with("# It keeps a session")),
            is_kept
        );
    }
    on_file(&fence, &["list"]).success();
}

#[test]
fn a_credential_is_written_as_a_reference() {
    let fence = Fence::new();
    let sample = ["--", FORGEFS, "demo-server", "tickets"];
    let run = |args: &[&str]| {
        let args = [&["--config", "forge.toml", "add"], args].concat();
        finish(fence.forgefs(args).env("MY_TOKEN", TOKEN), "")
    };
    // A shell has expanded it.
    let known = run(&[&["one", "--env", &format!("GH=Bearer {TOKEN}"), "--env", "LEVEL=debug"], &sample[..]].concat())
        .success();
    assert!(text(&fence).contains("env.GH = \"Bearer ${MY_TOKEN}\"\nenv.LEVEL = \"debug\""), "{}", text(&fence));
    assert!(known.stderr.contains("it refers to MY_TOKEN"), "{}", known.stderr);
    // Where we are is no credential, whatever the variable is called.
    let here = fence.work().display().to_string();
    let mut path = fence.forgefs(["--config", "forge.toml", "add", "here", "--no-check", "--", "server", &here]);
    finish(path.env("MY_TOKEN", TOKEN).env("PWD", &here).env("KEY_FILE_PATH", &here), "").success();
    assert!(text(&fence).contains(&format!("args = [{here:?}]")), "{}", text(&fence));
    // A reference stays one, also where another variable holds its name.
    let named = ["--config", "forge.toml", "add", "named", "--no-check", "--env", "X=${MY_TOKEN}", "--", "server"];
    finish(fence.forgefs(named).env("MY_TOKEN", TOKEN).env("SECRET_NAME", "MY_TOKEN"), "").success();
    assert!(text(&fence).contains("env.X = \"${MY_TOKEN}\"\n"), "{}", text(&fence));
    // Its value is known to this command alone.
    let given = run(&[&["two", "--env", "API_KEY=sk-abcdefgh12345678"], &sample[..]].concat()).success();
    assert!(text(&fence).contains("enabled = false\n") && text(&fence).contains("env.API_KEY = \"${API_KEY}\""));
    assert!(given.stderr.contains("export API_KEY") && given.stderr.contains("forgefs enable two"), "{}", given.stderr);
    // Enabling it would break the configuration of all servers.
    let before = text(&fence);
    let refused = finish(fence.forgefs(["--config", "forge.toml", "enable", "two"]).env("MY_TOKEN", TOKEN), "");
    assert!(refused.code == Some(2) && refused.stderr.contains("`API_KEY` is not set"), "{refused:?}");
    assert_eq!(text(&fence), before);
    let mut enable = fence.forgefs(["--config", "forge.toml", "enable", "two"]);
    finish(enable.env("MY_TOKEN", TOKEN).env("API_KEY", "k"), "").success();
    // In arguments, URLs and headers, and not without a word.
    run(&[
        "three",
        "--no-check",
        "https://example.com/mcp?api_key=k3y-of-three",
        "-H",
        "Authorization: Bearer h3ader-token",
    ])
    .success();
    run(&["four", "--no-check", "--", "server", "--token", "argument-token"]).success();
    // In the program's own path and folder too, but agents read a description.
    run(&["six", "--no-check", "--cwd", &format!("/srv/{TOKEN}"), "--", &format!("/opt/{TOKEN}/server")]).success();
    assert!(
        text(&fence).contains("command = \"/opt/${MY_TOKEN}/server\"\ncwd = \"/srv/${MY_TOKEN}\""),
        "{}",
        text(&fence)
    );
    for description in
        [&format!("for {TOKEN}"), "log in with password=hunter2secret", "ghp_9z8Y7x6W5v4U3t2S1r0Q9p8O7n6M5l4K3j2I"]
    {
        let refused = run(&["seven", "--no-check", "--description", description, "--", "server"]);
        assert!(
            refused.code == Some(2) && refused.stderr.contains("--description: it has a credential"),
            "{refused:?}"
        );
        assert!(!refused.stderr.contains(description) && !text(&fence).contains("servers.seven"), "{refused:?}");
    }
    for secret in [TOKEN, "sk-abcdefgh12345678", "k3y-of-three", "h3ader-token", "argument-token"] {
        assert!(!text(&fence).contains(secret), "{}", text(&fence));
    }
    let clear = run(&["five", "--no-check", "--in-clear", "--", "server", "--token", "argument-token"]).success();
    assert!(text(&fence).contains("argument-token") && clear.stderr.contains("credential in plain text"), "{clear:?}");
    let listed =
        finish(fence.forgefs(["--config", "forge.toml", "list"]).env("MY_TOKEN", TOKEN).env("API_KEY", "k"), "");
    assert!(listed.stdout.contains("--token [redacted]"), "{listed:?}");
    assert!(!format!("{listed:?}").contains("argument-token"), "{listed:?}");
}

#[test]
fn a_file_that_cannot_be_edited_safely_stays_as_it_is() {
    let long = format!("[servers.old]\nenabled = false\ncommand = \"x\"\n{}", "# ten megabytes\n".repeat(660_000));
    let valid = "[servers.old]\ncommand = \"x\"\nenabled = false\n";
    for (why, before, says) in [
        ("not TOML", "[servers.old\n", "not valid TOML"),
        ("JSON", "{\"mcpServers\": {}}", "this looks like JSON"),
        ("twice", "[servers.a]\n[servers.a]\n", "not valid TOML"),
        ("ten megabytes", long.as_str(), "over the limit"),
        ("another table", "[[servers]]\nname = \"a\"\n", "without loss"),
        ("a mistake elsewhere", "servers = 3\n", "without loss"),
    ] {
        let fence = Fence::new();
        fence.write("forge.toml", before);
        for args in [&["add", "new", "--no-check", "--", "x"][..], &["remove", "old"], &["disable", "old"]] {
            let output = on_file(&fence, args);
            assert_eq!(output.code, Some(2), "{why}, {args:?}: {output:?}");
            assert!(args[0] != "add" || output.stderr.contains(says), "{why}: no {says:?} in {}", output.stderr);
            assert!(text(&fence) == before, "{why}, {args:?}: the file has changed");
        }
        assert_eq!(beside(&fence), Vec::<String>::new(), "{why}");
    }
    // What names the server elsewhere would break.
    let fence = Fence::new();
    let named = format!("{valid}[groups.g]\nservers = [\"old\"]\n");
    fence.write("forge.toml", &named);
    let refused = on_file(&fence, &["remove", "old"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("groups.g"), "{refused:?}");
    assert_eq!(text(&fence), named);
    // A configuration that is broken already can be repaired.
    fence.write("forge.toml", "[servers.old]\ncommand = \"x\"\nenv.A = \"${NOT_SET}\"\n");
    on_file(&fence, &["disable", "old"]).success();
    on_file(&fence, &["ls"]).success();
}

#[test]
fn a_switch_that_is_neither_true_nor_false_is_replaced_and_the_user_is_told() {
    for (word, value) in [("enable", "true"), ("disable", "false")] {
        let fence = Fence::new();
        let with = |value: &str| format!("[servers.old]\nenabled = {value} # why\ncommand = \"x\"\n");
        fence.write("forge.toml", &with("\"${ON}\""));
        let output = on_file(&fence, &[word, "old"]).success();
        let said = format!("wrote `enabled = {value}` over a value that is not true or false");
        assert!(output.stderr.contains(&said), "{}", output.stderr);
        assert_eq!(text(&fence), with(value));
        on_file(&fence, &["list"]).success();
    }
}

#[test]
fn a_server_in_several_neighbouring_members_is_removed_as_a_whole() {
    for (before, after) in [
        (
            "servers = { old.command = \"x\", old.args = [], new = { command = \"y\" } }",
            "{ new = { command = \"y\" } }",
        ),
        (
            "servers = { new = { command = \"y\" }, old.command = \"x\", old.args = [] }",
            "{ new = { command = \"y\" } }",
        ),
    ] {
        let fence = Fence::new();
        fence.write("forge.toml", before);
        on_file(&fence, &["remove", "old"]).success();
        assert_eq!(text(&fence), format!("servers = {after}"));
    }
}

#[cfg(unix)]
#[test]
fn links_modes_and_read_only_files_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let fence = Fence::new();
    let real = fence.write("dotfiles/forge.toml", "# mine\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("a mode");
    let link = fence.work().join("forge.toml");
    symlink(&real, &link).expect("a link");
    on_file(&fence, &["add", "one", "--no-check", "--", "x"]).success();
    assert_eq!(fs::read_link(&link).expect("still a link"), real);
    assert!(fs::read_to_string(&real).expect("the target").starts_with("# mine\n\n[servers.one]"));
    assert_eq!(fs::metadata(&real).expect("the target").permissions().mode() & 0o777, 0o640);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o440)).expect("a mode");
    let before = text(&fence);
    let refused = on_file(&fence, &["remove", "one"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("read-only"), "{refused:?}");
    assert_eq!(text(&fence), before);
}

#[test]
fn several_editors_at_once_lose_nothing() {
    let fence = Fence::new();
    fence.write("forge.toml", "# mine\n");
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            fence.forgefs(["--config", "forge.toml", "add", name, "--no-check", "--", "x"]).spawn().expect("started")
        })
        .collect();
    assert!(children.into_iter().all(|mut child| child.wait().expect("ended").success()));
    let text = text(&fence);
    let lost: Vec<_> = names.iter().filter(|name| !text.contains(&format!("[servers.{name}]"))).collect();
    assert!(lost.is_empty() && text.starts_with("# mine\n"), "{lost:?}: {text}");
}

/// Answers on a terminal; `None`, visibly, without `script`.
fn on_terminal(fence: &Fence, args: &str, typed: &str) -> Option<Output> {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        crate::real::skipped("no `script` to make a terminal");
        return None;
    }
    let mut script = Command::new("script");
    script.args(["-qec", &format!("'{FORGEFS}' {args}"), "/dev/null"]).current_dir(fence.work());
    fence.enclose(&mut script);
    Some(finish(&mut script, typed))
}

#[test]
fn without_a_configuration_a_person_is_told_how_to_begin() {
    let fence = Fence::new();
    let Some(told) = on_terminal(&fence, "", "") else { return };
    for says in ["init --import", "add NAME -- COMMAND", "add NAME URL", "connect", "demo"] {
        assert!(told.stdout.contains(&format!("forgefs {says}")), "{says}: {told:?}");
    }
    // A client, on pipes, gets the error as before.
    let piped = fence.run::<&str>([]);
    assert_eq!(piped.code, Some(2));
    assert!(piped.stderr.starts_with("error: there is no forge.toml here") && piped.stdout.is_empty(), "{piped:?}");
    // One that there is, is served.
    fence.write("forge.toml", "");
    let Some(served) = on_terminal(&fence, "", "") else { return };
    assert!(served.stdout.contains("serves MCP on the terminal"), "{served:?}");
}

#[test]
fn on_a_terminal_it_asks_before_it_writes() {
    let file: fn(&Fence) -> PathBuf = |fence| fence.work().join("forge.toml");
    let add = format!("--config forge.toml add desk -- '{FORGEFS}' demo-server tickets");
    for (typed, is_written) in [("n\n", false), ("\n", false), ("y\n", true)] {
        let fence = Fence::new();
        let Some(output) = on_terminal(&fence, &add, typed) else { return };
        assert!(output.stdout.contains("Write desk to"), "{output:?}");
        assert_eq!(Path::exists(&file(&fence)), is_written, "{typed:?}: {output:?}");
    }
}

#[test]
fn a_name_that_scripts_cannot_write_is_told_with_the_one_that_they_can() {
    let fence = Fence::new();
    let add = |name: &str| on_file(&fence, &["add", name, "--no-check", "--", "x"]).success().stderr;
    assert!(!add("plain").contains("scripts and paths"));
    for (name, identifier) in [("git-1", "git_1"), ("forge", "forge_"), ("2fa", "_2fa")] {
        let told = add(name);
        let says = format!("call {name} `{identifier}`: {identifier}.TOOL(…), /{identifier}/");
        assert!(told.contains(&says), "no {says:?} in {told}");
        assert!(on_file(&fence, &["ls"]).stdout.contains(&format!("{identifier}/")), "{name}");
    }
    // The exact spelling takes the identifier of the other one.
    let told = add("git_1");
    assert!(told.contains("call git-1 `git_1_2` from now on, not `git_1`") && !told.contains("call git_1 "), "{told}");
}

#[test]
fn a_server_is_added_to_a_group() {
    let fence = Fence::new();
    let add = |name: &str, group: &str| on_file(&fence, &["add", name, "--no-check", "--group", group, "--", "x"]);
    add("mail", "private").success();
    add("chat", "private").success();
    assert!(text(&fence).contains("\n[groups.private]\nservers = [\"mail\", \"chat\"]\n"), "{}", text(&fence));
    let before = text(&fence);
    for (group, says) in [("mail", "not usable as the name of a group"), ("*", "not usable"), ("", "--group")] {
        let refused = add("web", group);
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{group}: {refused:?}");
        assert_eq!(text(&fence), before, "{group}");
    }
}
