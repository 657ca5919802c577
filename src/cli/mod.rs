//! The command line: arguments → gateway → output. Only `ui` writes to stdout and stderr.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

/// Beginning of every new configuration, as a literal.
macro_rules! pins {
    () => {
        "# A changed or new tool of a server is held until you review it: `forgefs stubs accept` shows the difference.\n\
         [manifest]\npin_first_use = true\n"
    };
}

mod about;
mod approvals;
mod audit;
mod auth;
mod browse;
mod call;
mod check;
mod clients;
mod connect;
mod console;
mod daemon;
mod demo;
mod doctor;
mod failure;
mod findings;
mod generate;
mod global;
mod help;
pub mod init;
mod junit;
mod newest;
mod policy;
mod records;
mod registry;
mod reload;
mod remote;
mod replay;
mod reports;
mod run;
mod runs;
mod scripts;
mod secrets;
mod serve;
mod servers;
mod shapes;
mod signals;
mod stubs;
mod style;
mod test;
mod times;
mod tokens;
mod ui;
mod waiting;
mod workflow;
mod written;

use std::time::Duration;

use clap::{ArgMatches, FromArgMatches as _, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use ::run::broker::Approver;
use ::run::telemetry;
use base::memory;
use base::panics;
use base::spawner;
use base::task;
use catalog::people;
use config::process_env;
use failure::Failure;
use global::{Global, own_executable};
use remote::Request;
use shapes::Format;
use ui::{Color, Ui};
use waiting::{settle, settle_all, starting, still_starting, wait_for};

/// Timeout of a command for servers that it does not name.
const OTHERS: Duration = Duration::from_secs(10);
/// Time for servers that are our processes to end by themselves when we do.
const SERVERS_END: Duration = Duration::from_secs(2);

/// Time to send the last spans at shutdown.
const SPANS_END: Duration = Duration::from_secs(2);

/// Time for blocking work to end at shutdown.
const BLOCKING_END: Duration = Duration::from_millis(50);
/// Stack of a thread of the runtime: an unoptimised build takes more than the usual 2 MiB for a call of a script.
const STACK: usize = 8 << 20;
/// Steps of tasks between looks for input.
const STEPS: u32 = 16;
/// Exit code of a command whose output could not be written.
const LOST: u8 = 4;

/// Code-mode MCP gateway: any number of MCP servers behind four small tools.
#[derive(Parser)]
#[command(name = "forgefs", version, about, disable_help_subcommand = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve MCP on stdin and stdout (the default), or on HTTP
    Serve(serve::ServeArgs),
    /// Try a server, and write it into the configuration
    Add(servers::AddArgs),
    /// Find servers in the official registry, and add them
    #[command(subcommand)]
    Registry(registry::Command),
    /// Connect MCP clients: Claude, Codex, Cursor, VS Code and others
    Connect(connect::ConnectArgs),
    /// List the servers of the configuration
    List(servers::ListArgs),
    /// Switch a server on
    Enable(servers::NameArgs),
    /// Switch a server off, and keep its entry
    Disable(servers::NameArgs),
    /// Remove a server from the configuration
    Remove(servers::NameArgs),
    /// Check configuration, servers and sandbox
    Doctor(doctor::DoctorArgs),
    /// Walk through ForgeFS with sample servers, without network
    Demo(demo::DemoArgs),
    /// List servers, categories or tools
    Ls(browse::LsArgs),
    /// Read stubs and documentation
    Cat(browse::CatArgs),
    /// Find tools by purpose
    Search(browse::SearchArgs),
    /// Call one tool
    Call(call::CallArgs),
    /// Run a script: its value on stdout, captured output on stderr
    Run(run::RunArgs),
    /// Find mistakes of scripts, and what they may do; runs nothing
    Check(check::CheckArgs),
    /// Scripts that are tools: list, lock, check, save, accept
    #[command(subcommand)]
    Scripts(scripts::Command),
    /// Write the stubs for review, and find what changed since
    #[command(subcommand)]
    Stubs(stubs::StubsCommand),
    /// The audit log: every request, its calls, and the stubs read
    #[command(subcommand)]
    Audit(audit::Command),
    /// Suggest profiles from the log; try a changed forge.toml on it
    #[command(subcommand)]
    Policy(policy::Command),
    /// Runs of scripts: list them, show one, delete its journal
    #[command(subcommand)]
    Runs(runs::Command),
    /// Run a recorded script again offline, and say where it diverges
    Replay(replay::ReplayArgs),
    /// Make a cassette of a run, which `forgefs test` plays
    #[command(subcommand)]
    Journal(replay::JournalCommand),
    /// Test scripts on the cassettes beside them, without servers
    Test(test::TestArgs),
    /// Decide about calls that wait for approval
    #[command(subcommand)]
    Approvals(approvals::Command),
    /// Clients of `serve --http` and their tokens
    #[command(subcommand)]
    Clients(tokens::Command),
    /// Open a web page: what agents do, approvals, tools and costs
    Console(console::ConsoleArgs),
    /// Log in to servers on HTTP, see and end logins
    #[command(subcommand)]
    Auth(auth::AuthCommand),
    /// Rotate secrets, and keep them in the desktop's keyring
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Apply an edited forge.toml to running gateways
    Reload(Format),
    /// One gateway for all clients, in the background
    #[command(subcommand)]
    Daemon(daemon::DaemonCommand),
    /// Write a first forge.toml, with the servers of your clients
    Init(init::InitArgs),
    /// Print the completion script of a shell
    Completions(generate::CompletionsArgs),
    /// Print this help, or that of a command
    Help(help::HelpArgs),
    /// Write man pages
    #[command(hide = true)]
    Man(generate::ManArgs),
    /// The sample MCP server of `demo`
    #[command(hide = true)]
    DemoServer(demo::ServerArgs),
}

/// Parses `args` and runs the command; everything is printed here. `engines` are the JavaScript engines of this build. Returns
/// the exit code.
pub fn run(args: impl Iterator<Item = std::ffi::OsString>, engines: &[&str]) -> u8 {
    let args: Vec<_> = args.collect();
    match run_with(&args, engines) {
        0 if ui::has_lost_output() => LOST,
        exit => exit,
    }
}

fn run_with(args: &[std::ffi::OsString], engines: &[&str]) -> u8 {
    let ui = Ui;
    about::set_engines(engines);
    let wants_json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let matches = help::command().try_get_matches_from(args).map_err(|error| help::translated(error, args));
    let format = match &matches {
        Ok(matches) => format(matches),
        Err(_) if wants_json => reports::Format::Json,
        Err(_) => reports::Format::Text,
    };
    let fail = |failure: &Failure| {
        match format {
            reports::Format::Json => shapes::failure(failure, ui),
            reports::Format::Github => reports::failure(failure, ui),
            reports::Format::Text | reports::Format::Sarif => ui.failure(failure),
        }
        failure.exit
    };
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) if wants_json && error.use_stderr() => return fail(&Failure::mistyped(&error)),
        Err(error) => return ui.usage(&error),
    };
    cli.global.color.choose();
    if let Some(engine) = cli.global.engine.as_deref().filter(|engine| !engines.contains(engine)) {
        let has = if engines.is_empty() { "none".to_owned() } else { engines.join(" and ") };
        let failure = Failure::usage(format!("--engine: this build has no JavaScript engine `{engine}`; it has {has}"));
        return fail(&failure.hinted(global::way_to(engine)));
    }
    spawner::close_on_exec();
    config::secrets::dump_no_core();
    log_to_stderr(&cli);
    panics::install(|said| redact::text(redact::Surface::Log, said).into_owned());
    memory::set_up(task::threads());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // New requests are heard while many steps of others wait, each up to milliseconds.
    runtime.worker_threads(task::threads()).event_interval(STEPS).thread_stack_size(STACK);
    let runtime = runtime.enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Failure::internal(format!("no async runtime: {error}"))),
    };
    let result = runtime.block_on(async {
        survive_limits();
        let result = panics::caught(Box::pin(dispatch(cli, ui))).await.unwrap_or_else(|defect| Err(defect.into()));
        tokio::join!(upstream::end_all(SERVERS_END), telemetry::end_all(SPANS_END));
        result
    });
    // Reading stdin blocks a thread and cannot be interrupted: do not wait for it.
    runtime.shutdown_timeout(BLOCKING_END);
    match result {
        Ok(code) => code,
        Err(failure) => fail(&failure),
    }
}

/// Format of a command's output: its errors have it too.
fn format(mut matches: &ArgMatches) -> reports::Format {
    while let Some((_, of_subcommand)) = matches.subcommand() {
        matches = of_subcommand;
    }
    match matches.try_get_one::<bool>("json") {
        Ok(Some(true)) => reports::Format::Json,
        _ => matches.try_get_one("format").ok().flatten().copied().unwrap_or(reports::Format::Text),
    }
}

/// Makes a write over the file size limit (RLIMIT_FSIZE) fail, instead of ending the process.
fn survive_limits() {
    let _ = signal(SignalKind::from_raw(nix::libc::SIGXFSZ));
}

async fn dispatch(Cli { global, command }: Cli, ui: Ui) -> Result<u8, Failure> {
    let global = &global;
    if command.is_none() && ui.is_interactive() && global.is_unconfigured() {
        return Ok(serve::welcome(ui));
    }
    match command.unwrap_or_else(|| Command::Serve(serve::ServeArgs::default())) {
        Command::Serve(args) => serve::serve(global, &args, ui).await,
        Command::Run(args) => run::run(global, args, ui).await,
        Command::Check(args) => check::check(global, args, ui).await,
        Command::Ls(args) => remote::answer(global, Request::Ls(args), ui).await,
        Command::Cat(args) => remote::answer(global, Request::Cat(args), ui).await,
        Command::Search(args) => remote::answer(global, Request::Search(args), ui).await,
        Command::Call(args) => remote::answer(global, Request::Call(args), ui).await,
        Command::Scripts(args) => scripts::scripts(global, args, ui).await,
        Command::Stubs(args) => stubs::run(global, args, ui).await,
        Command::Clients(args) => tokens::clients(global, &args, ui).await,
        Command::Console(args) => console::console(global, args, ui).await,
        Command::Auth(args) => auth::auth(global, args, ui).await,
        Command::Add(args) => servers::add(global, args, ui).await,
        Command::Registry(args) => registry::registry(global, args, ui).await,
        Command::Remove(args) => servers::remove(global, &args, ui),
        Command::Enable(args) => servers::switch(global, &args, true, ui),
        Command::Disable(args) => servers::switch(global, &args, false, ui),
        Command::List(args) => servers::list(global, args, ui).await,
        Command::Secrets(args) => secrets::secrets(global, args, ui).await,
        Command::Reload(format) => reload::reload(global, format, ui),
        Command::Daemon(args) => daemon::daemon(global, args, ui).await,
        Command::Doctor(args) => doctor::doctor(global, &args, ui).await,
        Command::Approvals(args) => approvals::approvals(global, args, ui).await,
        Command::Audit(args) => audit::audit(global, args, ui),
        Command::Policy(args) => policy::policy(global, args, ui),
        Command::Runs(args) => runs::runs(global, args, ui).await,
        Command::Replay(args) => replay::replay(global, args, ui).await,
        Command::Journal(args) => replay::journal(global, args, ui).await,
        Command::Test(args) => test::test(global, args, ui).await,
        Command::Demo(args) => demo::demo(global, args, ui).await,
        Command::Completions(args) => Ok(generate::completions(&args, ui)),
        Command::Help(args) => Ok(help::help(args, ui)),
        Command::Man(args) => generate::man(&args, ui),
        Command::DemoServer(args) => demo::serve(args).await,
        Command::Init(args) => init::init(global, &args, ui),
        Command::Connect(args) => connect::connect(global, &args, ui).await,
    }
}

fn log_to_stderr(cli: &Cli) {
    let serving = match &cli.command {
        None | Some(Command::Serve(_)) => true,
        Some(Command::Daemon(args)) => args.serves(),
        Some(_) => false,
    };
    // The gateway says in its own words that a server is down.
    let default = if serving { "warn,forgefs::audit=info,forgefs::daemon=info,rmcp=off" } else { "error,rmcp=off" };
    let wanted = cli.global.log.clone().or_else(|| process_env("RUST_LOG")).filter(|filter| !filter.is_empty());
    let filter = tracing_subscriber::EnvFilter::new(wanted.as_deref().unwrap_or(default));
    // rmcp's details of logins have codes and tokens.
    let filter = match "rmcp::transport::auth=warn".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| redact::Writer(people::Records(std::io::stderr())))
        // A log that cannot be written panics otherwise.
        .log_internal_errors(false)
        .with_ansi(false);
    // Only a test could have set one before.
    let _ = subscriber.try_init();
}

/// The one who consents to calls that need it: the operator at the command line, or no one.
fn approver(yes: bool) -> Approver {
    if yes { Approver::Operator } else { Approver::User }
}
