//! `forgefs approvals`: calls that wait for approval, and decisions about them.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::records::{self, LAST};
use super::style::{Cell, Role, Table};
use super::times::Times;
use super::{Failure, Format, Global, Ui, shapes};
use base::principal::LOCAL;
use base::time::now_ms;
use catalog::people;
use run::approvals::{Approval, Approvals, Choice, Scope, Standing};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List the calls that wait for approval
    List {
        /// Those that are decided, used up or expired too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        times: Times,
    },
    /// Show a call whole: who asks, why, and every argument
    Show(Which),
    /// Allow one call: the run makes it once when it is resumed
    Allow {
        #[command(flatten)]
        which: Which,
        /// All calls of this tool in the run, with any arguments, that need approval for the same reasons
        #[arg(long)]
        run: bool,
    },
    /// Deny one call to its run, and the runs that resume it
    Deny {
        #[command(flatten)]
        which: Which,
        /// Why, for the agent
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Args)]
pub(super) struct Which {
    /// Its id, or the beginning of it; `last` is the newest, and to decide the only one that waits
    id: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    times: Times,
}

impl Which {
    /// Its whole id. `is_decided` where the answer counts: another call may have come since a person saw the last one.
    async fn whole(&self, approvals: &Approvals, by: Option<&str>, is_decided: bool) -> Result<String, Failure> {
        let mut all = approvals.list().await?;
        all.retain(|approval| by.is_none_or(|by| by == approval.call.client));
        if is_decided && self.id == LAST {
            let now = now_ms();
            all.retain(|approval| approval.standing(now) == Standing::Waits);
            if all.len() > 1 {
                return Err(Failure::usage(format!("{} calls wait for approval", all.len()))
                    .hint("name one: `forgefs approvals list` shows them"));
            }
        }
        let is_meant = |id: &str| id.starts_with(&self.id);
        if !all.iter().any(|approval| is_meant(&approval.id))
            && let Some((id, file)) = approvals.damaged().await?.into_iter().find(|(id, _)| is_meant(id))
        {
            return Err(Failure::internal(format!("approval {id} is damaged, or of another version: {file}"))
                .hint("remove it: the run asks anew"));
        }
        // One that no id begins with is told of by the list itself.
        let is_other = |approval: &Approval| !is_meant(&approval.id) || approval.id == self.id;
        if self.id != LAST && by.is_none() && all.iter().all(is_other) {
            return Ok(self.id.clone());
        }
        Ok(records::one(all, |approval| &approval.id, &self.id, ["approval", "approvals"])?.id)
    }
}

pub(super) async fn approvals(global: &Global, command: Command, ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    let by = global.only()?;
    let by = by.as_deref();
    let state = state::open(&config)?;
    let Some(approvals) = Approvals::new(&config, &state) else {
        return Err(Failure::usage("approvals need a home folder to be kept in").hint("set HOME, or XDG_STATE_HOME"));
    };
    let now = now_ms();
    let (which, approval) = match command {
        Command::List { all, format, times } => {
            let mut listed = approvals.list().await?;
            listed.retain(|approval| all || approval.standing(now) == Standing::Waits);
            listed.retain(|approval| by.is_none_or(|by| by == approval.call.client));
            // The client of a damaged one is not known.
            let damaged = if by.is_none() { approvals.damaged().await? } else { Vec::new() };
            list(&listed, &damaged, approvals.wait().is_some(), (format, times), ui);
            return Ok(0);
        }
        Command::Show(which) => {
            let approval = approvals.get(&which.whole(&approvals, by, false).await?).await?;
            (which, approval)
        }
        Command::Allow { which, run } => {
            let (id, by) = (which.whole(&approvals, by, true).await?, people::user());
            let approval = match run {
                true => approvals.allow_run(&id, &by).await?,
                false => approvals.decide(&id, Choice { is_allowed: true, by: &by, reason: None }).await?,
            };
            (which, approval)
        }
        Command::Deny { which, reason } => {
            let (id, by) = (which.whole(&approvals, by, true).await?, people::user());
            let choice = Choice { is_allowed: false, by: &by, reason: reason.as_deref() };
            let approval = approvals.decide(&id, choice).await?;
            (which, approval)
        }
    };
    let now = now_ms();
    which.format.out(json!({ "approval": approval.shape(now) }), &show(&approval, now, which.times), ui);
    Ok(0)
}

fn list(listed: &[Approval], damaged: &[(String, String)], do_wait: bool, (format, times): (Format, Times), ui: Ui) {
    let now = now_ms();
    if format.json {
        let listed: Vec<Value> = listed.iter().map(|approval| approval.shape(now)).collect();
        let damaged: Vec<Value> = damaged.iter().map(|(id, file)| json!({ "id": id, "file": file })).collect();
        return shapes::print(json!({ "approvals": listed, "damaged": damaged }), ui);
    }
    let mut table = Table::new(["ID", "STATE", "CALL", "CLIENT", "TIME", "NOTE"], &[], &[2, 5]);
    listed.iter().for_each(|approval| table.push(row(approval, now, times)));
    for (id, file) in damaged {
        let [state, note] = ["damaged", file].map(|text| Cell::new(Role::Failed, text));
        let unknown = || Cell::plain("");
        table.push([Cell::plain(id), state, unknown(), unknown(), unknown(), note]);
    }
    ui.table(&table);
    if listed.is_empty() && damaged.is_empty() {
        ui.note(match do_wait {
            true => "no call waits for approval",
            false => "no call waits for approval: `wait = \"24h\"` in [approvals] of forge.toml turns waiting on",
        });
    }
}

/// An approval in a table.
fn row(approval: &Approval, now: u64, times: Times) -> [Cell; 6] {
    let Approval { id, call, label, told, .. } = approval;
    let standing = approval.standing(now);
    let role = match standing {
        Standing::Waits => Role::Waiting,
        Standing::Allowed | Standing::Used => Role::Good,
        Standing::Denied | Standing::Expired => Role::Failed,
    };
    let failed =
        told.as_ref().and_then(|told| told.error.as_ref()).map(|error| format!("notification failed: {error}"));
    [
        Cell::plain(id),
        Cell::new(role, standing.word()),
        Cell::new(Role::Destructive, label),
        Cell::plain(&call.client),
        Cell::plain(&ends(approval, now, times)),
        Cell::new(Role::Failed, &failed.unwrap_or_default()),
    ]
}

/// Time at which it ends or ended.
fn ends(approval: &Approval, now: u64, times: Times) -> String {
    let at = times.ago(approval.ends_ms());
    let left = approval.ends_ms().saturating_sub(now).div_ceil(60_000).max(1);
    let left = if left < 60 { format!("{left} min left") } else { format!("{} h left", left / 60) };
    match approval.standing(now) {
        Standing::Waits | Standing::Allowed if times.is_absolute() => format!("until {at} ({left})"),
        Standing::Waits | Standing::Allowed => left,
        Standing::Expired => format!("expired {at}"),
        Standing::Denied | Standing::Used => {
            let used = approval.used.as_ref().map(|used| used.at_ms);
            let decided = approval.decision.as_ref().map(|decision| decision.at_ms);
            used.or(decided).map(|ms| times.ago(ms)).unwrap_or_default()
        }
    }
}

/// All that a person decides by: who asks, then the question as a client would show it, then what became of it.
fn show(approval: &Approval, now: u64, times: Times) -> String {
    let Approval { id, asker, call, told, decision, used, .. } = approval;
    let called = asker.client_name.as_ref().map(|name| format!(", which calls itself {}", people::quoted(name)));
    let mut shown = String::new();
    let mut put = |name: &str, value: &str| shown.push_str(&format!("{name:<9}{value}\n"));
    put("approval", id);
    put("state", &format!("{}, {}", approval.standing(now).word(), ends(approval, now, times)));
    put("client", &format!("{}{}", people::line(&call.client), called.unwrap_or_default()));
    put("session", &people::line(&asker.session));
    put("run", &format!("{}, asked at {}", people::line(&asker.run), times.at(approval.at_ms)));
    if let Some(told) = told {
        let error = told.error.as_ref().map(|error| format!("failed: {}", people::line(error)));
        put("told", &error.unwrap_or_else(|| times.at(told.at_ms)));
    }
    if let Some(decision) = decision {
        let word = if decision.is_allowed { "allowed" } else { "denied" };
        let scope = match decision.covers() {
            Scope::Once => "",
            Scope::Run => ", for the run",
            Scope::Plan => ", for the plan",
        };
        put(word, &format!("at {} by {}{scope}", times.at(decision.at_ms), people::line(&decision.by)));
        if let Some(reason) = &decision.reason {
            put("reason", &people::line(reason));
        }
    }
    if let Some(used) = used {
        put("used", &format!("at {} by call {} of run {}", times.at(used.at_ms), used.op, people::line(&used.run)));
    }
    // The renderer of questions has made its lines safe.
    shown.push_str(&format!("\n{}\n", approval.question));
    match approval.standing(now) {
        Standing::Waits => shown.push_str(&format!("\ndecide: `forgefs approvals allow {id}`, or `deny {id}`\n")),
        Standing::Allowed => {
            let run = people::line(&asker.run);
            let here = if call.client == LOCAL { format!(", or `forgefs run --resume {run}`") } else { String::new() };
            shown.push_str(&format!("\nnext: the agent resumes with execute(resume=\"{run}\"){here}\n"));
        }
        Standing::Denied | Standing::Used | Standing::Expired => {}
    }
    shown
}
