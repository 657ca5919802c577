//! A session with the real `forgefs serve`, and its transcript.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::{company::SERVERS, server::text};

/// Attempts to see every server in `ls /`, 100 ms apart.
const ATTEMPTS: usize = 600;

/// A client of one gateway. Dropping it ends the gateway, whose stdin closes.
pub(super) struct Gateway {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    requests: u64,
    /// Texts that an agent reads before its first call: the instructions and the definitions of the tools.
    pub(super) surface: Value,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl Gateway {
    /// Starts a gateway for a prepared folder, and waits for the company's servers.
    pub(super) fn start(forgefs: &Path, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(forgefs);
        command.arg("--config").arg(folder.join("forge.toml")).arg("serve").current_dir(folder);
        // The folder is all that a trial leaves.
        command.env("HOME", folder);
        for variable in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
            command.env_remove(variable);
        }
        let log = File::create(folder.join("gateway.log"))?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut gateway = Self { stdin: child.stdin.take(), child, stdout, requests: 0, surface: Value::Null };
        let hello = gateway.request(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "trial", "version": "1"}}),
        )?;
        gateway.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        let tools = gateway.request("tools/list", &json!({}))?;
        gateway.surface = json!({"instructions": hello["instructions"], "tools": tools["tools"]});
        for _ in 0..ATTEMPTS {
            let listing = gateway.call("ls", &json!({}))?;
            // Scripts that are tools are one server more.
            if listing.lines().filter(|line| line.contains(", ready")).count() >= SERVERS.len() {
                return Ok(gateway);
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("the servers are not up; see {}", folder.join("gateway.log").display())
    }

    /// Calls one of the four tools; the answer is what the agent reads.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<String> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let blocks = result["content"].as_array().into_iter().flatten();
        Ok(blocks.map(|block| text(&block["text"])).collect::<Vec<_>>().join("\n"))
    }

    fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                bail!("the gateway ended; see gateway.log");
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                if message["error"].is_object() {
                    bail!("{method}: {}", message["error"]);
                }
                return Ok(message["result"].take());
            }
        }
    }

    fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        Ok(writeln!(self.stdin.as_mut().context("the gateway is closed")?, "{message}")?)
    }
}

/// Socket of the session of a folder.
fn socket(folder: &Path) -> PathBuf {
    folder.join("session.sock")
}

/// Keeps one session, in which [`ask`] makes calls, and appends each call to a transcript. Ends when asked for `end`.
pub(super) fn serve(forgefs: &Path, folder: &Path, record: &Path) -> anyhow::Result<()> {
    let mut gateway = Gateway::start(forgefs, folder)?;
    fs::write(folder.join("surface.json"), format!("{:#}\n", gateway.surface))?;
    let _ = fs::remove_file(socket(folder));
    let listener = UnixListener::bind(socket(folder))?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let call: Value = serde_json::from_str(&line)?;
        if call["tool"] == "end" {
            break;
        }
        let answer = gateway.call(text(&call["tool"]), &call["arguments"])?;
        let mut file = OpenOptions::new().create(true).append(true).open(record)?;
        writeln!(file, "{}", json!({"tool": call["tool"], "arguments": call["arguments"], "answer": answer}))?;
        stream.write_all(answer.as_bytes())?;
    }
    Ok(fs::remove_file(socket(folder))?)
}

/// Makes a call in the session of a folder, and returns its answer.
pub(super) fn ask(folder: &Path, tool: &str, arguments: &Value) -> anyhow::Result<String> {
    let mut stream =
        UnixStream::connect(socket(folder)).context("no session: start `cargo xtask trial serve` first")?;
    writeln!(stream, "{}", json!({"tool": tool, "arguments": arguments}))?;
    Ok(std::io::read_to_string(stream)?)
}
