//! Configuration files of other MCP hosts.

use std::path::{Path, PathBuf};

use crate::config::Env;

/// A host whose configuration can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    ClaudeCode,
    ClaudeDesktop,
    Codex,
    Cursor,
    VsCode,
    Windsurf,
    /// A file of the usual `mcpServers` form from elsewhere.
    Unknown,
}

impl Host {
    /// Display name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Unknown => "MCP configuration",
        }
    }

    /// True if the host expands `${…}` in its values.
    pub(super) fn expands(self) -> bool {
        !matches!(self, Self::ClaudeDesktop | Self::Codex)
    }

    /// Guesses a file's host from its name and folder.
    fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().to_lowercase();
        match (folder.as_str(), name.as_str()) {
            (_, "claude_desktop_config.json") => Self::ClaudeDesktop,
            (_, ".mcp.json" | ".claude.json") => Self::ClaudeCode,
            (".cursor", _) => Self::Cursor,
            (".vscode" | "user", _) => Self::VsCode,
            (_, "mcp_config.json") => Self::Windsurf,
            (_, name) if name.ends_with(".toml") => Self::Codex,
            _ => Self::Unknown,
        }
    }
}

/// A possible source of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) path: PathBuf,
    /// Project of the file; `None` for a user's file.
    pub(super) project: Option<PathBuf>,
    /// True if the file is inside the project, where others can write it too. (Claude Code keeps servers of projects in
    /// a user's file.)
    pub(super) is_shared: bool,
}

impl Place {
    /// A file named on the command line.
    pub(super) fn named(path: &Path, home: Option<&Path>) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let host = Host::of(&path);
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
        Self { host, path, project, is_shared }
    }
}

/// Operating systems with different conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Os {
    Linux,
    Mac,
    Windows,
}

impl Os {
    /// The current one.
    pub(super) fn current() -> Self {
        match std::env::consts::OS {
            "macos" => Self::Mac,
            "windows" => Self::Windows,
            _ => Self::Linux,
        }
    }
}

/// The home folder.
pub(super) fn home(env: Env<'_>) -> Option<PathBuf> {
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HOME").or_else(|| set("USERPROFILE"))
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
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(home) = home(env) else { return places };
    // Settings folder of desktop programs.
    let settings = match os {
        Os::Linux => set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
        Os::Mac => home.join("Library").join("Application Support"),
        Os::Windows => set("APPDATA").unwrap_or_else(|| home.join("AppData").join("Roaming")),
    };
    match set("CLAUDE_CONFIG_DIR") {
        Some(folder) => add(Host::ClaudeCode, folder.join(".claude.json"), None),
        None => add(Host::ClaudeCode, home.join(".claude.json"), None),
    }
    add(Host::ClaudeDesktop, settings.join("Claude").join("claude_desktop_config.json"), None);
    add(Host::Cursor, home.join(".cursor").join("mcp.json"), None);
    for edition in ["Code", "Code - Insiders", "VSCodium"] {
        add(Host::VsCode, settings.join(edition).join("User").join("mcp.json"), None);
    }
    let codex = set("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
    add(Host::Codex, codex.join("config.toml"), None);
    add(Host::Windsurf, home.join(".codeium").join("windsurf").join("mcp_config.json"), None);
    places
}

/// `cwd` and its parents up to the root of its repository; `cwd` alone outside of one.
fn project_folders(cwd: &Path) -> Vec<&Path> {
    match cwd.ancestors().position(|folder| folder.join(".git").exists()) {
        Some(root) => cwd.ancestors().take(root + 1).collect(),
        None => vec![cwd],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(os: Os, variables: &[(&str, &str)]) -> Vec<String> {
        let env = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let places = all(os, &env, Path::new("/nowhere/project"));
        places.iter().map(|place| format!("{}: {}", place.host.name(), place.path.display())).collect()
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
            ]
        );
        let mac = shown(Os::Mac, &[("HOME", "/Users/me")]);
        let support = "/Users/me/Library/Application Support";
        assert_eq!(mac[5], format!("Claude Desktop: {support}/Claude/claude_desktop_config.json"));
        assert_eq!(mac[7], format!("VS Code: {support}/Code/User/mcp.json"));
        // The separator is that of the machine that runs the test.
        let windows = shown(Os::Windows, &[("USERPROFILE", "C:\\me"), ("APPDATA", "C:\\me\\Roaming")]);
        assert_eq!(windows[5].replace('\\', "/"), "Claude Desktop: C:/me/Roaming/Claude/claude_desktop_config.json");
        assert_eq!(windows[6].replace('\\', "/"), "Cursor: C:/me/.cursor/mcp.json");
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
            let place = Place::named(Path::new(path), Some(Path::new("/h")));
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
