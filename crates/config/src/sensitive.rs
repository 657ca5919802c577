//! Decides which configured values are redacted in results and logs.
//!
//! Every value of `env` and `headers` prints masked. Looking for a value in all text is another matter: a token must
//! be found wherever it turns up, while `LOG_LEVEL = "warning"` or `${HOME}` must not eat honest words and paths. The
//! rules are those that forge.toml.example gives.

use url::Url;

use super::expand::Expanded;
use redact::secret::{self, Secret};
use redact::{sounds_secret, variable_sounds_secret};

/// A value of `env`. Listed if it came from the environment, if its name sounds like a credential or if it is a
/// connection string with a password, but not if the variable describes the machine.
pub(super) fn variable(name: &str, value: Expanded) -> Secret {
    let is_named = variable_sounds_secret(name);
    let is_secret = |(variable, part): &&(String, String)| {
        is_named || variable_sounds_secret(variable) || !(describes_machine(variable) || is_setting(part))
    };
    let mut taken = value.taken.iter().filter(is_secret).peekable();
    let listed = taken.peek().is_some() || is_named;
    taken.for_each(|(_, part)| secret::list(part));
    list_password(&value.text);
    if listed { Secret::new(value.text) } else { Secret::unlisted(value.text) }
}

/// True for the value of a setting, which stands in ordinary text.
fn is_setting(value: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "all", "auto", "critical", "debug", "default", "dev", "development", "disabled", "enabled", "error",
        "fatal", "info", "local", "localhost", "none", "notice", "off", "prod", "production", "stage", "staging",
        "stdio", "test", "testing", "trace", "warn", "warning", "yes",
    ];
    let is_number = value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    is_number || WORDS.contains(&&*value.to_ascii_lowercase())
}

/// A value of `headers`: listed, also without its scheme, unless the header is one that says who asks.
pub(super) fn header(name: &str, value: Expanded) -> Secret {
    if matches!(name, "accept-language" | "origin" | "referer" | "user-agent") {
        list_named(&value);
        return Secret::unlisted(value.text);
    }
    if !sounds_secret(name) && is_setting(&value.text) {
        return Secret::unlisted(value.text);
    }
    value.taken.iter().for_each(|(_, part)| secret::list(part));
    if let Some((_scheme, credential)) = value.text.split_once(' ') {
        secret::list(credential);
    }
    Secret::new(value.text)
}

/// True if a header is a credential: by its name, or because its value came from the environment.
pub(super) fn is_credential(name: &str, value: &Expanded) -> bool {
    sounds_secret(name) || value.taken.iter().any(|(variable, _)| !describes_machine(variable))
}

/// Lists credentials in an argument: `--api-key=…`, `API_KEY=…`, the argument after `--api-key`, a header such as
/// `Authorization: Bearer …`, connection strings, and the values of [`list_named`].
pub(super) fn list_in_argument(previous: Option<&str>, argument: &Expanded) {
    list_named(argument);
    list_password(&argument.text);
    list_header(previous, &argument.text);
    match argument.text.split_once('=') {
        Some((name, value)) if is_name(name) && sounds_secret(name) => secret::list(value),
        _ if previous.is_some_and(|name| name.starts_with('-') && !name.contains('=') && sounds_secret(name)) => {
            secret::list(&argument.text);
        }
        _ => {}
    }
}

/// True for an option, or a variable such as `API_KEY`: other pairs, such as `key=name`, are settings.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.starts_with('-') || name.bytes().all(is_part)
}

/// Lists the header of an option, such as `Authorization: Bearer …` behind `--header`, also without its scheme.
fn list_header(previous: Option<&str>, argument: &str) {
    let (option, header) = match argument.split_once('=') {
        Some((option, rest)) if option.starts_with('-') => (Some(option), rest),
        _ => (previous, argument),
    };
    let Some((name, value)) = header.split_once(':') else { return };
    if matches!(option, Some("-H" | "--header" | "--headers")) && sounds_secret(name.trim()) {
        let value = value.trim();
        secret::list(value);
        if let Some((_scheme, credential)) = value.split_once(' ') {
            secret::list(credential);
        }
    }
}

/// Lists credentials in a URL: query values whose name sounds like a credential, and the values of [`list_named`]. True
/// if there were any.
pub(super) fn list_in_url(url: &Url, text: &Expanded) -> bool {
    list_named(text);
    let values: Vec<_> = url.query_pairs().filter(|(name, _)| sounds_secret(name)).map(|(_, value)| value).collect();
    values.iter().for_each(|value| secret::list(value));
    !values.is_empty() || text.taken.iter().any(|(variable, _)| sounds_secret(variable))
}

/// Lists values of variables whose name sounds like a credential.
pub(super) fn list_named(value: &Expanded) {
    value.taken.iter().filter(|(variable, _)| sounds_secret(variable)).for_each(|(_, part)| secret::list(part));
}

/// Lists the password of a connection string such as `postgres://user:password@host/db`.
fn list_password(value: &str) {
    if let Some(password) = Url::parse(value).ok().as_ref().and_then(Url::password) {
        secret::list(password);
        secret::list(value);
    }
}

/// True for variables that describe the machine or user.
pub(super) fn describes_machine(name: &str) -> bool {
    #[rustfmt::skip]
    const NAMES: &[&str] = &[
        "APPDATA", "DISPLAY", "EDITOR", "HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOCALAPPDATA", "LOGNAME", "OLDPWD",
        "PATH", "PWD", "SHELL", "SYSTEMROOT", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "USERNAME",
        "USERPROFILE",
    ];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || name.starts_with("LC_") || name.starts_with("XDG_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(variable: &str, value: &str) -> Expanded {
        Expanded { text: value.to_owned(), taken: vec![(variable.to_owned(), value.to_owned())] }
    }

    fn literal(value: &str) -> Expanded {
        Expanded::verbatim(value.to_owned())
    }

    #[test]
    fn credentials_are_found_by_the_name_of_what_holds_them() {
        let yes = ["GITHUB_TOKEN", "api-key", "tavilyApiKey", "--password", "PGPASSWORD", "SENTRY_DSN", "GH_PAT"];
        let no = ["HOME", "LOG_LEVEL", "PATH", "MONKEYS", "COMPATIBLE", "author", "PROJECT_DIR", "--passive"];
        assert_eq!(yes.iter().filter(|name| !sounds_secret(name)).count(), 0);
        assert_eq!(no.iter().filter(|name| sounds_secret(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
    }

    #[test]
    fn variables_are_listed_unless_they_are_plain() {
        variable("ANYTHING", taken("ANYTHING", "from-the-environment"));
        variable("MY_TOKEN", literal("literal-token"));
        variable("DB", literal("postgres://u:p4ssw0rd@h/db"));
        variable("LOG_LEVEL", literal("verbose"));
        variable("CACHE", taken("HOME", "/home/somebody"));
        let text = "from-the-environment literal-token p4ssw0rd verbose /home/somebody";
        assert_eq!(secret::redact(text), "[redacted] [redacted] [redacted] verbose /home/somebody");
    }

    #[test]
    fn short_values_are_listed_by_the_rules_of_the_example() {
        let (secret, plain) = (true, false);
        let cases = [
            ("PGPASS", literal("pg1"), secret),
            ("PIN_CODE", literal("4712"), secret),
            ("SEED", literal("zk9q"), secret),
            ("WALLET_MNEMONIC", literal("oak elm"), secret),
            ("API_KEY", literal("dv8"), secret),
            ("REGION", taken("REGION", "eu9x"), secret),
            ("API_KEY", literal("k1"), plain),
            ("API_KEY", literal("true"), plain),
            ("BYPASS", literal("by9"), plain),
            ("REGION", literal("us9x"), plain),
            ("PORT", taken("PORT", "8089"), plain),
            ("MODE", taken("MODE", "Production"), plain),
            ("LEVEL", taken("LEVEL", "info"), plain),
        ];
        for (name, value, is_listed) in cases {
            let text = value.text.clone();
            variable(name, value);
            assert_eq!(secret::redact(&text) == "[redacted]", is_listed, "{name} = {text}");
        }
        header("x-mode", literal("staging"));
        header("x-team", literal("tm7"));
        assert_eq!(secret::redact("staging tm7"), "staging [redacted]");
    }

    #[test]
    fn headers_are_listed_with_and_without_their_scheme() {
        header("authorization", literal("Bearer header-credential"));
        header("user-agent", literal("forgefs-test-agent"));
        assert_eq!(secret::redact("<header-credential> forgefs-test-agent"), "<[redacted]> forgefs-test-agent");
    }

    #[test]
    fn arguments_and_urls_give_up_their_credentials() {
        list_in_argument(None, &literal("--api-key=argument-one"));
        list_in_argument(Some("--token"), &literal("argument-two"));
        list_in_argument(Some("--root"), &literal("argument-three"));
        list_in_argument(None, &taken("MY_SECRET", "argument-four"));
        list_in_argument(Some("-e"), &literal("DB_PASSWORD=argument-five"));
        list_in_argument(Some("--header"), &literal("Authorization: Bearer arg6"));
        list_in_argument(None, &literal("--header=X-Api-Key:argument-seven=="));
        list_in_argument(Some("--sort"), &literal("key=argument-eight"));
        let url = literal("https://example.com/mcp?apiKey=query%20one&page=query-two");
        list_in_url(&Url::parse(&url.text).expect("a URL"), &url);
        let text = "argument-one argument-two argument-three argument-four argument-five arg6 argument-seven== \
                    argument-eight query one query-two";
        let clean = "[redacted] [redacted] argument-three [redacted] [redacted] [redacted] [redacted] argument-eight \
                     [redacted] query-two";
        assert_eq!(secret::redact(text), clean);
    }
}
