//! Files that are irregular, endless, another user's, or cannot be written: the gateway reports them at once, and
//! continues.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::client::{Fence, Output, finish, up};
use crate::real::{path, skipped};

/// Time limit of a refusal, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Irregular files in place of a file, each with the expected message.
fn things(fence: &Fence) -> Vec<(PathBuf, &'static str)> {
    let at = |name: &str| fence.work().join("things").join(name);
    fs::create_dir_all(at("")).expect("a folder");
    mkfifo(&at("fifo.toml"), Mode::S_IRWXU).expect("a FIFO");
    drop(UnixListener::bind(at("socket.toml")).expect("a socket"));
    fs::create_dir(at("folder.toml")).expect("a folder");
    fs::File::create(at("huge.toml")).and_then(|file| file.set_len(1 << 40)).expect("a hole");
    for (name, to) in [
        ("zero.toml", "/dev/zero"),
        ("random.toml", "/dev/urandom"),
        ("tty.toml", "/dev/tty"),
        ("to-fifo.toml", "fifo.toml"),
        ("loop.toml", "loop.toml"),
    ] {
        symlink(to, at(name)).expect("a link");
    }
    vec![
        (at("fifo.toml"), "a FIFO, not a regular file"),
        (at("to-fifo.toml"), "a FIFO, not a regular file"),
        (at("socket.toml"), "a socket, not a regular file"),
        (at("zero.toml"), "a device, not a regular file"),
        (at("random.toml"), "a device, not a regular file"),
        (at("tty.toml"), "a device, not a regular file"),
        (at("folder.toml"), "this is a directory, not a file"),
        (at("huge.toml"), "longer than 4MiB"),
        (at("loop.toml"), "no such file"),
    ]
}

fn at_once(about: &str, begun: Instant) {
    assert!(begun.elapsed() < AT_ONCE, "{about}: {:?}", begun.elapsed());
}

#[test]
fn whatever_is_in_the_place_of_the_configuration_the_start_ends() {
    let fence = Fence::new();
    for (thing, says) in things(&fence) {
        let begun = Instant::now();
        let named = fence.run(["--config", path(&thing), "ls"]);
        let variable = finish(fence.forgefs(["ls"]).env("FORGEFS_CONFIG", &thing), "");
        for output in [named, variable] {
            assert_eq!(output.code, Some(2), "{}: {output:?}", thing.display());
            assert!(output.stderr.contains(says), "{}: {output:?}", thing.display());
        }
        at_once(path(&thing), begun);
    }
    // Those that are searched for.
    for (place, says) in [("forge.toml", "a FIFO"), ("../home/.config/forgefs/forge.toml", "a FIFO")] {
        let begun = Instant::now();
        let place = fence.work().join(place);
        fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        mkfifo(&place, Mode::S_IRWXU).expect("a FIFO");
        let output = fence.run(["ls"]);
        assert!(output.code == Some(2) && output.stderr.contains(says), "{}: {output:?}", place.display());
        fs::remove_file(&place).expect("it was there");
        at_once(path(&place), begun);
    }
}

#[test]
fn a_configuration_that_another_user_laid_into_an_open_folder_starts_nothing() {
    let fence = Fence::new();
    let file = fence.write("forge.toml", "[servers.evil]\ncommand = \"touch\"\nargs = [\"ran\"]\n");
    if chown(&file, Some(65_534), None).is_err() {
        return skipped("only root gives a file to another user");
    }
    let mode = |mode: u32| fs::set_permissions(fence.work(), fs::Permissions::from_mode(mode)).expect("a mode");
    for (open, args, says) in [
        (0o1777, vec!["ls"], Some("belongs to another user, in a folder that everyone can write to")),
        (0o1777, vec!["--config", "forge.toml", "ls"], None),
        (0o755, vec!["ls"], None),
    ] {
        mode(open);
        let output = fence.run(&args);
        assert_eq!(output.code, Some(if says.is_some() { 2 } else { 0 }), "{args:?}: {output:?}");
        assert!(says.is_none_or(|says| output.stderr.contains(says)), "{output:?}");
        assert_eq!(fence.work().join("ran").exists(), says.is_none(), "{args:?}");
        let _ = fs::remove_file(fence.work().join("ran"));
    }
}

#[test]
fn whatever_is_in_the_place_of_a_tool_list_the_start_ends() {
    let fence = Fence::new();
    for (thing, _) in things(&fence) {
        let begun = Instant::now();
        let output = fence.run(["--catalog", path(&thing), "ls"]);
        assert!(output.code.is_some_and(|code| code != 0), "{}: {output:?}", thing.display());
        assert!(output.stderr.contains(path(&thing)), "{}: {output:?}", thing.display());
        at_once(path(&thing), begun);
    }
}

#[test]
fn what_a_shell_passes_on_as_an_open_file_is_a_configuration() {
    let fence = Fence::new();
    fence.write("real.toml", "[servers.absent]\ncommand = \"nothing-of-this-name\"\n");
    let exe = env!("CARGO_BIN_EXE_forgefs");
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &format!("{exe:?} --config <(cat real.toml) ls /")]).current_dir(fence.work());
    fence.enclose(&mut shell);
    let output = finish(&mut shell, "").success();
    assert!(output.stdout.contains("absent/"), "{output:?}");
}

/// The file is written in place, slowly, with the rules last.
#[tokio::test]
async fn a_configuration_caught_half_written_does_not_loosen_the_rules() {
    let fence = Fence::new();
    let rules = "deny = [\"list_teams\"]\n";
    let session = fence.serve(&people(rules)).await;
    session.ready(&["people"]).await;
    let file = fence.work().join("forge.toml");
    let writing = std::thread::spawn(move || {
        use std::io::Write as _;
        let mut file = fs::File::create(file).expect("it is there");
        for _ in 0..8 {
            file.write_all(people("# not all of it yet").as_bytes()).expect("written");
            std::thread::sleep(Duration::from_millis(300));
            file.set_len(0).and_then(|()| std::io::Seek::rewind(&mut file)).expect("from the beginning");
        }
        file.write_all(format!("{}{rules}[servers.more]\ncommand = \"x\"\n", people("")).as_bytes()).expect("written");
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let process = nix::unistd::Pid::from_raw(i32::try_from(session.pid).expect("a process number"));
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGHUP).expect("the gateway runs");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let denied = session.execute_err("starlark", "people.list_teams()").await;
        assert!(!denied.is_empty());
        if session.call("ls", serde_json::json!({})).await.text.contains("more/") {
            break;
        }
        assert!(Instant::now() < deadline, "not reloaded: {}", session.stderr());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    writing.join().expect("it wrote");
    session.execute_err("starlark", "people.list_teams()").await;
}

/// The sample server `people` with more settings.
fn people(rest: &str) -> String {
    let exe = env!("CARGO_BIN_EXE_forgefs");
    format!("[servers.people]\ncommand = {exe:?}\nargs = [\"demo-server\", \"people\"]\n{rest}\n")
}

/// The only file in a folder with this name prefix.
fn file_in(folder: &Path, start: &str) -> PathBuf {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut found =
        entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)));
    found.next().unwrap_or_else(|| panic!("no {start}… in {}", folder.display()))
}

/// Folders with a cached list of the server's tools, including a tool that it does not have.
async fn poisoned(fence: &Fence) -> PathBuf {
    let session = fence.serve(&people("")).await;
    session.ready(&["people"]).await;
    let folder = fence.cache();
    let deadline = Instant::now() + AT_ONCE;
    while !folder.exists() || fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 0) {
        assert!(Instant::now() < deadline, "no list is kept\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    session.close().await;
    file_in(&folder, "people-")
}

#[tokio::test]
async fn a_kept_list_that_others_may_change_is_not_used() {
    let fence = Fence::new();
    let file = poisoned(&fence).await;
    let folder = file.parent().expect("a folder").to_owned();
    let good = fs::read(&file).expect("a list");
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    let outside = fence.write("outside.json", std::str::from_utf8(&good).expect("text"));
    let put = |what: &str| {
        let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
        match what {
            "a link" => symlink(&outside, &file).expect("a link"),
            "endless" => symlink("/dev/zero", &file).expect("a link"),
            "a FIFO" => mkfifo(&file, Mode::S_IRWXU).expect("a FIFO"),
            "a folder" => fs::create_dir(&file).expect("a folder"),
            "huge" => fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("a hole"),
            _ => fs::write(&file, &good).expect("a list"),
        }
        if !matches!(what, "a link" | "endless") {
            mode(&file, if what == "writable" { 0o666 } else { 0o600 });
        }
        mode(&folder, if what == "in a shared folder" { 0o777 } else { 0o700 });
        if what == "another's" {
            chown(&file, Some(4242), None).expect("another owner");
        }
        if what == "in another's folder" {
            chown(&folder, Some(4242), None).expect("another owner");
        }
    };
    let mut cases = vec![
        ("writable", "others may change it"),
        ("in a shared folder", "others may change the folder"),
        ("a link", "it is a link"),
        ("endless", "it is a link"),
        ("a FIFO", "it is a FIFO"),
        ("a folder", "it is a folder"),
        ("huge", "over the limit of"),
    ];
    match nix::unistd::geteuid().is_root() {
        true => {
            cases.extend([("another's", "another user (uid 4242"), ("in another's folder", "another user (uid 4242")])
        }
        false => skipped("files of another owner can be made by root alone"),
    }
    for (what, says) in cases {
        put(what);
        let begun = Instant::now();
        let output = fence.run(["--log", "forgefs=warn", "ls", "/"]).success();
        assert!(output.stderr.contains("the kept tool list is not used"), "{what}: {output:?}");
        assert!(output.stderr.contains(says), "{what}: {output:?}");
        assert!(regex::Regex::new(&up("people")).expect("a pattern").is_match(&output.stdout), "{what}: {output:?}");
        at_once(what, begun);
        chown(&folder, Some(nix::unistd::geteuid().as_raw()), None).expect("the owner");
    }
    put("good");
    assert!(!fence.run(["--log", "forgefs=warn", "ls", "/"]).success().stderr.contains("not used"));
}

#[test]
fn nothing_is_put_on_record_in_a_file_that_others_own_or_may_change() {
    let fence = Fence::new();
    let log = fence.work().join("audit.jsonl");
    let config = fence.write("forge.toml", &people("[audit]\npath = \"audit.jsonl\"\n"));
    let call = || fence.run(["--log", "forgefs=warn", "--config", path(&config), "call", "people", "list_teams", "{}"]);
    let us = nix::unistd::geteuid().as_raw();
    let mut cases =
        vec![(0o666, us, "others may change it (mode 0666)"), (0o620, us, "others may change it (mode 0620)")];
    match us {
        0 => cases.push((0o600, 4242, "it belongs to another user (uid 4242, this is uid 0)")),
        _ => skipped("files of another owner can be made by root alone"),
    }
    for (mode, owner, says) in cases {
        fs::write(&log, "theirs\n").expect("a file");
        fs::set_permissions(&log, fs::Permissions::from_mode(mode)).expect("a mode");
        chown(&log, Some(owner), None).expect("an owner");
        let output = call();
        assert!(output.code != Some(0) && output.stderr.contains(says), "{says}: {output:?}");
        assert!(output.stderr.contains("it cannot be put on record"), "{says}: {output:?}");
        assert_eq!(fs::read_to_string(&log).expect("a file"), "theirs\n", "{says}");
        fs::remove_file(&log).expect("it was there");
    }
    fs::write(&log, "").expect("a file");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).expect("a mode");
    call().success();
    assert_eq!(fs::read_to_string(&log).expect("a file").lines().count(), 2);
}

/// Message when the day's budget is spent.
const SPENT: &str = "only 0 of the day budget";

fn call(fence: &Fence, config: &str) -> Output {
    let begun = Instant::now();
    let output = fence.run(["--config", config, "call", "people", "list_teams", "{}"]);
    at_once(config, begun);
    output
}

#[test]
fn one_configuration_has_one_budget_of_the_day_by_whatever_path() {
    let fence = Fence::new();
    let file = fence.write("forge.toml", &people("[budgets]\nday = 2"));
    fs::create_dir(fence.work().join("x")).expect("a folder");
    symlink(&file, fence.work().join("x/link.toml")).expect("a link");
    symlink("x", fence.work().join("y")).expect("a link");
    for config in ["forge.toml", "x/../forge.toml"] {
        call(&fence, config).success();
    }
    fs::hard_link(&file, fence.work().join("z.toml")).expect("a second name");
    fs::remove_file(fence.work().join("z.toml")).expect("it was there");
    for config in ["forge.toml", "x/../x/../forge.toml", "x/link.toml", "y/link.toml", "y/../forge.toml", path(&file)] {
        let output = call(&fence, config);
        assert!(output.code != Some(0) && output.stderr.contains(SPENT), "{config}: {output:?}");
    }
    // Another file has its own budget.
    fence.write("other.toml", &people("[budgets]\nday = 2"));
    call(&fence, "other.toml").success();
}

#[test]
fn what_is_in_the_place_of_what_was_spent_spends_nothing_and_holds_up_nothing() {
    let fence = Fence::new();
    fence.write("forge.toml", &people("[budgets]\nday = 3"));
    call(&fence, "forge.toml").success();
    let folder = fence.work().join("../home/.local/state/forgefs");
    let file = file_in(&folder, "spent-");
    // A date in the future counts today, and is renewed tomorrow.
    let zeros = |micros: u64| format!("2999-01-01 {micros:020}\n");
    fs::write(&file, zeros(2_000_000)).expect("a file");
    call(&fence, "forge.toml").success();
    let today = fs::read_to_string(&file).expect("a line");
    assert!(!today.starts_with("2999") && today.ends_with(" 00000000000003000000\n"), "{today}");
    assert!(call(&fence, "forge.toml").stderr.contains(SPENT));
    let good = fs::read(&file).expect("a line");
    let elsewhere = fence.write("spent", &String::from_utf8(good).expect("text"));
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    for what in ["FIFO", "folder", "link", "endless", "text", "writable", "shared"] {
        let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
        match what {
            "FIFO" => mkfifo(&file, Mode::S_IRWXU).expect("a FIFO"),
            "folder" => fs::create_dir(&file).expect("a folder"),
            "link" => symlink(&elsewhere, &file).expect("a link"),
            "endless" => symlink("/dev/zero", &file).expect("a link"),
            "text" => fs::write(&file, "2026-11-22 all of it\n").expect("a file"),
            _ => fs::write(&file, "").expect("a file"),
        }
        if what == "writable" {
            mode(&file, 0o666);
        }
        mode(&folder, if what == "shared" { 0o777 } else { 0o700 });
        let output = call(&fence, "forge.toml");
        assert!(output.code != Some(0), "{what}: {output:?}");
        assert!(output.stderr.contains("what was spent of today's budget cannot be read"), "{what}: {output:?}");
    }
}

/// A mounted file system, unmounted when dropped.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Unusable state folders, by the variable of their parent.
fn unusable(fence: &Fence) -> (Vec<(&'static str, PathBuf)>, Option<Mount>) {
    let file = fence.write("a-file", "");
    let mut folders = vec![("a file in its place", file), ("no folder of a file system", PathBuf::from("/proc/none"))];
    let small = fence.work().join("small");
    fs::create_dir(&small).expect("a folder");
    let mounted = nix::unistd::geteuid().is_root()
        && std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "none", path(&small)])
            .status()
            .is_ok_and(|status| status.success());
    if mounted {
        // To the last byte.
        let _ = fs::write(small.join("full"), vec![0; 1 << 20]);
        folders.push(("a full tmpfs", small.clone()));
    } else {
        skipped("no tmpfs can be mounted here");
    }
    if nix::unistd::geteuid().is_root() {
        let theirs = fence.work().join("theirs");
        for folder in ["", "forgefs", "forgefs/auth"] {
            fs::create_dir(theirs.join(folder)).expect("a folder");
            chown(theirs.join(folder), Some(4242), None).expect("another owner");
        }
        folders.push(("another user's", theirs));
    }
    (folders, mounted.then(|| Mount(small)))
}

#[tokio::test]
async fn where_nothing_can_be_kept_the_gateway_runs_and_says_so() {
    let fence = Fence::new();
    let (folders, _mount) = unusable(&fence);
    for (about, folder) in folders {
        fence.write("forge.toml", &people(""));
        let mut command = fence.forgefs(["serve"]);
        for variable in ["XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env(variable, &folder);
        }
        let session = fence.connect(crate::client::Era::Modern, command).await;
        session.ready(&["people"]).await;
        let teams = session.execute("starlark", "len(people.list_teams()[\"teams\"])").await;
        assert!(teams.as_u64().is_some_and(|teams| teams > 0), "{about}: {teams}");
        let deadline = Instant::now() + AT_ONCE;
        while !session.stderr().contains("the tool list is not kept") {
            assert!(Instant::now() < deadline, "{about}: {}", session.stderr());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        session.close().await;
    }
}
