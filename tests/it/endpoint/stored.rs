//! Stored results and the stash of clients with tokens: none fills the memory of another.

use serde_json::{Value, json};

use super::{CI, CLIENTS, LAPTOP, Served, answer, run};
use crate::client::{Era, Fence};
use crate::faulty::samples;

/// A script whose result of 1.2 MB is stored.
const LARGE: &str = "return 'x '.repeat(600000)";

/// Answer of a script that returns a large result.
async fn stored(client: &rmcp::service::RunningService<rmcp::RoleClient, ()>) -> String {
    answer(client, "execute", json!({"language": "javascript", "code": LARGE})).await
}

fn path(answer: &str) -> Option<String> {
    let path = answer.split_whitespace().find(|word| word.starts_with("/results/"))?;
    Some(path.trim_end_matches(['.', ',', ':', ';', ')']).to_owned())
}

#[tokio::test]
async fn a_storm_of_one_client_leaves_the_results_and_the_stash_of_another() {
    // Half of it is common, and a quarter each client's own.
    let config = format!("{}{CLIENTS}[memory]\nresults = \"8MiB\"\n", samples());
    let served = Served::start(Fence::new(), &config).await;
    for era in [Era::Legacy, Era::Modern] {
        let laptop = served.client(era, LAPTOP).await;
        let before = path(&stored(&laptop).await).expect("it is stored");
        let mut storm = Vec::new();
        let keep = "const kept = []; for (let i = 0; i < 4; i++) { try { \
                    await forge.stash.set(`${i}`, 'y'.repeat(1000000)); kept.push(i) } \
                    catch (error) { return {kept: kept.length, error: `${error.code}: ${error}`} } } return {kept: kept.length}";
        let mut last = Value::Null;
        for _ in 0..5 {
            // Of 2026-07-28 all of them are one session.
            let client = served.client(era, CI).await;
            last = run(&client, keep).await;
            storm.push(client);
        }
        // Legacy: the stash of sessions beside each other. 2026-07-28: one stash, whose entries are replaced.
        if era == Era::Legacy {
            let error = last["error"].as_str().unwrap_or_else(|| panic!("nothing is refused: {last}"));
            assert!(error.contains("BUDGET_EXCEEDED") && error.contains("2097152 bytes are its own"), "{error}");
            let large = stored(&storm[4]).await;
            assert!(large.contains("not stored") && large.contains("the 4194304 that all clients share"), "{large}");
        }
        assert!(answer(&laptop, "cat", json!({"path": before})).await.contains("x x"), "{era:?}");
        run(&laptop, "await forge.stash.set('mine', 'z'.repeat(600000)); return 1").await;
        assert_eq!(run(&laptop, "return (await forge.stash.get('mine')).length").await, 600_000, "{era:?}");
        // What it returns next has the place of its own older result, since the common memory is in use.
        let after = stored(&laptop).await;
        assert!(path(&after).is_some() && !after.contains("not stored"), "{era:?}: {after}");
        for client in storm {
            client.cancel().await.expect("it ends");
        }
        run(&laptop, "await forge.stash.delete('mine'); return 1").await;
        laptop.cancel().await.expect("it ends");
    }
    // The sessions of 2025-11-25 gave back what they held.
    let laptop = served.client(Era::Legacy, LAPTOP).await;
    for _ in 0..2 {
        assert!(path(&stored(&laptop).await).is_some());
    }
    assert!(!served.log().contains("panicked"), "{}", served.log());
}
