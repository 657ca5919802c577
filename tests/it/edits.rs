//! Edits of people's files: owner, mode, backup, concurrent programs, crashes.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::json;

use crate::client::Fence;
use crate::real::{path, skipped};

fn home(fence: &Fence) -> PathBuf {
    fence.work().parent().expect("the fence around it").join("home")
}

/// Backups below a folder.
fn backups(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(".forgefs-backup")).collect();
    found.sort();
    found
}

#[test]
fn what_root_writes_into_the_home_of_a_user_belongs_to_the_user() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("files of another owner can be made by root alone");
    }
    let fence = Fence::new();
    let home = home(&fence);
    let existing = fence.write("../home/.gemini/settings.json", "{}");
    for path in [&home, existing.parent().expect("a folder"), &existing] {
        chown(path, Some(4242), Some(4343)).expect("an owner");
    }
    fence.run(["connect", "cursor", "gemini", "--yes"]).success();
    let config = home.join("conf/deep/forge.toml");
    fence.run(["init", path(&config)]).success();
    let made = [home.join(".cursor"), home.join(".cursor/mcp.json"), home.join("conf"), home.join("conf/deep"), config];
    let backup = backups(&home.join(".gemini")).pop().expect("a backup");
    for path in made.iter().chain([&existing, &backup]) {
        let found = fs::metadata(path).expect("it is there");
        assert_eq!((found.uid(), found.gid()), (4242, 4343), "{}", path.display());
    }
    let modes = made.map(|path| fs::metadata(path).expect("it is there").mode() & 0o777);
    assert_eq!(modes, [0o700, 0o600, 0o700, 0o700, 0o600], "private to the user");
}

/// A host's file with these servers.
fn servers(fence: &Fence, file: &str, names: &[&str]) -> PathBuf {
    let servers: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({"command": name}))).collect();
    fence.write(file, &json!({"mcpServers": servers}).to_string())
}

#[test]
fn init_adds_to_the_file_behind_a_link_in_its_line_ends_and_keeps_the_old_one() {
    let fence = Fence::new();
    servers(&fence, "servers.json", &["time"]);
    let old = "\u{feff}# mine\r\n[sandbox]\r\nworkers = 2\r\n";
    let real = fence.write("dotfiles/forge.toml", old);
    symlink(&real, fence.work().join("forge.toml")).expect("a link");
    let output = fence.run(["init", "--import", "servers.json", "--append"]).success();
    let new = fs::read_to_string(&real).expect("a file");
    assert!(new.starts_with(old) && new.contains("[servers.time]\r\n"), "{new:?}");
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count(), "{new:?}");
    assert!(fence.work().join("forge.toml").is_symlink());
    let kept = backups(real.parent().expect("a folder"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read_to_string(&kept[0]).expect("the backup"), old);
    assert!(output.stderr.contains(path(&kept[0])), "{}", output.stderr);
    fence.run(["ls"]).success();
    // The edits that follow keep the file that was named.
    fence.run(["disable", "time"]).success();
    fence.run(["enable", "time"]).success();
    assert_eq!(fs::read_to_string(&kept[0]).expect("the backup that was named"), old);
    // Overwritten, it is kept as well.
    let before = fs::read_to_string(&real).expect("a file");
    let output = fence.run(["init", "--force"]).success();
    let contents =
        backups(real.parent().expect("a folder")).into_iter().map(|path| fs::read_to_string(path).expect("text"));
    assert!(contents.into_iter().any(|content| content == before), "{}", output.stderr);
}

#[test]
fn a_file_that_init_may_not_replace_stays_as_it_is() {
    let fence = Fence::new();
    servers(&fence, "servers.json", &["time"]);
    let file = fence.write("forge.toml", "# mine\n");
    let refused = |args: &[&str], says: &str| {
        let output = fence.run([&["init"], args].concat());
        assert_eq!(output.code, Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{args:?}: {}", output.stderr);
        assert_eq!(fs::read_to_string(&file).expect("a file"), "# mine\n", "{args:?}");
        assert!(backups(&fence.work()).is_empty(), "{args:?}");
    };
    let append = &["--import", "servers.json", "--append"];
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("a mode");
    refused(append, "it is read-only (mode 0444)");
    refused(&["--force"], "it is read-only (mode 0444)");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    fs::hard_link(&file, fence.work().join("other")).expect("a link");
    refused(append, "it has 2 names");
    symlink("nowhere.toml", fence.work().join("broken.toml")).expect("a link");
    refused(&["broken.toml"], "it is a link to nowhere.toml, which does not exist");
    fs::write(fence.work().join("utf16.toml"), [0xff, 0xfe, 0, 0]).expect("a file");
    refused(&["utf16.toml", "--import", "servers.json", "--append"], "it is not UTF-8 text");
}

#[test]
fn imports_at_the_same_time_lose_none_that_says_it_was_written() {
    let fence = Fence::new();
    let file = fence.write("forge.toml", "# mine\n");
    let names: Vec<String> = (0..6).map(|at| format!("server-{at}")).collect();
    let start = |name: &String| -> Child {
        let source = servers(&fence, &format!("{name}.json"), &[name]);
        let mut command = fence.forgefs(["init", "--append", "--import", path(&source)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let running: Vec<Child> = names.iter().map(start).collect();
    let outputs: Vec<_> = running.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect();
    let text = fs::read_to_string(&file).expect("a file");
    for (name, output) in names.iter().zip(&outputs) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.contains(&format!("[servers.{name}]")), output.status.success(), "{said}\n{text}");
        assert!(
            output.status.success() || said.contains("another program changed it in the meantime; try again"),
            "{said}"
        );
    }
    assert!(outputs.iter().any(|output| output.status.success()));
    assert!(text.starts_with("# mine\n"), "{text}");
}

#[test]
fn an_import_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let fence = Fence::new();
    let names: Vec<String> = (0..300).map(|at| format!("server-{at}")).collect();
    servers(&fence, "servers.json", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let old = "# mine\n".to_owned();
    let file = fence.write("forge.toml", &old);
    let args = ["init", "--append", "--import", "servers.json"];
    let started = std::time::Instant::now();
    fence.run(args).success();
    let whole = started.elapsed();
    let new = fs::read_to_string(&file).expect("a file");
    let (mut killed, mut kept, mut replaced) = (0, 0, 0);
    // Closer and closer to the moment in which it is replaced, at any speed of the machine.
    let mut delay = whole / 2;
    for _ in 0..30 {
        fs::write(&file, &old).expect("a file");
        let mut command = fence.forgefs(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(delay);
        killed += u32::from(child.try_wait().expect("its state").is_none());
        let _ = child.kill();
        child.wait().expect("it ends");
        match fs::read_to_string(&file).expect("never missing") {
            text if text == old => {
                kept += 1;
                delay = delay * 5 / 4;
            }
            text if text == new => {
                replaced += 1;
                delay = delay * 4 / 5;
            }
            text => panic!("neither old nor new: {} bytes", text.len()),
        }
    }
    assert!(killed >= 8 && kept >= 3 && replaced >= 3, "killed {killed}, old {kept}, new {replaced}");
}
