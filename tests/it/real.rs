//! Pinned real MCP servers that `cargo xtask test` installs, and their configurations.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::client::{Fence, finish};

/// Each is a whole Node.js or Python that starts cold, beside others.
const PATIENT: &str = "connect_timeout = \"150s\"\n";

/// Servers of both eras: the three of node speak 2025-11-25, the two of Python 2026-07-28.
pub(crate) const BOTH_ERAS: [&str; 5] = ["everything", "filesystem", "git", "memory", "time"];

/// Folders of the pinned servers.
pub(crate) struct Real {
    node: PathBuf,
    pub(crate) venv: PathBuf,
    testkit: PathBuf,
}

impl Real {
    /// `None`, visibly, when one of the sets is not installed.
    pub(crate) fn find() -> Option<Self> {
        let folder = |variable: &str| {
            let folder = PathBuf::from(std::env::var_os(variable)?);
            folder.join(".installed-from").is_file().then_some(folder)
        };
        let found = ["FORGEFS_REAL_NODE", "FORGEFS_REAL_VENV", "FORGEFS_REAL_TESTKIT"].map(|v| folder(v).ok_or(v));
        match found {
            [Ok(node), Ok(venv), Ok(testkit)] => Some(Self { node, venv, testkit }),
            found => {
                let missing: Vec<_> = found.into_iter().filter_map(Result::err).collect();
                skipped(&format!("no real MCP servers at {} (`cargo xtask real` installs them)", missing.join(", ")));
                None
            }
        }
    }

    /// A configuration with some of the servers, all of them working in the fence.
    pub(crate) fn forge_toml(&self, fence: &Fence, servers: &[&str]) -> String {
        let work = fence.work();
        git_repository(&work);
        let work = path(&work);
        let tables = servers.iter().map(|server| {
            let (program, args) = match *server {
                "everything" => (self.npm("everything"), vec!["stdio"]),
                "filesystem" => (self.npm("filesystem"), vec![work]),
                "memory" => (self.npm("memory"), vec![]),
                "time" => (self.venv.join("bin/mcp-server-time"), vec![]),
                "git" => (self.venv.join("bin/mcp-server-git"), vec!["--repository", work]),
                "testkit" => (self.testkit.join("bin/mcp-testkit"), vec![]),
                other => panic!("no server is called {other}"),
            };
            format!(
                "[servers.{server}]\ncommand = {program:?}\nargs = {args:?}\ncwd = {work:?}\n{PATIENT}\
                 env = {{ MEMORY_FILE_PATH = \"{work}/memory.jsonl\" }}\n"
            )
        });
        tables.collect::<Vec<_>>().join("\n")
    }

    /// Node modules of the pinned servers.
    pub(crate) fn modules(&self) -> PathBuf {
        self.node.join("node_modules")
    }

    /// Python packages on version 1 of the SDK.
    pub(crate) fn testkit(&self) -> &Path {
        &self.testkit
    }

    /// The examples' configuration, for a slow machine.
    pub(crate) fn forge_toml_of_examples(fence: &Fence) -> PathBuf {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/forge.toml");
        let example = fs::read_to_string(example).expect("readable");
        fence.write("forge.toml", &example.replace("command = ", &format!("{PATIENT}command = ")))
    }

    pub(crate) fn npm(&self, server: &str) -> PathBuf {
        self.node.join("node_modules/.bin").join(format!("mcp-server-{server}"))
    }

    /// A fence whose `npx` and `uvx` run the pinned servers, which examples/forge.toml names.
    pub(crate) fn fence_for_examples(&self) -> Fence {
        let fence = Fence::new();
        let (node, venv) = (path(&self.node), path(&self.venv));
        let npx =
            format!("shift; name=${{1#@modelcontextprotocol/}}; shift; exec {node}/node_modules/.bin/mcp-$name \"$@\"");
        let uvx = format!("name=$1; shift; exec {venv}/bin/$name \"$@\"");
        for (name, body) in [("npx", npx), ("uvx", uvx)] {
            let file = fence.write(Path::new("../bin").join(name), &format!("#!/bin/sh\n{body}\n"));
            finish(Command::new("chmod").arg("+x").arg(file), "").success();
        }
        git_repository(&fence.work());
        fence
    }

    /// Puts these first in PATH; the memory server's file goes into the fence as well.
    pub(crate) fn in_path<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let home = command.get_envs().find(|(name, _)| *name == "HOME").and_then(|(_, value)| value);
        let home = PathBuf::from(home.expect("a fenced command has a home"));
        let mut path = home.join("../bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path).env("TMPDIR", &home)
    }
}

/// Reports a skipped part of a test.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen in the log")]
pub(crate) fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(file) = std::env::var_os("FORGEFS_SKIPPED") {
        let test = std::env::var("NEXTEST_TEST_NAME").ok().or_else(|| std::thread::current().name().map(str::to_owned));
        let test = test.unwrap_or_default();
        let file = fs::OpenOptions::new().append(true).create(true).open(file);
        writeln!(file.expect("the file of skipped tests opens"), "{test}: {why}").expect("written");
    }
    assert!(std::env::var_os("CI").is_none(), "skipped, and CI has to run it: {why}");
}

/// One commit on the branch `main`, without the user's git configuration.
fn git_repository(folder: &Path) {
    fs::write(folder.join("README.md"), "Nothing to read.\n").expect("the file can be written");
    let author = ["-c", "user.name=N", "-c", "user.email=n@example.com"];
    let commit = [&author[..], &["commit", "--quiet", "--no-gpg-sign", "--message=the only commit"]].concat();
    for args in [&["init", "--quiet", "--initial-branch=main"][..], &["add", "README.md"], &commit] {
        let mut git = Command::new("git");
        git.args(args).current_dir(folder);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        finish(&mut git, "").success();
    }
}

/// A path as text.
pub(crate) fn path<P: AsRef<std::ffi::OsStr> + ?Sized>(path: &P) -> &str {
    path.as_ref().to_str().expect("paths of tests are UTF-8")
}
