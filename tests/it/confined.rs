//! Servers in an attacker's hands, confined by each key of `sandbox` alone, next to the same attempts without it.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use serde_json::{Value, json};

use crate::client::Fence;
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
    ("signal_group", [E, R, R, R, R, R]),
    ("signal_by_descriptor", [D, R, R, R, R, R]),
    ("join_group", [E, R, R, R, R, R]),
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
#[expect(clippy::print_stdout, reason = "the table of docs/sandbox.md")]
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

/// Processes of the server with this folder among its arguments: its supervisor, itself, and what it has started.
fn of_server(root: &std::path::Path) -> Vec<u32> {
    let root = root.to_string_lossy();
    let pids = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_its = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.contains("confined.py") && command.contains(&*root)
    };
    pids.filter(is_its).collect()
}

/// Waits until `holds`.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "{what}: not within a minute");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A process that forked twice and has a session of its own, and folders that no path can name, are gone after each end.
#[tokio::test]
async fn nothing_that_a_confined_server_started_or_wrote_outlives_it() {
    for sandbox in ["pure", "net"] {
        for end in ["close", "kill -9", "SIGTERM", "reload", "crash"] {
            let Some(fence) = has_python("tests/servers/confined.py") else { return };
            let root = fs::canonicalize(fence.work().parent().expect("the fence")).expect("it exists");
            let temporary = root.join("tmp");
            fs::create_dir(&temporary).expect("made");
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/confined.py");
            let args = [script.to_owned(), json!({ "root": root }).to_string()];
            let config = fence.write(
                "forge.toml",
                &format!("[servers.x]\ncommand = \"python3\"\nargs = {args:?}\nsandbox = {sandbox:?}\n"),
            );
            let mut command = fence.forgefs([std::path::Path::new("--config"), &config, "serve".as_ref()]);
            command.env("TMPDIR", &temporary);
            let session = fence.connect(crate::client::Era::Modern, command).await;
            session.ready(&["x"]).await;
            let code = "return await x.attempt({names: ['daemon', 'deep']})";
            let found = session.execute("javascript", code).await;
            assert_eq!(found, json!({"daemon": "done", "deep": "done"}), "{sandbox}");
            let pids = of_server(&root);
            assert_eq!(pids.len(), 3, "its supervisor, itself and what it left: {pids:?}");
            let folders = || fs::read_dir(&temporary).expect("it is there").count();
            assert_eq!(folders(), 1, "its temporary folder");
            let mut kept = None;
            match end {
                "close" => session.close().await,
                "kill -9" => session.kill(),
                "SIGTERM" => {
                    let gateway = nix::unistd::Pid::from_raw(session.pid.try_into().expect("a process number"));
                    nix::sys::signal::kill(gateway, nix::sys::signal::Signal::SIGTERM).expect("it runs");
                    kept = Some(session);
                }
                "reload" => {
                    fence.write("forge.toml", "");
                    fence.run(["--config", "forge.toml", "reload"]).success();
                    kept = Some(session);
                }
                _ => {
                    session.execute_err("javascript", "return await x.attempt({names: ['die']})").await;
                    kept = Some(session);
                }
            }
            until(&format!("{sandbox}, {end}: {pids:?} end"), || pids.iter().all(|pid| !crate::faulty::runs(*pid)))
                .await;
            // After a crash the server has started again, with another folder.
            let left = usize::from(end == "crash");
            until(&format!("{sandbox}, {end}: its folder is removed"), || folders() <= left).await;
            drop(kept);
        }
    }
}

/// What a killed gateway and its supervisors could not remove goes at the next start; what is in use stays.
#[tokio::test]
async fn temporary_folders_of_ended_gateways_are_swept() {
    let Some(fence) = has_python("tests/servers/confined.py") else { return };
    let temporary = fence.work().parent().expect("the fence").join("tmp");
    let [left, used, other] = ["forgefs-server-a-held", "forgefs-server-b-held", "forgefs-server-c"].map(|name| {
        let folder = temporary.join(name);
        fs::create_dir_all(folder.join("deeper/still")).expect("made");
        folder
    });
    let link = temporary.join("forgefs-server-d-held");
    std::os::unix::fs::symlink(&other, &link).expect("linked");
    let lock = fs::File::open(&used).expect("it is there");
    lock.lock().expect("locked");
    fence.write("forge.toml", "[servers.x]\ncommand = \"python3\"\nargs = [\"-c\", \"\"]\nsandbox = \"pure\"\n");
    let mut command = fence.forgefs(["--config", "forge.toml", "serve"]);
    let session = fence.connect(crate::client::Era::Modern, {
        command.env("TMPDIR", &temporary);
        command
    });
    let session = session.await;
    until("what was left is swept", || !left.exists()).await;
    session.close().await;
    assert!(used.join("deeper/still").exists() && other.join("deeper/still").exists() && link.is_symlink());
}

/// An `npm` that installs a server of Python, and tries what an installer should not.
const NPM: &str = r#"#!/bin/sh
echo "installing $*" >&2
(cat "$npm_config_secret") 2> /dev/null && echo "read the secret" >&2
[ -z "$TOKEN" ] || echo "got the token" >&2
(echo x > "$HOME/planted") 2> /dev/null && echo "wrote into the home folder" >&2
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin" "$2/node_modules/@x/server"
echo '{"bin": {"server": "server.py"}}' > "$2/node_modules/@x/server/package.json"
cp "$npm_config_script" "$2/node_modules/.bin/server" && chmod 755 "$2/node_modules/.bin/server"
"#;

#[tokio::test]
async fn a_launcher_installs_first_and_its_program_is_confined() {
    let Some(fence) = has_python("an installed server") else { return };
    let bin = fence.write("bin/npm", NPM);
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).expect("changed");
    let secret = fence.write("secret", "s");
    let script = fence.write("bin/script", &format!("#!/usr/bin/env python3\n{SERVER}"));
    let path = format!("{}:{}", bin.parent().expect("bin").display(), std::env::var("PATH").expect("a PATH"));
    // The script is read by the installer, as a package would be from the network.
    let copied = std::path::Path::new("/usr/local/share").join(format!("forgefs-test-{}", std::process::id()));
    if fs::copy(&script, &copied).is_err() {
        return crate::real::skipped("only root can put a file where an installer may read it");
    }
    let at = json!({ "secret": secret }).to_string();
    let config = format!(
        "[servers.x]\ncommand = \"npx\"\nargs = [\"-y\", \"@x/server@1\", {at:?}]\nsandbox = \"pure\"\n\
         env = {{ PATH = {path:?}, TOKEN = \"t-1\", npm_config_secret = {secret:?}, \
         npm_config_script = {copied:?} }}\nconnect_timeout = \"150s\"\n"
    );
    let session = fence.serve(&config).await;
    session.ready(&["x"]).await;
    let found = session.execute("javascript", "return await x.attempt({names: ['read_home', 'read_program']})").await;
    fs::remove_file(&copied).expect("it is there");
    assert_eq!(found["read_program"], "done", "{found}");
    assert!(found["read_home"].as_str().is_some_and(|end| end.contains("Permission denied")), "{found}");
    let stderr = session.call("cat", json!({ "path": "/x/stderr" })).await.text;
    assert!(stderr.contains("installing install --ignore-scripts"), "{stderr}");
    for done in ["read the secret", "got the token", "wrote into"] {
        assert!(!stderr.contains(done), "{stderr}");
    }
}

const SERVER: &str = include_str!("../servers/confined.py");

/// Servers that do not start, and what `ls /` says of each. `{work}` is a folder that holds a link to `secret`.
const REFUSED: [(&str, &str, &str); 6] = [
    ("container", "command = \"docker\"\nargs = [\"run\", \"x\"]\nsandbox = \"pure\"", "confine the container"),
    (
        "runner",
        "command = \"uv\"\nargs = [\"run\", \"x\"]\nsandbox = \"net\"",
        "name the program of the project's environment",
    ),
    ("missing", "command = \"python3\"\nsandbox = { read = [\"nowhere\"] }", "make it, or take it out"),
    (
        "moved",
        "command = \"python3\"\nsandbox = { write = [\".\"], read = [\"link\"] }",
        "which the server could change",
    ),
    ("program", "command = \"./tool\"\nsandbox = { write = [\".\"] }", "the server could change it"),
    ("absent", "command = \"no-such-program\"\nsandbox = \"pure\"", "installed and on PATH"),
];

#[test]
fn a_server_that_cannot_be_confined_does_not_start_and_says_why() {
    use std::os::unix::fs::symlink;

    let fence = Fence::new();
    let secret = fence.work().parent().expect("the fence").join("secret");
    fs::create_dir(&secret).expect("made");
    fs::copy("/bin/true", secret.join("tool")).expect("copied");
    symlink(&secret, fence.work().join("link")).expect("linked");
    symlink(secret.join("tool"), fence.work().join("tool")).expect("linked");
    let entries = REFUSED.map(|(name, entry, _)| format!("[servers.{name}]\n{entry}\n"));
    fence.write("forge.toml", &entries.concat());
    let found = fence.run(["--config", "forge.toml", "doctor"]);
    for (name, _, says) in REFUSED {
        let line = found.stdout.lines().find(|line| line.starts_with(&format!("server   {name}: failed: ")));
        assert!(line.is_some_and(|line| line.contains(says)), "{name}: {}", found.stdout);
    }
}

/// Folders of installed servers: `node/node_modules` of npm, `venv` and `venv2` of PyPI (for versions 1 and 2 of its SDK).
const REAL: &str = "FORGEFS_CONFINED_REAL";

/// The table of real servers in docs/sandbox.md. With `npm i --ignore-scripts` and `pip install` of the packages in
/// tests/real/confined.json.
#[tokio::test]
#[ignore = "needs servers that FORGEFS_CONFINED_REAL names the folder of"]
#[expect(clippy::print_stdout, reason = "the table of docs/sandbox.md")]
async fn real_servers_work_under_the_tightest_sandbox() {
    let root = std::path::PathBuf::from(std::env::var_os(REAL).expect("FORGEFS_CONFINED_REAL"));
    let rows: Vec<Value> =
        serde_json::from_str(include_str!("../real/confined.json")).expect("tests/real/confined.json is JSON");
    let port = page();
    println!("| server | package | `sandbox` | tools | calls that pass | under `pure` |\n|---|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for row in &rows {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let mut ends = Vec::new();
        let tightest = if text("sandbox") == "\"pure\"" { None } else { Some("\"pure\"") };
        for sandbox in [Some(text("sandbox")), tightest].into_iter().flatten() {
            let fence = Fence::new();
            ends.push(try_server(&fence, row, sandbox, &root, port).await);
        }
        let named: Vec<&str> =
            row["calls"].as_array().into_iter().flatten().filter_map(|call| call[0].as_str()).collect();
        let calls = if named.is_empty() { "none: the list alone".to_owned() } else { named.join(", ") };
        let pure = ends.get(1).map_or("", |end| if end.is_ok() { "pass too" } else { "fail" });
        let tools = ends[0].as_ref().map_or_else(|why| format!("FAILED: {why}"), usize::to_string);
        let source = format!("{} {}", text("from").trim_end_matches('2'), text("package"));
        println!("| {} | {source} | `{}` | {tools} | {calls} | {pure} |", text("name"), text("sandbox"));
        if ends[0].is_err() || ends.get(1).is_some_and(Result::is_ok) {
            wrong.push(format!("{}: {ends:?}", text("name")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Number of tools if the server starts and its calls pass.
async fn try_server(
    fence: &Fence,
    row: &Value,
    sandbox: &str,
    root: &std::path::Path,
    port: u16,
) -> Result<usize, String> {
    let (work, home) = (fs::canonicalize(fence.work()).expect("it exists"), fence.work().join("../home"));
    let home = fs::canonicalize(home).expect("it exists");
    let data = work.join("data");
    fs::create_dir(&data).expect("made");
    fs::write(data.join("note.md"), "# Note\n").expect("written");
    fs::write(home.join(".gitconfig"), "[user]\nname = a\nemail = a@example.com\n[safe]\ndirectory = *\n")
        .expect("written");
    for args in [&["init", "--quiet", "."][..], &["commit", "--quiet", "--allow-empty", "--message", "x"]] {
        let mut git = std::process::Command::new("git");
        fence.enclose(git.args(args).current_dir(&data));
        git.status().expect("git runs");
    }
    let fill = |text: &str| {
        let paths = [("{data}", data.display().to_string()), ("{home}", home.display().to_string())];
        let text = paths.iter().fold(text.to_owned(), |text, (name, path)| text.replace(name, path));
        text.replace("{port}", &port.to_string())
    };
    let folder = match row["from"].as_str() {
        Some("npm") => "node/node_modules/.bin",
        Some("pypi") => "venv/bin",
        _ => "venv2/bin",
    };
    let program = root.join(folder).join(row["program"].as_str().expect("a program"));
    let pairs = row["env"].as_object().expect("variables");
    let env: Vec<String> = pairs.iter().map(|(name, value)| format!("{name} = {}", fill(&value.to_string()))).collect();
    let config = format!(
        "[servers.x]\ncommand = {program:?}\nargs = {}\nenv = {{ {} }}\nsandbox = {}\nconnect_timeout = \"100s\"\n",
        fill(&row["args"].to_string()),
        env.join(", "),
        fill(sandbox),
    );
    let session = fence.serve(&config).await;
    let mut tools = None;
    for _ in 0..1_100 {
        let listing = session.call("ls", json!({})).await.text;
        let line = listing.lines().find(|line| line.starts_with("x/")).unwrap_or_default().to_owned();
        if line.contains("failed") {
            return Err(line);
        }
        if line.contains("ready") {
            tools = line.split_whitespace().nth(1).and_then(|count| count.parse().ok());
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let tools = tools.ok_or("it was never ready")?;
    for call in row["calls"].as_array().into_iter().flatten() {
        let (name, arguments) = (call[0].to_string(), fill(&call[1].to_string()));
        let code = format!("return await forge.callTool('x', {name}, {arguments})");
        let answer = session.call("execute", json!({ "language": "javascript", "code": code })).await;
        let text = answer.text.to_lowercase();
        if answer.is_error
            || ["permission denied", "eacces", "error:", "error -"].iter().any(|sign| text.contains(sign))
        {
            return Err(format!("{name}: {}", answer.text.lines().next().unwrap_or_default()));
        }
    }
    session.close().await;
    Ok(tools)
}

/// A server on HTTP that answers everything with a short page; as JSON it is a page that was fetched.
fn page() -> u16 {
    use std::io::{Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8192]);
            let body = r#"{"success": true, "data": {"markdown": "page", "metadata": {"statusCode": 200}}}"#;
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
            let _ = write!(stream, "{head}connection: close\r\n\r\n{body}");
        }
    });
    port
}
