//! Commands that sentences name, and the help of the executable.

use std::collections::BTreeMap;

use crate::client::Fence;

/// Commands that `main` takes before the command line does.
const OF_MAIN: [&str; 2] = ["confined", "worker"];
/// Options of every command that take a value.
const GLOBAL: [&str; 5] = ["--as", "--catalog", "--config", "--engine", "--log"];

/// Help texts of commands, each asked for once; `None` for a command that is not there.
pub(super) struct Helps {
    fence: Fence,
    texts: BTreeMap<String, Option<String>>,
}

impl Helps {
    pub(super) fn new() -> Self {
        Self { fence: Fence::new(), texts: BTreeMap::new() }
    }

    /// True if the executable has this command, such as `runs list --json`, with these options.
    pub(super) fn know(&mut self, words: &str) -> bool {
        let (mut path, mut options) = (String::new(), Vec::new());
        let mut words = words.split(" -- ").next().unwrap_or_default().split_whitespace();
        while let Some(word) = words.next() {
            if word.starts_with("--") {
                options.push(word);
                let _value = GLOBAL.contains(&word).then(|| words.next());
            } else if path.is_empty() {
                path = word.to_owned();
            } else if !path.contains(' ') && self.of(&path).is_some_and(|text| text.contains("\nCommands:\n")) {
                path = format!("{path} {word}");
            }
        }
        let is_name = path.chars().all(|c| c.is_ascii_lowercase() || matches!(c, ' ' | '-'));
        if !is_name || OF_MAIN.contains(&path.as_str()) {
            return true;
        }
        self.of(&path).is_some_and(|text| options.iter().all(|option| text.contains(option)))
    }

    fn of(&mut self, path: &str) -> Option<&str> {
        let fence = &self.fence;
        let ask = || {
            let output = fence.run(path.split(' ').filter(|word| !word.is_empty()).chain(["--help"]));
            (output.code == Some(0)).then_some(output.stdout)
        };
        self.texts.entry(path.to_owned()).or_insert_with(ask).as_deref()
    }
}

#[test]
fn a_command_is_known_by_its_help() {
    let mut helps = Helps::new();
    for known in ["ls", "--as ci ls /x", "runs list --json", "add NAME -- COMMAND --any", "COMMAND --help", "--version"]
    {
        assert!(helps.know(known), "{known}");
    }
    for unknown in ["lsx", "runs lost", "ls --no-such-option"] {
        assert!(!helps.know(unknown), "{unknown}");
    }
}
