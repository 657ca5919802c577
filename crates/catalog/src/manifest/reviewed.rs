//! Definitions as they were reviewed, or listed first, and the file of a server's offers in a stub tree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stubgen::ServerStubs;

use super::{Offer, Offers, wording};
use crate::findings::{Findings, Item, Severity};
use redact::secret;
use upstream::offer_bare;

/// A definition as it was reviewed: itself, or only its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reviewed {
    /// Digest of the definition.
    #[serde(rename = "whole")]
    pub(super) digest: String,
    /// Digest without its wording; counts where the definition is not known.
    bare: String,
    /// Canonical JSON, where there was room for it and it holds no configured secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<String>,
    /// Rules and places of its findings of at least a warning; count where the definition is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<(String, String)>,
}

impl Reviewed {
    /// A record of a definition.
    pub(super) fn of(item: &Item, definition: &Value) -> Self {
        let text = stubgen::canonical_json(definition);
        Self {
            digest: stubgen::digest(&text),
            bare: wording::bare_digest(definition),
            definition: (secret::redact(&text) == text).then_some(text),
            findings: marks(&Findings::of_definition(item, definition)),
        }
    }

    /// A definition in canonical JSON.
    pub(super) fn whole(definition: String) -> Self {
        let digest = stubgen::digest(&definition);
        Self { digest, bare: String::new(), definition: Some(definition), findings: Vec::new() }
    }

    /// Without a definition that is another one.
    pub(super) fn checked(mut self) -> Self {
        self.definition = self.definition.filter(|definition| stubgen::digest(definition) == self.digest);
        self
    }

    /// The definition, if it is known.
    pub(super) fn tree(&self) -> Option<Value> {
        serde_json::from_str(self.definition.as_deref()?).ok()
    }

    /// True if a definition differs from it in wording alone.
    pub(super) fn is_but_words(&self, now: &Value) -> bool {
        match self.tree() {
            Some(reviewed) => wording::is_same_but_words(&reviewed, now),
            None => self.bare == wording::bare_digest(now),
        }
    }

    /// The first finding of at least a warning that the reviewed definition has not: its rule.
    pub(super) fn first_added(&self, item: &Item, found: &Findings) -> Option<&'static str> {
        let known = match self.tree() {
            Some(reviewed) => marks(&Findings::of_definition(item, &reviewed)),
            None => self.findings.clone(),
        };
        let is_new = |rule: &str, pointer: &str| !known.iter().any(|(known, at)| known == rule && at == pointer);
        let mut warnings = found.from(Severity::Warning);
        warnings.find(|finding| is_new(finding.rule.id, &finding.place.pointer)).map(|finding| finding.rule.id)
    }
}

/// Rules and places of findings of at least a warning.
fn marks(found: &Findings) -> Vec<(String, String)> {
    found.from(Severity::Warning).map(|found| (found.rule.id.to_owned(), found.place.pointer.clone())).collect()
}

/// Digest of a definition.
pub(super) fn digest(definition: &Value) -> String {
    stubgen::digest(stubgen::canonical_json(definition))
}

/// Offers and instructions of a server, as they are reviewed.
pub(super) fn reviewable(server: &ServerStubs, offers: &Offers) -> impl Iterator<Item = (Item, Value)> {
    let instructions = server.instructions.clone().map(|text| (Item::Instructions, Value::String(text)));
    offers.items().map(|(item, offer)| (item, offer_bare(&offer.definition))).chain(instructions)
}

/// File of a server's prompts, resources and instructions, in its folder. No tool has a name with a dot.
pub const OFFERS: &str = "server.offers.json";

/// Text of the file [`OFFERS`] of a server, and the digest for the lock.
pub fn offers_file(server: &ServerStubs, offers: &Offers) -> (String, String) {
    let list = |offers: &[Offer]| offers.iter().map(|offer| offer_bare(&offer.definition)).collect::<Vec<Value>>();
    let file = json!({
        "instructions": server.instructions,
        "prompts": list(&offers.prompts),
        "resources": list(&offers.resources),
        "resourceTemplates": list(&offers.templates),
    });
    (stubgen::pretty_json(&file), digest(&file))
}

/// Offers and instructions in the file [`OFFERS`].
pub(crate) fn offers_of(file: &Value) -> BTreeMap<Item, &Value> {
    let list = |key: &str, id: &'static str, item: fn(String) -> Item| {
        let offers = file.get(key).and_then(Value::as_array).into_iter().flatten();
        offers.filter_map(move |offer| Some((item(offer.get(id)?.as_str()?.to_owned()), offer)))
    };
    let instructions = file.get("instructions").filter(|text| text.is_string());
    let (prompts, resources) = (list("prompts", "name", Item::Prompt), list("resources", "uri", Item::Resource));
    let offers = prompts.chain(resources).chain(list("resourceTemplates", "uriTemplate", Item::Template));
    offers.chain(instructions.map(|text| (Item::Instructions, text))).collect()
}
