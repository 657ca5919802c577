//! Removal of servers from the text of a configuration file.

use std::ops::Range;

use toml_edit::{InlineTable, Item, Key, Table, Value};

use super::{ConfigError, Edit, members};

impl Edit<'_> {
    /// The text without servers: their sections with the comments directly above them, and their pairs elsewhere.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub fn without(&self, names: &[&str]) -> Result<String, ConfigError> {
        names.iter().try_for_each(|name| self.known(name).map(drop))?;
        let Some((name, rest)) = names.split_first() else { return Ok(format!("{}{}", self.mark, self.text)) };
        let text = self.without_one(name)?;
        if rest.is_empty() { Ok(text) } else { Edit::of_table(self.file, &text, self.servers)?.without(rest) }
    }

    fn without_one(&self, name: &str) -> Result<String, ConfigError> {
        let mut cuts = Vec::new();
        match self.all() {
            Some(Item::Value(Value::InlineTable(all))) => {
                cuts.extend(self.cuts_of_member(all, name).ok_or_else(|| self.unclear(name))?);
            }
            Some(Item::Table(all)) => {
                all.get_key_value(name).into_iter().for_each(|(key, item)| self.cut(key, item, &mut cuts))
            }
            _ => {}
        }
        cuts.sort_by_key(|cut| cut.start);
        let (mut text, mut done) = (String::with_capacity(self.text.len()), 0);
        for cut in cuts {
            text.push_str(self.text.get(done..cut.start).unwrap_or_default());
            done = done.max(cut.end);
        }
        text.push_str(self.text.get(done..).unwrap_or_default());
        self.checked(text, name, None)
    }

    /// Cuts an item that is in no inline table: its sections, and its lines elsewhere.
    fn cut(&self, key: &Key, item: &Item, cuts: &mut Vec<Range<usize>>) {
        let tables: Vec<&Table> = match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(tables) => tables.iter().collect(),
            _ => {
                let spans = key.span().zip(item.span());
                return cuts.extend(spans.map(|(key, value)| self.lines(&(key.start..value.end))));
            }
        };
        for table in tables {
            cuts.extend(table.position().and_then(|_| self.extent(table)));
            let pairs = table.iter().filter_map(|(key, _)| table.get_key_value(key));
            pairs.for_each(|(key, item)| self.cut(key, item, cuts));
        }
    }

    /// Cuts of a server in the inline table of all servers, with a comma for each pair. Comments stay.
    fn cuts_of_member(&self, all: &InlineTable, name: &str) -> Option<Vec<Range<usize>>> {
        let (members, inner) = (members(all)?, all.span()?);
        let inner = inner.start + 1..inner.end - 1;
        if members.iter().all(|member| member.name == name) && self.is_plain(inner.clone()) {
            return Some(vec![inner]);
        }
        let mut cuts = Vec::new();
        for (at, member) in members.iter().enumerate().filter(|(_, member)| member.name == name) {
            let (pair, whole) = (member.pair.clone(), member.whole.clone());
            let is_last = members[at..].iter().all(|member| member.name == name) && !all.trailing_comma();
            let before = at.checked_sub(1).map(|before| &members[before]).filter(|_| is_last);
            if let Some(before) = before.filter(|before| self.is_plain(before.pair.end..pair.start)) {
                cuts.push(before.pair.end..pair.end);
                continue;
            }
            let comma = self.text[whole.end..].starts_with(',').then_some(whole.end..whole.end + 1);
            let is_plain = self.is_plain(whole.start..pair.start) && self.is_plain(pair.end..whole.end);
            cuts.push(if is_plain && comma.is_some() { whole } else { pair });
            cuts.extend(comma);
        }
        Some(cuts)
    }

    /// Lines of a section, with the comments directly above its header, and with the empty line before them if none
    /// would separate its neighbours otherwise. A comment that could belong to something else stays.
    fn extent(&self, section: &Table) -> Option<Range<usize>> {
        let header = section.span()?;
        let ends = section.get_values().into_iter().filter_map(|(_, value)| value.span()).map(|span| span.end);
        let mut lines = self.lines(&(header.start..ends.max().unwrap_or(header.end)));
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
        Some(lines)
    }
}

/// True if a comment is a table or a pair that is switched off.
fn is_commented_out(comment: &str) -> bool {
    let rest = comment.trim_start_matches('#').trim();
    let is_key =
        |key: &str| key.trim().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"'));
    rest.starts_with('[') || rest.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty() && is_key(key))
}
