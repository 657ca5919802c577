//! An API without a server: `openapi` with its keys.

use url::Url;

use super::credential::variables;
use super::error::ConfigError;
use super::key::Key;
use super::raw::RawServer;
use super::transport::{address, headers};
use super::{DocumentPlace, Transport};

/// Resolves the keys of an API that an OpenAPI document describes.
pub(super) fn openapi(key: &Key<'_>, raw: &mut RawServer) -> Result<Transport, ConfigError> {
    let Some(document) = raw.openapi.take() else {
        return Err(key.key("transport").at_value("an OpenAPI server needs `openapi`"));
    };
    let document_key = key.key("openapi");
    let place = document_key.text(document.clone())?.text;
    let (document, of_document) = match place.starts_with("https://") || place.starts_with("http://") {
        true => {
            let (url, is_private) = address(&document_key, document)?;
            (DocumentPlace::Url(url), is_private)
        }
        false => (DocumentPlace::File(document_key.path(document)?), true),
    };
    let base_key = key.key("base_url");
    let base = key.given("base_url", raw.base_url.take(), address)?;
    let is_private = base.as_ref().map_or(of_document, |(_, is_private)| *is_private);
    if let Some((base, _)) = &base
        && Url::parse(base).is_ok_and(|base| base.query().is_some() || base.fragment().is_some())
    {
        let error = base_key.at_value("has a query or a fragment");
        return Err(error.with_hint("parameters of every request belong in `query`"));
    }
    let has_credentials = raw.headers.is_some() || raw.query.is_some();
    if let (None, true, DocumentPlace::File(_)) = (&base, has_credentials, &document) {
        let error = key.at_key("`headers` or `query` without `base_url`");
        return Err(error.with_hint("set `base_url`: the document must not decide where credentials go"));
    }
    let headers = headers(&key.key("headers"), raw.headers.take().unwrap_or_default(), is_private)?;
    let query =
        variables(&key.key("query"), raw.query.take().unwrap_or_default(), is_private, |key| match key.name() {
            "" => Err(key.at_key("must not be empty")),
            _ => Ok(()),
        })?;
    Ok(Transport::OpenApi { document, base_url: base.map(|(base, _)| base), headers, query })
}
