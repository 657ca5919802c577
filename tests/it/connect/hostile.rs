//! `forgefs connect` on broken, huge and planted files, with other programs that write, and killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{connect, files, home, parsed, put};
use crate::client::Fence;
use crate::real::path;

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
