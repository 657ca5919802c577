//! An API without a server: `openapi` with its keys.

use std::collections::BTreeMap;

use url::Url;

use super::credential::{self, Credential, RawCredential};
use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::RawServer;
use super::transport::{Kind, PLAIN, address, headers, refuse};
use super::values::Values;
use super::{DocumentPlace, Transport, sensitive};

/// Resolves the keys of an API that an OpenAPI document describes.
pub(super) fn openapi(values: &Values<'_>, key: &KeyPath, raw: RawServer) -> Result<Transport, ConfigError> {
    let others = [
        ("command", raw.command.is_some()),
        ("args", raw.args.is_some()),
        ("env", raw.env.is_some()),
        ("cwd", raw.cwd.is_some()),
        ("url", raw.url.is_some()),
    ];
    refuse(values, key, Kind::OpenApi, &others)?;
    let Some(document) = raw.openapi else {
        return Err(values.document.at_value(&key.key("transport"), "an OpenAPI server needs `openapi`"));
    };
    let document_key = key.key("openapi");
    let is_url = document.starts_with("https://") || document.starts_with("http://");
    let (document, of_document) = match is_url {
        true => {
            let (url, is_private) = address(values, &document_key, document)?;
            (DocumentPlace::Url(url), is_private)
        }
        false => (DocumentPlace::File(values.path(&document_key, document)?), true),
    };
    let base_key = key.key("base_url");
    let base = raw.base_url.map(|base| address(values, &base_key, base)).transpose()?;
    let is_private = base.as_ref().map_or(of_document, |(_, is_private)| *is_private);
    if let Some((base, _)) = &base
        && Url::parse(base).is_ok_and(|base| base.query().is_some() || base.fragment().is_some())
    {
        let error = values.document.at_value(&base_key, "has a query or a fragment");
        return Err(error.with_hint("parameters of every request belong in `query`"));
    }
    let has_credentials = raw.headers.is_some() || raw.query.is_some();
    if let (None, true, DocumentPlace::File(_)) = (&base, has_credentials, &document) {
        let error = values.document.at_key(key, "`headers` or `query` without `base_url`");
        return Err(error.with_hint("set `base_url`: the document must not decide where credentials go"));
    }
    let headers = headers(values, &key.key("headers"), raw.headers.unwrap_or_default(), is_private)?;
    let query = query(values, &key.key("query"), raw.query.unwrap_or_default(), is_private)?;
    Ok(Transport::OpenApi { document, base_url: base.map(|(base, _)| base), headers, query })
}

fn query(
    values: &Values<'_>,
    key: &KeyPath,
    raw: BTreeMap<String, RawCredential>,
    is_private: bool,
) -> Result<BTreeMap<String, Credential>, ConfigError> {
    let mut query = BTreeMap::new();
    for (name, raw) in raw {
        let key = key.key(&name);
        if name.is_empty() {
            return Err(values.document.at_key(&key, "must not be empty"));
        }
        let (value, is_credential) = match raw {
            RawCredential::Text(text) => {
                let value = values.text(&key, text)?;
                let is_credential = sensitive::is_credential(&name, &value);
                (values.env.map(|_| Credential::Given(sensitive::variable(&name, value))), is_credential)
            }
            RawCredential::Table(raw) => (Some(Credential::Kept(credential::source(values, &key, raw, false)?)), true),
        };
        if !is_private && is_credential {
            return Err(values.document.at_key(&key, "a credential for a plain http URL").with_hint(PLAIN));
        }
        if let Some(value) = value.filter(|_| values.env.is_some()) {
            query.insert(name, value);
        }
    }
    Ok(query)
}
