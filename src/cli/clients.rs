//! MCP clients: their configuration files, and the form of a server in them.

pub(super) mod parse;

use std::path::{Path, PathBuf};

use config::Env;
use config::entries::Host;

/// A client whose configuration ForgeFS can edit.
#[derive(Debug)]
pub(super) struct Client {
    /// Name on the command line.
    pub(super) id: &'static str,
    /// Display name.
    pub(super) name: &'static str,
    pub(super) host: Host,
    /// Possible files, the first choice first.
    pub(super) files: &'static [File],
    /// Keys that lead to the table of servers.
    pub(super) table: &'static [&'static str],
    /// Form of one server.
    pub(super) form: Form,
    /// Its documentation of all this.
    pub(super) docs: &'static str,
}

/// A possible file of a client.
#[derive(Debug)]
pub(super) struct File {
    pub(super) base: Base,
    /// Path below the base.
    pub(super) path: &'static str,
    /// Path below the base of a folder that exists where the client is installed.
    marker: &'static str,
}

/// Form of a server in a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON: `"command": "x", "args": […]`.
    Plain,
    /// The same after `"type": "stdio"`.
    Typed,
    /// JSON: `"type": "local", "command": ["x", …]`.
    Local,
    /// TOML: `command = "x"`, `args = […]`.
    Toml,
}

/// Folder from which a file's path starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The folder of the project, or one above it in the same repository. The file is used if it exists.
    Project,
    Home,
    /// Settings of desktop programs.
    Settings,
    /// `$XDG_CONFIG_HOME`, else `~/.config`, on every system.
    Xdg,
    /// Zed's own choice: `~/.config` on macOS, whatever XDG says.
    Zed,
    /// `$CLAUDE_CONFIG_DIR`, else the home folder.
    Claude,
    /// `$CODEX_HOME`, else `~/.codex`.
    Codex,
}

const fn file(base: Base, path: &'static str, marker: &'static str) -> File {
    File { base, path, marker }
}

/// Every client, each as in its documentation.
pub(super) const CLIENTS: &[Client] = &[
    Client {
        id: "claude-code",
        name: "Claude Code",
        host: Host::ClaudeCode,
        files: &[file(Base::Claude, ".claude.json", ".claude")],
        table: &["mcpServers"],
        form: Form::Typed,
        docs: "https://code.claude.com/docs/en/mcp",
    },
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        host: Host::ClaudeDesktop,
        files: &[file(Base::Settings, "Claude/claude_desktop_config.json", "Claude")],
        table: &["mcpServers"],
        form: Form::Plain,
        docs: "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
    },
    Client {
        id: "cursor",
        name: "Cursor",
        host: Host::Cursor,
        files: &[file(Base::Project, ".cursor/mcp.json", ".cursor"), file(Base::Home, ".cursor/mcp.json", ".cursor")],
        table: &["mcpServers"],
        form: Form::Plain,
        docs: "https://cursor.com/docs/context/mcp",
    },
    Client {
        id: "vscode",
        name: "VS Code",
        host: Host::VsCode,
        files: &[
            file(Base::Settings, "Code/User/mcp.json", "Code/User"),
            file(Base::Settings, "Code - Insiders/User/mcp.json", "Code - Insiders/User"),
            file(Base::Settings, "VSCodium/User/mcp.json", "VSCodium/User"),
        ],
        table: &["servers"],
        form: Form::Typed,
        docs: "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
    },
    Client {
        id: "codex",
        name: "Codex",
        host: Host::Codex,
        files: &[file(Base::Codex, "config.toml", "")],
        table: &["mcp_servers"],
        form: Form::Toml,
        docs: "https://developers.openai.com/codex/mcp",
    },
    Client {
        id: "windsurf",
        name: "Windsurf",
        host: Host::Windsurf,
        files: &[file(Base::Home, ".codeium/windsurf/mcp_config.json", ".codeium/windsurf")],
        table: &["mcpServers"],
        form: Form::Plain,
        docs: "https://docs.windsurf.com/windsurf/cascade/mcp",
    },
    Client {
        id: "zed",
        name: "Zed",
        host: Host::Zed,
        files: &[file(Base::Zed, "settings.json", "")],
        table: &["context_servers"],
        form: Form::Plain,
        docs: "https://zed.dev/docs/ai/mcp",
    },
    Client {
        id: "gemini",
        name: "Gemini CLI",
        host: Host::Gemini,
        files: &[file(Base::Home, ".gemini/settings.json", ".gemini")],
        table: &["mcpServers"],
        form: Form::Plain,
        docs: "https://geminicli.com/docs/tools/mcp-server",
    },
    Client {
        id: "opencode",
        name: "opencode",
        host: Host::OpenCode,
        files: &[
            file(Base::Xdg, "opencode/opencode.json", "opencode"),
            file(Base::Xdg, "opencode/opencode.jsonc", "opencode"),
        ],
        table: &["mcp"],
        form: Form::Local,
        docs: "https://opencode.ai/docs/mcp-servers",
    },
];

/// A client's file on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) path: PathBuf,
    /// True if the file exists, or the client's folder does.
    pub(super) is_found: bool,
    /// Most bytes of the file.
    pub(super) max: u64,
}

impl Client {
    /// The file to edit: the first that exists, else the first whose client is installed, else the first of all. `None`
    /// without a home folder.
    pub(super) fn locate(&self, os: Os, env: Env<'_>, cwd: &Path) -> Option<Located> {
        let mut possible = Vec::new();
        for file in self.files {
            for base in file.base.folders(os, env, cwd) {
                let (path, marker) = (base.join(file.path), base.join(file.marker));
                // A link that leads nowhere is there too: it is reported, not replaced.
                if path.symlink_metadata().is_ok() {
                    return Some(Located { path, is_found: true, max: file.base.max() });
                }
                if file.base != Base::Project {
                    possible.push(Located { path, is_found: marker.is_dir(), max: file.base.max() });
                }
            }
        }
        let installed = possible.iter().position(|located| located.is_found).unwrap_or_default();
        (installed < possible.len()).then(|| possible.swap_remove(installed))
    }
}

impl Base {
    /// Most bytes of a file: one of a project may come from anywhere, and Claude Code keeps its history in the user's.
    fn max(self) -> u64 {
        if self == Self::Project { 1 << 20 } else { 32 << 20 }
    }

    /// The folder; several for a project, none where it is unknown.
    pub(super) fn folders(self, os: Os, env: Env<'_>, cwd: &Path) -> Vec<PathBuf> {
        let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let at_home = |path: &str| home(env).map(|home| home.join(path));
        let folder = match self {
            Self::Project => return project_folders(cwd).into_iter().map(Path::to_owned).collect(),
            Self::Home => home(env),
            Self::Settings => match os {
                Os::Linux => set("XDG_CONFIG_HOME").or_else(|| at_home(".config")),
                Os::Mac => at_home("Library").map(|library| library.join("Application Support")),
            },
            Self::Xdg => set("XDG_CONFIG_HOME").or_else(|| at_home(".config")),
            Self::Zed => match os {
                Os::Linux => Self::Xdg.folders(os, env, cwd).pop().map(|config| config.join("zed")),
                Os::Mac => at_home(".config").map(|config| config.join("zed")),
            },
            Self::Claude => set("CLAUDE_CONFIG_DIR").or_else(|| home(env)),
            Self::Codex => set("CODEX_HOME").or_else(|| at_home(".codex")),
        };
        folder.into_iter().collect()
    }
}

/// Display name of a host.
pub(super) fn name_of(host: Host) -> &'static str {
    CLIENTS.iter().find(|client| client.host == host).map_or("MCP configuration", |client| client.name)
}

/// Operating systems with different conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Os {
    Linux,
    Mac,
}

impl Os {
    /// The current one.
    pub(super) fn current() -> Self {
        if cfg!(target_os = "macos") { Self::Mac } else { Self::Linux }
    }
}

/// The home folder.
pub(super) fn home(env: Env<'_>) -> Option<PathBuf> {
    env("HOME").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `cwd` and its parents up to the root of its repository; `cwd` alone outside of one.
pub(super) fn project_folders(cwd: &Path) -> Vec<&Path> {
    match cwd.ancestors().position(|folder| folder.join(".git").exists()) {
        Some(root) => cwd.ancestors().take(root + 1).collect(),
        None => vec![cwd],
    }
}

/// A path with `~` for the home folder.
pub(super) fn show(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    }
}
