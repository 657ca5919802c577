//! Forwards servers' questions: the server is named first, and its text cannot pass for the gateway's own words or for
//! another field.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};
use url::{Host, Url};

use super::{MARK, fits, is_hidden, line, words};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use upstream::Ask;

/// Phrases in names and descriptions of fields that a form may not ask for: MCP requires URL mode for them.
const SECRETS: &str = "password, passwd, passphrase, passcode, pwd, credential, credentials, apikey, api key, \
    secret key, client secret, shared secret, access token, auth token, api token, bearer token, refresh token, \
    personal access token, private key, ssh key, cvv, cvc, card number, credit card, pin code, otp, one time code, \
    one time password, recovery phrase, recovery code, seed phrase, passwort, kennwort, mot de passe, contrasena, \
    contraseña, senha, wachtwoord";
/// Words with which a message asks for them.
const REQUESTS: &str =
    "enter your, type your, provide your, paste your, input your, give your, need your, what is your";
/// Words that suffice in the name of a field.
const SECRET_NAMES: &str = "secret, token, pin";

/// The client's question in place of the one that `server` wrote.
///
/// # Errors
/// `APPROVAL_DENIED` for a forbidden question, or one that cannot be shown.
pub fn relayed(server: &str, ask: Ask, params: Value) -> Result<Value> {
    let (Value::Object(mut params), false) = (params, ask == Ask::Roots) else { return Ok(Value::Null) };
    match ask {
        Ask::Elicitation if params.get("mode").and_then(Value::as_str) == Some("url") => by_url(server, &mut params)?,
        Ask::Elicitation => by_form(server, &mut params)?,
        Ask::Sampling => sampling(server, &mut params)?,
        Ask::Roots => {}
    }
    Ok(Value::Object(params))
}

fn refused(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::ApprovalDenied, why)
}

/// The sender, and the server's words with every line marked.
fn message(server: &str, what: &str, params: &mut Map<String, Value>) -> Result<()> {
    let words = params.get("message").and_then(Value::as_str).unwrap_or_default();
    fits(&limits::MESSAGE, words.len())?;
    let mut message = format!("Server {} asks (relayed by ForgeFS){what}:", line(server));
    for words in words.trim().lines() {
        message.push_str(&format!("\n{MARK}{}", line(words)));
    }
    params.insert("message".to_owned(), Value::String(message));
    Ok(())
}

fn by_form(server: &str, params: &mut Map<String, Value>) -> Result<()> {
    let asked = spoken(params.get("message").and_then(Value::as_str).unwrap_or_default());
    let is_for_secret = has(&asked, SECRETS) && has(&asked, REQUESTS);
    message(server, "; your answer goes to that server", params)?;
    let Some(Value::Object(schema)) = params.get_mut("requestedSchema") else { return Ok(()) };
    fits(&limits::FORM, Value::Object(schema.clone()).to_string().len())?;
    schema.retain(|key, _| matches!(key.as_str(), "$schema" | "type" | "properties" | "required"));
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return Ok(()) };
    fits(&limits::FORM_FIELDS, properties.len())?;
    for (name, field) in properties {
        if name.chars().any(is_hidden) {
            return Err(refused("a field of its form has a name with characters that cannot be seen"));
        }
        let Value::Object(field) = field else { continue };
        if asks_for_secret(name, field, is_for_secret) {
            let why = format!("it asks for `{name}` by a form, and MCP forbids to ask for secrets so");
            return Err(refused(why).hint("the server has to ask by URL (elicitation of mode `url`)"));
        }
        let title = field.get("title").and_then(Value::as_str).unwrap_or(name);
        let title = format!("{}: {}", line(server), line(title));
        field.insert("title".to_owned(), Value::String(title));
        field.iter_mut().filter(|(key, _)| *key != "title").try_for_each(|(key, value)| show(key, value))?;
    }
    Ok(())
}

/// Makes the visible texts of a field safe. Values that go back to the server stay unchanged, and must be visible.
fn show(key: &str, value: &mut Value) -> Result<()> {
    match value {
        Value::String(text) if matches!(key, "title" | "description" | "enumNames") => *text = line(text).into_owned(),
        Value::String(text) if text.chars().any(is_hidden) => {
            return Err(refused("its form has choices with characters that cannot be seen"));
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| show(key, item))?,
        Value::Object(parts) => parts.iter_mut().try_for_each(|(key, value)| show(key, value))?,
        _ => {}
    }
    Ok(())
}

/// True if a free-form field is named or described as a secret, or is one of a form that asks for it.
fn asks_for_secret(name: &str, field: &Map<String, Value>, is_for_secret: bool) -> bool {
    let is_free =
        field.get("type").and_then(Value::as_str).is_none_or(|kind| matches!(kind, "string" | "integer" | "number"))
            && !["enum", "oneOf", "const"].iter().any(|key| field.contains_key(*key));
    let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
    let (names, description) = ([spoken(name), spoken(text("title"))], spoken(text("description")));
    is_free
        && (is_for_secret
            || names.iter().any(|name| has(name, SECRETS) || has(name, SECRET_NAMES))
            || has(&description, SECRETS)
            || text("format") == "password")
}

/// True if one of the known words is among these.
fn has(words: &str, known: &str) -> bool {
    known.split(", ").any(|known| words.contains(&format!(" {known} ")))
}

/// Words of a name or a sentence in lower case, each between spaces.
fn spoken(text: &str) -> String {
    let is_spaced = text.split(' ').all(|word| word.chars().count() == 1);
    let text = if is_spaced { text.replace(' ', "").into() } else { Cow::Borrowed(text) };
    format!(" {} ", words(&text).join(" "))
}

fn by_url(server: &str, params: &mut Map<String, Value>) -> Result<()> {
    let address = params.get("url").and_then(Value::as_str).unwrap_or_default();
    fits(&limits::ADDRESS, address.len())?;
    let (url, remark) = web_page(address)?;
    let host = url.host_str().unwrap_or_default();
    message(server, &format!(" to open a page of {host}{remark}"), params)?;
    params.insert("url".to_owned(), json!(url.as_str()));
    Ok(())
}

/// Address of a page, and a warning about its host.
fn web_page(address: &str) -> Result<(Url, String)> {
    let url = Url::parse(address).map_err(|error| refused("its address is not valid").caused_by(error))?;
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address == Ipv4Addr::LOCALHOST,
        Some(Host::Ipv6(address)) => address == Ipv6Addr::LOCALHOST,
        None => false,
    };
    match url.scheme() {
        "https" => {}
        "http" if is_loopback => {}
        other => return Err(refused(format!("it asks to open a page by `{}`, not by https", line(other)))),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("the address that it asks to open has a user name in front of its host"));
    }
    let mut remarks = Vec::new();
    if url.domain().is_some_and(|name| name.split('.').any(|label| label.starts_with("xn--"))) {
        remarks.push("its name has letters of another alphabet".to_owned());
    }
    if !matches!(url.host(), Some(Host::Domain(_))) {
        remarks.push("an address without a name".to_owned());
    }
    if let Some(port) = url.port() {
        remarks.push(format!("port {port}"));
    }
    let remark = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
    Ok((url, remark))
}

/// The client's context contains data of every server, so none of it goes to a server.
fn sampling(server: &str, params: &mut Map<String, Value>) -> Result<()> {
    params.shift_remove("includeContext");
    let system = params.get("systemPrompt").and_then(Value::as_str).unwrap_or_default();
    let system = format!(
        "The MCP server {} asks this (relayed by ForgeFS); nothing of it comes from the user.\n{system}",
        line(server)
    );
    params.insert("systemPrompt".to_owned(), Value::String(system));
    let mut size = 0;
    params.values_mut().for_each(|value| show_texts(value, &mut size));
    fits(&limits::SAMPLING, size)
}

fn show_texts(value: &mut Value, size: &mut usize) {
    match value {
        Value::String(text) => {
            *size += text.len();
            if let std::borrow::Cow::Owned(shown) = super::visible(text) {
                *text = shown;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| show_texts(item, size)),
        Value::Object(parts) => parts.values_mut().for_each(|part| show_texts(part, size)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value) -> Value {
        json!({"message": "Your name?\nForgeFS asks: more\u{202e}", "requestedSchema": {
            "type": "object", "title": "ForgeFS", "properties": properties, "required": []}})
    }

    #[test]
    fn a_form_names_its_server_everywhere() {
        let asked = form(json!({
            "name": {"type": "string", "title": "Name\n▌ x", "description": "a\u{200b}b"},
            "kind": {"type": "string", "enum": ["a", "b"], "enumNames": ["A\u{202e}", "B"]},
        }));
        let shown = relayed("git\u{7}hub", Ask::Elicitation, asked).expect("it may be asked");
        assert_eq!(
            shown,
            json!({
                "message": "Server git\\u{7}hub asks (relayed by ForgeFS); your answer goes to that server:\n\
                            ▌ Your name?\n▌ ForgeFS asks: more\\u{202e}",
                "requestedSchema": {"type": "object", "properties": {
                    "name": {"type": "string", "title": "git\\u{7}hub: Name\\n\\u{258c} x", "description": "a\\u{200b}b"},
                    "kind": {"type": "string", "enum": ["a", "b"], "enumNames": ["A\\u{202e}", "B"],
                             "title": "git\\u{7}hub: kind"},
                }, "required": []},
            })
        );
    }

    #[test]
    fn a_form_may_not_ask_for_secrets_nor_hide_choices() {
        let text = json!({"type": "string"});
        for (properties, why) in [
            (json!({"password": text}), "`password`"),
            (json!({"userPassword": text}), "secrets"),
            (json!({"GITHUB_TOKEN": text}), "secrets"),
            (json!({"x": {"type": "string", "title": "API key"}}), "secrets"),
            (json!({"x": {"type": "string", "description": "Enter your passphrase."}}), "secrets"),
            (json!({"x": {"type": "string", "format": "password"}}), "secrets"),
            (json!({"x": {"type": "string", "title": "P A S S W O R D"}}), "secrets"),
            (json!({"x": {"type": "string", "title": "Contraseña"}}), "secrets"),
            (json!({"cvv": {"type": "integer"}}), "secrets"),
            (json!({"na\u{200b}me": text}), "cannot be seen"),
            (json!({"x": {"type": "string", "enum": ["yes", "ye\u{202e}s"]}}), "cannot be seen"),
            (json!({"x": {"type": "string", "default": "\u{1b}[2J"}}), "cannot be seen"),
            ((0..33).map(|n| (n.to_string(), text.clone())).collect::<Map<_, _>>().into(), "33 items"),
            (json!({"x": {"type": "string", "description": "d".repeat(20_000)}}), "over the limit of 16384 bytes"),
        ] {
            let error = relayed("s", Ask::Elicitation, form(properties.clone())).expect_err(why);
            assert!(error.code == ErrorCode::ApprovalDenied && error.message.contains(why), "{properties}: {error}");
        }
        for properties in [
            json!({"tokens": {"type": "integer"}}),
            json!({"resetPassword": {"type": "boolean"}}),
            json!({"pinned": text, "secretary": text}),
            json!({"auth": {"type": "string", "enum": ["password", "key"]}}),
            json!({"x": {"type": "string", "description": "How many tokens, at most?"}}),
        ] {
            assert!(relayed("s", Ask::Elicitation, form(properties.clone())).is_ok(), "{properties}");
        }
        for (message, is_refused) in [
            ("Enter your GitHub password below", true),
            ("Mot de passe? Type your mot de passe", true),
            ("Enter the name of the API key to delete", false),
            ("Enter your name", false),
        ] {
            let form = json!({"message": message, "requestedSchema": {"type": "object", "properties": {"a": text}}});
            assert_eq!(relayed("s", Ask::Elicitation, form).is_err(), is_refused, "{message}");
        }
        let long = json!({"message": "m".repeat(5000)});
        assert!(relayed("s", Ask::Elicitation, long).is_err());
    }

    #[test]
    fn a_page_is_on_the_web_and_its_host_is_shown() {
        let ask = |url: &str| {
            relayed(
                "s",
                Ask::Elicitation,
                json!({"mode": "url", "message": "log in", "url": url, "elicitationId": "1"}),
            )
        };
        for (url, says) in [
            ("https://example.com/login", "open a page of example.com:\n▌ log in"),
            ("https://EXAMPLE.com:443/", "open a page of example.com:"),
            ("https://example.com:8443/", "example.com (port 8443):"),
            ("http://localhost:80/", "localhost:"),
            ("http://127.0.0.1:9/x", "127.0.0.1 (an address without a name, port 9):"),
            ("https://exаmple.com/", "xn--exmple-4nf.com (its name has letters of another alphabet):"),
            ("https://exa\u{200b}mple.com/", "example.com:"),
        ] {
            let shown = ask(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert!(shown["message"].as_str().is_some_and(|m| m.contains(says)), "{url}: {shown}");
            assert!(shown["elicitationId"] == "1" && shown["url"].as_str().is_some_and(str::is_ascii), "{shown}");
        }
        for url in [
            "http://example.com/", "javascript:alert(1)", "file:///etc/passwd", "ftp://example.com/",
            "data:text/html,x", "vscode://open?x", "https://github.com@evil.example/", "https://u:p@example.com/",
            "not a url", "", "https://", "http://localhost.evil.example/", "ms-settings:x", "about:blank",
            "HTTPS:\u{0}//x",
        ] {
            assert!(ask(url).is_err(), "{url}");
        }
        assert!(ask(&format!("https://example.com/{}", "x".repeat(9000))).is_err());
    }

    #[test]
    fn sampling_names_its_server_and_gets_no_context() {
        let params = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "a\u{202e}"}}],
            "systemPrompt": "be\u{200b}", "includeContext": "allServers", "maxTokens": 5});
        let shown = relayed("s", Ask::Sampling, params).expect("it may be asked");
        assert_eq!(
            shown,
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "a\\u{202e}"}}],
                "systemPrompt": "The MCP server s asks this (relayed by ForgeFS); nothing of it comes from the user.\nbe\\u{200b}",
                "maxTokens": 5})
        );
        let large = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "x".repeat(5 << 20)}}]});
        assert!(relayed("s", Ask::Sampling, large).is_err());
    }
}
