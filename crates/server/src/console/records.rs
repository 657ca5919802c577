//! Recorded runs again: replayed on their journals alone, and saved as scripts.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::access::Person;
use super::{Console, wrong};
use base::error::Result;
use base::outcome::Outcome;
use base::task;
use run::execution::Called;
use run::scripts::{self, Wanted, is_script_name};
use state::journal::Recorded;

/// Name under which a run is saved.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Save {
    name: String,
}

impl Console {
    /// Runs a recorded script again offline, and says where it diverges.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the run has no journal, or has not ended.
    pub(super) async fn replay(self: &Arc<Self>, id: &str, by: &Person) -> Result<Value> {
        let (played, verdict) = self.context(by).play(self.whole(id).await?, None).await?;
        let value = played.result.as_ref().and_then(|result| result.as_ref().ok());
        Ok(json!({
            "same": verdict.is_same,
            "summary": verdict.summary,
            "parted": verdict.parted,
            "value": value,
            "error": played.error(),
            "output": played.output,
        }))
    }

    /// Saves a run as a function script with its first test, in the folder of scripts.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no folder, the name is none or taken, or the run cannot become a function.
    pub(super) async fn save(self: &Arc<Self>, id: &str, wanted: &Save, by: &Person) -> Result<Value> {
        let config = self.gateway.config();
        let Some(folder) = config.scripts.path.clone() else {
            return Err(wrong("there is no folder of scripts", "set `path` in [scripts] of forge.toml"));
        };
        if !is_script_name(&wanted.name) {
            let hint = "write letters, digits and `_`, the first one a letter; `/` for folders; no reserved words";
            return Err(wrong(format!("`{}` is no name of a script", base::text::brief(&wanted.name)), hint));
        }
        let recorded = self.whole(id).await?;
        let outcome = recorded.end.as_ref().map(|end| end.outcome);
        if outcome != Some(Outcome::Ok) {
            let outcome = outcome.map_or("died".into(), Outcome::name);
            let what = format!("run {} ended with {outcome}", recorded.head.run);
            return Err(wrong(what, "save a run that succeeded"));
        }
        let Some(journals) = self.gateway.journals() else {
            return Err(wrong("journals are off", "`on = true` in [journal] of forge.toml"));
        };
        let tools = Called::of(&journals, &recorded).await?.tools;
        let doc = format!("Saved from run {}.", recorded.head.run);
        let wish = Wanted { doc, ..Wanted::default() };
        let (saved, cassette) = self.context(by).saved(recorded, tools, wish).await?;
        let (name, code) = (wanted.name.clone(), saved.code.clone());
        let [script, _] = task::apart(move || scripts::write(&folder, &name, &saved, &cassette.text())).await?;
        Ok(json!({
            "file": script.display().to_string(),
            "code": code,
            "note": "review it, then run `forgefs scripts lock`: without its lock it cannot be called",
        }))
    }

    /// A run that has ended, with all that its journal has.
    async fn whole(&self, id: &str) -> Result<Recorded> {
        let Some((run, recorded)) = self.journal(id).await? else {
            let what = format!("run {} has no journal", base::text::brief(id));
            return Err(wrong(what, "journals are kept as long as `[journal] keep` says"));
        };
        if run.file.is_running {
            return Err(wrong(format!("run {} is still running", run.file.id), "wait for its end"));
        }
        if recorded.head.limits.is_none() {
            let what = format!("the journal of run {} has no namespaces: an older ForgeFS wrote it", run.file.id);
            return Err(wrong(what, "run the script anew"));
        }
        Ok(recorded)
    }
}

/// The line of a script that an explained error names.
pub(super) fn line_of(explained: &str) -> Option<u32> {
    explained.match_indices("line ").find_map(|(at, word)| {
        let rest = &explained[at + word.len()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest[digits..].starts_with(", column ").then(|| rest[..digits].parse().ok()).flatten()
    })
}
