//! Finds the folders below which the paths of a server's tools lie: fixed by its arguments, told by a tool of its own or
//! by its instructions.

use stubgen::{ServerStubs, ToolStub, one_line};

use crate::people::words;
use base::text::head;
use config::Transport;

/// Most folders named.
const MAX_FOLDERS: usize = 3;
/// Most bytes of a folder, and of a sentence of the instructions.
const MAX_FOLDER: usize = 100;
const MAX_SENTENCE: usize = 160;
/// Most bytes of instructions in which it is looked for.
const MAX_INSTRUCTIONS: usize = 8 << 10;
/// Words of parameters that take a path.
const PATHS: [&str; 11] =
    ["path", "paths", "file", "files", "filename", "filepath", "folder", "directory", "dir", "workbook", "cwd"];
/// Words of flags that fix a folder.
const FLAGS: [&str; 9] = ["root", "roots", "repository", "repo", "folder", "workspace", "workbook", "vault", "allowed"];

/// Words after `paths:` in the head of a stub.
pub(super) fn of(stubs: &ServerStubs, server: Option<&config::Server>) -> Option<String> {
    let lister = stubs.tools.iter().find(|tool| lists_folders(tool));
    if let Some(lister) = lister {
        return Some(format!("below the folders of {}", lister.ident));
    }
    let args = match server.map(|server| &server.transport) {
        Some(Transport::Stdio { args, .. }) => args.as_slice(),
        _ => &[],
    };
    let folders: Vec<String> = folders(args).take(MAX_FOLDERS).collect();
    if !folders.is_empty() {
        return Some(format!("below {}", folders.join(", ")));
    }
    let said = head(stubs.instructions.as_deref().unwrap_or_default(), MAX_INSTRUCTIONS);
    let mut sentences = said.split(['\n', ';']).flat_map(|line| line.split(". ")).map(one_line);
    let sentence = sentences.find(|sentence| sentence.len() <= MAX_SENTENCE && tells_root(sentence))?;
    Some(format!("the server says {sentence:?}"))
}

/// True if a tool has a parameter that takes a path.
pub fn takes_paths(tool: &ToolStub) -> bool {
    tool.params().iter().any(|param| words(&param.wire).iter().any(|word| PATHS.contains(&word.as_str())))
}

/// True for tools such as `list_allowed_directories`.
fn lists_folders(tool: &ToolStub) -> bool {
    let words = words(&tool.name);
    let has = |some: &[&str]| words.iter().any(|word| some.contains(&word.as_str()));
    has(&["list", "get", "show"])
        && has(&["allowed", "permitted", "accessible"])
        && has(&["directories", "directory", "folders", "paths", "roots"])
        && !tool.params().iter().any(|param| param.required)
}

/// Folders among a server's arguments: values of flags that fix one, and positional paths. A file is the program itself.
fn folders(args: &[String]) -> impl Iterator<Item = String> {
    let before = std::iter::once("").chain(args.iter().map(String::as_str));
    let pairs = before.zip(args).filter_map(|(before, arg)| {
        if let Some((flag, value)) = arg.strip_prefix('-').and_then(|flag| flag.split_once('=')) {
            return fixes_folder(flag).then_some(value);
        }
        let is_value = before.starts_with('-') && !before.contains('=') && before != "-y" && before != "--yes";
        let counts = if is_value { fixes_folder(before) } else { !has_suffix(arg) };
        counts.then_some(arg.as_str())
    });
    let is_path = |arg: &&str| arg.starts_with(['/', '~']) || arg.starts_with("./") || arg.get(1..3) == Some(":\\");
    pairs.filter(is_path).filter(|arg| arg.len() <= MAX_FOLDER && !arg.contains("://")).map(one_line)
}

fn fixes_folder(flag: &str) -> bool {
    words(flag).iter().any(|word| FLAGS.contains(&word.as_str()))
}

fn has_suffix(path: &str) -> bool {
    path.rsplit(['/', '\\']).next().is_some_and(|name| name.trim_start_matches('.').contains('.'))
}

/// True for sentences such as `All paths are relative to /data`.
fn tells_root(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let has = |some: &[&str]| some.iter().any(|word| lower.contains(word));
    has(&[
        "relative to", "must be below", "must be under", "must be inside", "must be within", "limited to", "only below",
    ]) && has(&["path", "file", "folder", "director", "workbook", "repositor"])
}

#[cfg(test)]
mod tests {
    use super::{folders, takes_paths, tells_root};
    use crate::manifest::{ServerEntry, ServerState};
    use serde_json::json;
    use upstream::Listing;

    #[test]
    fn folders_are_told_from_programs_and_other_arguments() {
        for (args, expected) in [
            ("-y @modelcontextprotocol/server-filesystem /srv/a ~/b", "/srv/a ~/b"),
            ("/opt/server/index.js /srv/a", "/srv/a"),
            ("--directory /opt/server run notes --vault /srv/notes", "/srv/notes"),
            ("--repository=/srv/repo --token=/abc", "/srv/repo"),
            ("--config /etc/x --port 80 https://a.example/b", ""),
            ("run -v /host:/data image /data", "/data"),
            ("", ""),
        ] {
            let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
            assert_eq!(folders(&args).collect::<Vec<_>>().join(" "), expected, "{args:?}");
        }
    }

    #[test]
    fn heads_name_the_tool_that_lists_folders_before_what_the_server_says() {
        let tool = |name: &str, param: &str| json!({"name": name, "inputSchema": {"type": "object", "properties": {param: {"type": "string"}}}});
        let said = "Fast.\nAll file paths are relative to the workspace.";
        for (tools, expected) in [
            (
                vec![tool("read", "filePath"), tool("list_allowed_directories", "x")],
                Some("below the folders of list_allowed_directories"),
            ),
            (vec![tool("read", "filePath")], Some("the server says \"All file paths are relative to the workspace.\"")),
        ] {
            let listing = Listing { tools, instructions: Some(said.to_owned()), ..Listing::default() };
            let entry = ServerEntry::listed("s", "s", None, listing, ServerState::Offline);
            assert_eq!(entry.paths.as_deref(), expected);
            assert!(entry.stubs.tools.iter().any(takes_paths));
        }
        assert!(!tells_root("Use this server for files"));
    }
}
