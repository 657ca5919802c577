//! Answers of authorization servers as providers give them, made what the parsers of rmcp and oauth2 take. Only their form
//! changes: issuers, addresses and tokens stay as they were said, and are compared as strictly.

use reqwest::StatusCode;
use serde_json::{Map, Value, json};

use base::json;

/// Memory of an answer's values, in bytes.
const MAX_TREE: usize = 8 << 20;
/// Longest lifetime that is believed, in seconds: ten years.
const MAX_SECONDS: f64 = 315_360_000.0;
/// Lifetime of a code that a person enters, where the server does not say it, in seconds.
const CODE_SECONDS: u64 = 1800;
/// Most bytes that are repeated of an answer without OAuth's fields.
const MAX_SAID: usize = 200;
/// Most names of fields that are repeated of it, and most bytes of one.
const MAX_NAMES: usize = 10;
const MAX_NAME: usize = 30;
/// Fields that are texts, beside those that end in `_endpoint`.
const TEXTS: &str = "access_token authorization_server client_id client_name client_secret device_code error \
    error_description id_token jwks_uri refresh_token resource token_type user_code verification_uri \
    verification_uri_complete verification_url";
/// Fields that are lists of texts, beside others that end in `_supported`, some of which are booleans.
const LISTS: &str = "authorization_servers code_challenge_methods_supported redirect_uris response_types_supported \
    scopes_supported";

/// An answer that is made readable.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    /// The resource that a document is about.
    pub(super) resource: Option<String>,
}

/// Makes an answer readable; `is_grant` for one to a request for tokens or codes, `is_vouched` where a provider vouches for
/// people.
pub(super) fn readable(status: StatusCode, body: Vec<u8>, is_grant: bool, is_vouched: bool) -> Answer {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    let mut fields = match json::parse(text, MAX_TREE) {
        Ok(Value::Object(fields)) => fields,
        // As GitHub answers.
        _ if is_grant => url::form_urlencoded::parse(text).map(|(key, value)| (key.into(), json!(value))).collect(),
        _ => return Answer { status, body, resource: None },
    };
    tidy(&mut fields);
    complete(&mut fields);
    // rmcp requires it, and no person is sent there.
    if is_vouched && let Some(endpoint) = fields.get("token_endpoint").cloned() {
        fields.entry("authorization_endpoint").or_insert(endpoint);
    }
    let mut status = if status.is_success() { StatusCode::OK } else { status };
    if is_grant && !fields.contains_key("access_token") && !fields.contains_key("device_code") {
        if !fields.contains_key("error") {
            fields = unexplained(status, &fields, text);
        }
        // GitHub says by 200 that a person has not agreed yet.
        status = if status.is_success() { StatusCode::BAD_REQUEST } else { status };
    }
    let resource = fields.get("resource").and_then(Value::as_str).map(str::to_owned);
    Answer { status, body: Value::Object(fields).to_string().into_bytes(), resource }
}

fn is_of(names: &str, key: &str) -> bool {
    names.split_whitespace().any(|name| name == key)
}

/// Gives every known field its type. What cannot have it counts as absent, like nulls and empty texts.
fn tidy(fields: &mut Map<String, Value>) {
    for (key, value) in fields.iter_mut() {
        let said = value.take();
        *value = match key.as_str() {
            "expires_in" | "interval" => seconds(&said),
            // Without it a document is refused; one that does not parse would only be passed over.
            "issuer" if !said.is_string() => Value::Null,
            "scope" => list(&said).map_or(Value::Null, |all| all.join(" ").into()),
            key if is_of(LISTS, key) => list(&said).map_or(Value::Null, Value::from),
            key if key.ends_with("_supported") => match &said {
                Value::String(flag) if matches!(flag.as_str(), "true" | "True") => true.into(),
                Value::String(flag) if matches!(flag.as_str(), "false" | "False") => false.into(),
                Value::Bool(_) => said,
                _ => list(&said).map_or(Value::Null, Value::from),
            },
            key if key.ends_with("_endpoint") || is_of(TEXTS, key) => text(said),
            _ => said,
        };
    }
    fields.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
}

/// Adds what parsers require and providers leave out.
fn complete(fields: &mut Map<String, Value>) {
    if fields.contains_key("access_token") {
        fields.entry("token_type").or_insert_with(|| "Bearer".into());
    } else if fields.contains_key("client_id") {
        fields.entry("redirect_uris").or_insert_with(|| json!([]));
    } else if fields.contains_key("device_code") {
        fields.entry("expires_in").or_insert_with(|| CODE_SECONDS.into());
        let old = fields.shift_remove("verification_url");
        if let Some(address) = old.or_else(|| fields.get("verification_uri_complete").cloned()) {
            fields.entry("verification_uri").or_insert(address);
        }
    }
}

/// The error of an answer that is neither a token nor an error of OAuth.
fn unexplained(status: StatusCode, fields: &Map<String, Value>, text: &[u8]) -> Map<String, Value> {
    // A token alone, without a form, is read as a name.
    let is_name =
        |name: &&str| name.len() <= MAX_NAME && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let names: Vec<&str> = fields.keys().map(String::as_str).filter(is_name).take(MAX_NAMES).collect();
    let said = fields.get("error_description").or_else(|| fields.get("message")).and_then(Value::as_str);
    let (error, said) = match (status.is_success(), said) {
        // A value under another name may be a secret.
        (true, _) => (
            "no access_token".to_owned(),
            match names.as_slice() {
                [] => "the answer has no field of OAuth".to_owned(),
                names => format!("the answer has only {}", names.join(", ")),
            },
        ),
        (false, Some(said)) => (format!("HTTP {status}"), said.to_owned()),
        (false, None) => (format!("HTTP {status}"), String::from_utf8_lossy(text).into_owned()),
    };
    let said = base::text::head(&said, MAX_SAID);
    [("error".to_owned(), error.into()), ("error_description".to_owned(), said.into())].into_iter().collect()
}

/// A lifetime in whole seconds; null for one that cannot be: the server decides then whether a token is still good.
fn seconds(said: &Value) -> Value {
    let number = said.as_f64().or_else(|| said.as_str()?.trim().parse().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between the bounds")]
    let whole = number.filter(|number| *number >= 1.0).map(|number| number.min(MAX_SECONDS) as u64);
    whole.into()
}

/// Texts of a list, or of a text with blanks or commas between them; `None` without any.
fn list(said: &Value) -> Option<Vec<String>> {
    let all: Vec<String> = match said {
        Value::String(text) => {
            let parts = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        }
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    (!all.is_empty()).then_some(all)
}

/// A text, also from a number, a list of one, or an error as an object.
fn text(said: Value) -> Value {
    match said {
        Value::String(_) => said,
        Value::Number(number) => number.to_string().into(),
        Value::Array(mut all) if all.len() == 1 => all.pop().filter(Value::is_string).into(),
        Value::Object(fields) => {
            let named = ["code", "type", "error", "message"].iter().filter_map(|key| fields.get(*key)?.as_str());
            named.map(Value::from).next().into()
        }
        Value::Array(_) | Value::Bool(_) | Value::Null => Value::Null,
    }
}
