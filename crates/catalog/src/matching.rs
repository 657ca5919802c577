//! Files of the virtual filesystem: all there are, and those that a glob matches.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::glob::{Glob, Matcher, alternatives, is_glob};
use super::vfs::{NAMES_A_STEP, segments};
use super::{Catalog, Node};
use crate::manifest::ServerEntry;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::meter::{Halt, Meter, Stopped};
use base::text::brief;
use stubgen::View;

impl Catalog {
    /// Files of `pattern`: one, or all that a glob matches, without the resources of the servers in `unseen`.
    ///
    /// # Errors
    /// `INVALID_ARGS` when nothing matches, or too much; or the meter stops the work.
    pub fn files(&self, pattern: &str, unseen: &BTreeSet<String>, meter: &Meter) -> Result<Vec<Node>, Halt> {
        if !is_glob(pattern) {
            return Ok(vec![self.resolve_metered(pattern, meter)?]);
        }
        let glob = parsed(pattern)?;
        let is_seen = |server: &Arc<ServerEntry>| means_resources(pattern) && !unseen.contains(&server.name);
        let seen: Vec<bool> = self.servers.iter().map(is_seen).collect();
        let one_form = !segments(pattern).last().is_some_and(|last| last.contains('.'));
        let found = self.matching((&glob, one_form), &seen, meter)?;
        let nothing = || Error::new(ErrorCode::InvalidArgs, format!("nothing matches {}", brief(pattern)));
        let is_init = |node: &Node| matches!(node, Node::Init(_));
        let is_stub = |node: &Node| matches!(node, Node::Tool(_, _, View::Pyi));
        match found.len() {
            0 => Err(nothing().hint("`ls` shows what there is; `**` crosses folders").into()),
            many if many > limits::GLOB_FILES.max => {
                let message = format!("{} matches more than {} files", brief(pattern), limits::GLOB_FILES.max);
                Err(Error::new(ErrorCode::InvalidArgs, message).hint("narrow it").into())
            }
            _ if found.iter().any(is_stub) && found.iter().any(is_init) => {
                // Its lines would repeat theirs.
                Ok(found.into_iter().filter(|node| !is_init(node)).collect())
            }
            _ => Ok(found),
        }
    }

    /// Names of the servers whose resources a glob may match.
    ///
    /// # Errors
    /// As [`Catalog::files`].
    pub fn resource_servers(&self, pattern: &str, meter: &Meter) -> Result<Vec<String>, Halt> {
        if !is_glob(pattern) || !means_resources(pattern) {
            return Ok(Vec::new());
        }
        let glob = parsed(pattern)?;
        let reached = self.reached(&mut glob.matcher(), meter)?;
        let found = self.servers.iter().zip(reached).filter(|(_, reached)| *reached).map(|(server, _)| server);
        Ok(found.filter(|server| !server.offers.resources.is_empty()).map(|server| server.name.clone()).collect())
    }

    /// For each server, true if a glob may match something in its folder.
    fn reached(&self, matcher: &mut Matcher<'_>, meter: &Meter) -> Result<Vec<bool>, Stopped> {
        (0..self.servers.len()).map(|server| matcher.may_start(&self.path(Node::Server(server)), meter)).collect()
    }

    /// Files that a glob matches, plus at most one over the limit; resources only of the servers in `seen`, and stubs in one
    /// form if the glob names no suffix.
    fn matching(&self, (glob, one_form): (&Glob, bool), seen: &[bool], meter: &Meter) -> Result<Vec<Node>, Stopped> {
        let mut matcher = glob.matcher();
        let of_server = self.reached(&mut matcher, meter)?;
        let is_seen = |node: &Node| node.server().and_then(|server| seen.get(server)) == Some(&true);
        let offers = self.every_prompt().chain(self.every_resource().filter(is_seen));
        let mut found = Vec::new();
        let mut passed_over = 0;
        let is_wanted = |node: &Node| !one_form || !matches!(node, Node::Tool(_, _, view) if *view != View::Pyi);
        for node in self.every_file().filter(is_wanted).chain(offers).chain(self.every_skill_file()) {
            if node.server().is_some_and(|server| of_server.get(server) == Some(&false)) {
                passed_over += 1;
                if passed_over % NAMES_A_STEP == 0 {
                    meter.spend(1)?;
                }
            } else if matcher.is_match(&self.path(node), meter)? {
                found.push(node);
                if found.len() > limits::GLOB_FILES.max {
                    break;
                }
            }
        }
        Ok(found)
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
        self.documents.iter().copied().filter(|node| matches!(node, Node::Resource(..)))
    }

    /// Every prompt, server by server.
    fn every_prompt(&self) -> impl Iterator<Item = Node> {
        self.documents.iter().copied().filter(|node| matches!(node, Node::Prompt(..)))
    }
}

/// The paths that a path with alternatives alone names, so that one that is not there is told; any other path as it is.
///
/// # Errors
/// `INVALID_ARGS` for braces that do not fit together, or over a limit.
pub fn named(path: &str) -> Result<Vec<String>> {
    if !path.contains('{') || path.contains(['*', '?', '[', '\\']) {
        return Ok(vec![path.to_owned()]);
    }
    limits::GLOB.check(path.len())?;
    alternatives(path)
}

fn parsed(pattern: &str) -> Result<Glob> {
    limits::GLOB.check(pattern.len())?;
    Glob::parse(&format!("/{}", segments(pattern).join("/")))
}

/// True if a glob names resources explicitly: reading one asks its server, so `**` alone does not.
fn means_resources(pattern: &str) -> bool {
    segments(pattern).get(1).is_some_and(|part| part.eq_ignore_ascii_case("resources"))
}
