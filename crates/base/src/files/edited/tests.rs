use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

const MAX: u64 = 10_000;

fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Edits until no other program interferes.
fn edit(path: &Path, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    loop {
        let Ok(file) = Edited::read(path, MAX) else { continue };
        let content = change(file.content().unwrap_or_default());
        match file.replace(&content) {
            Ok(_) => return content,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}"),
        }
    }
}

#[test]
fn an_edit_keeps_mode_owner_and_link_and_leaves_a_backup_that_brings_the_old_content_back() {
    use std::os::unix::fs::{MetadataExt as _, chown, symlink};
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().join("dotfiles");
    fs::create_dir(&real).expect("a folder");
    let (file, link) = (real.join("mcp.json"), folder.path().join("mcp.json"));
    fs::write(&file, "old").expect("a file");
    set_mode(&file, 0o640);
    symlink(&file, &link).expect("a link");
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        chown(&file, Some(4242), Some(4343)).expect("an owner");
    }
    let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).expect("it is there");
    let before = owner(&file);
    let backup = Edited::read(&link, MAX).and_then(|file| file.replace(b"new")).expect("edited").expect("a backup");
    assert!(link.is_symlink(), "the link stays one");
    assert_eq!(fs::read(&file).expect("a file"), b"new");
    assert_eq!((mode_of(&file), owner(&file)), (0o640, before));
    assert_eq!(fs::read(&backup).expect("the backup"), b"old");
    assert_eq!((mode_of(&backup), owner(&backup)), (0o640, before), "the backup is as private as the file");
    assert_eq!(backup.parent(), Some(&*fs::canonicalize(&real).expect("a folder")));
    assert_eq!(names(&real).len(), 2, "{:?}", names(&real));
    // The very bytes come back, and nothing is left behind.
    let now = Edited::read(&link, MAX).expect("read");
    assert_eq!(now.backup().expect("looked for").as_ref(), Some(&backup));
    now.restore(&backup, b"old").expect("restored");
    assert_eq!((fs::read(&file).expect("a file"), mode_of(&file), owner(&file)), (b"old".to_vec(), 0o640, before));
    assert_eq!(names(&real), ["mcp.json"]);
}

#[test]
fn a_backup_is_found_for_the_content_that_followed_it_and_never_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("settings.json");
    fs::write(&path, "0").expect("a file");
    let step = |content: &str| {
        let file = Edited::read(&path, MAX).expect("read");
        file.replace(content.as_bytes()).expect("edited").expect("a backup")
    };
    // Twice the same edit in one second, of different files.
    let first = step("1");
    fs::write(&path, "by hand").expect("a file");
    let second = step("1");
    let third = step("2");
    let contents = [&first, &second, &third].map(|path| fs::read_to_string(path).expect("a backup"));
    assert_eq!(contents, ["0", "by hand", "1"]);
    let found = || Edited::read(&path, MAX).and_then(|file| file.backup()).expect("looked for");
    assert_eq!(found(), Some(third));
    fs::write(&path, "1").expect("a file");
    assert_eq!(found(), Some(second), "the newest one");
    fs::write(&path, "edited since").expect("a file");
    assert_eq!(found(), None);
    fs::remove_file(&path).expect("removed");
    assert_eq!(found(), None);
}

#[test]
fn a_new_file_is_private_its_folders_are_made_and_it_can_be_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/b/mcp.json");
    assert_eq!(Edited::read(&path, MAX).and_then(|file| file.replace(b"new")).expect("written"), None, "no backup");
    assert_eq!((fs::read(&path).expect("a file"), mode_of(&path)), (b"new".to_vec(), 0o600));
    let file = Edited::read(&path, MAX).expect("read");
    assert_eq!(file.backup().expect("looked for"), None);
    // Another program writes first.
    fs::write(&path, "theirs").expect("a file");
    assert_eq!(file.remove().expect_err("changed").kind(), ErrorKind::ResourceBusy);
    assert_eq!(fs::read(&path).expect("a file"), b"theirs");
    Edited::read(&path, MAX).and_then(|file| file.remove()).expect("removed");
    assert!(names(&folder.path().join("a/b")).is_empty());
    // An empty file is a file.
    fs::write(&path, "").expect("a file");
    let backup = Edited::read(&path, MAX).and_then(|file| file.replace(b"new")).expect("written").expect("a backup");
    assert_eq!(fs::read(backup).expect("a backup"), b"");
}

#[test]
fn what_cannot_be_edited_without_loss_is_refused_and_left_alone() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["readonly", "twice", "large", "below"] {
        fs::write(at(name), "old").expect("a file");
    }
    set_mode(&at("readonly"), 0o444);
    fs::hard_link(at("twice"), at("twice too")).expect("a link");
    fs::write(at("large"), vec![b' '; MAX as usize + 1]).expect("a file");
    fs::create_dir(at("folder")).expect("a folder");
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    symlink(at("nowhere"), at("broken")).expect("a link");
    symlink(at("loop"), at("loop")).expect("a link");
    symlink(at("nofolder"), at("broken folder")).expect("a link");
    let before = names(folder.path());
    for (path, expected) in [
        (at("readonly"), "it is read-only (mode 0444); `chmod u+w` it to have it edited"),
        (at("twice"), "it has 2 names (hard links), and only one would be edited"),
        (at("large"), "10001 bytes, over the limit of 10000 bytes"),
        (at("folder"), "it is a folder, not a file"),
        (at("fifo"), "it is a FIFO, not a regular file"),
        (at("broken"), "nowhere, which does not exist; remove the link"),
        (at("loop"), "levels of symbolic links"),
        (at("below/it"), "Not a directory"),
        (at("broken folder/it"), "cannot be written: "),
        (Path::new("/proc/it").to_owned(), "its folder /proc cannot be written: "),
    ] {
        let error = Edited::read(&path, MAX).and_then(|file| file.replace(b"new")).expect_err("refused").to_string();
        assert!(error.contains(expected), "{}: {error}", path.display());
    }
    assert_eq!(names(folder.path()), before, "nothing is left behind");
    assert_eq!(fs::read(at("twice too")).expect("a file"), b"old");
}

#[test]
fn a_change_since_it_was_read_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp.json");
    let appears = Edited::read(&path, MAX).expect("read");
    fs::write(&path, "theirs").expect("a file");
    let changes = Edited::read(&path, MAX).expect("read");
    fs::write(&path, "theirs, changed").expect("a file");
    for (file, what) in [(&appears, "appeared"), (&changes, "changed")] {
        assert_eq!(file.replace(b"ours").expect_err(what).kind(), ErrorKind::ResourceBusy);
    }
    fs::remove_file(&path).expect("removed");
    assert_eq!(changes.replace(b"ours").expect_err("removed").kind(), ErrorKind::ResourceBusy);
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn edits_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("list");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for turn in 0..10 {
                    edit(path, |before| [before, format!("{thread}.{turn}\n").as_bytes()].concat());
                }
            });
        }
    });
    let text = fs::read_to_string(&path).expect("a file");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 40, "{text}");
    let left: Vec<_> = names(folder.path()).into_iter().filter(|name| name.starts_with(TEMPORARY)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn no_version_of_a_program_that_knows_no_lock_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("settings.json");
    let theirs = folder.path().join("theirs");
    fs::write(&path, "0").expect("a file");
    let (ends, edits) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !ends.load(Ordering::Relaxed) && Instant::now() < deadline {
                edit(&path, |before| match before.strip_prefix(b"ours on ") {
                    Some(number) => [b"ours on ", number].concat(),
                    None => [b"ours on ", before].concat(),
                });
                edits.fetch_add(1, Ordering::Relaxed);
            }
        });
        for number in 1..=200 {
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..2_000)));
            fs::write(&theirs, number.to_string()).expect("a file");
            fs::rename(&theirs, &path).expect("replaced");
            // The edit that was under way is done, and one more.
            let seen = edits.load(Ordering::Relaxed);
            while edits.load(Ordering::Relaxed) < seen + 2 {
                std::thread::yield_now();
            }
            let now = fs::read_to_string(&path).expect("a file");
            assert_eq!(now, format!("ours on {number}"));
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn what_another_program_wrote_in_the_last_moment_is_kept_when_it_cannot_be_put_back() {
    // What happens when its content is to be put back, and what is left at the path.
    type Case<'a> = (&'a str, fn(&Path) -> io::Result<()>, Option<&'a str>);
    let cases: [Case<'_>; 3] = [
        ("Input/output error", |_| Err(io::Error::from_raw_os_error(5)), Some("ours")),
        ("No such file", |path| fs::remove_file(path).and(Err(io::Error::from_raw_os_error(2))), None),
        ("Permission denied", |_| Err(io::Error::from_raw_os_error(13)), Some("ours")),
    ];
    for (reason, fails, left) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        fs::write(&path, "before").expect("a file");
        let turns = AtomicUsize::new(0);
        let failing = |one: &Path, other: &Path| {
            if turns.fetch_add(1, Ordering::Relaxed) > 0 {
                return fails(other);
            }
            fs::write(other, "theirs").expect("their file");
            exchange(one, other)
        };
        let file = Edited::read(&path, MAX).expect("read");
        let error = file.write(b"ours", Kind::Edit, &failing).expect_err("their bytes are in the way").to_string();
        assert!(error.contains("another program changed it in the meantime") && error.contains(reason), "{error}");
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), left, "{reason}");
        let aside = |names: Vec<String>| names.into_iter().find(|name| name.contains(".aside.")).expect("kept aside");
        let kept = folder.path().join(aside(names(folder.path())));
        assert!(error.contains(&kept.display().to_string()), "{error}");
        assert_eq!(fs::read(&kept).expect("their content"), b"theirs", "{reason}");
        // What was there before is lost neither: the new content is in its place.
        let kept_before = names(folder.path()).iter().any(|name| {
            !name.contains(".aside.") && fs::read(folder.path().join(name)).is_ok_and(|content| content == b"before")
        });
        assert_eq!(kept_before, left.is_some(), "{reason}: {:?}", names(folder.path()));
        // Later edits leave it alone, and it is no backup to go back to.
        let backup = Edited::read(&path, MAX).and_then(|file| file.replace(b"theirs")).expect("edited");
        let file = Edited::read(&path, MAX).expect("read");
        file.forget_backups(backup.as_deref().unwrap_or(Path::new(""))).expect("forgotten");
        assert_eq!(file.backup().expect("looked for"), backup, "{reason}");
        assert_eq!(fs::read(&kept).expect("their content"), b"theirs", "{reason}");
        let others = names(folder.path()).iter().filter(|name| name.starts_with(TEMPORARY)).count();
        assert_eq!(others, 0, "{:?}", names(folder.path()));
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn of_a_program_that_writes_at_every_moment_the_last_two_versions_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("settings.json");
    fs::write(&path, "before").expect("a file");
    let turns = AtomicUsize::new(0);
    let restless = |one: &Path, other: &Path| {
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        fs::write(other, format!("theirs {turn}")).expect("their file");
        exchange(one, other)
    };
    let file = Edited::read(&path, MAX).expect("read");
    let error = file.write(b"ours", Kind::Edit, &restless).expect_err("no end").to_string();
    assert!(error.contains("during each of 100 attempts"), "{error}");
    let contents = names(folder.path()).into_iter().map(|name| fs::read(folder.path().join(name)).expect("a file"));
    let mut contents: Vec<String> = contents.map(|content| String::from_utf8(content).expect("text")).collect();
    contents.sort();
    assert_eq!(contents, ["theirs 98", "theirs 99"]);
}

#[test]
fn the_backup_of_an_import_outlasts_those_of_edits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("forge.toml");
    fs::write(&path, "0").expect("a file");
    let step = |content: &[u8], is_import: bool| {
        let file = Edited::read(&path, MAX).expect("read");
        let written = if is_import { file.replace_private(content) } else { file.replace(content) };
        let backup = written.expect("edited").expect("a backup");
        file.forget_backups(&backup).expect("forgotten");
        backup
    };
    let foreign = folder.path().join("forge.toml.mine.forgefs-backup");
    fs::write(&foreign, "mine").expect("a file");
    let (import, first, last) = (step(b"1", true), step(b"2", false), step(b"3", false));
    assert_eq!(fs::read(&import).expect("the backup that was named"), b"0");
    assert!(!first.exists() && last.exists() && foreign.exists(), "{:?}", names(folder.path()));
    // It brings the old content back too.
    fs::write(&path, "1").expect("a file");
    let found = Edited::read(&path, MAX).and_then(|file| file.backup()).expect("looked for");
    assert_eq!(found, Some(import));
}
