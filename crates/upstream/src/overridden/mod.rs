//! The overrides of a server's tools: definitions are changed as they are listed, and calls as they are sent, so that
//! everything above knows the tools as the operator wants them.

mod definition;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::mcp::request::parsed;
use super::{Answer, Block, Listing, Operation, Progress, ToolAnswer};
use crate::link::{Link, Rounds};
use base::error::{Effect, Error, ErrorCode, Result};
use base::text::head;
use config::Override;

/// Most overrides without a tool that are told.
const MAX_NOTES: usize = 8;

/// The overrides of one server.
#[derive(Debug)]
pub(super) struct Overrides {
    /// By the server's name of the tool.
    by_tool: BTreeMap<String, Override>,
    /// The server's name of each tool that has another one here.
    renamed: HashMap<String, String>,
}

impl Overrides {
    pub(super) fn new(by_tool: &BTreeMap<String, Override>) -> Self {
        let renamed = by_tool.iter().filter_map(|(tool, by)| Some((by.name.clone()?, tool.clone())));
        Self { renamed: renamed.collect(), by_tool: by_tool.clone() }
    }

    /// The server's name of a tool, and its override.
    fn of<'o>(&'o self, shown: &'o str) -> Option<(&'o str, &'o Override)> {
        let tool = self.renamed.get(shown).map_or(shown, String::as_str);
        let by = self.by_tool.get(tool)?;
        (by.name.as_deref().unwrap_or(tool) == shown).then_some((tool, by))
    }

    /// Changes the definitions of a list. Of a tool whose override does not fit only the name remains, with the reason.
    /// Returns the new names that other tools have beside it: they are not for the renamed tools.
    pub(super) fn listing(&self, mut listing: Listing) -> (Listing, BTreeSet<String>) {
        if self.by_tool.is_empty() {
            listing.tools.iter_mut().for_each(definition::unmark);
            return (listing, BTreeSet::new());
        }
        let listed: HashSet<String> = listing.tools.iter().filter_map(name_of).map(str::to_owned).collect();
        let is_taken = |tool: &str, name: &String| name != tool && listed.contains(name);
        for tool in &mut listing.tools {
            let Some((name, by)) = name_of(tool).and_then(|name| self.by_tool.get_key_value(name)) else {
                definition::unmark(tool);
                continue;
            };
            let (own, taken) = (by.name.as_ref(), by.name.as_ref().filter(|own| is_taken(name, own)));
            let changed = match taken {
                Some(own) => Err(format!("the server has a tool `{own}` of its own")),
                None => definition::changed(tool, by),
            };
            *tool = changed.unwrap_or_else(|why| {
                let shown = own.filter(|_| taken.is_none()).unwrap_or(name);
                listing.misfits.insert(shown.clone(), format!("the override of `{name}` does not fit it: {why}"));
                json!({ "name": shown })
            });
        }
        let missing = self.by_tool.keys().filter(|tool| !listed.contains(*tool));
        let note =
            |tool: &String| format!("the override of `{tool}` is for no tool: the server lists none of this name");
        listing.notes.extend(missing.take(MAX_NOTES).map(note));
        let taken = self.renamed.iter().filter(|(name, tool)| is_taken(tool, name)).map(|(name, _)| name.clone());
        (listing, taken.collect())
    }

    /// Performs an operation on a connection: of a tool with an override, a call of the tool behind it. `taken` are the new
    /// names that the server has for other tools.
    pub(super) async fn call(
        &self,
        link: &dyn Link,
        taken: &BTreeSet<String>,
        operation: &Operation,
        progress: &Progress,
        rounds: &dyn Rounds,
    ) -> Result<Answer> {
        let Operation::Tool { name, definition, arguments, repeatable } = operation else {
            return link.call(operation, progress, rounds).await;
        };
        let Some((tool, by)) = self.of(name).filter(|_| !taken.contains(name)) else {
            return link.call(operation, progress, rounds).await;
        };
        let arguments = sent(name, by, arguments).map_err(Error::without_effect)?;
        let (name, definition, repeatable) = (tool.to_owned(), definition.clone(), *repeatable);
        let sent = Operation::Tool { name, definition, arguments, repeatable };
        match link.call(&sent, progress, rounds).await? {
            Answer::Tool(answer) => {
                let part = part(answer, &by.result, progress).await;
                part.map(Answer::Tool).map_err(|error| error.with_effect(Effect::Done))
            }
            other => Ok(other),
        }
    }
}

fn name_of(tool: &Value) -> Option<&str> {
    tool.get("name").and_then(Value::as_str)
}

/// The arguments that the server gets.
fn sent(shown: &str, by: &Override, given: &Map<String, Value>) -> Result<Map<String, Value>> {
    if let Some(hidden) = by.taken().find(|name| given.contains_key(*name)) {
        let what = format!("{shown} has no argument `{}`", head(hidden, 100));
        return Err(Error::new(ErrorCode::InvalidArgs, what));
    }
    let left_out = by.default.iter().filter(|(name, _)| !given.contains_key(*name));
    let added = by.fixed.iter().chain(left_out).map(|(name, value)| (name.clone(), value.clone()));
    Ok(given.clone().into_iter().chain(added).collect())
}

/// The part of an answer that a path leads to, in place of the whole.
async fn part(answer: ToolAnswer, path: &[String], progress: &Progress) -> Result<ToolAnswer> {
    if path.is_empty() || answer.failed.is_some() {
        return Ok(answer);
    }
    let (texts, others): (Vec<Block>, Vec<Block>) =
        answer.content.into_iter().partition(|block| matches!(block, Block::Text(_)));
    let whole = match (answer.structured, texts.as_slice()) {
        (None, [Block::Text(text)]) => parsed(text.as_bytes(), progress)
            .await
            .map_err(|why| Error::new(ErrorCode::BudgetExceeded, format!("the answer is too large: {why}")))?,
        (structured, _) => structured,
    };
    let found = path.iter().try_fold(whole.unwrap_or_default(), |whole, key| match whole {
        Value::Object(mut fields) => fields.swap_remove(key),
        Value::Array(mut items) => {
            key.parse().ok().filter(|at: &usize| *at < items.len()).map(|at| items.swap_remove(at))
        }
        _ => None,
    });
    let Some(part) = found else {
        let what = format!("the answer has no `{}`, which the tool's override takes for the result", path.join("."));
        return Err(Error::new(ErrorCode::UpstreamError, what).hint("the operator can change `result` in forge.toml"));
    };
    Ok(ToolAnswer { structured: Some(part), content: others, ..answer })
}
