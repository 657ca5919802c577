//! Sharing of a server between clients.

use std::sync::Arc;

use super::Transport;
use super::words::words;
use base::principal::{LOCAL, Principal};

/// Clients that share one instance of a server, fewest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Share {
    /// Each session has an instance of its own.
    Session,
    /// All sessions of one client.
    Client,
    /// All sessions of this machine's user. Each client with a token of its own has its own instance.
    #[default]
    Person,
    /// All sessions of all clients.
    All,
}

// Without a word it is `Person`, or `Session` for a server of [`SESSION_KEEPERS`].
words!(Share: "all" = All, "client" = Client, "session" = Session);

/// Packages, programs and images of servers that keep a session, such as an open browser, in their process.
const SESSION_KEEPERS: &[&str] = &[
    "@playwright/mcp",
    "playwright-mcp",
    "mcp-server-playwright",
    "mcp/playwright",
    "mcr.microsoft.com/playwright/mcp",
    "chrome-devtools-mcp",
    "@modelcontextprotocol/server-sequential-thinking",
    "mcp-server-sequential-thinking",
    "mcp/sequentialthinking",
];

/// Scope of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every client that it is shared with.
    All,
    /// The client with this name.
    Client(Arc<str>),
    /// The session with this identifier.
    Session(Arc<str>),
}

impl Share {
    /// Share of a server that is configured without one.
    pub(super) fn of(transport: &Transport) -> Self {
        match transport {
            Transport::Stdio { command, args, .. } if keeps_session(command, args) => Self::Session,
            _ => Self::default(),
        }
    }

    /// Scope of the instance that serves a principal.
    pub fn scope(self, principal: &Principal) -> Scope {
        match self {
            Self::All => Scope::All,
            Self::Person if &*principal.client == LOCAL => Scope::All,
            Self::Person | Self::Client => Scope::Client(Arc::clone(&principal.client)),
            Self::Session => Scope::Session(Arc::clone(&principal.session)),
        }
    }
}

/// True for the command line of a server that is known to keep a session.
pub fn keeps_session(command: &str, args: &[String]) -> bool {
    let program = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let program = program.strip_suffix(".cmd").or(program.strip_suffix(".exe")).unwrap_or(program);
    let words = std::iter::once(program).chain(args.iter().map(String::as_str));
    words.map(unversioned).any(|word| SESSION_KEEPERS.contains(&word))
}

/// A package or image without its version: `@scope/name@1.2`, `image:tag`.
fn unversioned(word: &str) -> &str {
    match word.char_indices().skip(1).find(|(_, c)| matches!(c, '@' | ':')) {
        Some((at, _)) => &word[..at],
        None => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_keep_a_session_are_known_by_their_package() {
        let cases = [
            ("npx -y @playwright/mcp@latest --headless", true),
            ("npx @playwright/mcp", true),
            ("/opt/bin/mcp-server-playwright", true),
            ("C:\\npm\\chrome-devtools-mcp.cmd --isolated", true),
            ("bunx chrome-devtools-mcp@0.9.0", true),
            ("npx -y @modelcontextprotocol/server-sequential-thinking", true),
            ("docker run -i --rm mcp/sequentialthinking:1.0", true),
            ("docker run -i mcr.microsoft.com/playwright/mcp", true),
            ("npx -y @modelcontextprotocol/server-filesystem @playwright", false),
            ("npx -y @other/chrome-devtools-mcp", false),
            ("uvx mcp-server-git", false),
        ];
        for (line, expected) in cases {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().expect("a program");
            assert_eq!(keeps_session(&command, &words.collect::<Vec<_>>()), expected, "{line}");
        }
    }

    #[test]
    fn the_scope_follows_the_client() {
        let local = Principal::local();
        let remote = Principal { client: "laptop".into(), ..Principal::local() };
        let client = |principal: &Principal| Scope::Client(Arc::clone(&principal.client));
        let session = |principal: &Principal| Scope::Session(Arc::clone(&principal.session));
        let cases = [
            (Share::All, Scope::All, Scope::All),
            (Share::Person, Scope::All, client(&remote)),
            (Share::Client, client(&local), client(&remote)),
            (Share::Session, session(&local), session(&remote)),
        ];
        for (share, of_local, of_remote) in cases {
            assert_eq!((share.scope(&local), share.scope(&remote)), (of_local, of_remote), "{share:?}");
        }
    }
}
