//! Memory and number of processes of a server with all its children, by a control group (cgroup v2) of its own.
//!
//! It needs a part of the tree that was handed to the gateway: a systemd unit with `Delegate=`, a container, or root. The
//! gateway moves itself and its children into a group below its own first, since a group whose children have limits may
//! hold no process itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The group into which the gateway moves. A unit with `DelegateSubgroup=gateway` starts it there.
const OWN: &str = "gateway";
/// Attempts to remove a group, whose processes take a moment to end.
const REMOVALS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Limits of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
}

/// Outcome of each limit: in force, or why not. `None`: not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Of [`Limits::memory`].
    pub memory: Option<Result<(), String>>,
    /// Of [`Limits::processes`].
    pub processes: Option<Result<(), String>>,
}

/// A control group. Dropping it ends its processes and removes it, which takes a moment.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes a group with those limits that can be had here, and puts the process `pid` into it.
    #[must_use]
    pub fn around(pid: u32, limits: Limits) -> (Option<Self>, Outcomes) {
        if limits == Limits::default() {
            return (None, Outcomes::default());
        }
        match place().and_then(|place| Self::below(&place, pid, limits)) {
            Ok(made) => made,
            Err(reason) => (None, all(limits, &reason)),
        }
    }

    fn below(place: &Path, pid: u32, limits: Limits) -> Result<(Option<Self>, Outcomes), String> {
        let wanted = [("memory", "memory.max", limits.memory), ("pids", "pids.max", limits.processes.map(u64::from))];
        let enabled = wanted.map(|(controller, _, limit)| limit.map(|_| enable(place, controller)));
        if !enabled.iter().flatten().any(Result::is_ok) {
            let [memory, processes] = enabled;
            return Ok((None, Outcomes { memory, processes }));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("forgefs-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| failed(&path, &error))?;
        let group = Self(path);
        let mut outcomes = Vec::new();
        for ((_, file, limit), enabled) in wanted.into_iter().zip(enabled) {
            outcomes.push(enabled.zip(limit).map(|(enabled, limit)| enabled.and_then(|()| group.write(file, limit))));
        }
        // Memory beyond the limit must not go to swap instead.
        if limits.memory.is_some() {
            let _ = group.write("memory.swap.max", 0);
        }
        let _ = group.write("memory.oom.group", 1);
        group.write("cgroup.procs", u64::from(pid))?;
        let processes = outcomes.pop().flatten();
        Ok((Some(group), Outcomes { memory: outcomes.pop().flatten(), processes }))
    }

    fn write(&self, file: &str, value: u64) -> Result<(), String> {
        let path = self.0.join(file);
        fs::write(&path, value.to_string()).map_err(|error| failed(&path, &error))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.write("cgroup.kill", 1);
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
                _ => break,
            }
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn all(limits: Limits, reason: &str) -> Outcomes {
    Outcomes {
        memory: limits.memory.map(|_| Err(reason.to_owned())),
        processes: limits.processes.map(|_| Err(reason.to_owned())),
    }
}

/// The group below which those of servers are made.
fn place() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let own = group_of(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)?;
    let is_moved = own.file_name().is_some_and(|name| name == OWN);
    Ok(own.parent().filter(|_| is_moved).map_or_else(|| own.clone(), Path::to_owned))
}

/// The folder of this process's group in cgroup v2.
fn group_of(groups: &str, mounts: &str) -> Result<PathBuf, String> {
    let none = || "this system has no cgroup v2".to_owned();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(none)?;
    // `36 35 0:30 / /sys/fs/cgroup rw,… shared:9 - cgroup2 cgroup2 rw`
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        (after.split(' ').next()? == "cgroup2").then_some((fields.next()?, fields.next()?))
    });
    let (root, mount) = mount.ok_or_else(none)?;
    let below = Path::new(group).strip_prefix(root).map_err(|_| "its cgroup is not mounted here".to_owned())?;
    Ok(Path::new(mount).join(below))
}

/// Makes a controller available to the children of a group.
fn enable(place: &Path, controller: &str) -> Result<(), String> {
    let has = |file: &str| {
        let text = fs::read_to_string(place.join(file)).unwrap_or_default();
        text.split_whitespace().any(|name| name == controller)
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err(format!("{} has no controller `{controller}` of cgroup v2", place.display()));
    }
    let file = place.join("cgroup.subtree_control");
    let turn_on = || fs::write(&file, format!("+{controller}"));
    match turn_on() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            make_room(place)?;
            turn_on().map_err(|error| failed(&file, &error))
        }
        other => other.map_err(|error| failed(&file, &error)),
    }
}

/// Moves this process and its children out of a group that must hold none.
fn make_room(place: &Path) -> Result<(), String> {
    let own = std::process::id();
    let listed = fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
    let processes: Vec<u32> = listed.lines().filter_map(|line| line.parse().ok()).collect();
    let is_own = |pid: &u32| std::iter::successors(Some(*pid), |pid| parent(*pid)).any(|pid| pid == own);
    if let Some(other) = processes.iter().find(|pid| !is_own(pid)) {
        return Err(format!("{} has other processes, such as {other}: it was not handed to ForgeFS", place.display()));
    }
    let folder = place.join(OWN);
    fs::create_dir(&folder).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(failed(&folder, &error)),
    })?;
    let file = folder.join("cgroup.procs");
    processes.iter().try_for_each(|pid| fs::write(&file, pid.to_string()).map_err(|error| failed(&file, &error)))
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw\n\
        36 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_group_of_a_process_is_found() {
        let cases = [
            ("0::/\n", MOUNTS, Ok("/sys/fs/cgroup/")),
            ("0::/user.slice/forgefs.service\n", MOUNTS, Ok("/sys/fs/cgroup/user.slice/forgefs.service")),
            ("4:memory:/x\n0::/y\n", MOUNTS, Ok("/sys/fs/cgroup/y")),
            ("4:memory:/x\n", MOUNTS, Err("this system has no cgroup v2")),
            ("0::/\n", "25 30 0:23 / /sys rw - sysfs sysfs rw\n", Err("this system has no cgroup v2")),
            ("0::/b\n", &MOUNTS.replace(" / /sys/fs", " /a /sys/fs"), Err("its cgroup is not mounted here")),
        ];
        for (groups, mounts, expected) in cases {
            let found = group_of(groups, mounts);
            assert_eq!(found, expected.map(PathBuf::from).map_err(str::to_owned), "{groups:?}");
        }
    }

    /// A folder with the files of a group; it enforces nothing.
    fn group(controllers: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("cgroup.controllers"), controllers).expect("written");
        fs::write(folder.path().join("cgroup.subtree_control"), controllers).expect("written");
        folder
    }

    #[test]
    fn limits_are_written_and_those_that_are_missing_are_named() {
        let limits = Limits { memory: Some(5 << 20), processes: Some(7) };
        let place = group("cpu memory pids");
        let (made, outcomes) = Cgroup::below(place.path(), 42, limits).expect("made");
        assert_eq!(outcomes, Outcomes { memory: Some(Ok(())), processes: Some(Ok(())) });
        let made = made.expect("a group");
        for (file, value) in [("memory.max", "5242880"), ("pids.max", "7"), ("cgroup.procs", "42")] {
            assert_eq!(fs::read_to_string(made.0.join(file)).expect(file), value);
        }
        let place = group("cpu pids");
        let (made, outcomes) = Cgroup::below(place.path(), 42, limits).expect("made");
        let why = outcomes.memory.expect("asked for").expect_err("no memory here");
        assert!(why.contains("has no controller `memory`"), "{why}");
        assert_eq!((outcomes.processes, made.is_some()), (Some(Ok(())), true));
        let place = group("cpu");
        let (made, outcomes) = Cgroup::below(place.path(), 42, limits).expect("looked at");
        assert!(made.is_none() && outcomes.memory.is_some_and(|outcome| outcome.is_err()));
    }
}
