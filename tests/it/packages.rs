//! Packages made from this build: installed into empty environments without a network, their programs behave like the
//! executable.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::{
    client::{Era, Fence, finish},
    connect::works,
    faulty::samples,
    real::{Real, path, skipped},
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[tokio::test]
async fn installed_packages_are_the_executable() {
    let (fence, packages) = (Fence::new(), Fence::new());
    let files = packed(&packages);
    let npm = npm_installed(&fence, &files);
    let wheel = wheel_installed(&fence, &files);
    for program in [npm, wheel].into_iter().flatten() {
        runs_as_the_executable(&fence, &program);
        serves(&fence, &program).await;
        walks(&program);
        for (signal, code) in [(Signal::SIGTERM, Some(0)), (Signal::SIGUSR2, None)] {
            let ended = ended_by(&fence, &program, signal);
            assert_eq!(ended.code(), code, "{}: {signal} ends it: {ended}", program.display());
            assert!(code.is_some() || ended.signal() == Some(signal as i32), "{}: {ended}", program.display());
        }
    }
}

/// Arguments, streams and exit codes are passed on.
fn runs_as_the_executable(fence: &Fence, program: &Path) {
    let run = |args: &[&str], input: &str| {
        let mut command = Command::new(program);
        command.args(args).current_dir(fence.work());
        fence.enclose(&mut command);
        finish(&mut command, input)
    };
    let script = "print('to stderr')\n'\u{e9} \u{1f600}'";
    for (args, input, code) in [
        (&["--version"][..], "", 0),
        (&["demo"], "", 0),
        (&["search", "--limit", "no number", "a b"], "", 2),
        (&["ls", "/"], "", 2),
        (&["run", "--lang", "starlark", "-"], script, 0),
        (&["run", "--lang", "starlark", "-"], "fail('no')", 1),
        (&["run", "--lang", "starlark", "a file\nwith 'quotes' \"$HOME\" *", "--unknown"], "", 2),
    ] {
        // Without a configuration, unless the command needs one.
        let args: Vec<&str> = match args {
            ["run", rest @ ..] => ["run", "--catalog", "empty.json"].iter().chain(rest).copied().collect(),
            args => args.to_vec(),
        };
        fence.write("empty.json", "{\"tools\": []}");
        let (direct, launched) = (fence.run_with_input(&args, input), run(&args, input));
        assert_eq!(direct.code, Some(code), "{args:?}: {direct:?}");
        // The demo measures times.
        let said = |output: &crate::client::Output| match args.contains(&"demo") {
            true => format!("{}", output.stdout.contains("## ls /")),
            false => format!("{:?} {} {}", output.code, output.stdout, output.stderr),
        };
        assert_eq!(said(&direct), said(&launched), "{}: {args:?}", program.display());
    }
}

/// A client's handshake, list and call go through.
async fn serves(fence: &Fence, program: &Path) {
    for era in [Era::Legacy, Era::Modern] {
        let session = fence.connect(era, serve(fence, program)).await;
        let mut tools: Vec<_> = session.tools().await.into_iter().map(|tool| tool.name).collect();
        tools.sort();
        assert_eq!(tools, ["cat", "execute", "ls", "search"], "{}", program.display());
        session.ready(&["tickets"]).await;
        assert_eq!(session.execute("starlark", "tickets.get_ticket(id=1)['id']").await, 1);
        session.close().await;
    }
}

/// A new user's first minute: two real servers are added, a client is connected and works, all is taken back.
fn walks(program: &Path) {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let run = |args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).current_dir(fence.work());
        fence.enclose(&mut command);
        finish(&mut command, "").success().stdout
    };
    let (memory, time) = (real.npm("memory"), real.venv.join("bin/mcp-server-time"));
    let file = format!("MEMORY_FILE_PATH={}", fence.work().join("memory.jsonl").display());
    run(&["add", "memory", "--env", &file, "--", path(&memory)]);
    run(&["add", "time", "--", path(&time)]);
    let listed = run(&["list"]);
    assert!(listed.contains("memory") && listed.contains("time"), "{listed}");
    run(&["connect", "cursor", "--yes"]);
    let client = fence.work().join("../home/.cursor/mcp.json");
    let written: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&client).expect("a file")).expect("plain JSON");
    works(&real, &fence, &written["mcpServers"]["forgefs"], &["memory", "time"]);
    fence.write("now.star", "time.get_current_time(timezone = 'UTC')['timezone']");
    assert!(run(&["run", "now.star"]).contains("UTC"));
    run(&["connect", "cursor", "--undo", "--yes"]);
    assert!(!client.exists(), "it was made by connect");
    run(&["remove", "time"]);
    assert!(!run(&["list"]).contains("time"));
}

/// How the program ends by this signal while it serves.
fn ended_by(fence: &Fence, program: &Path, signal: Signal) -> ExitStatus {
    let mut command = serve(fence, program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut ask = |id: u32, method: &str, params: serde_json::Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(stdin, "{request}").expect("it reads");
        answers.next().expect("it answers").expect("a line")
    };
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    assert!(ask(1, "initialize", hello).contains("serverInfo"));
    // It answers while it still starts. A script has run when it has started.
    let script = json!({"language": "starlark", "code": "tickets.get_ticket(id=1)['id']"});
    let deadline = Instant::now() + Duration::from_secs(60);
    for id in 2.. {
        let answer = ask(id, "tools/call", json!({"name": "execute", "arguments": script}));
        if answer.contains("\"text\":\"1\"") {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}");
    }
    kill(Pid::from_raw(child.id().try_into().expect("a process number")), signal).expect("it runs");
    let ended = child.wait().expect("it ends");
    drop(stdin);
    ended
}

fn serve(fence: &Fence, program: &Path) -> Command {
    let config = fence.write("served/forge.toml", &samples());
    let mut command = Command::new(program);
    command.args([Path::new("--config"), &config, Path::new("serve")]).current_dir(fence.work());
    fence.enclose(&mut command);
    command
}

#[test]
fn a_launcher_without_its_executable_says_what_to_install() {
    let fence = Fence::new();
    let packages = fence.work().join("packages");
    let tiny = tiny(&fence, &format!("forgefs {VERSION}"));
    package(&[&tiny], &packages).success();
    let launcher = packages.join(format!("forgefs-{VERSION}.tgz"));
    let Some(program) = installed_by_npm(&fence, &[launcher]) else { return };
    let mut command = Command::new(&program);
    fence.enclose(&mut command);
    let output = finish(command.arg("--version"), "");
    assert_eq!((output.code, output.stdout.as_str()), (Some(4), ""), "{output:?}");
    assert!(output.stderr.starts_with("error: the package @forgefs/"), "{output:?}");
    assert!(output.stderr.contains("is not installed\nhint: npm omits it with --omit=optional"), "{output:?}");
}

#[test]
fn the_same_executable_gives_the_same_packages() {
    let fence = Fence::new();
    let tiny = tiny(&fence, &format!("forgefs {VERSION}"));
    let copy = fence.work().join("copied executable");
    fs::copy(&tiny, &copy).expect("copied");
    let later = std::time::SystemTime::now() + Duration::from_secs(100_000);
    fs::File::options().write(true).open(&copy).and_then(|file| file.set_modified(later)).expect("the time is set");
    let [one, two] = ["one", "two"].map(|name| fence.work().join(name));
    package(&[&tiny], &one).success();
    package(&[&copy], &two).success();
    let [first, second] = [&one, &two].map(|folder| contents(folder));
    assert!(first == second, "{:?} {:?}", first.keys(), second.keys());
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.contains(&"SHA256SUMS") && names.iter().any(|name| name.ends_with(".whl")), "{names:?}");
    let sums = finish(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&one), "");
    assert_eq!(sums.success().stdout.matches(": OK").count(), 4);
}

#[test]
fn what_is_no_executable_of_this_version_is_not_packed() {
    let fence = Fence::new();
    let good = tiny(&fence, &format!("forgefs {VERSION}"));
    let same = fence.work().join("same");
    fs::copy(&good, &same).expect("copied");
    let other = tiny(&fence, "forgefs 99.0.0");
    let text = fence.write("text", "#!/bin/sh\necho forgefs\n");
    let header = fence.write("header", "\u{7f}ELF");
    for (executables, says) in [
        (vec![&good, &same], "same: a second executable for "),
        (vec![&other], "`-V` says \"forgefs 99.0.0\", and the packages are of"),
        (vec![&text], "text: no executable of Linux or macOS (ELF or Mach-O of 64 bits)"),
        (vec![&header], "header: no valid ELF file"),
        (vec![&fence.work().join("nowhere")], "nowhere: cannot be read"),
    ] {
        let out = fence.work().join("refused");
        let output = package(&executables, &out);
        assert!(output.code == Some(1) && output.stderr.contains(says), "no {says:?} in {output:?}");
        assert!(!out.exists(), "nothing is written for {executables:?}");
    }
}

#[test]
fn crates_contain_the_files_that_their_sources_include() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = regex::Regex::new(r#"include_(?:str|bytes)!\("([^"]+)"\)"#).expect("a pattern");
    let mut found = 0;
    let others = ["confine", "stubgen", "wire", "worker"].map(str::to_owned);
    let crates = fs::read_dir(root.join("crates")).expect("crates").flatten();
    let crates = crates.map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()));
    let folders: Vec<String> = crates.chain(others).collect();
    assert!(folders.len() > 10, "{folders:?}");
    for folder in folders.iter().map(String::as_str).chain([""]) {
        let package = match folder.rsplit('/').next() {
            Some("") | None => "forgefs".to_owned(),
            Some(name) => format!("forgefs-{name}"),
        };
        let words = ["package", "--list", "--allow-dirty", "--offline", "--package", &package];
        let listed = finish(Command::new("cargo").args(words).current_dir(root), "").success().stdout;
        let listed: Vec<&str> = listed.lines().collect();
        for needed in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "src/lib.rs"] {
            assert!(listed.contains(&needed), "{package} lacks {needed}: {listed:?}");
        }
        for source in listed.iter().filter(|file| file.ends_with(".rs")) {
            let text = fs::read_to_string(root.join(folder).join(source)).expect("a source");
            let parent = Path::new(source).parent().expect("a folder");
            for included in include.captures_iter(&text).map(|found| parent.join(&found[1])) {
                let included = lexical(&included);
                assert!(listed.contains(&path(&included)), "{package}: {source} includes {}", included.display());
                found += 1;
            }
        }
    }
    assert!(found > 10, "{found} files are included");
}

/// A path without `..`, which leads out of the package if it is left.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Packages of this build's executable.
fn packed(fence: &Fence) -> PathBuf {
    let executable = fence.work().join("forgefs");
    // A debug build has twice its size in symbols, which take long to compress.
    let stripped = Command::new("strip").arg("-o").arg(&executable).arg(env!("CARGO_BIN_EXE_forgefs")).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(env!("CARGO_BIN_EXE_forgefs"), &executable).expect("copied");
    }
    let folder = fence.work().join("packages");
    package(&[&executable], &folder).success();
    folder
}

/// Runs `cargo xtask package`.
fn package(executables: &[&PathBuf], out: &Path) -> crate::client::Output {
    let xtask = Path::new(env!("CARGO_BIN_EXE_forgefs")).with_file_name("xtask");
    finish(Command::new(xtask).arg("package").args(executables).arg("--out").arg(out), "")
}

/// A small program that answers `-V`.
fn tiny(fence: &Fence, version: &str) -> PathBuf {
    let program = fence.work().join(version.replace(' ', "-"));
    let code = format!("#include <stdio.h>\nint main(void) {{ puts(\"{version}\"); return 0; }}\n");
    let source = fence.write("tiny.c", &code);
    finish(Command::new("cc").arg("-o").arg(&program).arg(source), "").success();
    program
}

/// Names and contents of the files of a folder.
fn contents(folder: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let read = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
    };
    entries.map(read).collect()
}

fn npm_installed(fence: &Fence, packages: &Path) -> Option<PathBuf> {
    let is_npm = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "tgz");
    installed_by_npm(fence, &files(packages).filter(is_npm).collect::<Vec<_>>())
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
}

/// The program that npm installs from these files; `None`, visibly, without npm.
fn installed_by_npm(fence: &Fence, packages: &[PathBuf]) -> Option<PathBuf> {
    if Command::new("npm").arg("--version").output().is_err() {
        skipped("no npm to install packages with");
        return None;
    }
    let folder = fence.work().join("npm");
    fs::create_dir(&folder).expect("a folder");
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]).args(packages);
    fence.enclose(&mut npm);
    finish(npm.current_dir(&folder), "").success();
    Some(folder.join("node_modules/.bin/forgefs"))
}

/// The program that pip or uv installs from the wheel; `None`, visibly, without both.
fn wheel_installed(fence: &Fence, packages: &Path) -> Option<PathBuf> {
    let wheel = files(packages).find(|file| file.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheel.expect("a wheel");
    let venv = fence.work().join("venv");
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args);
        fence.enclose(&mut command);
        finish(&mut command, "").success();
    };
    let has = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    if has("python3", &["-c", "import ensurepip, venv"]) {
        run("python3", &["-m", "venv", path(&venv)]);
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", path(&wheel)];
        run(path(&venv.join("bin/python")), &pip);
    } else if has("uv", &["--version"]) {
        run("uv", &["venv", "--quiet", "--offline", path(&venv)]);
        run("uv", &["pip", "install", "--quiet", "--offline", "--no-index", "--python", path(&venv), path(&wheel)]);
    } else {
        skipped("neither Python's venv module nor uv to install a wheel with");
        return None;
    }
    Some(venv.join("bin/forgefs"))
}
