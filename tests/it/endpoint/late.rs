//! Answers that come after a restart, over HTTP: of use to the client that was asked.

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::json;

use super::{CI, CLIENTS, LAPTOP, Served};
use crate::asking::Client;
use crate::client::{Era, Fence};
use crate::faulty::python;

#[tokio::test]
async fn an_answer_after_a_restart_counts_for_the_client_that_was_asked_and_for_no_other() {
    let fence = Fence::new();
    let ledger = fence.work().join("ledger");
    let Some(config) = python("bank", "ledger.py", &[ledger.to_str().expect("a path")]) else { return };
    let mut served = Served::start(fence, &format!("{config}approval = \"writes\"\n{CLIENTS}")).await;
    let paid = || std::fs::read_to_string(&ledger).unwrap_or_default();
    let arguments = json!({"language": "javascript", "code": "await bank.pay({n: 7}); return 'paid'"});
    let ask = CallToolRequestParams::new("execute").with_arguments(arguments.as_object().cloned().expect("an object"));
    let laptop = served.client_with(Client::able(), Era::Modern, LAPTOP).await;
    let CallToolResponse::InputRequired(asked) = laptop.call_tool_once(ask.clone()).await.expect("asked") else {
        panic!("the client is not asked")
    };
    let yes = json!({"action": "accept", "content": {"decision": "allow once"}});
    let mut answer = ask;
    answer.request_state = asked.request_state;
    answer.input_responses =
        asked.input_requests.map(|asked| asked.into_keys().map(|key| (key, yes.clone())).collect());
    for _ in 0..2 {
        let ci = served.client_with(Client::able(), Era::Modern, CI).await;
        let refused = ci.call_tool_once(answer.clone()).await.expect_err("it is of another client");
        assert!(refused.to_string().contains("another client") && paid().is_empty(), "{refused}");
        served.restart().await;
    }
    let laptop = served.client_with(Client::able(), Era::Modern, LAPTOP).await;
    let CallToolResponse::Complete(done) = laptop.call_tool_once(answer.clone()).await.expect("an answer") else {
        panic!("the answer ends it")
    };
    assert!(done.is_error != Some(true) && paid() == "7\n", "{done:?}");
    let refused = laptop.call_tool_once(answer).await.expect_err("it was answered");
    assert!(refused.to_string().contains("has continued") && paid() == "7\n", "{refused}");
}
