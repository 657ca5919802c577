//! Files on disk that an earlier version wrote are read: `tests/fixtures/formats` has a run of November 2026.

use std::fs;
use std::path::{Path, PathBuf};

use crate::client::Fence;
use crate::faulty::python;

const PINNED: &str = "[manifest]\npin_first_use = true\n";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Puts a fixture in the place of a file, or below a folder; the gateway's files are for its user alone.
fn put(name: &str, to: &Path) {
    if !fixture(name).is_dir() {
        fs::copy(fixture(name), to).unwrap_or_else(|error| panic!("{name}: {error}"));
        return fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("permissions");
    }
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(fixture(name)).expect("a folder").flatten() {
        let entry = entry.file_name().to_string_lossy().into_owned();
        put(&format!("{name}/{entry}"), &to.join(&entry));
    }
}

/// The one file or folder below `folder` whose name has `part`.
fn made(folder: &Path, part: &str) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten();
    let found: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.to_string_lossy().contains(part)).collect();
    assert_eq!(found.len(), 1, "{part}: {found:?}");
    found[0].clone()
}

/// Folder of the gateway's state.
fn state(fence: &Fence) -> PathBuf {
    fence.audit().parent().expect("a folder").to_owned()
}

#[test]
fn records_and_journals_are_listed_shown_and_replayed() {
    let fence = Fence::new();
    fence.write("forge.toml", "[audit]\nto = \"file\"\npath = \"audit.jsonl\"\n");
    fence.write("one.star", "1");
    fence.run(["run", "one.star"]).success();
    let journals = made(&state(&fence), "journals-");
    fs::remove_dir_all(&journals).expect("removed");
    put("journals", &journals);
    put("audit.jsonl", &fence.work().join("audit.jsonl"));
    for (args, expected) in [
        (&["audit", "list"][..], "audit.txt"),
        (&["audit", "show", "79b4"], "audit-79b488cea002.txt"),
        (&["audit", "show", "25c4"], "audit-25c44be128ea.txt"),
        (&["runs", "list"], "runs.txt"),
        (&["runs", "show", "61f0"], "runs-61f082861f1c.txt"),
        (&["runs", "show", "25c4"], "runs-25c44be128ea.txt"),
    ] {
        // Runs are listed in the order of their files' times.
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_by_key(|line| (args == ["runs", "list"]).then(|| line.clone()));
            lines
        };
        assert_eq!(sorted(&fence.run(args).success().stdout), sorted(&text(expected)), "{args:?}");
    }
    // A record is printed with the keys and values of its line.
    let printed = fence.run(["audit", "list", "--json"]).success().stdout;
    let written = text("audit.jsonl");
    let of_runs: Vec<&str> = written.lines().filter(|line| !line.starts_with("{\"event\"")).collect();
    assert_eq!(printed.lines().take(of_runs.len()).collect::<Vec<_>>(), of_runs);
    for (run, says) in [("79b4", "same 2 operations"), ("61f0", "same 1 operation"), ("25c4", "same 8 operations")] {
        let replayed = fence.run(["replay", run]);
        assert!(replayed.stderr.contains(says) || replayed.stdout.contains(says), "{run}: {replayed:?}");
    }
}

#[test]
fn caches_shapes_and_pins_are_read() {
    let fence = Fence::new();
    if python("mail", "policy.py", &[]).is_none() {
        return;
    }
    let script = fence.work().join("policy.py");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/policy.py"), &script).expect("copied");
    let args = [&script.to_string_lossy(), "mail", "log.txt"];
    fence.write("forge.toml", &format!("{PINNED}[servers.mail]\ncommand = \"python3\"\nargs = {args:?}\n"));
    let listed = fence.run(["ls", "/mail"]).success().stdout;
    assert!(listed.starts_with("/mail/  10 tools"), "{listed}");
    let cached = made(&fence.cache(), "mail-");
    put("cache/mail.shapes.json", &cached.with_extension("shapes.json"));
    let stub = fence.run(["cat", "/mail/look.pyi"]).success().stdout;
    assert!(
        stub.contains("# result observed in 2+ answers\ndef look(*, text: str | None = None) -> str: ..."),
        "{stub}"
    );

    let pins = made(&made(&state(&fence), "first-use-"), ".json");
    put("first-use/pins.json", &pins);
    assert!(fence.run(["ls", "/mail"]).success().stdout.starts_with("/mail/  10 tools"));
    // The file counts: a tool that it has otherwise is held.
    let other = text("first-use/pins.json").replace("5874fe65", "00000000");
    fs::write(&pins, other).expect("written");
    let held = fence.run(["ls", "/mail"]).success().stdout;
    assert!(held.contains("fail.pyi  QUARANTINED"), "{held}");

    // The list of a server that is away is the one of the cache.
    put("cache/mail.json", &cached);
    put("first-use/pins.json", &pins);
    fs::remove_file(script).expect("removed");
    let stub = fence.run(["cat", "/mail/look.pyi"]).success().stdout;
    assert!(stub.contains("def look("), "{stub}");
}

#[test]
fn a_lock_of_scripts_is_read() {
    let fence = Fence::new();
    let Some(server) = python("mail", "policy.py", &["mail", "log.txt"]) else { return };
    fence.write("forge.toml", &format!("{PINNED}{server}[scripts]\npath = \"scripts\"\n"));
    fence.write("scripts/count.star", &text("count.star"));
    fence.write("scripts.lock", &text("scripts.lock"));
    assert_eq!(fence.run(["scripts", "list"]).success().stdout, "count  locked\n");
    fence.write("scripts/count.star", &text("count.star").replace("look", "fail"));
    let changed = fence.run(["scripts", "list"]);
    assert!(!changed.stdout.contains("count  locked"), "{changed:?}");
}
