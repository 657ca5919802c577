//! `forgefs registry add`: an entry of the registry as words of `forgefs add`, which tries and writes it.

use clap::Args;
use url::Url;

use super::{Place, failed};
use crate::cli::servers::{self, How, Origin};
use crate::cli::{Failure, Global, Ui};
use base::address::Reach;
use base::text::head;
use catalog::people;
use catalog::registry::{Choice, Entry, Kind, LATEST, Start, Status, is_name};

/// Most bytes of a text of an entry.
const TEXT: usize = 300;

#[derive(Args)]
pub(in crate::cli) struct AddArgs {
    /// Name in the registry, such as io.github.acme/weather
    name: String,
    /// Version [default: the newest]
    #[arg(long, value_name = "VERSION", default_value = LATEST, hide_default_value = true)]
    version: String,
    /// Name in the configuration [default: what stands behind the slash]
    #[arg(long, value_name = "SERVER")]
    name_as: Option<String>,
    /// Kind, if it can be had as several
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    how: How,
    /// Arguments behind those of the entry
    #[arg(last = true)]
    args: Vec<String>,
}

pub(super) async fn add(global: &Global, args: AddArgs, ui: Ui) -> Result<u8, Failure> {
    if !is_name(&args.name) {
        let message = format!("{} is not a name of the registry", people::quoted(head(&args.name, TEXT)));
        return Err(
            Failure::usage(message).hint("`forgefs registry search` shows names, such as io.github.acme/weather")
        );
    }
    let registry = args.place.open(global)?;
    let entry = match registry.entry(&args.name, &args.version).await.map_err(failed)? {
        Some(entry) => entry,
        None if args.version == LATEST => {
            return Err(Failure::usage(format!("the registry has no server {}", args.name))
                .hint("`forgefs registry search` finds servers by a part of the name"));
        }
        None => {
            let version = people::quoted(head(&args.version, TEXT));
            return Err(Failure::usage(format!("the registry has no version {version} of {}", args.name)));
        }
    };
    active(&entry)?;
    let server = args.name_as.clone().unwrap_or_else(|| own_name(&entry.name));
    let choice = Choice {
        kind: args.kind,
        server: &server,
        args: &args.args,
        env: &args.how.env,
        headers: &args.how.header,
        registry: registry.url(),
    };
    let start =
        Start::of(&entry, &choice).map_err(|why| Failure::usage(format!("{} is not added: {why}", entry.name)))?;
    if let Some(url) = start.url.as_deref().and_then(|url| Url::parse(url).ok()) {
        let checked = Reach::of_server(registry.url(), false).check(&url).await;
        checked.map_err(|error| Failure::usage(format!("{} is not added: {error}", entry.name)))?;
    }
    tell(&entry, &server, &start, ui);
    // An entry may want any credential: it is given none that was not allowed by name.
    if !args.how.no_check && start.refers.is_empty() && !consent(&args, &start, ui)? {
        return Ok(1);
    }
    let comment = format!("{} {} of {}", entry.name, people::line(&entry.version), registry.url());
    let Start { command, url, sse, env, headers, refers, .. } = start;
    let mut how = args.how;
    (how.env, how.header) = (env, headers);
    let origin = Origin { comment: Some(comment), refers };
    servers::add(global, servers::AddArgs { name: server, url, command, cwd: None, sse, how, origin }, ui).await
}

/// Refuses a version that its registry does not stand by.
fn active(entry: &Entry) -> Result<(), Failure> {
    let Entry { name, version, status, status_message, .. } = entry;
    let version = people::line(version);
    let why = match status {
        Status::Active => return Ok(()),
        Status::Deprecated => "is deprecated by its publisher",
        Status::Deleted => "was deleted from the registry, as spam, malware or by its publisher",
        Status::Other(_) => "has a state that is not known here",
    };
    let message = status_message.as_deref().map(|message| format!(": {}", people::quoted(head(message, TEXT))));
    let failure = Failure::usage(format!("{name} {version} {why}{}; nothing was written", message.unwrap_or_default()));
    Err(failure.hint("--version names another version, `forgefs add` takes a command or a URL"))
}

/// Name in the configuration.
fn own_name(name: &str) -> String {
    let own = name.rsplit('/').next().unwrap_or(name);
    let kept: String = own.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    kept.trim_matches(['-', '_']).to_owned()
}

/// Says what would be started or reached. The words are the entry's.
fn tell(entry: &Entry, server: &str, start: &Start, ui: Ui) {
    let text = |text: &str| people::line(head(text, TEXT)).into_owned();
    ui.note(&format!("{} {}: {}", entry.name, text(&entry.version), text(&entry.description)));
    if let Some(repository) = &entry.repository {
        ui.note(&format!("  its source, by its own account: {}", text(repository)));
    }
    match &start.url {
        Some(url) => ui.note(&format!("  {server} is at {}", text(url))),
        None => {
            let is_plain = |word: &str| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-._=@/:+~,".contains(c))
            };
            let word = |word: &String| if is_plain(word) { word.clone() } else { people::quoted(word) };
            let words: Vec<String> = start.command.iter().map(word).collect();
            ui.note(&format!("  {server} is started by: {}", words.join(" ")));
        }
    }
    // Each of them may point an honest program somewhere else.
    start.env.iter().filter(|set| set.contains('=')).for_each(|set| ui.note(&format!("  it sets {}", text(set))));
    start.headers.iter().for_each(|header| ui.note(&format!("  it sends {}", text(header))));
    if !start.refers.is_empty() {
        ui.note(&format!("  it wants of your environment: {}", start.refers.join(", ")));
    }
    start.notes.iter().for_each(|note| ui.note(&format!("  {}", people::line(note))));
}

/// Asks before foreign code is started, or a foreign server reached; false if that is not wanted.
fn consent(args: &AddArgs, start: &Start, ui: Ui) -> Result<bool, Failure> {
    if args.how.yes {
        return Ok(true);
    }
    let what = if start.url.is_some() { "Reach it?" } else { "Download and start it, with your rights?" };
    if !ui.is_interactive() || args.how.format.json {
        return Err(Failure::usage("it is not started without consent, and no one can be asked here")
            .hint("--yes starts it, --no-check writes it without starting it"));
    }
    let is_wanted = ui.asks(what);
    if !is_wanted {
        ui.note("nothing was started, and nothing written");
    }
    Ok(is_wanted)
}
