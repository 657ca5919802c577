//! A server's offers besides tools: resources, resource templates and prompts.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use stubgen::one_line;

use super::Held;
use crate::findings::Item;
use base::limits;
use base::text::head;
use redact::Surface;
use upstream::{Listing, offer_digest};

/// Longest file name, without the number that makes it unique.
const MAX_FILE: usize = 80;
/// Longest URI or name.
const MAX_ID: usize = limits::OFFER_ID.max;
/// Longest summary, in bytes.
const MAX_SUMMARY: usize = 160;

/// The offers of one server, each list in order of [`Offer::id`].
#[derive(Debug, Default, Clone)]
pub struct Offers {
    /// Resources.
    pub resources: Vec<Offer>,
    /// Resource templates.
    pub templates: Vec<Offer>,
    /// Prompts.
    pub prompts: Vec<Offer>,
    /// Missing lists, with the reason.
    pub notes: Vec<String>,
    /// Full digest of all offers.
    pub digest: String,
}

/// A resource, a template or a prompt.
#[derive(Debug, Clone)]
pub struct Offer {
    /// File in the virtual filesystem: unique in its folder, also without case.
    pub file: String,
    /// Identifier at the server: a URI, a URI template, or a prompt's name.
    pub id: String,
    /// Description in one line; may be empty.
    pub summary: String,
    /// Definition, unchanged.
    pub definition: Value,
}

impl Offers {
    /// Takes the offers out of a listing.
    pub fn take(listing: &mut Listing) -> Self {
        let mut notes: Vec<String> = listing.notes.iter().map(|note| one_line(note)).collect();
        let mut take = |list: &mut Vec<Value>, what: &str, key: &str, suffix: &str| {
            let (offers, odd) = offers(std::mem::take(list), key, suffix);
            if odd > 0 {
                notes.push(format!("{odd} of its {what} are left out: they have no usable `{key}`, or have it twice"));
            }
            offers
        };
        let resources = take(&mut listing.resources, "resources", "uri", "");
        let templates = take(&mut listing.templates, "resource templates", "uriTemplate", "");
        let prompts = take(&mut listing.prompts, "prompts", "name", ".md");
        let all = resources.iter().chain(&templates).chain(&prompts);
        let texts: Vec<String> = all.map(|offer| stubgen::canonical_json(&offer.definition)).collect();
        let digest = stubgen::digest(&(texts.join("\n") + &notes.join("\n")));
        Self { resources, templates, prompts, notes, digest }
    }

    /// Without what is held back, which is only counted.
    #[must_use]
    pub fn without(mut self, held: &Held) -> Self {
        self.resources.retain(|offer| !held.has(&Item::Resource(offer.id.clone())));
        self.templates.retain(|offer| !held.has(&Item::Template(offer.id.clone())));
        self.prompts.retain(|offer| !held.has(&Item::Prompt(offer.id.clone())));
        if let Some(note) = held.note() {
            self.notes.push(note);
        }
        self.digest = stubgen::digest(format!("{} {}", self.digest, stubgen::canonical_json(&held.json())));
        self
    }

    /// All offers.
    pub fn items(&self) -> impl Iterator<Item = (Item, &Offer)> {
        fn of(list: &[Offer], item: fn(String) -> Item) -> impl Iterator<Item = (Item, &Offer)> {
            list.iter().map(move |offer| (item(offer.id.clone()), offer))
        }
        let (prompts, resources) = (of(&self.prompts, Item::Prompt), of(&self.resources, Item::Resource));
        prompts.chain(resources).chain(of(&self.templates, Item::Template))
    }

    /// The resource with this URI.
    pub fn resource(&self, uri: &str) -> Option<&Offer> {
        find(&self.resources, uri)
    }

    /// The template with this URI template.
    pub fn template(&self, uri: &str) -> Option<&Offer> {
        find(&self.templates, uri)
    }

    /// The prompt with this name.
    pub fn prompt(&self, name: &str) -> Option<&Offer> {
        find(&self.prompts, name)
    }
}

fn find<'a>(offers: &'a [Offer], id: &str) -> Option<&'a Offer> {
    offers.binary_search_by(|offer| offer.id.as_str().cmp(id)).ok().and_then(|position| offers.get(position))
}

impl Offer {
    /// Digest for comparison with connections.
    pub fn digest(&self) -> String {
        offer_digest(&self.definition)
    }

    /// A text field of the definition.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.definition.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// Usable entries of a list, and the number of others. An identifier with invisible characters is unusable: a reader
/// would see another one than is sent.
fn offers(list: Vec<Value>, key: &str, suffix: &str) -> (Vec<Offer>, usize) {
    let total = list.len();
    let mut by_id = BTreeMap::new();
    for definition in list {
        let id = definition.get(key).and_then(Value::as_str);
        let Some(id) = id.filter(|id| !id.is_empty() && id.len() <= MAX_ID && one_line(id) == **id) else { continue };
        by_id.entry(id.to_owned()).or_insert(definition);
    }
    let odd = total - by_id.len();
    let mut taken = Taken::default();
    let named = by_id.into_iter().map(|(id, definition)| {
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
        // Clients read by file name, so no part of it may be redacted.
        let [name, clean] = [name, &id].map(|text| redact::text(Surface::Log, text));
        let file = unique(&file_name(&name, &clean), suffix, &mut taken);
        Offer { file, summary: summary(&definition), id, definition }
    });
    (named.collect(), odd)
}

/// Letters, digits, `.`, `_` and `-` of the name, else of the end of the identifier; `_` replaces anything else.
fn file_name(name: &str, id: &str) -> String {
    let last = id.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let chosen = if name.trim().is_empty() { last } else { name.trim() };
    let safe: String =
        chosen.chars().map(|c| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' }).collect();
    let safe = head(&safe, MAX_FILE);
    match safe.starts_with('.') || safe.is_empty() {
        true => format!("_{safe}"),
        false => safe.to_owned(),
    }
}

/// File names of a folder, in lower case.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    /// Next number to try for a name, so that many files of one name do not each start at the first.
    next: HashMap<String, usize>,
}

/// `notes.md`, then `notes~2.md`: deterministic, since names come in order of identifier.
fn unique(name: &str, suffix: &str, taken: &mut Taken) -> String {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if suffix.is_empty() && !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name, suffix.to_owned()),
    };
    let mut file = format!("{stem}{extension}");
    let number = taken.next.entry(file.to_lowercase()).or_insert(2);
    while !taken.names.insert(file.to_lowercase()) {
        file = format!("{stem}~{number}{extension}");
        *number += 1;
    }
    file
}

fn summary(definition: &Value) -> String {
    let text = |key: &str| definition.get(key).and_then(Value::as_str).map(one_line).filter(|text| !text.is_empty());
    let words = text("description").or_else(|| text("title")).unwrap_or_default();
    let cut = head(&words, MAX_SUMMARY);
    let mut summary = if cut.len() < words.len() { format!("{cut}…") } else { cut.to_owned() };
    let size = definition.get("size").and_then(Value::as_u64).map(|size| format!("{size} bytes"));
    let kind: Vec<String> = text("mimeType").into_iter().chain(size).collect();
    if !kind.is_empty() {
        summary = format!("{summary} ({})", kind.join(", ")).trim_start().to_owned();
    }
    summary
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_resources_of_one_name_take_time_by_their_number() {
        let named = |n: usize| json!({"uri": format!("x://{n:06}"), "name": "Notes.md"});
        let began = std::time::Instant::now();
        let (offers, odd) = offers((0..30_000).map(named).collect(), "uri", "");
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!((offers.len(), odd), (30_000, 0));
        let files: Vec<&str> = offers.iter().map(|offer| offer.file.as_str()).collect();
        assert_eq!((files[0], files[1], files[29_999]), ("Notes.md", "Notes~2.md", "Notes~30000.md"));
    }
}
