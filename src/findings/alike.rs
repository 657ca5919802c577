//! Compares the tools of servers: names that pass for each other, and text that changes the use of another server's tool.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::place::{self, Finding, Item, Place};
use super::rules::{self, Severity};
use super::{Listed, fold, hidden, names, phrases, words};
use crate::text::head;

/// Shortest name, in letters and digits, that is compared by edits.
const MIN_NAME: usize = 6;
/// Longest name that is compared.
const MAX_NAME: usize = 64;
/// Words of a description that are compared.
const MAX_WORDS: usize = 64;
/// Least words of a description that say anything.
const MIN_WORDS: usize = 4;
/// Share of common words, in percent, from which two descriptions say the same.
const SAME: usize = 50;
/// Words between a tool's name and a word that changes its use.
const NEAR: usize = 10;
/// Most mentions kept of a server.
const MAX_MENTIONS: usize = 2_000;
/// Most bytes of a text in which mentions are sought.
const MAX_TEXT: usize = 64 << 10;
/// Most tools that are compared.
const MAX_TOOLS: usize = 50_000;
/// Most findings of a server in the comparison.
const MAX_FOUND: usize = 100;
/// Base of the hash of a name.
const BASE: u64 = 0x0000_0100_0000_01b3;
/// Most tools that share one form of a name.
const MAX_SHARED: usize = 16;

/// A server, for the comparison.
#[derive(Debug, Default, Clone)]
pub(super) struct Traits {
    tools: Vec<Tool>,
    mentions: Vec<Mention>,
}

#[derive(Debug, Clone)]
struct Tool {
    name: String,
    /// Letters and digits of the name, in lower case.
    plain: String,
    /// See [`forms`].
    forms: Vec<u64>,
    /// Hashes of words of its description, sorted.
    words: Vec<u32>,
}

/// Something that looks like a tool's name, near a word that changes its use.
#[derive(Debug, Clone)]
struct Mention {
    name: String,
    found: Finding,
}

/// Findings of the comparison, by server.
pub type Across = BTreeMap<String, Vec<Finding>>;

impl Traits {
    pub(super) fn of(listed: Listed<'_>) -> Self {
        let mut traits = Self::default();
        let own: HashSet<&str> = listed.tools.iter().flat_map(own_words).filter(|word| is_compound(word)).collect();
        for definition in listed.tools {
            let Some(name) = definition.get("name").and_then(Value::as_str) else { continue };
            let description = definition.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = head(description, MAX_TEXT);
            if name.len() <= MAX_NAME && traits.tools.len() < MAX_TOOLS {
                let plain: String = fold::plain(name).chars().filter(|c| c.is_alphanumeric()).collect();
                let (forms, words) = (forms(&plain), hashes(description));
                traits.tools.push(Tool { name: name.to_owned(), plain, forms, words });
            }
            let place = Place { item: Item::Tool(place::name(name)), pointer: "/description".to_owned() };
            traits.mention(&place, description, &own);
            let parameters = definition.pointer("/inputSchema/properties").and_then(Value::as_object);
            for (key, schema) in parameters.into_iter().flatten() {
                let Some(text) = schema.get("description").and_then(Value::as_str) else { continue };
                let pointer = place::step("/inputSchema/properties", key) + "/description";
                traits.mention(&Place { pointer, ..place.clone() }, head(text, MAX_TEXT), &own);
            }
        }
        if let Some(instructions) = listed.instructions {
            let place = Place { item: Item::Instructions, pointer: String::new() };
            traits.mention(&place, head(instructions, MAX_TEXT), &own);
        }
        traits
    }

    pub(super) fn keeping(&self, has: &impl Fn(&str) -> bool) -> Self {
        let is_kept = |item: &Item| !matches!(item, Item::Tool(name) if !has(name));
        Self {
            tools: self.tools.iter().filter(|tool| has(&tool.name)).cloned().collect(),
            mentions: self.mentions.iter().filter(|mention| is_kept(&mention.found.place.item)).cloned().collect(),
        }
    }

    /// Notes the names in a text that a word near them in the sentence steers. Some words steer a call alone, of a tool
    /// whose name is no word of the server's own.
    fn mention(&mut self, place: &Place, text: &str, own: &HashSet<&str>) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        let mut chunks: Vec<(usize, &str, usize)> = Vec::new();
        let (mut at, mut sentence) = (0, 0);
        for chunk in text.split(|c: char| !is_part(c)) {
            if !chunk.is_empty() {
                chunks.push((at, chunk.trim_matches(['.', '-', '/']), sentence));
            }
            at += chunk.len();
            sentence += usize::from(chunk.ends_with('.') || text[at..].starts_with(['!', '?', ';']));
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
        let is_of = |list: &str, at: usize| {
            let word = chunks.get(at).map_or("", |(_, word, _)| *word);
            phrases::list(list).iter().any(|known| word.eq_ignore_ascii_case(known))
        };
        let steering = |list: &str| (0..chunks.len()).filter(|at| is_of(list, *at)).collect::<Vec<usize>>();
        let (strong, weak) = (steering("names steers"), steering("names steers-a-call"));
        for (position, (at, chunk, sentence)) in chunks.iter().enumerate() {
            if !is_compound(last(chunk)) || self.mentions.len() >= MAX_MENTIONS {
                continue;
            }
            let is_near = |steering: &[usize]| {
                let next = steering.partition_point(|steering| *steering + NEAR < position);
                let near = steering[next..].iter().take_while(|steering| **steering <= position + NEAR);
                near.into_iter().any(|steering| chunks[*steering].2 == *sentence)
            };
            let is_call = || (position.saturating_sub(2)..=position + 2).any(|at| is_of("names of-a-call", at));
            if is_near(&strong) || (is_near(&weak) && is_call() && !own.contains(last(chunk))) {
                let found = Finding::new(&rules::SHADOWS, Severity::Warning, place, text, *at);
                self.mentions.push(Mention { name: last(chunk).to_owned(), found });
            }
        }
    }
}

/// `server.tool` and `server/tool` name the tool too.
fn last(chunk: &str) -> &str {
    chunk.rsplit(['/', '.']).next().unwrap_or(chunk)
}

/// True for the form of a tool's name of several words: plain words of prose are none.
fn is_compound(chunk: &str) -> bool {
    let has_hump =
        || chunk.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    (MIN_NAME..=MAX_NAME).contains(&chunk.len()) && (chunk.contains(['_', '-']) || has_hump())
}

/// Names and choices of the parameters of a tool.
fn own_words(definition: &Value) -> impl Iterator<Item = &str> {
    let parameters = definition.pointer("/inputSchema/properties").and_then(Value::as_object).into_iter().flatten();
    parameters.flat_map(|(name, schema)| {
        let choices = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        choices.filter_map(Value::as_str).chain([name.as_str()])
    })
}

fn hashes(text: &str) -> Vec<u32> {
    let folded = fold::plain(text);
    let pieces = words::pieces(&folded);
    let long = pieces.iter().map(|piece| &folded[piece.from..piece.to]).filter(|word| word.len() > 2);
    let mut hashes: Vec<u32> = long.take(MAX_WORDS).map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// FNV-1a: the same on every machine.
fn hash(word: &str) -> u32 {
    word.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Compares the tools of servers, given by name.
#[must_use]
pub fn across<'a>(servers: impl Iterator<Item = (&'a str, &'a super::Findings)> + Clone) -> Across {
    let mut found = Across::new();
    let named: Vec<(&str, &Traits)> = servers.map(|(name, findings)| (name, &findings.traits)).collect();
    if named.len() < 2 {
        return found;
    }
    shadowed(&named, &mut found);
    alike(&named, &mut found);
    found.values_mut().for_each(|list| list.sort());
    found
}

fn shadowed(servers: &[(&str, &Traits)], found: &mut Across) {
    let mut owners: HashMap<&str, Vec<&str>> = HashMap::new();
    for (server, traits) in servers {
        for tool in &traits.tools {
            let owners = owners.entry(&tool.name).or_default();
            if owners.last() != Some(server) && owners.len() < MAX_SHARED {
                owners.push(server);
            }
        }
    }
    for (server, traits) in servers {
        let mut told = HashSet::new();
        for mention in &traits.mentions {
            let Some(owners) = owners.get(mention.name.as_str()) else { continue };
            // A server may speak of its own tools.
            if !owners.contains(server) && told.len() < MAX_FOUND && told.insert((&mention.found.place, &mention.name))
            {
                found.entry((*server).to_owned()).or_default().push(mention.found.clone());
            }
        }
    }
}

/// A name read with look-alikes taken for each other.
fn skeleton(plain: &str) -> String {
    let plain = plain.replace("rn", "m").replace("vv", "w");
    let alike = |c: char| match c {
        '0' => 'o',
        '1' | 'i' | '|' => 'l',
        '5' => 's',
        c => c,
    };
    plain.chars().map(alike).collect()
}

fn alike(servers: &[(&str, &Traits)], found: &mut Across) {
    let all = servers.iter().flat_map(|(server, traits)| traits.tools.iter().map(move |tool| (*server, tool)));
    let mut tools: Vec<(&str, &Tool)> = all.take(MAX_TOOLS).collect();
    tools.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    let of = |(position, (_, tool)): (usize, &(&str, &Tool))| {
        tool.forms.iter().map(move |form| (*form, position as u32)).collect::<Vec<_>>()
    };
    let mut forms: Vec<(u64, u32)> = tools.iter().enumerate().flat_map(of).collect();
    forms.sort_unstable();
    forms.dedup();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for shared in forms.chunk_by(|one, other| one.0 == other.0) {
        let shared = &shared[..shared.len().min(MAX_SHARED)];
        for (nth, (_, one)) in shared.iter().enumerate() {
            pairs.extend(shared[nth + 1..].iter().map(|(_, other)| (*one, *other)));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    for (one, other) in pairs {
        let (one, other) = (tools[one as usize], tools[other as usize]);
        if one.0 != other.0
            && let Some(severity) = passes_for(one.1, other.1)
        {
            for (server, tool, of, twin) in [(one.0, one.1, other.0, other.1), (other.0, other.1, one.0, one.1)] {
                // Of two names the plain one is the model.
                if severity == Severity::Error && tool.name.is_ascii() && !twin.name.is_ascii() {
                    continue;
                }
                let place = Place { item: Item::Tool(place::name(&tool.name)), pointer: "/name".to_owned() };
                let text = format!("{} beside {of}.{}", tool.name, twin.name);
                let list = found.entry(server.to_owned()).or_default();
                if list.len() < MAX_FOUND {
                    list.push(Finding::new(&rules::ALIKE, severity, &place, &text, 0));
                }
            }
        }
    }
}

/// Forms by which names are found that pass for a name: itself, with look-alikes taken for each other, and without one of
/// its letters. Two names that are one edit apart have a form in common.
fn forms(plain: &str) -> Vec<u64> {
    if plain.len() < MIN_NAME {
        return Vec::new();
    }
    let letters: Vec<u64> = plain.chars().map(u64::from).collect();
    let mut after = vec![(0_u64, 1_u64)];
    for letter in letters.iter().rev() {
        let (hash, power) = after.last().copied().unwrap_or((0, 1));
        after.push((hash.wrapping_add(letter.wrapping_mul(power)), power.wrapping_mul(BASE)));
    }
    let mut forms = vec![polynomial(&letters), polynomial(&skeleton(plain).chars().map(u64::from).collect::<Vec<_>>())];
    let mut before = 0_u64;
    for (at, letter) in letters.iter().enumerate() {
        let (hash, power) = after[letters.len() - at - 1];
        forms.push(before.wrapping_mul(power).wrapping_add(hash));
        before = before.wrapping_mul(BASE).wrapping_add(*letter);
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// A hash from which that of the text without one letter is made in one step. Equal hashes of unequal names cost one more
/// comparison.
fn polynomial(letters: &[u64]) -> u64 {
    letters.iter().fold(0, |hash, letter| hash.wrapping_mul(BASE).wrapping_add(*letter))
}

/// How much one name passes for another; `None` where two servers name their tools alike by nature.
fn passes_for(one: &Tool, other: &Tool) -> Option<Severity> {
    if one.name == other.name {
        return None;
    }
    let letters = |tool: &Tool| tool.name.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let (a, b) = (letters(one), letters(other));
    if a == b {
        // Invisible characters alone: `send_mail` with one in it.
        let is_hidden = |name: &str| name.chars().any(crate::people::is_hidden);
        return (is_hidden(&one.name) || is_hidden(&other.name)).then_some(Severity::Error);
    }
    // Only letters of other scripts differ.
    if one.plain == other.plain && (!a.is_ascii() || !b.is_ascii()) {
        return Some(Severity::Error);
    }
    if !hidden::is_mixed(&one.name) && skeleton(&one.plain) == skeleton(&other.plain) {
        return Some(Severity::Warning);
    }
    let is_number = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let differs_in_number = one.plain[..is_number(&one.plain)] == other.plain[..is_number(&other.plain)];
    let is_plural =
        one.plain.strip_suffix('s') == Some(&*other.plain) || other.plain.strip_suffix('s') == Some(&*one.plain);
    // Two words, each in the description of its tool: a note is no node.
    let means_its_name = |tool: &Tool, other: &Tool| {
        let others = names::words(&other.name);
        let own = names::words(&tool.name).into_iter().filter(|word| !others.contains(word));
        own.into_iter().any(|word| tool.words.binary_search(&hash(&word)).is_ok())
    };
    let are_words = means_its_name(one, other) && means_its_name(other, one);
    (!differs_in_number && !is_plural && !are_words && says_the_same(&one.words, &other.words))
        .then_some(Severity::Warning)
}

fn says_the_same(one: &[u32], other: &[u32]) -> bool {
    let common = one.iter().filter(|word| other.binary_search(word).is_ok()).count();
    let all = one.len() + other.len() - common;
    one.len().min(other.len()) >= MIN_WORDS && common * 100 >= all * SAME
}
