//! Configuration files of other MCP hosts.

use std::path::{Path, PathBuf};

use crate::cli::clients::{Base, CLIENTS, Os, project_folders};
use config::Env;
use config::entries::{Host, Place};

/// Guesses a file's host from its name and folder.
fn host_of(path: &Path) -> Host {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().to_lowercase();
    match (folder.as_str(), name.as_str()) {
        (_, "claude_desktop_config.json") => Host::ClaudeDesktop,
        (_, ".mcp.json" | ".claude.json") => Host::ClaudeCode,
        (".cursor", _) => Host::Cursor,
        (".vscode" | "user", _) => Host::VsCode,
        (_, "mcp_config.json") => Host::Windsurf,
        ("zed" | ".zed", "settings.json") => Host::Zed,
        (".gemini", "settings.json") => Host::Gemini,
        (_, "opencode.json" | "opencode.jsonc") => Host::OpenCode,
        (_, name) if name.ends_with(".toml") => Host::Codex,
        _ => Host::Unknown,
    }
}

/// A file named on the command line.
pub(super) fn named(path: &Path, home: Option<&Path>) -> Place {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let host = host_of(&path);
    let folder = path.parent();
    let is_users = path.file_name().is_some_and(|name| name == ".claude.json");
    let project = match host {
        Host::ClaudeCode if !is_users => folder,
        Host::Cursor => folder.and_then(Path::parent),
        Host::VsCode if folder.is_some_and(|folder| folder.ends_with(".vscode")) => folder.and_then(Path::parent),
        _ => None,
    };
    // Cursor keeps the user's file in a folder of the same name.
    let project = project.filter(|project| home != Some(*project)).map(Path::to_owned);
    let is_shared = project.is_some();
    Place { host, path, project, is_shared }
}

/// All places to search, those of the project around `cwd` first.
pub(super) fn all(os: Os, env: Env<'_>, cwd: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    let mut add = |host, path: PathBuf, project: Option<&Path>| {
        let place = Place { host, path, project: project.map(Path::to_owned), is_shared: project.is_some() };
        if !places.iter().any(|other: &Place| other.path == place.path) {
            places.push(place);
        }
    };
    for folder in project_folders(cwd) {
        add(Host::ClaudeCode, folder.join(".mcp.json"), Some(folder));
        add(Host::Cursor, folder.join(".cursor").join("mcp.json"), Some(folder));
        add(Host::VsCode, folder.join(".vscode").join("mcp.json"), Some(folder));
        add(Host::Codex, folder.join(".codex").join("config.toml"), Some(folder));
    }
    for client in CLIENTS {
        for file in client.files.iter().filter(|file| file.base != Base::Project) {
            for base in file.base.folders(os, env, cwd) {
                add(client.host, base.join(file.path), None);
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::clients::name_of;

    fn shown(os: Os, variables: &[(&str, &str)]) -> Vec<String> {
        let env = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let places = all(os, &env, Path::new("/nowhere/project"));
        places.iter().map(|place| format!("{}: {}", name_of(place.host), place.path.display())).collect()
    }

    #[test]
    fn every_host_is_looked_for_where_it_keeps_its_servers() {
        let linux = shown(Os::Linux, &[("HOME", "/home/me")]);
        assert_eq!(
            linux[..4],
            [
                "Claude Code: /nowhere/project/.mcp.json",
                "Cursor: /nowhere/project/.cursor/mcp.json",
                "VS Code: /nowhere/project/.vscode/mcp.json",
                "Codex: /nowhere/project/.codex/config.toml",
            ]
        );
        assert_eq!(
            linux[4..],
            [
                "Claude Code: /home/me/.claude.json",
                "Claude Desktop: /home/me/.config/Claude/claude_desktop_config.json",
                "Cursor: /home/me/.cursor/mcp.json",
                "VS Code: /home/me/.config/Code/User/mcp.json",
                "VS Code: /home/me/.config/Code - Insiders/User/mcp.json",
                "VS Code: /home/me/.config/VSCodium/User/mcp.json",
                "Codex: /home/me/.codex/config.toml",
                "Windsurf: /home/me/.codeium/windsurf/mcp_config.json",
                "Zed: /home/me/.config/zed/settings.json",
                "Gemini CLI: /home/me/.gemini/settings.json",
                "opencode: /home/me/.config/opencode/opencode.json",
                "opencode: /home/me/.config/opencode/opencode.jsonc",
            ]
        );
        let mac = shown(Os::Mac, &[("HOME", "/Users/me")]);
        let support = "/Users/me/Library/Application Support";
        assert_eq!(mac[5], format!("Claude Desktop: {support}/Claude/claude_desktop_config.json"));
        assert_eq!(mac[7], format!("VS Code: {support}/Code/User/mcp.json"));
    }

    #[test]
    fn variables_of_the_hosts_move_their_files() {
        let moved = [("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c"), ("CODEX_HOME", "/x"), ("XDG_CONFIG_HOME", "/g")];
        let places = shown(Os::Linux, &moved);
        for expected in ["/c/.claude.json", "/x/config.toml", "/g/Claude/claude_desktop_config.json"] {
            assert!(places.iter().any(|place| place.ends_with(&format!(": {expected}"))), "{expected}: {places:?}");
        }
        assert!(shown(Os::Linux, &[]).len() == 4, "without a home only the project is looked at");
    }

    #[test]
    fn a_named_file_tells_whose_it_is() {
        let of = |path: &str| {
            let place = named(Path::new(path), Some(Path::new("/h")));
            (place.host, place.project)
        };
        let project = || Some(PathBuf::from("/p"));
        assert_eq!(of("/p/.mcp.json"), (Host::ClaudeCode, project()));
        assert_eq!(of("/p/.vscode/mcp.json"), (Host::VsCode, project()));
        assert_eq!(of("/p/.cursor/mcp.json"), (Host::Cursor, project()));
        assert_eq!(of("/h/.cursor/mcp.json"), (Host::Cursor, None));
        assert_eq!(of("/h/.claude.json"), (Host::ClaudeCode, None));
        assert_eq!(of("/h/.codex/config.toml"), (Host::Codex, None));
        assert_eq!(of("/h/servers.json"), (Host::Unknown, None));
    }
}
