//! `forgefs registry search`.

use clap::Args;
use serde_json::{Value, json};

use super::{Place, failed};
use crate::cli::style::{Cell, Role, Table};
use crate::cli::times::said;
use crate::cli::{Failure, Format, Global, Ui, shapes};
use base::limits;
use base::text::head;
use base::time::now_ms;
use catalog::people;
use catalog::registry::{Entry, Status};

/// Most bytes of a description.
const DESCRIPTION: usize = 100;

#[derive(Args)]
pub(in crate::cli) struct SearchArgs {
    /// A part of the name
    query: String,
    /// Most servers
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn search(global: &Global, args: &SearchArgs, ui: Ui) -> Result<u8, Failure> {
    limits::QUERY.check(args.query.len()).map_err(Failure::of_usage)?;
    let registry = args.place.open(global)?;
    let found = registry.search(&args.query, usize::from(args.limit)).await.map_err(failed)?;
    if let Some((why, age)) = &found.away {
        let (why, now) = (people::line(why), now_ms());
        let at = now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        ui.note(&format!("note: the registry is away ({why}); this is its answer of {}", said(at, now)));
    }
    if found.invalid > 0 {
        ui.note(&format!("note: {} entries are not valid, and left out", found.invalid));
    }
    if args.format.json {
        let servers: Vec<Value> = found.entries.iter().map(as_json).collect();
        let age = found.away.as_ref().map(|(_, age)| age.as_secs());
        let url = registry.url().as_str();
        let object = json!({
            "registry": url, "servers": servers, "more": found.more, "invalid": found.invalid, "kept_secs": age,
        });
        shapes::print(object, ui);
        return Ok(0);
    }
    let mut table = Table::new(["NAME", "VERSION", "KINDS", "DESCRIPTION"], &[], &[3]);
    found.entries.iter().for_each(|entry| table.push(row(entry)));
    ui.table(&table);
    match (found.entries.is_empty(), found.more) {
        (true, _) => ui.note(&format!("no server's name has {} in it", people::quoted(&args.query))),
        (false, true) => ui.note("there are more: --limit N, or a longer part of the name"),
        (false, false) => {}
    }
    Ok(0)
}

fn row(entry: &Entry) -> [Cell; 4] {
    let (role, status) = match &entry.status {
        Status::Active => (Role::Plain, String::new()),
        other => (Role::Waiting, format!("[{}] ", head(other.as_str(), 40))),
    };
    let cut = head(&entry.description, DESCRIPTION);
    let more = if cut.len() < entry.description.len() { "…" } else { "" };
    [
        Cell::plain(&entry.name),
        Cell::plain(&entry.version),
        Cell::plain(head(&entry.kinds().join(","), 40)),
        Cell::new(role, &format!("{status}{cut}{more}")),
    ]
}

fn as_json(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "version": entry.version,
        "status": entry.status.as_str(),
        "kinds": entry.kinds(),
        "description": entry.description,
        "repository": entry.repository,
    })
}
