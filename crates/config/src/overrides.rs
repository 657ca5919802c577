//! Overrides of tools: the keys of `[servers.<name>.tools.<tool>]` that change how one tool is shown and called.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::error::ConfigError;
use super::key::Key;
use super::patterns::Matcher;
use super::raw::{RawAnnotations, RawTool};
use super::{Access, ToolRule};
use base::limits;

/// How one tool is shown and called, in place of its server's definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(default)]
pub struct Override {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Annotations by MCP's names; the others stay.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// Arguments that nothing shows and no caller can send.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub hide: BTreeSet<String>,
    /// The same, sent with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fixed: BTreeMap<String, Value>,
    /// Values of arguments that a caller leaves out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub default: BTreeMap<String, Value>,
    /// Keys that lead to the part of the structured result that stands for the whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<String>,
}

impl Override {
    /// Arguments that no caller sees.
    pub fn taken(&self) -> impl Iterator<Item = &String> {
        self.hide.iter().chain(self.fixed.keys().filter(|name| !self.hide.contains(*name)))
    }

    /// The keys that are set.
    pub fn keys(&self) -> Vec<&'static str> {
        let Self { name, description, annotations, hide, fixed, default, result } = self;
        let keys = [
            ("name", name.is_some()),
            ("description", description.is_some()),
            ("annotations", !annotations.is_empty()),
            ("hide", !hide.is_empty()),
            ("fixed", !fixed.is_empty()),
            ("default", !default.is_empty()),
            ("result", !result.is_empty()),
        ];
        keys.into_iter().filter_map(|(key, is_set)| is_set.then_some(key)).collect()
    }

    /// Rows for [`Widened`](super::Widened): keys, and whether their change is more than hiding further arguments.
    pub(super) fn widened_by(&self, next: &Self) -> [(&'static str, &'static str, bool); 7] {
        let taken: BTreeSet<&String> = next.taken().collect();
        let is_other = |(name, value): (&String, &Value)| next.fixed.get(name) != Some(value);
        [
            ("hide", "changed", !self.taken().all(|name| taken.contains(name))),
            ("fixed", "changed", self.fixed.iter().any(is_other)),
            ("name", "changed", self.name != next.name),
            ("description", "changed", self.description != next.description),
            ("annotations", "changed", self.annotations != next.annotations),
            ("default", "changed", self.default != next.default),
            ("result", "changed", self.result != next.result),
        ]
    }
}

/// Parses the override of one entry; `None` without one.
pub(super) fn parse(key: &Key<'_>, raw: &mut RawTool) -> Result<Option<Override>, ConfigError> {
    let given = |name: &str, given: Option<BTreeMap<String, Value>>| {
        key.key(name).entries(given.unwrap_or_default(), |key, value| expand(key, value))
    };
    let found = Override {
        name: key.given("name", raw.name.take(), Key::filled)?,
        description: key.given("description", raw.description.take(), Key::filled)?,
        annotations: key.given("annotations", raw.annotations.take(), annotations)?.unwrap_or_default(),
        hide: key.key("hide").each(raw.hide.take(), Key::expanded)?,
        fixed: given("fixed", raw.fixed.take())?,
        default: given("default", raw.default.take())?,
        result: key.given("result", raw.result.take(), keys)?.unwrap_or_default(),
    };
    let set = found.keys();
    let Some(first) = set.first() else { return Ok(None) };
    if key.name().contains(['*', '?', '[', '{']) {
        let error = key.key(first).at_key("changes one tool, and this entry is for a pattern");
        return Err(error.with_hint("write an entry with the tool's full name"));
    }
    let refused = |name: &str, what: String, hint: &str| Err(key.key(name).at_value(what).with_hint(hint));
    if !found.name.as_deref().is_none_or(is_name) {
        let form = "write 1 to 128 letters, digits, `_`, `-`, `.` and `/`";
        return refused("name", "not usable as the name of a tool".to_owned(), form);
    }
    if let Some(both) = found.taken().find(|name| found.default.contains_key(*name)) {
        let what = format!("`{both}` is hidden");
        return refused("default", what, "a hidden argument gets its value by `fixed`");
    }
    Ok(Some(found))
}

/// True for a name that MCP recommends.
fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/');
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

fn annotations(key: &Key<'_>, raw: RawAnnotations) -> Result<Map<String, Value>, ConfigError> {
    let RawAnnotations { title, read_only, destructive, idempotent, open_world } = raw;
    let flags = [
        ("readOnlyHint", read_only),
        ("destructiveHint", destructive),
        ("idempotentHint", idempotent),
        ("openWorldHint", open_world),
    ];
    let flags = flags.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), Value::Bool(flag?))));
    let title = key.given("title", title, Key::expanded)?;
    Ok(title.map(|title| ("title".to_owned(), Value::String(title))).into_iter().chain(flags).collect())
}

/// Expands references in a value.
fn expand(key: &Key<'_>, value: Value) -> Result<Value, ConfigError> {
    Ok(match value {
        Value::String(text) => key.expanded(text)?.into(),
        Value::Array(items) => items.into_iter().map(|item| expand(key, item)).collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let field = |(name, value)| Ok((name, expand(key, value)?));
            fields.into_iter().map(field).collect::<Result<_, _>>()?
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    })
}

/// Keys of a path: `data.items`, or a JSON Pointer.
fn keys(key: &Key<'_>, path: String) -> Result<Vec<String>, ConfigError> {
    let path = key.filled(path)?;
    let keys: Vec<String> = match path.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect(),
        None => path.split('.').map(str::to_owned).collect(),
    };
    match keys.len() <= limits::OVERRIDE_PATH.max && keys.iter().all(|key| !key.is_empty()) {
        true => Ok(keys),
        false => Err(key
            .at_value("not a path into the result")
            .with_hint("write keys like \"data.items\", or a JSON Pointer like \"/data/items\"")),
    }
}

/// Refuses overrides whose new name would escape from the server's other entries, which are for the names that are shown.
pub(super) fn check_names(
    key: &Key<'_>,
    overrides: &BTreeMap<String, Override>,
    access: &Access,
    rules: &[ToolRule],
) -> Result<(), ConfigError> {
    let mut names = BTreeMap::new();
    let renamed = overrides.iter().filter_map(|(tool, by)| Some((tool, by.name.as_ref()?)));
    for (tool, name) in renamed {
        let at = key.key("tools").key(tool).key("name");
        if let Some(other) = names.insert(name, tool) {
            return Err(at.at_value(format!("`{other}` has this name already")));
        }
        let escapes = |matcher: &Matcher| matcher.is_match(tool) && !matcher.is_match(name);
        let in_force = |rule: &&ToolRule| rule.has_rules() && escapes(&rule.tools.matcher());
        let entry = match rules.iter().find(in_force) {
            _ if escapes(&access.deny.matcher()) => Some("`deny`".to_owned()),
            Some(rule) => Some(format!("`tools.\"{}\"`", rule.tools.entries().join(","))),
            None => None,
        };
        if let Some(entry) = entry {
            let what = format!("{entry} is for `{tool}`, and not for this name");
            return Err(at.at_value(what).with_hint("entries count for the names that are shown: name it there"));
        }
    }
    Ok(())
}

impl ToolRule {
    /// True if it sets something besides the override.
    pub(super) fn has_rules(&self) -> bool {
        let Self { tools: _, rate, cost, approval, only_from } = self;
        rate.is_some() || cost.is_some() || approval.is_some() || only_from.is_some()
    }
}
