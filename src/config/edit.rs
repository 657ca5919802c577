//! Edits of servers in the text of a configuration file. An edit cuts or inserts whole entries, so that every other
//! byte stays: comments, order, spelling, line ends. The result is parsed again, and must differ by the edit alone.

mod clients;
mod groups;
mod layout;

use std::ops::Range;
use std::path::Path;

use toml::Table;

use super::document::Document;
use super::error::ConfigError;
use crate::error::{did_you_mean, nearest};
pub(crate) use groups::InGroup;
use layout::{Pair, Section, sections};

/// Table of the servers.
const SERVERS: &str = "servers";
/// Key that switches a server off.
const ENABLED: &str = "enabled";

/// A valid TOML text to edit.
pub(crate) struct Edit<'t> {
    file: &'t Path,
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
        drop(Document::parse(file, text)?);
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = &text[..text.len() - plain.len()];
        let table = read(plain).ok_or_else(|| fault(file, "", "not valid TOML".to_owned()))?;
        Ok(Self { file, mark, text: plain, sections: sections(plain), table })
    }

    /// Servers as they are written, by name.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&String, &toml::Value)> {
        self.table.get(SERVERS).and_then(toml::Value::as_table).into_iter().flatten()
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
        let pairs = new.pairs.join("\n");
        let entry = read(&pairs).ok_or_else(|| self.fault(new.name, "not an entry of TOML".to_owned()))?;
        let text = match self.root(&[SERVERS]) {
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
        let servers = expected.entry(SERVERS).or_insert_with(|| Table::new().into());
        if let Some(servers) = servers.as_table_mut() {
            servers.insert(new.name.to_owned(), entry.into());
        }
        let text = self.checked(new.name, text, |table| *table == expected)?;
        match new.group {
            Some(group) => Edit::parse(self.file, &text)?.grouped(new.name, group),
            None => Ok(text),
        }
    }

    /// The text without a server: its sections with the comments directly above them, and its pairs elsewhere.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub(crate) fn without(&self, name: &str) -> Result<String, ConfigError> {
        self.known(name)?;
        let mut cuts: Vec<Range<usize>> = Vec::new();
        for section in &self.sections {
            let is_whole = section.header.starts_with(&[SERVERS.to_owned(), name.to_owned()]);
            if is_whole {
                cuts.push(self.extent(section));
                continue;
            }
            for pair in &section.pairs {
                match self.whole(section, pair, name) {
                    true => cuts.push(self.lines(&pair.span)),
                    false => cuts.extend(self.members_of(section, pair, name)),
                }
            }
        }
        let mut text = String::with_capacity(self.text.len());
        let mut done = 0;
        for cut in cuts {
            text.push_str(self.text.get(done..cut.start).unwrap_or_default());
            done = done.max(cut.end);
        }
        text.push_str(self.text.get(done..).unwrap_or_default());
        let mut expected = self.table.clone();
        if let Some(servers) = expected.get_mut(SERVERS).and_then(toml::Value::as_table_mut) {
            servers.remove(name);
        }
        let filled = |table: &Table| {
            let is_empty = table.get(SERVERS).and_then(toml::Value::as_table).is_some_and(Table::is_empty);
            let rest = table.iter().filter(|(key, _)| !(is_empty && *key == SERVERS));
            rest.map(|(key, value)| (key.clone(), value.clone())).collect::<Table>()
        };
        self.checked(name, text, |table| filled(table) == filled(&expected))
    }

    /// The text with a server switched on or off; `None` if it is so already. A line `enabled = false` that stands
    /// alone disappears when the server is switched on.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub(crate) fn switched(&self, name: &str, on: bool) -> Result<Option<String>, ConfigError> {
        self.known(name)?;
        let is_on = |table: &Table| table.get(SERVERS)?.get(name)?.get(ENABLED)?.as_bool();
        if is_on(&self.table).unwrap_or(true) == on {
            return Ok(None);
        }
        let text = match (self.found(&[SERVERS, name, ENABLED]), on) {
            (Some(place), _) => self.set(&place, on),
            (None, false) => self.off(name).ok_or_else(|| self.unclear(name))?,
            (None, true) => return Err(self.unclear(name)),
        };
        let rest = |table: &Table| {
            let mut table = table.clone();
            if let Some(server) = table.get_mut(SERVERS).and_then(|servers| servers.get_mut(name)) {
                server.as_table_mut().map(|server| server.remove(ENABLED));
            }
            table
        };
        let is_same = |table: &Table| is_on(table).unwrap_or(true) == on && rest(table) == rest(&self.table);
        self.checked(name, text, is_same).map(Some)
    }

    /// Text with the value of `enabled` replaced, or with the pair removed where nothing else is said by it.
    fn set(&self, place: &Place<'_>, on: bool) -> String {
        let Place { pair, siblings } = place;
        let lines = self.lines(&pair.span);
        let is_alone = self.text.get(pair.span.end..lines.end).is_some_and(|rest| rest.trim().is_empty());
        let next =
            siblings.and_then(|siblings| siblings.first().filter(|first| first.span == pair.span).and(siblings.get(1)));
        let gap = next.map(|next| pair.span.end..next.span.start);
        match (on, siblings, gap.filter(|gap| self.is_plain(gap))) {
            (true, None, _) if is_alone => self.replaced(lines, ""),
            (true, Some(_), Some(gap)) => self.replaced(pair.span.start..gap.end, ""),
            _ => self.replaced(pair.value.clone(), if on { "true" } else { "false" }),
        }
    }

    /// Text with `enabled = false` added to a server.
    fn off(&self, name: &str) -> Option<String> {
        let header = |section: &&Section| section.header == [SERVERS, name] && !section.is_element;
        if let Some(section) = self.sections.iter().find(header) {
            let indent = section.pairs.first().map(|pair| self.indent(pair.span.start)).unwrap_or_default();
            let end = self.lines(&section.span).end;
            let is_open = !self.text[..end].ends_with('\n');
            let (before, after) = if is_open { (self.line_end(), "") } else { ("", self.line_end()) };
            return Some(self.inserted(end, &format!("{before}{indent}{ENABLED} = false{after}")));
        }
        if let Some(Place { pair: Pair { members: Some(members), value, .. }, .. }) = self.found(&[SERVERS, name]) {
            return Some(match members.first() {
                Some(first) => self.inserted(first.span.start, &format!("{ENABLED} = false, ")),
                None => self.inserted(value.start + 1, &format!(" {ENABLED} = false ")),
            });
        }
        // Dotted keys: one more beside the first one.
        let Dotted { pair, part, is_line } = self.dotted(name)?;
        let prefix = self.text.get(pair.span.start..*pair.ends.get(part)?)?;
        let indent = self.indent(pair.span.start);
        Some(match is_line {
            true => self.inserted(pair.span.start, &format!("{prefix}.{ENABLED} = false{}{indent}", self.line_end())),
            false => self.inserted(pair.span.start, &format!("{prefix}.{ENABLED} = false, ")),
        })
    }

    /// The first pair with a dotted key of the server.
    fn dotted(&self, name: &str) -> Option<Dotted<'_>> {
        for section in &self.sections {
            let above = section.header.len();
            for pair in &section.pairs {
                let full: Vec<&str> = section.header.iter().chain(&pair.path).map(String::as_str).collect();
                if full.starts_with(&[SERVERS, name]) && above < 2 {
                    return Some(Dotted { pair, part: 1 - above, is_line: true });
                }
                if full == [SERVERS]
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

    /// True if a pair belongs to the server as a whole.
    fn whole(&self, section: &Section, pair: &Pair, name: &str) -> bool {
        let full: Vec<&str> = section.header.iter().chain(&pair.path).map(String::as_str).collect();
        full.starts_with(&[SERVERS, name])
    }

    /// Cuts of the server's members in the inline table of all servers.
    fn members_of(&self, section: &Section, pair: &Pair, name: &str) -> Vec<Range<usize>> {
        let is_table = section.header.is_empty() && pair.path == [SERVERS];
        let Some(members) = pair.members.as_ref().filter(|_| is_table) else { return Vec::new() };
        let is_own = |member: &Pair| member.path.first().is_some_and(|first| first == name);
        let inner = pair.value.start + 1..pair.value.end - 1;
        if members.iter().all(is_own) && self.is_plain(&inner) {
            return vec![inner];
        }
        let own = members.iter().enumerate().filter(|(_, member)| is_own(member));
        own.map(|(index, _)| self.member(members, index, inner.end)).collect()
    }

    /// Cut of one pair of an inline table that ends at `end`, with one comma, and without the comments around it.
    fn member(&self, members: &[Pair], index: usize, end: usize) -> Range<usize> {
        let Pair { span, .. } = &members[index];
        if let Some(before) = index.checked_sub(1).and_then(|before| members.get(before))
            && self.is_plain(&(before.span.end..span.start))
        {
            return before.span.end..span.end;
        }
        let next = members.get(index + 1).map(|next| next.span.start);
        let after = span.end..next.unwrap_or(end);
        match (self.text[after.clone()].find(','), next) {
            (Some(_), Some(next)) if self.is_plain(&after) => span.start..next,
            // A comma may stand in a comment.
            (Some(comma), _) if self.is_plain(&(after.start..after.start + comma)) => {
                span.start..after.start + comma + 1
            }
            _ => span.clone(),
        }
    }

    /// True if there is no comment in a span.
    fn is_plain(&self, span: &Range<usize>) -> bool {
        !self.text[span.clone()].contains('#')
    }

    /// Lines of a section, with the comments directly above its header, and with the empty line before them if none
    /// would separate its neighbours otherwise. A comment that could belong to something else stays.
    fn extent(&self, section: &Section) -> Range<usize> {
        let last = section.pairs.last().map_or(section.span.end, |pair| pair.span.end);
        let mut lines = self.lines(&(section.span.start..last));
        let above = |at: usize| at.checked_sub(1).map(|end| self.lines(&(end..end)).start);
        let line = |at: usize| self.text.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim();
        let mut top = lines.start;
        while let Some(start) =
            above(top).filter(|start| line(*start).starts_with('#') && !is_commented_out(line(*start)))
        {
            top = start;
        }
        if above(top).is_some_and(|start| line(start).is_empty()) {
            lines.start = top;
        }
        let is_end = lines.end == self.text.len() || line(lines.end).is_empty();
        if let Some(start) = above(lines.start).filter(|start| is_end && line(*start).is_empty()) {
            lines.start = start;
        }
        lines
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
        lines.push(format!("[{SERVERS}.{}]", new.key));
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
        fault(self.file, &format!("{SERVERS}.{name}"), message)
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

/// True if a comment is a table or a pair that is switched off.
fn is_commented_out(comment: &str) -> bool {
    let rest = comment.trim_start_matches('#').trim();
    let is_key =
        |key: &str| key.trim().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"'));
    rest.starts_with('[') || rest.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty() && is_key(key))
}

#[cfg(test)]
mod tests;
