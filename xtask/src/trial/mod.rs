//! A trial of language models: six office tasks over a small company of five MCP servers without output schemas.
//!
//! The company has what real servers have: pages of three kinds, writes that need the current version and meet another's
//! edit, CSV, plain text, kebab-case tools, a parameter called `from`. The model sees the gateway's four tools and the words
//! of a task, nothing else. State is in files, so that the outcome is checked; calls and tokens are those of transcripts.

mod company;
mod gateway;
mod server;
mod tasks;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde_json::Value;

use crate::say;

/// Steps of a trial.
#[derive(Subcommand)]
pub(crate) enum Step {
    /// Make a folder with forge.toml, TASKS.md and the company's state
    Prepare { folder: PathBuf },
    /// Keep one session with `forgefs serve` for `call`, and append every call to a transcript
    Serve {
        folder: PathBuf,
        /// The transcript: one line {tool, arguments, answer} per call
        #[arg(long)]
        record: PathBuf,
        /// The executable to try
        #[arg(long)]
        forgefs: PathBuf,
    },
    /// Call one of the four tools in the session of `serve`, and print what an agent reads; the tool `end` ends it
    Call {
        folder: PathBuf,
        tool: String,
        /// Arguments as JSON
        #[arg(default_value = "{}")]
        arguments: String,
        /// Take the script of `execute` from this file
        #[arg(long)]
        code: Option<PathBuf>,
    },
    /// Check the state of a folder against what each task asks for
    Check { folder: PathBuf },
    /// Count the calls and tokens (bytes ÷ 4) of transcripts
    Count { transcripts: Vec<PathBuf> },
    /// Make the calls of transcripts again, in one session, without recording
    Replay {
        folder: PathBuf,
        transcripts: Vec<PathBuf>,
        /// The executable to try
        #[arg(long)]
        forgefs: PathBuf,
    },
    /// One of the company's MCP servers, on stdin and stdout
    #[command(hide = true)]
    Server { name: String, state: PathBuf },
}

/// Makes one step.
pub(crate) fn run(step: &Step) -> anyhow::Result<()> {
    match step {
        Step::Prepare { folder } => prepare(folder),
        Step::Serve { folder, record, forgefs } => {
            gateway::serve(&forgefs.canonicalize()?, &folder.canonicalize()?, record)
        }
        Step::Call { folder, tool, arguments, code } => {
            let mut arguments: Value = serde_json::from_str(arguments).context("the arguments are not JSON")?;
            if let Some(code) = code {
                arguments["code"] = fs::read_to_string(code)?.into();
            }
            say::output(format_args!("{}", gateway::ask(folder, tool, &arguments)?));
            Ok(())
        }
        Step::Check { folder } => check(folder),
        Step::Count { transcripts } => count(transcripts),
        Step::Replay { folder, transcripts, forgefs } => {
            let (forgefs, folder) = (forgefs.canonicalize()?, folder.canonicalize()?);
            let mut gateway = gateway::Gateway::start(&forgefs, &folder)?;
            for transcript in transcripts {
                for call in read(transcript)? {
                    gateway.call(server::text(&call["tool"]), &call["arguments"])?;
                }
            }
            Ok(())
        }
        Step::Server { name, state } => server::serve(name, state),
    }
}

fn prepare(folder: &Path) -> anyhow::Result<()> {
    let state = folder.join("state");
    fs::create_dir_all(&state)?;
    let (folder, state) = (folder.canonicalize()?, state.canonicalize()?);
    let program = Value::from(env::current_exe()?.to_string_lossy());
    let mut config = "# The company of `cargo xtask trial`.\n".to_owned();
    for server in company::SERVERS {
        let path = Value::from(state.to_string_lossy());
        config.push_str(&format!(
            "\n[servers.{server}]\ncommand = {program}\nargs = [\"trial\", \"server\", \"{server}\", {path}]\n"
        ));
        fs::write(server::state_file(&state, server), format!("{:#}\n", company::founding(server)))?;
    }
    fs::write(folder.join("forge.toml"), config)?;
    let mut tasks = "# Tasks\n\nIn this order, each in a session of its own.\n".to_owned();
    for (index, task) in tasks::TASKS.iter().enumerate() {
        tasks.push_str(&format!("\n{}. **{}**: {}\n", index + 1, task.name, task.words));
    }
    fs::write(folder.join("TASKS.md"), tasks)?;
    say::line(format_args!("The company is in {}.", folder.display()));
    Ok(())
}

fn check(folder: &Path) -> anyhow::Result<()> {
    let outcomes = tasks::check(&folder.join("state"))?;
    for (name, outcome) in &outcomes {
        match outcome {
            Ok(()) => say::output(format_args!("{name}: solved")),
            Err(why) => say::output(format_args!("{name}: not solved\n{why}")),
        }
    }
    match outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} tasks are not solved", outcomes.len()),
    }
}

fn count(transcripts: &[PathBuf]) -> anyhow::Result<()> {
    say::output(format_args!(
        "| task | calls | of them execute | written | read | tokens |\n|---|---:|---:|---:|---:|---:|"
    ));
    let mut all = [0; 5];
    for transcript in transcripts {
        let mut own = [0; 5];
        for call in read(transcript)? {
            let (written, answer) = (call["arguments"].to_string().len(), server::text(&call["answer"]).len());
            let execute = usize::from(call["tool"] == "execute");
            for (sum, more) in own.iter_mut().zip([1, execute, written, answer, written + answer]) {
                *sum += more;
            }
        }
        row(&transcript.file_stem().unwrap_or_default().to_string_lossy(), own);
        all.iter_mut().zip(own).for_each(|(sum, more)| *sum += more);
    }
    row("all", all);
    Ok(())
}

fn row(name: &str, [calls, execute, written, read, sum]: [usize; 5]) {
    let [written, read, sum] = [written, read, sum].map(|bytes| bytes.div_ceil(4));
    say::output(format_args!("| {name} | {calls} | {execute} | {written} | {read} | {sum} |"));
}

fn read(transcript: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(transcript).with_context(|| format!("cannot read {}", transcript.display()))?;
    let call = |line| serde_json::from_str(line).with_context(|| format!("{} has a bad line", transcript.display()));
    text.lines().map(call).collect()
}
