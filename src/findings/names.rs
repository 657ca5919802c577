//! Names of parameters and tools.

use serde_json::Value;

use super::rules::{self, Rule, Severity};
use super::{fold, values};
use crate::redact::names_credential;

/// Parameters that ask for what the model was told, in letters and digits alone.
const CONVERSATION: &[&str] = &[
    "sidenote",
    "sidenotes",
    "hiddennote",
    "conversationhistory",
    "conversationlog",
    "conversationsofar",
    "conversationtranscript",
    "fullconversation",
    "entireconversation",
    "currentconversation",
    "chathistory",
    "chatlog",
    "chattranscript",
    "fullchat",
    "messagehistory",
    "previousmessages",
    "priormessages",
    "allmessages",
    "usermessages",
    "sessiontranscript",
    "dialoguehistory",
    "systemprompt",
    "systeminstructions",
    "systemmessage",
    "developerprompt",
    "developermessage",
    "agentinstructions",
    "initialprompt",
    "originalprompt",
    "fullprompt",
    "chainofthought",
    "reasoningtrace",
    "hiddenreasoning",
    "innermonologue",
    "toollist",
    "toolslist",
    "availabletools",
    "listoftools",
    "toolcallhistory",
    "previoustoolcalls",
    "alltoolresults",
    "environmentdetails",
    "summaryofenvironmentdetails",
    "contextwindow",
    "fullcontext",
    "agentmemory",
    "modelcontext",
];
/// Parameters that ask for the user's own secrets.
const SECRETS: &[&str] = &[
    "sshprivatekey",
    "allenvvars",
    "allenvironmentvariables",
    "dotenv",
    "seedphrase",
    "recoveryphrase",
    "mnemonic",
    "mnemonicphrase",
    "walletkey",
    "browsercookies",
    "userpassword",
    "usercredentials",
    "usertokens",
    "userapikeys",
    "masterpassword",
    "awscredentials",
    "gitcredentials",
];
/// Words of a description that give a name of [`CONVERSATION`] or [`SECRETS`] a use of its own: the tool makes or keeps it.
const OWN_USE: &[&str] = &[
    "new ",
    "deployed",
    "created",
    "container",
    "function",
    "service",
    "bot ",
    "assistant to create",
    "agent to create",
    "machine",
    "server",
    "deployment",
    "image",
    "job",
    "app ",
];
/// Verbs of tools that destroy, and of those that write.
const DESTROYS: &[&str] = &[
    "delete",
    "remove",
    "drop",
    "destroy",
    "purge",
    "wipe",
    "erase",
    "truncate",
    "kill",
    "terminate",
    "uninstall",
    "overwrite",
];
const WRITES: &[&str] = &[
    "send", "upload", "write", "create", "update", "insert", "post", "publish", "deploy", "execute", "transfer", "pay",
];

/// A finding about the name of a parameter with this schema.
pub(super) fn parameter(name: &str, schema: &Value) -> Option<(&'static Rule, Severity)> {
    let letters: String = fold::plain(name).chars().filter(char::is_ascii_alphanumeric).collect();
    let described = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let has_own_use = OWN_USE.iter().any(|word| described.contains(word));
    let severity = if has_own_use { Severity::Note } else { Severity::Warning };
    // A longer name with one of these in it says the same.
    let is = |names: &[&str]| names.iter().any(|name| letters == *name || (name.len() > 10 && letters.contains(name)));
    if values::is_secret_path(&name.to_ascii_lowercase()) {
        return Some((&rules::READS, Severity::Error));
    }
    if is(CONVERSATION) {
        return Some((&rules::CONVERSATION, severity));
    }
    if is(SECRETS) {
        return Some((&rules::SECRETS, severity));
    }
    names_credential(name).then_some((&rules::CREDENTIAL, Severity::Note))
}

/// A finding about the annotations of a tool.
pub(super) fn annotations(name: &str, definition: &Value) -> Option<(&'static Rule, Severity)> {
    let hint = |key: &str| definition.pointer(&format!("/annotations/{key}")).and_then(Value::as_bool);
    let is_harmless = hint("readOnlyHint") == Some(true) || hint("destructiveHint") == Some(false);
    let words = words(name);
    let is = |verbs: &[&str]| words.iter().any(|word| verbs.contains(&&**word));
    match hint("readOnlyHint") {
        Some(true) if is(DESTROYS) => Some((&rules::HINT, Severity::Warning)),
        Some(true) if is(WRITES) => Some((&rules::HINT, Severity::Note)),
        _ if is_harmless && is(DESTROYS) => Some((&rules::HINT, Severity::Note)),
        _ => None,
    }
}

/// Words of a name, in lower case: `deleteFile` and `delete_file` have the same.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
