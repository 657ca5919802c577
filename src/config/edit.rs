//! Edits of servers in the text of a configuration file. An edit cuts or inserts whole entries, so that every other
//! byte stays: comments, order, spelling, line ends. The result is parsed again, and must differ by the edit alone.

mod clients;
mod groups;
mod layout;
mod removal;

use std::ops::Range;
use std::path::Path;

use toml::Table;

use super::document::Document;
use super::error::ConfigError;
use crate::error::{did_you_mean, nearest};
pub(crate) use groups::InGroup;
use layout::{Pair, Section, sections};

/// Table of the servers in `forge.toml`.
const SERVERS: &str = "servers";
/// Key that switches a server off.
const ENABLED: &str = "enabled";

/// A valid TOML text to edit.
pub(crate) struct Edit<'t> {
    file: &'t Path,
    /// Name of the table of servers.
    servers: &'t str,
    /// Byte order mark, if there is one.
    mark: &'t str,
    text: &'t str,
    sections: Vec<Section>,
    table: Table,
}

/// An entry to write.
pub(crate) struct NewServer<'a> {
    /// Name.
    pub(crate) name: &'a str,
    /// The name as a TOML key.
    pub(crate) key: &'a str,
    /// Comments above it, one line each.
    pub(crate) comments: &'a [String],
    /// Its pairs as TOML, without line ends around them.
    pub(crate) pairs: &'a [String],
    /// Group that it joins.
    pub(crate) group: Option<InGroup<'a>>,
}

impl<'t> Edit<'t> {
    /// Reads the text of `file`. Keys are not checked: an invalid configuration can be repaired by an edit.
    ///
    /// # Errors
    /// The text is not TOML.
    pub(crate) fn parse(file: &'t Path, text: &'t str) -> Result<Self, ConfigError> {
        Self::of_table(file, text, SERVERS)
    }

    /// Reads a text whose servers are in the table `servers`.
    ///
    /// # Errors
    /// The text is not TOML.
    pub(crate) fn of_table(file: &'t Path, text: &'t str, servers: &'t str) -> Result<Self, ConfigError> {
        drop(Document::parse(file, text)?);
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = &text[..text.len() - plain.len()];
        let table = read(plain).ok_or_else(|| fault(file, "", "not valid TOML".to_owned()))?;
        Ok(Self { file, servers, mark, text: plain, sections: sections(plain), table })
    }

    /// The same text with the entries of another table in place of the servers.
    fn of(&self, table: &'t str) -> Result<Self, ConfigError> {
        Ok(Self { mark: self.mark, ..Self::of_table(self.file, self.text, table)? })
    }

    /// Servers as they are written, by name.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&String, &toml::Value)> {
        self.entries(self.servers)
    }

    /// Entries of a table as they are written, by name.
    fn entries(&self, table: &str) -> impl Iterator<Item = (&String, &toml::Value)> {
        self.table.get(table).and_then(toml::Value::as_table).into_iter().flatten()
    }

    /// The text with another server at its end, or in the inline table that has all servers.
    ///
    /// # Errors
    /// A server has this name in any case, or the file cannot be edited.
    pub(crate) fn with(&self, new: &NewServer<'_>) -> Result<String, ConfigError> {
        if let Some((taken, _)) = self.servers().find(|(name, _)| name.eq_ignore_ascii_case(new.name)) {
            let message = format!("there is a server `{taken}` already");
            return Err(self.fault(new.name, message).with_hint(format!("`forgefs remove {taken}` first")));
        }
        self.added(new)
    }

    /// Does the same as [`Self::with`], where names that differ in case are two servers.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(crate) fn added(&self, new: &NewServer<'_>) -> Result<String, ConfigError> {
        let pairs = new.pairs.join("\n");
        let entry = read(&pairs).ok_or_else(|| self.fault(new.name, "not an entry of TOML".to_owned()))?;
        let text = match self.root(&[self.servers]) {
            Some(Pair { members: Some(members), value, .. }) => {
                let member = format!("{} = {{ {} }}", new.key, new.pairs.join(", "));
                match members.last() {
                    Some(last) => self.inserted(last.span.end, &format!(", {member}")),
                    None => self.inserted(value.start + 1, &format!(" {member} ")),
                }
            }
            _ => self.appended(new),
        };
        let mut expected = self.table.clone();
        let servers = expected.entry(self.servers).or_insert_with(|| Table::new().into());
        if let Some(servers) = servers.as_table_mut() {
            servers.insert(new.name.to_owned(), entry.into());
        }
        let text = self.checked(new.name, text, |table| *table == expected)?;
        match new.group {
            Some(group) => Edit::parse(self.file, &text)?.grouped(new.name, group),
            None => Ok(text),
        }
    }

    /// The text with a server switched on or off; `None` if it is so already. A line `enabled = false` that stands
    /// alone disappears when the server is switched on. A value that is neither true nor false is replaced.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub(crate) fn switched(&self, name: &str, on: bool) -> Result<Option<String>, ConfigError> {
        self.known(name)?;
        if self.is_on(name) == Some(on) {
            return Ok(None);
        }
        let text = match (self.found(&[self.servers, name, ENABLED]), on) {
            (Some(place), true) if self.is_on(name).is_some() => self.switched_on(&place),
            (Some(place), _) => self.replaced(place.pair.value.clone(), if on { "true" } else { "false" }),
            (None, false) => self.put(name, ENABLED, "false").ok_or_else(|| self.unclear(name))?,
            (None, true) => return Err(self.unclear(name)),
        };
        self.pair_checked(name, ENABLED, text, |value| value.map_or(on, |value| value.as_bool() == Some(on))).map(Some)
    }

    /// True for a server that is on, also without `enabled`; `None` if that is neither true nor false.
    pub(crate) fn is_on(&self, name: &str) -> Option<bool> {
        let server = self.servers().find(|(known, _)| *known == name).map(|(_, server)| server);
        server.and_then(|server| server.get(ENABLED)).map_or(Some(true), toml::Value::as_bool)
    }

    /// The text with this value of a server's key, written as TOML.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub(crate) fn with_value(&self, name: &str, key: &str, value: &str) -> Result<String, ConfigError> {
        self.known(name)?;
        let expected = read(&format!("{key} = {value}")).and_then(|mut table| table.remove(key));
        let text = match self.found(&[self.servers, name, key]) {
            Some(place) => self.replaced(place.pair.value.clone(), value),
            None => self.put(name, key, value).ok_or_else(|| self.unclear(name))?,
        };
        self.pair_checked(name, key, text, |value| value.is_some() && value == expected.as_ref())
    }

    /// The edited text, if one key of the server alone has changed, as it should.
    fn pair_checked(
        &self,
        name: &str,
        key: &str,
        text: String,
        is_right: impl Fn(Option<&toml::Value>) -> bool,
    ) -> Result<String, ConfigError> {
        let split = |table: &Table| {
            let mut table = table.clone();
            let server = table.get_mut(self.servers).and_then(|servers| servers.get_mut(name));
            let value = server.and_then(toml::Value::as_table_mut).and_then(|server| server.remove(key));
            (table, value)
        };
        let (rest, _) = split(&self.table);
        self.checked(name, text, |table| {
            let (after, value) = split(table);
            after == rest && is_right(value.as_ref())
        })
    }

    /// Text without `enabled = false`, or with `true` in its place where that is not all of a line.
    fn switched_on(&self, place: &Place<'_>) -> String {
        let Place { pair, siblings } = place;
        let lines = self.lines(&pair.span);
        let is_alone = self.text.get(pair.span.end..lines.end).is_some_and(|rest| rest.trim().is_empty());
        let next =
            siblings.and_then(|siblings| siblings.first().filter(|first| first.span == pair.span).and(siblings.get(1)));
        let gap = next.map(|next| pair.span.end..next.span.start);
        match (siblings, gap.filter(|gap| self.is_plain(gap))) {
            (None, _) if is_alone => self.replaced(lines, ""),
            (Some(_), Some(gap)) => self.replaced(pair.span.start..gap.end, ""),
            _ => self.replaced(pair.value.clone(), "true"),
        }
    }

    /// Text with a pair added to a server.
    fn put(&self, name: &str, key: &str, value: &str) -> Option<String> {
        let header = |section: &&Section| section.header == [self.servers, name] && !section.is_element;
        if let Some(section) = self.sections.iter().find(header) {
            let indent = section.pairs.first().map(|pair| self.indent(pair.span.start)).unwrap_or_default();
            let end = self.lines(&section.span).end;
            let is_open = !self.text[..end].ends_with('\n');
            let (before, after) = if is_open { (self.line_end(), "") } else { ("", self.line_end()) };
            return Some(self.inserted(end, &format!("{before}{indent}{key} = {value}{after}")));
        }
        if let Some(Place { pair: Pair { members: Some(members), value: table, .. }, .. }) =
            self.found(&[self.servers, name])
        {
            return Some(match members.first() {
                Some(first) => self.inserted(first.span.start, &format!("{key} = {value}, ")),
                None => self.inserted(table.start + 1, &format!(" {key} = {value} ")),
            });
        }
        // Dotted keys: one more beside the first one.
        let Dotted { pair, part, is_line } = self.dotted(name)?;
        let prefix = self.text.get(pair.span.start..*pair.ends.get(part)?)?;
        let indent = self.indent(pair.span.start);
        Some(match is_line {
            true => self.inserted(pair.span.start, &format!("{prefix}.{key} = {value}{}{indent}", self.line_end())),
            false => self.inserted(pair.span.start, &format!("{prefix}.{key} = {value}, ")),
        })
    }

    /// The first pair with a dotted key of the server.
    fn dotted(&self, name: &str) -> Option<Dotted<'_>> {
        for section in &self.sections {
            let above = section.header.len();
            for pair in &section.pairs {
                let full: Vec<&str> = section.header.iter().chain(&pair.path).map(String::as_str).collect();
                if full.starts_with(&[self.servers, name]) && above < 2 {
                    return Some(Dotted { pair, part: 1 - above, is_line: true });
                }
                if full == [self.servers]
                    && let Some(member) = pair.members.iter().flatten().find(|member| member.path[0] == name)
                {
                    return Some(Dotted { pair: member, part: 0, is_line: false });
                }
            }
        }
        None
    }

    /// The pair with this path from the root, with its siblings if it stands in an inline table.
    fn found(&self, path: &[&str]) -> Option<Place<'_>> {
        self.sections.iter().filter(|section| !section.is_element).find_map(|section| {
            let below = below(path, &section.header)?;
            section.pairs.iter().find_map(|pair| within(pair, None, below))
        })
    }

    /// A pair of the first section.
    fn root(&self, path: &[&str]) -> Option<&Pair> {
        self.sections.first()?.pairs.iter().find(|pair| pair.path == path)
    }

    /// True if there is no comment in a span.
    fn is_plain(&self, span: &Range<usize>) -> bool {
        !self.text[span.clone()].contains('#')
    }

    /// The whole lines around a span, with their line end.
    fn lines(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text[..span.start].rfind('\n').map_or(0, |end| end + 1);
        let end = self.text[span.end..].find('\n').map_or(self.text.len(), |end| span.end + end + 1);
        start..end
    }

    /// Blanks before a position in its line.
    fn indent(&self, at: usize) -> &str {
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        Some(&self.text[start..at]).filter(|indent| indent.trim().is_empty()).unwrap_or_default()
    }

    /// Line end of the first line.
    fn line_end(&self) -> &'static str {
        match self.text.find('\n') {
            Some(at) if self.text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    }

    fn appended(&self, new: &NewServer<'_>) -> String {
        let end = self.line_end();
        let mut lines: Vec<String> = new.comments.iter().map(|comment| format!("# {comment}")).collect();
        lines.push(format!("[{}.{}]", self.servers, new.key));
        lines.extend(new.pairs.iter().map(|pair| pair.replace('\n', end)));
        let between = match self.text {
            "" => String::new(),
            text if text.ends_with('\n') => end.to_owned(),
            _ => end.repeat(2),
        };
        format!("{}{between}{}{end}", self.text, lines.join(end))
    }

    fn inserted(&self, at: usize, what: &str) -> String {
        self.replaced(at..at, what)
    }

    fn replaced(&self, span: Range<usize>, by: &str) -> String {
        format!("{}{by}{}", &self.text[..span.start], &self.text[span.end..])
    }

    /// The edited text, if it says what it should.
    fn checked(&self, name: &str, text: String, is_right: impl Fn(&Table) -> bool) -> Result<String, ConfigError> {
        match read(&text) {
            Some(table) if is_right(&table) => Ok(format!("{}{text}", self.mark)),
            _ => Err(self.unclear(name)),
        }
    }

    fn known(&self, name: &str) -> Result<(), ConfigError> {
        let names = || self.servers().map(|(name, _)| name.as_str());
        if names().any(|known| known == name) {
            return Ok(());
        }
        let near = nearest(name, names());
        let hint = did_you_mean(&near).unwrap_or_else(|| "`forgefs list` shows the servers".to_owned());
        Err(fault(self.file, "", format!("no server is called `{name}`")).with_hint(hint))
    }

    fn fault(&self, name: &str, message: String) -> ConfigError {
        fault(self.file, &format!("{}.{name}", self.servers), message)
    }

    fn unclear(&self, name: &str) -> ConfigError {
        let message = "the entry is written in a way that cannot be edited without loss".to_owned();
        self.fault(name, message).with_hint("edit the file by hand; nothing was changed")
    }
}

/// A pair, and the pairs of the inline table around it.
struct Place<'p> {
    pair: &'p Pair,
    siblings: Option<&'p [Pair]>,
}

/// A pair with a dotted key.
struct Dotted<'p> {
    pair: &'p Pair,
    /// Part of its key that names the server.
    part: usize,
    /// True if it has lines of its own.
    is_line: bool,
}

/// The rest of a path below another one.
fn below<'a, 'p>(path: &'a [&'p str], above: &[String]) -> Option<&'a [&'p str]> {
    let is_below = path.iter().zip(above).all(|(one, other)| one == other);
    path.get(above.len()..).filter(|rest| is_below && !rest.is_empty())
}

/// The pair at `path`: `pair` itself, or one within its value.
fn within<'p>(pair: &'p Pair, siblings: Option<&'p [Pair]>, path: &[&str]) -> Option<Place<'p>> {
    if pair.path == path {
        return Some(Place { pair, siblings });
    }
    let (rest, members) = (below(path, &pair.path)?, pair.members.as_deref()?);
    members.iter().find_map(|member| within(member, Some(members), rest))
}

fn read(text: &str) -> Option<Table> {
    toml::from_str(text).ok()
}

fn fault(file: &Path, key: &str, message: String) -> ConfigError {
    ConfigError { file: file.to_owned(), position: None, key: key.to_owned(), message, hint: None }
}

#[cfg(test)]
mod tests;
