//! Instances of servers over HTTP, by client and by session.

use std::time::Duration;

use super::{CI, CLIENTS, LAPTOP, Served, run};
use crate::client::{Era, Fence};
use crate::faulty::{all_end, has_python};

#[tokio::test]
async fn clients_and_sessions_have_the_instances_that_share_gives_them() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/keeping.py");
    // Sessions of: laptop, laptop, ci, ci. Those of 2026-07-28 are one for each client.
    for (share, era, expected) in [
        ("", Era::Legacy, "aabb"),
        ("share = \"all\"", Era::Legacy, "aaaa"),
        ("share = \"session\"", Era::Legacy, "abcd"),
        ("share = \"session\"", Era::Modern, "aabb"),
    ] {
        let config = format!("{CLIENTS}[servers.kept]\ncommand = \"python3\"\nargs = [{script:?}]\n{share}\n");
        let served = Served::start(Fence::new(), &config).await;
        let (mut clients, mut counted) = (Vec::new(), Vec::new());
        for token in [LAPTOP, LAPTOP, CI, CI] {
            let client = served.client(era, token).await;
            counted.push(run(&client, "return await kept.count({})").await);
            clients.push(client);
        }
        let pids: Vec<u64> = counted.iter().map(|counted| counted["pid"].as_u64().expect("a process")).collect();
        for (one, letter) in pids.iter().zip(expected.chars()) {
            for (other, letter_of_other) in pids.iter().zip(expected.chars()) {
                assert_eq!(one == other, letter == letter_of_other, "{share} {era:?}: {pids:?}");
            }
        }
        if expected == "abcd" {
            clients.swap_remove(0).cancel().await.expect("it ends");
            all_end(&[u32::try_from(pids[0]).expect("a process")], Duration::from_secs(20)).await;
            let next = run(&clients[1], "return await kept.count({})").await;
            assert_eq!((next["pid"].as_u64(), next["count"].as_u64()), (Some(pids[1]), Some(2)));
        }
        assert!(!served.log().contains("panicked"), "{}", served.log());
    }
}
