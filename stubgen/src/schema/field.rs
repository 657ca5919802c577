//! A property of an object, with the parts of its schema beside the type.

use serde_json::{Map, Value};

use super::{Ty, clause, get};
use crate::text;

/// Most words of a description that is a comment.
const MAX_FEW: usize = 6;
/// Most bytes of a description that are looked at for a comment.
const MAX_LOOKED: usize = 400;
/// Longest list of columns in a comment.
const MAX_COLUMNS: usize = 80;

/// One property.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    pub(crate) wire: &'a str,
    pub(crate) ty: Ty,
    pub(crate) required: bool,
    /// Schemas of the property, nearest first.
    facets: Vec<&'a Map<String, Value>>,
    /// Type of the JSON that a text contains.
    pub(crate) json: Option<Ty>,
}

impl<'a> Field<'a> {
    pub(crate) fn new(wire: &'a str, ty: Ty, required: bool, mut facets: Vec<&'a Map<String, Value>>) -> Field<'a> {
        // `anyOf: [X, null]`: X describes the property.
        for at in 0..facets.len() {
            for (keyword, members) in facets[at] {
                let Value::Array(members) = members else { continue };
                if keyword != "anyOf" && keyword != "oneOf" {
                    continue;
                }
                let mut real = members.iter().filter(|member| member.get("type") != Some(&Value::from("null")));
                if let (Some(Value::Object(only)), None) = (real.next(), real.next()) {
                    facets.push(only);
                }
            }
        }
        Field { wire, ty, required, facets, json: None }
    }

    /// Schema of the JSON that a text contains.
    pub(super) fn json_schema(&self) -> Option<&'a Value> {
        let schema = self.first("contentSchema")?;
        (self.first("contentMediaType")? == "application/json").then_some(schema)
    }

    /// Contents of a text, in few words.
    pub(crate) fn contents(&self, ty: impl FnOnce(&Ty) -> String) -> Option<String> {
        let contents = match &self.json {
            Some(json) => Some(format!("JSON of {}", text::cut(&ty(json), MAX_COLUMNS))),
            None => {
                let mut texts = self.facets.iter().filter(|facet| facet.contains_key("contentMediaType"));
                texts.find_map(|facet| noted(facet, MAX_COLUMNS).or_else(|| columns(facet)))
            }
        };
        contents.filter(|contents| !text::is_directive(contents))
    }

    fn first(&self, keyword: &str) -> Option<&'a Value> {
        self.facets.iter().find_map(|facet| get(facet, keyword))
    }

    pub(crate) fn default(&self) -> Option<&'a Value> {
        self.first("default")
    }

    /// The default to show: `null` only means that the property is optional.
    pub(crate) fn shown_default(&self) -> Option<&'a Value> {
        self.default().filter(|value| !value.is_null())
    }

    /// Description on one line.
    fn description(&self) -> Option<String> {
        let said = self.facets.iter().filter_map(|facet| get(facet, "description")?.as_str());
        said.map(text::one_line).find(|line| !line.is_empty())
    }

    /// A description of a few words that says more than the name, else its clause on how the value is written, for a
    /// comment of at most `most` columns.
    pub(crate) fn few_words(&self, most: usize) -> Option<String> {
        let line = self.beginning()?;
        if line.split(' ').count() > MAX_FEW || text::width(&line) > most {
            return self.how_written(most);
        }
        let known = self.wire.to_lowercase();
        let says = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            word.len() > 3 && !known.contains(word.trim_end_matches('s'))
        };
        (line.split(' ').any(says) && is_plain(&line)).then_some(line)
    }

    /// The description's clause on how the value is written, unless the type or a constraint says it.
    pub(crate) fn how_written(&self, most: usize) -> Option<String> {
        if shows_values(&self.ty) || ["format", "pattern"].iter().any(|keyword| self.first(keyword).is_some()) {
            return None;
        }
        clause::how_written(&self.beginning()?, most).filter(|clause| is_plain(clause))
    }

    /// The beginning of the description on one line.
    fn beginning(&self) -> Option<String> {
        let said = self.facets.iter().find_map(|facet| get(facet, "description")?.as_str())?;
        let mut line = text::one_line(text::head(said, MAX_LOOKED));
        line.truncate(line.trim_end_matches('.').len());
        if said.len() > MAX_LOOKED {
            line.push('…');
        }
        Some(line)
    }

    /// Description, unless it exceeds the rest of the limit for all of them.
    pub(crate) fn described(&self, left: &mut usize) -> Option<String> {
        if *left == 0 {
            return None;
        }
        let description = self.description()?;
        let rest = left.checked_sub(description.len());
        *left = rest.unwrap_or(0);
        rest.map(|_| description)
    }

    pub(crate) fn examples(&self) -> Vec<&'a Value> {
        match self.first("examples") {
            Some(Value::Array(examples)) => examples.iter().take(3).collect(),
            _ => self.first("example").into_iter().collect(),
        }
    }

    /// Constraints that the type does not show, in few words each.
    pub(crate) fn constraints(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.first("deprecated") == Some(&Value::Bool(true)) {
            out.push("deprecated".to_owned());
        }
        if let Some(Value::String(format)) = self.first("format") {
            let plain = format.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            if plain && !format.is_empty() && format.len() <= 24 && !format.contains("ignore") && format != "noqa" {
                out.push(format.clone());
            }
        }
        out.extend(self.interval());
        if let Some(step) = self.number("multipleOf").filter(|step| step != "1") {
            out.push(format!("multiple of {step}"));
        }
        let count = |low: &str, high: &str| range(self.number(low).filter(|n| n != "0"), self.number(high));
        out.extend(count("minLength", "maxLength").map(|range| format!("length {range}")));
        out.extend(count("minItems", "maxItems").map(|range| format!("{range} items")));
        out.extend(count("minProperties", "maxProperties").map(|range| format!("{range} keys")));
        if self.first("uniqueItems") == Some(&Value::Bool(true)) {
            out.push("unique".to_owned());
        }
        if let Some(Value::String(pattern)) = self.first("pattern") {
            let pattern = text::one_line(pattern);
            if !pattern.is_empty() && !text::is_directive(&pattern) {
                out.push(format!("matches {}", text::cut(&pattern, 120)));
            }
        }
        out
    }

    fn interval(&self) -> Option<String> {
        // In draft 4 the exclusive keywords are booleans beside the limits.
        let bound = |plain: &str, strict: &str| match self.first(strict) {
            Some(Value::Number(_)) => self.number(strict).map(|bound| (bound, true)),
            Some(Value::Bool(true)) => self.number(plain).map(|bound| (bound, true)),
            _ => self.number(plain).map(|bound| (bound, false)),
        };
        match (bound("minimum", "exclusiveMinimum"), bound("maximum", "exclusiveMaximum")) {
            (Some((low, false)), Some((high, false))) => Some(format!("{low}..{high}")),
            (None, None) => None,
            (low, high) => {
                let low = low.map(|(low, strict)| format!("{} {low}", if strict { ">" } else { ">=" }));
                let high = high.map(|(high, strict)| format!("{} {high}", if strict { "<" } else { "<=" }));
                Some(low.into_iter().chain(high).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// A number as text. The largest exact integer of doubles is a library's default, not a limit: `None`.
    fn number(&self, keyword: &str) -> Option<String> {
        let Some(Value::Number(number)) = self.first(keyword) else { return None };
        let edge = number.as_i64().is_some_and(|number| number.unsigned_abs() >= (1 << 53) - 1);
        let text = number.to_string();
        (!edge && text.len() <= 24).then_some(text)
    }
}

/// True for text that a comment can have: no directive, and nothing that could be one.
fn is_plain(text: &str) -> bool {
    !text.contains('#') && !text::is_directive(&format!("#{text}"))
}

/// True for types that list all their values.
fn shows_values(ty: &Ty) -> bool {
    match ty {
        Ty::Null | Ty::Bool | Ty::Literal(_) => true,
        Ty::Union(members) => members.iter().all(shows_values),
        _ => false,
    }
}

/// Columns of a text that is declared as CSV.
fn columns(schema: &Map<String, Value>) -> Option<String> {
    let is_csv = get(schema, "contentMediaType").is_some_and(|kind| kind == "text/csv");
    let names = get(schema, "contentSchema").filter(|_| is_csv)?.pointer("/items/required")?.as_array()?;
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).take(MAX_COLUMNS).collect();
    let line = text::one_line(&names.join(", "));
    (!line.is_empty()).then(|| format!("CSV: {}", text::cut(&line, MAX_COLUMNS)))
}

/// Keyword of a note on a text's lines, in the schema of an observation.
pub const NOTE: &str = "x-observed";

/// Note on a text's lines, of an observation.
pub(crate) fn noted(schema: &Map<String, Value>, most: usize) -> Option<String> {
    let line = text::one_line(get(schema, NOTE)?.as_str()?);
    (!line.is_empty()).then(|| text::cut(&line, most).into_owned()).filter(|line| !text::is_directive(line))
}

fn range(low: Option<String>, high: Option<String>) -> Option<String> {
    match (low, high) {
        (Some(low), Some(high)) if low == high => Some(low),
        (Some(low), Some(high)) => Some(format!("{low}..{high}")),
        (Some(low), None) => Some(format!(">= {low}")),
        (None, Some(high)) => Some(format!("<= {high}")),
        (None, None) => None,
    }
}
