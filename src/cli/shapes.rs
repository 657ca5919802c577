//! JSON of the commands that print data: one shape each, which `docs/json.md` shows.

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value, json};

use super::Failure;
use super::ui::Ui;
use redact::{Outgoing as _, Surface};
use server::gateway::Gateway;

/// Option of a command that prints data.
#[derive(Args, Clone, Copy)]
pub(super) struct Format {
    /// Print one JSON object, errors too
    #[arg(long)]
    pub(super) json: bool,
}

impl Format {
    /// Prints the object with `--json`, else the note.
    pub(super) fn tell(self, object: Value, note: &str, ui: Ui) {
        if self.json { print(object, ui) } else { ui.note(note) }
    }

    /// Prints the object of an edit with `--json`; with the failure, if what follows the edit failed.
    pub(super) fn followed(self, mut object: Value, by: Result<(), Failure>, ui: Ui) -> Result<u8, Failure> {
        match by {
            Err(failure) if self.json => {
                (object["ok"], object["error"]) = (false.into(), json!(failure));
                print(object, ui);
                Ok(failure.exit)
            }
            by => {
                if self.json {
                    print(object, ui);
                }
                by.map(|()| 0)
            }
        }
    }

    /// Prints the object with `--json`, else the text.
    pub(super) fn out(self, object: Value, text: &str, ui: Ui) {
        if self.json { print(object, ui) } else { ui.out(text) }
    }
}

/// Prints an object as `{"ok": true, …}`.
pub(super) fn print(object: Value, ui: Ui) {
    ui.json(&whole(object));
}

/// An object as `{"ok": true, …}`.
pub(super) fn whole(object: Value) -> String {
    let mut whole = Map::from_iter([("ok".to_owned(), true.into())]);
    if let Value::Object(object) = object {
        whole.extend(object);
    }
    Value::Object(whole).to_string()
}

/// An edit of one server in the configuration. `enabled` is its state after it, `None` if it is removed; `backup` is the
/// file as it was.
pub(super) fn edit(config: &str, name: &str, enabled: Option<bool>, changed: bool, backup: Option<&Path>) -> Value {
    let backup = backup.map(|path| path.display().to_string());
    json!({ "config": config, "name": name, "enabled": enabled, "changed": changed, "backup": backup })
}

/// Like [`whole`], with texts of servers, redacted as for the agent.
pub(super) fn foreign(gateway: &Gateway, object: Value) -> String {
    whole(object.redacted(Surface::Answer(gateway.config().redaction)))
}

/// Prints a failure as `{"ok": false, "error": …}`.
pub(super) fn failure(failure: &Failure, ui: Ui) {
    ui.json(&json!({ "ok": false, "error": failure }).to_string());
}

/// State of the daemon, if one runs.
pub(super) fn daemon(place: &server::daemon::Place, state: Option<&Value>) -> Value {
    let mut shown = json!({
        "running": state.is_some(),
        "config": place.config,
        "socket": place.socket(),
        "log": place.log(),
    });
    for key in ["pid", "version", "uptime_secs", "idle_exit_secs", "clients", "servers"] {
        shown[key] = state.map_or(Value::Null, |state| state[key].clone());
    }
    shown
}
