//! Assigns tools to folders.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use crate::ident::{Words, words};

/// Most tools of a server that is not split by noun.
const FLAT_SERVER: usize = 15;
/// Smallest derived group; smaller ones go to [`GENERAL`].
const MIN_GROUP: usize = 3;
/// Most bytes of a name that are read.
const MAX_NAME: usize = 1000;
/// Folder of tools without a group of their own.
const GENERAL: &str = "general";

/// Category label of each tool, in the order of `names`; all `None` if there would be only one folder.
pub(crate) fn assign(names: &[&str], configured: &BTreeMap<String, Vec<String>>) -> Vec<Option<String>> {
    let labels = if configured.is_empty() {
        by_prefix(names).or_else(|| by_noun(names)).unwrap_or_default()
    } else {
        by_config(names, configured)
    };
    let split = labels.iter().any(|label| *label != labels[0]);
    if split { labels.into_iter().map(Some).collect() } else { vec![None; names.len()] }
}

fn by_config(names: &[&str], configured: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut of_tool: HashMap<&str, &str> = HashMap::new();
    for (category, tools) in configured {
        for tool in tools {
            of_tool.entry(tool).or_insert(category);
        }
    }
    names.iter().map(|name| (*of_tool.get(name).unwrap_or(&GENERAL)).to_owned()).collect()
}

/// The part before `.`, `/`, `:` or `__`, when any tool has one.
fn by_prefix(names: &[&str]) -> Option<Vec<String>> {
    let prefixes: Vec<Option<&str>> = names.iter().map(|name| prefix(name)).collect();
    prefixes
        .iter()
        .any(Option::is_some)
        .then(|| prefixes.into_iter().map(|prefix| prefix.unwrap_or(GENERAL).to_owned()).collect())
}

fn prefix(name: &str) -> Option<&str> {
    let end = [name.find(['.', '/', ':']), name.find("__")].into_iter().flatten().min()?;
    let rest = name[end..].trim_start_matches(['.', '/', ':', '_']);
    (end > 0 && !rest.is_empty()).then_some(&name[..end])
}

/// The noun after the leading verb, in large servers.
fn by_noun(names: &[&str]) -> Option<Vec<String>> {
    if names.len() <= FLAT_SERVER {
        return None;
    }
    let nouns: Vec<Vec<String>> = names.iter().map(|name| noun(name)).collect();
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, noun) in nouns.iter().enumerate() {
        if let Some(first) = noun.first() {
            groups.entry(singular(first)).or_default().push(at);
        }
    }
    let mut labels = vec![GENERAL.to_owned(); names.len()];
    for (stem, members) in groups.into_iter().filter(|(_, members)| members.len() >= MIN_GROUP) {
        let label = label(&stem, &members, &nouns);
        for at in members {
            labels[at].clone_from(&label);
        }
    }
    Some(labels)
}

/// `pull` becomes `pull_requests` when every member continues with `request`; plural if any member has it.
fn label(stem: &str, members: &[usize], nouns: &[Vec<String>]) -> String {
    let mut words = vec![stem.to_owned()];
    while words.len() < 3 {
        let mut next = members.iter().map(|&at| nouns[at].get(words.len()).map(|word| singular(word)));
        let Some(Some(first)) = next.next() else { break };
        if !next.all(|word| word.as_deref() == Some(first.as_str())) {
            break;
        }
        words.push(first);
    }
    let last = words.len() - 1;
    let plural = members.iter().filter_map(|&at| nouns[at].get(last)).find(|word| **word != words[last]);
    if let Some(plural) = plural {
        words[last].clone_from(plural);
    }
    words.join("_")
}

/// Words of a name after its verbs: `create_or_update_file` is about `file`.
fn noun(name: &str) -> Vec<String> {
    let words = words_of(name);
    let mut start = 0;
    while start < words.len() && is_verb(&words[start]) {
        start += 1;
        if words.get(start).is_some_and(|word| matches!(word.as_str(), "or" | "and")) {
            start += 1;
        } else {
            break;
        }
    }
    words[start.min(words.len())..].to_vec()
}

/// Lower-case words of a snake_case, kebab-case or camelCase name.
fn words_of(name: &str) -> Vec<String> {
    // Only the beginning of a longer name is read.
    let name = crate::text::head(name, MAX_NAME);
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            words.push(String::new());
            lower_before = false;
            continue;
        }
        if c.is_ascii_uppercase() && lower_before {
            words.push(String::new());
        }
        lower_before = !c.is_ascii_uppercase();
        if let Some(last) = words.last_mut() {
            last.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The singular of a regular English plural.
pub(crate) fn singular(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return format!("{stem}y");
    }
    for suffix in ["sses", "xes", "ches", "shes"] {
        if word.ends_with(suffix) {
            return word[..word.len() - 2].to_owned();
        }
    }
    let keeps = ["ss", "us", "is", "news", "series", "aws", "dns", "sns", "sqs", "ecs", "eks", "rds"];
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 1 && !keeps.iter().any(|end| word.ends_with(end)) => stem.to_owned(),
        _ => word.to_owned(),
    }
}

fn is_verb(word: &str) -> bool {
    VERBS.contains(word)
}

/// Verbs at the start of tool names.
static VERBS: Words = LazyLock::new(|| {
    words(
        "accept activate add analyze answer append apply approve archive ask assign attach authenticate batch block build \
    bulk calculate call cancel capture change check clean clear click clone close commit compare complete compute \
    configure confirm connect convert copy count create deactivate decline decode delete deploy describe destroy \
    detach detect diff disable disconnect discover dismiss dispatch download drop duplicate edit emit enable encode \
    end estimate evaluate execute expand export extract fetch filter find finish fix flush fork format generate get \
    give handle import index init initialize inspect install invite invoke join kill launch leave link list load \
    lock login logout lookup make manage mark merge modify monitor mount move mute navigate notify open parse patch \
    pause perform pin ping play poll post preview process promote provision publish pull purge push put query read \
    rebuild receive recommend record redirect refresh register reject release reload remove rename render reopen \
    reorder replace reply report request reset resize resolve restart restore resume retrieve retry return revert \
    review revoke rollback rotate run save scan schedule search select send set share show sign skip sort split \
    start stop stream submit subscribe suggest summarize suspend switch sync take test toggle track transfer \
    transform transition translate trigger unarchive unassign unblock undo uninstall unlink unlock unpin unregister \
    unshare unsubscribe update upgrade upload upsert use validate verify view wait walk watch write",
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(names: &[&str]) -> Vec<Option<String>> {
        assign(names, &BTreeMap::new())
    }

    #[test]
    fn a_prefix_names_the_folder() {
        let labels = derived(&["repo.create", "repo.list", "user/get", "ping"]);
        let labels: Vec<_> = labels.iter().flatten().map(String::as_str).collect();
        assert_eq!(labels, ["repo", "repo", "user", "general"]);
    }

    #[test]
    fn one_folder_is_no_folder() {
        assert_eq!(derived(&["a.x", "a.y"]), [None, None]);
        assert_eq!(derived(&["create_issue", "list_issues"]), [None, None]);
        assert_eq!(derived(&[]), Vec::<Option<String>>::new());
    }

    #[test]
    fn nouns_of_a_large_server_become_folders() {
        let names = [
            "create_issue", "list_issues", "get_issue", "create_pull_request", "merge_pull_request",
            "list_pull_requests", "get_me", "fork_repository", "search_repositories", "create_repository",
            "create_or_update_file", "push_files", "get_file_contents", "listBranches", "create_branch",
            "delete_branch",
        ];
        let labels = derived(&names);
        let mut folders: Vec<_> = labels.iter().flatten().map(String::as_str).collect();
        folders.dedup();
        assert_eq!(folders, ["issues", "pull_requests", "general", "repositories", "files", "branches"]);
    }
}
