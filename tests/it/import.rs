//! `forgefs init --import`: other hosts' files, as in their documentation.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Fence, Output, finish, up};
use crate::real::{Real, path};

const TOKEN: &str = "ghp_from_the_environment";

/// Copies a case into the fence; `@WORK@` stands for the working directory.
fn copy(from: &Path, to: &Path, work: &str) {
    for entry in fs::read_dir(from).expect("a folder of the case").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target, work);
        } else {
            let text = fs::read_to_string(entry.path()).expect("a file of the case");
            fs::write(target, text.replace("@WORK@", work)).expect("written");
        }
    }
}

fn fence_of(case: &str) -> Fence {
    let fence = Fence::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/cases").join(case);
    let work = fence.work();
    copy(&from, work.parent().expect("the fence around it"), path(&work));
    fence
}

fn init(fence: &Fence, args: &[&str]) -> Output {
    let args = [&["init"], args].concat();
    finish(fence.forgefs(args).env("GITHUB_TOKEN", TOKEN), "")
}

fn written(fence: &Fence) -> String {
    fs::read_to_string(fence.work().join("forge.toml")).unwrap_or_else(|error| error.to_string())
}

#[test]
fn every_host_is_imported_as_documented() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../fixtures/import/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/cases");
    for case in fs::read_dir(cases).expect("the cases") {
        let case = case.expect("a case").file_name().into_string().expect("a plain name");
        let fence = fence_of(&case);
        let output = init(&fence, &["--import", "--inline-secrets"]);
        let root = fence.work().parent().expect("the fence around it").to_owned();
        let shown = format!("exit {:?}\n{}\n--- forge.toml\n{}", output.code, output.stderr, written(&fence));
        let shown = shown.replace(path(&root), "[ROOT]");
        assert!(!output.stderr.contains("literal-"), "the report repeats a credential: {}", output.stderr);
        settings.bind(|| insta::assert_snapshot!(case.clone(), shown));
        let loaded = finish(fence.forgefs(["ls"]).env("GITHUB_TOKEN", TOKEN).env("PATH", "/nowhere"), "");
        assert_eq!(loaded.code, Some(0), "{case} does not load: {}", loaded.stderr);
    }
}

/// By default credentials go into a private file of variables, and the servers work as with them in place.
#[test]
fn the_credentials_of_every_host_become_references_to_a_private_file() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/cases");
    let mut kept = 0;
    for case in fs::read_dir(cases).expect("the cases") {
        let case = case.expect("a case").file_name().into_string().expect("a plain name");
        let (inline, fence) = (fence_of(&case), fence_of(&case));
        init(&inline, &["--import", "--inline-secrets"]);
        let output = init(&fence, &["--import"]);
        let (plain, text) = (written(&inline), written(&fence));
        assert!(!text.contains("is a credential in plain text"), "{case}: {text}");
        if !plain.contains("is a credential in plain text") {
            assert!(!fence.work().join("forge.env").exists(), "{case}");
            continue;
        }
        kept += 1;
        let file = fence.work().join("forge.env");
        let variables = fs::read_to_string(&file).expect("a file of variables");
        #[cfg(unix)]
        assert_eq!(mode(&file), 0o600);
        assert!(output.stderr.contains("readable by its owner only"), "{case}: {}", output.stderr);
        for line in variables.lines() {
            let (name, value) = line.split_once('=').expect("a variable");
            let value = value.trim_matches('"');
            assert!(text.contains(&format!("${{{name}}}")), "{case}: {name} in {text}");
            assert!(!text.contains(value) && plain.contains(value), "{case}: {value} in {text}");
        }
        // Both read the same.
        let named = |list: &Value| -> Vec<[Value; 3]> {
            let of = |server: &Value| ["name", "enabled", "transport"].map(|key| server[key].clone());
            list["servers"].as_array().expect("servers").iter().map(of).collect()
        };
        let servers = |fence: &Fence| finish(fence.forgefs(["list", "--json"]).env("GITHUB_TOKEN", TOKEN), "").object();
        assert_eq!(named(&servers(&fence)), named(&servers(&inline)), "{case}");
    }
    assert!(kept > 2, "{kept}");
}

#[test]
fn each_value_has_a_variable_of_its_own_and_is_read_back_as_it_was() {
    let odd = "p\"a$s`s\\n #\u{e9}-5f3a9c1e7b2d4860";
    let server = |token: &str, url: &str| json!({"command": url, "args": ["--verbose"], "env": {"API_TOKEN": token, "LEVEL": "info", "TAKEN_TOKEN": "theirs-a8c1e7b2d486"}});
    let servers = json!({"one": server("first-5f3a9c1e7b2d4860", "a"), "two": server("second-9b2d48605f3a9c1e", "b"), "odd": server(odd, "c")});
    let fence = Fence::new();
    fence.write("servers.json", &json!({"mcpServers": servers}).to_string());
    let set = |args: &[&str]| finish(fence.forgefs([&["init"], args].concat()).env("TAKEN_TOKEN", "mine"), "");
    set(&["--import", "servers.json"]).success();
    let text = written(&fence);
    assert!(text.contains("env_files = [\"forge.env\"]"), "{text}");
    for secret in ["first-5f3a", "second-9b2d", "theirs-a8c1", "p\\\"a"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(!text.contains("${TAKEN_TOKEN}"), "the environment has another value: {text}");
    // What a server gets is what its host gave it.
    let shown = "import json, os, sys\nopen(sys.argv[1], 'w').write(json.dumps(dict(os.environ)))\n";
    let script = fence.write("shown.py", shown);
    let mut got = Vec::new();
    for (name, program) in [("one", "a"), ("two", "b"), ("odd", "c")] {
        let out = fence.work().join(format!("{name}.json"));
        let command = format!("command = \"python3\"\nargs = [{:?}, {:?}]", path(&script), path(&out));
        let own = text.replace(&format!("command = \"{program}\"\nargs = [\"--verbose\"]"), &command);
        fence.write("forge.toml", &own);
        finish(fence.forgefs(["doctor"]).env("TAKEN_TOKEN", "mine"), "");
        let Ok(variables) = fs::read_to_string(&out) else { return };
        let variables: Value = serde_json::from_str(&variables).expect("JSON");
        got.push((variables["API_TOKEN"].clone(), variables["TAKEN_TOKEN"].clone()));
    }
    let theirs = json!("theirs-a8c1e7b2d486");
    let wanted = ["first-5f3a9c1e7b2d4860", "second-9b2d48605f3a9c1e", odd].map(|token| (json!(token), theirs.clone()));
    assert_eq!(got, wanted);
    // A second import knows them again, and adds to the same file.
    fence.write("forge.toml", &text);
    let more = json!({"one": server("first-5f3a9c1e7b2d4860", "a"), "new": server("third-48605f3a9c1e9b2d", "d")});
    fence.write("servers.json", &json!({"mcpServers": more}).to_string());
    let output = set(&["--import", "servers.json", "--append"]).success();
    assert!(output.stderr.contains("one in this file is the same server"), "{}", output.stderr);
    let after = written(&fence);
    assert!(after.starts_with(&text) && after.contains("[servers.new]"), "{after}");
    let variables = fs::read_to_string(fence.work().join("forge.env")).expect("variables");
    assert!(variables.contains("third-48605f3a9c1e9b2d") && variables.contains("first-5f3a"), "{variables}");
    finish(fence.forgefs(["ls"]).env("PATH", "/nowhere"), "").success();
}

/// A host's reference means a variable of the environment, not the credential that another server has under that name.
#[test]
fn no_reference_gets_the_credential_of_another_server() {
    let cur = json!({"mcpServers": {"cur": {"command": "s", "env": {"TOKEN": "cursor-secret-0123456789abcdef"}}}});
    let code = json!({"servers": {
        "b": {"command": "b", "env": {"T": "${input:token}"}},
        "c": {"command": "c", "env": {"WHO": "${env:TOKEN}", "OTHER": "${OTHER:-none}"}},
    }});
    let codex = "[mcp_servers.d]\ncommand = 'd'\nenv_vars = ['TOKEN']\n\
                 [mcp_servers.e]\nurl = 'https://e.test/mcp'\nbearer_token_env_var = 'TOKEN'\n";
    let files = [
        ("../home/.cursor/mcp.json", cur.to_string()),
        ("../home/.config/Code/User/mcp.json", code.to_string()),
        ("../home/.codex/config.toml", codex.to_owned()),
    ];
    // All at once, and one file after the other in both orders.
    let orders: [&[&[usize]]; 3] = [&[&[0, 1, 2]], &[&[0], &[1], &[2]], &[&[2], &[1], &[0]]];
    for order in orders {
        let fence = Fence::new();
        for step in order {
            let written = step.iter().map(|index| fence.write(files[*index].0, &files[*index].1));
            let written: Vec<_> = written.collect();
            let named = written.iter().map(path);
            let append = fence.work().join("forge.toml").exists().then_some("--append");
            let args: Vec<&str> = append.into_iter().chain(["--import"]).chain(named).collect();
            finish(fence.forgefs([&["init"], &args[..]].concat()).env("OTHER", "mine"), "").success();
        }
        let (text, kept) = (written(&fence), fs::read_to_string(fence.work().join("forge.env")).expect("variables"));
        assert_eq!(kept.lines().count(), 1, "{kept}");
        let (name, _) = kept.split_once('=').expect("a variable");
        let servers: toml::Table = toml::from_str(&text).expect("TOML");
        for (server, table) in servers["servers"].as_table().expect("servers") {
            let is_on = table.get("enabled").is_none();
            let refers = table.to_string().contains(&format!("${{{name}}}"));
            assert!(server == "cur" || !(refers && is_on), "{order:?}: {server} gets {name}: {text}");
            assert_eq!(is_on, ["cur", "d"].contains(&server.as_str()), "{order:?}: {server}: {text}");
        }
        // What is written already keeps its name.
        let is_first = order[0].len() == 1 && order[0][0] == 0;
        assert_eq!(name, if is_first { "TOKEN" } else { "CUR_TOKEN" }, "{order:?}: {kept}");
    }
}

#[test]
fn references_of_opencode_are_translated_if_their_variables_are_set() {
    for (value, written) in [
        ("Bearer {env:GITHUB_TOKEN}", Some("headers.X = \"Bearer ${GITHUB_TOKEN}\"")),
        ("{env:GITHUB_TOKEN}-{env:UNSET}", None),
        ("{env:GITHUB_TOKEN} ${literal}", None),
        ("{file:~/key}", None),
    ] {
        let fence = Fence::new();
        let server = json!({"type": "remote", "url": "https://x.test/mcp", "headers": {"X": value}});
        fence.write("../home/.config/opencode/opencode.json", &json!({"mcp": {"one": server}}).to_string());
        let output = init(&fence, &["--import"]);
        match written {
            Some(line) => assert!(self::written(&fence).contains(line), "{value}: {}", self::written(&fence)),
            None => assert!(output.stderr.contains("write it with ${NAME}"), "{value}: {}", output.stderr),
        }
    }
}

#[test]
fn what_an_editor_asks_for_is_no_variable_that_is_there_for_another_purpose() {
    let fence = Fence::new();
    let env = json!({"ROOT": "${input:path}", "AS": "${input:user}", "IN": "${input:tz}", "AT": "${input:stage}"});
    let inputs = json!([{"type": "promptString", "id": "tz", "default": "Europe/Berlin"}]);
    let servers = json!({"inputs": inputs, "servers": {"files": {"command": "s", "env": env}}});
    fence.write("../home/.config/Code/User/mcp.json", &servers.to_string());
    let output = finish(fence.forgefs(["init", "--import"]).env("STAGE", "mine").env("USER", "me"), "").success();
    let text = written(&fence);
    for line in [
        "env.ROOT = \"${FILES_PATH}\"",
        "env.AS = \"${FILES_USER}\"",
        "env.IN = \"${FILES_TZ:-Europe/Berlin}\"",
        "env.AT = \"${FILES_STAGE}\"",
        "enabled = false",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(output.stderr.contains("FILES_PATH stands for the editor's input `path`"), "{}", output.stderr);
}

#[test]
fn an_existing_file_is_kept_unless_it_is_asked_for() {
    let fence = fence_of("windsurf");
    let mine = "# mine\n[servers.figma]\ncommand = \"x\"\nenabled = false\n";
    fence.write("forge.toml", mine);
    let refused = init(&fence, &["--import"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--force") && refused.stderr.contains("--append"), "{}", refused.stderr);
    assert_eq!(written(&fence), mine);
    init(&fence, &["--import", "--append"]).success();
    let both = written(&fence);
    assert!(both.starts_with(mine) && both.contains("[servers.figma-2]"), "{both}");
    init(&fence, &["--import", "--force"]).success();
    assert!(!written(&fence).contains("# mine"));
    assert_eq!(init(&fence, &["--append"]).code, Some(2), "nothing to append without --import");
}

#[test]
fn credentials_can_be_left_out_and_the_file_is_private_anyway() {
    let fence = fence_of("claude_desktop");
    let output = init(&fence, &["--import", "--no-secrets"]).success();
    let text = written(&fence);
    for secret in ["BSA-literal-key", "literal-bearer", TOKEN] {
        assert!(!text.contains(secret), "{text}");
    }
    for reference in ["${BRAVE_API_KEY}", "${GITHUB_TOKEN}", "Bearer ${REMOTE_TOKEN}"] {
        assert!(text.contains(reference), "{reference}: {text}");
    }
    assert!(output.stderr.contains("export BRAVE_API_KEY"), "{}", output.stderr);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(fence.work().join("forge.toml")).expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn named_files_are_read_and_must_be_there() {
    let fence = fence_of("codex");
    let other = fence.write("elsewhere/servers.json", r#"{"mcpServers": {"time": {"command": "uvx"}}}"#);
    init(&fence, &["out.toml", "--import", path(&other)]).success();
    let text = fs::read_to_string(fence.work().join("out.toml")).expect("written");
    assert!(text.contains("[servers.time]") && !text.contains("context7"), "{text}");
    let missing = init(&fence, &["--import", "missing.json"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("missing.json: no such file"), "{}", missing.stderr);
}

/// As mcp-remote documents it, for hosts that cut arguments at spaces.
#[test]
fn a_variable_of_the_servers_own_is_left_to_the_program() {
    let server = json!({"mcpServers": {"linear": {
        "command": "npx", "args": ["mcp-remote", "https://mcp.example.com/sse", "--header", "Authorization:${AUTH_HEADER}"],
        "env": {"AUTH_HEADER": "Bearer lin_api_0123456789abcdef0123"},
    }}});
    for file in [".cursor/mcp.json", ".mcp.json", "../home/.config/Claude/claude_desktop_config.json"] {
        let fence = Fence::new();
        fence.write(file, &server.to_string());
        let output = init(&fence, &["--import"]).success();
        let text = written(&fence);
        assert!(text.contains("Authorization:$${AUTH_HEADER}") && !text.contains("enabled = false"), "{file}: {text}");
        assert!(!text.contains("lin_api_") && !output.stderr.contains("lin_api_"), "{file}: {text}");
        assert_eq!(text.matches("AUTH_HEADER}").count(), 2, "its value is kept: {file}: {text}");
    }
}

#[test]
fn where_there_is_nothing_nothing_is_written() {
    let fence = Fence::new();
    let output = init(&fence, &["--import"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("looked at") && output.stderr.contains("~/.cursor/mcp.json"), "{}", output.stderr);
    assert!(!fence.work().join("forge.toml").exists());
}

#[test]
fn an_imported_server_works() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let server = serde_json::json!({"mcpServers": {"memory": {
        "type": "stdio", "command": real.npm("memory"),
        "env": {"MEMORY_FILE_PATH": "${MEMORY_FILE:-/tmp/never-written.json}"},
    }}});
    fence.write(".mcp.json", &server.to_string());
    init(&fence, &["--import"]).success();
    let listing = fence.run(["ls", "/"]).success().stdout;
    assert!(regex::Regex::new(&up("memory")).expect("a pattern").is_match(&listing), "{listing}");
}

/// Spellings of a text: plain, in JSON, URLs and base64.
fn spellings(secret: &str) -> Vec<String> {
    let json = Value::from(secret).to_string().trim_matches('"').to_owned();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    vec![secret.to_owned(), json, form.replace('+', "%20"), form]
}

#[test]
fn no_planted_credential_is_left_in_any_spelling() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/secrets.json");
    let corpus: Vec<Value> = serde_json::from_str(&fs::read_to_string(corpus).expect("the corpus")).expect("JSON");
    let mut left = Vec::new();
    for case in &corpus {
        // Each alone, so that none is found through another.
        let fence = Fence::new();
        fence.write("servers.json", &json!({"mcpServers": {"one": case["server"]}}).to_string());
        let output = init(&fence, &["--import", "servers.json", "--no-secrets"]).success();
        let text = written(&fence);
        let about = case["about"].as_str().expect("a text");
        for secret in case["secrets"].as_array().expect("a list") {
            for spelling in spellings(secret.as_str().expect("a text")) {
                if text.contains(&spelling) || output.stderr.contains(&spelling) {
                    left.push(format!("{about}: {spelling}\n{text}\n{}", output.stderr));
                }
            }
        }
        for kept in case["keeps"].as_array().expect("a list") {
            let kept = kept.as_str().expect("a text");
            if !text.contains(kept) && !text.replace("\\\"", "\"").contains(kept) {
                left.push(format!("{about}: lost {kept}\n{text}"));
            }
        }
        if case["secrets"].as_array().is_some_and(|secrets| !secrets.is_empty() && !text.contains("Export ")) {
            left.push(format!("{about}: nothing is to be exported\n{text}"));
        }
        let loaded = finish(fence.forgefs(["ls"]).env("PATH", "/nowhere"), "");
        if loaded.code != Some(0) {
            left.push(format!("{about}: does not load: {}\n{text}", loaded.stderr));
        }
    }
    assert!(left.is_empty(), "{} of {} cases:\n{}", left.len(), corpus.len(), left.join("\n----\n"));
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[cfg(unix)]
#[test]
fn a_file_that_is_added_to_becomes_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let fence = Fence::new();
    fence.write("servers.json", r#"{"mcpServers": {"a": {"command": "s", "args": ["no-word-of-a-credential"]}}}"#);
    let file = fence.write("forge.toml", "# mine\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    init(&fence, &["--import", "servers.json", "--append"]).success();
    assert_eq!(mode(&file), 0o600);
}

/// The import of `repository` and `user` files, in a project.
fn imported(repository: &Value, user: &Value, args: &[&str], existing: Option<&str>) -> (String, String) {
    let fence = Fence::new();
    fence.write(".git/HEAD", "");
    fence.write(".mcp.json", &json!({"mcpServers": repository}).to_string());
    fence.write("../home/.cursor/mcp.json", &json!({"mcpServers": user}).to_string());
    if let Some(existing) = existing {
        fence.write("forge.toml", existing);
    }
    let output = init(&fence, &[&["--import"], args].concat());
    (written(&fence), output.stderr)
}

#[test]
fn the_rules_of_the_user_hold_whatever_a_repository_says() {
    let same = |more: Value| {
        let mut server = json!({"command": "github-server", "args": ["stdio"]});
        server.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server
    };
    let deny = |tools: Value| same(json!({"disabledTools": tools}));
    // Files of the repository and the user, required text, and forbidden text.
    let cases = [
        ("deny", same(json!({})), deny(json!(["delete_repo"])), vec!["deny = [\"delete_repo\"]"], vec!["servers.gh-2"]),
        ("more", deny(json!(["a"])), deny(json!(["b"])), vec!["\"a\"", "\"b\""], vec!["servers.gh-2"]),
        ("off", same(json!({})), same(json!({"disabled": true})), vec!["enabled = false"], vec!["servers.gh-2"]),
        ("on", same(json!({"disabled": false})), same(json!({"enabled": false})), vec!["enabled = false"], vec![]),
        (
            "allow",
            same(json!({"enabled_tools": ["read", "delete_repo"]})),
            same(json!({"enabled_tools": ["read"]})),
            vec!["allow = [\"read\"]"],
            vec!["delete_repo"],
        ),
        (
            "another program",
            json!({"command": "evil", "args": ["stdio"]}),
            deny(json!(["delete_repo"])),
            vec!["[servers.gh]\ncommand = \"github-server\"", "[servers.gh-2]\nenabled = false\ncommand = \"evil\""],
            vec!["[servers.gh]\ncommand = \"evil\""],
        ),
        (
            "another address",
            json!({"url": "https://evil.example.com/mcp"}),
            json!({"url": "https://good.example.com/mcp"}),
            vec!["[servers.gh]\nurl = \"https://good", "[servers.gh-2]\nenabled = false\nurl = \"https://evil"],
            vec![],
        ),
        (
            "the same with another environment",
            same(json!({"env": {"NODE_OPTIONS": "--require=./evil.js"}})),
            deny(json!(["delete_repo"])),
            vec!["deny = [\"delete_repo\"]", "[servers.gh-2]\nenabled = false"],
            vec![],
        ),
    ];
    for (about, repository, user, there, not) in cases {
        let (text, report) = imported(&json!({"gh": repository}), &json!({"gh": user}), &[], None);
        there.iter().for_each(|part| assert!(text.contains(part), "{about}: no {part} in\n{text}\n{report}"));
        not.iter().for_each(|part| assert!(!text.contains(part), "{about}: {part} in\n{text}\n{report}"));
    }
    // The rules of the existing file hold too.
    let existing = "[servers.gh]\ncommand = \"github-server\"\nargs = [\"stdio\"]\ndeny = [\"delete_repo\"]\n";
    let (text, report) = imported(&json!({"other": same(json!({}))}), &json!({}), &["--append"], Some(existing));
    assert_eq!(text, existing, "{report}");
    assert!(report.contains("gh in this file is the same server"), "{report}");
    let (text, report) = imported(&json!({"GH": {"command": "evil"}}), &json!({}), &["--append"], Some(existing));
    assert!(text.contains("[servers.GH-2]\nenabled = false\ncommand = \"evil\""), "{text}\n{report}");
}

#[cfg(unix)]
#[test]
fn whatever_lies_where_hosts_keep_their_servers_the_import_ends() {
    let fence = Fence::new();
    fence.write(".git/HEAD", "");
    let outside = fence.write("../home/other/servers.json", r#"{"mcpServers": {"linked": {"command": "s"}}}"#);
    let fifo = fence.work().join("fifo.json");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    fs::create_dir(fence.work().join("folder.json")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", fence.work().join("zero.json")).expect("a link");
    std::os::unix::fs::symlink("loop.json", fence.work().join("loop.json")).expect("a link");
    let nested = format!("{{\"mcpServers\": {}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    fence.write("nested.json", &nested);
    fence.write("nested.toml", &format!("x = {}1{}", "[".repeat(200_000), "]".repeat(200_000)));
    fence.write(".vscode/mcp.json", &format!("{{\"servers\": {{}}, \"x\": \"{}\"}}", "x".repeat(1 << 20)));
    fence.write("binary.json", "\u{0}\u{1}\u{2}");
    let many: serde_json::Map<_, _> = (0..1001).map(|n| (format!("s{n}"), json!({"command": "s"}))).collect();
    fence.write("many.json", &json!({"mcpServers": many}).to_string());
    let huge = fs::File::create(fence.work().join("huge.json")).expect("a file");
    huge.set_len(1 << 40).expect("a hole");
    for (file, says) in [
        ("fifo.json", "it is a FIFO, not a regular file"),
        ("zero.json", "it is a device, not a regular file"),
        ("folder.json", "it is a folder, not a file"),
        ("loop.json", "levels of symbolic links"),
        ("nested.json", "nesting depth"),
        ("nested.toml", "not read: nested.toml"),
        ("huge.json", "1099511627776 bytes, over the limit of"),
        (".vscode/mcp.json", "over the limit of 1048576 bytes"),
        ("binary.json", "not read: binary.json"),
        ("many.json", "1001 servers, over the limit of 1000 servers a file"),
        ("missing.json", "no such file"),
    ] {
        let begun = std::time::Instant::now();
        let output = init(&fence, &["out.toml", "--import", file]);
        assert_eq!(output.code, Some(2), "{file}: {}", output.stderr);
        let shown = output.stderr.replace(path(&fence.work()), "").replace("not read: /", "not read: ");
        assert!(shown.contains(says), "{file}: {}", output.stderr);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{file}: {:?}", begun.elapsed());
    }
    // Searched, not named: the rest is imported, and the target of a link is reported.
    fs::remove_file(fence.work().join(".vscode/mcp.json")).expect("it was there");
    fs::rename(&fifo, fence.work().join(".vscode/mcp.json")).expect("the FIFO moves");
    std::os::unix::fs::symlink(&outside, fence.work().join(".mcp.json")).expect("a link");
    let output = init(&fence, &["--import"]).success();
    assert!(output.stderr.contains("it is a FIFO"), "{}", output.stderr);
    assert!(
        output.stderr.contains("a link to ") && output.stderr.contains("outside of its folder"),
        "{}",
        output.stderr
    );
    assert!(written(&fence).contains("[servers.linked]"));
    // The target file is checked too.
    let target = fence.work().join("target.toml");
    nix::unistd::mkfifo(&target, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for args in [
        &["target.toml", "--force"][..],
        &["target.toml", "--import", ".mcp.json", "--append"],
        &["/dev/full", "--force"],
    ] {
        let output = init(&fence, args);
        assert_eq!(output.code, Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains("not a regular file"), "{args:?}: {}", output.stderr);
    }
}
