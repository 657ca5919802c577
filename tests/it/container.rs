//! The Dockerfile: its build has every file that it needs, and the steps of its image work on a bare Debian.

use std::{fs, path::Path, process::Command};

use crate::{
    client::{Fence, finish},
    real::path,
};

/// Files that reach the build: what `.dockerignore` lets through.
fn context(root: &Path) -> Vec<String> {
    let ignore = fs::read_to_string(root.join(".dockerignore")).expect("the file");
    let mut lines = ignore.lines();
    assert_eq!(lines.next(), Some("*"), "everything is left out at first");
    let kept: Vec<&str> = lines.map(|line| line.strip_prefix('!').expect("then files are let in")).collect();
    let listed = finish(Command::new("git").args(["ls-files"]).current_dir(root), "").success().stdout;
    let is_kept = |file: &str| {
        kept.iter().any(|kept| match kept.strip_suffix('*') {
            Some(start) => file.starts_with(start),
            None => file == *kept || file.starts_with(&format!("{kept}/")),
        })
    };
    listed.lines().filter(|file| is_kept(file)).map(str::to_owned).collect()
}

/// The steps of the last stage.
fn image(root: &Path) -> Vec<(String, String)> {
    let file = fs::read_to_string(root.join("Dockerfile")).expect("the file");
    let joined = file.replace("\\\n", " ");
    let last = joined.rsplit("\nFROM ").next().expect("a stage");
    let steps = last.lines().skip(1).filter(|line| !line.starts_with('#'));
    steps.filter_map(|line| line.split_once(' ')).map(|(step, words)| (step.to_owned(), words.to_owned())).collect()
}

#[test]
fn the_build_of_the_container_has_the_whole_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fence = Fence::new();
    let files = context(root);
    assert!(files.len() > 300 && !files.iter().any(|file| file.starts_with("fuzz/")), "{} files", files.len());
    for file in files {
        let to = fence.work().join(&file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        match fs::read_link(root.join(&file)) {
            Ok(target) => std::os::unix::fs::symlink(target, &to).expect("linked"),
            Err(_) => drop(fs::copy(root.join(&file), &to).expect("copied")),
        }
    }
    let manifest = fence.work().join("Cargo.toml");
    let words = ["metadata", "--no-deps", "--locked", "--offline", "--format-version", "1", "--manifest-path"];
    // Fails if a member, or a file that a manifest names, is missing.
    let metadata = finish(Command::new("cargo").args(words).arg(manifest), "").success().stdout;
    assert!(metadata.contains("\"name\":\"forgefs-worker\""), "{metadata}");
    assert!(fence.work().join("stubgen/templates/stub.j2").is_file(), "templates are linked");
}

#[test]
fn the_image_runs_forgefs_as_a_numeric_user_without_rights() {
    let steps = image(Path::new(env!("CARGO_MANIFEST_DIR")));
    let named: Vec<&str> = steps.iter().map(|(step, _)| step.as_str()).collect();
    assert_eq!(named, ["RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"]);
    let user = &steps[2].1;
    assert!(user.parse::<u32>().is_ok_and(|user| user > 0) && steps[0].1.contains(&format!("--uid {user} ")), "{user}");
}

#[test]
fn the_replicas_of_the_compose_file_have_a_usable_configuration_and_its_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/compose");
    let fence = Fence::new();
    fence.write("forge.toml", &fs::read_to_string(folder.join("forge.toml")).expect("the file"));
    fence.write("store-ca.pem", include_str!("../tls/cert.pem"));
    let mut listed = fence.forgefs(["ls", "/"]);
    // Nothing answers there: what needs no store goes on.
    listed.env("STORE_PASSWORD", "store-password-0123").env("FORGEFS_CI_TOKEN", "ci-token-0123456789");
    finish(&mut listed, "").success();
    let compose = fs::read_to_string(folder.join("compose.yaml")).expect("the file");
    let mounted: Vec<&str> = compose.split("\"./").skip(1).filter_map(|rest| rest.split(':').next()).collect();
    assert!(mounted.len() >= 5, "{mounted:?}");
    // Certificates are the operator's.
    for file in mounted.into_iter().filter(|file| !file.contains("tls")) {
        assert!(folder.join(file).is_file(), "{file}");
    }
}

#[test]
#[ignore = "makes a Debian with debootstrap: root, a mirror of Debian and minutes"]
fn the_steps_of_the_image_work_on_a_bare_debian() {
    let steps = image(Path::new(env!("CARGO_MANIFEST_DIR")));
    let step = |name: &str| &steps.iter().find(|(step, _)| step == name).expect(name).1;
    let fence = Fence::new();
    let debian = fence.work().join("debian");
    finish(Command::new("debootstrap").args(["--variant=minbase", "bookworm", path(&debian)]), "").success();
    if let Ok(resolver) = fs::read("/etc/resolv.conf") {
        fs::write(debian.join("etc/resolv.conf"), resolver).expect("names are resolved");
    }
    let bare = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "-ec", step("RUN")];
    finish(Command::new("chroot").arg(&debian).args(bare), "").success();
    let target = step("COPY").rsplit(' ').next().expect("a path").trim_start_matches('/');
    fs::copy(env!("CARGO_BIN_EXE_forgefs"), debian.join(target)).expect("copied");
    // Mounts of its own, which end with it.
    let enter = format!(
        "mount -t proc proc {0}/proc && exec chroot --userspec={1} {0} \
         /usr/bin/env -i HOME={2} /bin/sh -c 'cd {2} && /{3} \"$0\"' \"$0\"",
        path(&debian),
        step("USER"),
        step("WORKDIR"),
        target
    );
    let run = |command: &str| finish(Command::new("unshare").args(["--mount", "/bin/sh", "-c", &enter, command]), "");
    let doctor = run("doctor").success().stdout;
    assert!(doctor.contains("sandbox  seccomp: ") && !doctor.contains("NOT ACTIVE"), "{doctor}");
    assert!(run("demo").success().stdout.contains("## ls /"));
    let serve = run("serve");
    assert!(serve.code == Some(2) && serve.stderr.contains("forgefs init"), "{serve:?}");
}
