//! Phrases that address the model: sequences of word classes in one sentence, and literal texts.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::fold::{self, Folded};
use super::rules::{RULES, Rule, Severity};
use super::words::{self, Form, Piece};
use base::meter::{Meter, Stopped};

/// The table of phrases.
const TABLE: &str = include_str!("phrases.txt");

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| Phrases::parse(TABLE));

/// A phrase that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) rule: &'static Rule,
    pub(super) severity: Severity,
    /// Byte of the text before it was folded.
    pub(super) at: usize,
}

/// Classes of a piece, one bit each.
type Classes = u128;

/// Class of each form that is no word, and of negations.
const SECRET: &str = "@secret";
const ADDRESS: &str = "@address";
const END: &str = "$";
const NOT: &str = "not";

#[derive(Default)]
struct Phrases {
    classes: Vec<&'static str>,
    /// Lists of words, by name.
    lists: HashMap<&'static str, Vec<&'static str>>,
    words: HashMap<&'static str, Classes>,
    phrases: Vec<Phrase>,
    /// Phrases by the class that they begin with.
    begins: Vec<Vec<usize>>,
    literals: Option<AhoCorasick>,
    /// Rule and severity of each literal, and whether it is usual in a field.
    of_literals: Vec<(&'static Rule, Severity, bool)>,
}

struct Phrase {
    rule: &'static Rule,
    severity: Severity,
    /// True if a negation before it in the sentence turns it into its opposite.
    is_positive: bool,
    /// True if it is usual in the field of its rule.
    is_usual: bool,
    steps: Vec<Step>,
}

/// A further word of a phrase.
struct Step {
    /// Most words up to it.
    gap: usize,
    /// Classes that none of those words has.
    without: Classes,
    /// Its class; 0: there is no further word, and the next one has none of `without`.
    class: Classes,
}

/// Places of words looked at per step.
const LOOKS_A_STEP: usize = 16;

/// Words of a list of the table.
pub(super) fn list(name: &str) -> &'static [&'static str] {
    PHRASES.lists.get(name).map_or(&[], Vec::as_slice)
}

/// Rules in whose field these words of names are: words that its marked phrases have are usual there.
pub(super) fn fields(words: &[String]) -> Vec<&'static Rule> {
    let is_in = |rule: &&&'static Rule| {
        let field = list(&format!("field {}", rule.id));
        words.iter().any(|word| field.contains(&&**word))
    };
    RULES.iter().filter(is_in).copied().collect()
}

/// Finds phrases, the worst of each rule; `fields` are those of the tool.
///
/// # Errors
/// When the steps are spent, with what was found until then.
pub(super) fn find(text: &Folded<'_>, fields: &[&Rule], meter: &Meter) -> (Vec<Hit>, Result<(), Stopped>) {
    let mut hits = Hits { text, fields, found: Vec::new() };
    let phrases = &*PHRASES;
    for found in phrases.literals.iter().flat_map(|literals| literals.find_iter(text.text.as_ref())) {
        let (rule, severity, is_usual) = phrases.of_literals[found.pattern().as_usize()];
        hits.push(rule, hits.severity(rule, severity, is_usual), found.start());
    }
    let done = phrases.seek(&mut hits, meter);
    (hits.found, done)
}

/// The worst hit of each rule.
struct Hits<'a> {
    text: &'a Folded<'a>,
    fields: &'a [&'a Rule],
    found: Vec<Hit>,
}

impl Hits<'_> {
    fn push(&mut self, rule: &'static Rule, severity: Severity, at: usize) {
        let hit = Hit { rule, severity, at: self.text.origin(at) };
        match self.found.iter_mut().find(|known| std::ptr::eq(known.rule, rule)) {
            Some(known) if known.severity >= severity => {}
            Some(known) => *known = hit,
            None => self.found.push(hit),
        }
    }

    fn has(&self, phrase: &Phrase) -> bool {
        self.found.iter().any(|hit| std::ptr::eq(hit.rule, phrase.rule) && hit.severity >= phrase.severity)
    }

    fn severity(&self, rule: &Rule, severity: Severity, is_usual: bool) -> Severity {
        if is_usual && self.fields.contains(&rule) { Severity::Note } else { severity }
    }
}

impl Phrases {
    fn seek(&self, hits: &mut Hits<'_>, meter: &Meter) -> Result<(), Stopped> {
        let text = &hits.text.text;
        let pieces = words::pieces(text);
        let classes: Vec<Classes> = pieces.iter().map(|piece| self.classes_of(text, piece)).collect();
        meter.spend((pieces.len() / LOOKS_A_STEP) as u64)?;
        let (end, not) = (self.class(END), self.class(NOT));
        let mut is_negated = false;
        for (at, own) in classes.iter().enumerate() {
            let mut bits = *own;
            while bits != 0 {
                let class = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                for phrase in self.begins[class].iter().map(|phrase| &self.phrases[*phrase]) {
                    let is_known = (phrase.is_positive && is_negated) || hits.has(phrase);
                    if !is_known && phrase.matches(&classes, at, end, meter)? {
                        let severity = hits.severity(phrase.rule, phrase.severity, phrase.is_usual);
                        hits.push(phrase.rule, severity, pieces[at].from);
                    }
                }
            }
            is_negated = own & end == 0 && (is_negated || own & not != 0);
        }
        Ok(())
    }
}

impl Phrase {
    /// True if it is at `at`, whose class is its first.
    fn matches(&self, classes: &[Classes], at: usize, end: Classes, meter: &Meter) -> Result<bool, Stopped> {
        // Places of the last word; a gap is at most a few words.
        let mut reached = vec![at];
        for Step { gap, without, class } in &self.steps {
            if *class == 0 {
                return Ok(reached.iter().any(|at| classes.get(at + 1).is_none_or(|own| own & without == 0)));
            }
            meter.spend((1 + reached.len() * gap / LOOKS_A_STEP) as u64)?;
            let mut next: Vec<usize> = Vec::new();
            for from in &reached {
                for (place, own) in classes.iter().enumerate().skip(from + 1).take(*gap) {
                    if own & without != 0 {
                        break;
                    }
                    if own & class != 0 && !next.contains(&place) {
                        next.push(place);
                    }
                    if own & end != 0 {
                        break;
                    }
                }
            }
            if next.is_empty() {
                return Ok(false);
            }
            reached = next;
        }
        Ok(true)
    }
}

impl Phrases {
    /// Reads the table; a line that does not fit is dropped, which a test finds.
    fn parse(table: &'static str) -> Self {
        let mut all = Self::default();
        for form in [SECRET, ADDRESS, END] {
            all.classes.push(form);
        }
        let mut literals = Vec::new();
        for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let text = line.strip_prefix('~').unwrap_or(line);
            if let Some((literal, rest)) = text.strip_prefix('"').and_then(|line| line.split_once("\" ")) {
                if let Some((rule, severity)) = of(rest) {
                    literals.push(fold::plain(literal));
                    all.of_literals.push((rule, severity, text != line));
                }
                continue;
            }
            let Some((head, body)) = line.split_once(": ") else { continue };
            match of(head) {
                Some(of) => all.phrases.extend(all.phrase(of, body)),
                None if head.contains(' ') => drop(all.lists.insert(head, body.split(' ').collect())),
                None => {
                    all.classes.push(head);
                    let class = all.class(head);
                    body.split(' ').for_each(|word| *all.words.entry(word).or_default() |= class);
                }
            }
        }
        all.begins = vec![Vec::new(); Classes::BITS as usize];
        for (position, phrase) in all.phrases.iter().enumerate() {
            let first = phrase.steps.first().map_or(0, |step| step.class.trailing_zeros() as usize);
            all.begins[first].push(position);
        }
        // The first word is where a match is tried.
        for phrase in &mut all.phrases {
            phrase.steps.remove(0);
        }
        all.literals = AhoCorasick::new(literals).ok();
        all
    }

    fn phrase(&self, (rule, severity): (&'static Rule, Severity), body: &str) -> Option<Phrase> {
        let marks = body.len() - body.trim_start_matches(['^', '~']).len();
        let (is_positive, is_usual) = (body[..marks].contains('^'), body[..marks].contains('~'));
        let mut parts = body[marks..].split(' ');
        let mut steps = vec![Step { gap: 0, without: 0, class: self.known(parts.next()?)? }];
        while let Some(part) = parts.next() {
            let (gap, without) = part.split_once('!').map_or((part, None), |(gap, class)| (gap, Some(class)));
            let without = without.map_or(Some(0), |class| self.known(class))?;
            let class = if gap == "0" { 0 } else { self.known(parts.next()?)? };
            steps.push(Step { gap: gap.parse().ok()?, without, class });
        }
        Some(Phrase { rule, severity, is_positive, is_usual, steps })
    }

    fn known(&self, name: &str) -> Option<Classes> {
        Some(self.class(name)).filter(|class| *class != 0)
    }

    /// Bit of a class; 0 if there is none.
    fn class(&self, name: &str) -> Classes {
        self.classes.iter().position(|class| *class == name).and_then(|at| 1_u128.checked_shl(at as u32)).unwrap_or(0)
    }

    fn classes_of(&self, text: &str, piece: &Piece) -> Classes {
        match piece.form {
            Form::Secret => self.class(SECRET),
            Form::Address => self.class(ADDRESS),
            Form::End => self.class(END),
            Form::Word => {
                let mut classes = 0;
                words::forms(&text[piece.from..piece.to], |word| {
                    classes |= self.words.get(word).copied().unwrap_or_default();
                });
                classes
            }
        }
    }
}

/// `rule severity`.
fn of(text: &str) -> Option<(&'static Rule, Severity)> {
    let (rule, severity) = text.split_once(' ')?;
    let all = [Severity::Note, Severity::Warning, Severity::Error];
    let severity = all.into_iter().find(|known| known.as_str() == severity)?;
    Some((Rule::named(rule)?, severity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_counts() {
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        let all = &*PHRASES;
        assert_eq!(all.classes.len() - 3 + all.phrases.len() + all.of_literals.len() + all.lists.len(), lines);
        assert!(all.classes.len() <= Classes::BITS as usize && all.literals.is_some());
        let mut classes = all.classes.clone();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), all.classes.len(), "a class has two lines");
    }
}
