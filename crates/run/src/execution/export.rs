//! A recorded run as a cassette: its script, or the function that it became, played on redacted answers.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Json, Run, Server};

use super::replayed::{again, limits_of, stall};
use crate::broker::ExecutionContext;
use crate::replay::{Cassette, Matching, Parting, Player, Tape, Tool, blank};
use base::error::{Error, ErrorCode, Result};
use state::journal::{Head, Journals, Operation, Recorded};

/// Definitions of the tools that a run called, and of those whose answers it has from earlier runs of its chain.
#[derive(Debug, Default)]
pub struct Called {
    /// The tools, sorted.
    pub tools: Vec<Tool>,
    /// Earlier runs whose journals are gone: of their calls no definition is known.
    pub gone: Vec<String>,
}

impl Called {
    /// The tools of a recorded run.
    ///
    /// # Errors
    /// Errors of reading the journals of the earlier runs.
    pub async fn of(journals: &Journals, recorded: &Recorded) -> Result<Self> {
        let mut tools: BTreeSet<Tool> = recorded.operations.values().filter_map(tool).collect();
        let mut gone = Vec::new();
        let mut inherited: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for from in recorded.operations.values().filter_map(|operation| operation.given.as_ref()?.from.as_ref()) {
            inherited.entry(&from.run).or_default().push(from.op);
        }
        for (id, calls) in inherited {
            let run = match journals.find(Some(&recorded.head.client), id).await {
                Err(error) if error.code == ErrorCode::InvalidArgs => {
                    gone.push(id.to_owned());
                    continue;
                }
                run => run?,
            };
            let earlier = journals.recorded(&run).await?;
            tools.extend(calls.iter().filter_map(|op| tool(earlier.operations.get(op)?)));
        }
        Ok(Self { tools: tools.into_iter().collect(), gone })
    }
}

/// The tool that an operation called.
fn tool(operation: &Operation) -> Option<Tool> {
    let sent = operation.sent.as_ref().filter(|sent| sent.method == "tools/call")?;
    Some(Tool { server: sent.server.clone(), tool: sent.tool.clone(), definition: sent.definition.clone() })
}

/// A run whose cassettes are made: of its script, and of the function that the script becomes.
#[derive(Debug)]
pub struct Export {
    head: Head,
    results: redact::Results,
    tools: Vec<Tool>,
    tape: Tape,
}

impl Export {
    /// Takes a run that called these tools, with its answers redacted.
    ///
    /// # Errors
    /// When the record has requests that cannot be played.
    pub fn of(recorded: Recorded, tools: Vec<Tool>, results: redact::Results) -> Result<Self> {
        let head = recorded.head.clone();
        let surface = blank(head.language, String::new(), 0, results).redaction.surface();
        let tape = Tape::of(recorded)?.redacted(surface);
        Ok(Self { head, results, tools, tape })
    }

    /// Replays a script on the answers, and records what comes of it.
    ///
    /// # Errors
    /// `SCRIPT_ERROR` when it parts from the record, and those of [`ExecutionContext::replay`].
    pub async fn play(&self, context: &ExecutionContext, code: &str, args: Option<Json>) -> Result<Cassette> {
        let head = &self.head;
        let mut cassette = blank(head.language, head.seed.clone(), head.now_ms, self.results);
        cassette.limits = limits_of(head);
        let is_named = |server: &&Server| code.contains(&server.ident) || code.contains(&server.name);
        cassette.servers = head.servers.iter().filter(is_named).cloned().collect();
        cassette.tools.clone_from(&self.tools);
        cassette.args.clone_from(&args);
        let servers = cassette.servers.clone();
        let script = Run { servers, args, ..again(head, head.language, code.to_owned()) };
        let player = Player::new(self.tape.clone(), Matching::Position, stall(&script.limits));
        let played = context.clone().replay(script, &player).await?;
        if let Some(parting) = player.parting() {
            let hint = match parting {
                Parting::LeftOut { .. } => "ask the tool for less at a time, and record the script anew",
                _ => "with redacted answers the script takes another way: have it depend on nothing that is redacted",
            };
            let what = format!("no cassette is written: {parting}");
            return Err(Error::new(ErrorCode::ScriptError, what).hint(hint));
        }
        cassette.record(&self.tape, &player);
        cassette.expected = played.expected().redacted(cassette.redaction);
        Ok(cassette)
    }
}
