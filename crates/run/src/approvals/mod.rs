//! Approvals that wait: where no user can be asked, a call waits in a file until a person decides about it, and a resumed
//! run makes it.
//!
//! An approval covers one call of one chain of runs, and is used up by the call that is sent. Every change replaces the
//! file as a whole, if it is still as it was read: of two runs that want to use it, one does.

mod approval;
mod further;
mod hook;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::time::now_ms;
use config::Config;
use state::{RecordKind, State, kept_folder};

pub use approval::{Approval, Asker, Call, Decision, Scope, Standing, Told, Used, VERSION};
pub use further::Further;

/// Digits of an id.
const ID: usize = 12;
/// Changes that are tried again because another process was first.
const TRIES: usize = 20;

/// The approvals of a configuration.
#[derive(Debug)]
pub struct Approvals {
    state: Arc<dyn State>,
    folder: PathBuf,
    wait: Option<Duration>,
    notify: Vec<config::Notify>,
    /// Time after its end at which an approval is removed.
    forget: Duration,
}

/// Decision of a person about a call.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// True if it may be made.
    pub is_allowed: bool,
    /// The person.
    pub by: &'a str,
    /// Why, for the agent.
    pub reason: Option<&'a str>,
}

/// The approval of a call that needs one.
#[derive(Debug)]
pub enum Known {
    /// None; the id of a new one.
    Nothing(String),
    /// One that waits, or was decided about and allows or denies the call.
    Kept(Box<Approval>),
}

impl Approvals {
    /// Approvals of a configuration; `None` for a user without a home.
    pub fn new(config: &Config, state: &Arc<dyn State>) -> Option<Arc<Self>> {
        let config::Approvals { folder, wait, notify } = &config.approvals;
        Some(Arc::new(Self {
            state: Arc::clone(state),
            folder: kept_folder(folder.as_deref()?, "approvals", config),
            wait: *wait,
            notify: notify.clone(),
            forget: config.journal.keep,
        }))
    }

    /// Time that a call waits; `None` if none does.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The approval of a call of a script, by the script's digest: its own, or a decision that covers further calls. One
    /// that was allowed, or waits, for other reasons than these is another question. `run` is the one that makes the call.
    ///
    /// # Errors
    /// `INTERNAL` when an approval cannot be read.
    pub async fn known(&self, call: &Call, reasons: &[String], (run, script): (&str, &str)) -> Result<Known> {
        let now = now_ms();
        let is_about = |approval: &Approval| reasons.iter().all(|reason| approval.reasons.contains(reason));
        let own = |approval: &Approval| match approval.standing(now) {
            Standing::Denied => true,
            standing => is_about(approval) && (standing == Standing::Waits || approval.allows(run, now)),
        };
        let own = self.first(call, own).await?;
        if matches!(&own, Known::Kept(own) if own.decision.is_some()) {
            return Ok(own);
        }
        let further = |approval: &Approval| {
            let is_for_script = approval.script.as_ref().is_none_or(|known| known == script);
            is_for_script && is_about(approval) && approval.allows(run, now)
        };
        match self.first(&call.with_any_arguments(), further).await? {
            Known::Nothing(_) => Ok(own),
            further => Ok(further),
        }
    }

    /// The first approval of a call that is such.
    async fn first(&self, call: &Call, is_such: impl Fn(&Approval) -> bool) -> Result<Known> {
        for number in 0..=limits::APPROVALS_KEPT.max {
            let id = id(call, number);
            match self.find(&id).await? {
                None => return Ok(Known::Nothing(id)),
                Some(approval) if approval.call == *call && is_such(&approval) => {
                    return Ok(Known::Kept(Box::new(approval)));
                }
                Some(_) => {}
            }
        }
        Err(limits::APPROVALS_KEPT.exceeded(ErrorCode::ApprovalDenied, limits::APPROVALS_KEPT.max + 1))
    }

    /// Keeps a new approval, and tells people. If another call like it was first, that one's approval is returned.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when it is too large, or too many of the client wait; `INTERNAL` when it cannot be written.
    pub async fn ask(&self, approval: Approval) -> Result<Approval> {
        let size = serde_json::to_vec(&approval).map_or(usize::MAX, |bytes| bytes.len());
        if size > limits::APPROVAL_FILE.max {
            return Err(limits::APPROVAL_FILE.exceeded(ErrorCode::ApprovalDenied, size));
        }
        self.make_room(&approval.call.client).await?;
        if self.swap(&approval.id, None, Some(&approval)).await? {
            return Ok(self.tell(approval).await);
        }
        match self.find(&approval.id).await? {
            Some(other) if other.call == approval.call && other.standing(now_ms()) == Standing::Waits => Ok(other),
            _ => Err(Error::new(ErrorCode::ApprovalDenied, "another call like this one was decided meanwhile")
                .hint("make the call again")),
        }
    }

    /// Decides. Another decision about the same approval replaces it until its call is made. A denial also takes back what
    /// was allowed beside that call, whose approval may be used up.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such approval, it is used up or expired, or the reason is too long.
    pub async fn decide(&self, id: &str, choice: Choice<'_>) -> Result<Approval> {
        let Choice { is_allowed, by, reason } = choice;
        limits::DENIAL.check(reason.map_or(0, str::len))?;
        let decided = self.change(id, |approval| {
            let now = now_ms();
            let is_late = now > approval.until_ms;
            let over = match approval.standing(now) {
                Standing::Used if approval.is_for_more(now) => None,
                Standing::Used if !is_allowed && approval.has_further() => {
                    Some("is used up: its call was made; what was allowed beside it is taken back")
                }
                Standing::Used => Some("is used up: its call was made"),
                Standing::Expired => Some("has expired"),
                Standing::Denied if is_allowed && is_late => Some("was denied, and has expired"),
                Standing::Waits | Standing::Allowed | Standing::Denied => None,
            };
            if let Some(over) = over {
                let message = format!("approval {} {over}", approval.id);
                return Err(Error::new(ErrorCode::InvalidArgs, message).hint("resuming its run asks anew"));
            }
            let is_same = approval.decision.as_ref().is_some_and(|known| known.is_allowed == is_allowed);
            if !is_same {
                let reason = reason.map(str::to_owned);
                // One that waits for a person is decided for itself alone; what was allowed beside one keeps its scope.
                let scope = if approval.parent.is_none() { Scope::Once } else { approval.scope() };
                approval.decision = Some(Decision { reason, ..Decision::now(is_allowed, scope, by) });
            }
            Ok(())
        });
        let decided = decided.await;
        // Behind it: a denial that fails otherwise takes nothing back.
        if !is_allowed {
            let now = self.get(id).await?;
            if now.parent.is_none() && matches!(now.standing(now_ms()), Standing::Denied | Standing::Used) {
                self.revoke_further(id, by).await?;
            }
        }
        decided
    }

    /// Uses up an approval for a call that is about to be sent.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when it does not allow the call any more.
    pub async fn use_up(&self, id: &str, run: &str, op: u64) -> Result<()> {
        let used = self.change(id, |approval| match approval.standing(now_ms()) {
            Standing::Allowed if approval.is_for_all() => Ok(()),
            _ if approval.allows(run, now_ms()) => {
                approval.used = Some(Used { at_ms: now_ms(), run: run.to_owned(), op });
                Ok(())
            }
            standing => {
                let message = format!("approval {id} does not allow the call any more: {}", standing.word());
                Err(Error::new(ErrorCode::ApprovalDenied, message).hint("make the call again: it asks anew"))
            }
        });
        used.await.map(drop)
    }

    /// Gives back an approval whose call was not made.
    pub async fn give_back(&self, id: &str, run: &str, op: u64) {
        let given = self.change(id, |approval| {
            if approval.used.as_ref().is_some_and(|used| used.run == run && used.op == op) {
                approval.used = None;
            }
            Ok(())
        });
        given.await.map(drop).unwrap_or_else(|error| tracing::warn!(%error, "an approval stays used up"));
    }

    /// All approvals, oldest first, without those that cannot be read, which are logged: see [`Self::damaged`].
    ///
    /// # Errors
    /// `INTERNAL` when their folder cannot be read.
    pub async fn list(&self) -> Result<Vec<Approval>> {
        self.each(|approval| approval).await.map(|mut all| {
            all.sort_by(|a, b| (a.at_ms, &a.id).cmp(&(b.at_ms, &b.id)));
            all
        })
    }

    /// Result of `keep` for each approval, read one at a time.
    async fn each<T>(&self, keep: impl Fn(Approval) -> T) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for id in self.state.approvals(&self.folder).await? {
            all.extend(self.find(&id).await.ok().flatten().map(&keep));
        }
        Ok(all)
    }

    /// Approvals that cannot be read: the id of each, and its place.
    ///
    /// # Errors
    /// `INTERNAL` when their folder cannot be read.
    pub async fn damaged(&self) -> Result<Vec<(String, String)>> {
        let mut damaged = Vec::new();
        for id in self.state.approvals(&self.folder).await? {
            if self.find(&id).await.is_err() {
                let place = self.place(&id);
                damaged.push((id, place));
            }
        }
        Ok(damaged)
    }

    /// File of an approval.
    fn place(&self, id: &str) -> String {
        match self.state.is_shared() {
            true => format!("approval {id} of the store"),
            false => self.folder.join(id).with_extension("json").display().to_string(),
        }
    }

    /// One approval.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read, or is damaged.
    pub async fn find(&self, id: &str) -> Result<Option<Approval>> {
        let Some(bytes) = self.state.record(RecordKind::Approval, &self.folder, id).await? else { return Ok(None) };
        let read = parse(id, &bytes).inspect_err(|error| {
            let file = self.place(id);
            tracing::warn!(%error, file, "an approval is not used: remove it, and the run asks anew");
        });
        read.map(Some)
    }

    /// One approval, for people.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is none.
    pub async fn get(&self, id: &str) -> Result<Approval> {
        self.find(id).await?.ok_or_else(|| unknown(id))
    }

    /// Changes an approval as it is now.
    async fn change(&self, id: &str, change: impl Fn(&mut Approval) -> Result<()>) -> Result<Approval> {
        for _ in 0..TRIES {
            let before = self.get(id).await?;
            let mut after = before.clone();
            change(&mut after)?;
            if after == before || self.swap(id, Some(&before), Some(&after)).await? {
                return Ok(after);
            }
        }
        Err(Error::new(ErrorCode::Busy, format!("approval {id} is being changed by other processes")).hint("try again"))
    }

    async fn swap(&self, id: &str, before: Option<&Approval>, after: Option<&Approval>) -> Result<bool> {
        let bytes = |approval: &Approval| {
            serde_json::to_vec(approval).map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))
        };
        let (before, after) = (before.map(bytes).transpose()?, after.map(bytes).transpose()?);
        self.state.keep_record(RecordKind::Approval, &self.folder, id, before, after).await
    }

    /// Removes what is over, and checks that one more of a client may wait.
    async fn make_room(&self, client: &str) -> Result<()> {
        let now = now_ms();
        let facts = |approval: Approval| {
            let (standing, is_own) = (approval.standing(now), approval.call.client == client);
            (approval.at_ms, approval.ends_ms(), approval.id, standing, is_own)
        };
        let mut all = self.each(facts).await?;
        let waiting = all.iter().filter(|(.., standing, is_own)| *is_own && *standing == Standing::Waits).count();
        if waiting >= limits::APPROVALS_WAITING.max {
            let error = limits::APPROVALS_WAITING.exceeded(ErrorCode::ApprovalDenied, waiting + 1);
            return Err(error.hint("`forgefs approvals list` shows them: decide about them first"));
        }
        let forget = u64::try_from(self.forget.as_millis()).unwrap_or(u64::MAX);
        let mut excess = (all.len() + 1).saturating_sub(limits::APPROVALS_KEPT.max);
        all.retain(|(.., standing, _)| !matches!(standing, Standing::Waits | Standing::Allowed));
        all.sort();
        for (_, ends_ms, id, ..) in all {
            if excess > 0 || now > ends_ms.saturating_add(forget) {
                excess = excess.saturating_sub(1);
                // A decision that came meanwhile is kept.
                let is_over =
                    |approval: &Approval| !matches!(approval.standing(now), Standing::Waits | Standing::Allowed);
                let over = self.find(&id).await?.filter(is_over);
                self.swap(&id, over.as_ref(), None).await?;
            }
        }
        Ok(())
    }

    /// Tells people, and keeps the result. A failure is logged: the approval waits all the same.
    pub async fn tell(&self, approval: Approval) -> Approval {
        if self.notify.is_empty() {
            return approval;
        }
        let mut news = approval.shape(now_ms());
        news["allow"] = json!(format!("forgefs approvals allow {}", approval.id));
        let error = hook::tell(&self.notify, &news.to_string()).await.err();
        if let Some(error) = &error {
            tracing::warn!(error, approval = approval.id, "the notification of an approval that waits failed");
        }
        let told = Told { at_ms: now_ms(), error };
        let kept = self.change(&approval.id, |approval| {
            approval.told = Some(told.clone());
            Ok(())
        });
        kept.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the result of telling people is lost");
            approval
        })
    }
}

/// Id of the n-th approval of a call. Approvals of different calls may collide; the call itself decides.
fn id(call: &Call, number: usize) -> String {
    let text = stubgen::canonical_json(&json!([call, number]));
    let mut id = stubgen::digest(&text);
    id.truncate(ID);
    id
}

fn parse(id: &str, bytes: &[u8]) -> Result<Approval> {
    match serde_json::from_slice::<Approval>(bytes) {
        Ok(approval) if approval.version == VERSION && approval.id == id => Ok(approval),
        _ => {
            Err(Error::new(ErrorCode::Internal, format!("the file of approval {id} is damaged, or of another version"))
                .hint("the operator has to look at the log, and at `forgefs approvals list`"))
        }
    }
}

fn unknown(id: &str) -> Error {
    let id = base::text::brief(id);
    Error::new(ErrorCode::InvalidArgs, format!("there is no approval `{id}`"))
        .hint("`forgefs approvals list` lists those of this configuration")
}
