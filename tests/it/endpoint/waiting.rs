//! Approvals that wait belong to the client whose run asked.

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

use super::{CI, CLIENTS, LAPTOP, Served};
use crate::client::{Era, Fence};
use crate::faulty::python;

async fn execute(client: &RunningService<RoleClient, ()>, arguments: Value) -> (bool, String) {
    let arguments = arguments.as_object().expect("an object").clone();
    let request = CallToolRequestParams::new("execute").with_arguments(arguments);
    let answer = client.call_tool(request).await.expect("an answer");
    let text: Vec<&str> = answer.content.iter().filter_map(|c| c.as_text()).map(|c| c.text.as_str()).collect();
    (answer.is_error != Some(true), text.join("\n"))
}

fn word<'t>(text: &'t str, mark: &str) -> &'t str {
    let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("no {mark:?} in\n{text}"));
    rest.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default()
}

#[tokio::test]
async fn an_approval_is_of_no_use_to_another_client() {
    let fence = Fence::new();
    let ledger = fence.work().join("ledger");
    let Some(config) = python("bank", "ledger.py", &[ledger.to_str().expect("a path")]) else { return };
    let served =
        Served::start(fence, &format!("{config}approval = \"writes\"\n[approvals]\nwait = \"1h\"\n{CLIENTS}")).await;
    let (laptop, ci) = (served.client(Era::Modern, LAPTOP).await, served.client(Era::Modern, CI).await);
    let script = json!({"language": "javascript", "code": "await bank.pay({n: 7}); return 'paid'"});
    let (_, text) = execute(&laptop, script.clone()).await;
    let (id, run) = (word(&text, "forgefs approvals allow ").to_owned(), word(&text, "execute(resume=\"").to_owned());
    let listed = served.fence.run(["approvals", "list"]).success().stdout;
    assert!(listed.contains("  laptop  "), "{listed}");
    served.fence.run(["approvals", "allow", &id]).success();
    let (is_ok, text) = execute(&ci, json!({"resume": run})).await;
    assert!(!is_ok && text.contains("there is no run"), "{text}");
    let (is_ok, text) = execute(&ci, script).await;
    assert!(!is_ok && word(&text, "forgefs approvals allow ") != id, "{text}");
    assert!(std::fs::read_to_string(&ledger).is_err(), "nothing is paid");
    let (is_ok, text) = execute(&laptop, json!({"resume": run})).await;
    assert!(is_ok, "{text}");
    assert_eq!(std::fs::read_to_string(&ledger).expect("paid"), "7\n");
}
