//! Stubs of the script API itself.

use minijinja::context;

use crate::{canon, templates};

/// `/forge.pyi`: the script API for Starlark.
pub fn forge_pyi() -> String {
    render(templates::FORGE_PYI, false)
}

/// `/forge.d.ts`: the script API for JavaScript.
pub fn forge_dts() -> String {
    render(templates::FORGE_DTS, false)
}

/// The script API for Starlark, for `tools.pyi`.
pub(crate) fn editor_pyi() -> String {
    render(templates::FORGE_PYI, true)
}

/// The script API for JavaScript that takes the types of servers from `ForgeServers` of `tools.d.ts`.
pub(crate) fn editor_dts() -> String {
    render(templates::FORGE_DTS, true)
}

/// The digest covers everything else in the file.
fn render(template: &str, typed: bool) -> String {
    let digest = canon::short_digest(&templates::render(template, context! { digest => "", typed }));
    templates::render(template, context! { digest, typed })
}
