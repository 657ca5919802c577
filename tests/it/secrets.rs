//! Secrets that the configuration only names: read when a server starts, redacted from then on, read anew when a server
//! refuses them or the operator asks.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Fence, finish};
use crate::faulty::python;
use crate::http::free_port;

/// First digits of the digest by which the server says which value it has.
fn digest(value: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(value.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// A server over stdio with this value of `OWN_VALUE`, and its log.
fn server(fence: &Fence, name: &str, value: &str) -> Option<String> {
    let log = fence.work().join(format!("{name}.log"));
    let entry = python(name, "secretive.py", &[log.to_str()?])?;
    Some(format!("{entry}env = {{ OWN_VALUE = {value} }}\n"))
}

fn calls(fence: &Fence, name: &str) -> Vec<String> {
    let log = fs::read_to_string(fence.work().join(format!("{name}.log"))).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

const VALUE: &str = "kept/plain+words of a secret";

#[tokio::test]
async fn each_place_gives_its_value_or_says_why_not() {
    let fence = Fence::new();
    let work = fence.work();
    let at = |name: &str| work.join(name).to_str().expect("text").to_owned();
    fence.write("value", &format!("{VALUE}\n"));
    fence.write("windows", &format!("{VALUE}\r\n"));
    fence.write("empty", "\n");
    fence.write("nul", "plain-words\0of-nul");
    fence.write("long", &"long-value-".repeat(6_000));
    fs::write(at("bytes"), b"\xff\xfeplain-words").expect("written");
    symlink(at("value"), at("link")).expect("a link");
    nix::unistd::mkfifo(work.join("fifo").as_path(), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    symlink(at("fifo"), at("link-to-fifo")).expect("a link");
    fence.write("chain.sh", "sleep 60 &\nsetsid sleep 60 &\necho $1\n");
    let shell = |script: &str| format!("{{ command = [\"sh\", \"-c\", {script:?}] }}");
    let print = format!("printf '%s\\n' '{VALUE}'");
    // The value, or what is said in its place.
    let cases: Vec<(&str, String, Result<&str, &str>)> = vec![
        ("file", "{ file = \"value\" }".into(), Ok(VALUE)),
        ("windows", "{ file = \"windows\" }".into(), Ok(VALUE)),
        ("link", "{ file = \"link\" }".into(), Ok(VALUE)),
        ("reference", "{ file = \"${NAME:-value}\" }".into(), Ok(VALUE)),
        ("prefix", "{ file = \"value\", prefix = \"Bearer \" }".into(), Ok("Bearer kept/plain+words of a secret")),
        ("command", shell(&print), Ok(VALUE)),
        (
            "relative",
            format!("{{ command = [\"sh\", {:?}, \"one-of-a-chain\"] }}", at("chain.sh")),
            Ok("one-of-a-chain"),
        ),
        ("short", shell("echo x"), Ok("x")),
        (
            "noisy",
            shell("echo plain-noise >&2; head -c 300000 /dev/zero >&2; echo some-noisy-value"),
            Ok("some-noisy-value"),
        ),
        ("word", shell("echo answers"), Ok("answers")),
        ("missing", "{ file = \"none\" }".into(), Err("does not exist")),
        ("folder", "{ file = \".\" }".into(), Err("it is a folder")),
        ("fifo", "{ file = \"fifo\" }".into(), Err("not a regular file")),
        ("linked", "{ file = \"link-to-fifo\" }".into(), Err("not a regular file")),
        ("stdin", "{ file = \"/dev/stdin\" }".into(), Err("not a regular file")),
        ("device", "{ file = \"/dev/zero\" }".into(), Err("not a regular file")),
        ("empty", "{ file = \"empty\" }".into(), Err("it is empty")),
        ("zeros", "{ file = \"nul\" }".into(), Err("NUL character")),
        ("binary", "{ file = \"bytes\" }".into(), Err("not UTF-8")),
        ("long", "{ file = \"long\" }".into(), Err("longer than 64 KiB")),
        ("program", "{ command = [\"no-such-program\"] }".into(), Err("did not start")),
        ("lines", shell("echo plain-words; echo other-words"), Err("gave 2 lines")),
        ("silent", shell("true"), Err("it is empty")),
        ("junk", shell("head -c 1000 /dev/urandom | tr '[\\0-\\177]' '\\377'"), Err("not UTF-8")),
        ("megabyte", shell("head -c 1000000 /dev/zero | tr '\\0' 'y'"), Err("more than 64 KiB")),
        (
            "fails",
            shell("echo plain-words-of-junk; echo it was plain-words-of-junk >&2; exit 3"),
            Err("exit status: 3"),
        ),
        ("crashes", shell("echo plain-words-of-junk; kill -SEGV $$"), Err("signal: 11")),
        ("hangs", shell("echo plain-words-of-junk; sleep 100"), Err("no value within 10 s")),
        ("keyring", "{ keyring = \"name\" }".into(), Err("this build has no keyring")),
    ];
    let mut config = String::new();
    for (name, value, _) in &cases {
        let Some(entry) = server(&fence, name, value) else { return };
        config.push_str(&entry);
    }
    let session = fence.serve_logged(&config).await;
    for (name, _, wanted) in &cases {
        match wanted {
            Ok(value) => {
                session.ready(&[name]).await;
                let code = format!("return await forge.callTool('{name}', 'digest', {{}})");
                assert_eq!(session.execute("javascript", &code).await, digest(value), "{name}");
                let code = format!("return await forge.callTool('{name}', 'tell', {{}})");
                let told = session.execute("javascript", &code).await.to_string();
                assert!(!told.contains(value) || *name == "short", "{name}: {told}");
            }
            Err(why) => {
                let said = session.line(name, "failed").await;
                let code = format!("return await forge.callTool('{name}', 'digest', {{}})");
                let error = session.execute_err("javascript", &code).await;
                for said in [&said, &error] {
                    assert!(!said.contains("plain-words") && !said.contains("long-value"), "{name}: {said}");
                }
                let log = session.stderr();
                assert!(error.contains(why) || said.contains(why), "{name}: {why}: {said}\n{error}\n{log}");
                assert!(error.contains(&format!("servers.{name}.env.OWN_VALUE")), "{name}: {error}");
            }
        }
    }
    let fine = session.execute("starlark", "'x marks ' + 'the answer'").await;
    assert_eq!(fine, "x marks the answer");
    let log = session.stderr();
    for value in [VALUE, "plain-words", "long-value", "one-of-a-chain", "some-noisy-value"] {
        assert!(!log.contains(value), "the log shows {value}:\n{log}");
    }
    session.close().await;
}

#[tokio::test]
async fn nothing_is_run_when_the_configuration_is_only_read() {
    let fence = Fence::new();
    let marker = fence.work().join("ran");
    let Some(config) = server(&fence, "vault", &format!("{{ command = [\"touch\", {marker:?}] }}")) else { return };
    fence.write("forge.toml", &config);
    for args in [vec!["auth", "status"], vec!["clients", "list"], vec!["servers", "list"], vec!["reload"]] {
        fence.run(args);
    }
    assert!(!marker.exists());
    let doctor = fence.run(["doctor"]);
    assert!(marker.exists(), "a server was started");
    assert!(doctor.stdout.contains("vault: failed") && doctor.stdout.contains("it is empty"), "{}", doctor.stdout);
}

/// Commands that start no server redact what a run has of a server's secret, whether the server is enabled by now or not.
#[tokio::test]
async fn records_are_shown_and_exported_without_kept_secrets() {
    const LONG: &str = "Zk9-qT4-wLm-v7Xr2bN8";
    for place in ["{ file = \"value\" }", "{ command = [\"cat\", \"value\"] }"] {
        let fence = Fence::new();
        fence.write("value", LONG);
        let Some(config) = server(&fence, "vault", place) else { return };
        let config = format!("{config}[scripts]\npath = \"scripts\"\n");
        let code = format!("return await vault.tell({{ to: {LONG:?} }})");
        fence.write("forge.toml", &config);
        fence.write("s.js", &code);
        fence.run(["run", "s.js"]).success();
        for config in [config.replacen("env =", "enabled = false\nenv =", 1), config] {
            fence.write("forge.toml", &config);
            for args in [
                &["runs", "list"][..],
                &["runs", "show", "last"],
                &["runs", "show", "last", "--json"],
                &["journal", "export", "last"],
                &["scripts", "save", "last", "--as", "saved", "--keep"],
            ] {
                let output = fence.run(args);
                let said = format!("{}{}", output.stdout, output.stderr);
                assert!(!said.contains(LONG), "{place}: {args:?}: {said}");
                assert!(!said.contains("may be shown"), "{place}: {args:?}: {said}");
            }
            for file in fs::read_dir(fence.work().join("scripts")).into_iter().flatten().flatten() {
                let text = fs::read_to_string(file.path()).unwrap_or_default();
                assert!(!text.contains(LONG), "{place}: {}", file.path().display());
            }
        }
        fs::remove_file(fence.work().join("value")).expect("it is there");
        let shown = fence.run(["runs", "show", "last"]).success();
        assert!(shown.stderr.contains("a secret in a run may be shown"), "{place}: {}", shown.stderr);
        let refused = fence.run(["journal", "export", "last", "-o", "cassette.json"]);
        assert!(refused.code != Some(0) && !fence.work().join("cassette.json").exists(), "{place}: {}", refused.stderr);
    }
}

#[tokio::test]
async fn rotation_keeps_calls_in_flight_and_old_values_redacted() {
    let fence = Fence::new();
    let (old, new) = ("old-plain-words", "new-plain-words");
    let token = fence.write("token", old);
    let Some(config) = server(&fence, "vault", "{ file = \"token\" }") else { return };
    let session = fence.serve_logged(&config).await;
    session.ready(&["vault"]).await;
    assert_eq!(session.execute("starlark", "vault.digest()").await, digest(old));
    let slow = "parallel([defer(vault.digest, id=i, seconds=4) for i in range(8)])";
    let rotate = async {
        while calls(&fence, "vault").len() < 9 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        fs::write(&token, new).expect("written");
        let mut command = fence.forgefs(["secrets", "rotate", "vault"]);
        let rotated = tokio::task::spawn_blocking(move || finish(&mut command, "")).await.expect("no panic");
        let during = session.execute("starlark", "vault.digest(id='during')").await;
        (rotated, during)
    };
    let code = json!({"language": "starlark", "code": slow});
    let (in_flight, (rotated, during)) = tokio::join!(session.call("execute", code), rotate);
    let rotated = rotated.success();
    assert!(rotated.stdout.contains("uses new secrets of vault"), "{rotated:?}");
    assert_eq!(during, digest(new));
    assert_eq!(in_flight.text.matches(&digest(old)).count(), 8, "{}", in_flight.text);
    let calls = calls(&fence, "vault");
    for id in 0..8 {
        assert_eq!(calls.iter().filter(|call| call.starts_with(&format!("call {id} "))).count(), 1, "{calls:?}");
    }
    let both = session.execute("starlark", &format!("vault.tell() + {:?}", format!(" {old} {new}"))).await.to_string();
    assert!(!both.contains(old) && !both.contains(new) && both.matches("[redacted").count() >= 3, "{both}");

    // What fails leaves the old connection.
    fs::remove_file(&token).expect("removed");
    let failed = fence.run(["secrets", "rotate", "vault", "--json"]);
    assert_eq!(failed.code, Some(3), "{failed:?}");
    let told: Value = failed.object();
    assert!(told["gateways"][0]["error"].as_str().expect("an error").contains("does not exist"), "{told}");
    assert_eq!(session.execute("starlark", "vault.digest()").await, digest(new));
    let unknown = fence.run(["secrets", "rotate", "none"]);
    assert!(unknown.code == Some(3) && unknown.stderr.contains("no server `none`"), "{unknown:?}");
    let log = session.stderr();
    assert!(!log.contains(old) && !log.contains(new), "{log}");
    session.close().await;
    let none = fence.run(["secrets", "rotate", "vault"]);
    assert!(none.code == Some(1) && none.stderr.contains("no gateway follows"), "{none:?}");
}

#[tokio::test]
async fn a_refused_header_is_read_anew_once() {
    let fence = Fence::new();
    let (accepted, token, runs) =
        (fence.write("accepted", "Bearer first-words"), fence.write("token", "first-words"), fence.write("runs", ""));
    let port = free_port();
    if python("x", "secretive.py", &[]).is_none() {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/secretive.py");
    let log = fence.work().join("vault.log");
    let mut web = Command::new("python3");
    web.arg(script).args([&log, Path::new(&port.to_string()), &accepted]).stdin(Stdio::null());
    let mut web = tokio::process::Command::from(web).kill_on_drop(true).spawn().expect("python3 starts");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let print = format!("echo run >> {runs:?}; cat {token:?}");
    let source = format!("{{ command = [\"sh\", \"-c\", {print:?}], prefix = \"Bearer \" }}");
    let config =
        format!("[servers.vault]\nurl = \"http://127.0.0.1:{port}/mcp\"\nheaders = {{ Authorization = {source} }}\n");
    let session = fence.serve_logged(&config).await;
    session.ready(&["vault"]).await;
    let ran = || fs::read_to_string(&runs).expect("read").lines().count();
    assert_eq!(session.execute("starlark", "vault.digest()").await, digest("Bearer first-words"));
    let before = ran();
    fs::write(&token, "second-words").expect("written");
    fs::write(&accepted, "Bearer second-words").expect("written");
    let many = "[a.value for a in parallel([defer(vault.digest, id=i) for i in range(6)])]";
    let digests = session.execute("starlark", many).await;
    assert_eq!(digests, json!(vec![digest("Bearer second-words"); 6]));
    assert_eq!(ran(), before + 1, "one reading for all calls");
    for id in 0..6 {
        let sent = calls(&fence, "vault").iter().filter(|call| call.starts_with(&format!("call {id} "))).count();
        assert_eq!(sent, 1);
    }
    // A server that wants something else gets no loop.
    fs::write(&accepted, "Bearer something-else").expect("written");
    for _ in 0..5 {
        let error = session.execute_err("starlark", "vault.digest()").await;
        assert!(error.contains("HTTP 401") && !error.contains("words"), "{error}");
    }
    assert!(ran() <= before + 2, "{} readings", ran());
    let told = session.execute("starlark", "'first-words second-words'").await;
    assert_eq!(told, "[redacted] [redacted]");
    assert!(!session.stderr().contains("second-words"), "{}", session.stderr());
    let _ = web.kill().await;
}

#[tokio::test]
async fn variables_of_files_are_found_after_those_of_the_environment() {
    let fence = Fence::new();
    fence.write(".env", "export FROM_FILE=\"words of the file\" # comment\nFROM_BOTH=of-the-file\n");
    let (Some(file), Some(both)) =
        (server(&fence, "file", "\"${FROM_FILE}\""), server(&fence, "both", "\"${FROM_BOTH}\""))
    else {
        return;
    };
    let config = fence.write("forge.toml", &format!("env_files = [\".env\"]\n{file}{both}"));
    let mut command = fence.forgefs(["--config", config.to_str().expect("text"), "serve"]);
    command.env("FROM_BOTH", "of-the-environment");
    let session = fence.connect(crate::client::Era::Modern, command).await;
    session.ready(&["file", "both"]).await;
    assert_eq!(session.execute("starlark", "file.digest()").await, digest("words of the file"));
    assert_eq!(session.execute("starlark", "both.digest()").await, digest("of-the-environment"));
    assert_eq!(session.execute("starlark", "'words of the file'").await, "[redacted]");
    session.close().await;
    fence.write(".env", "FROM_FILE='not closed and secret\n");
    let failed = fence.run(["ls", "/"]);
    assert!(failed.code == Some(2) && failed.stderr.contains("line 1: a quote is not closed"), "{failed:?}");
    assert!(!failed.stderr.contains("secret"), "{}", failed.stderr);
}

#[test]
fn doctor_warns_of_a_secret_that_others_can_read() {
    let fence = Fence::new();
    let token = fence.write("token", "plain-words");
    let Some(config) = server(&fence, "vault", "{ file = \"token\" }") else { return };
    fence.write("forge.toml", &config);
    let root = fence.work().parent().expect("a folder").to_owned();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("changed");
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).expect("changed");
        let doctor = fence.run(["doctor"]).success();
        assert_eq!(doctor.stdout.contains("can be read by every user"), is_told, "{}", doctor.stdout);
        assert!(!doctor.stdout.contains("plain-words"), "{}", doctor.stdout);
    }
}

/// A gateway that dies leaves no memory on the disk, whatever the shell allows.
#[tokio::test]
async fn a_gateway_that_crashes_dumps_no_core() {
    use std::os::unix::process::ExitStatusExt as _;
    let fence = Fence::new();
    let limit = |command: &mut Command| {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        use std::os::unix::process::CommandExt as _;
        let raise = || {
            let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
            Ok(setrlimit(Resource::RLIMIT_CORE, hard, hard)?)
        };
        #[expect(unsafe_code, reason = "two system calls between fork and exec")]
        unsafe {
            command.pre_exec(raise);
        }
    };
    fence.write("forge.toml", "");
    let mut command = fence.forgefs(["serve"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    limit(&mut command);
    let mut child = command.spawn().expect("it starts");
    let mut control = Command::new("sleep");
    control.arg("60").current_dir(fence.work());
    limit(&mut control);
    let mut control = control.spawn().expect("it starts");
    let limits = |pid: u32| fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(30);
    let core = |pid: u32| limits(pid).lines().find(|line| line.starts_with("Max core")).unwrap_or_default().to_owned();
    while core(child.id()).split_whitespace().nth(4) != Some("1") {
        assert!(Instant::now() < deadline, "{}", core(child.id()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let crash = |child: &mut std::process::Child| {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a number"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGABRT).expect("it runs");
        child.wait().expect("it ends")
    };
    let status = crash(&mut child);
    assert!(status.signal() == Some(6) && !status.core_dumped(), "{status}");
    let status = crash(&mut control);
    if !status.core_dumped() {
        crate::real::skipped("this machine dumps no core of anything: only the limit was checked");
    }
}

/// An authorization server for logins by a code; killed on drop.
struct Device {
    child: std::process::Child,
    fence: Fence,
}

impl Device {
    /// One whose token endpoint gives these answers.
    fn start(answers: &str) -> Option<Self> {
        let fence = crate::faulty::has_python("tests/servers/device.py")?;
        let (port, answers) = (free_port(), fence.write("answers", answers));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/device.py");
        let mut command = Command::new("python3");
        command.arg(script).args([Path::new(&port.to_string()), &fence.work().join("device.log"), &answers]);
        let child = command.stdin(Stdio::null()).spawn().expect("python3 starts");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        fence.write("forge.toml", &format!("[servers.web]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"));
        Some(Self { child, fence })
    }

    /// Requests to one endpoint, and the seconds between them.
    fn log(&self, kind: &str) -> (Vec<Value>, Vec<f64>) {
        let log = fs::read_to_string(self.fence.work().join("device.log")).unwrap_or_default();
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let entries: Vec<Value> = entries.filter(|entry| entry.get(kind).is_some()).collect();
        let at = |entry: &Value| entry["at"].as_f64().expect("a time");
        let pauses = entries.windows(2).map(|two| at(&two[1]) - at(&two[0])).collect();
        (entries.into_iter().map(|mut entry| entry[kind].take()).collect(), pauses)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As GitHub answers, which says by 200 that the person has not agreed yet, and others.
#[test]
fn a_login_by_a_code_does_not_fail_for_form() {
    let Some(device) = Device::start("odd authorization_pending ok") else { return };
    let login = device.fence.run(["auth", "login", "web", "--device"]).success();
    assert!(login.stderr.contains("/enter") && login.stderr.contains("12345678"), "{}", login.stderr);
    assert_eq!(device.log("token").0.len(), 2);
    let call = device.fence.run(["call", "web", "whoami", "{}"]).success();
    assert!(call.stdout.contains("Bearer [redacted"), "{}", call.stdout);
}

#[test]
fn a_person_logs_in_with_a_code_from_another_device() {
    let Some(device) = Device::start("authorization_pending slow_down ok") else { return };
    let login = device.fence.run(["auth", "login", "web", "--device"]).success();
    let told = &login.stderr;
    assert!(
        told.contains("/enter") && told.contains("WDJB-\\u{1b}[31mMJHT") && told.contains("within 10 min"),
        "{told}"
    );
    assert!(told.contains("Logged in to web: logged in by http://127.0.0.1"), "{told}");
    let (asked, pauses) = device.log("token");
    assert_eq!(asked.len(), 3, "{asked:?}");
    // An interval of 0 is none, and `slow_down` adds five seconds.
    assert!(pauses[0] >= 0.9 && pauses[1] >= 4.9, "{pauses:?}");
    assert!(asked.iter().all(|asked| asked["resource"].as_str().is_some_and(|it| it.ends_with("/mcp"))), "{asked:?}");
    assert_eq!(device.log("device").0[0]["scope"], "mcp");
    // The first token has expired by now, and the login is renewed.
    std::thread::sleep(Duration::from_millis(1_100));
    let call = device.fence.run(["--log", "trace", "call", "web", "whoami", "{}"]).success();
    assert!(call.stdout.contains("Bearer [redacted"), "{}", call.stdout);
    let (asked, _) = device.log("token");
    assert_eq!(asked[3]["grant_type"], "refresh_token", "{asked:?}");
    let outputs = format!("{login:?} {call:?}");
    for secret in ["device-words", "access-words", "refresh-words"] {
        assert!(!outputs.contains(secret), "{secret} is shown: {outputs}");
    }
}

#[test]
fn a_refused_or_late_login_with_a_code_stores_nothing() {
    for (answers, why) in [
        ("access_denied", "access_denied"),
        ("authorization_pending expired_token", "expired_token"),
        ("server_error", "server_error"),
    ] {
        let Some(device) = Device::start(answers) else { return };
        let login = device.fence.run(["auth", "login", "web", "--device"]);
        assert!(login.code == Some(3) || login.code == Some(1), "{login:?}");
        assert!(login.stderr.contains(why) && !login.stderr.contains("device-words"), "{}", login.stderr);
        let status = device.fence.run(["auth", "status", "web"]);
        assert!(status.stdout.contains("not logged in"), "{status:?}");
    }
}
