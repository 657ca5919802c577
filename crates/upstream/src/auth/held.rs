//! A server's token that is kept in memory alone.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::hide;

/// Time before its end at which a token is renewed.
pub(super) const MARGIN: Duration = Duration::from_secs(30);
/// Lifetime of a token that says none.
const UNSAID: Duration = Duration::from_secs(300);

/// A token of a server.
pub(super) struct Held {
    pub(super) token: String,
    /// Time at which another is wanted; `None` for one that is good until it is refused.
    pub(super) until: Option<Instant>,
    /// Proof that it was given for: the caller's own token, or the login that vouched.
    pub(super) of: Option<Arc<str>>,
}

impl Held {
    /// The token, if its time is not over, it is not the one that was `refused`, and it was given for `of`.
    pub(super) fn good(held: &Option<Self>, of: Option<&str>, refused: Option<&str>) -> Option<String> {
        let held = held.as_ref().filter(|held| held.of.as_deref() == of && Some(held.token.as_str()) != refused)?;
        held.until.is_none_or(|until| until > Instant::now()).then(|| {
            hide(&held.token);
            held.token.clone()
        })
    }
}

/// Time at which a token with this lifetime is renewed.
pub(super) fn until(lasts: Option<Duration>) -> Instant {
    let now = Instant::now();
    let until = lasts.and_then(|lasts| now.checked_add(lasts.saturating_sub(MARGIN.min(lasts / 4))));
    until.unwrap_or(now + UNSAID)
}
