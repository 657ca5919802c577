//! Principal of a request.

use std::sync::Arc;

use crate::random;

/// Client of this machine's user: on stdio, on the command line, and on HTTP without tokens.
pub const LOCAL: &str = "local";

/// Principal of a request: policy, budgets, audit, metrics and state take it from here. A session belongs to a client,
/// a client has a profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// Client authenticated by the gateway; `local` on stdio and for the command line. Its own name is in its session.
    pub client: Arc<str>,
    /// Profile that its credentials give it; that of its configuration comes first.
    pub profile: Option<Arc<str>>,
    /// Session of that client.
    pub session: Arc<str>,
    /// Name on record of a person of the console, or of the gateway itself, who acts as this machine's user.
    pub person: Option<Arc<str>>,
}

impl Principal {
    /// Begin of the names on record of people of the console.
    pub const CONSOLE: &str = "console/";
    /// Name on record of the gateway itself where it calls tools unasked. No client has it.
    pub const PROBE: &str = "forgefs/probe";

    /// A new session of the client `local`.
    pub fn local() -> Self {
        Self::of(LOCAL)
    }

    /// Name on record: of the person or the client; `None` for [`LOCAL`].
    pub fn named(&self) -> Option<&str> {
        self.person.as_deref().or_else(|| Some(&*self.client).filter(|client| *client != LOCAL))
    }

    /// A new session of a person of the console. No client has such a name.
    pub fn of_console(person: &str) -> Self {
        Self { person: Some(format!("{}{person}", Self::CONSOLE).into()), ..Self::local() }
    }

    /// Party that takes turns with others: the client, or the session of this machine's user.
    pub fn party(&self) -> Arc<str> {
        self.named().map_or_else(|| Arc::clone(&self.session), Into::into)
    }

    /// A new session of the gateway itself.
    pub fn of_probe() -> Self {
        Self { person: Some(Self::PROBE.into()), ..Self::local() }
    }

    /// A new session of a client.
    pub fn of(client: &str) -> Self {
        Self { client: client.into(), profile: None, session: random::id().into(), person: None }
    }
}
