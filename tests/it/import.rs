//! `forgefs init --import`: the files of other hosts, as their documentation describes them.

use std::fs;
use std::path::Path;

use crate::client::{Fence, Output, finish, up};
use crate::real::{Real, path};

const TOKEN: &str = "ghp_from_the_environment";

/// Copies a case into the fence; `@WORK@` stands for the folder that commands run in.
fn copy(from: &Path, to: &Path, work: &str) {
    for entry in fs::read_dir(from).expect("a folder of the case").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target, work);
        } else {
            let text = fs::read_to_string(entry.path()).expect("a file of the case");
            fs::write(target, text.replace("@WORK@", work)).expect("written");
        }
    }
}

fn fence_of(case: &str) -> Fence {
    let fence = Fence::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/cases").join(case);
    let work = fence.work();
    copy(&from, work.parent().expect("the fence around it"), path(&work));
    fence
}

fn init(fence: &Fence, args: &[&str]) -> Output {
    let args = [&["init"], args].concat();
    finish(fence.forgefs(args).env("GITHUB_TOKEN", TOKEN), "")
}

fn written(fence: &Fence) -> String {
    fs::read_to_string(fence.work().join("forge.toml")).unwrap_or_else(|error| error.to_string())
}

#[test]
fn every_host_is_imported_as_documented() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../fixtures/import/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/cases");
    for case in fs::read_dir(cases).expect("the cases") {
        let case = case.expect("a case").file_name().into_string().expect("a plain name");
        let fence = fence_of(&case);
        let output = init(&fence, &["--import"]);
        let root = fence.work().parent().expect("the fence around it").to_owned();
        let shown = format!("exit {:?}\n{}\n--- forge.toml\n{}", output.code, output.stderr, written(&fence));
        let shown = shown.replace(path(&root), "[ROOT]");
        assert!(!output.stderr.contains("literal-"), "the report repeats a credential: {}", output.stderr);
        settings.bind(|| insta::assert_snapshot!(case.clone(), shown));
        let loaded = finish(fence.forgefs(["ls"]).env("GITHUB_TOKEN", TOKEN).env("PATH", "/nowhere"), "");
        assert_eq!(loaded.code, Some(0), "{case} does not load: {}", loaded.stderr);
    }
}

#[test]
fn an_existing_file_is_kept_unless_it_is_asked_for() {
    let fence = fence_of("windsurf");
    let mine = "# mine\n[servers.figma]\ncommand = \"x\"\nenabled = false\n";
    fence.write("forge.toml", mine);
    let refused = init(&fence, &["--import"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--force") && refused.stderr.contains("--append"), "{}", refused.stderr);
    assert_eq!(written(&fence), mine);
    init(&fence, &["--import", "--append"]).success();
    let both = written(&fence);
    assert!(both.starts_with(mine) && both.contains("[servers.figma-2]"), "{both}");
    init(&fence, &["--import", "--force"]).success();
    assert!(!written(&fence).contains("# mine"));
    assert_eq!(init(&fence, &["--append"]).code, Some(2), "nothing to append without --import");
}

#[test]
fn credentials_can_be_left_out_and_the_file_is_private_anyway() {
    let fence = fence_of("claude_desktop");
    let output = init(&fence, &["--import", "--no-secrets"]).success();
    let text = written(&fence);
    for secret in ["BSA-literal-key", "literal-bearer", TOKEN] {
        assert!(!text.contains(secret), "{text}");
    }
    for reference in ["${BRAVE_API_KEY}", "${GITHUB_TOKEN}", "Bearer ${REMOTE_TOKEN}"] {
        assert!(text.contains(reference), "{reference}: {text}");
    }
    assert!(output.stderr.contains("export BRAVE_API_KEY"), "{}", output.stderr);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(fence.work().join("forge.toml")).expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn named_files_are_read_and_must_be_there() {
    let fence = fence_of("codex");
    let other = fence.write("elsewhere/servers.json", r#"{"mcpServers": {"time": {"command": "uvx"}}}"#);
    init(&fence, &["out.toml", "--import", path(&other)]).success();
    let text = fs::read_to_string(fence.work().join("out.toml")).expect("written");
    assert!(text.contains("[servers.time]") && !text.contains("context7"), "{text}");
    let missing = init(&fence, &["--import", "missing.json"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("missing.json: no such file"), "{}", missing.stderr);
}

#[test]
fn where_there_is_nothing_nothing_is_written() {
    let fence = Fence::new();
    let output = init(&fence, &["--import"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("looked at") && output.stderr.contains("~/.cursor/mcp.json"), "{}", output.stderr);
    assert!(!fence.work().join("forge.toml").exists());
}

#[test]
fn an_imported_server_works() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let server = serde_json::json!({"mcpServers": {"memory": {
        "type": "stdio", "command": real.npm("memory"),
        "env": {"MEMORY_FILE_PATH": "${MEMORY_FILE:-/tmp/never-written.json}"},
    }}});
    fence.write(".mcp.json", &server.to_string());
    init(&fence, &["--import"]).success();
    let listing = fence.run(["ls", "/"]).success().stdout;
    assert!(regex::Regex::new(&up("memory")).expect("a pattern").is_match(&listing), "{listing}");
}
