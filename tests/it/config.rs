//! Configuration files: one per mistake with its exact message, one per feature with its resolved form.

use std::fs;
use std::path::Path;

use crate::client::Fence;
use forgefs::cli::init;
use forgefs::config::{
    Approvals, Audit, AuditTo, Config, ConfigError, Credential, Journal, Manifest, Search, Transport,
};
use forgefs::redact::{self, Surface, secret};
use proptest::prelude::*;

/// Environment of every test here.
fn env(name: &str) -> Option<String> {
    let value = match name {
        "HOME" => "/home/somebody",
        "TOKEN" => "token-from-the-environment",
        "QUERY_KEY" => "query-key-from-the-environment",
        "EMPTY" => "",
        "WITH_REFERENCE" => "${HOME}",
        _ => return None,
    };
    Some(value.to_owned())
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("forge.toml"), &env)
}

/// The resolved configuration of an empty file in this environment.
fn nothing() -> Config {
    let cache = Some("/home/somebody/.cache/forgefs".into());
    let path = Some("/home/somebody/.local/state/forgefs/audit.jsonl".into());
    let state = Some("/home/somebody/.local/state/forgefs".into());
    let empty = Config::empty();
    Config {
        manifest: Manifest { cache, ..empty.manifest.clone() },
        audit: Audit { to: AuditTo::File, path, ..empty.audit.clone() },
        journal: Journal { folder: state.clone(), ..empty.journal.clone() },
        search: Search { learned: state.clone(), ..empty.search.clone() },
        approvals: Approvals { folder: state, ..empty.approvals.clone() },
        ..empty
    }
}

fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../fixtures/config/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

#[test]
fn every_mistake_has_its_message() {
    settings().bind(|| {
        insta::glob!("../fixtures/config/invalid", "*.toml", |path| {
            let mut error = Config::load(path, &env).expect_err("a mistake");
            error.file = path.file_name().expect("a file").into();
            let message = error.to_string();
            for secret in ["ghp_", "hunter2", "literal-token", "from-the-environment"] {
                assert!(!message.contains(secret), "{message}");
            }
            insta::assert_snapshot!("invalid", message);
        });
    });
}

#[test]
fn every_valid_file_resolves() {
    settings().bind(|| {
        insta::glob!("../fixtures/config/valid", "*.toml", |path| {
            let text = fs::read_to_string(path).expect("a fixture");
            let config = Config::parse(&text, Path::new("project/forge.toml"), &env);
            let shown = format!("{:#?}", config.unwrap_or_else(|error| panic!("{error}")));
            for secret in ["token-from-the-environment", "query-key-from-the-environment"] {
                assert!(!shown.contains(secret), "{shown}");
            }
            insta::assert_snapshot!("valid", shown);
        });
    });
}

#[test]
fn nothing_in_the_file_is_the_same_as_no_file() {
    let mut config = parse("").expect("an empty file");
    config.path = None;
    assert_eq!(config, nothing());
}

#[test]
fn line_ends_and_a_byte_order_mark_do_not_matter() {
    let text = "[servers.a]\ncommand = \"x\"\n";
    let plain = parse(text).expect("plain");
    assert_eq!(parse(&text.replace('\n', "\r\n")).expect("CRLF"), plain);
    assert_eq!(parse(&format!("\u{feff}{text}")).expect("BOM"), plain);
    let error = parse("\u{feff}[servers.a]\r\ncommand = 1\r\n").expect_err("a number");
    assert_eq!(error.to_string(), "forge.toml:2:11: servers.a.command: expected a string in quotes, found a number");
}

#[test]
fn an_unset_variable_names_key_and_variable() {
    let error = parse("[servers.a]\ncommand = \"x\"\nenv.TOKEN = \"${MISSING}\"\n").expect_err("unset");
    assert_eq!(error.key, "servers.a.env.TOKEN");
    assert!(error.message.contains("`MISSING`"), "{error}");
}

#[test]
fn references_are_expanded_in_the_texts_of_overrides_and_in_the_prefix_of_a_store() {
    let tool = "tools.t = { hide = [\"${V:-labels}\"], annotations = { title = \"${V:-Title}\" } }";
    let store = "[state]\nurl = \"redis://localhost\"\nprefix = \"${V:-mine}\"";
    let config = parse(&format!("[servers.a]\ncommand = \"x\"\n{tool}\n{store}\n")).expect("valid");
    let tool = &config.servers["a"].overrides["t"];
    assert!(tool.hide.contains("labels"), "{tool:?}");
    assert_eq!(tool.annotations["title"], "Title");
    assert_eq!(config.state.expect("a store").prefix, "mine");
}

#[test]
fn a_reference_turns_the_cache_off_as_the_word_does() {
    for (written, cache) in [("off", None), ("${CACHE:-off}", None), ("${CACHE:-lists}", Some("lists"))] {
        let config = parse(&format!("[manifest]\ncache = \"{written}\"\n")).expect("valid");
        assert_eq!(config.manifest.cache.as_deref(), cache.map(Path::new), "{written}");
    }
}

#[test]
fn values_from_the_environment_are_redacted_and_reach_the_transport() {
    let config = parse("[servers.a]\ncommand = \"x\"\nenv.ANYTHING = \"Bearer ${TOKEN}\"\n").expect("valid");
    let Transport::Stdio { env, .. } = &config.servers["a"].transport else { panic!("stdio") };
    let Credential::Given(value) = &env["ANYTHING"] else { panic!("given") };
    assert_eq!(value.expose(), "Bearer token-from-the-environment");
    assert_eq!(secret::redact("it said token-from-the-environment"), "it said [redacted]");
}

#[test]
fn a_reference_means_what_its_value_means() {
    let env = |name: &str| match name {
        "TO" => Some("file".to_owned()),
        "DOCUMENT" => Some("https://api.example.com/openapi.json".to_owned()),
        _ => None,
    };
    let text = |to: &str, document: &str| format!("[audit]\nto = \"{to}\"\n[servers.a]\nopenapi = \"{document}\"\n");
    let parse = |text: &str| Config::parse(text, Path::new("/etc/forge.toml"), &env).expect("valid");
    let (by_reference, plain) =
        (parse(&text("${TO}", "${DOCUMENT}")), parse(&text("file", "https://api.example.com/openapi.json")));
    assert_eq!(by_reference.audit, plain.audit);
    assert_eq!(by_reference.servers["a"].transport, plain.servers["a"].transport);
}

#[test]
fn a_byte_order_mark_hides_no_variable_of_a_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "\u{feff}A=b\n").expect("written");
    let config = Config { env_files: vec![file.path().to_owned()], ..Config::empty() };
    assert_eq!(config.file_variables().get("A").map(String::as_str), Some("b"));
}

#[test]
fn a_disabled_entry_holds_no_secret_values() {
    let config = parse("[servers.a]\nenabled = false\ncommand = \"x\"\nenv.TOKEN = \"${TOKEN}\"\n").expect("valid");
    let server = &config.servers["a"];
    assert!(!server.enabled);
    assert!(matches!(&server.transport, Transport::Stdio { env, .. } if env.is_empty()));
}

#[test]
fn paths_are_relative_to_the_file_and_absolute_after_loading() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("forge.toml");
    fs::write(&path, "[servers.a]\ncommand = \"./x\"\ncwd = \"y\"\n[manifest]\npin = \"stubs\"\n").expect("written");
    let config = Config::load(&path, &env).expect("valid");
    let Transport::Stdio { command, cwd, .. } = &config.servers["a"].transport else { panic!("stdio") };
    assert_eq!(Path::new(command), folder.path().join("./x"));
    assert_eq!(cwd.as_deref(), Some(folder.path().join("y").as_path()));
    assert_eq!(config.manifest.pin, Some(folder.path().join("stubs")));
    assert_eq!(config.path, Some(path));
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let message = |name: &str| {
        let mut error = Config::load(&folder.path().join(name), &env).expect_err("no file");
        error.file = name.into();
        error.to_string()
    };
    assert_eq!(message("missing.toml"), "missing.toml: no such file");
    fs::create_dir(folder.path().join("folder.toml")).expect("made");
    assert_eq!(message("folder.toml"), "folder.toml: this is a directory, not a file");
    fs::write(folder.path().join("long.toml"), " ".repeat((4 << 20) + 1)).expect("written");
    assert_eq!(message("long.toml"), "long.toml: longer than 4MiB: not a configuration");
}

#[test]
fn the_file_is_looked_for_in_order() {
    let root = tempfile::tempdir().expect("a folder");
    let (cwd, xdg, home) = (root.path().join("cwd"), root.path().join("xdg"), root.path().join("home"));
    fs::create_dir_all(&cwd).expect("made");
    for folder in [xdg.join("forgefs"), home.join(".config/forgefs")] {
        fs::create_dir_all(&folder).expect("made");
    }
    let find = |explicit: Option<&str>, variables: &[(&str, &Path)]| {
        let env = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.display().to_string())
        };
        Config::find(explicit.map(Path::new), &env, &cwd).map_err(|error| error.to_string())
    };
    let all = [("XDG_CONFIG_HOME", xdg.as_path()), ("HOME", home.as_path())];

    assert_eq!(find(None, &all), Ok(None));
    fs::write(home.join(".config/forgefs/forge.toml"), "").expect("written");
    assert_eq!(find(None, &all), Ok(None), "XDG_CONFIG_HOME replaces ~/.config");
    assert_eq!(find(None, &all[1..]), Ok(Some(home.join(".config/forgefs/forge.toml"))));
    fs::write(xdg.join("forgefs/forge.toml"), "").expect("written");
    assert_eq!(find(None, &all), Ok(Some(xdg.join("forgefs/forge.toml"))));
    fs::write(cwd.join("forge.toml"), "").expect("written");
    assert_eq!(find(None, &all), Ok(Some(cwd.join("forge.toml"))));

    let other = root.path().join("other.toml");
    let hint = "\n  hint: `forgefs init` writes a first one";
    assert_eq!(
        find(None, &[("FORGEFS_CONFIG", &other)]),
        Err(format!("{}: no such file (named by $FORGEFS_CONFIG){hint}", other.display()))
    );
    fs::write(&other, "").expect("written");
    assert_eq!(find(None, &[("FORGEFS_CONFIG", &other)]), Ok(Some(other.clone())));
    assert_eq!(
        find(Some("none.toml"), &[("FORGEFS_CONFIG", &other)]),
        Err(format!("none.toml: no such file (named by --config){hint}"))
    );
    assert_eq!(find(Some("forge.toml"), &[]), Ok(Some("forge.toml".into())));
}

const EXAMPLE: &str = include_str!("../../forge.toml.example");

/// Uncomments settings: in the example and in the starter file they directly follow their `#`, prose follows a space, and
/// directives to editors a colon.
fn uncommented(text: &str) -> String {
    let prose = |rest: &str| rest.is_empty() || rest.starts_with([' ', ':']);
    text.lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !prose(rest)).unwrap_or(line).to_owned() + "\n")
        .collect()
}

fn anything(name: &str) -> Option<String> {
    Some(if name == "HOME" { "/home/somebody" } else { "dummy-of-16-or-more" }.to_owned())
}

#[test]
fn the_example_is_a_valid_file_that_changes_nothing() {
    let mut config = parse(EXAMPLE).expect("valid");
    config.path = None;
    assert_eq!(config, nothing());
}

#[test]
fn the_example_uncommented_is_valid_and_shows_the_defaults() {
    let config = Config::parse(&uncommented(EXAMPLE), Path::new("forge.toml"), &anything)
        .unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = config.servers.keys().map(String::as_str).collect();
    let well_known = [
        "atlassian", "cloudflare", "figma", "filesystem", "git", "github", "linear", "notion", "playwright", "sentry",
        "stripe", "supabase",
    ];
    assert_eq!(names.iter().filter(|name| !name.starts_with("example")).copied().collect::<Vec<_>>(), well_known);
    assert_eq!(config.sandbox, nothing().sandbox);
    let plain = parse("[servers.a]\ncommand = \"x\"\n").expect("valid");
    let (shown, plain) = (&config.servers["example"], &plain.servers["a"]);
    assert_eq!((shown.timeout, shown.connect_timeout), (plain.timeout, plain.connect_timeout));
    assert_eq!((shown.binding, shown.enabled), (plain.binding, plain.enabled));
    assert_eq!(shown.cost, plain.cost);
}

#[test]
fn the_example_has_every_key_after_a_comment() {
    let tables = [
        "", "servers.x", "servers.x.auth", "servers.x.auth.exchange", "identity", "servers.x.tools.y",
        "servers.x.sandbox", "groups.x", "[flows]", "hooks.x", "sandbox", "sandbox.limits", "budgets", "manifest",
        "audit", "metrics", "telemetry", "redaction",
    ];
    for table in tables {
        let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error = parse(&format!("{header}no-such-key = 1\n")).expect_err("unknown key");
        let keys = error.hint.expect("the valid keys");
        let keys = keys.strip_prefix("valid here: ").expect("no suggestion").split(", ");
        for key in keys {
            let at = [
                format!("#{key} = "),
                format!("#[{key}"),
                format!("#[[{key}"),
                format!("#[sandbox.{key}"),
                format!("#[servers.example.{key}"),
                format!("#[servers.example-login.{key}"),
                format!("#[servers.example-exchange.auth.{key}"),
            ];
            let line = EXAMPLE.lines().position(|line| at.iter().any(|at| line.starts_with(at.as_str())));
            let line = line.unwrap_or_else(|| panic!("{table}.{key} is not in forge.toml.example"));
            let before = EXAMPLE.lines().take(line).filter(|line| !line.is_empty()).last();
            assert!(before.is_some_and(|before| before.starts_with("# ")), "{table}.{key} has no comment");
        }
    }
}

#[test]
fn the_starter_file_is_valid_with_and_without_its_comments() {
    let mut config = parse(init::STARTER).expect("valid");
    config.path = None;
    assert!(config.manifest.pin_first_use);
    config.manifest = nothing().manifest;
    assert_eq!(config, nothing());
    let config = Config::parse(&uncommented(init::STARTER), Path::new("forge.toml"), &anything);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.servers.len(), 2);
    assert_eq!(config.sandbox, nothing().sandbox);
}

#[test]
fn init_never_overwrites_unless_told_to() {
    let fence = Fence::new();
    let path = fence.work().join("new/folder/forge.toml");
    let init = |args: &[&str]| fence.run([&["init", "new/folder/forge.toml"], args].concat());
    init(&[]).success();
    assert_eq!(fs::read_to_string(&path).expect("read"), init::STARTER);
    fs::write(&path, "mine").expect("written");
    let refused = init(&[]);
    assert!(refused.code == Some(2) && refused.stderr.contains("exists already"), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).expect("read"), "mine");
    init(&["--force"]).success();
    assert_eq!(fs::read_to_string(&path).expect("read"), init::STARTER);
    let folder = fence.run(["init", "new/folder", "--force"]);
    assert!(folder.code == Some(2) && folder.stderr.contains("cannot read new/folder: "), "{folder:?}");
}

#[cfg(unix)]
#[test]
fn init_writes_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let fence = Fence::new();
    let path = fence.work().join("forge.toml");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    fence.run(["init"]).success();
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
    fence.run(["init", "--force"]).success();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn deep_and_long_files_end_in_an_answer() {
    for (text, is_valid) in [
        ("a = ".to_owned() + &"[".repeat(100_000), false),
        ("a = ".to_owned() + &"{ a = ".repeat(100_000), false),
        ("a.".repeat(100_000) + "a = 1", false),
        (format!("[{}a]", "a.".repeat(100_000)), false),
        (format!("[servers.{}a]", "a.".repeat(70)), false),
        (format!("[servers.a]\ncommand = \"{}\"", "${A:-x}".repeat(50_000)), true),
        (format!("{} = 1", "k".repeat(1 << 20)), false),
        ((0..20_000).map(|n| format!("[servers.s{n}]\ncommand = \"x\"\n")).collect(), true),
    ] {
        let begin: String = text.chars().take(40).collect();
        match parse(&text) {
            Ok(_) => assert!(is_valid, "{begin} is accepted"),
            Err(error) => {
                assert!(!is_valid, "{begin}: {error}");
                assert!(error.to_string().len() < 64 << 10, "{begin}: an error of {} bytes", error.to_string().len());
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_resolves_or_has_an_error_with_its_place(text in any::<String>()) {
        if let Err(error) = parse(&text) {
            prop_assert!(error.position.is_some() && error.to_string().contains("forge.toml:"), "{error}\n{text}");
        }
    }

    #[test]
    fn any_value_of_any_key_resolves_or_has_an_error(
        key in prop::sample::select(vec![
            "transport", "command", "args", "env", "cwd", "url", "headers", "description", "enabled", "timeout",
            "connect_timeout", "categories", "binding", "rate", "cost", "tools", "other",
        ]),
        name in ".{0,8}",
        value in prop_oneof![
            r#""[ -~&&[^"\\]]{0,20}""#,
            r#""(\$|\{|\}|[A-Z]|:-){0,12}""#,
            r#""[0-9]{0,22}(ms|s|m|h|KiB|GiB)?""#,
            r#"\[("[a-z$\{\}]{0,5}", ){0,3}\]"#,
            r#"\{ [a-zA-Z-]{1,5} = "[a-z ]{0,8}" \}"#,
            "-?[0-9]{1,19}",
            "true|false|1979-05-27|1\\.5|nan|inf",
        ],
    ) {
        let mut table = toml::Table::new();
        table.insert(name.clone(), toml::Value::Table(toml::Table::new()));
        let name = toml::Value::from(name);
        for text in [
            format!("[servers.{name}]\ncommand = \"x\"\n{key} = {value}\n"),
            format!("[servers.{name}]\nurl = \"https://example.com\"\n{key} = {value}\n"),
            format!("[servers.{name}]\n{key} = {value}\n"),
            format!("[sandbox.limits]\n{} = {value}\n", if key.len() % 2 == 0 { "heap" } else { "calls" }),
        ] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.position.is_some(), "{error}\n{text}");
            }
        }
    }
}

#[test]
fn the_host_of_a_server_is_taken_out_of_errors_on_either_transport_over_http() {
    for transport in ["http", "sse"] {
        let host = format!("gateway-of-{transport}");
        parse(&format!("[servers.a]\ntransport = \"{transport}\"\nurl = \"https://{host}/mcp\"\n")).expect("valid");
        let error = redact::text(Surface::Error, &format!("no route to {host}:443")).into_owned();
        assert_eq!(error, "no route to [redacted:host]:443", "{transport}");
    }
}
