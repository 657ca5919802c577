//! Skills: a folder of `SKILL.md` files, and scripts that are tools, listed, found, read, and served by MCP's extension.

use std::fs;
use std::time::{Duration, Instant};

use base64::Engine as _;
use rmcp::model::{
    GetSkillRequestParams, ReadResourceRequestParams, ResourceContents, ServerCapabilities, SkillResources,
};
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};

/// The configuration of these tests.
const CONFIG: &str = "[skills]\npath = \"skills/\"\n";
/// A skill with a file beside it.
const REFUND: &str = "---\nname: refund-order\ndescription: >\n  Refunds a failed order\n  by the rules of the shop.\nlicense: MIT\nservers: \
                      [shop, billing]\nmetadata:\n  version: \"2.0\"\n  reviewed: true\n---\n\n# Refund\n\nSee \
                      references/rules.md, then call shop.refund_order about the zebra clause.\n";

fn catalog(tools: &Value) -> String {
    json!({ "shop": { "tools": tools } }).to_string()
}

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description,
           "inputSchema": {"type": "object", "properties": {"country": {"type": "string"}}, "required": ["country"]}})
}

/// A fence with the skill and a server `shop`, but no `billing`.
fn prepared() -> (Fence, std::path::PathBuf) {
    let fence = Fence::new();
    fence.write("skills/refund-order/SKILL.md", REFUND);
    fence.write("skills/refund-order/references/rules.md", "Only within 30 days.\n");
    fs::write(fence.work().join("skills/refund-order/logo.png"), [0x89, b'P', 0, 0xff]).expect("a file");
    let file = fence.write("shop.json", &catalog(&json!([tool("refund_order", "Refunds one order.")])));
    (fence, file)
}

async fn connected(fence: &Fence, era: Era, config: &str, file: &std::path::Path) -> Session {
    let config = fence.write("forge.toml", config);
    let words = ["--config".as_ref(), config.as_os_str(), "--catalog".as_ref(), file.as_os_str(), "serve".as_ref()];
    fence.connect(era, fence.forgefs(words)).await
}

fn capabilities(session: &Session) -> ServerCapabilities {
    session.peer().peer_info().expect("it said who it is").capabilities.clone()
}

async fn content(session: &Session, uri: &str) -> Result<Vec<u8>, String> {
    let read = session.peer().read_resource(ReadResourceRequestParams::new(uri)).await;
    let result = read.map_err(|error| error.to_string())?;
    Ok(match &result.contents[..] {
        [ResourceContents::TextResourceContents { text, .. }] => text.clone().into_bytes(),
        [ResourceContents::BlobResourceContents { blob, .. }] => {
            base64::engine::general_purpose::STANDARD.decode(blob).expect("base64")
        }
        other => panic!("one content: {other:?}"),
    })
}

#[tokio::test]
async fn a_skill_is_listed_found_and_read() {
    let (fence, file) = prepared();
    let session = connected(&fence, Era::Modern, CONFIG, &file).await;
    // Tool, arguments, parts of the answer.
    for (tool, arguments, parts) in [
        ("ls", json!({}), vec!["\nskills/  1 skill; SKILL.md in each says how"]),
        (
            "ls",
            json!({"path": "/skills"}),
            vec![
                "refund-order/  Refunds a failed order by the rules of the shop.  needs shop, billing",
                "missing servers: billing",
            ],
        ),
        (
            "ls",
            json!({"path": "/skills/Refund-Order"}),
            vec!["/skills/refund-order/  Refunds", "\nSKILL.md\nlogo.png  4 bytes, no text\nreferences/rules.md"],
        ),
        ("cat", json!({"path": "/skills/refund-order/SKILL.md"}), vec!["license: MIT", "the zebra clause"]),
        ("cat", json!({"path": "skills/refund-order/references/RULES.md"}), vec!["Only within 30 days."]),
        ("cat", json!({"path": "/skills/*/references/*.md"}), vec!["Only within 30 days."]),
        (
            "cat",
            json!({"path": "/skills/refund-order/logo.png"}),
            vec!["4 bytes that are no text", "skill://refund-order/logo.png"],
        ),
        (
            "search",
            json!({"query": "refund a failed order"}),
            vec!["/skills/refund-order/SKILL.md  skill  Refunds a failed", "/shop/refund_order.pyi"],
        ),
        ("search", json!({"query": "zebra clause"}), vec!["/skills/refund-order/SKILL.md  skill"]),
        ("search", json!({"query": "refund", "path": "/skills"}), vec!["/skills/refund-order/SKILL.md  skill"]),
    ] {
        let answer = session.call(tool, arguments.clone()).await;
        assert!(!answer.is_error, "{tool} {arguments}: {}", answer.text);
        for part in parts {
            assert!(answer.text.contains(part), "{tool} {arguments} has no {part:?}:\n{}", answer.text);
        }
    }
    for (path, part) in [
        ("/skills/refund", "did you mean"),
        ("/skills/refund-order/rules.md", "references/rules.md"),
        ("/skills/refund-order", "is a folder"),
        ("/skills/../../etc/passwd", "there is no"),
    ] {
        let answer = session.call("cat", json!({"path": path})).await;
        assert!(answer.is_error && answer.text.contains(part), "{path}: {}", answer.text);
    }
    session.close().await;
    let config = fence.work().join("forge.toml");
    let words = |rest: [&'static str; 3]| {
        [vec!["--config".into(), config.clone().into_os_string()], rest.map(Into::into).to_vec()].concat()
    };
    let listed = fence.run(words(["ls", "--json", "/skills"])).success().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["entries"][0]["name"], "refund-order", "{listed}");
    assert_eq!(listed["entries"][0]["servers"], json!(["shop", "billing"]), "{listed}");
}

#[tokio::test]
async fn a_client_of_the_extension_lists_and_verifies_skills() {
    let (fence, file) = prepared();
    for era in [Era::Modern, Era::Legacy] {
        let session = connected(&fence, era, CONFIG, &file).await;
        assert!(capabilities(&session).supports_skills());
        let listed = session.peer().list_skills(None).await.expect("skills/list is answered");
        let [skill] = &listed.skills[..] else { panic!("one skill: {listed:?}") };
        assert_eq!(skill.uri, "skill://refund-order/SKILL.md");
        let extra = json!(skill.frontmatter.extra);
        assert_eq!(
            (skill.frontmatter.description.as_str(), extra),
            (
                "Refunds a failed order by the rules of the shop.\n",
                json!({"license": "MIT", "servers": ["shop", "billing"], "metadata": {"version": "2.0", "reviewed": true}})
            )
        );
        let SkillResources::Files(files) = &skill.resources else { panic!("files: {skill:?}") };
        assert_eq!(files.len(), 3, "{files:?}");
        for file in files {
            let bytes = content(&session, &file.uri).await.expect("it can be read");
            file.verify(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.uri));
        }
        let got = session.peer().get_skill(GetSkillRequestParams::new(skill.uri.clone())).await.expect("skills/get");
        assert_eq!(got.skill, *skill);
        let resources = session.peer().list_all_resources().await.expect("resources/list");
        let main = resources.iter().find(|resource| resource.uri == skill.uri).expect("its SKILL.md is a resource");
        assert_eq!((main.name.as_str(), main.mime_type.as_deref()), ("refund-order", Some("text/markdown")));
        for uri in
            ["skill://other/SKILL.md", "skill://refund-order/references/rules.md", "skill://refund-order/../SKILL.md"]
        {
            let error = session.peer().get_skill(GetSkillRequestParams::new(uri)).await.expect_err("no such skill");
            assert!(error.to_string().contains("-32602"), "{uri}: {error}");
        }
        assert!(content(&session, "skill://refund-order/none.md").await.is_err());
        session.close().await;
    }
}

#[tokio::test]
async fn a_gateway_without_skills_says_nothing_of_them() {
    let (fence, file) = prepared();
    let session = connected(&fence, Era::Modern, "", &file).await;
    assert!(!capabilities(&session).supports_skills());
    let listing = session.call("ls", json!({})).await.text;
    assert!(!listing.contains("skills"), "{listing}");
    let answer = session.call("cat", json!({"path": "/skills/refund-order/SKILL.md"})).await;
    assert!(answer.is_error && content(&session, "skill://refund-order/SKILL.md").await.is_err(), "{}", answer.text);
    session.close().await;
}

#[tokio::test]
async fn what_is_wrong_with_one_skill_leaves_the_others() {
    let (fence, file) = prepared();
    let head = |name: &str, more: &str| format!("---\nname: {name}\ndescription: Does it.\n{more}---\nText\n");
    let (wide, deep) = ("x".repeat(1_025), format!("a: {}1{}\n", "[".repeat(20), "]".repeat(20)));
    let laughs: String = (0..9).map(|n| format!("l{}: &l{} [*l{n}, *l{n}]\n", n + 1, n + 1)).collect();
    // Folder, text of its SKILL.md, part of the reason.
    let cases = [
        ("no-front", "# Just text\n".to_owned(), "it has no front matter"),
        ("no-end", format!("---\nname: no-end\n{}", "a\n".repeat(10)), "has no end"),
        ("huge", format!("---\nname: huge\n{}", "# long\n".repeat(10_000)), "over the limit of 16384 bytes"),
        ("no-name", "---\ndescription: Does it.\n---\n".to_owned(), "has no `name`"),
        ("no-text", "---\nname: no-text\n---\n".to_owned(), "has no `description`"),
        ("other", head("another", ""), "names it `another`"),
        ("Upper", head("Upper", ""), "its name is not valid"),
        ("number", "---\nname: number\ndescription: 7\n---\n".to_owned(), "is no text"),
        ("wide", format!("---\nname: wide\ndescription: {wide}\n---\n"), "over the limit of 1024"),
        ("twice", head("twice", "name: twice\n"), "has the key `name` twice"),
        ("bidi", head("bidi", "note: a\u{202e}b\n"), "invisible character \\u{202e}"),
        ("escape", head("escape", "note: a\u{1b}[2Jb\n"), "invisible character \\u{1b}"),
        ("alias", head("alias", "a: &a 1\nb: *a\n"), "has an alias"),
        ("laughs", head("laughs", &format!("l0: &l0 lol\n{laughs}")), "has an alias"),
        ("tag", head("tag", "a: !!binary aGk=\n"), "has a tag"),
        ("deep", head("deep", &deep), "more than 8 levels"),
        ("broken", head("broken", "a: [1, 2\n"), "is no YAML"),
        ("servers", head("servers", "servers: {a: 1}\n"), "no list of names"),
        ("keys", head("keys", "? [a]\n: 1\n"), "a key that is no text"),
        ("infinite", head("infinite", "a: 1e999\n"), "out of range"),
    ];
    for (folder, text, _) in &cases {
        fence.write(format!("skills/{folder}/SKILL.md"), text);
    }
    fence.write("skills/empty/notes.md", "no SKILL.md");
    fence.write("skills/bytes/SKILL.md", "");
    fs::write(fence.work().join("skills/bytes/SKILL.md"), [b'-', 0xff]).expect("a file");
    fence.write("skills/README.md", "not a skill");
    fence.write("skills/refund-order/my notes.md", "a name that a URI cannot have");
    fence.write("skills/refund-order/large.txt", &"x".repeat((1 << 20) + 1));
    fence.write("secret.txt", "outside");
    #[cfg(unix)]
    {
        let link = |to: &str, from: &str| {
            std::os::unix::fs::symlink(fence.work().join(to), fence.work().join(from)).expect("a link");
        };
        link("secret.txt", "skills/refund-order/link.md");
        link("skills/refund-order", "skills/linked");
    }
    let session = connected(&fence, Era::Modern, CONFIG, &file).await;
    let listing = session.call("ls", json!({"path": "/skills"})).await.text;
    let reason = |path: &str| {
        let start = format!("left out: {path}: ");
        listing.lines().find_map(|line| line.strip_prefix(start.as_str())).map(str::to_owned)
    };
    let others = [
        ("empty", String::new(), "has no SKILL.md"),
        ("bytes", String::new(), "no UTF-8 text"),
        ("refund-order/my notes.md", String::new(), "rename it"),
        ("refund-order/large.txt", String::new(), "over the limit of 1048576 bytes"),
    ];
    let mut wrong = Vec::new();
    for (path, _, part) in cases.iter().chain(&others) {
        if !reason(path).is_some_and(|reason| reason.contains(part)) {
            wrong.push(format!("{path}: {part}: {:?}", reason(path)));
        }
    }
    #[cfg(unix)]
    for path in ["refund-order/link.md", "linked"] {
        assert!(reason(path).is_some_and(|reason| reason.contains("a symbolic link")), "{path}\n{listing}");
    }
    assert!(wrong.is_empty(), "{}\n{listing}", wrong.join("\n"));
    assert!(listing.starts_with("/skills/  1 skill, "), "{listing}");
    assert!(!listing.contains('\u{202e}') && !listing.contains('\u{1b}'), "{listing}");
    let log = session.stderr();
    assert!(log.contains("is left out") && log.contains("no-front"), "{log}");
    let read = session.call("cat", json!({"path": "/skills/refund-order/references/rules.md"})).await;
    assert_eq!(read.text.trim(), "Only within 30 days.");
    session.close().await;
}

#[tokio::test]
async fn edits_of_skills_are_followed() {
    let (fence, file) = prepared();
    let session = connected(&fence, Era::Modern, CONFIG, &file).await;
    let shown = async |part: &str, is_there: bool| {
        let started = Instant::now();
        loop {
            let listing = session.call("ls", json!({"path": "/skills"})).await.text;
            if listing.contains(part) == is_there {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{part}: {listing}\n{}", session.stderr());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    shown("refund-order/", true).await;
    fence.write("skills/weigh-parcel/SKILL.md", "---\nname: weigh-parcel\ndescription: Weighs giraffes.\n---\n");
    shown("weigh-parcel/  Weighs giraffes.", true).await;
    let found = session.call("search", json!({"query": "giraffes"})).await.text;
    assert!(found.contains("/skills/weigh-parcel/SKILL.md"), "{found}");
    fence.write("skills/weigh-parcel/SKILL.md", "---\nname: weigh\ndescription: Weighs giraffes.\n---\n");
    shown("left out: weigh-parcel: its front matter names it `weigh`", true).await;
    fs::remove_dir_all(fence.work().join("skills/refund-order")).expect("it is removed");
    shown("refund-order/", false).await;
    // Another folder has other instructions for the agent: it waits for the operator.
    fence.write("others/greet/SKILL.md", "---\nname: greet\ndescription: Greets.\n---\n");
    fence.write("forge.toml", "[skills]\npath = \"others\"\n");
    let started = Instant::now();
    while !session.stderr().contains("waits for the operator, since it widens: skills.path (changed)") {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    shown("greet/", false).await;
    session.hang_up();
    shown("greet/  Greets.", true).await;
    assert!(session.stderr().contains("skills are read from another folder"), "{}", session.stderr());
    session.close().await;
}

#[tokio::test]
async fn scripts_that_are_tools_are_skills_too() {
    let fence = Fence::new();
    let scripts = json!({"scripts": {"tools": [
        tool("billing/refund_failed", "Refunds failed orders of a \"country\".\n\nAsks nobody: it is reviewed."),
        tool("greet", ""),
        tool("refund_order", "Is hidden by the folder's skill."),
    ]}, "shop": {"tools": []}});
    let file = fence.write("scripts.json", &scripts.to_string());
    fence.write("skills/refund-order/SKILL.md", REFUND);
    let session = connected(&fence, Era::Modern, CONFIG, &file).await;
    let listing = session.call("ls", json!({"path": "/skills"})).await.text;
    for part in [
        "/skills/  3 skills;",
        "billing-refund-failed/  Refunds failed orders of a \"country\". Asks nobody: it is reviewed.  needs scripts",
        "greet/  Runs the script greet.",
        "refund-order/  Refunds a failed order by the rules",
    ] {
        assert!(listing.contains(part), "{part}\n{listing}");
    }
    let text = session.call("cat", json!({"path": "/skills/billing-refund-failed/SKILL.md"})).await.text;
    for part in ["name: billing-refund-failed\n", "# scripts.", "country: str", ".pyi` has its types"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let path = text.split('`').find(|part| part.ends_with(".pyi")).expect("the path of its stub").to_owned();
    let stub = session.call("cat", json!({"path": path})).await;
    assert!(!stub.is_error && stub.text.contains("refund_failed"), "{}", stub.text);
    let listed = session.peer().list_skills(None).await.expect("skills/list");
    assert_eq!(listed.skills.len(), 3);
    session.close().await;
    // Without a folder they are there as well.
    let session = connected(&fence, Era::Modern, "", &file).await;
    assert!(capabilities(&session).supports_skills());
    let listed = session.peer().list_skills(None).await.expect("skills/list");
    assert_eq!(listed.skills.len(), 3);
    session.close().await;
}
