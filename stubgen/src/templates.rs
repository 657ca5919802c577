//! Templates of every view, compiled once.

use std::sync::LazyLock;

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, syntax::SyntaxConfig};

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    match syntax.build() {
        Ok(syntax) => environment.set_syntax(syntax),
        Err(error) => debug_assert!(false, "{error}"),
    }
    for (name, source) in [
        (STUB, include_str!("../templates/stub.j2")),
        (INIT, include_str!("../templates/init_pyi.j2")),
        (MD, include_str!("../templates/md.j2")),
        (FORGE_PYI, include_str!("../templates/forge_pyi.j2")),
        (FORGE_DTS, include_str!("../templates/forge_dts.j2")),
        (TOOLS_PYI, include_str!("../templates/tools_pyi.j2")),
        (TOOLS_DTS, include_str!("../templates/tools_dts.j2")),
    ] {
        let added = environment.add_template(name, source);
        assert!(added.is_ok(), "a built-in template is broken: {name}: {added:?}");
    }
    environment
});

pub(crate) const STUB: &str = "stub";
pub(crate) const INIT: &str = "init_pyi";
pub(crate) const MD: &str = "md";
pub(crate) const FORGE_PYI: &str = "forge_pyi";
pub(crate) const FORGE_DTS: &str = "forge_dts";
pub(crate) const TOOLS_PYI: &str = "tools_pyi";
pub(crate) const TOOLS_DTS: &str = "tools_dts";

/// Renders a built-in template. Every variable is ours, so a failure is a bug that each view's tests show; the message
/// then becomes a comment in the file instead of ending the gateway.
pub(crate) fn render(name: &str, context: Value) -> String {
    let rendered = ENVIRONMENT.get_template(name).and_then(|template| template.render(context));
    debug_assert!(rendered.is_ok(), "{name}: {rendered:?}");
    rendered.unwrap_or_else(|error| format!("# template {name}: {error}\n"))
}
