//! Kills of the gateway at any time between questions and answers; every payment is approved and made once in the end.

use std::time::Duration;

use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::{ASKS, Gateway, ONCE, Reply, decided, script};
use crate::journal::Bank;

/// Pays, and looks before it repeats what may be done.
const PAY: &str = "
const pay = async (n) => {
  try { await bank.pay({n}) } catch (e) {
    if (e.code !== 'MAYBE_DONE') throw e;
    if (!(await bank.list()).includes(n)) await bank.pay({n});
  }
};
for (let n = 0; n < 4; n += 1) await pay(n);
return 'done';
";
/// Most rounds until all is paid.
const MOST: usize = 80;

/// Points of a call at which its server kills the gateway.
const POINTS: [&str; 3] = ["gateway-before", "gateway-done", "gateway-answered"];

/// How a round goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strike {
    /// The gateway is killed at any time.
    Anytime(u64),
    /// It is killed by the server, at a point of the next call.
    AtPoint(usize),
    /// It is killed between the question and the answer.
    AfterQuestion,
    None,
}

impl Strike {
    fn thrown(dice: u64) -> Self {
        match (dice >> 33) % 6 {
            0 => Self::Anytime((dice >> 40) % 60),
            1 => Self::AtPoint((dice >> 40) as usize % POINTS.len()),
            2 | 3 => Self::AfterQuestion,
            _ => Self::None,
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    anytime: usize,
    at_point: usize,
    after_question: usize,
    /// Answers that had come when the gateway was killed.
    refused: usize,
}

/// A client that pays until all is paid, whatever happens to its gateway.
struct Payer {
    bank: Bank,
    arguments: Value,
    state: Option<String>,
    keys: Vec<String>,
}

impl Payer {
    /// Takes what came of a round: true if all is paid, false if the gateway is dead.
    fn takes(&mut self, reply: Result<Reply, ServiceError>, counts: &mut Counts) -> Option<bool> {
        match reply {
            Ok(Reply::Ended(true, text)) => {
                assert!(text.contains("done"), "{text}");
                return Some(true);
            }
            Ok(Reply::Ended(false, text)) => panic!("{text}"),
            Ok(Reply::Asks(questions, next)) => {
                self.keys = questions.into_keys().collect();
                self.state = Some(next);
            }
            // The answer had come: what was done is in the journal, and the run is resumed.
            Err(ServiceError::McpError(refused)) => {
                let known = ["answered before", "has continued"].iter().any(|known| refused.message.contains(known));
                assert!(known, "{refused}");
                let run = self.state.take().map(|state| state[..12].to_owned()).expect("a state");
                (self.arguments, self.keys) = (json!({"resume": run, "fresh": ["bank.list"]}), Vec::new());
                counts.refused += 1;
            }
            Err(_) => return Some(false),
        }
        None
    }
}

/// `FORGEFS_CRASHES` is the number of scripts, for a long run by hand.
#[tokio::test]
async fn every_payment_is_made_once_whenever_the_gateway_is_killed() {
    let scripts = std::env::var("FORGEFS_CRASHES").ok().and_then(|number| number.parse().ok()).unwrap_or(3);
    let mut counts = Counts::default();
    for seed in 0..scripts {
        let Some(bank) = Bank::new(ASKS) else { return };
        let (arguments, mut dice) = (script("javascript", PAY), seed + 1);
        let mut payer = Payer { bank, arguments, state: None, keys: Vec::new() };
        let mut gateway = Gateway::start(&payer.bank.fence, "bank").await;
        let mut is_paid = false;
        for _ in 0..MOST {
            dice = u64::wrapping_mul(dice, 6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The first round has no answer yet: a run that never began cannot be resumed.
            let strike = if payer.state.is_some() { Strike::thrown(dice) } else { Strike::None };
            let answers: Vec<_> = payer.keys.iter().map(|key| (key.as_str(), decided(ONCE))).collect();
            let within = Duration::from_millis(if let Strike::Anytime(after) = strike { after } else { 60_000 });
            payer.bank.tell(
                "kill",
                &if let Strike::AtPoint(at) = strike { format!("{} 0", POINTS[at]) } else { "nobody 1000".to_owned() },
            );
            let sending = gateway.send(&payer.arguments, payer.state.as_deref(), &answers);
            let lives = match tokio::time::timeout(within, sending).await {
                Err(_) => false,
                Ok(reply) => match payer.takes(reply, &mut counts) {
                    Some(true) => {
                        is_paid = true;
                        break;
                    }
                    Some(false) => false,
                    None => strike != Strike::AfterQuestion,
                },
            };
            if !lives {
                match strike {
                    Strike::Anytime(_) => counts.anytime += 1,
                    Strike::AtPoint(_) => counts.at_point += 1,
                    Strike::AfterQuestion => counts.after_question += 1,
                    Strike::None => panic!("seed {seed}: it died by itself: {}", payer.bank.fence.stderr()),
                }
                gateway.kill();
                payer.bank.tell("kill", "nobody 1000");
                gateway = Gateway::start(&payer.bank.fence, "bank").await;
            }
        }
        assert!(is_paid, "seed {seed}: not paid after {MOST} rounds");
        assert_eq!(payer.bank.paid(), [0, 1, 2, 3], "seed {seed}: {counts:?}");
        gateway.service.cancel().await.expect("the session ends");
    }
    let table = concat!(env!("CARGO_TARGET_TMPDIR"), "/late-crashes.txt");
    std::fs::write(table, format!("{scripts} scripts: {counts:?}\n")).expect("the table can be written");
    assert!(counts.after_question > 0 && counts.anytime + counts.at_point > 0, "{counts:?}");
}
