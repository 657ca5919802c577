//! `forgefs connect`: the configurations of MCP clients, edited without loss.

mod comments;
mod hostile;
mod moved;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Fence, Output, finish, up};
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
        let mut connect = Command::new(program);
        fence.enclose(connect.args(["connect", "cursor", "--yes"]).current_dir(fence.work()));
        finish(&mut connect, "").success();
        let entry = parsed(&home(&fence).join(".cursor/mcp.json"))["mcpServers"]["forgefs"].clone();
        let config = home(&fence).join(".config/forgefs/forge.toml");
        let args: Vec<&str> = args.into_iter().chain(["serve", "--config", path(&config)]).collect();
        assert_eq!((&entry["command"], &entry["args"]), (&json!(command), &json!(args)));
    }
}

/// The link that the next version has too is written, not the folder of this one.
#[cfg(unix)]
#[test]
fn an_executable_behind_a_link_is_started_by_the_link() {
    use std::os::unix::fs::symlink;
    let fence = Fence::new();
    let (version, bin, other) =
        (home(&fence).join("forgefs-1.2.3"), home(&fence).join("bin"), home(&fence).join("other"));
    [&version, &bin, &other].into_iter().for_each(|folder| fs::create_dir_all(folder).expect("a folder"));
    let program = version.join("forgefs");
    fs::copy(env!("CARGO_BIN_EXE_forgefs"), &program).expect("a copy");
    symlink(&program, bin.join("forgefs")).expect("a link");
    symlink(&version, home(&fence).join("current")).expect("a link");
    fs::write(other.join("forgefs"), "another program").expect("written");
    let linked = bin.join("forgefs");
    let current = home(&fence).join("current/forgefs");
    for (path, started, wanted) in [
        (path(&bin), &linked, &linked),
        (path(&bin), &program, &linked),
        ("/nowhere", &current, &current),
        ("/nowhere", &program, &program),
        // The one on PATH is another.
        (path(&other), &current, &current),
    ] {
        let mut connect = std::process::Command::new(started);
        fence.enclose(connect.args(["connect", "cursor", "--yes"]).current_dir(fence.work()));
        finish(connect.env("PATH", path), "").success();
        let entry = parsed(&home(&fence).join(".cursor/mcp.json"))["mcpServers"]["forgefs"]["command"].clone();
        assert_eq!(entry, json!(crate::real::path(wanted)), "{} with PATH={path}", started.display());
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
    let seen: Value = seen.object();
    let mut tools: Vec<&str> = seen["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["cat", "execute", "ls", "search"], "{entry}");
    assert_eq!(seen["answers"][0]["is_error"], false, "{entry}: {seen}");
    assert!(seen["answers"][0]["text"].as_str().is_some_and(|text| text.contains("UTC")), "{entry}: {seen}");
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
