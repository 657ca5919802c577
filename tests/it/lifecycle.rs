//! Lifecycle of servers: known before they are up, started on demand, stopped while idle, listed again on changes, and
//! replaced with the configuration.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams,
    SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RoleClient};
use serde_json::{Value, json};

use super::client::{Era, Fence, Session};
use super::faulty::{has_python, samples};

/// A server of `tests/servers/living.py` in a fence, with the tool `grow`.
struct Living {
    fence: Fence,
    file: PathBuf,
    flags: &'static str,
}

impl Living {
    /// `None`, visibly, without Python.
    fn new(flags: &'static str) -> Option<Self> {
        let fence = has_python("tests/servers/living.py")?;
        let file = fence.write("tools", "grow\n");
        Some(Self { fence, file, flags })
    }

    /// Its configuration, with more keys. It starts after the seconds in the file `tools.delay`.
    fn config(&self, keys: &str) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/living.py");
        let (file, flags) = (self.file.display(), self.flags);
        let start = format!("[ -e {file}.delay ] && sleep $(cat {file}.delay); exec python3 {script} {file} {flags}");
        format!("[servers.living]\ncommand = \"sh\"\nargs = [\"-c\", {start:?}]\n{keys}\n")
    }

    /// Parents of the processes started so far.
    fn starts(&self) -> Vec<String> {
        let starts = fs::read_to_string(self.file.with_extension("starts")).unwrap_or_default();
        starts.lines().map(str::to_owned).collect()
    }

    /// File of its cached listing.
    fn kept(&self) -> PathBuf {
        let mut files = fs::read_dir(self.fence.cache()).expect("a cache").flatten().map(|entry| entry.path());
        let is_list = |path: &PathBuf| !path.to_string_lossy().contains(".shapes.");
        files.find(is_list).expect("a list")
    }
}

/// Lists the root until it shows `what`.
pub(crate) async fn shows(session: &Session, what: &str) -> String {
    let pattern = regex::Regex::new(what).expect("a pattern");
    let started = Instant::now();
    loop {
        let listing = session.call("ls", json!({"path": "/", "depth": 2})).await.text;
        if pattern.is_match(&listing) {
            return listing;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no {what} in:\n{listing}\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn tools_of_the_last_start_are_there_before_the_server_is() {
    let Some(living) = Living::new("") else { return };
    let config = living.config("");
    let first = living.fence.serve(&config).await;
    first.ready(&["living"]).await;
    first.close().await;
    // From now on it is never ready: everything shown of it is cached.
    fs::write(living.file.with_extension("delay"), "600").expect("writable");
    let second = living.fence.serve(&config).await;
    let listing = shows(&second, "living/  1 tool, connecting").await;
    assert!(listing.contains("grow"), "{listing}");
    second.close().await;
    // A damaged file is ignored.
    let kept = living.kept();
    let text = fs::read_to_string(&kept).expect("a kept list");
    fs::write(&kept, text.replace("grow", "grew")).expect("writable");
    let third = living.fence.serve(&config).await;
    let listing = third.call("ls", json!({})).await.text;
    assert!(listing.contains("living/  0 tools, connecting"), "{listing}");
    third.close().await;
    assert_eq!(living.starts().len(), 1);
}

#[tokio::test]
async fn a_list_that_is_as_it_was_is_not_kept_again() {
    let Some(living) = Living::new("") else { return };
    let mut seen = Vec::new();
    for tools in ["stay\n", "stay\n", "stay\nmore\n"] {
        fs::write(&living.file, tools).expect("writable");
        let session = living.fence.serve(&living.config("")).await;
        let count = tools.lines().count();
        let listing = shows(&session, &format!("living/  {count} tools?, ready")).await;
        assert_eq!(session.execute("starlark", "living.stay()").await, json!("stay done"));
        session.close().await;
        let kept = fs::metadata(living.kept()).expect("a kept list");
        seen.push((listing.lines().next().map(str::to_owned), kept.ino(), kept.modified().expect("a time")));
    }
    let [first, second, third] = seen.try_into().expect("three starts");
    assert_eq!((&first.0, first.1), (&second.0, second.1), "the catalog's digest, and the file");
    assert!(second.2 > first.2, "it was listed again: {first:?} {second:?}");
    assert!(third.0 != second.0 && third.1 != second.1, "{second:?} {third:?}");
}

#[tokio::test]
async fn a_lazy_server_starts_at_the_first_call_and_stops_when_nobody_uses_it() {
    let Some(living) = Living::new("") else { return };
    let config = living.config("start = \"lazy\"\nidle_stop = \"1s\"");
    let first = living.fence.serve(&config).await;
    // Unknown: it is started to be listed, and stopped after that.
    shows(&first, "living/  1 tool, resting").await;
    first.close().await;
    assert_eq!(living.starts().len(), 1);
    let second = living.fence.serve(&config).await;
    let listing = shows(&second, "living/  1 tool, resting").await;
    assert!(listing.contains("grow.pyi") || listing.contains("__init__.pyi  grow"), "{listing}");
    assert!(second.call("search", json!({"query": "grow"})).await.text.contains("/living/grow.pyi"));
    assert_eq!(living.starts().len(), 1, "discovery starts nothing");
    assert_eq!(second.execute("starlark", "living.grow()").await, json!("grow done"));
    assert_eq!(living.starts().len(), 2);
    // It was listed again, since it may have changed while it was stopped.
    shows(&second, "living/  2 tools").await;
    shows(&second, "living/  2 tools, resting").await;
    assert_eq!(second.execute("starlark", "living.grown_1()").await, json!("grown_1 done"));
    assert_eq!(living.starts().len(), 3);
    second.close().await;
}

/// Large input moves the work of a runtime thread to another one, and the thread ends after ten idle seconds. Linux
/// ends processes with the thread that started them.
#[tokio::test]
async fn processes_outlive_the_threads_of_the_runtime() {
    let Some(living) = Living::new("") else { return };
    let session = living.fence.serve(&living.config("")).await;
    session.ready(&["living"]).await;
    let code = "const text = 'x'.repeat(300000); \
        return (await Promise.all([1, 2, 3, 4].map(() => living.grow({text})))).length";
    for _ in 0..5 {
        assert_eq!(session.execute("javascript", code).await, json!(4));
    }
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(session.execute("javascript", "return await living.grow()").await, json!("grow done"));
    assert_eq!(living.starts().len(), 1, "{}", session.stderr());
    session.close().await;
}

#[tokio::test]
async fn a_changed_list_is_followed_in_both_eras() {
    for flags in ["", "--modern"] {
        let Some(living) = Living::new(flags) else { return };
        let session = living.fence.serve(&living.config("")).await;
        session.ready(&["living"]).await;
        let before = session.call("ls", json!({})).await.text;
        session.execute("starlark", "living.grow()").await;
        let after = shows(&session, "living/  2 tools").await;
        assert_ne!(before.lines().next(), after.lines().next(), "the catalog's digest");
        assert_eq!(session.execute("starlark", "living.grown_1()").await, json!("grown_1 done"));
        assert_eq!(living.starts().len(), 1, "{flags}: nothing was restarted");
        session.close().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_configuration_is_followed() {
    let Some(living) = Living::new("--silent") else { return };
    let config = living.config("");
    let session = living.fence.serve(&config).await;
    session.ready(&["living"]).await;
    // Added, which the operator must confirm.
    living.fence.write("forge.toml", &format!("{config}{}", samples()));
    shows(&session, "note: forge.toml was edited .* the operator has to confirm servers.calendar").await;
    session.hang_up();
    session.ready(&["calendar", "people", "tickets"]).await;
    // Invalid: the last one stays, and the root shows why.
    living.fence.write("forge.toml", &format!("{config}[servers.x]\ncomand = \"y\"\n"));
    let listing = shows(&session, "note: forge.toml has changed and is not valid").await;
    assert!(listing.contains("people/") && listing.contains("comand"), "{listing}");
    // Removed.
    living.fence.write("forge.toml", &config);
    let listing = shows(&session, "^/  1 server").await;
    assert!(!listing.contains("note:"), "{listing}");
    assert!(session.execute_err("starlark", "call_tool('people', 'list_teams')").await.contains("SERVER_NOT_FOUND"));
    assert_eq!(living.starts().len(), 1, "a server that is not changed goes on");
    // Changed: replaced.
    living.fence.write("forge.toml", &config.replace("[servers.living]", "[servers.living]\ndescription = \"Grows\""));
    shows(&session, "living/  1 tool, ready  Grows").await;
    assert_eq!(living.starts().len(), 2);
    // Limits of scripts are those of the new version.
    living.fence.write("forge.toml", &format!("{config}[sandbox.limits]\ncalls = 1\n"));
    let started = Instant::now();
    while !session
        .call("execute", json!({"language": "starlark", "code": "living.grow()\nliving.grow()"}))
        .await
        .is_error
    {
        assert!(started.elapsed() < Duration::from_secs(60), "the new limit is not in force");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    session.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_hangup_lists_every_server_again() {
    let Some(living) = Living::new("--silent") else { return };
    let session = living.fence.serve(&living.config("")).await;
    session.ready(&["living"]).await;
    fs::write(&living.file, "grow\nmore\n").expect("writable");
    let gateway = living.starts().pop().expect("a start");
    assert!(Command::new("kill").args(["-HUP", &gateway]).status().expect("kill").success());
    shows(&session, "living/  2 tools").await;
    assert_eq!(living.starts().len(), 1);
    session.close().await;
}

/// A client of the older revisions that records notifications.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl ClientHandler for Ear {
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.lock().expect("not poisoned").push("list".to_owned());
    }

    async fn on_resource_updated(&self, told: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().expect("not poisoned").push(told.uri);
    }
}

const INIT: &str = "forge:///living/__init__.pyi";
const GROW: &str = "forge:///living/grow.pyi";

#[tokio::test]
#[expect(deprecated, reason = "clients of the older revisions subscribe in their own way")]
async fn a_client_with_a_handshake_is_told_what_changed() {
    let Some(living) = Living::new("") else { return };
    let config = living.fence.write("forge.toml", &living.config(""));
    let command = living.fence.forgefs([Path::new("--config"), &config, Path::new("serve")]);
    let ear = Ear::default();
    let (client, _) = living.fence.attach(Era::Legacy, command, ear.clone()).await;
    let call = |tool: &'static str, arguments: Value| {
        let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().cloned().expect("object"));
        client.call_tool(request)
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !format!("{:?}", call("ls", json!({})).await).contains("1 tool, ready") {
        assert!(Instant::now() < deadline, "never ready");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for uri in [INIT, GROW] {
        client.subscribe(SubscribeRequestParams::new(uri)).await.expect("subscribed");
    }
    // Notifications of the start come first.
    tokio::time::sleep(Duration::from_secs(1)).await;
    ear.0.lock().expect("not poisoned").clear();
    call("execute", json!({"language": "starlark", "code": "living.grow()"})).await.expect("an answer");
    let deadline = Instant::now() + Duration::from_secs(60);
    while ear.0.lock().expect("not poisoned").len() < 2 {
        assert!(Instant::now() < deadline, "told only {:?}", ear.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(*ear.0.lock().expect("not poisoned"), ["list", INIT], "what did not change is not told");
    client.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn a_client_without_a_handshake_is_told_what_it_listens_for() {
    let Some(living) = Living::new("--modern") else { return };
    let session = living.fence.serve(&living.config("")).await;
    session.ready(&["living"]).await;
    let mut filter = SubscriptionFilter::new();
    filter.resources_list_changed = Some(true);
    filter.tools_list_changed = Some(true);
    filter.resource_subscriptions = Some(vec![INIT.to_owned(), GROW.to_owned()]);
    let mut stream = session.peer().listen(filter).await.expect("a stream");
    assert_eq!(stream.acknowledged().tools_list_changed, None, "the four tools never change");
    session.execute("starlark", "living.grow()").await;
    let mut told = Vec::new();
    while told.len() < 2 {
        let next = tokio::time::timeout(Duration::from_secs(60), stream.next()).await.expect("something is told");
        told.push(match next.expect("a notification") {
            Some(ServerNotification::ResourceListChangedNotification(_)) => "list".to_owned(),
            Some(ServerNotification::ResourceUpdatedNotification(updated)) => updated.params.uri,
            other => panic!("told {other:?}"),
        });
    }
    assert_eq!(told, ["list", INIT]);
    session.close().await;
}
