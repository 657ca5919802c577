//! MCP Apps: the page that shows a tool's answers, and who may call the tool (`_meta.ui`).

use serde_json::Value;

/// Scheme of the pages.
pub const SCHEME: &str = "ui://";

/// The part of a tool's definition that is for apps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct App {
    /// URI of the page that shows its answers.
    pub page: Option<String>,
    /// True if the model is not to have the tool: only pages of its server call it.
    pub is_hidden: bool,
    /// True if pages of its server may call it.
    pub is_callable: bool,
}

impl App {
    /// Reads `_meta.ui`, or the page in its older form; `None` where a definition has neither. A list of callers that cannot
    /// be read lets none call.
    pub(crate) fn read(definition: &Value) -> Option<Box<Self>> {
        let meta = definition.get("_meta")?;
        let ui = meta.get("ui").filter(|ui| ui.is_object());
        let pages = [ui.and_then(|ui| ui.get("resourceUri")), meta.get("ui/resourceUri")];
        let page = pages.into_iter().flatten().filter_map(Value::as_str).find(|uri| uri.starts_with(SCHEME));
        let page = page.map(str::to_owned);
        let callers = ui.and_then(|ui| ui.get("visibility")).filter(|callers| !callers.is_null());
        if page.is_none() && callers.is_none() {
            return None;
        }
        let has = |who: &str| match callers {
            None => true,
            Some(Value::Array(callers)) => callers.is_empty() || callers.iter().any(|caller| caller == who),
            Some(other) => other == who,
        };
        Some(Box::new(Self { page, is_hidden: !has("model"), is_callable: has("app") }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_and_the_callers_of_a_tool_are_read() {
        let of = |meta: Value| {
            App::read(&json!({ "name": "x", "_meta": meta })).map(|app| (app.page, app.is_hidden, app.is_callable))
        };
        let page = |uri: &str| Some(uri.to_owned());
        for (meta, expected) in [
            (json!({}), None),
            (json!({"ui": {"resourceUri": "ui://a"}}), Some((page("ui://a"), false, true))),
            (json!({"ui/resourceUri": "ui://old"}), Some((page("ui://old"), false, true))),
            (json!({"ui": {"resourceUri": "https://elsewhere/"}}), None),
            (json!({"ui": {"resourceUri": ["ui://a"]}}), None),
            (json!({"ui": "ui://a"}), None),
            (json!({"ui": {"resourceUri": "ui://a", "visibility": ["app"]}}), Some((page("ui://a"), true, true))),
            (json!({"ui": {"visibility": ["model", "app"]}}), Some((None, false, true))),
            (json!({"ui": {"visibility": ["model"]}}), Some((None, false, false))),
            (json!({"ui": {"visibility": []}}), Some((None, false, true))),
            (json!({"ui": {"visibility": "app"}}), Some((None, true, true))),
            (json!({"ui": {"visibility": ["else"]}}), Some((None, true, false))),
            (json!({"ui": {"resourceUri": 7}, "ui/resourceUri": "ui://old"}), Some((page("ui://old"), false, true))),
            (json!({"ui": {"visibility": 7}}), Some((None, true, false))),
        ] {
            assert_eq!(of(meta.clone()), expected, "{meta}");
        }
    }
}
