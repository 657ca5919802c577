//! Finds widening changes of profiles, and of who has which.

use std::collections::BTreeSet;

use super::Widened;
use super::server::{has_more, is_wider};
use crate::{Client, Config, DEFAULT_PROFILE, Expose, Flow, Profile};
use base::principal::LOCAL;

/// Compares the profiles of a configuration in force with those of its successor. Every key of a profile narrows, so
/// that a client that gets its first one gains nothing.
pub(super) fn compare(now: &Config, next: &Config, widened: &mut Widened) {
    for (name, profile) in &next.profiles {
        if let Some(before) = now.profiles.get(name) {
            content(&format!("profiles.{name}"), before, profile, widened);
        }
    }
    // Clients of access tokens have it where their row names none.
    let is_gone = now.profiles.contains_key(DEFAULT_PROFILE) && !next.profiles.contains_key(DEFAULT_PROFILE);
    widened.add(format!("profiles.{DEFAULT_PROFILE}"), "removed", is_gone && next.http.oauth.is_some());
    let names: BTreeSet<&str> = now.clients.keys().map(String::as_str).chain([LOCAL]).collect();
    for name in names.into_iter().filter(|name| *name == LOCAL || next.clients.contains_key(*name)) {
        let key = format!("clients.{name}");
        let (before, after) = (now.profile_of(name, None), next.profile_of(name, None));
        widened.add(format!("{key}.profile"), "another", before.is_some() && before != after);
        let Some(Client { token: _, claims: _, profile: _, budgets, expose }) = now.clients.get(name) else { continue };
        match next.clients.get(name) {
            Some(client) => {
                widened.budgets(&format!("{key}.budgets"), budgets, &client.budgets);
                exposed(
                    &format!("{key}.expose"),
                    expose.unwrap_or_default(),
                    client.expose.unwrap_or_default(),
                    widened,
                );
            }
            None => widened.add(key, "without its bounds", budgets != &crate::Budgets::default()),
        }
    }
}

fn content(key: &str, now: &Profile, next: &Profile, widened: &mut Widened) {
    #[rustfmt::skip]
    let Profile {
        servers, allow, deny, scripts, approval, flows, budgets, expose, direct, auto_tokens, allow_unmatched,
    } = now;
    let is_more = match (servers, &next.servers) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(now), Some(next)) => !next.is_subset(now),
    };
    let is_kept = |flow: &Flow| {
        let is_its = |next: &&Flow| (&next.from, &next.to) == (&flow.from, &flow.to);
        next.flows.iter().filter(is_its).any(|next| next.action >= flow.action)
    };
    let rows = [
        ("servers", "widened", is_more),
        ("allow", "widened", is_wider(allow.as_ref(), next.allow.as_ref())),
        ("deny", "shrunk", has_more(deny, &next.deny)),
        ("scripts", "widened", is_wider(scripts.as_ref(), next.scripts.as_ref())),
        ("approval", "weaker", next.approval < *approval),
        ("flows", "freed", !flows.iter().all(is_kept)),
        ("direct", "widened", has_more(&next.direct, direct)),
        ("auto_tokens", "raised", next.auto_tokens > *auto_tokens),
        ("allow_unmatched", "turned on", next.allow_unmatched && !allow_unmatched),
    ];
    widened.rows(key, &rows);
    widened.budgets(&format!("{key}.budgets"), budgets, &next.budgets);
    exposed(&format!("{key}.expose"), *expose, next.expose, widened);
}

/// Calls outside of scripts are checked by other means: only back to the four tools is narrower.
fn exposed(key: &str, now: Expose, next: Expose, widened: &mut Widened) {
    widened.add(key, "changed", next != now && next != Expose::Code);
}
