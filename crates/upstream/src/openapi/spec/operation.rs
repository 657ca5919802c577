//! One operation as a tool: its definition as in `tools/list`, and its plan.

use http::Method;
use serde_json::{Map, Value, json};

use super::body::{self, Body};
use super::document::Document;
use super::parameters::{self, Part, described};
use super::refs::Refs;
use super::request::Plan;
use super::schema::{Schemas, Side};
use super::{Problem, Source, names};
use base::meter::Meter;
use base::text::{brief, head};

/// Key in `_meta` of a tool's definition: the folder that its first tag names.
pub const CATEGORY: &str = "forgefs/category";
/// Most bytes of a description.
const MAX_DESCRIPTION: usize = 8 << 10;

/// An operation of a path item.
pub(super) struct Operation<'d> {
    pub(super) name: &'d str,
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    /// File of the path item.
    pub(super) file: usize,
    pub(super) item: &'d Map<String, Value>,
    pub(super) fields: &'d Map<String, Value>,
}

impl Operation<'_> {
    /// Its tool and its plan.
    pub(super) fn make(
        &self,
        source: &Source<'_>,
        document: &Document,
        refs: &Refs<'_>,
        meter: &Meter,
    ) -> Result<(Value, Plan), Problem> {
        check_path(self.path)?;
        self.check_servers(document)?;
        let is_set = |part: Part, name: &str| match part {
            Part::Header => source.headers.contains(&name.to_ascii_lowercase()),
            Part::Cookie => source.headers.contains("cookie"),
            Part::Query => source.query.contains(name),
            Part::Path => false,
        };
        let lists = [self.item.get("parameters"), self.fields.get("parameters")];
        let defined = parameters::read(refs, self.file, lists, is_set)?;
        let mut schemas = Schemas::new(refs, document.version, meter, Side::Input);
        let (mut properties, mut required, mut parameters) = (Map::new(), Vec::new(), Vec::new());
        for parameter in defined {
            let schema = match parameter.schema {
                Some(schema) => schemas.convert(parameter.file, schema)?,
                None => json!({}),
            };
            let argument = parameter.parameter.argument.clone();
            if parameter.is_required {
                required.push(json!(argument));
            }
            properties.insert(argument, described(schema, parameter.description));
            parameters.push(parameter.parameter);
        }
        check_template(self.path, &parameters)?;
        let body = self.body(refs, meter, &mut schemas, &mut properties, &mut required)?;
        let mut input = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        add(&mut input, "required", required.into());
        add(&mut input, "$defs", schemas.defs()?.into());
        let (accept, output) = self.answer(document, refs, meter)?;
        let tool = self.definition(input, output);
        let method = Method::from_bytes(self.method.to_ascii_uppercase().as_bytes());
        let method = method.map_err(|_| Problem::Here("its method is none".to_owned()))?;
        Ok((tool, Plan { method, path: self.path.to_owned(), parameters, body, accept }))
    }

    fn text(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default()
    }

    fn definition(&self, input: Value, output: Option<Value>) -> Value {
        let (summary, description) = (self.text("summary"), self.text("description"));
        let is_deprecated = self.fields.get("deprecated") == Some(&Value::Bool(true));
        let mut text = match (summary, description) {
            ("", description) => description.to_owned(),
            (summary, "") => summary.to_owned(),
            (summary, description) => format!("{}.\n\n{description}", summary.trim_end_matches('.')),
        };
        if is_deprecated {
            text.insert_str(0, "Deprecated. ");
        }
        text = head(&text, MAX_DESCRIPTION).to_owned();
        let request = format!("`{} {}`", self.method.to_ascii_uppercase(), brief(self.path));
        text = if text.is_empty() { request } else { format!("{text}\n\n{request}") };
        let mut tool = json!({ "name": self.name, "description": text, "inputSchema": input });
        add(&mut tool, "outputSchema", output.unwrap_or_default());
        add(&mut tool, "annotations", annotations(self.method));
        let tag = self.fields.get("tags").and_then(|tags| tags.get(0)).and_then(Value::as_str);
        if let Some(category) = tag.and_then(names::category) {
            add(&mut tool, "_meta", json!({ CATEGORY: category }));
        }
        tool
    }

    /// The body, whose argument is added.
    fn body(
        &self,
        refs: &Refs<'_>,
        meter: &Meter,
        schemas: &mut Schemas<'_>,
        properties: &mut Map<String, Value>,
        required: &mut Vec<Value>,
    ) -> Result<Option<(String, Body)>, Problem> {
        let Some(body) = self.fields.get("requestBody").filter(|_| !matches!(self.method, "get" | "head")) else {
            return Ok(None);
        };
        let (file, body) = refs.follow(self.file, body).map_err(Problem::Here)?;
        let content = body.get("content").and_then(Value::as_object);
        let chosen = content.map(|content| body::choose(refs, file, content, meter)).transpose()?.flatten();
        let Some((media, written)) = chosen else { return Ok(None) };
        let schema = match (&written, media.get("schema")) {
            (Body::Bytes(_), _) => json!({ "type": "string", "contentEncoding": "base64" }),
            (Body::Text(_), _) => json!({ "type": "string" }),
            (_, Some(schema)) => schemas.convert(file, schema)?,
            (Body::Json(_), None) => json!({}),
            (_, None) => json!({ "type": "object" }),
        };
        let mut argument = "body".to_owned();
        while properties.contains_key(&argument) {
            argument.insert_str(0, "request_");
        }
        if body.get("required") == Some(&Value::Bool(true)) {
            required.push(json!(argument));
        }
        properties.insert(argument.clone(), described(schema, body.get("description").and_then(Value::as_str)));
        Ok(Some((argument, written)))
    }

    /// Media type and schema of the first answer of a success.
    fn answer(
        &self,
        document: &Document,
        refs: &Refs<'_>,
        meter: &Meter,
    ) -> Result<(Option<String>, Option<Value>), Problem> {
        let responses = self.fields.get("responses").and_then(Value::as_object);
        let mut successes: Vec<(&String, &Value)> =
            responses.into_iter().flatten().filter(|(status, _)| status.starts_with('2')).collect();
        successes.sort_by_key(|(status, _)| *status);
        let mut accept = None;
        for (_, response) in successes {
            // A faulty result leaves its type open.
            let Ok((file, response)) = refs.follow(self.file, response) else { continue };
            let content = response.get("content").and_then(Value::as_object);
            let mut content = content.into_iter().flatten();
            let Some((kind, media)) = content.find(|(kind, _)| body::is_json(&body::essence(kind))) else { continue };
            let kind = if kind.contains('*') { "application/json" } else { kind.as_str() };
            accept.get_or_insert_with(|| format!("{kind}, */*;q=0.5"));
            let Some(schema) = media.get("schema") else { continue };
            let mut schemas = Schemas::new(refs, document.version, meter, Side::Output);
            let made = schemas.convert(file, schema).and_then(|schema| Ok((schema, schemas.defs()?)));
            match made {
                Ok((mut schema, defs)) => {
                    add(&mut schema, "$defs", defs.into());
                    return Ok((accept, Some(schema)));
                }
                Err(Problem::Here(_)) => {}
                Err(stopped) => return Err(stopped),
            }
        }
        Ok((accept, None))
    }

    /// Refuses servers of its own.
    fn check_servers(&self, document: &Document) -> Result<(), Problem> {
        let own = [self.fields, self.item].iter().find_map(|fields| fields.get("servers"));
        fn url(servers: &Value) -> Option<&str> {
            servers.get(0)?.get("url")?.as_str()
        }
        // Without the scheme, which some write in one place only.
        let place = |url: &str| url.split_once("//").map_or(url, |(_, place)| place).trim_end_matches('/').to_owned();
        let of_all = document.root.get("servers").and_then(url).map(place);
        match own.and_then(url).filter(|own| of_all.as_ref() != Some(&place(own))) {
            None | Some("/") => Ok(()),
            Some(url) => Err(Problem::Here(format!("its own server `{}` is not followed", brief(url)))),
        }
    }
}

/// Adds a part that is not empty.
fn add(object: &mut Value, key: &str, value: Value) {
    let is_empty = match &value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if let (Value::Object(fields), false) = (object, is_empty) {
        fields.insert(key.to_owned(), value);
    }
}

/// Promises of a method (RFC 9110, section 9.2).
fn annotations(method: &str) -> Value {
    match method {
        "get" | "head" => json!({ "readOnlyHint": true }),
        "put" => json!({ "readOnlyHint": false, "idempotentHint": true }),
        "delete" => json!({ "readOnlyHint": false, "idempotentHint": true, "destructiveHint": true }),
        _ => json!({ "readOnlyHint": false, "idempotentHint": false }),
    }
}

/// Refuses a path that leads elsewhere, or that no address has.
fn check_path(path: &str) -> Result<(), Problem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@%/".contains(c);
    let mut outside = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        outside.push_str(before);
        outside.push('x');
        rest = after.split_once('}').map(|(_, after)| after).unwrap_or("{");
        if rest == "{" {
            break;
        }
    }
    outside.push_str(rest);
    if let Some(odd) = outside.chars().find(|c| !is_plain(*c)) {
        return Err(Problem::Here(format!("its path has the character `{}`", odd.escape_default())));
    }
    let dots = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    let is_split = outside.to_ascii_lowercase().contains("%2f") || outside.to_ascii_lowercase().contains("%5c");
    if outside.split('/').any(dots) || outside.contains("//") || is_split {
        return Err(Problem::Here("its path leads elsewhere: it has `.`, `..`, `//`, or an encoded slash".to_owned()));
    }
    Ok(())
}

/// Each `{name}` of the path must be a parameter.
fn check_template(path: &str, parameters: &[parameters::Parameter]) -> Result<(), Problem> {
    for name in path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)) {
        if !parameters.iter().any(|parameter| parameter.part == Part::Path && parameter.name == name) {
            return Err(Problem::Here(format!("`{{{}}}` of its path is no parameter", brief(name))));
        }
    }
    Ok(())
}
