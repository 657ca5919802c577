//! The process sandbox from inside: this executable confines itself as a worker does, or by one layer alone, and then
//! misbehaves. Each attempt also runs without any layer, to show that it would succeed.
//!
//! Some layers bind only ordinary users. As root, the process drops that first.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use confine::worker;
use libtest_mimic::{Failed, Trial};
use nix::libc;
use nix::sys::prctl;
use nix::unistd::{Pid, Uid, setuid};
use wire::{Language, LayerName};

use crate::gateway::{Engine, Worker, engines};

/// Attempts of a compromised worker, and their end. `None`: with an error; `Some`: by this signal.
const ATTEMPTS: &[(&str, Option<i32>)] = &[
    ("read_file", None),
    ("write_file", None),
    ("list_folder", None),
    ("own_memory", None),
    ("kill_parent", None),
    ("executable_memory", None),
    ("thread", None),
    ("fork", None),
    ("spawn", None),
    ("tcp_connect", SIGSYS),
    ("tcp_listen", SIGSYS),
    ("udp", SIGSYS),
    ("unix_socket", SIGSYS),
    ("unix_connect", SIGSYS),
    ("exec", SIGSYS),
    ("ptrace", SIGSYS),
    ("memfd", SIGSYS),
    ("io_uring", SIGSYS),
];

/// The same, with one layer alone. Attempts that end in an error anyway (such as `tcp_connect`) are left out.
const ALONE: &[(&str, &[&str], Option<i32>)] = &[
    ("landlock", &["read_file", "write_file", "list_folder"], None),
    ("rlimits", &["many_files"], None),
    ("memory", &["much_memory"], None),
    ("processes", &["thread", "fork", "spawn", "thread_of_user", "fork_of_user"], None),
    (
        "seccomp_allow",
        &[
            "read_file", "write_file", "list_folder", "own_memory", "kill_parent", "executable_memory", "thread",
            "fork", "spawn", "tcp_listen", "udp", "unix_socket", "unix_connect", "exec", "memfd",
        ],
        None,
    ),
    ("seccomp_deny", &["tcp_listen", "udp", "unix_socket", "unix_connect", "exec", "memfd", "ptrace"], SIGSYS),
];

const SIGSYS: Option<i32> = Some(31);
/// The layer is unavailable, or the attempt makes no sense here.
const NOT_HERE: u8 = 77;
const SET_UID: &str = "/tmp/forgefs-set-uid-test";
/// The unprivileged user that root becomes.
const NOBODY: u32 = 65534;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<_> = ATTEMPTS
        .iter()
        .map(|(name, signal)| Trial::test(format!("confined::{name}"), move || is_refused("all", name, *signal)))
        .collect();
    for (layer, attempts, signal) in ALONE {
        for attempt in *attempts {
            trials.push(Trial::test(format!("confined_by::{layer}::{attempt}"), move || {
                succeeds_without(attempt)?;
                is_refused(layer, attempt, *signal)
            }));
        }
    }
    trials.push(Trial::test("confined_by::no_new_privs::become_root", gains_no_privileges));
    trials.push(Trial::test("confined_by::dumpable::read_by_others", is_not_readable));
    trials.push(Trial::test("confined_by::parent_death::orphan", ends_with_its_parent));
    trials.push(Trial::test("confined::a_checker_runs_nothing", runs_nothing));
    trials.push(Trial::test("confined::workers_say_what_holds", says_what_holds));
    trials
}

/// The child's side of the tests: exit code 0 means that the attempt succeeded.
pub(crate) fn attempt(layer: &str, name: &str) -> ExitCode {
    // Layers come last, as in a worker: the attempt's requirements are prepared.
    if let Some(user) = name.strip_suffix("_of_user") {
        if !become_user() {
            return ExitCode::from(NOT_HERE);
        }
        return finish(confined(layer), || succeeds(user));
    }
    if matches!(name, "become_root" | "hold" | "read_environment") {
        // As root the test has prepared this; an ordinary user could not.
        if !become_user() {
            return ExitCode::from(NOT_HERE);
        }
        // Changing the user cleared the dumpable flag; this test is about the layer that does so.
        let _ = prctl::set_dumpable(true);
    }
    finish(confined(layer), || succeeds(name))
}

fn finish(confined: bool, attempt: impl FnOnce() -> bool) -> ExitCode {
    match confined && attempt() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(if confined { 1 } else { NOT_HERE }),
    }
}

fn confined(layer: &str) -> bool {
    match layer {
        "none" => true,
        "all" => {
            let _ = worker::before_threads();
            worker::after_threads().iter().any(|layer| layer.name == LayerName::Seccomp && layer.active)
        }
        // Without privileges a filter requires this; it stops none of the attempts by itself.
        "seccomp_deny" => prctl::set_no_new_privs().is_ok() && worker::filter_by_deny_list().is_ok(),
        "seccomp_allow" => prctl::set_no_new_privs().is_ok() && worker::filter_by_allow_list().is_ok(),
        "memory" => {
            // The limit of a run with such a heap.
            worker::DataLimit::new().set(16 << 20);
            true
        }
        name => {
            let layer = LayerName::ALL.iter().find(|layer| layer.to_string() == name);
            layer.is_some_and(|layer| worker::apply(*layer).active)
        }
    }
}

fn become_user() -> bool {
    !Uid::effective().is_root() || setuid(Uid::from_raw(NOBODY)).is_ok()
}

fn succeeds(name: &str) -> bool {
    match name {
        "read_file" => File::open("/etc/passwd").is_ok(),
        "write_file" => File::create(own_path("file")).is_ok(),
        "list_folder" => std::fs::read_dir("/").is_ok(),
        "own_memory" => File::open("/proc/self/mem").is_ok(),
        "kill_parent" => nix::sys::signal::kill(nix::unistd::getppid(), None).is_ok(),
        "executable_memory" => executable_memory(),
        "thread" => std::thread::Builder::new().spawn(|| {}).is_ok(),
        "fork" => fork(),
        "spawn" => Command::new("/bin/true").status().is_ok_and(|status| status.success()),
        "tcp_connect" => TcpStream::connect("127.0.0.1:9").is_ok(),
        "tcp_listen" => TcpListener::bind("127.0.0.1:0").is_ok(),
        "udp" => UdpSocket::bind("127.0.0.1:0").is_ok(),
        "unix_socket" => UnixListener::bind(own_path("sock")).is_ok(),
        "unix_connect" => UnixStream::pair().is_ok(),
        // Without the sandbox this never returns: the program succeeds instead.
        "exec" => {
            let _ = nix::unistd::execv(c"/bin/true", &[c"/bin/true"]);
            false
        }
        "ptrace" => syscall(libc::SYS_ptrace, [0, 0, 0]),
        "memfd" => syscall(libc::SYS_memfd_create, [c"x".as_ptr() as i64, 0, 0]),
        "io_uring" => syscall(libc::SYS_io_uring_setup, [1, 0, 0]),
        "many_files" => (0..30).map(|_| File::open("/dev/null")).collect::<Result<Vec<_>, _>>().is_ok(),
        "much_memory" => Vec::<u8>::new().try_reserve_exact(512 << 20).is_ok(),
        "become_root" => {
            let said = Command::new(SET_UID).arg("-u").output();
            said.is_ok_and(|said| said.stdout.starts_with(b"0"))
        }
        "hold" => hold(),
        "read_environment" => {
            let mut pid = String::new();
            let asked = std::io::stdin().read_line(&mut pid).is_ok();
            asked && std::fs::read(format!("/proc/{}/environ", pid.trim())).is_ok()
        }
        other => panic!("no attempt {other}"),
    }
}

fn own_path(what: &str) -> String {
    format!("/tmp/forgefs-confined-{}.{what}", std::process::id())
}

fn executable_memory() -> bool {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
    let Some(length) = std::num::NonZeroUsize::new(4096) else { return false };
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
    #[expect(unsafe_code, reason = "a fresh mapping that nobody uses")]
    unsafe {
        mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE).is_ok()
    }
}

#[expect(unsafe_code, reason = "the child only exits")]
fn fork() -> bool {
    match unsafe { nix::unistd::fork() } {
        Ok(nix::unistd::ForkResult::Child) => unsafe { libc::_exit(0) },
        Ok(nix::unistd::ForkResult::Parent { child }) => nix::sys::wait::waitpid(child, None).is_ok(),
        Err(_) => false,
    }
}

#[expect(unsafe_code, reason = "system calls that change nothing of this process but its descriptors")]
fn syscall(number: libc::c_long, arguments: [i64; 3]) -> bool {
    let [a, b, c] = arguments;
    (unsafe { libc::syscall(number, a, b, c) }) != -1
}

/// Prints its pid, and stays until its stdin ends.
fn hold() -> bool {
    let said = writeln!(std::io::stdout(), "{}", std::process::id()).is_ok();
    let _ = std::io::stdin().read(&mut [0]);
    said
}

fn start(layer: &str, name: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["attempt", layer, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn end(layer: &str, name: &str) -> Result<(ExitStatus, String), Failed> {
    let child = start(layer, name)?;
    let left = ["file", "sock"].map(|what| format!("/tmp/forgefs-confined-{}.{what}", child.id()));
    let ended = child.wait_with_output()?;
    for path in left {
        let _ = std::fs::remove_file(path);
    }
    Ok((ended.status, String::from_utf8_lossy(&ended.stderr).into_owned()))
}

fn is_refused(layer: &str, name: &str, signal: Option<i32>) -> Result<(), Failed> {
    let (status, said) = end(layer, name)?;
    match (status.code(), status.signal(), signal) {
        (Some(77), _, _) if layer == "landlock" => skip(layer, "this kernel has no landlock"),
        (Some(77), _, _) => Err(format!("the layer {layer} is not there: {said}").into()),
        (Some(1), None, None) => Ok(()),
        (None, Some(killed), Some(expected)) if killed == expected => Ok(()),
        _ => Err(format!("{status}: {said}").into()),
    }
}

fn succeeds_without(name: &str) -> Result<(), Failed> {
    match end("none", name)? {
        (status, _) if status.success() => Ok(()),
        (status, said) => Err(format!("without the layer: {status}: {said}").into()),
    }
}

#[expect(clippy::print_stderr, reason = "a test that shows nothing here must say so")]
fn skip(layer: &str, reason: &str) -> Result<(), Failed> {
    eprintln!("SKIPPED: {layer} is not shown: {reason}");
    if let Some(file) = std::env::var_os("FORGEFS_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
        writeln!(file, "worker: {layer} is not shown: {reason}")?;
    }
    Ok(())
}

/// A set-uid program gives no privileges to a process that has renounced them.
fn gains_no_privileges() -> Result<(), Failed> {
    if !Uid::effective().is_root() {
        return skip("no_new_privs", "only root can make a program that gives privileges");
    }
    // A copy of `id` that runs as root for any caller.
    std::fs::copy("/usr/bin/id", SET_UID)?;
    std::fs::set_permissions(SET_UID, std::fs::Permissions::from_mode(0o4755))?;
    let shown = succeeds_without("become_root").and_then(|()| is_refused("no_new_privs", "become_root", None));
    std::fs::remove_file(SET_UID)?;
    shown
}

/// Another process of the same user can read an ordinary process's environment, but not a worker's.
fn is_not_readable() -> Result<(), Failed> {
    for (layer, readable) in [("none", true), ("dumpable", false)] {
        let mut held = start(layer, "hold")?;
        let pid = read_line(&mut held)?;
        let mut reader = start("none", "read_environment")?;
        writeln!(reader.stdin.take().expect("stdin"), "{pid}")?;
        let read = reader.wait()?.success();
        held.kill()?;
        held.wait()?;
        if read != readable {
            return Err(format!("with layer {layer}: read is {read}").into());
        }
    }
    Ok(())
}

/// A worker ends with its gateway, even if its stdin stays open.
fn ends_with_its_parent() -> Result<(), Failed> {
    for (layer, ends) in [("none", false), ("parent_death", true)] {
        // The shell stands for the gateway. Its stdin, which the worker shares, is held open here.
        let exe = std::env::current_exe()?;
        let script = format!("exec 3<&0; '{}' attempt {layer} hold <&3 & wait", exe.display());
        let mut shell =
            Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = shell.stdin.take();
        // Printed once the layer is in force.
        let pid = read_line(&mut shell)?;
        shell.kill()?;
        shell.wait()?;
        let ended_at = Instant::now();
        let pid = Pid::from_raw(pid.parse()?);
        let patience = Duration::from_millis(if ends { 10_000 } else { 200 });
        while is_running(pid) && ended_at.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = !is_running(pid);
        drop(stdin);
        if ended != ends {
            return Err(format!("with layer {layer}: ended is {ended}").into());
        }
    }
    Ok(())
}

fn read_line(child: &mut Child) -> Result<String, Failed> {
    let mut line = Vec::new();
    let mut byte = [0];
    let stdout = child.stdout.as_mut().expect("stdout");
    while stdout.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    if line.is_empty() { Err("the process said nothing".into()) } else { Ok(String::from_utf8(line)?) }
}

/// True if a process exists and is not a zombie.
fn is_running(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// A process that parses scripts, given one to run.
const CHECKER: Engine = Engine { name: "checker", language: Language::Javascript, args: &["--check"] };

fn runs_nothing() -> Result<(), Failed> {
    let mut checker = Worker::start(CHECKER);
    checker.start_code("export default async () => 1".to_owned());
    match checker.wait().code() {
        Some(3) => Ok(()),
        code => Err(format!("{code:?}").into()),
    }
}

fn says_what_holds() -> Result<(), Failed> {
    for engine in engines().into_iter().chain([CHECKER]) {
        let worker = Worker::start(engine);
        let layers = &worker.ready.confinement;
        // A kernel may lack only Landlock.
        let missing: Vec<_> =
            layers.iter().filter(|layer| !layer.active && layer.name != wire::LayerName::Landlock).collect();
        if layers.len() < 6 || !missing.is_empty() {
            return Err(format!("{}: {missing:?}", engine.name).into());
        }
    }
    Ok(())
}
