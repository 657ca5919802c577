//! Edits of servers in the text of a configuration file. An edit cuts or inserts whole entries, so that every other
//! byte stays: comments, order, spelling, line ends. The result is parsed again, and must differ by the edit alone.

mod clients;
mod groups;
mod removal;

use std::ops::Range;
use std::path::Path;

use toml::Table;
use toml_edit::{Document, InlineTable, Item, Key};

use super::document;
use super::error::ConfigError;
use base::error::{did_you_mean, nearest};
pub use groups::InGroup;

/// Table of the servers in `forge.toml`.
const SERVERS: &str = "servers";
/// Key that switches a server off.
const ENABLED: &str = "enabled";

/// A valid TOML text to edit.
#[derive(Clone)]
pub struct Edit<'t> {
    file: &'t Path,
    /// Name of the table of servers.
    servers: &'t str,
    /// Byte order mark, if there is one.
    mark: &'t str,
    text: &'t str,
    /// Positions in the text.
    document: Document<&'t str>,
    table: Table,
}

/// An entry to write.
pub struct NewServer<'a> {
    /// Name.
    pub name: &'a str,
    /// The name as a TOML key.
    pub key: &'a str,
    /// Comments above it, one line each.
    pub comments: &'a [String],
    /// Its pairs as TOML, without line ends around them.
    pub pairs: &'a [String],
    /// Group that it joins.
    pub group: Option<InGroup<'a>>,
}

impl<'t> Edit<'t> {
    /// Reads the text of `file`. Keys are not checked: an invalid configuration can be repaired by an edit.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn parse(file: &'t Path, text: &'t str) -> Result<Self, ConfigError> {
        Self::of_table(file, text, SERVERS)
    }

    /// Reads a text whose servers are in the table `servers`.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn of_table(file: &'t Path, text: &'t str, servers: &'t str) -> Result<Self, ConfigError> {
        drop(document::Document::parse(file, text)?);
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = &text[..text.len() - plain.len()];
        let (Some(table), Ok(document)) = (read(plain), Document::parse(plain)) else {
            return Err(ConfigError::of_file(file, "", "not valid TOML"));
        };
        Ok(Self { file, servers, mark, text: plain, document, table })
    }

    /// The same text with the entries of another table in place of the servers.
    fn of(&self, table: &'t str) -> Self {
        Self { servers: table, ..self.clone() }
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Servers as they are written, by name.
    pub fn servers(&self) -> impl Iterator<Item = (&String, &toml::Value)> {
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
    pub fn with(&self, new: &NewServer<'_>) -> Result<String, ConfigError> {
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
    pub fn added(&self, new: &NewServer<'_>) -> Result<String, ConfigError> {
        let entry = read(&new.pairs.join("\n"));
        let entry = entry.ok_or_else(|| self.fault(new.name, "not an entry of TOML".to_owned()))?;
        let text = match self.all().and_then(Item::as_inline_table) {
            Some(all) => {
                let member = format!("{} = {{ {} }}", new.key, new.pairs.join(", "));
                self.joined(all, &member).ok_or_else(|| self.unclear(new.name))?
            }
            None => self.appended(new),
        };
        let text = self.checked(text, new.name, Some(entry))?;
        match new.group {
            Some(group) => Edit::parse(self.file, &text)?.grouped(new.name, group),
            None => Ok(text),
        }
    }

    /// The text with a server switched on or off; `None` if it is so already. `enabled = false` disappears when the
    /// server is switched on, if it has its own line or is the first pair of an inline table. A value that is neither
    /// true nor false is replaced.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub fn switched(&self, name: &str, on: bool) -> Result<Option<String>, ConfigError> {
        let (mut entry, was) = (self.entry(name)?, self.is_on(name));
        if was == Some(on) {
            return Ok(None);
        }
        if let Some(cut) = self.switch(name).filter(|_| was == Some(false)) {
            entry.remove(ENABLED);
            return self.checked(self.replaced(cut, ""), name, Some(entry)).map(Some);
        }
        self.with_value(name, ENABLED, &on.to_string()).map(Some)
    }

    /// True for a server that is on, also without `enabled`; `None` if that is neither true nor false.
    pub fn is_on(&self, name: &str) -> Option<bool> {
        self.known(name).ok().and_then(|server| server.get(ENABLED)).map_or(Some(true), toml::Value::as_bool)
    }

    /// The text with this value of a server's key, written as TOML.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub fn with_value(&self, name: &str, key: &str, value: &str) -> Result<String, ConfigError> {
        let mut entry = self.entry(name)?;
        entry.extend(read(&format!("{key} = {value}")).unwrap_or_default());
        let text = match self.pair(name, key) {
            Some((_, old)) => old.span().map(|span| self.replaced(span, value)),
            None => self.put(name, &format!("{key} = {value}")),
        };
        self.checked(text.ok_or_else(|| self.unclear(name))?, name, Some(entry))
    }

    /// All servers in the document.
    fn all(&self) -> Option<&Item> {
        self.document.get(self.servers)
    }

    /// A pair of a server in the document.
    fn pair(&self, name: &str, key: &str) -> Option<(&Key, &Item)> {
        self.all()?.get(name)?.as_table_like()?.get_key_value(key)
    }

    /// Lines or member of `enabled`, unless there is something else in them.
    fn switch(&self, name: &str) -> Option<Range<usize>> {
        let (all, (key, value)) = (self.all()?, self.pair(name, ENABLED)?);
        let (start, end) = (key.span()?.start, value.span()?.end);
        let is_inline = |table: &&InlineTable| !table.is_dotted();
        if let Some(table) = [all.get(name)?, all].into_iter().filter_map(Item::as_inline_table).find(is_inline) {
            let [first, next, ..] = &members(table)?[..] else { return None };
            let is_first = first.pair.end == end && self.is_plain(end..next.pair.start);
            return is_first.then_some(first.pair.start..next.pair.start);
        }
        let lines = self.lines(&(start..end));
        self.text.get(end..lines.end)?.trim().is_empty().then_some(lines)
    }

    /// Text with a pair added to a server.
    fn put(&self, name: &str, pair: &str) -> Option<String> {
        let (all, line_end) = (self.all()?, self.line_end());
        let server = all.get(name)?;
        let pairs = match server {
            Item::Table(table) => table.get_values(),
            _ => server.as_inline_table()?.get_values(),
        };
        let first = pairs.first().and_then(|(path, _)| Some(path.first()?.span()?.start));
        if let Some(table) = server.as_table().filter(|table| table.position().is_some()) {
            let indent = first.map(|at| self.line_to(at)).filter(|line| line.trim().is_empty()).unwrap_or_default();
            let end = self.lines(&table.span()?).end;
            return Some(match self.text[..end].ends_with('\n') {
                true => self.inserted(end, &format!("{indent}{pair}{line_end}")),
                false => self.inserted(end, &format!("{line_end}{indent}{pair}")),
            });
        }
        if let Some(table) = server.as_inline_table().filter(|table| !table.is_dotted()) {
            return match first {
                Some(first) => Some(self.inserted(first, &format!("{pair}, "))),
                None => self.joined(table, pair),
            };
        }
        // Dotted keys: one more beside the first one.
        let first = first?;
        if let Some((key, _)) = all.as_inline_table().and_then(|all| all.get_key_value(name)) {
            let start = key.span()?.start;
            return Some(self.inserted(start, &format!("{}{pair}, ", self.text.get(start..first)?)));
        }
        let line = self.line_to(first);
        let prefix = line.trim_start();
        let indent = &line[..line.len() - prefix.len()];
        Some(self.inserted(first - prefix.len(), &format!("{prefix}{pair}{line_end}{indent}")))
    }

    /// Text with a pair added to an inline table.
    fn joined(&self, table: &InlineTable, pair: &str) -> Option<String> {
        Some(match table.get_values().last() {
            Some((_, last)) => self.inserted(last.span()?.end, &format!(", {pair}")),
            None => self.inserted(table.span()?.start + 1, &format!(" {pair} ")),
        })
    }

    /// True if there is no comment in a span between values.
    fn is_plain(&self, span: Range<usize>) -> bool {
        !self.text[span].contains('#')
    }

    /// The whole lines around a span, with their line end.
    fn lines(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text[..span.start].rfind('\n').map_or(0, |end| end + 1);
        let end = self.text[span.end..].find('\n').map_or(self.text.len(), |end| span.end + end + 1);
        start..end
    }

    /// The line of a position up to it.
    fn line_to(&self, at: usize) -> &str {
        &self.text[self.lines(&(at..at)).start..at]
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

    /// The edited text, if it differs by this entry alone; `None` for one that is removed.
    fn checked(&self, text: String, name: &str, entry: Option<Table>) -> Result<String, ConfigError> {
        let filled = |mut table: Table| {
            table.entry(self.servers).or_insert_with(|| Table::new().into());
            table
        };
        let mut expected = filled(self.table.clone());
        if let Some(servers) = expected.get_mut(self.servers).and_then(toml::Value::as_table_mut) {
            match entry {
                Some(entry) => drop(servers.insert(name.to_owned(), entry.into())),
                None => drop(servers.remove(name)),
            }
        }
        match read(&text).map(filled) {
            Some(table) if table == expected => Ok(format!("{}{text}", self.mark)),
            _ => Err(self.unclear(name)),
        }
    }

    /// The values of a server.
    fn entry(&self, name: &str) -> Result<Table, ConfigError> {
        let entry = self.known(name)?.as_table();
        entry.cloned().ok_or_else(|| self.unclear(name))
    }

    fn known(&self, name: &str) -> Result<&toml::Value, ConfigError> {
        if let Some((_, known)) = self.servers().find(|(known, _)| *known == name) {
            return Ok(known);
        }
        let error = ConfigError::of_file(self.file, "", format!("no server is called `{name}`"));
        Err(error.with_hint(self.meant(name, "`forgefs list` shows the servers")))
    }

    /// Hint to an unknown name: one that is meant, or `otherwise`.
    fn meant(&self, name: &str, otherwise: &str) -> String {
        let near = nearest(name, self.servers().map(|(name, _)| name.as_str()));
        did_you_mean(&near).unwrap_or_else(|| otherwise.to_owned())
    }

    fn fault(&self, name: &str, message: String) -> ConfigError {
        ConfigError::of_file(self.file, &format!("{}.{name}", self.servers), message)
    }

    fn unclear(&self, name: &str) -> ConfigError {
        let message = "the entry is written in a way that cannot be edited without loss".to_owned();
        self.fault(name, message).with_hint("edit the file by hand; nothing was changed")
    }
}

/// A pair of an inline table.
struct Member<'d> {
    /// First part of its key.
    name: &'d str,
    /// From the begin of the key to the end of the value.
    pair: Range<usize>,
    /// From the begin of the white space and comments before it to the comma, or to the end of those behind it.
    whole: Range<usize>,
}

/// Pairs of an inline table, in order.
fn members(table: &InlineTable) -> Option<Vec<Member<'_>>> {
    let mut members = Vec::new();
    for (path, value) in table.get_values() {
        let key = path.last()?;
        let before = key.leaf_decor().prefix()?.span()?;
        let end = value.decor().suffix()?.span()?.end;
        let pair = before.end..value.span()?.end;
        members.push(Member { name: path.first()?.get(), pair, whole: before.start..end });
    }
    members.sort_by_key(|member| member.pair.start);
    Some(members)
}

fn read(text: &str) -> Option<Table> {
    toml::from_str(text).ok()
}

#[cfg(test)]
mod tests;
