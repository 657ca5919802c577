//! Names of servers in scripts and paths, which a new server may change.

use crate::Edit;

/// Names of servers in scripts and paths.
pub struct Names {
    /// The new server's.
    pub identifier: String,
    /// Names that differ from the configuration's, or differ from now on.
    pub notes: Vec<String>,
}

impl Names {
    /// Names after the server `new` is added to a file.
    pub fn of(edit: &Edit<'_>, new: &str) -> Self {
        let old: Vec<&str> = edit.servers().map(|(name, _)| name.as_str()).collect();
        let before = stubgen::assign_idents(&old);
        let all: Vec<&str> = old.iter().copied().chain([new]).collect();
        let mut after = stubgen::assign_idents(&all);
        let identifier = after.pop().unwrap_or_default();
        let mut notes = Vec::new();
        if identifier != new {
            notes.push(format!("scripts and paths call {new} `{identifier}`: {identifier}.TOOL(…), /{identifier}/"));
        }
        for ((name, before), after) in old.iter().zip(before).zip(after).filter(|((_, before), after)| before != after)
        {
            notes.push(format!("scripts and paths call {name} `{after}` from now on, not `{before}`"));
        }
        Self { identifier, notes }
    }
}
