//! `forgefs registry`, against a server that speaks the API of the official registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Fence, Output};
use crate::faulty::has_python;
use crate::json_shapes::{examples, shape};
use crate::real::path;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/registry.py");
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// The text of a file, as soon as it is there.
pub(crate) fn written(file: &Path) -> String {
    let started = Instant::now();
    loop {
        match fs::read_to_string(file) {
            Ok(text) if !text.is_empty() => return text,
            _ => assert!(started.elapsed() < Duration::from_secs(30), "no {}", file.display()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A registry on this machine, and a fence to ask it from.
struct Registry {
    fence: Fence,
    folder: PathBuf,
    child: Child,
    url: String,
}

impl Registry {
    /// `None`, visibly, without python.
    fn of(entries: &[Value]) -> Option<Self> {
        let fence = has_python(SERVER)?;
        let folder = fence.work().with_file_name("registry");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("entries.json"), json!(entries).to_string()).expect("written");
        fs::write(folder.join("mode"), "ok").expect("written");
        let child = Command::new("python3").args([SERVER, path(&folder)]).stdin(Stdio::null()).spawn();
        let port = written(&folder.join("port"));
        Some(Self { fence, folder, child: child.expect("python starts"), url: format!("http://127.0.0.1:{port}") })
    }

    fn behaves(&self, mode: &str) {
        fs::write(self.folder.join("mode"), mode).expect("written");
    }

    fn run(&self, words: &[&str]) -> Output {
        let (before, after) = words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
        self.fence.run([&["registry"], before, &["--registry", &self.url], after].concat())
    }

    fn search(&self, words: &[&str]) -> Output {
        self.run(&[&["search"], words].concat())
    }

    fn add(&self, words: &[&str]) -> Output {
        self.run(&[&["add"], words].concat())
    }

    /// Status of each request so far.
    fn asked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    /// Files of kept answers.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.fence.cache().join("registry")).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// Makes all kept answers older.
    fn ages(&self, seconds: u64) {
        for file in self.kept() {
            let mut kept: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a file")).expect("JSON");
            kept["at"] = (kept["at"].as_u64().expect("a time") - seconds).into();
            fs::write(&file, kept.to_string()).expect("written");
        }
    }

    /// The configuration that `add` wrote; empty without one.
    fn config(&self) -> String {
        fs::read_to_string(self.fence.work().with_file_name("home").join(".config/forgefs/forge.toml"))
            .unwrap_or_default()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An active entry; `more` are its further keys.
fn entry(name: &str, version: &str, more: &Value) -> Value {
    let mut server = json!({"name": name, "version": version, "description": format!("Serves {name}.")});
    let object = server.as_object_mut().expect("an object");
    object.extend(more.as_object().expect("an object").clone());
    json!({"server": server, "_meta": {OFFICIAL: {"status": "active", "isLatest": true}}})
}

fn npm(identifier: &str, more: &Value) -> Value {
    package("npm", identifier, more)
}

fn package(kind: &str, identifier: &str, more: &Value) -> Value {
    let mut package =
        json!({"registryType": kind, "identifier": identifier, "version": "1.2.3", "transport": {"type": "stdio"}});
    package.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({ "packages": [package] })
}

fn remote(url: &str, more: &Value) -> Value {
    let mut remote = json!({"type": "streamable-http", "url": url});
    remote.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({ "remotes": [remote] })
}

fn weather() -> Vec<Value> {
    let mut old = entry("io.github.acme/weather", "1.1.0", &npm("@acme/weather", &json!({})));
    old["_meta"][OFFICIAL]["isLatest"] = json!(false);
    let mut both = npm("@acme/weather", &json!({}));
    both.as_object_mut()
        .expect("an object")
        .extend(remote("https://weather.example.com/mcp", &json!({})).as_object().expect("one").clone());
    vec![
        old,
        entry("io.github.acme/weather", "1.2.0", &both),
        entry("com.example/weather-map", "0.3.0", &package("oci", "docker.io/example/map", &json!({}))),
        entry("com.example/notes", "2.0.0", &remote("https://notes.example.com/mcp", &json!({}))),
    ]
}

#[test]
fn a_search_shows_the_latest_version_of_each_server() {
    let Some(registry) = Registry::of(&weather()) else { return };
    let found = registry.search(&["WEATHER"]).success();
    assert_eq!(
        found.stdout,
        "io.github.acme/weather   1.2.0    npm,remote  Serves io.github.acme/weather.\n\
         com.example/weather-map  0.3.0    oci         Serves com.example/weather-map.\n"
    );
    assert_eq!(found.stderr, "NAME                     VERSION  KINDS       DESCRIPTION\n");
    let (_, shown) =
        examples().into_iter().find(|(words, _)| words.starts_with(&["registry", "search"])).expect("on the page");
    let printed = registry.search(&["weather", "--json"]).success().object();
    assert_eq!((shape(&printed), &printed["kept_secs"]), (shape(&shown), &Value::Null), "{printed:#}");
    assert_eq!(printed["servers"][0]["kinds"], json!(["npm", "remote"]));
    let nothing = registry.search(&["nothing \u{1b}[2J"]).success();
    assert_eq!(
        (nothing.stdout.as_str(), nothing.stderr.as_str()),
        ("", "no server's name has \"nothing \\u{1b}[2J\" in it\n")
    );
}

#[test]
fn a_search_follows_pages_up_to_its_limit() {
    let many: Vec<Value> = (0..250).map(|n| entry(&format!("a.b/s{n:03}"), "1.0.0", &json!({}))).collect();
    let Some(registry) = Registry::of(&many) else { return };
    for (limit, count, asks) in [("20", 20, 1), ("100", 100, 1), ("120", 120, 1), ("500", 250, 1)] {
        let before = registry.asked().len();
        let found = registry.search(&["s", "--limit", limit]).success();
        assert_eq!(
            (found.stdout.lines().count(), registry.asked().len() - before),
            (count, asks),
            "{limit}: {found:?}"
        );
        assert_eq!(found.stderr.contains("there are more"), count < 250, "{limit}: {found:?}");
    }
    for (mode, query, asks) in [("circle", "s24", 2), ("endless", "s23", 10)] {
        registry.behaves(mode);
        let before = registry.asked().len();
        let found = registry.search(&[query, "--limit", "99"]).success();
        assert_eq!(registry.asked().len() - before, asks, "{mode}: {found:?}");
    }
}

#[test]
fn answers_are_kept_confirmed_and_used_while_the_registry_is_away() {
    let Some(registry) = Registry::of(&weather()) else { return };
    let first = registry.search(&["weather"]).success();
    let again = registry.search(&["weather"]).success();
    assert_eq!(
        (&first.stdout, registry.asked()),
        (&again.stdout, vec!["200".to_owned()]),
        "a fresh one needs no request"
    );
    registry.ages(3600);
    registry.search(&["weather"]).success();
    assert_eq!(registry.asked(), ["200", "304"], "an older one is confirmed by its entity tag");
    registry.search(&["weather"]).success();
    assert_eq!(registry.asked().len(), 2, "and is fresh again");
    #[cfg(unix)]
    for file in registry.kept() {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    }
    for mode in ["down", "busy", "slow"] {
        registry.behaves(mode);
        registry.ages(2 * 3600);
        let away = registry.search(&["weather"]).success();
        assert_eq!(away.stdout, first.stdout, "{mode}");
        assert!(away.stderr.contains("the registry is away (") && away.stderr.contains(" h ago"), "{mode}: {away:?}");
        let printed = registry.search(&["weather", "--json"]).success().object();
        assert!(printed["kept_secs"].as_u64() >= Some(7200), "{printed}");
    }
    let unknown = registry.search(&["notes"]);
    assert!(unknown.code == Some(3) && unknown.stderr.contains("did not answer within 10 s"), "{unknown:?}");
    registry.behaves("down");
    let add = registry.add(&["io.github.acme/weather", "--kind", "npm", "--no-check"]);
    assert!(add.code == Some(3) && add.stderr.contains("answered 503"), "what is only kept is not added: {add:?}");
    registry.ages(8 * 24 * 3600);
    assert_eq!(registry.search(&["weather"]).code, Some(3), "a week is the end");
    // A file that another program wrote is not read; nor is a damaged one.
    registry.behaves("ok");
    for damaged in ["{", "{\"format\": 1}", "\u{0}"] {
        registry.kept().iter().for_each(|file| fs::write(file, damaged).expect("written"));
        assert_eq!(registry.search(&["weather"]).success().stdout, first.stdout);
    }
    for n in 0..70 {
        registry.search(&[&format!("q{n}")]).success();
    }
    assert_eq!(registry.kept().len(), 64);
    let before = registry.kept().len();
    registry.fence.write("forge.toml", "[manifest]\ncache = \"off\"\n");
    registry.search(&["another"]).success();
    assert_eq!(registry.kept().len(), before, "`manifest.cache` holds for it");
}

#[test]
fn a_registry_can_do_no_more_than_fail() {
    let Some(registry) = Registry::of(&weather()) else { return };
    let cases = [
        ("html", 3, "is not one of a registry"),
        ("huge", 3, "is longer than 4194304 bytes"),
        ("drip", 3, "did not answer within 10 s"),
        ("redirect https://example.com/", 3, "answered 302 Found"),
    ];
    for (mode, code, says) in cases {
        registry.behaves(mode);
        let failed = registry.search(&["x"]);
        assert!(failed.code == Some(code) && failed.stderr.contains(says), "{mode}: {failed:?}");
        assert!(!failed.stderr.contains('\u{1b}'), "{mode}: {failed:?}");
        let printed = registry.search(&["x", "--json"]).object();
        assert_eq!(printed["error"]["exit"], code, "{mode}: {printed}");
    }
    registry.behaves("other");
    let other = registry.add(&["io.github.acme/weather", "--yes"]);
    assert!(other.code == Some(3) && other.stderr.contains("of another server or version"), "{other:?}");
    let urls = [
        ("http://example.com", "is not https"),
        ("https://169.254.169.254", "address not allowed"),
        ("file:///etc/passwd", "is not https"),
        ("nonsense", "is no URL"),
        ("https://user@example.com", "leave user, query and fragment out"),
        ("-x", ""),
    ];
    for (url, says) in urls {
        let failed = registry.fence.run(["registry", "search", "x", &format!("--registry={url}")]);
        assert!(matches!(failed.code, Some(2 | 3)) && failed.stderr.contains(says), "{url}: {failed:?}");
    }
}

#[test]
fn entries_that_are_not_valid_are_left_out_and_texts_are_escaped() {
    let mut entries = weather();
    let loud = "\u{1b}[2Jred\n::error::x \u{202e}\u{e0041}";
    let mut shouting =
        entry("a.b/loud-weather", "1.0.0", &json!({"packages": [{"registryType": loud, "identifier": "x"}]}));
    shouting["server"]["description"] = json!(loud);
    shouting["_meta"][OFFICIAL]["status"] = json!(loud);
    let mut gone = entry("a.b/gone-weather", "1.0.0", &json!({}));
    gone["_meta"][OFFICIAL]["status"] = json!("deleted");
    entries.extend([shouting, gone, json!(null), json!({"server": 1}), json!({"server": {"name": "-weather"}})]);
    let packages: Vec<Value> = (0..65).map(|_| json!({"registryType": "npm", "identifier": "x"})).collect();
    let invalid = [
        entry("../weather/../x", "1.0.0", &json!({})),
        entry("a.b/weather\n", "1.0.0", &json!({})),
        entry("a.b/weather-v", "1.0 \u{1b}", &json!({})),
        entry(&format!("a.b/weather{}", "x".repeat(200)), "1.0.0", &json!({})),
        entry("a.b/weather-many", "1.0.0", &json!({ "packages": packages })),
    ];
    entries.extend(invalid);
    let Some(registry) = Registry::of(&entries) else { return };
    let found = registry.search(&["weather"]).success();
    assert!(found.stderr.contains("8 entries are not valid"), "{found:?}");
    assert_eq!(found.stdout.lines().count(), 3, "{found:?}");
    assert!(
        !found.stdout.contains(['\u{1b}', '\u{202e}', '\u{e0041}']) && found.stdout.contains("\\u{1b}[2Jred\\n"),
        "{found:?}"
    );
    let refused = registry.add(&["a.b/loud-weather"]);
    assert!(refused.code == Some(2) && !refused.stderr.contains('\u{1b}'), "{refused:?}");
}

/// Entries, the words of `add` behind the name, and the keys that are written.
#[test]
fn an_entry_becomes_an_entry_of_the_configuration() {
    let argument = |kind: &str, more: Value| {
        let mut argument = json!({ "type": kind });
        argument.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        argument
    };
    let npm_full = npm(
        "@acme/files",
        &json!({
            "registryBaseUrl": "https://registry.npmjs.org",
            "runtimeArguments": [argument("positional", json!({"value": "-y"}))],
            "packageArguments": [
                argument("named", json!({"name": "--mode", "value": "{mode}", "variables": {"mode": {"default": "a b; rm -rf ~"}}})),
                argument("named", json!({"name": "-p", "default": "1"})),
                argument("positional", json!({"valueHint": "folder", "isRequired": true})),
                argument("named", json!({"name": "--extra"})),
            ],
            "environmentVariables": [
                {"name": "FILES_MODE", "value": "$HOME `x` $(y)"},
                {"name": "FILES_LEVEL", "default": "info"},
                {"name": "FILES_LIMIT", "default": "10", "isRequired": true},
                {"name": "FILES_TOKEN", "isRequired": true, "isSecret": true},
            ],
        }),
    );
    let headers = json!({"headers": [
        {"name": "Authorization", "value": "Bearer {api_key}", "isRequired": true, "isSecret": true, "variables": {"api_key": {}}},
        {"name": "X-Tenant", "isRequired": true},
        {"name": "X-Fixed", "value": "one"},
        {"name": "X-Maybe"},
    ]});
    let old =
        json!({"type": "sse", "url": "https://{region}.example.com/sse", "variables": {"region": {"default": "eu"}}});
    let Some(registry) = Registry::of(&[
        entry("a.b/files", "1.0.0", &npm_full),
        entry("a.b/clock", "1.0.0", &package("pypi", "mcp-clock", &json!({}))),
        entry("a.b/web", "1.0.0", &remote("https://web.example.com/mcp?v=1", &headers)),
        entry("a.b/old.one", "1.0.0", &json!({"remotes": [old]})),
    ]) else {
        return;
    };
    let cases: &[(&[&str], &[&str], &str)] = &[
        (
            &["a.b/files", "--", "/tmp/a folder"],
            &[
                "[servers.files]\nenabled = false\ncommand = \"npx\"\nargs = [\"-y\", \"@acme/files@1.2.3\", \"--mode=a b; rm -rf ~\", \"-p\", \"1\", \"/tmp/a folder\"]\n",
                "env.FILES_MODE = \"$HOME `x` $(y)\"",
                "env.FILES_LIMIT = \"10\"",
                "env.FILES_TOKEN = \"${FILES_TOKEN}\"",
                "# a.b/files 1.0.0 of http://127.0.0.1",
                "# Export FILES_TOKEN, then `forgefs enable files`.",
            ],
            "it takes FILES_LEVEL too",
        ),
        // What an entry sets is shown before anything is written: it may point an honest package somewhere else.
        (
            &["a.b/files", "--name-as", "seen", "--", "/tmp"],
            &["[servers.seen]\nenabled = false\n"],
            "  it sets FILES_LIMIT=10\n",
        ),
        (&["a.b/web", "--name-as", "sent"], &["[servers.sent]\nenabled = false\n"], "  it sends X-Fixed: one\n"),
        (
            &["a.b/clock", "--name-as", "time", "--no-check"],
            &["[servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-clock@1.2.3\"]\n"],
            "started by: uvx mcp-clock@1.2.3",
        ),
        (
            &["a.b/web"],
            &[
                "[servers.web]\nenabled = false\nurl = \"https://web.example.com/mcp?v=1\"\n",
                "headers.Authorization = \"Bearer ${FORGEFS_WEB_API_KEY}\"",
                "headers.X-Tenant = \"${FORGEFS_WEB_X_TENANT}\"",
                "headers.X-Fixed = \"one\"",
            ],
            "the header X-Maybe too",
        ),
        (
            &[
                "a.b/web", "--name-as", "mine", "--no-check", "-H", "authorization: Bearer ${MY_TOKEN:-x}", "-H",
                "X-Tenant: t",
            ],
            &[
                "[servers.mine]\nenabled = false\nurl",
                "headers.authorization = \"Bearer ${MY_TOKEN}\"",
                "headers.X-Tenant = \"t\"",
            ],
            "mine is at https://web.example.com",
        ),
        (
            &["a.b/old.one", "--no-check"],
            &["[servers.old_one]\ntransport = \"sse\"\nurl = \"https://eu.example.com/sse\"\n"],
            "",
        ),
    ];
    for (words, keys, says) in cases {
        let added = registry.add(words).success();
        assert!(added.stderr.contains(says), "{words:?}: no {says:?} in {added:?}");
        let config = registry.config();
        for key in *keys {
            assert!(config.contains(key), "{words:?}: no {key:?} in {config}\n{added:?}");
        }
    }
    assert!(!registry.config().contains("FILES_LEVEL"));
    registry.fence.run(["list"]).success();
}

/// Every name of the list, as it is written there; `*` is any rest.
#[test]
fn no_entry_sets_a_variable_that_steers_its_program() {
    let source = include_str!("../../crates/catalog/src/registry/start.rs");
    let list =
        source.split("const STEERING: &str = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("the list");
    let names: Vec<String> =
        list.split_whitespace().filter(|name| *name != "\\").map(|name| name.replace('*', "any_1")).collect();
    assert!(names.len() > 30 && names.iter().any(|name| name == "bash_env"), "{names:?}");
    let variable = |name: &str| npm("x", &json!({"environmentVariables": [{"name": name, "value": "/tmp/x"}]}));
    let spelt = |name: &String| [name.clone(), name.to_uppercase()];
    let all: Vec<String> = names.iter().flat_map(spelt).collect();
    let named = |number: usize| format!("com.example/n{number}");
    let entries: Vec<Value> =
        all.iter().enumerate().map(|(number, name)| entry(&named(number), "1.0.0", &variable(name))).collect();
    let Some(registry) = Registry::of(&entries) else { return };
    for (number, name) in all.iter().enumerate() {
        let output = registry.add(&[&named(number)]);
        let says = format!("its entry sets {name}, which changes the program that starts it");
        assert!(output.code != Some(0) && output.stderr.contains(&says), "{name}: {output:?}");
    }
}

/// Each of these is refused with a reason, and nothing is started or written.
#[test]
fn what_an_entry_cannot_ask_for() {
    let env = |name: &str, more: Value| {
        let mut input = json!({ "name": name });
        input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        npm("x", &json!({"environmentVariables": [input]}))
    };
    let argument = |argument: Value| npm("x", &json!({"packageArguments": [argument]}));
    let header = |name: &str, value: &str| {
        remote("https://example.com/mcp", &json!({"headers": [{"name": name, "value": value}]}))
    };
    let version = |kind: &str, version: &str| package(kind, "x", &json!({ "version": version }));
    let cases: Vec<(Value, &str)> = vec![
        (npm("--call=touch planted", &json!({})), "is not the name of a package of npm"),
        (npm("x; touch planted", &json!({})), "is not the name of a package"),
        (npm("../../planted", &json!({})), "is not the name of a package"),
        (npm("https://example.com/x.tgz", &json!({})), "is not the name of a package"),
        (npm("X", &json!({})), "is not the name of a package"),
        (npm("", &json!({})), "is not the name of a package"),
        (package("pypi", "-x", &json!({})), "is not the name of a package of pypi"),
        (package("pypi", "git+https://example.com/x", &json!({})), "is not the name of a package of pypi"),
        (version("npm", "1.0.0-x.tgz"), "is not one version"),
        (npm("x.tar.gz", &json!({})), "is not the name of a package"),
        (npm("node", &json!({})), "runs what its arguments say"),
        (package("pypi", "python3", &json!({})), "runs what its arguments say"),
        (env("OPENSSL_CONF", json!({"value": "/tmp/x"})), "changes the program that starts it"),
        (version("npm", "latest"), "is not one version"),
        (version("npm", "^1.0.0"), "is not one version"),
        (version("npm", "1.0.0 --x"), "is not one version"),
        (version("pypi", ">=1"), "is not one version"),
        (npm("x", &json!({"version": null})), "is not one version"),
        (npm("x", &json!({"registryBaseUrl": "https://npm.example.com"})), "its package is at"),
        (npm("x", &json!({"transport": {"type": "sse"}})), "its package speaks"),
        (
            npm(
                "x",
                &json!({"runtimeArguments": [{"type": "named", "name": "--registry", "value": "https://example.com"}]}),
            ),
            "arguments for the program that installs it",
        ),
        (package("oci", "docker.io/x", &json!({})), "it is: oci; ForgeFS starts packages of npm and PyPI"),
        (json!({}), "nothing that can be started"),
        (argument(json!({"type": "positional", "value": "--config=/etc/passwd"})), "stands where no option belongs"),
        (argument(json!({"type": "positional", "value": "${GITHUB_TOKEN}"})), "is not a plain value"),
        (argument(json!({"type": "positional", "value": "a\u{1b}[2J"})), "is not a plain value"),
        (
            argument(json!({"type": "positional", "value": "$\u{7b}x}", "variables": {"x": {"value": "y"}}})),
            "is not a plain value",
        ),
        (
            argument(json!({"type": "positional", "value": "$\u{7b}a}", "variables": {"a": {"value": "{PATH}"}}})),
            "is not a plain value",
        ),
        (argument(json!({"type": "positional", "value": "${x}"})), "is not a plain value"),
        (argument(json!({"type": "named", "name": "x y", "value": "z"})), "is not the name of an option"),
        (
            argument(json!({"type": "positional", "valueHint": "folder", "isRequired": true})),
            "it needs \"folder\": give it behind `--`",
        ),
        (env("A=B", json!({"value": "x"})), "is not the name of a variable"),
        (env("NODE_OPTIONS", json!({"value": "--require=/tmp/x"})), "changes the program that starts it"),
        (env("npm_config_registry", json!({"value": "https://example.com"})), "changes the program"),
        (env("LD_PRELOAD", json!({"isRequired": true})), "changes the program"),
        (env("UV_INDEX_URL", json!({"value": "https://example.com"})), "changes the program"),
        (env("TOKEN", json!({"value": "${AWS_SECRET_ACCESS_KEY}"})), "is not a plain value"),
        (remote("http://example.com/mcp", &json!({})), "is not https"),
        (remote("https://10.0.0.1/mcp", &json!({})), "address not allowed"),
        (remote("https://169.254.169.254/latest", &json!({})), "address not allowed"),
        (remote("https://user:word@example.com/mcp", &json!({})), "has a user or a fragment"),
        (remote("https://example.com/${GITHUB_TOKEN}", &json!({})), "is not a plain value"),
        (
            remote("https://{tenant}.example.com/mcp", &json!({"variables": {"tenant": {}}})),
            "its URL has parts to fill in",
        ),
        (remote("file:///etc/passwd", &json!({})), "is not https"),
        (remote("https://example.com/mcp", &json!({"type": "carrier-pigeon"})), "a transport that ForgeFS does not"),
        (header("X\r\nY", "z"), "is not the name of a header"),
        (header("X-Y", "${GITHUB_TOKEN}"), "is not a plain value"),
        (header("X-Y", "a\r\nb: c"), "is not a plain value"),
    ];
    let entries: Vec<Value> =
        cases.iter().enumerate().map(|(n, (more, _))| entry(&format!("a.b/s{n}"), "1.0.0", more)).collect();
    let Some(registry) = Registry::of(&entries) else { return };
    for (n, (more, says)) in cases.iter().enumerate() {
        let refused = registry.add(&[&format!("a.b/s{n}"), "--no-check"]);
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{more}: no {says:?} in {refused:?}");
        assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");
        assert_eq!(registry.config(), "", "{more}");
    }
    for (name, says) in [
        ("--help=x", "unexpected"),
        ("weather", "is not a name of the registry"),
        ("a/b/c", "is not a name"),
        ("a/b\n", "is not a name"),
    ] {
        let refused = registry.add(&[name]);
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{name}: {refused:?}");
    }
    let missing = registry.add(&["a.b/nowhere"]);
    assert!(
        missing.code == Some(2) && missing.stderr.contains("the registry has no server a.b/nowhere"),
        "{missing:?}"
    );
    let missing = registry.add(&["a.b/s0", "--version", "9/../x"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("has no version \"9/../x\""), "{missing:?}");
}

#[test]
fn withdrawn_versions_are_refused_with_the_word_of_the_registry() {
    let with = |name: &str, status: &str| {
        let mut entry = entry(name, "1.0.0", &npm("x", &json!({})));
        entry["_meta"][OFFICIAL]["status"] = json!(status);
        entry["_meta"][OFFICIAL]["statusMessage"] = json!("Use \u{1b}[2J a.b/other.");
        entry
    };
    let mut early = entry("a.b/early", "1.0.0", &npm("x", &json!({})));
    early["_meta"] = json!({});
    early["server"]["status"] = json!("deleted");
    let Some(registry) = Registry::of(&[
        with("a.b/gone", "deleted"),
        with("a.b/old", "deprecated"),
        with("a.b/odd", "quarantined"),
        early,
    ]) else {
        return;
    };
    for (name, says) in [
        ("a.b/gone", "was deleted from the registry"),
        ("a.b/old", "is deprecated by its publisher: \"Use \\u{1b}[2J a.b/other.\""),
        ("a.b/odd", "has a state that is not known here"),
        ("a.b/early", "was deleted from the registry"),
    ] {
        let refused = registry.add(&[name, "--no-check"]);
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{name}: no {says:?} in {refused:?}");
        assert_eq!(registry.config(), "", "{name}");
    }
}

#[test]
fn nothing_foreign_is_started_without_consent() {
    let mut entries = weather();
    entries.push(entry("a.b/desk", "1.0.0", &npm("desk", &json!({}))));
    let Some(registry) = Registry::of(&entries) else { return };
    let refused = registry.add(&["a.b/desk"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("it is not started without consent"), "{refused:?}");
    assert!(refused.stderr.contains("desk is started by: npx -y desk@1.2.3"), "{refused:?}");
    let choose = registry.add(&["io.github.acme/weather", "--yes"]);
    assert!(choose.stderr.contains("it can be had as npm and remote: choose one with --kind"), "{choose:?}");
    // npx of this fence starts the sample server, and notes how it was called.
    let npx = format!(
        "#!/bin/sh\necho \"$@\" >> \"$HOME/called\"\nexec {} demo-server tickets\n",
        env!("CARGO_BIN_EXE_forgefs")
    );
    let npx = registry.fence.write("../bin/npx", &npx);
    crate::client::finish(Command::new("chmod").arg("+x").arg(&npx), "").success();
    let mut command =
        registry.fence.forgefs(["registry", "add", "a.b/desk", "--yes", "--json", "--registry", &registry.url]);
    let folder = npx.parent().expect("a folder").display();
    command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap_or_default()));
    let added = crate::client::finish(&mut command, "").success().object();
    assert_eq!((&added["state"], &added["enabled"]), (&json!("ready"), &json!(true)), "{added}");
    let home = registry.fence.work().with_file_name("home");
    assert_eq!(fs::read_to_string(home.join("called")).expect("it was called"), "-y desk@1.2.3\n");
    assert!(registry.config().contains("args = [\"-y\", \"desk@1.2.3\"]"), "{}", registry.config());
    // `script` gives the command a terminal of its own.
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return crate::real::skipped("no `script` of util-linux to ask on a terminal");
    }
    let asked = |answers: &str, name: &str| {
        let program = env!("CARGO_BIN_EXE_forgefs");
        let line = format!("{program} registry add a.b/desk --name-as {name} --registry {}", registry.url);
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]);
        registry.fence.enclose(&mut script);
        script.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap_or_default()));
        crate::client::finish(&mut script, answers)
    };
    let no = asked("n\n", "no");
    assert!(no.code == Some(1) && no.stdout.contains("nothing was started, and nothing written"), "{no:?}");
    assert_eq!(fs::read_to_string(home.join("called")).expect("as before").lines().count(), 1, "{no:?}");
    let yes = asked("y\ny\n", "yes");
    assert!(yes.code == Some(0) && yes.stdout.contains("Download and start it, with your rights? [y/N]"), "{yes:?}");
    assert!(registry.config().contains("[servers.yes]") && !registry.config().contains("[servers.no]"));
}

#[test]
fn the_page_shows_what_runs() {
    let mut entries = weather();
    let folder = json!({"packageArguments": [{"type": "positional", "valueHint": "folder", "isRequired": true}]});
    entries.push(entry("io.github.acme/files", "1.0.0", &npm("@acme/files", &folder)));
    let Some(registry) = Registry::of(&entries) else { return };
    let page = include_str!("../../docs/registry.md");
    let lines: Vec<String> = crate::ci::blocks(page, "sh")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in &lines {
        let words = line.strip_prefix("forgefs registry ").expect("a command of this page");
        registry.run(&words.split(' ').collect::<Vec<_>>()).success();
    }
    let listed = registry.fence.run(["list"]).success().stdout;
    for says in [
        "weather ", "npx -y @acme/weather@1.2.3", "https://weather.example.com/mcp", "@acme/files@1.2.3 /srv/documents",
    ] {
        assert!(listed.contains(says), "no {says:?} in {listed}");
    }
}
