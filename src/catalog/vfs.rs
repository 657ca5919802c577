//! Paths of the virtual filesystem and the files behind them.

use std::borrow::Cow;

use globset::GlobBuilder;

use super::Catalog;
use crate::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use crate::manifest::{Offer, ServerEntry};

/// Files a glob may match before it is refused.
const MAX_GLOB: usize = 200;

/// A place in the virtual filesystem, by positions in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// `/`
    Root,
    /// `/forge.pyi`
    ForgePyi,
    /// `/forge.d.ts`
    ForgeDts,
    /// `/github/`
    Server(usize),
    /// `/github/__init__.pyi`
    Init(usize),
    /// `/github/README.md`
    Readme(usize),
    /// `/github/stderr`, for a server that is a process of ours
    Stderr(usize),
    /// `/github/issues/`
    Category(usize, usize),
    /// `/github/issues/create_issue.pyi` and its siblings
    Tool(usize, usize, View),
    /// `/github/resources/`
    Resources(usize),
    /// `/github/resources/readme.md`: its text is with the server, see [`Catalog::remote`]
    Resource(usize, usize),
    /// `/github/prompts/`
    Prompts(usize),
    /// `/github/prompts/review.md`
    Prompt(usize, usize),
}

/// The views of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Python stub.
    Pyi,
    /// TypeScript declaration.
    Dts,
    /// Full documentation.
    Md,
    /// The raw MCP definition.
    Json,
}

impl View {
    const ALL: [(&'static str, Self); 4] =
        [(".pyi", Self::Pyi), (".d.ts", Self::Dts), (".md", Self::Md), (".json", Self::Json)];
}

impl Catalog {
    /// The file or folder at `path`. Wrong case, a missing suffix, a missing category and a missing leading `/`
    /// are forgiven.
    ///
    /// # Errors
    /// `INVALID_ARGS` with the nearest parent's listing and up to three suggestions.
    pub fn resolve(&self, path: &str) -> Result<Node> {
        let segments = segments(path);
        let mut node = Node::Root;
        for (depth, segment) in segments.iter().enumerate() {
            node = self.step(node, segment).ok_or_else(|| self.no_such_path(path, node, &segments[depth..]))?;
        }
        Ok(node)
    }

    /// As [`Catalog::resolve`], for folders only.
    pub(super) fn folder(&self, path: &str) -> Result<Node> {
        match self.resolve(path)? {
            node @ (Node::Root | Node::Server(_) | Node::Category(..) | Node::Resources(_) | Node::Prompts(_)) => {
                Ok(node)
            }
            _ => Err(Error::new(ErrorCode::InvalidArgs, format!("{path} is a file")).hint("`cat` reads files")),
        }
    }

    fn step(&self, from: Node, segment: &str) -> Option<Node> {
        match from {
            Node::Root => match segment.to_ascii_lowercase().as_str() {
                "forge.pyi" | "forge" => Some(Node::ForgePyi),
                "forge.d.ts" => Some(Node::ForgeDts),
                _ => self.server_position(segment).map(Node::Server),
            },
            Node::Server(server) => {
                let entry = &self.servers[server];
                match segment.to_ascii_lowercase().as_str() {
                    "__init__.pyi" | "__init__" => Some(Node::Init(server)),
                    "readme.md" => Some(Node::Readme(server)),
                    "resources" => Some(Node::Resources(server)),
                    "prompts" => Some(Node::Prompts(server)),
                    "stderr" if entry.stderr().is_some() => Some(Node::Stderr(server)),
                    lower => entry
                        .stubs
                        .categories
                        .iter()
                        .position(|category| category.eq_ignore_ascii_case(lower))
                        .map(|category| Node::Category(server, category))
                        .or_else(|| tool_file(entry, server, segment)),
                }
            }
            Node::Category(server, _) => tool_file(&self.servers[server], server, segment),
            Node::Resources(server) => {
                let resources = &self.servers[server].offers.resources;
                offer(resources, segment, "").map(|position| Node::Resource(server, position))
            }
            Node::Prompts(server) => {
                let prompts = &self.servers[server].offers.prompts;
                offer(prompts, segment, ".md").map(|position| Node::Prompt(server, position))
            }
            _ => None,
        }
    }

    /// The canonical path of a node.
    #[must_use]
    pub fn path(&self, node: Node) -> String {
        let ident = |server: usize| self.servers[server].ident.as_str();
        match node {
            Node::Root => "/".to_owned(),
            Node::ForgePyi => "/forge.pyi".to_owned(),
            Node::ForgeDts => "/forge.d.ts".to_owned(),
            Node::Server(server) => format!("/{}/", ident(server)),
            Node::Init(server) => format!("/{}/__init__.pyi", ident(server)),
            Node::Readme(server) => format!("/{}/README.md", ident(server)),
            Node::Stderr(server) => format!("/{}/stderr", ident(server)),
            Node::Category(server, category) => {
                format!("/{}/{}/", ident(server), self.servers[server].stubs.categories[category])
            }
            Node::Resources(server) => format!("/{}/resources/", ident(server)),
            Node::Resource(server, position) => {
                format!("/{}/resources/{}", ident(server), self.servers[server].offers.resources[position].file)
            }
            Node::Prompts(server) => format!("/{}/prompts/", ident(server)),
            Node::Prompt(server, position) => {
                format!("/{}/prompts/{}", ident(server), self.servers[server].offers.prompts[position].file)
            }
            Node::Tool(server, tool, view) => {
                let stub = tool_path(&self.servers[server], tool);
                let suffix = View::ALL.iter().find(|(_, v)| *v == view).map_or(".pyi", |(suffix, _)| suffix);
                format!("{stub}{suffix}")
            }
        }
    }

    /// The text of a file; `None` for a folder, and for a resource, whose text is with its server.
    #[must_use]
    pub fn read(&self, node: Node) -> Option<Cow<'_, str>> {
        let names = || self.servers.iter().map(|s| (s.ident.as_str(), s.name.as_str())).collect::<Vec<_>>();
        Some(match node {
            Node::Root | Node::Server(_) | Node::Category(..) | Node::Resources(_) | Node::Prompts(_) => return None,
            Node::Resource(..) => return None,
            Node::Prompt(server, prompt) => self.prompt_md(server, prompt).into(),
            Node::ForgePyi => stubgen::forge_pyi(&names()).into(),
            Node::ForgeDts => stubgen::forge_dts(&names()).into(),
            Node::Init(server) => self.servers[server].stubs.init_pyi.as_str().into(),
            Node::Readme(server) => self.readme(&self.servers[server]).into(),
            Node::Stderr(server) => self.servers[server].stderr().unwrap_or_default().into(),
            Node::Tool(server, tool, view) => {
                let stub = &self.servers[server].stubs.tools[tool];
                match view {
                    View::Pyi => stub.pyi.as_str().into(),
                    View::Dts => stub.dts().into(),
                    View::Md => stub.md().into(),
                    View::Json => stub.json().into(),
                }
            }
        })
    }

    /// Digest of the stub behind a node, where it has one.
    #[must_use]
    pub fn node_digest(&self, node: Node) -> Option<&str> {
        match node {
            Node::Tool(server, tool, _) => Some(&self.servers[server].stubs.tools[tool].digest),
            Node::Init(server) => Some(&self.servers[server].stubs.digest),
            _ => None,
        }
    }

    /// The server whose stderr a file is.
    #[must_use]
    pub fn stderr_of(&self, node: Node) -> Option<&str> {
        match node {
            Node::Stderr(server) => Some(&self.servers[server].name),
            _ => None,
        }
    }

    /// The files that `pattern` names: one, or all that a glob matches.
    ///
    /// # Errors
    /// `INVALID_ARGS` when nothing matches, or too much.
    pub fn files(&self, pattern: &str) -> Result<Vec<Node>> {
        if !pattern.contains(['*', '?', '[', '{']) {
            return Ok(vec![self.resolve(pattern)?]);
        }
        let rooted = format!("/{}", segments(pattern).join("/"));
        let wrong = |what: String| Error::new(ErrorCode::InvalidArgs, what);
        let glob = GlobBuilder::new(&rooted)
            .literal_separator(true)
            .case_insensitive(true)
            .build()
            .map_err(|error| wrong(format!("`{pattern}` is not a glob: {error}")))?
            .compile_matcher();
        // Resources are read from their servers, so a glob has to mean them; `**` alone does not.
        let means_resources = segments(pattern).get(1).is_some_and(|part| part.eq_ignore_ascii_case("resources"));
        let offers = self.every_prompt().chain(self.every_resource().filter(|_| means_resources));
        let files = self.every_file().chain(offers);
        let found: Vec<Node> = files.filter(|node| glob.is_match(self.path(*node))).collect();
        match found.len() {
            0 => {
                Err(wrong(format!("nothing matches {pattern}")).hint("`ls` shows what there is; `**` crosses folders"))
            }
            1..=MAX_GLOB => Ok(found),
            many => Err(wrong(format!("{pattern} matches {many} files, more than {MAX_GLOB}")).hint("narrow it")),
        }
    }

    /// Every file of the stub tree, server by server.
    pub fn every_file(&self) -> impl Iterator<Item = Node> {
        let of_server = |server: usize| {
            let tools = 0..self.servers[server].stubs.tools.len();
            let views = tools.flat_map(move |tool| View::ALL.map(move |(_, view)| Node::Tool(server, tool, view)));
            [Node::Readme(server), Node::Init(server)].into_iter().chain(views)
        };
        [Node::ForgePyi, Node::ForgeDts].into_iter().chain((0..self.servers.len()).flat_map(of_server))
    }

    /// Every listed resource, server by server.
    pub fn every_resource(&self) -> impl Iterator<Item = Node> {
        let of =
            |server: usize| (0..self.servers[server].offers.resources.len()).map(move |n| Node::Resource(server, n));
        (0..self.servers.len()).flat_map(of)
    }

    /// Every prompt, server by server.
    pub fn every_prompt(&self) -> impl Iterator<Item = Node> {
        let of = |server: usize| (0..self.servers[server].offers.prompts.len()).map(move |n| Node::Prompt(server, n));
        (0..self.servers.len()).flat_map(of)
    }

    fn no_such_path(&self, path: &str, parent: Node, rest: &[&str]) -> Error {
        let wanted = rest.first().copied().unwrap_or_default();
        let bare = View::ALL.iter().find_map(|(suffix, _)| wanted.strip_suffix(suffix)).unwrap_or(wanted);
        let names: Vec<String> = match parent {
            Node::Root => self.servers.iter().map(|server| server.ident.clone()).collect(),
            Node::Server(server) | Node::Category(server, _) => {
                let stubs = &self.servers[server].stubs;
                stubs.categories.iter().cloned().chain(stubs.tools.iter().map(|tool| tool.ident.clone())).collect()
            }
            Node::Resources(server) => self.servers[server].offers.resources.iter().map(|o| o.file.clone()).collect(),
            Node::Prompts(server) => self.servers[server].offers.prompts.iter().map(|o| o.file.clone()).collect(),
            _ => Vec::new(),
        };
        let near = nearest(bare, names.iter().map(String::as_str));
        let near: Vec<String> = near
            .iter()
            .map(|name| self.step(parent, name).map_or_else(|| name.clone(), |node| self.path(node)))
            .collect();
        let listing = self.ls_node(parent, 1);
        let hint = did_you_mean(&near).unwrap_or_else(|| "`search` finds tools by purpose".to_owned());
        Error::new(ErrorCode::InvalidArgs, format!("there is no {path}\nnearest folder:\n{listing}")).hint(hint)
    }
}

/// The position of an offer by its file, with or without `suffix`, or by what its server calls it.
fn offer(offers: &[Offer], segment: &str, suffix: &str) -> Option<usize> {
    let bare = |file: &str| file.strip_suffix(suffix).unwrap_or(file).eq_ignore_ascii_case(segment);
    let exact = offers.iter().position(|offer| offer.file == segment || offer.id == segment);
    exact.or_else(|| offers.iter().position(|o| o.file.eq_ignore_ascii_case(segment) || bare(&o.file)))
}

/// The path of a tool's files without their suffix.
pub(super) fn tool_path(entry: &ServerEntry, tool: usize) -> String {
    stub_path(&entry.ident, &entry.stubs.tools[tool])
}

/// As [`tool_path`], for a stub at hand.
pub(super) fn stub_path(server: &str, tool: &stubgen::ToolStub) -> String {
    match &tool.category {
        Some(category) => format!("/{server}/{category}/{}", tool.ident),
        None => format!("/{server}/{}", tool.ident),
    }
}

fn tool_file(entry: &ServerEntry, server: usize, segment: &str) -> Option<Node> {
    let tools = &entry.stubs.tools;
    let position = |name: &str| {
        tools
            .iter()
            .position(|tool| tool.ident == name || tool.name == name)
            .or_else(|| tools.iter().position(|tool| tool.ident.eq_ignore_ascii_case(name)))
    };
    let lower = segment.to_ascii_lowercase();
    let suffixed = View::ALL.iter().find_map(|(suffix, view)| {
        let name = lower.strip_suffix(suffix).and(segment.get(..segment.len() - suffix.len()))?;
        Some(Node::Tool(server, position(name)?, *view))
    });
    suffixed.or_else(|| Some(Node::Tool(server, position(segment)?, View::Pyi)))
}

/// The parts of a path; `.` and empty ones are nothing, `..` goes up and never above the root.
fn segments(path: &str) -> Vec<&str> {
    let path = path.trim().strip_prefix("forge://").unwrap_or_else(|| path.trim());
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}
