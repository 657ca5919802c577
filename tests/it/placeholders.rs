//! Placeholders: what the agent sees of a secret, and what tools get of it.

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::python;

/// A server that knows a token and a password, and one that answers with what it is given.
async fn serve(fence: &Fence, setting: &str) -> Option<Session> {
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let planted = json!({"token": token, "password": "Tr0ub4dor-and-3", "pem": "", "host": "h"}).to_string();
    let planted = fence.write("planted.json", &planted);
    let leaky = python("vault", "leaky.py", &[planted.to_str()?])?;
    let faulty = python("echo", "faulty.py", &[])?;
    let session = fence.serve(&format!("{leaky}{faulty}[redaction]\n{setting}\n")).await;
    session.ready(&["vault", "echo"]).await;
    Some(session)
}

fn last_record(fence: &Fence) -> Value {
    let records = std::fs::read_to_string(fence.audit()).expect("an audit file");
    serde_json::from_str(records.lines().last().expect("a line")).expect("JSON")
}

#[tokio::test]
async fn a_placeholder_is_put_back_for_tools_and_never_for_the_agent() {
    let fence = Fence::new();
    let Some(session) = serve(&fence, "placeholders = true").await else { return };
    let answer =
        session.call("execute", json!({"language": "javascript", "code": "return await vault.answer({})"})).await;
    let value: Value = serde_json::from_str(answer.text.lines().next().expect("a value")).expect("JSON");
    assert_eq!((&value["token"], &value["password"]), (&json!("<<GITHUB_TOKEN:1>>"), &json!("<<PASSWORD:1>>")));
    assert!(answer.text.contains("stand for values that are kept from you"), "{}", answer.text);
    // The same in the next script, in either language; and only the first answer explains.
    let again = session.call("execute", json!({"language": "starlark", "code": "vault.answer()"})).await;
    assert!(again.text.contains("\"<<GITHUB_TOKEN:1>>\"") && !again.text.contains("kept from you"), "{}", again.text);
    for (language, code) in [
        ("javascript", "return await vault.check({ token: '<<GITHUB_TOKEN:1>>' })"),
        ("starlark", "vault.check(token=\"<<GITHUB_TOKEN:1>>\")"),
    ] {
        assert_eq!(session.execute(language, code).await, json!("same"));
        assert!(
            last_record(&fence)["calls"][0]["args"].as_str().is_some_and(|args| args.contains("<<GITHUB_TOKEN:1>>"))
        );
    }
    // Whoever answers with what it was given shows a placeholder, also where nothing would know it for a secret.
    let code = "return [await echo.create_issue({ title: 'is <<PASSWORD:1>>.' }), (await echo.create_issue({ title: '<<PASSWORD:1>>' })).title]";
    assert_eq!(session.execute("javascript", code).await, json!([{"title": "is <<PASSWORD:1>>."}, "<<PASSWORD:1>>"]));
    // The script holds data of the server that the value came from.
    assert_eq!(last_record(&fence)["calls"][0]["labels"], json!(["vault"]));
    for code in [
        "await echo.create_issue({ title: 'x', state: '<<PASSWORD:1>>' })",
        "await echo.fail({ message: 'no <<PASSWORD:1>>' })",
        "await echo.create_issue({ title: '<<PASSWORD:1>>' }); throw new Error('x')",
    ] {
        let error = session.execute_err("javascript", code).await;
        assert!(!error.contains("Tr0ub") && error.contains("<<PASSWORD:1>>"), "{error}");
    }
    let error = session.execute_err("javascript", "await vault.check({ token: '<<GITHUB_TOKEN:9>>' })").await;
    assert!(error.contains("INVALID_ARGS: there is no <<GITHUB_TOKEN:9>> in this session"), "{error}");
    for text in [std::fs::read_to_string(fence.audit()).expect("an audit file"), session.stderr()] {
        assert!(!text.contains("ghp_") && !text.contains("Tr0ub"), "{text}");
    }
    session.close().await;
    // They mean nothing in another session.
    let session = serve(&fence, "placeholders = true").await.expect("as before");
    let answer = session.execute("javascript", "return await vault.check({ token: '<<GITHUB_TOKEN:1>>' })").await;
    assert_eq!(answer, json!("another"));
}

/// A placeholder is no way around what the configuration says of the data that it stands for.
#[tokio::test]
async fn flows_and_groups_hold_for_what_is_put_back() {
    for (rule, code) in [
        ("[[flows]]\nfrom = \"vault\"\nto = \"echo\"\naction = \"deny\"", "GROUP_POLICY_DENIED"),
        ("[groups.a]\nservers = [\"vault\"]\n[groups.b]\nservers = [\"echo\"]", "GROUP_POLICY_DENIED"),
        ("[servers.echo.tools.create-issue]\napproval = \"always\"", "APPROVAL_DENIED"),
    ] {
        let fence = Fence::new();
        let Some(session) = serve(&fence, &format!("placeholders = true\n{rule}")).await else { return };
        assert_eq!(session.execute("javascript", "return await vault.answer({})").await["password"], "<<PASSWORD:1>>");
        assert_eq!(session.execute("javascript", "return await echo.last({})").await, "ok");
        let error = session.execute_err("javascript", "await echo.create_issue({ title: '<<PASSWORD:1>>' })").await;
        assert!(error.starts_with(&format!("{code}: ")) && !error.contains("Tr0ub"), "{rule}: {error}");
        assert_eq!(
            session.execute("javascript", "return await vault.check({ token: '<<PASSWORD:1>>' })").await,
            "another"
        );
    }
}

#[tokio::test]
async fn without_the_setting_there_are_none() {
    let fence = Fence::new();
    let Some(session) = serve(&fence, "").await else { return };
    let value = session.execute("javascript", "return await vault.answer({})").await;
    assert_eq!(value["token"], "[redacted:github-token]");
    let answer = session.execute("javascript", "return await vault.check({ token: '<<GITHUB_TOKEN:1>>' })").await;
    assert_eq!(answer, json!("another"));
}
