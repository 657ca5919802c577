//! Clients that may use the endpoint of `forgefs serve --http`: `[clients.<name>]`.

use std::collections::{BTreeMap, HashSet};

use subtle::ConstantTimeEq as _;

use super::error::ConfigError;
use super::key::Key;
use super::oauth::{self, Claims};
use super::raw::RawClient;
use super::{Budgets, Config, DEFAULT_PROFILE, Expose, Http, Profile, profiles, spending};
use base::principal::LOCAL;
use base::random;
use base::text::head;
use redact::secret;

/// Shortest token: 128 bits in hexadecimal digits have twice as many.
const SHORTEST: usize = 16;

/// One `[clients.<name>]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// SHA-256 of its token. The token itself is not kept. `None` for a client that its claims identify, and for this
    /// machine's user.
    pub(super) token: Option<[u8; 32]>,
    /// Claims of its access tokens; none for a client with a token of its own.
    pub(super) claims: Claims,
    /// Its profile; `None` for that of all, if there is one.
    pub profile: Option<String>,
    /// Rate limit and budgets of its own.
    pub budgets: Budgets,
    /// Form in which its tools are shown, in place of its profile's.
    pub expose: Option<Expose>,
}

impl Client {
    /// True if `token` is the client's. Takes as long for each other one.
    pub fn has(&self, token: &str) -> bool {
        self.token.is_some_and(|own| own.ct_eq(&stubgen::sha256(token)).into())
    }

    /// True if both have the same credentials.
    pub fn is_known_as(&self, other: &Self) -> bool {
        self.token == other.token && self.claims == other.claims
    }

    /// Hex of its token's SHA-256; `None` for a client without a token of its own.
    pub fn token_sha256(&self) -> Option<String> {
        self.token.map(|digest| random::hex(&digest))
    }

    /// Text that identifies its credentials.
    pub fn identity(&self) -> String {
        let token = self.token_sha256().unwrap_or_default();
        format!("{token} {:?}", self.claims)
    }

    /// True if it has credentials: a request on HTTP can be its.
    pub fn has_credentials(&self) -> bool {
        self.token.is_some() || !self.claims.is_empty()
    }

    /// Claims of its access tokens; none for a client with a token of its own.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }
}

/// The digest of a token as `token_sha256` has it.
pub fn token_digest(token: &str) -> String {
    stubgen::digest(token)
}

pub(super) fn clients(
    key: &Key<'_>,
    raw: BTreeMap<String, RawClient>,
    profiles: &BTreeMap<String, Profile>,
) -> Result<BTreeMap<String, Client>, ConfigError> {
    let mut clients = BTreeMap::<String, Client>::new();
    for (name, raw) in raw {
        let client = client(&key.key(&name), raw, &clients, profiles)?;
        clients.insert(name, client);
    }
    Ok(clients)
}

/// Reads a client; `others` are those that were read before.
fn client(
    key: &Key<'_>,
    raw: RawClient,
    others: &BTreeMap<String, Client>,
    profiles: &BTreeMap<String, Profile>,
) -> Result<Client, ConfigError> {
    let name = key.name();
    let fault = |message: String, hint: &str| Err(key.at_key(message).with_hint(hint));
    check_name(key, "client")?;
    if name != LOCAL && name.eq_ignore_ascii_case(LOCAL) {
        return fault(format!("`{LOCAL}` is the client of this machine's user"), "use another name");
    }
    if is_of_token(name) {
        return fault(format!("names with `{OF_TOKEN}` are those of access tokens"), "use another name");
    }
    let claims = match raw.oauth {
        Some(claims) => oauth::claims(&key.key("oauth"), claims)?,
        None => Claims::new(),
    };
    let token = token(key, raw.token, raw.token_sha256, &claims)?;
    if name == LOCAL && (token.is_some() || !claims.is_empty()) {
        return fault(format!("`{LOCAL}` is the client of this machine's user, without a token"), "use another name");
    }
    if let Some((other, _)) = others.iter().find(|(_, client)| token.is_some() && client.token == token) {
        return fault(format!("has the token of `{other}`"), "give each client a token of its own");
    }
    if let Some((other, _)) = others.iter().find(|(_, client)| !claims.is_empty() && client.claims == claims) {
        return fault(format!("has the claims of `{other}`"), "give each client claims of its own");
    }
    Ok(Client {
        token,
        claims,
        profile: key.given("profile", raw.profile, |key, name| profiles::named(key, name, profiles))?,
        budgets: spending::budgets(&key.key("budgets"), raw.budgets)?,
        expose: key.key("expose").word(raw.expose)?,
    })
}

/// Digest of a client's token; `None` for a client that its claims identify, and for this machine's user.
fn token(
    key: &Key<'_>,
    token: Option<String>,
    sha256: Option<String>,
    claims: &Claims,
) -> Result<Option<[u8; 32]>, ConfigError> {
    const FORM: &str = "`forgefs clients add` makes a token and writes its digest";
    let fault = |message: &str, hint: &str| Err(key.at_key(message).with_hint(hint));
    match (token, sha256) {
        (None, None) if !claims.is_empty() || key.name() == LOCAL => Ok(None),
        (None, None) => fault("has no token", FORM),
        _ if !claims.is_empty() => fault("has `oauth` and a token", "keep one of them"),
        (Some(_), Some(_)) => fault("has `token` and `token_sha256`", "keep one of them"),
        (None, Some(text)) => digest_of(&key.key("token_sha256"), text, FORM).map(Some),
        (Some(token), None) => {
            let key = key.key("token");
            let token = key.filled(token)?;
            secret::list(&token);
            if token.len() < SHORTEST || token.bytes().any(|byte| !byte.is_ascii_graphic()) {
                let message = format!("must have {SHORTEST} characters or more, of ASCII and without spaces");
                return Err(key.at_value(message).with_hint(FORM));
            }
            Ok(Some(stubgen::sha256(&token)))
        }
    }
}

/// Reads the digest of a token.
pub(super) fn digest_of(key: &Key<'_>, text: String, form: &str) -> Result<[u8; 32], ConfigError> {
    let fault = || key.at_value("not a SHA-256 digest of 64 hexadecimal digits").with_hint(form);
    parse_digest(&key.filled(text)?).ok_or_else(fault)
}

/// Checks the name of a client, a person or a profile.
pub(super) fn check_name(key: &Key<'_>, of: &str) -> Result<(), ConfigError> {
    let form = "use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first";
    let fault = || key.at_key(format!("not usable as the name of a {of}")).with_hint(form);
    is_client_name(key.name()).then_some(()).ok_or_else(fault)
}

/// True if clients can have this name: it stands in records, metrics and messages.
pub fn is_client_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    first && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Beginning of the names of clients that an access token makes: no configured client has one.
const OF_TOKEN: &str = "oauth-";

/// True for a name that only the client of an access token can have.
pub fn is_of_token(name: &str) -> bool {
    name.get(..OF_TOKEN.len()).is_some_and(|first| first.eq_ignore_ascii_case(OF_TOKEN))
}

/// Longest subject that stands in a client's name as it is.
const SUBJECT: usize = 40;
/// Digits of a digest in a client's name.
const DIGEST: usize = 32;

/// Name of the client with this subject. Subjects of other issuers have other names, and so have configured clients. It can
/// be the name of a file everywhere: a subject with other characters, capitals included, stands as its digest.
pub fn client_of_token(issuer: &str, subject: &str) -> String {
    let is_plain =
        subject.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte));
    let issuer = stubgen::short_digest(issuer);
    match is_plain && subject.len() <= SUBJECT && !subject.ends_with('.') {
        true => format!("{OF_TOKEN}{issuer}.{subject}"),
        false => format!("{OF_TOKEN}{issuer}-{}", head(&stubgen::digest(subject), DIGEST)),
    }
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    random::from_hex(text)?.try_into().ok()
}

impl Config {
    /// This configuration without the clients and people that `next` lacks or gives another token, and without the access
    /// tokens that it no longer takes; `None` if there are none. It may come into force before the rest of `next` is confirmed.
    pub fn revoked(&self, next: &Self) -> Option<Self> {
        let stays = |(name, client): &(&String, &Client)| {
            next.clients.get(*name).map_or_else(|| *name == LOCAL, |next| next.is_known_as(client))
        };
        let clients: BTreeMap<_, _> =
            self.clients.iter().filter(stays).map(|(name, client)| (name.clone(), client.clone())).collect();
        let oauth = oauth::remaining(self.http.oauth.as_ref(), next.http.oauth.as_ref());
        let mut console = self.console.clone();
        console.retain(|name, person| next.console.get(name).is_some_and(|next| next.token == person.token));
        let people = (console.len(), clients.len());
        let is_less = people != (self.console.len(), self.clients.len()) || oauth != self.http.oauth;
        is_less.then(|| Self { clients, console, http: Http { oauth, ..self.http.clone() }, ..self.clone() })
    }

    /// This configuration without the clients whose token was taken back; `None` if there are none. `revoked` has the hex of
    /// the tokens' SHA-256.
    pub fn without_tokens(&self, revoked: &HashSet<String>) -> Option<Self> {
        let stays = |client: &Client| client.token_sha256().is_none_or(|token| !revoked.contains(&token));
        let is_less = !revoked.is_empty() && !self.clients.values().all(stays);
        is_less.then(|| {
            let mut less = self.clone();
            less.clients.retain(|_, client| stays(client));
            less
        })
    }

    /// Names of the clients with credentials.
    pub fn remote_clients(&self) -> impl Iterator<Item = &String> {
        self.clients.iter().filter(|(_, client)| client.has_credentials()).map(|(name, _)| name)
    }

    /// Profile of a client: the one that it names, else that of its credentials, else that of all. `None` if it has none.
    pub fn profile_of<'a>(&'a self, client: &str, by_credentials: Option<&'a str>) -> Option<&'a str> {
        let named = self.clients.get(client).and_then(|client| client.profile.as_deref());
        let default = || self.profiles.contains_key(DEFAULT_PROFILE).then_some(DEFAULT_PROFILE);
        named.or(by_credentials).or_else(default)
    }

    /// Form in which a client's tools may be shown.
    pub fn exposed(&self, client: &str, by_credentials: Option<&str>) -> Expose {
        let own = self.clients.get(client).and_then(|client| client.expose);
        let profile = || self.profiles.get(self.profile_of(client, by_credentials)?);
        own.or_else(|| profile().map(|profile| profile.expose)).unwrap_or_default()
    }

    /// True if several clients may use the endpoint: any number may, with access tokens that a row lets in.
    pub fn has_several_clients(&self) -> bool {
        let has_rows = self.http.oauth.as_ref().is_some_and(|oauth| !oauth.map.is_empty());
        has_rows || self.remote_clients().count() > 1
    }

    /// True if `name` is the same client in both: known by the same credentials, which the same issuer confirms.
    pub fn is_same_client(&self, next: &Self, name: &str) -> bool {
        let known = |config: &Self| config.clients.get(name).filter(|client| client.has_credentials()).cloned();
        let (client, successor) = (known(self), known(next));
        let is_by_claims = is_of_token(name) || client.as_ref().is_some_and(|client| !client.claims().is_empty());
        let is_known = match (client, successor) {
            (Some(client), Some(successor)) => client.is_known_as(&successor),
            (client, successor) => client.is_none() && successor.is_none(),
        };
        is_known && (!is_by_claims || self.http.oauth == next.http.oauth)
    }

    /// Digest of a client's credentials: with others it is another client. `None` for one without an entry of its own.
    pub fn credentials_of(&self, client: &str) -> Option<std::sync::Arc<str>> {
        let client = self.clients.get(client).filter(|client| client.has_credentials())?;
        Some(token_digest(&client.identity()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_digest_alone() {
        let text = token_digest("correct-horse-battery");
        let client = Client {
            token: Some(parse_digest(&text).expect("a digest")),
            claims: Claims::new(),
            profile: None,
            budgets: Budgets::default(),
            expose: None,
        };
        for (token, is_its) in [("correct-horse-battery", true), ("correct-horse-batter", false), ("", false)] {
            assert_eq!(client.has(token), is_its, "{token}");
        }
        assert!(!client.has(&text), "the digest is no token");
        for text in ["", "zz", &text[1..], &format!("{text}0"), &"é".repeat(32), &"+f".repeat(32)] {
            assert_eq!(parse_digest(text), None, "{text}");
        }
    }
}
