//! The official clients of Python and TypeScript, over HTTP.

use std::process::Command;

use super::Served;
use crate::client::{Fence, finish};
use crate::faulty::samples;
use crate::real::Real;

/// Version 2 of the Python SDK speaks 2026-07-28, version 1 the older revisions; the TypeScript SDK of the pinned servers
/// speaks those too.
#[tokio::test(flavor = "multi_thread")]
async fn the_official_clients_list_and_run() {
    let Some(real) = Real::find() else { return };
    let served = Served::start(Fence::new(), &samples()).await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let python = |venv: &std::path::Path, script: &str| {
        let mut command = Command::new(venv.join("bin/python"));
        command.arg(folder.join(script));
        command
    };
    let mut node = Command::new("node");
    node.arg(folder.join("http.mjs")).env("SDK", real.modules().join("@modelcontextprotocol/sdk"));
    let clients = [
        ("Python, version 2", python(&real.venv, "http_v2.py")),
        ("Python, version 1", python(real.testkit(), "http_v1.py")),
        ("TypeScript", node),
    ];
    for (name, mut command) in clients {
        command.arg(served.url());
        let output = tokio::task::spawn_blocking(move || finish(&mut command, "")).await.expect("no panic");
        assert_eq!(output.code, Some(0), "{name}: {}\n{}\n{}", output.stdout, output.stderr, served.log());
        assert_eq!(output.stdout.trim(), "4 tools; people; 42", "{name}");
    }
}
