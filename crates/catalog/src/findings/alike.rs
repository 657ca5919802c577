//! Compares the tools of servers: names that pass for each other, and text that changes the use of another server's tool.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use serde_json::Value;

use super::place::{self, Finding, Item, Place};
use super::rules::{self, Severity};
use super::{Listed, fold, hidden, phrases, words};
use crate::people;
use base::text::head;

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
    /// Hashes of words of its description.
    words: BTreeSet<u64>,
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
        let own: HashSet<&str> =
            listed.tools.iter().copied().flat_map(own_words).filter(|word| is_compound(word)).collect();
        for definition in listed.tools {
            let Some(name) = definition.get("name").and_then(Value::as_str) else { continue };
            let description = definition.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = head(description, MAX_TEXT);
            if name.len() <= MAX_NAME && traits.tools.len() < MAX_TOOLS {
                let plain: String = fold::plain(name).chars().filter(|c| c.is_alphanumeric()).collect();
                traits.tools.push(Tool { name: name.to_owned(), plain, words: hashes(description) });
            }
            let place = Place { item: Item::Tool(name.to_owned()).shown(), pointer: "/description".to_owned() };
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

    pub(super) fn keeping(&self, has: impl Fn(&Item) -> bool) -> Self {
        let is_kept = |tool: &&Tool| has(&Item::Tool(tool.name.clone()).shown());
        Self {
            tools: self.tools.iter().filter(is_kept).cloned().collect(),
            mentions: self.mentions.iter().filter(|mention| has(&mention.found.place.item)).cloned().collect(),
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
        for (position, (at, chunk, sentence)) in chunks.iter().enumerate() {
            let name = last(chunk);
            if !is_compound(name) || self.mentions.len() >= MAX_MENTIONS {
                continue;
            }
            let near = |most: usize, list: &str| {
                let words = &chunks[position.saturating_sub(most)..chunks.len().min(position + most + 1)];
                let mut words = words.iter().filter(|(_, _, of)| of == sentence);
                words.any(|(_, word, _)| phrases::list(list).iter().any(|known| word.eq_ignore_ascii_case(known)))
            };
            let is_call = || near(NEAR, "names steers-a-call") && near(2, "names of-a-call") && !own.contains(name);
            if near(NEAR, "names steers") || is_call() {
                let found = Finding::new(&rules::SHADOWS, Severity::Warning, place, text, *at);
                self.mentions.push(Mention { name: name.to_owned(), found });
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

fn hashes(text: &str) -> BTreeSet<u64> {
    let folded = fold::plain(text);
    let words = words::pieces(&folded).into_iter().map(|piece| &folded[piece.from..piece.to]);
    words.filter(|word| word.len() > 2).take(MAX_WORDS).map(hash).collect()
}

fn hash(text: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(text)
}

/// Compares the tools of servers, given by name.
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
    let tools: Vec<(&str, &Tool)> = all.take(MAX_TOOLS).collect();
    let of = |(at, (_, tool)): (usize, &(&str, &Tool))| forms(&tool.plain).into_iter().map(move |form| (form, at));
    let mut forms: Vec<(u64, usize)> = tools.iter().enumerate().flat_map(of).collect();
    forms.sort_unstable();
    forms.dedup();
    let mut pairs = BTreeSet::new();
    for shared in forms.chunk_by(|one, other| one.0 == other.0) {
        for (nth, (_, one)) in shared.iter().take(MAX_SHARED).enumerate() {
            pairs.extend(shared[..nth].iter().map(|(_, other)| (*other, *one)));
        }
    }
    for (one, other) in pairs {
        let (one, other) = (tools[one], tools[other]);
        let Some(severity) = passes_for(one.1, other.1).filter(|_| one.0 != other.0) else { continue };
        for ((server, tool), (of, twin)) in [(one, other), (other, one)] {
            // Of two names the plain one is the model.
            if severity == Severity::Error && tool.name.is_ascii() && !twin.name.is_ascii() {
                continue;
            }
            let list = found.entry(server.to_owned()).or_default();
            if list.len() < MAX_FOUND {
                let place = Place { item: Item::Tool(tool.name.clone()).shown(), pointer: "/name".to_owned() };
                let text = format!("{} beside {of}.{}", tool.name, twin.name);
                list.push(Finding::new(&rules::ALIKE, severity, &place, &text, 0));
            }
        }
    }
}

/// Hashes by which names are found that pass for a name: of itself, with look-alikes taken for each other, and without
/// one of its letters. Two names that are one edit apart have one in common.
fn forms(plain: &str) -> Vec<u64> {
    if plain.len() < MIN_NAME {
        return Vec::new();
    }
    let without = plain.char_indices().map(|(at, c)| hash(&[&plain[..at], &plain[at + c.len_utf8()..]].concat()));
    without.chain([hash(plain), hash(&skeleton(plain))]).collect()
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
        let is_hidden = |name: &str| name.chars().any(people::is_hidden);
        return (is_hidden(&one.name) || is_hidden(&other.name)).then_some(Severity::Error);
    }
    // Only letters of other scripts differ.
    if one.plain == other.plain && (!a.is_ascii() || !b.is_ascii()) {
        return Some(Severity::Error);
    }
    if !hidden::is_mixed(&one.name) && skeleton(&one.plain) == skeleton(&other.plain) {
        return Some(Severity::Warning);
    }
    // Plurals and numbers.
    let stem = |tool: &Tool| tool.plain.trim_end_matches(|c: char| c == 's' || c.is_ascii_digit()).len();
    let share_stem = one.plain[..stem(one)] == other.plain[..stem(other)];
    // Two words, each in the description of its tool: a note is no node.
    let means_its_name = |tool: &Tool, other: &Tool| {
        let others = people::words(&other.name);
        let own = people::words(&tool.name).into_iter().filter(|word| !others.contains(word));
        own.into_iter().any(|word| tool.words.contains(&hash(&word)))
    };
    let are_words = means_its_name(one, other) && means_its_name(other, one);
    let common = one.words.intersection(&other.words).count();
    let all = one.words.len() + other.words.len() - common;
    let says_the_same = one.words.len().min(other.words.len()) >= MIN_WORDS && common * 100 >= all * SAME;
    (!share_stem && !are_words && says_the_same).then_some(Severity::Warning)
}
