//! Test harness: a fenced place to run `forgefs` in, and an MCP client of `forgefs serve`.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use regex::RegexSet;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    model::{CallToolRequestParams, ClientConfig, Implementation, ProtocolVersion, Tool},
    service::{Peer, RunningService},
    transport::TokioChildProcess,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::executable;

/// An MCP client connected to its own `forgefs serve`. Dropping it ends the process.
pub(crate) struct Session {
    service: RunningService<RoleClient, ()>,
    stderr: PathBuf,
    pub(crate) pid: u32,
}

/// The value at the start of an answer's `text`: JSON, else text.
pub(crate) fn value_of(text: &str) -> Value {
    let end = ["\n--- ", "\nnote: "].iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    serde_json::from_str(&text[..end]).unwrap_or_else(|_| Value::String(text[..end].to_owned()))
}

/// Answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its text blocks, joined by line ends.
    pub(crate) text: String,
    /// Every other block, as JSON.
    pub(crate) others: Vec<Value>,
    pub(crate) is_error: bool,
}

/// Information of a client with these capabilities.
pub(crate) fn able(capabilities: &Value) -> ClientConfig {
    let capabilities = serde_json::from_value(capabilities.clone()).expect("capabilities");
    ClientConfig::new(capabilities, Implementation::new("test", "1"))
}

/// Lifecycle of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// The `initialize` handshake of 2025-11-25 and before.
    Legacy,
    /// `server/discover` of 2026-07-28.
    Modern,
}

impl Session {
    /// Calls one of the gateway's tools. A protocol error fails the test: bad input must be a tool error.
    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Answer {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object, not {arguments}") };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = match tokio::time::timeout(Duration::from_secs(150), self.service.call_tool(request)).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => panic!("{tool} failed on the protocol level: {error}\n{}", self.stderr()),
            Err(_) => panic!("{tool} did not answer\n{}", self.stderr()),
        };
        let blocks: Vec<&str> = result.content.iter().filter_map(|c| c.as_text()).map(|c| c.text.as_str()).collect();
        let others = result.content.iter().filter(|block| block.as_text().is_none());
        let others = others.map(|block| serde_json::to_value(block).expect("a block is JSON")).collect();
        Answer { text: blocks.join("\n"), others, is_error: result.is_error.unwrap_or(false) }
    }

    /// Runs a script that must succeed, and parses the value at the start of the answer: JSON, else text.
    pub(crate) async fn execute(&self, language: &str, code: &str) -> Value {
        let answer = self.call("execute", serde_json::json!({"language": language, "code": code})).await;
        assert!(!answer.is_error, "{language} failed: {}\n{}", answer.text, self.stderr());
        value_of(&answer.text)
    }

    /// Runs a script that must fail, and returns the error's text.
    pub(crate) async fn execute_err(&self, language: &str, code: &str) -> String {
        let answer = self.call("execute", serde_json::json!({"language": language, "code": code})).await;
        assert!(answer.is_error, "{language} should have failed, but answered: {}", answer.text);
        answer.text
    }

    /// The connection, for requests other than tool calls.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// The tools that the client sees.
    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.service.list_all_tools().await.expect("tools/list is answered")
    }

    /// Instructions of the gateway.
    pub(crate) fn instructions(&self) -> Option<String> {
        self.service.peer().peer_info()?.instructions.clone()
    }

    /// Waits until `ls /` shows these servers with their tools.
    pub(crate) async fn ready(&self, servers: &[&str]) {
        let patterns = RegexSet::new(servers.iter().map(|server| up(server))).expect("names are plain");
        let started = Instant::now();
        loop {
            let listing = self.call("ls", serde_json::json!({})).await.text;
            if patterns.matches(&listing).matched_all() {
                return;
            }
            let waited = started.elapsed();
            assert!(waited < Duration::from_secs(150), "not ready after {waited:?}:\n{listing}\n{}", self.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The line of a server in `ls /`, once it has a text.
    pub(crate) async fn line(&self, server: &str, wanted: &str) -> String {
        let started = Instant::now();
        loop {
            let listing = self.call("ls", serde_json::json!({})).await.text;
            let line = listing.lines().find(|line| line.starts_with(&format!("{server}/"))).unwrap_or_default();
            if line.contains(wanted) {
                return line.to_owned();
            }
            let waited = started.elapsed();
            let what = format!("`{wanted}` is not said of {server} after {waited:?}");
            assert!(waited < Duration::from_secs(60), "{what}:\n{listing}\n{}", self.stderr());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Log of the gateway so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Kills the gateway like `kill -9`.
    pub(crate) fn kill(self) {
        let pid = i32::try_from(self.pid).expect("a process number");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the gateway runs");
    }

    /// Makes the gateway apply its current configuration file, as the operator does.
    #[cfg(unix)]
    pub(crate) fn hang_up(&self) {
        let pid = i32::try_from(self.pid).expect("a process number");
        kill(Pid::from_raw(pid), Signal::SIGHUP).expect("the gateway runs");
    }

    /// Ends the session like a client, and waits for the process.
    pub(crate) async fn close(self) {
        self.service.cancel().await.expect("the session ends");
    }
}

/// Part of `ls /` for a server with tools: its line, up to their number.
pub(crate) fn up(server: &str) -> String {
    format!("(?m)^{server}/ +[1-9]")
}

/// A temporary folder with its own HOME; of the machine, `forgefs` sees only PATH.
pub(crate) struct Fence {
    root: TempDir,
}

impl Fence {
    pub(crate) fn new() -> Self {
        // Real servers refuse paths with hidden folders, or take them for lower case.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        // Short, for the sockets in it.
        let name = format!("f{:x}-{:x}", std::process::id(), now.as_nanos() & 0xffff_ffff);
        let root = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir().expect("a temporary folder");
        for folder in ["home", "work"] {
            fs::create_dir(root.path().join(folder)).expect("a folder in it");
        }
        Self { root }
    }

    /// Working directory of commands, and base of [`Fence::write`].
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Cache of tool lists.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root.path().join("home/.cache/forgefs")
    }

    /// Audit file.
    pub(crate) fn audit(&self) -> PathBuf {
        self.root.path().join("home/.local/state/forgefs/audit.jsonl")
    }

    /// Writes a file, with its parents, and returns its absolute path.
    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().expect("a file has a parent")).expect("parents can be made");
        fs::write(&path, text).expect("the file can be written");
        path
    }

    /// `forgefs` in this fence: clean environment, HOME and the XDG folders inside.
    pub(crate) fn forgefs<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = executable::command(args);
        command.current_dir(self.work());
        self.enclose(&mut command);
        command
    }

    /// Clears a command's environment likewise, for other programs that start `forgefs`.
    pub(crate) fn enclose(&self, command: &mut Command) {
        let home = self.root.path().join("home");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &home);
        for (variable, folder) in [
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_RUNTIME_DIR", ".run"),
        ] {
            command.env(variable, home.join(folder));
        }
    }

    /// Runs `forgefs` to its end, without standard input.
    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        finish(&mut self.forgefs(args), "")
    }

    /// Runs `forgefs` to its end with this text on standard input.
    pub(crate) fn run_with_input<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Output {
        finish(&mut self.forgefs(args), input)
    }

    /// Starts `forgefs serve` with this `forge.toml`, in the modern era.
    pub(crate) async fn serve(&self, config: &str) -> Session {
        self.serve_in(Era::Modern, config).await
    }

    /// Like [`Fence::serve`], with a log of everything, for what must not be in it.
    pub(crate) async fn serve_logged(&self, config: &str) -> Session {
        let config = self.write("forge.toml", config);
        let log = ["--log", "forgefs=debug,rmcp=debug"].map(Path::new);
        self.connect(
            Era::Modern,
            self.forgefs([&log[..], &[Path::new("--config"), &config, Path::new("serve")]].concat()),
        )
        .await
    }

    /// Starts `forgefs serve` with this `forge.toml`, and connects in one era.
    pub(crate) async fn serve_in(&self, era: Era, config: &str) -> Session {
        let config = self.write("forge.toml", config);
        self.connect(era, self.forgefs([Path::new("--config"), &config, Path::new("serve")])).await
    }

    /// Connects to a gateway that a command starts.
    pub(crate) async fn connect(&self, era: Era, command: Command) -> Session {
        let (service, pid) = self.attach(era, command, ()).await;
        Session { service, stderr: self.stderr_file(), pid }
    }

    /// Like [`Fence::connect`], with a client that answers questions; returns the process id too.
    pub(crate) async fn attach<H: ClientHandler>(
        &self,
        era: Era,
        command: Command,
        client: H,
    ) -> (RunningService<RoleClient, H>, u32) {
        let log = File::create(self.stderr_file()).expect("the log can be made");
        let (transport, _) = TokioChildProcess::builder(tokio::process::Command::from(command))
            .stderr(Stdio::from(log))
            .spawn()
            .expect("forgefs starts");
        let pid = transport.id().expect("forgefs runs");
        let lifecycle = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        };
        let connecting = client.serve_with_lifecycle(transport, lifecycle);
        match tokio::time::timeout(Duration::from_secs(90), connecting).await {
            Ok(Ok(service)) => (service, pid),
            Ok(Err(error)) => panic!("no session: {error}\n{}", self.stderr()),
            Err(_) => panic!("no answer to the client\n{}", self.stderr()),
        }
    }

    fn stderr_file(&self) -> PathBuf {
        self.root.path().join("stderr.log")
    }

    /// Log of the gateway so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.stderr_file()).unwrap_or_default()
    }
}

/// Result of a finished command.
#[derive(Debug)]
pub(crate) struct Output {
    /// The exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Asserts exit code 0.
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The JSON on standard output.
    pub(crate) fn object(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs any command with this input, and collects its output.
pub(crate) fn finish(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", command.get_program().display()));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A command may end before it has read everything, which is fine.
    let input = input.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the command can be waited for");
    writer.join().expect("the writer does not panic");
    Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
