//! `forgefs connect`: the configurations of MCP clients, edited without loss.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Fence, Output, finish, up};
use crate::faulty::has_python;
use crate::real::{Real, path};

/// A client: name, file in the home folder, place of the entry, and the entry; `@` stands for the executable.
const CLIENTS: &[(&str, &str, &str, &str)] = &[
    (
        "claude-code",
        ".claude.json",
        "/mcpServers/forgefs",
        r#"{"type": "stdio", "command": "@", "args": ["serve", "--config", "~"]}"#,
    ),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "/mcpServers/forgefs",
        r#"{"command": "@", "args": ["serve", "--config", "~"]}"#,
    ),
    ("cursor", ".cursor/mcp.json", "/mcpServers/forgefs", r#"{"command": "@", "args": ["serve", "--config", "~"]}"#),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "/servers/forgefs",
        r#"{"type": "stdio", "command": "@", "args": ["serve", "--config", "~"]}"#,
    ),
    ("codex", ".codex/config.toml", "/mcp_servers/forgefs", r#"{"command": "@", "args": ["serve", "--config", "~"]}"#),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "/mcpServers/forgefs",
        r#"{"command": "@", "args": ["serve", "--config", "~"]}"#,
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "/context_servers/forgefs",
        r#"{"command": "@", "args": ["serve", "--config", "~"]}"#,
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "/mcpServers/forgefs",
        r#"{"command": "@", "args": ["serve", "--config", "~"]}"#,
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "/mcp/forgefs",
        r#"{"type": "local", "command": ["@", "serve", "--config", "~"], "enabled": true}"#,
    ),
];

/// JSON of a person: a comment on every level, no fixed order, trailing commas, a token.
const JSONC: &str = r#"// mine
{
    "zzz": 1.50, /* first */ "theme": "dark",
    "TABLE": {
        // the forge
        "github": {
            "env": {"GITHUB_TOKEN": "planted-token"}, // work
            "args": ["-y", "--key", "planted-key"],
            "command": "npx",
        },
    },
    "unknown": [1, 2,], // last: planted-comment
}
"#;
/// The same in TOML.
const TOML: &str = "zzz = 1.50 # first\ntheme = 'dark'\n\n# the forge\n[mcp_servers.github]\n\
                    env = { GITHUB_TOKEN = \"planted-token\" } # work\nargs = [\"-y\", \"--key\", \"planted-key\"]\n\
                    command = \"npx\"\n\n# last: planted-comment\n[unknown]\nlist = [\n    1,\n    2,\n]\n";

fn home(fence: &Fence) -> PathBuf {
    fence.work().parent().expect("the fence around it").join("home")
}

/// Writes a file of the home folder, with its folders.
fn put(fence: &Fence, file: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = home(fence).join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, content).expect("written");
    path
}

/// Every file below the home folder, with its content.
fn files(fence: &Fence) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![home(fence)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push((path.clone(), fs::read(&path).expect("a file"))),
            }
        }
    }
    found.sort();
    found
}

fn connect(fence: &Fence, args: &[&str]) -> Output {
    fence.run([&["connect"], args].concat())
}

/// Reads a file as a client would.
fn parsed(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a file");
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    parsed_text(if is_toml { "codex" } else { "" }, text.trim_start_matches('\u{feff}'))
}

fn parsed_text(client: &str, text: &str) -> Value {
    match client == "codex" {
        true => serde_json::to_value(toml::from_str::<toml::Table>(text).expect("TOML")).expect("JSON"),
        false => jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default()).expect("JSON"),
    }
}

fn content(client: &str, table: &str) -> String {
    match client {
        "codex" => TOML.to_owned(),
        _ => JSONC.replace("TABLE", table),
    }
}

fn table(place: &str) -> &str {
    place.split('/').nth(1).expect("a table")
}

#[test]
fn every_client_is_connected_as_documented_once_and_gets_its_bytes_back() {
    for (client, file, place, entry) in CLIENTS {
        let plain = content(client, table(place));
        let windows = plain.replace('\n', "\r\n");
        let marked = format!("\u{feff}{windows}");
        let minified = format!(r#"{{"a":1,"{}":{{"x":{{"command":"x"}}}},"b":[]}}"#, table(place));
        let is_toml = *client == "codex";
        let one_line = if is_toml { "a=1" } else { minified.as_str() };
        for before in [plain.as_str(), plain.trim_end(), &windows, &marked, "", "\n\n", one_line] {
            let fence = Fence::new();
            let path = put(&fence, file, before);
            let old = files(&fence);
            let output = connect(&fence, &[client, "--yes"]).success();
            assert!(output.stderr.contains("connected in ~/"), "{}", output.stderr);
            let after = fs::read_to_string(&path).expect("a file");
            let config = home(&fence).join(".config/forgefs/forge.toml");
            let expected =
                entry.replace('@', env!("CARGO_BIN_EXE_forgefs")).replace('~', &config.display().to_string());
            let expected: Value = serde_json::from_str(&expected).expect("JSON");
            assert_eq!(parsed(&path).pointer(place), Some(&expected), "{client}: {after}");
            // Every line of before is there, in its order; the last line of a table may have got a comma.
            let mut lines = after.lines();
            for line in before.lines().filter(|line| !line.is_empty() && *line != minified) {
                assert!(lines.any(|new| new == line || new == format!("{line},")), "{client}: no {line:?} in\n{after}");
            }
            assert_eq!(after.starts_with('\u{feff}'), before.starts_with('\u{feff}'));
            if before.contains("\r\n") {
                assert!(!after.replace("\r\n", "").contains('\n'), "{client}: mixed line ends in\n{after}");
            }
            assert_eq!(files(&fence).len(), 2, "one backup");
            let again = connect(&fence, &[client, "--yes"]).success();
            assert!(again.stderr.contains("connected already"), "{}", again.stderr);
            assert_eq!(fs::read_to_string(&path).expect("a file"), after);
            connect(&fence, &[client, "--undo", "--yes"]).success();
            assert_eq!(files(&fence), old, "{client}: other bytes came back");
        }
    }
}

#[test]
fn an_executable_in_a_cache_is_started_by_what_put_it_there() {
    let npx = ".npm/_npx/0a1b/node_modules/@forgefs/linux-x64/bin";
    for (folder, command, args) in
        [(npx, "npx", vec!["-y", "forgefs"]), (".cache/uv/archive-v0/Xy_9/bin", "uvx", vec!["forgefs"])]
    {
        let fence = Fence::new();
        let folder = home(&fence).join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join("forgefs");
        fs::copy(env!("CARGO_BIN_EXE_forgefs"), &program).expect("a copy");
        let mut connect = std::process::Command::new(program);
        fence.enclose(connect.args(["connect", "cursor", "--yes"]).current_dir(fence.work()));
        finish(&mut connect, "").success();
        let entry = parsed(&home(&fence).join(".cursor/mcp.json"))["mcpServers"]["forgefs"].clone();
        let config = home(&fence).join(".config/forgefs/forge.toml");
        let args: Vec<&str> = args.into_iter().chain(["serve", "--config", path(&config)]).collect();
        assert_eq!((&entry["command"], &entry["args"]), (&json!(command), &json!(args)));
    }
}

#[test]
fn a_file_that_connect_made_is_removed_again() {
    for (client, file, place, _) in CLIENTS {
        let fence = Fence::new();
        connect(&fence, &[client, "--yes"]).success();
        assert!(parsed(&home(&fence).join(file)).pointer(place).is_some());
        let output = connect(&fence, &[client, "--undo", "--yes"]).success();
        assert!(output.stderr.contains("is removed"), "{}", output.stderr);
        assert!(files(&fence).is_empty());
    }
}

#[test]
fn what_was_edited_since_stays_when_only_the_entry_is_taken_out() {
    for (client, file, place, _) in CLIENTS {
        let fence = Fence::new();
        let before = content(client, table(place));
        let path = put(&fence, file, &before);
        connect(&fence, &[client, "--yes"]).success();
        let edited = fs::read_to_string(&path).expect("a file").replace("dark", "light");
        fs::write(&path, &edited).expect("written");
        let output = connect(&fence, &[client, "--undo", "--yes"]).success();
        assert!(output.stderr.contains("was edited since"), "{}", output.stderr);
        assert_eq!(fs::read_to_string(&path).expect("a file"), before.replace("dark", "light"), "{client}");
        let backups: Vec<_> = files(&fence).into_iter().map(|(_, content)| content).collect();
        assert!(backups.contains(&edited.into_bytes()) && backups.contains(&before.into_bytes()));
        let again = connect(&fence, &[client, "--undo", "--yes"]).success();
        assert!(again.stderr.contains("not connected"), "{}", again.stderr);
    }
}

#[test]
fn without_a_terminal_the_change_is_shown_without_credentials_and_nothing_is_written() {
    let fence = Fence::new();
    for (client, file, place, _) in CLIENTS {
        put(&fence, file, content(client, table(place)));
    }
    let old = files(&fence);
    let shown = connect(&fence, &[]).success();
    assert!(shown.stderr.contains("nothing of this was written; --yes writes it"), "{}", shown.stderr);
    for (_, file, ..) in CLIENTS {
        let added = format!("+++ {}", home(&fence).join(file).display());
        assert!(shown.stdout.contains(&added), "{file}: {}", shown.stdout);
    }
    assert_eq!(shown.stdout.matches("+[mcp_servers.forgefs]").count(), 1, "{}", shown.stdout);
    assert_eq!(files(&fence), old);
    let written = connect(&fence, &["--yes"]).success();
    let undone = connect(&fence, &["--undo"]).success();
    for output in [shown, written, undone] {
        assert!(!format!("{}{}", output.stdout, output.stderr).contains("planted"), "{}", output.stdout);
    }
    connect(&fence, &["--undo", "--yes"]).success();
    assert_eq!(files(&fence), old);
}

#[test]
fn an_entry_of_an_older_configuration_is_updated_and_keeps_its_other_keys() {
    for (client, file, place, _) in CLIENTS {
        let fence = Fence::new();
        let config = fence.write("forge.toml", "");
        let old = match *client {
            "codex" => "[mcp_servers.forgefs]\ncommand = \"old\"\nargs = [\"--token\", \"planted-word-1234\"]\n\
                        env = { A = \"planted\" } # mine\n"
                .to_owned(),
            "opencode" => {
                r#"{"mcp": {"forgefs": {"command": ["old", "--token", "planted-word-1234"], "environment": {"A": "planted"}}}}"#
                    .to_owned()
            }
            _ => format!(
                r#"{{"{}": {{"forgefs": {{"command": "old", "args": ["--token", "planted-word-1234"], "env": {{"A": "planted"}}}}}}}}"#,
                table(place)
            ),
        };
        let path = put(&fence, file, &old);
        let output = connect(&fence, &[client]).success();
        assert!(!output.stdout.contains("planted") && output.stdout.contains("old"), "{}", output.stdout);
        connect(&fence, &[client, "--yes"]).success();
        let entry = parsed(&path).pointer(place).expect("an entry").clone();
        let all = entry.to_string();
        assert!(all.contains(r#""A":"planted""#) && !all.contains("old"), "{all}");
        assert!(all.contains("--config") && all.contains(&json!(config).to_string()), "{all}");
        connect(&fence, &[client, "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&path).expect("a file"), old, "{client}");
    }
}

#[test]
fn the_configuration_in_use_is_named_unless_the_gateway_finds_it_anywhere() {
    let fence = Fence::new();
    let usual = put(&fence, ".config/forgefs/forge.toml", "");
    let other = put(&fence, "xdg/forgefs/forge.toml", "");
    let here = fence.work().join("forge.toml");
    let args = |variable: &str, value: &Path, named: &[&str]| {
        let mut command = fence.forgefs([named, &["connect", "windsurf", "--yes"]].concat());
        finish(command.env(variable, value), "").success();
        parsed(&home(&fence).join(".codeium/windsurf/mcp_config.json"))["mcpServers"]["forgefs"]["args"].clone()
    };
    let xdg = |folder: &str| home(&fence).join(folder);
    assert_eq!(args("XDG_CONFIG_HOME", &xdg(".config"), &[]), json!(["serve", "--config", usual]));
    assert_eq!(args("XDG_CONFIG_HOME", &xdg("xdg"), &[]), json!(["serve", "--config", other]));
    assert_eq!(args("FORGEFS_CONFIG", &usual, &[]), json!(["serve", "--config", usual]));
    assert_eq!(args("FORGEFS_CONFIG", &other, &[]), json!(["serve", "--config", other]));
    fs::write(&here, "").expect("written");
    assert_eq!(args("A", Path::new("b"), &[]), json!(["serve", "--config", here]));
    assert_eq!(args("A", Path::new("b"), &["--config", path(&usual)]), json!(["serve", "--config", usual]));
}

/// Wrong contents of Cursor's file, with the reason that is told.
const BROKEN: &[(&str, &str)] = &[
    ("{\"mcpServers\": {}", "Unterminated object"),
    ("{\"mcpServers\": {} \"a\": 1}", "1:18: "),
    ("{'mcpServers': {}}", "1:2: "),
    ("[]", "it holds something else than an object"),
    ("null", "it holds something else than an object"),
    ("{\"mcpServers\": null}", "its `mcpServers` is not an object"),
    ("{\"mcpServers\": [{}]}", "its `mcpServers` is not an object"),
    ("{\"mcpServers\": {\"forgefs\": \"x\"}}", "its `forgefs` is not an object"),
    ("{\"mcpServers\": {}, \"mcpServers\": {}}", "it has `mcpServers` 2 times"),
    ("{\"mcpServers\": {}, \"mcp\\u0053ervers\": {}}", "it has `mcpServers` 2 times"),
    ("{\"mcpServers\": {\"forgefs\": {}, \"forgefs\": {}}}", "it has `forgefs` 2 times"),
];

#[test]
fn a_file_that_cannot_be_edited_stays_as_it_is_and_the_user_is_told_what_to_paste() {
    let fails = |fence: &Fence, client: &str, expected: &str, what: &str| {
        let old = fs::symlink_metadata(home(fence)).map(|_| files_and_links(fence)).expect("a folder");
        let output = connect(fence, &[client, "--yes"]);
        assert_eq!(output.code, Some(1), "{what}: {}", output.stderr);
        assert!(output.stderr.contains(expected), "{what}: {}", output.stderr);
        assert!(output.stderr.contains("by hand, merge this into ~/."), "{what}: {}", output.stderr);
        assert!(output.stdout.contains(env!("CARGO_BIN_EXE_forgefs")), "{what}: {}", output.stdout);
        assert_eq!(files_and_links(fence), old, "{what}");
    };
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, expected) in BROKEN.iter().copied().chain([(deep.as_str(), "nesting depth")]) {
        let fence = Fence::new();
        put(&fence, ".cursor/mcp.json", text);
        fails(&fence, "cursor", expected, &text[..text.len().min(60)]);
    }
    for (text, expected) in [
        ("a = ", "1:5: "),
        ("mcp_servers = 1", "its `mcp_servers` is not a table"),
        ("[[mcp_servers]]", "its `mcp_servers` is not a table"),
        ("[mcp_servers]\nforgefs = 1", "its `forgefs` is not a table"),
        ("[mcp_servers]\n[mcp_servers]", "2:2: duplicate key"),
        (&format!("a = {}", "[".repeat(100_000)), "recurs"),
    ] {
        let fence = Fence::new();
        put(&fence, ".codex/config.toml", text);
        fails(&fence, "codex", expected, &text[..text.len().min(60)]);
    }
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let fence = Fence::new();
    let file = put(&fence, ".cursor/mcp.json", utf16);
    fails(&fence, "cursor", "it is not UTF-8 text", "UTF-16");
    fs::File::options().write(true).open(&file).and_then(|file| file.set_len(33 << 20)).expect("long");
    fails(&fence, "cursor", "over the limit of 33554432 bytes", "huge");
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder");
    fails(&fence, "cursor", "it is a folder, not a file", "a folder");
    fs::remove_dir(&file).expect("removed");
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    fails(&fence, "cursor", "it is a FIFO", "a FIFO");
    fs::remove_file(&file).expect("removed");
    std::os::unix::fs::symlink("nowhere", &file).expect("a link");
    fails(&fence, "cursor", "it is a link to nowhere, which does not exist", "a broken link");
    fs::remove_file(&file).expect("removed");
    fs::write(&file, "{}").expect("written");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o444)).expect("a mode");
    fails(&fence, "cursor", "it is read-only (mode 0444)", "read-only");
}

/// Every name below the home folder, with kind and length.
fn files_and_links(fence: &Fence) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![home(fence)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let metadata = entry.path().symlink_metadata().expect("it is there");
            found.push((entry.path(), format!("{:?} {}", metadata.file_type(), metadata.len())));
            folders.extend(metadata.is_dir().then(|| entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_files_of_a_project_and_behind_a_link_are_the_ones_that_are_edited() {
    let fence = Fence::new();
    let users = put(&fence, ".cursor/mcp.json", "{}");
    let projects = fence.write(".cursor/mcp.json", "{}");
    fs::create_dir(fence.work().join(".git")).expect("a folder");
    let below = fence.work().join("src/deep");
    fs::create_dir_all(&below).expect("a folder");
    finish(fence.forgefs(["connect", "cursor", "--yes"]).current_dir(&below), "").success();
    assert!(parsed(&projects).pointer("/mcpServers/forgefs").is_some());
    assert_eq!(fs::read_to_string(&users).expect("a file"), "{}");
    // Settings in a repository of their own, as of many people.
    let real = put(&fence, "dotfiles/zed.json", "// mine\n{}\n");
    let link = home(&fence).join(".config/zed/settings.json");
    fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    connect(&fence, &["zed", "--yes"]).success();
    assert!(link.is_symlink() && parsed(&real).pointer("/context_servers/forgefs").is_some());
    connect(&fence, &["zed", "--undo", "--yes"]).success();
    assert!(link.is_symlink() && fs::read_to_string(&real).expect("a file") == "// mine\n{}\n");
}

#[test]
fn several_of_them_and_a_client_that_writes_at_the_same_time_lose_nothing() {
    let fence = Fence::new();
    let file = put(&fence, ".claude.json", r#"{"numStartups": 0}"#);
    let start = |args: &[&str]| {
        let mut command = fence.forgefs([&["connect", "claude-code", "--yes"], args].concat());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let configs = ["a.toml", "b.toml", "c.toml", "d.toml"].map(|name| fence.write(name, ""));
    let running: Vec<_> = configs.iter().map(|config| start(&["--config", path(config)])).collect();
    // The client counts its starts, replacing the file as a whole.
    let mut count = 0_u64;
    for _ in 0..40 {
        let Ok(mut now) = serde_json::from_str::<Value>(&fs::read_to_string(&file).expect("never missing")) else {
            panic!("half a file");
        };
        assert_eq!(now["numStartups"], count, "a version of the client was lost");
        count += 1;
        now["numStartups"] = count.into();
        let new = file.with_extension("new");
        fs::write(&new, now.to_string()).expect("written");
        fs::rename(&new, &file).expect("replaced");
        std::thread::sleep(Duration::from_millis(5));
    }
    for child in running {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let end = parsed(&file);
    assert_eq!(end["numStartups"], count);
    // The client, which knows no lock, may have overwritten an entry with what it had read before.
    connect(&fence, &["claude-code", "--yes"]).success();
    assert!(parsed(&file).pointer("/mcpServers/forgefs").is_some());
}

#[test]
fn killed_at_any_time_it_leaves_the_old_file_or_the_new_one() {
    let fence = Fence::new();
    let servers: Vec<String> =
        (0..4_000).map(|at| format!("    \"s{at}\": {{ \"command\": \"x{at}\" }}, // {at}\n")).collect();
    let old = format!("{{\n  \"mcpServers\": {{\n{}  }}\n}}\n", servers.concat());
    let file = put(&fence, ".cursor/mcp.json", &old);
    let started = std::time::Instant::now();
    connect(&fence, &["cursor", "--yes"]).success();
    let whole = started.elapsed();
    let new = fs::read_to_string(&file).expect("a file");
    let (mut killed, mut kept, mut replaced) = (0, 0, 0);
    for round in 0..40_u32 {
        let undo = fs::read_to_string(&file).expect("a file") == new;
        let args: &[&str] =
            if undo { &["connect", "cursor", "--yes", "--undo"] } else { &["connect", "cursor", "--yes"] };
        let mut command = fence.forgefs(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(whole * (round % 20) / 16);
        killed += u32::from(child.try_wait().expect("its state").is_none());
        let _ = child.kill();
        child.wait().expect("it ends");
        match fs::read_to_string(&file).expect("never missing") {
            text if text == old => kept += 1,
            text if text == new => replaced += 1,
            text => panic!("neither old nor new: {} bytes", text.len()),
        }
    }
    assert!(killed >= 10 && kept >= 3 && replaced >= 3, "killed {killed}, old {kept}, new {replaced}");
    // What the killed ones left is no obstacle, and goes away.
    connect(&fence, &["cursor", "--yes"]).success();
    connect(&fence, &["cursor", "--undo", "--yes"]).success();
    assert_eq!(fs::read_to_string(&file).expect("a file"), old);
    let left: Vec<_> =
        files(&fence).into_iter().filter(|(path, _)| path.to_string_lossy().contains(".forgefs-new-")).collect();
    assert!(left.is_empty(), "{} temporary files", left.len());
}

/// Runs `forgefs` on a terminal, with these answers.
const TERMINAL: &str = "\
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(terminal, sys.argv[1].encode().decode('unicode_escape').encode())
while True:
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    if not read:
        break
    os.write(1, read)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

fn on_a_terminal(fence: &Fence, answers: &str, args: &[&str]) -> Output {
    let mut python = Command::new("python3");
    python
        .args(["-c", TERMINAL, answers, env!("CARGO_BIN_EXE_forgefs"), "connect"])
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
        assert_eq!(written["servers"]["github"]["env"]["GITHUB_TOKEN"], "planted-token", "{client}");
        assert_eq!(fs::metadata(&forge).expect("it is there").permissions().mode() & 0o777, 0o600);
        let servers = parsed(&path)[table(place)].as_object().expect("a table").clone();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["forgefs"], "{client}");
        assert_eq!(parsed(&path)["unknown"], parsed_text(client, &before)["unknown"]);
        // A second time there is nothing to move.
        let again = on_a_terminal(&fence, "y\\n", &[client, "--import"]).success();
        assert!(again.stdout.contains("connected already"), "{}", again.stdout);
        assert_eq!(parsed(&forge), written);
        connect(&fence, &[client, "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&path).expect("a file"), before);
    }
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
    ];
    for (existing, server, stays, said) in cases {
        let Some(fence) = has_python("a terminal") else { return };
        let forge = put(&fence, ".config/forgefs/forge.toml", format!("[servers.mine]\n{existing}\n"));
        fs::set_permissions(&forge, fs::Permissions::from_mode(0o644)).expect("a mode");
        let before = fs::read_to_string(&forge).expect("a file");
        let path = put(&fence, ".cursor/mcp.json", json!({"mcpServers": {"gh": server}}).to_string());
        let output = on_a_terminal(&fence, "y\\n", &["cursor", "--import"]).success();
        assert!(output.stdout.contains(said), "{existing}: {}", output.stdout);
        let after = parsed(&path);
        assert!(after.pointer("/mcpServers/forgefs").is_some(), "{existing}: {}", output.stdout);
        assert_eq!(after.pointer("/mcpServers/gh").is_some(), stays, "{existing}: {}", output.stdout);
        assert_eq!(fs::read_to_string(&forge).expect("a file"), before, "{existing}");
        assert_eq!(fs::metadata(&forge).expect("it is there").permissions().mode() & 0o777, 0o644, "{existing}");
    }
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

/// Runs `forgefs` on a terminal, writes a file when it asks, and agrees.
const MEANWHILE: &str = "\
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[3], sys.argv[3:])
seen = b''
while True:
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    if not read:
        break
    os.write(1, read)
    if b'[y/N]' not in seen and b'[y/N]' in seen + read:
        with open(sys.argv[1], 'w') as file:
            file.write(sys.argv[2])
        os.write(terminal, b'y\\n')
    seen += read
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

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
        let mut python = Command::new("python3");
        python
            .args(["-c", MEANWHILE, self::path(&path), &later.to_string(), env!("CARGO_BIN_EXE_forgefs")])
            .args(["connect", "cursor", "--import"])
            .current_dir(fence.work());
        fence.enclose(&mut python);
        let output = finish(&mut python, "");
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

#[test]
fn where_no_client_is_installed_it_says_which_it_knows() {
    let fence = Fence::new();
    let output = connect(&fence, &["--yes"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("no MCP client is installed here"), "{}", output.stderr);
    for (client, ..) in CLIENTS {
        assert!(output.stderr.contains(client), "{client}: {}", output.stderr);
    }
    assert_eq!(connect(&fence, &["emacs"]).code, Some(2));
}

/// The walk of a new user: two real servers, a client that is connected, its own configuration read as it reads it, the
/// official client on it, a script, and all taken back.
#[test]
fn the_official_client_works_through_the_very_configuration_that_connect_wrote() {
    let Some(real) = Real::find() else { return };
    for (client, file, place, _) in CLIENTS {
        // One for each form of an entry.
        if !["claude-code", "cursor", "codex", "opencode"].contains(client) {
            continue;
        }
        let fence = Fence::new();
        let servers = ["memory", "time"];
        let config = real.forge_toml(&fence, &servers);
        fence.write("forge.toml", &config);
        let before = content(client, table(place));
        let path_of_client = put(&fence, file, &before);
        connect(&fence, &[client, "--yes"]).success();
        let entry = parsed(&path_of_client).pointer(place).expect("the entry").clone();
        works(&real, &fence, &entry, &servers);
        connect(&fence, &[client, "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&path_of_client).expect("a file"), before, "{client}");
    }
}

/// The official client starts the gateway of an entry, lists its tools and runs a script over `time`.
pub(crate) fn works(real: &Real, fence: &Fence, entry: &Value, servers: &[&str]) {
    let words = |value: &Value| -> Vec<String> {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.map(str::to_owned).collect()
    };
    let (command, args) = match entry["command"].as_str() {
        Some(command) => (command.to_owned(), words(&entry["args"])),
        None => {
            let mut all = words(&entry["command"]);
            (all.remove(0), all)
        }
    };
    let script = "time.get_current_time(timezone='UTC')['timezone']";
    let asked = json!({
        "mode": "auto", "command": command, "args": args,
        // A client starts it anywhere, with little of an environment.
        "cwd": "/", "env": {}, "ready": servers.iter().map(|server| up(server)).collect::<Vec<_>>(),
        "calls": [{"tool": "execute", "arguments": {"language": "starlark", "code": script}}],
    });
    let official = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/official_client.py");
    let mut python = Command::new(real.venv.join("bin/python"));
    fence.enclose(python.arg(official));
    let seen = finish(&mut python, &asked.to_string()).success();
    let seen: Value = serde_json::from_str(&seen.stdout).expect("the client prints JSON");
    let mut tools: Vec<&str> = seen["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["cat", "execute", "ls", "search"], "{entry}");
    assert_eq!(seen["answers"][0]["is_error"], false, "{entry}: {seen}");
    assert!(seen["answers"][0]["text"].as_str().is_some_and(|text| text.contains("UTC")), "{entry}: {seen}");
}

/// Name of a backup that was made before this content was written.
#[cfg(unix)]
fn backup_of(file: &Path, content: &str) -> PathBuf {
    use sha2::{Digest as _, Sha256};
    let digest: String = Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    PathBuf::from(format!("{}.20260101T000000Z-{digest}.forgefs-backup", path(file)))
}

#[cfg(unix)]
#[test]
fn a_planted_backup_brings_no_other_file_into_the_clients() {
    let content = "{\"mcpServers\":{\"forgefs\":{\"command\":\"forgefs\",\"args\":[\"serve\"]}},\"a\":1}\n";
    let fence = Fence::new();
    let secret = put(&fence, "secret", "planted=1\n");
    let file = put(&fence, ".cursor/mcp.json", content);
    let backup = backup_of(&file, content);
    std::os::unix::fs::symlink(&secret, &backup).expect("a link");
    let output = connect(&fence, &["cursor", "--undo", "--yes"]).success();
    assert!(output.stderr.contains("only the entry is taken out"), "{}", output.stderr);
    assert_eq!(parsed(&file), json!({"mcpServers": {}, "a": 1}));
    // A copy of it is not the client's document.
    fs::write(&file, content).expect("written");
    fs::remove_file(&backup).expect("removed");
    fs::copy(&secret, &backup).expect("a copy");
    let output = connect(&fence, &["cursor", "--undo", "--yes"]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("is not one of this file") && output.stderr.contains("remove it"));
    assert!(!format!("{}{}", output.stdout, output.stderr).contains("planted"), "{}", output.stderr);
    assert_eq!(fs::read_to_string(&file).expect("a file"), content);
}

#[test]
fn a_file_that_was_there_before_is_never_removed() {
    for (client, file, _, _) in CLIENTS {
        let fence = Fence::new();
        let before = if *client == "codex" { "" } else { "{}" };
        let path = put(&fence, file, before);
        connect(&fence, &[client, "--yes"]).success();
        let written = fs::read_to_string(&path).expect("a file");
        let touched = written + "\n";
        fs::write(&path, touched).expect("written");
        connect(&fence, &[client, "--undo", "--yes"]).success();
        let left = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{client}: {error}"));
        assert!(!left.contains("forgefs"), "{client}: {left}");
    }
}

#[test]
fn undo_says_when_an_older_entry_is_still_there() {
    let fence = Fence::new();
    let file = put(&fence, ".cursor/mcp.json", "{\"x\": 1}\n");
    let other = fence.write("other.toml", "");
    connect(&fence, &["cursor", "--yes"]).success();
    fs::write(&file, fs::read_to_string(&file).expect("a file") + "\n").expect("written");
    finish(&mut fence.forgefs(["--config", path(&other), "connect", "cursor", "--yes"]), "").success();
    let first = connect(&fence, &["cursor", "--undo", "--yes"]).success();
    assert!(first.stderr.contains("still connected"), "{}", first.stderr);
    let second = connect(&fence, &["cursor", "--undo", "--yes"]).success();
    assert!(!second.stderr.contains("still connected"), "{}", second.stderr);
    assert_eq!(parsed(&file), json!({"x": 1, "mcpServers": {}}));
}

/// Codex's file with an entry of ForgeFS, and without it.
const TAKEN_OUT: &[(&str, &str)] = &[
    (
        "# License\n\n# [mcp_servers.old]\n# command = \"precious\"\n\n[mcp_servers.forgefs]\ncommand = \"x\"\n\n# b\n\
         [mcp_servers.b]\ncommand = \"y\"\n",
        "# License\n\n# [mcp_servers.old]\n# command = \"precious\"\n\n# b\n[mcp_servers.b]\ncommand = \"y\"\n",
    ),
    ("# License\n\n# ours\n[mcp_servers.forgefs]\ncommand = \"x\"\n", "# License\n"),
    (
        "a = 1\n\n# [mcp_servers.old]\n# command = \"precious\"\n[mcp_servers.forgefs]\ncommand = \"x\"\n",
        "a = 1\n\n# [mcp_servers.old]\n# command = \"precious\"\n",
    ),
    (
        "a = 1\n\n[mcp_servers.forgefs]\ncommand = \"x\"\n\n# mine\n\n[mcp_servers.forgefs.env]\nA = \"1\"\n[b]\n",
        "a = 1\n\n# mine\n\n[b]\n",
    ),
];

#[test]
fn comments_about_other_things_stay_in_toml() {
    for (before, after) in TAKEN_OUT {
        let fence = Fence::new();
        let file = put(&fence, ".codex/config.toml", before);
        connect(&fence, &["codex", "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&file).expect("a file"), *after, "of {before}");
    }
    let fence = Fence::new();
    let file = put(&fence, ".codex/config.toml", "[mcp_servers.forgefs]\ncommand = \"old\" # c\nargs = [] # d\n");
    connect(&fence, &["codex", "--yes"]).success();
    let after = fs::read_to_string(&file).expect("a file");
    assert!(after.contains("\" # c\n") && after.contains("] # d\n") && !after.contains("old"), "{after}");
}

#[test]
fn one_line_with_many_members_is_edited_at_once() {
    let members: Vec<String> = (0..20_000).map(|at| format!("\"a{at}\":{{}}")).collect();
    let members = members.join(",");
    for text in [format!("{{\"mcpServers\":{{{members},}}}}"), format!("{{{members} /* c */}}")] {
        let fence = Fence::new();
        let file = put(&fence, ".cursor/mcp.json", &text);
        let started = std::time::Instant::now();
        connect(&fence, &["cursor", "--yes"]).success();
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert!(parsed(&file).pointer("/mcpServers/forgefs/command").is_some());
        connect(&fence, &["cursor", "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&file).expect("a file"), text);
    }
}
