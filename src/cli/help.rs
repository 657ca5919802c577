//! Help of the command line: its commands in groups, and an example for each.

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, CommandFactory as _};

use super::{Cli, Ui, about};

#[derive(Args)]
pub(super) struct HelpArgs {
    /// Command, such as `runs list`
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// Heads of the groups, with their commands in the order of a first hour.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Use", &["demo", "serve", "run", "call", "ls", "cat", "search"]),
    ("Servers", &["init", "add", "registry", "list", "enable", "disable", "remove", "auth", "connect"]),
    ("Scripts", &["check", "scripts", "test", "replay", "journal"]),
    ("Review", &["console", "runs", "approvals", "audit", "policy", "stubs"]),
    ("Teams", &["clients", "secrets"]),
    ("Operate", &["doctor", "daemon", "reload", "completions", "help"]),
];

/// Words of other tools, and the command lines for them.
const FOREIGN: &[(&[&str], &str)] = &[
    (&["version"], "--version"),
    (&["status", "health", "config", "validate"], "doctor"),
    (&["install", "setup"], "connect"),
    (&["import", "migrate"], "init --import"),
    (&["start", "server", "up", "mcp", "stdio", "http"], "serve"),
    (&["stop", "down"], "daemon stop"),
    (&["restart"], "reload"),
    (&["logs", "log", "history"], "audit list"),
    (&["tools", "get", "inspect", "show"], "ls"),
    (&["servers", "ps"], "list"),
    (&["exec", "execute", "eval"], "run"),
    (&["login"], "auth login"),
    (&["ui", "web", "dashboard"], "console"),
    (&["add-json", "add-server"], "add"),
];

/// Below the commands.
const FOOT: &str = include_str!("help_foot.txt");
/// Arguments of an example for each command, one a line.
const EXAMPLES: &str = include_str!("help_examples.txt");

/// The command line, with its help.
pub(super) fn command() -> Command {
    let command = Cli::command().long_version(about::long_version()).after_help(FOOT);
    let groups = groups(&command);
    command.mut_subcommands(|sub| exemplified(sub, "")).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options of every command:\n{{options}}{{after-help}}"
    ))
}

/// The error with a command in place of a first word that another tool has for it: clap suggests by letters alone.
pub(super) fn translated<S: PartialEq<str>>(mut error: clap::Error, args: &[S]) -> clap::Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) if args.get(1).is_some_and(|first| first == typed.as_str()) => typed.as_str(),
        _ => return error,
    };
    if let Some((_, here)) = FOREIGN.iter().find(|(words, _)| words.contains(&typed)) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = format!("`forgefs {here}` is the command for it");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// A command of the one at `above`, with its examples, those of its own commands among them, behind what it says itself.
fn exemplified(command: Command, above: &str) -> Command {
    let path = format!("{above} {}", command.get_name()).trim_start().to_owned();
    let command = command.mut_subcommands(|sub| exemplified(sub, &path));
    let said = command.get_after_help().map(ToString::to_string);
    let lines = examples(&path).map(|words| format!("\n  forgefs {words}")).collect::<String>();
    match said {
        Some(said) if said.starts_with("Examples:") => command,
        _ if lines.is_empty() => command,
        said => {
            let head = if lines.matches('\n').count() == 1 { "Example:" } else { "Examples:" };
            command.after_help(format!("{head}{lines}{}", said.map(|said| format!("\n\n{said}")).unwrap_or_default()))
        }
    }
}

/// Examples of a command and of those below it.
fn examples(path: &str) -> impl Iterator<Item = &'static str> {
    let is_of =
        move |words: &&str| words.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    EXAMPLES.lines().filter(is_of)
}

/// The commands in their groups, one in a line.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (head, names) in GROUPS {
        text.push_str(&format!("{head}:\n"));
        for sub in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {:<11}  {about}\n", sub.get_name()));
        }
        text.push('\n');
    }
    text
}

/// Prints the help of a command, as its `--help` does.
pub(super) fn help(args: HelpArgs, ui: Ui) -> u8 {
    let words = ["forgefs".to_owned()].into_iter().chain(args.words).chain(["--help".to_owned()]);
    match command().try_get_matches_from(words) {
        Err(help) => ui.usage(&help),
        Ok(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a line, as a shell has them.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        let words = quoted.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        words.collect()
    }

    fn walk(command: &Command, path: &str, leaf: &mut impl FnMut(&Command, &str)) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            match sub.has_subcommands() {
                true => walk(sub, &path, leaf),
                false => leaf(sub, &path),
            }
        }
    }

    #[test]
    fn every_command_stands_in_one_group_on_one_line() {
        let command = command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert_eq!(grouped.iter().filter(|name| **name == sub.get_name()).count(), 1, "{}", sub.get_name());
        }
        let text = groups(&command);
        assert!(text.lines().all(|line| line.len() <= 80 && !line.contains('{')), "{text}");
    }

    #[test]
    fn a_word_of_another_tool_leads_to_a_command_that_is_there() {
        use clap::error::ErrorKind::{InvalidSubcommand, UnknownArgument};
        for (foreign, here) in FOREIGN.iter().flat_map(|(words, here)| words.iter().map(move |word| (word, here))) {
            let args = ["forgefs", foreign].map(str::to_owned);
            let error = command().try_get_matches_from(&args).expect_err("not a word of ours");
            let text = translated(error, &args).to_string();
            assert!(text.contains(&format!("tip: `forgefs {here}` is")) && !text.contains("similar"), "{text}");
            let found = command().try_get_matches_from(["forgefs"].into_iter().chain(here.split(' ')));
            let kind = found.err().map(|error| error.kind());
            assert!(!matches!(kind, Some(InvalidSubcommand | UnknownArgument)), "{here}: {kind:?}");
        }
    }

    #[test]
    fn every_command_has_an_example_that_it_takes() {
        let whole = command();
        walk(&whole, "", &mut |sub, path| {
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("\n  forgefs {path}")), "{path}: {after}");
        });
        for example in EXAMPLES.lines() {
            let words = ["forgefs".to_owned()].into_iter().chain(words(example));
            let parsed = whole.clone().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{example}: {:?}", parsed.err().map(|error| error.to_string()));
        }
    }
}
