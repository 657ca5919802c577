//! Approvals that wait, of agents: clients that cannot ask, people who do not answer, killed gateways, other clients.

use serde_json::{Value, json};

use super::{WAITS, approvals, parked, waiting};
use crate::client::{Era, Fence, Session};
use crate::journal::Bank;
use crate::policy::{User, connected, execute, reached};

const PAY: &str = "await bank.pay({n: 7});\nreturn 'paid'";

async fn served(bank: &Bank) -> Session {
    let command = bank.fence.forgefs(["--config", "forge.toml", "serve"]);
    let session = bank.fence.connect(Era::Modern, command).await;
    session.ready(&["bank", "post"]).await;
    session
}

/// The word behind `mark` in a text.
fn word<'t>(text: &'t str, mark: &str) -> &'t str {
    let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("no {mark:?} in\n{text}"));
    rest.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_forgets_no_approval() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let session = served(&bank).await;
    let text = session.execute_err("javascript", PAY).await;
    let (id, run) = (word(&text, "forgefs approvals allow ").to_owned(), word(&text, "execute(resume=\"").to_owned());
    assert!(text.contains(&format!("waits: approval {id} of bank.pay, until ")), "{text}");
    session.kill();
    approvals(&bank, &["allow", &id]).success();
    let session = served(&bank).await;
    let answer = session.call("execute", json!({"resume": run})).await;
    assert!(!answer.is_error && answer.text.contains("paid"), "{}", answer.text);
    assert_eq!(bank.paid(), [7]);
    // Killed after it was used and before it was answered: nobody can tell, and nothing is repeated unasked.
    let text = session.execute_err("javascript", "await bank.pay({n: 8}); return 'paid'").await;
    let (id, run) = (word(&text, "forgefs approvals allow ").to_owned(), word(&text, "execute(resume=\"").to_owned());
    approvals(&bank, &["allow", &id]).success();
    bank.tell("kill", "gateway-done 0");
    drop(session);
    let killed = bank.fence.run(["run", "--resume", &run]);
    assert_ne!(killed.code, Some(0), "{killed:?}");
    let again = bank.json(
        &["--resume", &run],
        "try { await bank.pay({n: 8}) } catch (error) { console.log(error.code) }\nawait bank.pay({n: 8})",
    );
    assert!(again["output"].as_str().is_some_and(|said| said.contains("MAYBE_DONE")), "{again:#}");
    let (_, other) = parked(&again);
    assert_ne!(other, id);
    assert_eq!(bank.paid(), [7, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_there_is_asked_and_whoever_is_not_finds_it_waiting() {
    if crate::faulty::has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let keys = "servers.chat.approval = \"writes\"\napprovals.wait = \"1h\"";
    // A script that tries again, with the same and with other arguments, cannot ask again.
    let code = "for (const text of ['x', 'y']) { try { await chat.send({text}) } catch (error) { if (text === 'y') throw error } }\n\
                await chat.send({text: 'x'}); return 'sent'";
    let count = |fence: &Fence| {
        let listed = fence.run(["approvals", "list", "--json"]);
        let listed: Value = listed.object();
        listed["approvals"].as_array().expect("a list").len()
    };
    for era in [Era::Legacy, Era::Modern] {
        for (decision, expected) in [
            (None, "APPROVAL_WAITS"),
            (Some("cancel"), "APPROVAL_WAITS"),
            (Some("decline"), "APPROVAL_DENIED"),
            (Some("deny"), "APPROVAL_DENIED"),
        ] {
            let (fence, user) = (Fence::new(), User::new(decision));
            let service = connected(&fence, era, keys, &user).await;
            let text = execute(&service, "javascript", code).await.expect_err("no consent");
            assert!(text.contains(expected), "{era:?} {decision:?}: {text}");
            assert_eq!(count(&fence), 2 * usize::from(expected == "APPROVAL_WAITS"), "{era:?} {decision:?}");
            assert_eq!(user.asked().len(), usize::from(decision.is_some()), "{era:?} {decision:?}");
            assert_eq!(reached(&fence), [""; 0]);
            if decision == Some("cancel") {
                // The user answers now: nothing is left to be decided.
                user.decides(Some("allow once"));
                let arguments = json!({"resume": word(&text, "execute(resume=\"")});
                let request = rmcp::model::CallToolRequestParams::new("execute")
                    .with_arguments(arguments.as_object().expect("an object").clone());
                let answer = service.call_tool(request).await.expect("an answer");
                assert_ne!(answer.is_error, Some(true), "{answer:?}");
                assert_eq!((count(&fence), reached(&fence).len()), (0, 3), "{era:?}");
            }
            service.cancel().await.expect("the session ends");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_of_calls_that_wait_though_its_script_goes_on() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let session = served(&bank).await;
    let code = "for (const n of [1, 2]) { try { await bank.pay({n}) } catch (error) { console.log(error.code, error.data.approval) } }\nreturn 'rest'";
    let answer = session.call("execute", json!({"language": "javascript", "code": code})).await;
    let text = &answer.text;
    assert!(!answer.is_error && text.starts_with("rest") && text.matches("waits: approval ").count() == 2, "{text}");
    assert!(text.contains("after `forgefs approvals allow ID` for each: execute(resume=\""), "{text}");
    assert_eq!(waiting(&bank).len(), 2);
    for approval in waiting(&bank) {
        assert!(text.contains(approval["id"].as_str().expect("an id")), "{text}");
        assert!(approval["client_name"].as_str().is_some_and(|name| name.starts_with("rmcp ")), "{approval:#}");
    }
    session.close().await;
}
