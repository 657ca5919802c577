//! Natives of the prelude: text in, text out. Their time and memory are linear, and the prelude bounds their input.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256, Sha384, Sha512};
use url::{Url, form_urlencoded, quirks};

/// Longest URL, in bytes: some of its parts take more than linear time.
const MAX_URL: usize = 64 << 10;

/// As `atob` has it: padding is optional, and left-over bits are ignored.
const FORGIVING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// `host.native(name, text)`: `=` and the result, or `!` and the message of an error.
pub(super) fn call(name: &str, text: &str) -> String {
    let result = match name {
        "atob" => atob(text),
        "btoa" => bytes(text, name).map(|bytes| FORGIVING.encode(bytes)),
        "TextEncoder" => Ok(latin1(text.as_bytes())),
        "TextDecoder" => bytes(text, name).map(|bytes| without_mark(&String::from_utf8_lossy(&bytes)).to_owned()),
        "TextDecoder.fatal" => bytes(text, name).and_then(|bytes| match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(without_mark(text).to_owned()),
            Err(error) => Err(format!("TextDecoder: the bytes are not UTF-8 ({error})")),
        }),
        "literal" => wire::python::as_json(text).ok_or_else(|| wire::python::unfit(text)),
        "SHA-256" => digest::<Sha256>(text, name),
        "SHA-384" => digest::<Sha384>(text, name),
        "SHA-512" => digest::<Sha512>(text, name),
        "URL" => parse(text),
        "URL.set" => change(text),
        "URLSearchParams" => {
            let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
            serde_json::to_string(&pairs).map_err(|error| error.to_string())
        }
        "URLSearchParams.toString" => form(text),
        "rounds" => Ok(if wire::json::holds_all(text) { "" } else { "rounds" }.to_owned()),
        _ => Err(format!("there is no native `{name}`")),
    };
    match result {
        Ok(text) => format!("={text}"),
        Err(message) => format!("!{message}"),
    }
}

fn atob(text: &str) -> Result<String, String> {
    let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let wrong = |error| format!("atob: the text is not base64 ({error}); base64url has `-` and `_` for `+` and `/`");
    FORGIVING.decode(compact).map(|bytes| latin1(&bytes)).map_err(wrong)
}

/// Bytes of a text with one character for each.
fn bytes(text: &str, name: &str) -> Result<Vec<u8>, String> {
    let byte = |c: char| {
        u8::try_from(c)
            .map_err(|_| format!("{name}: {c:?} is no byte; encode text with `new TextEncoder().encode(text)` first"))
    };
    text.chars().map(byte).collect()
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn digest<D: Digest>(text: &str, name: &str) -> Result<String, String> {
    Ok(latin1(&D::digest(bytes(text, name)?)))
}

/// `[url]` or `[url, base]` to the parts of the URL.
fn parse(json: &str) -> Result<String, String> {
    let texts: Vec<String> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let [text, base @ ..] = texts.as_slice() else { return Err("URL takes a text".to_owned()) };
    let fits = |text: &str| match text.len() {
        length if length <= MAX_URL => Ok(()),
        length => Err(format!("Invalid URL: {length} bytes are over the limit of {MAX_URL}")),
    };
    fits(text)?;
    let wrong = |text: &str, error| format!("Invalid URL {:?}: {error}", text.chars().take(100).collect::<String>());
    let parsed = match base.first() {
        None => Url::parse(text).map_err(|error| wrong(text, error)),
        Some(base) => {
            fits(base)?;
            let base = Url::parse(base).map_err(|error| wrong(base, error))?;
            base.join(text).map_err(|error| wrong(text, error))
        }
    };
    parsed.and_then(|url| parts(&url))
}

/// `[href, part, value]` to the parts of the changed URL. An invalid value changes nothing, as on the web.
fn change(json: &str) -> Result<String, String> {
    let (href, part, value): (String, String, String) =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    if value.len() > MAX_URL {
        return Err(format!("Invalid URL: {} bytes are over the limit of {MAX_URL}", value.len()));
    }
    let mut url = Url::parse(&href).map_err(|error| error.to_string())?;
    match part.as_str() {
        "href" => quirks::set_href(&mut url, &value).map_err(|error| format!("Invalid URL: {error}"))?,
        "protocol" => drop(quirks::set_protocol(&mut url, &value)),
        "username" => drop(quirks::set_username(&mut url, &value)),
        "password" => drop(quirks::set_password(&mut url, &value)),
        "host" => drop(quirks::set_host(&mut url, &value)),
        "hostname" => drop(quirks::set_hostname(&mut url, &value)),
        "port" => drop(quirks::set_port(&mut url, &value)),
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" | "params" => quirks::set_search(&mut url, &value),
        "hash" => quirks::set_hash(&mut url, &value),
        _ => {}
    }
    if url.as_str().len() > 2 * MAX_URL {
        return Err(format!("Invalid URL: it is over the limit of {MAX_URL} bytes"));
    }
    parts(&url)
}

fn parts(url: &Url) -> Result<String, String> {
    let mut json = String::from("{");
    for (name, value) in [
        ("href", quirks::href(url)),
        ("origin", &quirks::origin(url)),
        ("protocol", quirks::protocol(url)),
        ("username", quirks::username(url)),
        ("password", quirks::password(url)),
        ("host", quirks::host(url)),
        ("hostname", quirks::hostname(url)),
        ("port", quirks::port(url)),
        ("pathname", quirks::pathname(url)),
        ("search", quirks::search(url)),
        ("hash", quirks::hash(url)),
    ] {
        let value = serde_json::to_string(value).map_err(|error| error.to_string())?;
        let _ = write!(json, "{}\"{name}\":{value}", if json.len() > 1 { "," } else { "" });
    }
    json.push('}');
    Ok(json)
}

/// Pairs as JSON to a query.
fn form(json: &str) -> Result<String, String> {
    let pairs: Vec<(String, String)> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Ok(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}
