//! A real store for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::{CLIENTS, Served};
use super::until;
use super::wire::Wire;
use crate::client::Fence;
use crate::faulty::{faulty, has_python};
use crate::http::free_port;
use crate::real::skipped;

/// Configuration of a replica whose store is at a port, with more of it.
pub(super) fn through(port: u16, more: &str) -> String {
    format!("[state]\nurl = \"redis://127.0.0.1:{port}\"\ntimeout = \"1s\"\n{CLIENTS}{more}")
}

/// Replicas of one configuration.
pub(super) async fn replicas(count: usize, config: &str) -> Vec<Served> {
    futures::future::join_all((0..count).map(|_| Served::start(Fence::new(), config))).await
}

/// A real redis-server with a folder of its own; killed on drop.
pub(super) struct Store {
    program: &'static str,
    folder: tempfile::TempDir,
    pub(super) port: u16,
    child: Child,
    /// Options beside those of every store.
    more: Vec<String>,
}

impl Store {
    /// `None`, visibly, where it is not installed.
    pub(super) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// One for tests that pay at its bank; `None`, visibly, also without Python.
    pub(super) fn with_bank() -> Option<Self> {
        has_python("tests/servers/ledger.py")?;
        Self::start()
    }

    /// One that follows this one, and what leads it here.
    pub(super) async fn followed(&self) -> Option<(Wire, Self)> {
        let wire = Wire::to(&[self.port]).await;
        let follower = Self::start_with(&["--replicaof", "127.0.0.1", &wire.port.to_string()])?;
        until("it follows", async || follower.replication().await.contains("link_status:up")).await;
        Some((wire, follower))
    }

    /// What it says of its replication.
    pub(super) async fn replication(&self) -> String {
        format!("{:?}", self.command(&["INFO", "replication"]).await)
    }

    /// One with these options.
    pub(super) fn start_with(more: &[&str]) -> Option<Self> {
        let found = ["redis-server", "valkey-server"].into_iter().find(|program| {
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        });
        let Some(program) = found else {
            skipped("no redis-server or valkey-server for replicas");
            return None;
        };
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let more: Vec<String> = more.iter().map(|&option| option.to_owned()).collect();
        let child = Self::spawn(program, folder.path(), port, &more);
        Some(Self { program, folder, port, child, more })
    }

    /// Starts it with what it has on disk, and waits until it answers.
    fn spawn(program: &str, folder: &Path, port: u16, more: &[String]) -> Child {
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]);
        command.args(["--appendfsync", "always", "--dir"]).arg(folder).args(more);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the store starts");
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the store does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// Kills it like `kill -9`.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, with what it had or with nothing.
    pub(super) fn restart(&mut self, is_empty: bool) {
        if is_empty {
            std::fs::remove_dir_all(self.folder.path().join("appendonlydir")).expect("its files");
        }
        self.child = Self::spawn(self.program, self.folder.path(), self.port, &self.more);
    }

    /// A file that all replicas see.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Configuration of a replica, with more of it.
    pub(super) fn config(&self, more: &str) -> String {
        through(self.port, more)
    }

    /// Sends it a command.
    pub(super) async fn command(&self, words: &[&str]) -> redis::Value {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("it answers");
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// This many replicas.
    pub(super) async fn replicas(&self, count: usize, more: &str) -> Vec<Served> {
        replicas(count, &self.config(more)).await
    }

    /// A server whose ledger all replicas write, with rules for it.
    pub(super) fn bank(&self, rules: &str) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/ledger.py");
        let ledger = self.file("ledger");
        let slow = faulty(&[]).unwrap_or_default();
        format!("{slow}[servers.bank]\ncommand = \"python3\"\nargs = [{script:?}, {ledger:?}]\n{rules}")
    }

    /// Numbers paid, with how often.
    pub(super) fn paid(&self) -> BTreeMap<u64, usize> {
        let mut paid = BTreeMap::new();
        for line in std::fs::read_to_string(self.file("ledger")).unwrap_or_default().lines() {
            *paid.entry(line.parse().expect("a number")).or_default() += 1;
        }
        paid
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
