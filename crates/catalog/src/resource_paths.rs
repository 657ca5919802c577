//! `/github/resources/` and `/github/prompts/`: paths and texts of a server's resources and prompts.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use stubgen::{APP_SCHEME, many_lines, one_line};

use super::listing::Lines;
use super::{Catalog, Node};
use crate::manifest::{Offer, Offers, ServerEntry};
use base::limits;
use base::meter::{Meter, Stopped};
use base::text::counted;

/// Most entries listed of a folder; the rest is only counted.
const MAX_ENTRIES: usize = 400;
/// Most variables of a template that URIs are compared with. Resources of larger templates are read by their server's
/// folder.
const MAX_VARIABLES: usize = limits::TEMPLATE_VARIABLES.max;
/// Step limit for finding the servers of one link in an answer.
const LINK_STEPS: u64 = 100_000;
/// Steps for comparing a URI with one template.
const COMPARISON: u64 = 2_000;
/// Most templates listed.
const MAX_TEMPLATES: usize = limits::TEMPLATES.max;

/// A resource that must be read from its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The server's identifier.
    pub server: String,
    /// URI at the server.
    pub uri: String,
    /// Path of the request.
    pub path: String,
}

impl Catalog {
    /// The resource that `path` names by its URI, such as `/github/resources/repo://owner/name`, or `ui://github/page` for
    /// the server's page `ui://page`. Any URI is possible: templates cover more than any list, and the server decides which
    /// exist.
    pub fn resource_by_uri(&self, path: &str) -> Option<Remote> {
        let path = path.trim();
        if let Some((server, page)) = path.strip_prefix(APP_SCHEME).and_then(|rest| rest.split_once('/')) {
            let entry = &self.servers[self.server_position(server)?];
            let has = |uri: &str| {
                let mut tools = entry.stubs.tools.iter().chain(entry.tools_for_apps());
                entry.offers.resource(uri).is_some() || tools.any(|tool| tool.page() == Some(uri))
            };
            let page = format!("{APP_SCHEME}{page}");
            // A page reads what is beside it by its server's URIs.
            let uri = if !has(&page) && has(path) { path } else { &page };
            return self.resource_by_uri(&format!("/{server}/resources/{uri}"));
        }
        let path = path.strip_prefix("forge://").unwrap_or(path).trim_start_matches('/');
        let (server, rest) = path.split_once('/')?;
        let (folder, uri) = rest.split_once('/')?;
        if !folder.eq_ignore_ascii_case("resources") || !has_scheme(uri) {
            return None;
        }
        let entry = &self.servers[self.server_position(server)?];
        Some(Remote {
            server: entry.ident.clone(),
            uri: uri.to_owned(),
            path: format!("/{}/resources/{uri}", entry.ident),
        })
    }

    /// The resource or prompt of a file, with its server.
    pub fn offer(&self, node: Node) -> Option<(&ServerEntry, &Offer)> {
        let entry = self.servers.get(node.server()?)?;
        let offer = match node {
            Node::Resource(_, at) => entry.offers.resources.get(at),
            Node::Prompt(_, at) => entry.offers.prompts.get(at),
            _ => None,
        };
        Some((entry, offer?))
    }

    /// The resource behind a node.
    pub fn remote(&self, node: Node) -> Option<Remote> {
        let (entry, offer) = self.offer(node).filter(|_| matches!(node, Node::Resource(..)))?;
        Some(Remote { server: entry.ident.clone(), uri: offer.id.clone(), path: self.path(node) })
    }

    /// Name of the server whose resource a node is.
    pub fn resource_owner(&self, node: Node) -> Option<&str> {
        let Node::Resource(server, _) = node else { return None };
        Some(&self.servers[server].name)
    }

    /// Name of the server whose list of resources decides about `path`, also where nothing has that path.
    pub fn resource_list_of(&self, path: &str) -> Option<&str> {
        let segments = super::vfs::segments(path);
        let (server, folder) = (segments.first()?, segments.get(1)?);
        let is_list = folder.eq_ignore_ascii_case("resources")
            && self.resource_by_uri(path).is_none()
            && !matches!(self.resolve(path), Ok(Node::Resource(..)));
        is_list.then(|| self.server_position(server)).flatten().map(|server| self.servers[server].name.as_str())
    }

    /// True if a server lists a resource with this URI or has a template for it, or if the check takes too many steps.
    pub fn may_list(&self, uri: &str) -> bool {
        !matches!(self.servers_with_resource(uri, &Meter::new(LINK_STEPS)), Ok(servers) if servers.is_empty())
    }

    /// Servers that list a resource with this URI, else those with a template for it.
    pub fn servers_with_resource(&self, uri: &str, meter: &Meter) -> Result<Vec<&ServerEntry>, Stopped> {
        let entries = || self.servers.iter().map(|entry| &**entry);
        let listed: Vec<_> = entries().filter(|entry| entry.offers.resource(uri).is_some()).collect();
        if !listed.is_empty() {
            return Ok(listed);
        }
        let mut fitting = Vec::new();
        for entry in entries() {
            for template in &entry.offers.templates {
                meter.spend(1)?;
                if !uri.starts_with(template.id.split('{').next().unwrap_or_default()) {
                    continue;
                }
                meter.spend(COMPARISON)?;
                if template.id == uri || matches(&template.id, uri) {
                    fitting.push(entry);
                    break;
                }
            }
        }
        Ok(fitting)
    }

    /// The server that alone has templates of the scheme of a URI, else the word for one. Lists of resources may have labels,
    /// and do not tell.
    pub(super) fn server_of_scheme(&self, uri: &str) -> Option<&str> {
        let (scheme, _) = uri.split_once("://").filter(|_| has_scheme(uri))?;
        let is_of = |id: &str| id.split_once("://").is_some_and(|(own, _)| own == scheme);
        let mut all = self.servers.iter().filter(|entry| entry.offers.templates.iter().any(|it| is_of(&it.id)));
        let first = all.next();
        Some(first.filter(|_| all.next().is_none()).map_or("SERVER", |entry| &entry.ident))
    }

    /// Servers that list a prompt of this name.
    pub fn servers_with_prompt(&self, name: &str) -> Vec<&ServerEntry> {
        self.servers.iter().map(|entry| &**entry).filter(|entry| entry.offers.prompt(name).is_some()).collect()
    }

    /// Lines of a server's folder for its resources and prompts.
    pub(super) fn offer_folders(entry: &ServerEntry, counts: bool) -> Vec<String> {
        let Offers { resources, templates, prompts, .. } = &*entry.offers;
        let mut lines = Vec::new();
        if !resources.is_empty() || !templates.is_empty() {
            let note = if counts { resources_note(&entry.offers) } else { "resources".to_owned() };
            lines.push(format!("resources/  {note}"));
        }
        if !prompts.is_empty() {
            lines.push(format!("prompts/  {}", counted(prompts.len(), "prompt")));
        }
        lines
    }

    pub(super) fn ls_resources(&self, server: usize, lines: &mut Lines) {
        let entry = &self.servers[server];
        let Offers { resources, templates, notes, .. } = &*entry.offers;
        lines.push(&format!("{}  {}", self.path(Node::Resources(server)), resources_note(&entry.offers)));
        let line = |offer: &Offer| format!("{}  {}  {}", offer.file, offer.id, offer.summary).trim_end().to_owned();
        lines.extend(resources.iter().take(MAX_ENTRIES).map(line));
        lines.extend(more(resources.len(), MAX_ENTRIES));
        let template = |offer: &Offer| format!("template  {}  {}", offer.id, offer.summary).trim_end().to_owned();
        lines.extend(templates.iter().take(MAX_TEMPLATES).map(template));
        lines.extend(more(templates.len(), MAX_TEMPLATES));
        let ident = &entry.ident;
        lines.push(&format!("any URI of the server: cat(\"/{ident}/resources/URI\"), or in scripts forge.readResource(\"{ident}\", URI) / read_resource"));
        lines.extend(notes.iter().map(|note| format!("note: {note}")));
    }

    pub(super) fn ls_prompts(&self, server: usize, lines: &mut Lines) {
        let entry = &self.servers[server];
        let prompts = &entry.offers.prompts;
        let counted = counted(prompts.len(), "prompt");
        lines.push(&format!("{}  {counted}", self.path(Node::Prompts(server))));
        lines.extend(prompts.iter().take(MAX_ENTRIES).map(prompt_line));
        lines.extend(more(prompts.len(), MAX_ENTRIES));
        lines.extend(entry.offers.notes.iter().map(|note| format!("note: {note}")));
    }

    /// The line of one resource or prompt.
    pub(super) fn offer_line(&self, node: Node) -> String {
        let Some((_, offer)) = self.offer(node) else { return String::new() };
        match node {
            Node::Prompt(..) => prompt_line(offer),
            _ => format!("{}  {}  {}", self.path(node), offer.id, offer.summary).trim_end().to_owned(),
        }
    }

    /// Text of a prompt's file: its purpose, its arguments, and how to get it.
    pub(super) fn prompt_md(&self, server: usize, prompt: usize) -> String {
        let entry = &self.servers[server];
        let prompt = &entry.offers.prompts[prompt];
        let mut text = format!("# Prompt `{}` of {}\n", prompt.id, entry.name);
        for line in ["title", "description"].iter().filter_map(|key| prompt.text(key)).flat_map(many_lines) {
            // Quoted, so that the server's words do not pass for the gateway's.
            let _ = write!(text, "\n> {line}");
        }
        text.push('\n');
        let arguments = arguments(prompt);
        if !arguments.is_empty() {
            text.push_str("\nArguments, all of them text:\n");
        }
        for Argument { name, required, description } in &arguments {
            let optional = if *required { "" } else { " (optional)" };
            let _ = write!(text, "\n- `{name}`{optional}: {description}");
        }
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let object: Vec<String> =
            arguments.iter().filter(|a| a.required).map(|a| format!("{}: \"…\"", quoted(&a.name))).collect();
        let (server, name, object) = (quoted(&entry.ident), quoted(&prompt.id), object.join(", "));
        let _ = write!(
            text,
            "\n\nJavaScript: `await forge.prompt({server}, {name}, {{{object}}})`\nStarlark: `prompt({server}, {name}, **{{{object}}})`\n"
        );
        text
    }
}

/// Resources and prompts of `servers`, in the order of the index.
pub(super) fn nodes(servers: &[Arc<ServerEntry>]) -> Vec<Node> {
    let of = |(server, entry): (usize, &Arc<ServerEntry>)| {
        let resources = (0..entry.offers.resources.len()).map(move |position| Node::Resource(server, position));
        resources.chain((0..entry.offers.prompts.len()).map(move |position| Node::Prompt(server, position)))
    };
    servers.iter().enumerate().flat_map(of).collect()
}

/// An argument of a prompt.
pub struct Argument {
    pub name: String,
    pub required: bool,
    pub description: String,
}

/// The arguments of a prompt, in its order.
pub fn arguments(prompt: &Offer) -> Vec<Argument> {
    let listed = prompt.definition.get("arguments").and_then(Value::as_array);
    let argument = |argument: &Value| {
        let text = |key: &str| argument.get(key).and_then(Value::as_str).map(one_line);
        Some(Argument {
            name: text("name")?,
            required: argument.get("required").and_then(Value::as_bool).unwrap_or(false),
            description: text("description").or_else(|| text("title")).unwrap_or_default(),
        })
    };
    listed.into_iter().flatten().filter_map(argument).collect()
}

fn prompt_line(prompt: &Offer) -> String {
    let names = arguments(prompt).into_iter().map(|a| if a.required { a.name } else { format!("{}?", a.name) });
    let names: Vec<String> = names.collect();
    format!("{}  {}({})  {}", prompt.file, prompt.id, names.join(", "), prompt.summary).trim_end().to_owned()
}

fn resources_note(offers: &Offers) -> String {
    let resources = counted(offers.resources.len(), "resource");
    match offers.templates.len() {
        0 => resources,
        templates => format!("{resources}, {}", counted(templates, "template")),
    }
}

fn more(total: usize, shown: usize) -> Option<String> {
    (total > shown).then(|| format!("… {} more", total - shown))
}

/// True if a URI can come from a template: its fixed parts occur in order, every variable has a value, and the value of
/// a simple one has no slash.
fn matches(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let before = parts.next().unwrap_or_default();
    if !uri.starts_with(before) || template.matches('{').count() > MAX_VARIABLES {
        return false;
    }
    let mut pattern = format!("^{}", regex::escape(before));
    for part in parts {
        let (variable, after) = part.split_once('}').unwrap_or((part, ""));
        let is_simple = variable.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        pattern.push_str(if is_simple { "[^/]+" } else { ".+" });
        pattern.push_str(&regex::escape(after));
    }
    pattern.push('$');
    regex::Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(uri))
}

/// True if a text starts with a URI scheme.
fn has_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::ServerState;
    use upstream::Listing;

    fn catalog(templates: Vec<String>) -> Catalog {
        let template = |uri: String| json!({"name": "t", "uriTemplate": uri});
        let listing = Listing { templates: templates.into_iter().map(template).collect(), ..Listing::default() };
        Catalog::build(vec![Arc::new(ServerEntry::listed("s", "s", None, listing, ServerState::Offline))])
    }

    #[test]
    fn a_uri_is_compared_with_few_templates_of_few_variables() {
        let uri = format!("x:{}", "a".repeat(8_000));
        let many = |of: usize| (0..1_000).map(|n| format!("x:{{+v{n}}}{}", "a{+v}".repeat(of))).collect();
        let found =
            |of: usize, uri: &str| catalog(many(of)).servers_with_resource(uri, &Meter::new(20_000)).map(|s| s.len());
        assert_eq!(found(1, &uri), Ok(1), "the first fits");
        assert_eq!(found(1, "x:b"), Err(Stopped::Spent), "none fits, and most are not looked at");
        let large = catalog(vec![format!("x:{}", "{+v}".repeat(1_000))]);
        assert_eq!(large.servers_with_resource(&uri, &Meter::new(20_000)).map(|servers| servers.len()), Ok(0));
    }
}
