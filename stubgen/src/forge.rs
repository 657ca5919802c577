//! Stubs of the script API itself.

/// `/forge.pyi`: the script API for Starlark; `servers` are pairs of identifier and wire name.
pub fn forge_pyi(servers: &[(&str, &str)]) -> String {
    servers.iter().map(|(ident, _)| format!("# {ident}\n")).collect()
}

/// `/forge.d.ts`: the script API for JavaScript; `servers` are pairs of identifier and wire name.
pub fn forge_dts(servers: &[(&str, &str)]) -> String {
    servers.iter().map(|(ident, _)| format!("// {ident}\n")).collect()
}
