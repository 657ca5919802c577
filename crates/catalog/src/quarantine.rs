//! Texts of a quarantined tool: its path, the reason, and the reviewed text if there is one. For its stub see
//! [`ServerEntry::pinned`].

use std::borrow::Cow;

use serde_json::Value;
use stubgen::{Observed, ToolStub};

use super::View;
use crate::manifest::{Quarantined, ServerEntry};

/// Heading of a reviewed text.
const AS_REVIEWED: &str = "This is how it was when it was reviewed:";

/// One file of the tool.
pub(super) fn view(stub: &ToolStub, held: &Quarantined, view: View) -> String {
    let mark = match view {
        View::Pyi => "# ",
        View::Dts => "// ",
        View::Md => "",
        View::Json => return json(stub, held),
    };
    let head = format!("{mark}{}.{}\n{mark}{held}\n", stub.server, stub.ident);
    let text = match view {
        _ if !held.is_reviewed => return head,
        View::Dts => stub.dts(),
        View::Md => stub.md(),
        View::Pyi | View::Json => stub.pyi.clone(),
    };
    format!("{head}{mark}{AS_REVIEWED}\n\n{text}")
}

fn json(stub: &ToolStub, held: &Quarantined) -> String {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let (name, reason) = (quoted(&stub.ident), quoted(&held.reason));
    let reviewed =
        if held.is_reviewed { format!(",\n\"reviewed\": {}", stub.json().trim_end()) } else { String::new() };
    format!("{{\n\"name\": {name},\n\"quarantined\": {reason}{reviewed}\n}}\n")
}

/// The file of all signatures, with a line for each quarantined tool.
pub(super) fn init(entry: &ServerEntry, observed: impl Fn(&ToolStub) -> Option<Observed>) -> Cow<'_, str> {
    let seen = |tool: &ToolStub| observed(tool).filter(|_| !entry.quarantine.contains_key(&tool.ident));
    let is_seen = |tool: &ToolStub| seen(tool).is_some_and(|observed| observed.schema.is_some());
    let text: Cow<'_, str> = match entry.stubs.tools.iter().any(is_seen) {
        true => entry.stubs.init_pyi_with(seen).into(),
        false => entry.stubs.init_pyi.as_str().into(),
    };
    if entry.quarantine.is_empty() {
        return text;
    }
    let held = entry.quarantine.iter().map(|(tool, held)| format!("# {tool}: {held}\n"));
    format!("{}\n{}", text.trim_end(), held.collect::<String>()).into()
}
