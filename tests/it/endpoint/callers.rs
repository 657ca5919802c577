//! Questions, progress and log entries of a server that clients share: they reach the caller alone.
#![expect(deprecated, reason = "clients go on to use logging, which 2026-07-28 deprecates")]

use rmcp::model::{LoggingLevel, SetLevelRequestParams};

use super::{CI, CLIENTS, LAPTOP, Served, run};
use crate::asking::Client;
use crate::client::{Era, Fence};
use crate::faulty::python;

#[tokio::test]
async fn what_a_server_tells_and_asks_reaches_its_caller_alone() {
    for server in ["legacy", "modern"] {
        let Some(config) = python("asking", "asking.py", &[server]) else { return };
        for (one_era, other_era) in [(Era::Legacy, Era::Legacy), (Era::Legacy, Era::Modern), (Era::Modern, Era::Modern)]
        {
            // A question that was given up is remembered for a minute, lest it reach another.
            let served = Served::start(Fence::new(), &format!("{config}share = \"all\"\n{CLIENTS}")).await;
            let (one, other) = (Client::able(), Client::able());
            let caller = served.client_with(one.clone(), one_era, LAPTOP).await;
            let bystander = served.client_with(other.clone(), other_era, CI).await;
            for (client, era) in [(&caller, one_era), (&bystander, other_era)] {
                if era == Era::Legacy {
                    let level = SetLevelRequestParams::new(LoggingLevel::Debug);
                    client.set_level(level).await.expect("logging/setLevel");
                }
            }
            let answer = run(&caller, "return await asking.confirm({text: 'for the caller'})").await.to_string();
            assert!(answer.contains("for the caller"), "{server} {one_era:?}: {answer}");
            run(&caller, "return await asking.work({steps: 3, pause: 0.1})").await;
            let heard = one.heard();
            assert!(heard.iter().any(|line| line.contains("for the caller")), "{server} {one_era:?}: {heard:?}");
            assert_eq!(other.heard(), Vec::<String>::new(), "{server} {one_era:?} {other_era:?}");
            // Both at once: a question that could be of either is refused, and none goes to the wrong one.
            let script = |whose: &str| {
                format!("try {{ return await asking.confirm({{text: 'of {whose}'}}) }} catch (e) {{ return `${{e}}` }}")
            };
            let (mine, theirs) = (script("one"), script("two"));
            tokio::join!(run(&caller, &mine), run(&bystander, &theirs));
            for (client, foreign) in [(&one, "of two"), (&other, "of one")] {
                let heard = client.heard();
                assert!(!heard.iter().any(|line| line.contains(foreign)), "{server} {one_era:?}: {heard:?}");
            }
            drop((caller, bystander));
        }
    }
}
