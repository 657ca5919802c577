//! `ls`, `cat` and `search`: the same for the agent's tools, for scripts and for the command line.

use crate::catalog::{Catalog, Remote};
use crate::error::{Error, ErrorCode, Result};
use crate::redact::{self, Surface};
use crate::session::{Labels, Session};

/// Levels that one `ls` shows at most.
const MAX_DEPTH: u32 = 4;
/// Hits a query.
const DEFAULT_HITS: u32 = 8;
/// Hits a query where there are several.
const HITS_OF_MANY: u32 = 4;
/// Most hits a query.
const MAX_HITS: u32 = 50;
/// Files or queries of one request.
const MAX_PARTS: usize = 50;
/// Bytes of one answer; a file over it is read on by lines.
const MAX_BYTES: usize = 64 << 10;

/// Bytes of the hits of one search, about 3,000 tokens.
const MAX_SEARCH_BYTES: usize = 12 << 10;

/// Bytes of several files together after which no further one is begun, about 6,000 tokens.
const MAX_CAT_BYTES: usize = 24 << 10;
/// Files that are named of those that did not fit.
const MAX_NAMED: usize = 20;

/// A file that was asked for.
pub enum File {
    /// One whose text is at hand.
    Text {
        /// Its path.
        path: String,
        /// Its text.
        text: String,
        /// Whose data it is made of; what servers say of themselves is nobody's.
        labels: Labels,
    },
    /// A resource that its server has to be asked for.
    Resource(Remote),
}

/// The catalog as one session sees it.
pub struct Discovery<'a> {
    /// What there is.
    pub catalog: &'a Catalog,
    /// Who asks.
    pub session: &'a Session,
}

impl Discovery<'_> {
    /// Lists the folder `path`, `depth` levels deep.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such path.
    pub fn ls(&self, path: &str, depth: Option<u32>) -> Result<String> {
        if is_results(path) {
            return self.session.results.listing(path);
        }
        let depth = depth.unwrap_or(1).clamp(1, MAX_DEPTH);
        Ok(bounded(self.catalog.ls(path, depth as usize)?, path))
    }

    /// The files that `paths` name, globs included. Resources are only named: their text is with their servers, and
    /// the broker is the way to them.
    ///
    /// # Errors
    /// `INVALID_ARGS` when a path is not valid.
    pub fn files(&self, paths: &[String]) -> Result<Vec<File>> {
        if paths.is_empty() || paths.len() > MAX_PARTS {
            return Err(Error::new(ErrorCode::InvalidArgs, format!("`cat` takes 1 to {MAX_PARTS} paths")));
        }
        let mut files = Vec::new();
        for path in paths {
            if is_results(path) {
                let result = self.session.results.get(path)?;
                let (path, text, labels) = (result.path.clone(), result.text.clone(), result.labels.clone());
                files.push(File::Text { path, text, labels });
            } else if let Some(remote) = self.catalog.resource_by_uri(path) {
                files.push(File::Resource(remote));
            } else {
                for node in self.catalog.files(path)? {
                    files.push(self.file(node, path)?);
                }
            }
        }
        Ok(files)
    }

    fn file(&self, node: crate::catalog::Node, asked: &str) -> Result<File> {
        if let Some(remote) = self.catalog.remote(node) {
            return Ok(File::Resource(remote));
        }
        let path = self.catalog.path(node);
        let Some(content) = self.catalog.read(node) else {
            let listing = self.catalog.ls(&path, 1)?;
            return Err(Error::new(ErrorCode::InvalidArgs, format!("{asked} is a folder\n{listing}"))
                .hint(format!("`cat` a file in it, or {path}*.pyi for all stubs")));
        };
        // Unlike descriptions, what a server writes while it works may tell of what it works on.
        let labels = self.catalog.stderr_of(node).map(str::to_owned).into_iter().collect();
        Ok(File::Text { path, text: content.into_owned(), labels })
    }

    /// Notes which stubs among these files, given as path and text, the agent has been shown.
    pub fn saw(&self, files: &[(String, String)]) {
        for (path, text) in files {
            let node = self.catalog.files(path).ok().and_then(|nodes| nodes.into_iter().next());
            if let Some(digest) = node.and_then(|node| self.catalog.node_digest(node)) {
                // As the agent sees it, so that records have no secret either.
                self.session.saw(path.clone(), digest, &redact::text(Surface::Log, text));
            }
        }
    }

    /// One line a hit. Several queries, one a step of a task, are answered together: each line ends with the numbers of
    /// the queries that found it.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no query or no such folder.
    pub fn search(&self, queries: &[String], limit: Option<u32>, path: Option<&str>) -> Result<String> {
        let queries: Vec<String> =
            queries.iter().map(|query| query.trim().to_owned()).filter(|q| !q.is_empty()).collect();
        if queries.is_empty() || queries.len() > MAX_PARTS {
            return Err(Error::new(
                ErrorCode::InvalidArgs,
                format!("`search` needs words to look for, in 1 to {MAX_PARTS} queries"),
            )
            .hint("describe what the tool should do, such as `create issue`"));
        }
        let path = path.unwrap_or("/");
        let default = if queries.len() == 1 { DEFAULT_HITS } else { HITS_OF_MANY };
        let limit = limit.unwrap_or(default).clamp(1, MAX_HITS) as usize;
        let found = self.catalog.find_all(&queries, limit, path)?;
        let mut lines = Vec::new();
        let mut size = 0;
        for (position, (hit, by)) in found.iter().enumerate() {
            let mut line = self.catalog.hit_line(hit);
            if queries.len() > 1 {
                let numbers: Vec<String> = by.iter().map(|query| (query + 1).to_string()).collect();
                line = format!("{line} #{}", numbers.join(","));
            }
            size += line.len() + 1;
            if size > MAX_SEARCH_BYTES && position > 0 {
                lines.push(format!("… {} more hits: narrow with path or limit", found.len() - position));
                break;
            }
            lines.push(line);
        }
        let without = queries.iter().enumerate().filter(|(number, _)| !found.iter().any(|(_, by)| by.contains(number)));
        lines.extend(without.map(|(_, query)| self.catalog.no_hits(query, path)));
        Ok(lines.join("\n"))
    }
}

/// The asked lines of several files, given as path and text, as one text; each is set apart by a line with its path.
/// Beside it, how many of them there was room for.
///
/// # Errors
/// `INVALID_ARGS` when the range of lines is not valid.
pub fn concatenate(files: &[(String, String)], lines: Option<&str>) -> Result<(String, usize)> {
    let range = lines.map(parse_lines).transpose()?;
    let many = files.len() > 1;
    let mut text = String::new();
    for (position, (path, content)) in files.iter().enumerate() {
        if text.len() > MAX_CAT_BYTES {
            let left: Vec<&str> = files[position..].iter().map(|(path, _)| path.as_str()).collect();
            let more = left.len().saturating_sub(MAX_NAMED);
            text.push_str(&format!("… enough for one answer; not read: {}", left[..left.len() - more].join(" ")));
            text.push_str(&if more > 0 { format!(" and {more} more\n") } else { "\n".to_owned() });
            return Ok((text, position));
        }
        let content = slice(content, range, path);
        if many {
            text.push_str(&format!("# {path}\n"));
        }
        text.push_str(content.trim_end_matches('\n'));
        text.push('\n');
    }
    Ok((text, files.len()))
}

fn is_results(path: &str) -> bool {
    let path = path.trim_start_matches('/');
    path == "results" || path.starts_with("results/")
}

/// `10-40`, `10-`, `-40` or `10`, lines counted from 1, both ends included.
fn parse_lines(text: &str) -> Result<(usize, usize)> {
    let wrong =
        || Error::new(ErrorCode::InvalidArgs, format!("`{text}` is not a range of lines")).hint("write it as `10-40`");
    let number = |part: &str, default| match part.trim() {
        "" => Ok(default),
        digits => digits.parse::<usize>().map_err(|_| wrong()),
    };
    let (from, to) = match text.split_once('-') {
        Some((from, to)) => (number(from, 1)?, number(to, usize::MAX)?),
        None => (number(text, 0)?, number(text, 0)?),
    };
    if from == 0 || to < from { Err(wrong()) } else { Ok((from, to)) }
}

/// The asked lines of a file, with a note on how to read on when the answer would be too long.
fn slice(content: &str, range: Option<(usize, usize)>, path: &str) -> String {
    let (from, to) = range.unwrap_or((1, usize::MAX));
    let mut text = String::new();
    let mut number = 0;
    for line in content.lines() {
        number += 1;
        if number < from {
            continue;
        }
        if number > to {
            break;
        }
        if text.len() + line.len() > MAX_BYTES {
            let total = content.lines().count();
            let room = MAX_BYTES.saturating_sub(text.len());
            text.push_str(head(line, room));
            text.push_str(&format!(
                "\n… cut in line {number} of {total} ({} bytes in all); read on with cat(\"{path}\", lines=\"{}-\")",
                content.len(),
                number + 1
            ));
            return text;
        }
        text.push_str(line);
        text.push('\n');
    }
    if text.is_empty() && from > 1 {
        return format!("{path} has {number} lines");
    }
    text
}

fn bounded(text: String, what: &str) -> String {
    if text.len() <= MAX_BYTES {
        return text;
    }
    format!("{}\n… {what} is longer than {MAX_BYTES} bytes; narrow it", head(&text, MAX_BYTES))
}

/// At most `bytes` of `text`, cut between characters.
#[must_use]
pub fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
