//! Stubs of the script API itself.

use minijinja::{Value, context};

use crate::{canon, templates, text};

/// `/forge.pyi`: the script API for Starlark; `servers` are pairs of identifier and configured name.
pub fn forge_pyi(servers: &[(&str, &str)]) -> String {
    render(templates::FORGE_PYI, servers, false)
}

/// `/forge.d.ts`: the script API for JavaScript; `servers` are pairs of identifier and configured name.
pub fn forge_dts(servers: &[(&str, &str)]) -> String {
    render(templates::FORGE_DTS, servers, false)
}

/// The script API for Starlark without servers, for `tools.pyi`.
pub(crate) fn editor_pyi() -> String {
    render(templates::FORGE_PYI, &[], true)
}

/// The script API for JavaScript without servers: it takes their types from `ForgeServers` of `tools.d.ts`.
pub(crate) fn editor_dts() -> String {
    render(templates::FORGE_DTS, &[], true)
}

/// Servers come in the order of their identifiers; the digest covers everything else in the file.
fn render(template: &str, servers: &[(&str, &str)], typed: bool) -> String {
    let mut servers = servers.to_vec();
    servers.sort_unstable();
    let servers: Vec<Value> = servers
        .into_iter()
        .map(|(ident, name)| {
            let name = if name == ident { String::new() } else { text::comment_name(name) };
            context! { ident, name }
        })
        .collect();
    let digest =
        canon::short_digest(&templates::render(template, context! { digest => "", typed, servers => servers.clone() }));
    templates::render(template, context! { digest, typed, servers })
}
