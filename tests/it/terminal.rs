//! The operator's terminal: of any text of a server, on any path, only line ends and tabs have an effect.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Fence, finish};
use crate::faulty::has_python;

/// Terminal escapes, their C1 forms, direction marks, and invisible characters.
const WORDS: &str = "A\u{1b}[31mB\u{1b}]0;title\u{7}C\u{9b}2JD\u{90}q\u{9c}E\u{202e}F\u{200b}G\u{e0041}H\u{8}\u{7f}I\rJ\u{1b}]52;c;eA==\u{7}";

/// A folder with the hostile server configured; `None` without Python.
fn fence() -> Option<(Fence, PathBuf)> {
    let fence = has_python("tests/servers/hostile_words.py")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile_words.py");
    // A program gets no zero byte as an argument, and the configuration is TOML: JSON in a TOML string has both
    // escapes.
    let words = ascii(&json!(WORDS).to_string());
    let config =
        format!("[servers.hostile]\ncommand = \"python3\"\nargs = [{:?}, {words:?}]\n", script.display().to_string());
    let file = fence.write("forge.toml", &config);
    fence.write("value.js", "console.log(await hostile.say()); return await hostile.say()");
    fence.write("text.js", "return (await hostile.say())[0]");
    fence.write("fail.js", "await hostile.fail()");
    fence.write("throw.js", "throw new Error((await hostile.say())[0])");
    fence.write("plan.js", "await hostile.fail({text: (await hostile.say())[0]}); return 1");
    Some((fence, file))
}

/// JSON with everything but ASCII escaped.
fn ascii(json: &str) -> String {
    let unit = |unit: u16| {
        if unit < 127 {
            char::from_u32(unit.into()).map(String::from).unwrap_or_default()
        } else {
            format!("\\u{unit:04x}")
        }
    };
    json.encode_utf16().map(unit).collect()
}

const COMMANDS: &[&[&str]] = &[
    &["call", "hostile", "say"],
    &["call", "hostile", "fail"],
    &["run", "value.js"],
    &["run", "value.js", "--json"],
    &["run", "text.js"],
    &["run", "fail.js"],
    &["run", "fail.js", "--json"],
    &["run", "throw.js"],
    &["run", "throw.js", "--json"],
    &["run", "plan.js", "--dry-run"],
    &["ls", "/", "--depth", "4"],
    &["ls", "/hostile/resources"],
    &["ls", "/hostile/prompts"],
    &["cat", "/hostile/resources/text.txt"],
    &["cat", "/hostile/resources/x://any"],
    &["cat", "/hostile/stderr"],
    &["cat", "/hostile/prompts/ask.md"],
    &["cat", "/hostile/**"],
    &["cat", "/hostile/README.md", "/hostile/say.json", "/hostile/say.md", "/hostile/say.d.ts"],
    &["cat", "/hostile/nothing\u{1b}[2J"],
    &["search", "say"],
    &["search", "nothing\u{202e}"],
    &["doctor"],
    &["audit", "list"],
    &["audit", "list", "--json"],
    &["audit", "show", "ID"],
    &["audit", "show", "ID", "--json"],
    &["audit", "stubs", "ID"],
    &["stubs", "check", "stubs", "--diff"],
    &["stubs", "check", "stubs", "--format", "json"],
    &["--log", "debug", "call", "hostile", "say"],
];

fn is_harmless(c: char) -> bool {
    matches!(c, '\n' | '\t') || !crate::people::hidden().is_match(c.encode_utf8(&mut [0; 4]))
}

/// The escapes in a text, for messages.
fn effects(text: &str) -> String {
    text.chars().filter(|c| !is_harmless(*c)).map(|c| c.escape_unicode().to_string()).collect()
}

/// Runs every command, in a pipe or on a terminal; returns its output.
fn written(fence: &Fence, file: &Path, on_terminal: bool) -> Vec<(String, String, String)> {
    fence.run([Path::new("--config"), file, Path::new("run"), Path::new("value.js")]).success();
    let listing = fence.run([Path::new("--config"), file, Path::new("audit"), Path::new("list")]).success().stdout;
    let id = listing.split_whitespace().next().expect("a record").to_owned();
    let words = |args: &[&str]| {
        args.iter().map(|arg| if *arg == "ID" { id.clone() } else { (*arg).to_owned() }).collect::<Vec<_>>()
    };
    let run = |args: &&[&str]| {
        let args = words(args);
        let mut command =
            fence.forgefs(["--config".to_owned(), file.display().to_string()].into_iter().chain(args.clone()));
        let output = match on_terminal {
            false => finish(&mut command, ""),
            true => {
                // `script` gives the command a terminal of its own, and forwards its output.
                let quoted = |arg: &std::ffi::OsStr| format!("'{}'", arg.to_string_lossy().replace('\'', "'\\''"));
                let line: Vec<String> =
                    [command.get_program()].into_iter().chain(command.get_args()).map(quoted).collect();
                let mut script = Command::new("script");
                script.args(["-qec", &line.join(" "), "/dev/null"]).current_dir(fence.work());
                fence.enclose(&mut script);
                finish(&mut script, "")
            }
        };
        (args.join(" "), output.stdout, output.stderr)
    };
    // Each takes a full start, and a terminal makes no difference to their output.
    let commands = COMMANDS.iter().filter(|args| !on_terminal || !args.contains(&"--json"));
    commands.step_by(if on_terminal { 2 } else { 1 }).map(run).collect()
}

/// Writes the tree that `stubs check` compares.
fn generate_stubs(fence: &Fence, file: &Path) {
    let generate = ["stubs", "generate", "--out", "stubs"].map(Path::new);
    fence.run([Path::new("--config"), file].into_iter().chain(generate)).success();
}

#[test]
fn nothing_that_a_server_says_moves_a_terminal() {
    let Some((fence, file)) = fence() else { return };
    generate_stubs(&fence, &file);
    // A tree that differs, with the server's text in the differences.
    let folder = std::fs::read_dir(fence.work().join("stubs/hostile")).expect("a tree");
    for file in folder.filter_map(|entry| entry.ok()).map(|entry| entry.path()).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&file).expect("a file");
        std::fs::write(&file, text + "\u{1b}[31m\u{202e}").expect("written");
    }
    for (command, stdout, stderr) in written(&fence, &file, false) {
        for (name, text) in [("stdout", &stdout), ("stderr", &stderr)] {
            assert_eq!(effects(text), "", "{command}: {name}: {text:?}");
        }
        assert!(!(stdout.is_empty() && stderr.is_empty()), "{command} says nothing");
        if command.contains("json") && !command.starts_with("cat") {
            stdout.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).ok()));
            let text = if command.contains("show") { vec![stdout.as_str()] } else { stdout.lines().collect() };
            for text in text {
                serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"));
            }
        }
    }
    // In a pipe a value is unchanged.
    let call =
        fence.run([Path::new("--config"), &file, Path::new("call"), Path::new("hostile"), Path::new("say")]).success();
    assert_eq!(call.object(), json!([WORDS]));
    let run = fence.run([Path::new("--config"), &file, Path::new("run"), Path::new("text.js")]).success();
    assert_eq!(run.object(), json!(WORDS));
}

#[test]
fn on_a_terminal_it_is_the_same() {
    let Some((fence, file)) = fence() else { return };
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return;
    }
    generate_stubs(&fence, &file);
    for (command, shown, _) in written(&fence, &file, true) {
        // The terminal turns each line end into two characters.
        let shown = crate::shown::plain(&shown.replace("\r\n", "\n"));
        assert_eq!(effects(&shown), "", "{command}: {shown:?}");
        assert!(!shown.is_empty(), "{command}");
    }
}

#[test]
fn a_log_record_is_one_line() {
    let Some((fence, file)) = fence() else { return };
    let args = ["--config", &file.display().to_string(), "--log", "trace", "call", "hostile", "no\nsuch\u{1b}[2J"];
    let output = fence.run(args);
    assert_eq!(effects(&output.stderr), "");
    let is_record = |line: &&str| line.starts_with("20") || line.starts_with("error: ") || line.starts_with("hint: ");
    let logged: Vec<&str> = output.stderr.lines().take_while(|line| !line.starts_with("error: ")).collect();
    assert!(logged.len() > 3 && logged.iter().all(is_record), "{}", output.stderr);
}
