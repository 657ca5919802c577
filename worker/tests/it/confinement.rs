//! The process sandbox, from inside: this executable confines itself as a worker does and then misbehaves.

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Failed, Trial};

use crate::gateway::{Worker, engines};

/// What a compromised worker may try, and how it ends. `None`: with an error; `Some`: with this signal.
const ATTEMPTS: &[(&str, Option<i32>)] = &[
    ("read_file", None),
    ("write_file", None),
    ("list_folder", None),
    ("own_memory", None),
    ("kill_parent", None),
    ("executable_memory", None),
    ("thread", None),
    ("tcp_connect", Some(SIGSYS)),
    ("tcp_listen", Some(SIGSYS)),
    ("udp", Some(SIGSYS)),
    ("unix_socket", Some(SIGSYS)),
    ("unix_connect", Some(SIGSYS)),
    ("exec", None),
];

const SIGSYS: i32 = 31;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<_> = ATTEMPTS
        .iter()
        .map(|(name, signal)| Trial::test(format!("confined::{name}"), move || is_refused(name, *signal)))
        .collect();
    trials.push(Trial::test("confined::workers_say_what_holds", says_what_holds));
    trials
}

/// The other side of `is_refused`: exit code 0 means that the attempt succeeded.
pub(crate) fn attempt(name: &str) -> ExitCode {
    let layers = forgefs_worker::confine();
    if !layers.iter().any(|layer| layer.name == "seccomp" && layer.active) {
        return ExitCode::from(77);
    }
    if succeeds(name) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn succeeds(name: &str) -> bool {
    match name {
        "read_file" => File::open("/etc/passwd").is_ok(),
        "write_file" => File::create("/tmp/forgefs-confined").is_ok(),
        "list_folder" => std::fs::read_dir("/").is_ok(),
        "own_memory" => File::open("/proc/self/mem").is_ok(),
        "kill_parent" => {
            let parent = nix::unistd::Pid::from_raw(nix::unistd::getppid().as_raw());
            nix::sys::signal::kill(parent, None).is_ok()
        }
        "executable_memory" => executable_memory(),
        "thread" => std::thread::Builder::new().spawn(|| {}).is_ok(),
        "tcp_connect" => TcpStream::connect("127.0.0.1:9").is_ok(),
        "tcp_listen" => TcpListener::bind("127.0.0.1:0").is_ok(),
        "udp" => UdpSocket::bind("127.0.0.1:0").is_ok(),
        "unix_socket" => UnixListener::bind("/tmp/forgefs-confined.sock").is_ok(),
        "unix_connect" => UnixStream::pair().is_ok(),
        "exec" => Command::new("/bin/true").status().is_ok(),
        other => panic!("no attempt {other}"),
    }
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

fn is_refused(name: &str, signal: Option<i32>) -> Result<(), Failed> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["attempt", name])
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()?;
    let status = child.wait()?;
    let mut said = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut said)?;
    match (status.code(), status.signal(), signal) {
        (Some(77), _, _) => Err("this kernel has no seccomp".into()),
        (Some(1), None, None) => Ok(()),
        (None, Some(killed), Some(expected)) if killed == expected => Ok(()),
        _ => Err(format!("{status}: {said}").into()),
    }
}

fn says_what_holds() -> Result<(), Failed> {
    for engine in engines() {
        let worker = Worker::start(engine);
        let layers = &worker.ready.confinement;
        // Landlock is the one that a kernel may have been built without.
        let missing: Vec<_> = layers.iter().filter(|layer| !layer.active && layer.name != "landlock").collect();
        if layers.len() < 6 || !missing.is_empty() {
            return Err(format!("{}: {missing:?}", engine.name).into());
        }
    }
    Ok(())
}
