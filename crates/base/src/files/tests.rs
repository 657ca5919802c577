use super::*;

/// Long enough for the timestamps of file systems.
const REST: Duration = Duration::from_millis(400);

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
}

#[test]
fn only_regular_files_of_bounded_length_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("plain"), "12345678").expect("a file");
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
    for (name, to) in [("to-plain", at("plain")), ("to-fifo", at("fifo")), ("loop", at("loop"))] {
        std::os::unix::fs::symlink(to, at(name)).expect("a link");
    }
    assert_eq!(read_regular(&at("plain"), 8).expect("it is read"), b"12345678");
    assert_eq!(read_regular(&at("to-plain"), 8).expect("links are followed"), b"12345678");
    for (path, expected) in [
        (at("plain"), "8 bytes, over the limit of 7 bytes"),
        (at("fifo"), "it is a FIFO, not a regular file"),
        (at("to-fifo"), "it is a FIFO, not a regular file"),
        (at("socket"), "it is a socket, not a regular file"),
        (at(""), "it is a folder, not a file"),
        (Path::new("/dev/zero").to_owned(), "it is a device, not a regular file"),
        (Path::new("/dev/tty").to_owned(), "it is a device, not a regular file"),
        (at("loop"), "levels of symbolic links"),
        (at("missing"), "No such file"),
        (at("plain/below"), "Not a directory"),
    ] {
        let error = read_regular(&path, 7).expect_err("refused").to_string();
        assert!(error.contains(expected), "{}: {error}", path.display());
    }
    // A shell's open file has no meaningful length.
    assert!(read_named(Path::new("/dev/fd/none"), 7).is_err());
    assert!(read_regular(Path::new("/proc/self/environ"), 1).is_err());
}

#[test]
fn what_others_may_change_is_not_taken_for_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own");
    make_own_folder(&own).expect("a folder");
    let file = own.join("file");
    replace(&file, b"mine", Keep::Cached).expect("a file");
    let read = || read_private(&file, 100).map_err(|error| error.to_string());
    assert_eq!(read().expect("it is mine"), b"mine");
    for wrong in [0o666, 0o620, 0o602, 0o777] {
        mode(&file, wrong);
        let error = read().expect_err("others may change it");
        assert!(error.contains("others may change it (mode 0") && error.contains("chmod go-w"), "{error}");
    }
    mode(&file, 0o600);
    for wrong in [0o777, 0o770, 0o702] {
        mode(&own, wrong);
        let error = read().expect_err("others may replace it");
        assert!(error.contains("others may change the folder") && error.contains("chmod go-w"), "{error}");
        assert!(make_own_folder(&own).is_err());
    }
    // In a folder like /tmp others can only add.
    mode(&own, 0o1777);
    assert_eq!(read().expect("it is mine"), b"mine");
    mode(&own, 0o700);
    let link = own.join("link");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let error = read_private(&link, 100).expect_err("a link").to_string();
    assert!(error.contains("it is a link"), "{error}");
    let error = open_private(&link, private().write(true).create(true)).expect_err("a link").to_string();
    assert!(error.contains("it is a link"), "{error}");
    // Folders are often links: to another disk, or into a repository of settings.
    let linked = folder.path().join("linked");
    std::os::unix::fs::symlink(&own, &linked).expect("a link");
    assert_eq!(read_private(&linked.join("file"), 100).expect("it is mine"), b"mine");
    if nix::unistd::geteuid().is_root() {
        for path in [&file, &own] {
            std::os::unix::fs::chown(path, Some(4242), None).expect("another owner");
            let error = read().expect_err("of another user");
            assert!(error.contains("belongs to another user (uid 4242, this is uid 0)"), "{error}");
            std::os::unix::fs::chown(path, Some(0), None).expect("the owner");
        }
        std::os::unix::fs::lchown(&linked, Some(4242), None).expect("another owner");
        assert!(read_private(&linked.join("file"), 100).is_err(), "somebody else's link");
    }
}

#[test]
fn a_file_is_read_once_it_rests() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("forge.toml");
    fs::write(&path, "first half\n").expect("a file");
    let writer = path.clone();
    // Writes in place, with pauses shorter than the requested rest.
    let writing = std::thread::spawn(move || {
        let mut file = OpenOptions::new().append(true).open(writer).expect("it is there");
        for _ in 0..6 {
            std::thread::sleep(REST / 4);
            file.write_all(b"more\n").expect("written");
        }
        file.write_all(b"end\n").expect("written");
    });
    let text = at_rest(&path, REST, || fs::read_to_string(&path).expect("text")).expect("it rests");
    assert!(text.ends_with("end\n"), "caught half-written: {text}");
    writing.join().expect("it wrote");
    // A file that changes while it is read is read again.
    let readings = std::cell::Cell::new(0);
    let text = at_rest(&path, REST, || {
        let text = fs::read_to_string(&path).expect("text");
        if readings.replace(readings.get() + 1) == 0 {
            fs::write(&path, "replaced").expect("written");
        }
        text
    });
    assert_eq!((text.expect("it rests").as_str(), readings.get()), ("replaced", 2));
    // A file that never rests is given up.
    let restless = at_rest(&path, RESTLESS / 2, || fs::write(&path, "again").expect("written"));
    assert!(restless.expect_err("it changes").to_string().contains("not at rest for 5000 ms within 10 s"));
}

#[test]
fn a_version_tells_changes_of_the_same_length_and_time_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, "deny").expect("a file");
    let (before, time) = (Version::of(&path), fs::metadata(&path).and_then(|m| m.modified()).expect("a time"));
    std::thread::sleep(Duration::from_millis(20));
    fs::write(&path, "call").expect("a file");
    File::options().write(true).open(&path).and_then(|file| file.set_modified(time)).expect("a time");
    assert_ne!(Version::of(&path), before);
}

#[test]
fn a_file_is_created_once_and_a_missing_one_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    assert_eq!(if_there(read_private(&path, 8)).expect("nothing"), None);
    for (content, created) in [(b"one", true), (b"two", false)] {
        assert_eq!(create(&path, content, Keep::Synced).expect("a folder"), created);
        assert_eq!(if_there(read_private(&path, 8)).expect("a file").as_deref(), Some(&b"one"[..]));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside it");
    assert!(if_there(fs::read_dir(&path)).is_err());
}
