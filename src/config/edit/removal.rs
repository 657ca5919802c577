//! Removal of servers from the text of a configuration file.

use std::ops::Range;

use toml::Table;

use super::layout::{Pair, Section};
use super::{ConfigError, Edit};

impl Edit<'_> {
    /// The text without servers: their sections with the comments directly above them, and their pairs elsewhere.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be edited.
    pub(crate) fn without(&self, names: &[&str]) -> Result<String, ConfigError> {
        names.iter().try_for_each(|name| self.known(name))?;
        let mut cuts: Vec<Range<usize>> = Vec::new();
        for section in &self.sections {
            if self.is_of(&section.header, &[], names) {
                cuts.push(self.extent(section));
                continue;
            }
            for pair in &section.pairs {
                match self.is_of(&section.header, &pair.path, names) {
                    true => cuts.push(self.lines(&pair.span)),
                    false => cuts.extend(self.members_of(section, pair, names)),
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
        if let Some(servers) = expected.get_mut(self.servers).and_then(toml::Value::as_table_mut) {
            names.iter().for_each(|name| drop(servers.remove(*name)));
        }
        let filled = |table: &Table| {
            let is_empty = table.get(self.servers).and_then(toml::Value::as_table).is_some_and(Table::is_empty);
            let rest = table.iter().filter(|(key, _)| !(is_empty && *key == self.servers));
            rest.map(|(key, value)| (key.clone(), value.clone())).collect::<Table>()
        };
        self.checked(names.first().copied().unwrap_or_default(), text, |table| filled(table) == filled(&expected))
    }

    /// True if a path from the root, in two parts, leads to one of these servers or into it.
    fn is_of(&self, above: &[String], path: &[String], names: &[&str]) -> bool {
        let mut full = above.iter().chain(path);
        full.next().is_some_and(|table| table == self.servers) && full.next().is_some_and(|name| is_in(names, name))
    }

    /// Cuts of the servers' members in the inline table of all servers.
    fn members_of(&self, section: &Section, pair: &Pair, names: &[&str]) -> Vec<Range<usize>> {
        let is_table = section.header.is_empty() && pair.path == [self.servers];
        let Some(members) = pair.members.as_ref().filter(|_| is_table) else { return Vec::new() };
        let is_own = |member: &Pair| member.path.first().is_some_and(|first| is_in(names, first));
        let inner = pair.value.start + 1..pair.value.end - 1;
        if members.iter().all(is_own) && self.is_plain(&inner) {
            return vec![inner];
        }
        let (mut cuts, mut at) = (Vec::new(), 0);
        for run in members.chunk_by(|one, other| is_own(one) == is_own(other)) {
            let next = at + run.len();
            if run.first().is_some_and(is_own) {
                cuts.extend(self.run(members, at..next, inner.end));
            }
            at = next;
        }
        cuts
    }

    /// Cuts of neighbouring pairs of an inline table that ends at `end`, with a comma each, and without the comments
    /// around and between them.
    fn run(&self, members: &[Pair], run: Range<usize>, end: usize) -> Vec<Range<usize>> {
        let own = members.get(run.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (own.first(), own.last()) else { return Vec::new() };
        let next = members.get(run.end).map(|next| next.span.start);
        let before = run.start.checked_sub(1).and_then(|before| members.get(before)).map(|before| before.span.end);
        let is_plain = |range: Range<usize>| self.is_plain(&range);
        if own.windows(2).all(|pair| is_plain(pair[0].span.end..pair[1].span.start)) {
            if let Some(before) = before.filter(|before| is_plain(*before..first.span.start)) {
                return std::iter::once(before..last.span.end).collect();
            }
            if let Some(next) = next.filter(|next| is_plain(last.span.end..*next)) {
                return std::iter::once(first.span.start..next).collect();
            }
        }
        let cuts = run.map(|at| {
            let span = &members[at].span;
            let gap = span.end..members.get(at + 1).map_or(end, |next| next.span.start);
            let comma = self.comma(&gap);
            let until = comma.filter(|comma| is_plain(gap.start..*comma)).map_or(span.end, |comma| comma + 1);
            let behind = comma.filter(|comma| *comma >= until).map(|comma| comma..comma + 1);
            [Some(span.start..until), behind]
        });
        cuts.flatten().flatten().collect()
    }

    /// The first comma that is in no comment.
    fn comma(&self, gap: &Range<usize>) -> Option<usize> {
        let mut at = gap.start;
        for line in self.text.get(gap.clone())?.split_inclusive('\n') {
            let code = line.split('#').next().unwrap_or_default();
            if let Some(comma) = code.find(',') {
                return Some(at + comma);
            }
            at += line.len();
        }
        None
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
}

fn is_in(names: &[&str], name: &str) -> bool {
    names.contains(&name)
}

/// True if a comment is a table or a pair that is switched off.
fn is_commented_out(comment: &str) -> bool {
    let rest = comment.trim_start_matches('#').trim();
    let is_key =
        |key: &str| key.trim().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"'));
    rest.starts_with('[') || rest.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty() && is_key(key))
}
