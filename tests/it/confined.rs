//! Servers in an attacker's hands, confined by each key of `sandbox` alone, next to the same attempts without it.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use serde_json::{Value, json};

use crate::faulty::has_python;

/// Ends of an attempt: it succeeds, it is refused, or it depends on the kernel and the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Refused,
    Either,
}
use End::{Done as D, Either as E, Refused as R};

/// Servers of the table: a name, and their `sandbox`. `{shared}` is a folder.
const SERVERS: [(&str, &str); 6] = [
    ("open", ""),
    ("pure", "sandbox = \"pure\""),
    ("read", "sandbox = { read = [\"{shared}\"] }"),
    ("write", "sandbox = { write = [\"{shared}\"] }"),
    ("net", "sandbox = \"net\""),
    ("limits", "sandbox = { read = [\"/\"], memory = \"128MiB\", processes = 20 }"),
];

/// Attempts of tests/servers/confined.py, and their end at each server.
const ATTEMPTS: &[(&str, [End; 6])] = &[
    // What a program needs.
    ("read_program", [D, D, D, D, D, D]),
    ("read_libraries", [D, D, D, D, D, D]),
    ("write_own_tmp", [D, D, D, D, D, D]),
    ("run_system", [D, D, D, D, D, D]),
    ("fork", [D, D, D, D, D, D]),
    ("unix_pair", [D, D, D, D, D, D]),
    // Files.
    ("read_home", [D, R, R, R, R, D]),
    ("read_shadow", [E, R, R, R, R, E]),
    ("read_shared", [D, R, D, D, R, D]),
    ("read_dotdot", [D, R, R, R, R, D]),
    ("read_by_link", [D, R, R, R, R, D]),
    ("read_by_proc_root", [D, R, R, R, R, D]),
    ("list_home", [D, R, R, R, R, D]),
    ("list_shared", [D, R, D, D, R, D]),
    ("list_tmp", [D, R, R, R, R, D]),
    ("watch_home", [D, R, D, D, R, D]),
    ("write_home", [D, R, R, R, R, R]),
    ("write_shared", [D, R, R, D, R, R]),
    ("write_shm", [D, R, R, R, R, R]),
    ("write_program", [E, R, R, R, R, R]),
    ("truncate_home", [D, R, R, R, R, R]),
    ("hard_link", [D, R, R, R, R, R]),
    ("rename_out", [D, R, R, R, R, R]),
    ("chmod_home", [D, R, R, R, R, R]),
    ("touch_home", [D, R, R, R, R, R]),
    ("tag_home", [E, R, R, R, R, R]),
    ("run_home", [D, R, R, R, R, D]),
    ("run_gateway", [D, R, R, R, R, D]),
    // The network.
    ("tcp_connect", [D, R, R, R, D, R]),
    ("tcp_listen", [D, R, R, R, D, R]),
    ("udp", [D, R, R, R, D, R]),
    ("packets", [E, R, R, R, R, R]),
    ("unix_connect", [D, R, R, R, R, R]),
    ("unix_connect_abstract", [D, R, R, R, R, R]),
    ("unix_pair_elsewhere", [D, R, R, R, R, R]),
    // Other processes.
    ("signal_gateway", [D, R, R, R, R, R]),
    ("ptrace_gateway", [E, R, R, R, R, R]),
    ("gateway_memory", [E, R, R, R, R, R]),
    ("gateway_environment", [D, R, R, R, R, R]),
    ("gateway_arguments", [D, R, R, R, R, D]),
    ("gateway_limits", [D, R, R, R, R, R]),
    ("gateway_priority", [D, R, R, R, R, R]),
    ("extra_descriptors", [R, R, R, R, R, R]),
    // The kernel.
    ("new_user_namespace", [E, R, R, R, R, R]),
    ("namespace_by_clone", [E, R, R, R, R, R]),
    ("namespace_by_clone3", [E, R, R, R, R, R]),
    ("mount", [E, R, R, R, R, R]),
    ("io_uring", [E, R, R, R, R, R]),
    ("userfaultfd", [E, R, R, R, R, R]),
    ("keyring", [E, R, R, R, R, R]),
    ("shared_memory", [E, R, R, R, R, R]),
    ("queue_by_name", [E, R, R, R, R, R]),
    ("x32", [E, R, R, R, R, R]),
    ("terminal", [E, R, R, R, R, E]),
    ("core_dump", [E, R, R, R, R, R]),
    ("privileges", [D, R, R, R, R, R]),
    // Memory: each process alone, or all of them where a control group can be had. Processes: only there.
    ("memory", [D, D, D, D, D, R]),
    ("processes", [D, D, D, D, D, E]),
];

#[tokio::test]
async fn each_key_alone_refuses_what_it_does_not_name() {
    let Some(fence) = has_python("tests/servers/confined.py") else { return };
    // Not below `work`: the gateway's own folder says nothing about the server's.
    let root = fs::canonicalize(fence.work().parent().expect("the fence")).expect("it exists");
    let [home, shared, folder] = ["home", "shared", "mount"].map(|name| root.join(name));
    fs::create_dir(&shared).expect("made");
    fs::create_dir(&folder).expect("made");
    for file in [home.join("secret"), home.join("victim"), shared.join("file")] {
        fs::write(file, "something").expect("written");
    }
    let tool = home.join("tool");
    fs::write(&tool, "#!/bin/sh\nexit 0\n").expect("written");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("changed");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let _unix = UnixListener::bind(root.join("socket")).expect("a socket");
    let abstract_name = format!("forgefs-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
    let _abstract = UnixListener::bind_addr(&address).expect("a socket");
    let _datagrams = UnixDatagram::bind(root.join("datagrams")).expect("a socket");
    let at = json!({
        "home": home, "secret": home.join("secret"), "shared": shared, "folder": folder, "tool": tool,
        "socket": root.join("socket"), "datagrams": root.join("datagrams"), "abstract": abstract_name,
        "port": tcp.local_addr().expect("bound").port(), "forgefs": env!("CARGO_BIN_EXE_forgefs"),
        "megabytes": 400, "processes": 40,
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/confined.py");
    let servers = SERVERS.map(|(name, sandbox)| {
        let sandbox = sandbox.replace("{shared}", &shared.to_string_lossy());
        let args = [script.to_owned(), at.to_string()];
        format!("[servers.{name}]\ncommand = \"python3\"\nargs = {args:?}\nconnect_timeout = \"150s\"\n{sandbox}\n")
    });
    let limits = "[sandbox.limits]\nresult_tokens = 100000\n";
    let session = fence.serve(&(servers.concat() + limits)).await;
    session.ready(&SERVERS.map(|(name, _)| name)).await;
    let (names, attempts) = (SERVERS.map(|(name, _)| name), ATTEMPTS.iter().map(|(name, _)| *name));
    let code = format!(
        "const [names, found] = [{}, {{}}];
         for (const server of {}) found[server] = await forge.callTool(server, 'attempt', {{names}});
         return found;",
        json!(attempts.collect::<Vec<_>>()),
        json!(names),
    );
    let found = session.execute("javascript", &code).await;
    let found: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_value(found).expect("a table");
    let mut wrong = Vec::new();
    println!("| attempt | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for (attempt, ends) in ATTEMPTS {
        let answers = names.map(|name| found[name][*attempt].as_str().unwrap_or_default().to_owned());
        let shown = answers.each_ref().map(|answer| if answer == "done" { "done" } else { "refused" });
        println!("| {attempt} | {} |", shown.join(" | "));
        for ((name, answer), end) in names.iter().zip(&answers).zip(ends) {
            let is_done = answer == "done";
            if *end != E && is_done != (*end == D) {
                wrong.push(format!("{attempt} at {name}: {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), session.stderr());
}
