//! Layout of a TOML text: its sections and their pairs, with their positions.

use std::ops::Range;
use std::vec::IntoIter;

use toml_parser::Source;
use toml_parser::parser::{Event, EventKind, parse_document};

/// A header with the pairs below it; the first section of a text has no header.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Keys of the header.
    pub(super) header: Vec<String>,
    /// Position of the header, brackets included.
    pub(super) span: Range<usize>,
    /// True for an element of an array of tables.
    pub(super) is_element: bool,
    /// Its pairs, in order.
    pub(super) pairs: Vec<Pair>,
}

/// A key with its value.
#[derive(Debug)]
pub(super) struct Pair {
    /// Key, relative to its section or inline table.
    pub(super) path: Vec<String>,
    /// End of each part of the key.
    pub(super) ends: Vec<usize>,
    /// From the begin of the key to the end of the value.
    pub(super) span: Range<usize>,
    /// Position of the value.
    pub(super) value: Range<usize>,
    /// Pairs of the value, if it is an inline table.
    pub(super) members: Option<Vec<Pair>>,
}

/// Sections of a valid text; nesting is bounded, since the parser has accepted it.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let mut events = Vec::with_capacity(tokens.len());
    let mut keep = |event: Event| {
        if !matches!(event.kind(), EventKind::Whitespace | EventKind::Comment | EventKind::Newline) {
            events.push(event);
        }
    };
    parse_document(&tokens, &mut keep, &mut ());
    let mut reader = Reader { source, events: events.into_iter() };
    let (mut done, mut section) = (Vec::new(), Section::default());
    while let Some(event) = reader.events.next() {
        match event.kind() {
            EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                done.push(std::mem::replace(&mut section, reader.header(event)));
            }
            EventKind::SimpleKey => section.pairs.extend(reader.pair(event)),
            _ => {}
        }
    }
    done.push(section);
    done
}

struct Reader<'t> {
    source: Source<'t>,
    events: IntoIter<Event>,
}

impl Reader<'_> {
    fn header(&mut self, open: Event) -> Section {
        let is_element = open.kind() == EventKind::ArrayTableOpen;
        let mut section = Section { is_element, span: open.span().start()..open.span().end(), ..Section::default() };
        for event in self.events.by_ref() {
            section.span.end = event.span().end();
            match event.kind() {
                EventKind::SimpleKey => section.header.push(key(&self.source, event)),
                EventKind::KeySep => {}
                _ => break,
            }
        }
        section
    }

    fn pair(&mut self, first: Event) -> Option<Pair> {
        let (mut path, mut ends) = (vec![key(&self.source, first)], vec![first.span().end()]);
        loop {
            let event = self.events.next()?;
            match event.kind() {
                EventKind::KeySep => {}
                EventKind::SimpleKey => {
                    path.push(key(&self.source, event));
                    ends.push(event.span().end());
                }
                EventKind::KeyValSep => break,
                _ => return None,
            }
        }
        let open = self.events.next()?;
        let (end, members) = self.value(open)?;
        let begin = open.span().start();
        Some(Pair { path, ends, span: first.span().start()..end, value: begin..end, members })
    }

    /// End of a value, and its pairs if it is an inline table.
    fn value(&mut self, open: Event) -> Option<(usize, Option<Vec<Pair>>)> {
        match open.kind() {
            EventKind::Scalar => Some((open.span().end(), None)),
            EventKind::ArrayOpen => loop {
                let event = self.events.next()?;
                match event.kind() {
                    EventKind::ArrayClose => return Some((event.span().end(), None)),
                    EventKind::ValueSep => {}
                    _ => drop(self.value(event)?),
                }
            },
            EventKind::InlineTableOpen => {
                let mut members = Vec::new();
                loop {
                    let event = self.events.next()?;
                    match event.kind() {
                        EventKind::InlineTableClose => return Some((event.span().end(), Some(members))),
                        EventKind::SimpleKey => members.push(self.pair(event)?),
                        _ => {}
                    }
                }
            }
            _ => None,
        }
    }
}

fn key(source: &Source<'_>, event: Event) -> String {
    let mut name = String::new();
    if let Some(raw) = source.get(event) {
        raw.decode_key(&mut name, &mut ());
    }
    name
}
