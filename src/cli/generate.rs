//! `forgefs completions` and `forgefs man`: files for shells and for `man`, made of the command line's own definition.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::{Failure, Ui, help};

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// Shell to complete the command line of
    shell: Shell,
}

#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder to write into, created if it is missing
    folder: PathBuf,
}

/// Prints a completion script.
pub(super) fn completions(args: &CompletionsArgs, ui: Ui) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "forgefs", &mut script);
    ui.out(&String::from_utf8_lossy(&script));
    0
}

/// Writes a man page for each command.
pub(super) fn man(args: &ManArgs, ui: Ui) -> Result<u8, Failure> {
    let folder = &args.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(help::command(), folder));
    match written {
        Ok(()) => {
            ui.note(&format!("man pages are in {}", folder.display()));
            Ok(0)
        }
        Err(error) => Err(Failure::usage(format!("man pages cannot be written to {}: {error}", folder.display()))
            .hint("name a folder that you can write to")),
    }
}
