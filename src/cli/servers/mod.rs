//! `forgefs add`, `remove`, `enable`, `disable` and `list`: the servers of the configuration file.

mod add;
mod list;
mod target;
mod tried;

use std::cell::Cell;

use clap::Args;

use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
pub(super) use target::{RELOAD, Target, tell_backup};

pub(super) use add::{AddArgs, How, Origin, add};
pub(super) use list::{ListArgs, list};
pub(super) use tried::faults;

#[derive(Args)]
pub(super) struct NameArgs {
    /// Name of the server
    name: String,
    #[command(flatten)]
    pub(super) format: Format,
}

pub(super) fn remove(global: &Global, args: &NameArgs, ui: Ui) -> Result<u8, Failure> {
    let (name, target) = (&args.name, Target::existing(global)?);
    let backup = target.edit(|edit| edit.without(&[name]).map(Some))?;
    if args.format.json {
        shapes::print(shapes::edit(&target.shown(), name, None, true, backup.as_deref()), ui);
        return Ok(0);
    }
    ui.note(&format!("removed {name} from {}", target.shown()));
    target::tell_backup(backup.as_deref(), ui);
    Ok(0)
}

pub(super) fn switch(global: &Global, args: &NameArgs, on: bool, ui: Ui) -> Result<u8, Failure> {
    let (name, target) = (&args.name, Target::existing(global)?);
    let (is_edited, was) = (Cell::new(false), Cell::new(None));
    let backup = target.edit(|edit| {
        let text = edit.switched(name, on)?;
        is_edited.set(text.is_some());
        was.set(edit.is_on(name));
        Ok(text)
    })?;
    if args.format.json {
        shapes::print(shapes::edit(&target.shown(), name, Some(on), is_edited.get(), backup.as_deref()), ui);
        return Ok(0);
    }
    let (word, file) = (if on { "enabled" } else { "disabled" }, target.shown());
    match (is_edited.get(), was.get()) {
        (true, Some(_)) => ui.note(&format!("{word} {name} in {file}")),
        (true, None) => {
            ui.note(&format!("{word} {name} in {file}: wrote `enabled = {on}` over a value that is not true or false"));
        }
        (false, _) => ui.note(&format!("{name} is {word} in {file} already; nothing was changed")),
    }
    target::tell_backup(backup.as_deref(), ui);
    if on {
        ui.note(target::RELOAD);
    }
    Ok(0)
}
