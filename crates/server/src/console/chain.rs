//! Chains of runs that resumed each other.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Console;
use super::runs::brief;
use base::limits;
use base::outcome::Outcome as Ended;
use base::principal::LOCAL;
use state::journal::{Recorded, Run};

/// Most runs of a chain that are listed before a run, and after it.
const CHAIN: usize = 50;

/// True for a run that ended with a value: the console saves it, and does not go on with it.
pub(super) fn has_succeeded(recorded: &Recorded) -> bool {
    recorded.end.as_ref().is_some_and(|end| end.outcome == Ended::Ok)
}

impl Console {
    /// State of a run in its chain, and the actions that are left.
    pub(super) fn place_in_chain(&self, id: &str, recorded: Option<&(Run, Recorded)>) -> Value {
        let journal = match (recorded, self.gateway.journals()) {
            (Some(_), _) => "kept",
            (None, Some(_)) => "gone",
            (None, None) => "off",
        };
        let ended = recorded.filter(|(run, _)| !run.file.is_running);
        let has_succeeded = ended.is_some_and(|(_, recorded)| has_succeeded(recorded));
        let can_resume = ended.is_some_and(|(run, _)| run.file.next.is_none()) && !has_succeeded;
        let is_saved = has_succeeded && self.gateway.config().scripts.path.is_some();
        json!({
            "journal": journal,
            "continues": recorded.and_then(|(_, recorded)| recorded.head.after.last()),
            "resumed_by": recorded.and_then(|(run, _)| run.file.next.as_ref()),
            "resume": can_resume.then(|| format!("execute(resume=\"{id}\")")),
            "resume_cli": can_resume.then(|| format!("forgefs run --resume {id}")),
            // The console acts as this machine's user: runs of other clients are not its own.
            "can_resume": can_resume && recorded.is_some_and(|(run, _)| run.head.client == LOCAL),
            "can_replay": ended.is_some(),
            "can_save": is_saved,
        })
    }

    /// The last run that went on with a run of this machine's user, else that run itself.
    pub(super) async fn last_of_chain(&self, id: &str) -> String {
        let mut last = id.to_owned();
        let Some(journals) = self.gateway.journals() else { return last };
        for _ in 0..limits::JOURNAL_CHAIN.max {
            match journals.find(Some(LOCAL), &last).await.ok().and_then(|run| run.file.next) {
                Some(next) => last = next,
                None => break,
            }
        }
        last
    }

    /// The runs of the chain that a run is in, oldest first: those around it, with what of each was replayed. Empty for one
    /// that is alone.
    pub(super) async fn chain(self: &Arc<Self>, recorded: Option<&(Run, Recorded)>) -> Vec<Value> {
        let (Some((run, _)), Some(journals)) = (recorded, self.gateway.journals()) else { return Vec::new() };
        let (client, head) = (&run.head.client, &run.head);
        let mut ids: Vec<String> = head.after.iter().rev().take(CHAIN).rev().cloned().collect();
        ids.push(run.file.id.clone());
        let (most, mut next) = (ids.len() + CHAIN, run.file.next.clone());
        while let Some(id) = next.take_if(|id| ids.len() < most && !ids.contains(id)) {
            next = journals.find(Some(client), &id).await.ok().and_then(|run| run.file.next);
            ids.push(id);
        }
        if ids.len() < 2 {
            return Vec::new();
        }
        let running: Vec<String> = self.gateway.board().look(0).into_iter().map(|run| run.id).collect();
        let logged = self.entries().await.unwrap_or_default();
        let link = |id: &String| match logged.iter().find(|entry| *entry.id == **id) {
            Some(entry) => {
                let mut link = brief(entry, running.contains(id));
                link["replayed"] = entry.calls.iter().filter(|call| call.is_inherited).count().into();
                link
            }
            None => json!({ "id": id }),
        };
        ids.iter().map(link).collect()
    }
}
