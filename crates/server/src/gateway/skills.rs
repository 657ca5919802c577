//! Follows edits of the folder of skills, and shows its skills in the catalog.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::InForce;
use super::trace::Trace;
use base::task::Task;
use catalog::skills::{self, Calls, Skills};
use run::scripts::Callables;

/// Polling interval; an edit is applied once it has been stable for as long.
const LOOK: Duration = Duration::from_secs(1);

/// Reads the folder, and logs what was left out.
pub(super) fn read(path: Option<&Path>) -> Skills {
    let Some(path) = path else { return Skills::default() };
    let skills = skills::read(path);
    for (name, reason) in &skills.left_out {
        tracing::warn!(skill = name, reason, "a skill, or a file of it, is left out");
    }
    skills
}

/// Shows each change of the folder and of what locked scripts call, as long as the task lives.
pub(super) fn follow(
    in_force: Arc<ArcSwap<InForce>>,
    scripts: Arc<ArcSwap<Callables>>,
    show: impl Fn(Skills) + Send + Sync + 'static,
) -> Task {
    Task::spawn(async move {
        let mut named = in_force.load().config.skills.clone();
        // Of no state of the folder: what was edited since it was read is read once more.
        let (mut taken, mut seen) = (Trace::default(), Trace::default());
        let mut shown = Calls::new();
        loop {
            tokio::time::sleep(LOOK).await;
            let path = in_force.load().config.skills.clone();
            if path != named {
                tracing::warn!(path = ?path, before = ?named, "skills are read from another folder");
                named.clone_from(&path);
            }
            let here = Trace::of(path.iter().cloned().collect(), false).await;
            let is_at_rest = here == seen;
            seen = here;
            let calls = calls(&scripts.load());
            if (is_at_rest && seen != taken) || calls != shown {
                let read = tokio::task::spawn_blocking(move || read(path.as_deref())).await;
                if let Ok(skills) = read {
                    taken.clone_from(&seen);
                    shown.clone_from(&calls);
                    show(skills.with_calls(calls));
                }
            }
        }
    })
}

/// Rights of each script.
fn calls(scripts: &Callables) -> Calls {
    let of = |script: &Arc<run::scripts::Callable>| {
        let calls = script
            .locked
            .as_ref()
            .map(|locked| locked.calls.iter().map(|call| (call.server.clone(), call.tool.clone())).collect());
        (script.source.name.clone(), calls)
    };
    scripts.iter().map(of).collect()
}
