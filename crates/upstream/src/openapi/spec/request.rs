//! Makes a request of a tool's arguments.

use std::collections::BTreeSet;

use http::header::{ACCEPT, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value};
use url::Url;

use super::body::Body;
use super::parameters::{Parameter, Part};
use super::style::{self, Pairs, encoded, simple, text};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::text::brief;

/// How a tool is called.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) method: Method,
    /// Path below the base, with `{name}` for parameters.
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    /// The body, with the name of its argument.
    pub(super) body: Option<(String, Body)>,
    /// Media type that its answers should have.
    pub(super) accept: Option<String>,
}

/// A request without the credentials.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Address, with the query.
    pub url: Url,
    /// Headers of parameters and body.
    pub headers: HeaderMap,
    /// Body.
    pub body: Option<bytes::Bytes>,
}

impl Plan {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let parameters = self.parameters.iter().map(|parameter| parameter.argument.len() + parameter.name.len());
        let body = self.body.as_ref().map_or(0, |(argument, body)| argument.len() + body.bytes());
        self.path.len() + parameters.sum::<usize>() + body + self.accept.as_ref().map_or(0, String::len)
    }

    /// The request of `arguments`, below `base`. `reserved` are names in the query that only the configuration sets.
    ///
    /// # Errors
    /// `INVALID_ARGS`: an argument has no form in the request.
    pub fn request(&self, base: &Url, arguments: &Map<String, Value>, reserved: &BTreeSet<String>) -> Result<Request> {
        let mut headers = HeaderMap::new();
        if let Some(accept) = self.accept.as_deref().and_then(|accept| HeaderValue::from_str(accept).ok()) {
            headers.insert(ACCEPT, accept);
        }
        let mut path = self.path.clone();
        let declared = |part: Part| {
            let of_part = self.parameters.iter().filter(|parameter| parameter.part == part);
            of_part.map(|parameter| parameter.name.as_str()).collect()
        };
        let mut query = Pairs::new(limits::OPENAPI_QUERY.max, reserved).beside(declared(Part::Query));
        let mut cookies = Vec::new();
        for parameter in &self.parameters {
            let Some(value) = arguments.get(&parameter.argument) else { continue };
            let is_wrong = |why: &str| invalid(&parameter.argument, why);
            let json = parameter.is_json.then(|| Value::String(value.to_string()));
            let value = json.as_ref().unwrap_or(value);
            match parameter.part {
                Part::Path => {
                    let text = segment(parameter, value).map_err(is_wrong)?;
                    let template = format!("{{{}}}", parameter.name);
                    // A document may name it many times.
                    if path.len() + path.matches(&template).count() * text.len() > limits::OPENAPI_QUERY.max {
                        return Err(is_wrong("makes the path too long"));
                    }
                    path = path.replace(&template, &text);
                }
                Part::Query => {
                    let added = query.add(&parameter.name, value, parameter.style, parameter.explode);
                    added.map_err(|why| is_wrong(&why))?;
                }
                Part::Header => {
                    let Some(text) = simple(value, parameter.explode, str::to_owned) else { continue };
                    let name =
                        HeaderName::from_bytes(parameter.name.as_bytes()).map_err(|_| is_wrong("is no header"))?;
                    let text = HeaderValue::from_str(&text)
                        .map_err(|_| is_wrong("has a line break or another character that no header can have"))?;
                    headers.insert(name, text);
                }
                Part::Cookie => {
                    let none = BTreeSet::new();
                    let mut pairs = Pairs::new(limits::OPENAPI_QUERY.max, &none).beside(declared(Part::Cookie));
                    pairs
                        .add(&parameter.name, value, parameter.style, parameter.explode)
                        .map_err(|why| is_wrong(&why))?;
                    cookies.push(pairs.into_text().replace('&', "; "));
                }
            }
        }
        let cookies: Vec<String> = cookies.into_iter().filter(|cookie| !cookie.is_empty()).collect();
        if let (false, Ok(cookies)) = (cookies.is_empty(), HeaderValue::from_str(&cookies.join("; "))) {
            headers.insert(COOKIE, cookies);
        }
        let body = match &self.body {
            Some((argument, body)) => self.body(argument, body, arguments, &mut headers)?,
            None => None,
        };
        Ok(Request { method: self.method.clone(), url: below(base, &path, &query.into_text())?, headers, body })
    }

    fn body(
        &self,
        argument: &str,
        body: &Body,
        arguments: &Map<String, Value>,
        headers: &mut HeaderMap,
    ) -> Result<Option<bytes::Bytes>> {
        let Some(value) = arguments.get(argument) else { return Ok(None) };
        let (kind, bytes) = body.write(value).map_err(|why| invalid(argument, &why))?;
        let kind = HeaderValue::from_str(&kind).map_err(|_| invalid(argument, "has no media type"))?;
        headers.insert(CONTENT_TYPE, kind);
        Ok(Some(bytes.into()))
    }
}

fn invalid(argument: &str, why: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("argument `{}` {why}", brief(argument))).without_effect()
}

/// A value in the path. It adds no segments, and takes none away.
fn segment(parameter: &Parameter, value: &Value) -> Result<String, &'static str> {
    let whole = style::text(value).unwrap_or_default();
    if whole.is_empty() {
        return Err("must not be empty: it is part of the path");
    }
    match value {
        Value::String(_) => {}
        Value::Array(_) | Value::Object(_) => {
            let is_odd = |item: &str| item.contains(['/', '\\']) || matches!(item, "." | "..");
            let items: Vec<String> = match value {
                Value::Array(items) => items.iter().filter_map(text).collect(),
                _ => Vec::new(),
            };
            let joined = simple(value, parameter.explode, encoded).unwrap_or_default();
            if joined.is_empty() || items.iter().any(|item| is_odd(item)) || whole.contains(['/', '\\']) {
                return Err("must not be empty nor contain `/`, `.` or `..`: it is part of the path");
            }
            return Ok(joined);
        }
        _ => return Ok(encoded(&whole)),
    }
    let segments: Vec<&str> = whole.split('/').collect();
    if segments.iter().any(|segment| matches!(*segment, "." | "..")) || whole.contains('\\') {
        return Err("must not contain `.` or `..` as a part of the path, nor `\\`");
    }
    match (parameter.has_segments, segments.len()) {
        (_, 1) => Ok(encoded(&whole)),
        (true, _) if segments.iter().all(|segment| !segment.is_empty()) => {
            Ok(segments.into_iter().map(encoded).collect::<Vec<_>>().join("/"))
        }
        (true, _) => Err("must not contain `//`, nor begin or end with `/`"),
        (false, _) => Err("must not contain `/`: it is one part of the path"),
    }
}

/// The address of `path` below `base`. That it is below is checked on the address itself.
fn below(base: &Url, path: &str, query: &str) -> Result<Url> {
    let refused =
        || Error::new(ErrorCode::InvalidArgs, "the path of the request leads elsewhere".to_owned()).without_effect();
    if path.contains(['{', '}']) {
        return Err(Error::new(ErrorCode::InvalidArgs, "an argument of the path is missing").without_effect());
    }
    let wanted = format!("{}{path}", base.path().trim_end_matches('/'));
    let mut url = base.clone();
    url.set_path(&wanted);
    url.set_query(Some(query).filter(|query| !query.is_empty()));
    let is_same = url.path() == wanted && url.origin() == base.origin() && url.fragment().is_none();
    if is_same { Ok(url) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::spec::style::Style;

    #[test]
    fn a_path_that_names_a_parameter_many_times_is_bounded() {
        let parameter = Parameter {
            argument: "a".to_owned(),
            name: "a".to_owned(),
            part: Part::Path,
            style: Style::Simple,
            explode: false,
            has_segments: false,
            is_json: false,
        };
        let path = format!("/{}", "{a}".repeat(1000));
        let plan = Plan { method: Method::GET, path, parameters: vec![parameter], body: None, accept: None };
        let base = Url::parse("https://api.example.com/").expect("a URL");
        let request = |bytes: usize| {
            let arguments = Map::from_iter([("a".to_owned(), Value::from("x".repeat(bytes)))]);
            plan.request(&base, &arguments, &BTreeSet::new())
        };
        assert_eq!(request(10).expect("it is short").url.path().len(), 10_001);
        let error = request(1 << 20).expect_err("it is long");
        assert!(error.message.contains("makes the path too long"), "{error}");
    }
}
