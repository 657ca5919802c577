//! Texts of a quarantined tool: its path, the reason, and the reviewed text if there is one. For its stub see
//! [`ServerEntry::pinned`].

use serde_json::Value;
use stubgen::{Observed, ToolStub, View};

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
    match held.is_reviewed {
        true => format!("{head}{mark}{AS_REVIEWED}\n\n{}", stub.view(view, None)),
        false => head,
    }
}

fn json(stub: &ToolStub, held: &Quarantined) -> String {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let (name, reason) = (quoted(&stub.ident), quoted(&held.reason));
    let reviewed = if held.is_reviewed {
        format!(",\n\"reviewed\": {}", stub.view(View::Json, None).trim_end())
    } else {
        String::new()
    };
    format!("{{\n\"name\": {name},\n\"quarantined\": {reason}{reviewed}\n}}\n")
}

/// The file of all signatures, with a line for each quarantined tool.
pub(super) fn init(entry: &ServerEntry, observed: impl Fn(&ToolStub) -> Option<Observed>) -> String {
    let is_held = |tool: &ToolStub| entry.quarantine.contains_key(&tool.ident);
    let text = entry.stubs.init_pyi(|tool| observed(tool).filter(|seen| seen.schema.is_some() && !is_held(tool)));
    if entry.quarantine.is_empty() {
        return text;
    }
    let held = entry.quarantine.iter().map(|(tool, held)| format!("# {tool}: {held}\n"));
    format!("{}\n{}", text.trim_end(), held.collect::<String>())
}
