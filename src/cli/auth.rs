//! `forgefs auth`: logins to servers on HTTP.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
use config::{Config, Transport};
use upstream::auth::{Account, DeviceLogin, Grant, Listener, Login, Record, login_command};

/// Timeout of a login in the browser.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Args)]
pub(super) struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Subcommand)]
enum AuthCommand {
    /// Log in to a server, in a browser
    Login(LoginArgs),
    /// Show which servers are logged into; of one server, exit with 1 if it is not
    Status {
        /// Server
        server: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Revoke and forget the login to a server
    Logout {
        /// Server
        server: String,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Args)]
struct LoginArgs {
    /// Server
    server: String,
    /// Only print the URL; open it anywhere and paste the address that the browser is sent to
    #[arg(long)]
    no_browser: bool,
    /// Log in with a code that is entered in any browser, such as that of a telephone
    #[arg(long, conflicts_with = "no_browser")]
    device: bool,
    /// A scope to ask for besides those that are configured; may be repeated
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn auth(global: &Global, args: AuthArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    match args.command {
        AuthCommand::Login(args) => login(&config, args, ui).await,
        AuthCommand::Status { server: None, format } => {
            status(&config, format, ui).await;
            Ok(ExitCode::SUCCESS)
        }
        AuthCommand::Status { server: Some(server), format } => {
            known(&config, &server)?;
            let (text, usable) = standing(&config, &server).await;
            let object = json!({ "servers": [shape(&config, &server).await] });
            format.out(object, &format!("{server}: {text}"), ui);
            Ok(ExitCode::from(u8::from(!usable)))
        }
        AuthCommand::Logout { server, format } => logout(&config, &server, format, ui).await,
    }
}

async fn login(config: &Config, args: LoginArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let server = &args.server;
    let account = account(config, server)?;
    if args.device {
        return by_device(&account, &args, ui).await;
    }
    let listener = Listener::bind(account.redirect_port()).await?;
    let login = Login::begin(&account, &listener.redirect_uri(), &args.scope).await?;
    ui.note(&format!("To log in to {server}, open this address:\n\n  {}\n", login.url()));
    if !args.no_browser && open::that_detached(login.url()).is_ok() {
        ui.note("Waiting for the browser that was opened.");
    }
    ui.note("If the browser is on another machine, paste here the address that it ends at (http://127.0.0.1:…).");
    let address = tokio::select! {
        address = listener.address(login.is_mine()) => address,
        address = pasted() => address,
        () = tokio::time::sleep(PATIENCE) => {
            return Err(Failure { exit: 1, ..Failure::usage(format!("no login within {PATIENCE:?}")) });
        }
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(130)),
    };
    logged_in(server, &login.finish(&address).await?, args.format, ui);
    Ok(ExitCode::SUCCESS)
}

/// A login with a code, which a person enters in a browser elsewhere.
async fn by_device(account: &Arc<Account>, args: &LoginArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let server = &args.server;
    let login = DeviceLogin::begin(account, &args.scope).await?;
    let ((address, code), minutes) = (login.shown(), login.lasts().as_secs().div_ceil(60));
    ui.note(&format!("To log in to {server}, open this address in any browser:\n\n  {address}\n"));
    ui.note(&format!("and enter the code {code} there, within {minutes} min."));
    let record = tokio::select! {
        record = login.finish() => record?,
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(130)),
    };
    logged_in(server, &record, args.format, ui);
    Ok(ExitCode::SUCCESS)
}

fn logged_in(server: &str, record: &Record, format: Format, ui: Ui) {
    let (detail, usable) = describe(record);
    let note = format!("Logged in to {server}: {detail}");
    format.tell(json!({ "name": server, "usable": usable, "detail": detail }), &note, ui);
}

/// First line of input. Without a terminal or a pipe it waits forever.
async fn pasted() -> String {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if !line.trim().is_empty() {
            return line;
        }
    }
    std::future::pending().await
}

async fn logout(config: &Config, server: &str, format: Format, ui: Ui) -> Result<ExitCode, Failure> {
    let account = account(config, server)?;
    let revoked = account.logout().await?;
    let note = match revoked {
        None => format!("{server} was not logged into"),
        Some(true) => format!("logged out of {server}; the login is revoked"),
        Some(false) => format!("logged out of {server}; the tokens are forgotten here, but were not revoked there"),
    };
    format.tell(json!({ "name": server, "logged_out": revoked.is_some(), "revoked": revoked }), &note, ui);
    Ok(ExitCode::SUCCESS)
}

/// State of a login as JSON.
async fn shape(config: &Config, name: &str) -> Value {
    let (detail, usable) = standing(config, name).await;
    json!({ "name": name, "usable": usable, "detail": detail })
}

async fn status(config: &Config, format: Format, ui: Ui) {
    let on_http = |name: &&String| !matches!(config.servers[*name].transport, Transport::Stdio { .. });
    let names: Vec<&String> = config.servers.keys().filter(on_http).collect();
    if format.json {
        let mut servers = Vec::new();
        for name in &names {
            servers.push(shape(config, name).await);
        }
        return shapes::print(json!({ "servers": servers }), ui);
    }
    for name in &names {
        ui.out(&format!("{name}: {}", standing(config, name).await.0));
    }
    if names.is_empty() {
        ui.out("no server on HTTP is configured");
    }
}

/// State of a login without network access, and whether it is usable.
async fn standing(config: &Config, name: &str) -> (String, bool) {
    let Some(server) = config.servers.get(name) else { return ("no such server".to_owned(), false) };
    if !server.enabled {
        return ("disabled".to_owned(), false);
    }
    let account = match of(config, name, server) {
        Ok(account) => account,
        Err(error) => return (error.message, false),
    };
    let Some(account) = account else {
        return match &server.transport {
            Transport::Http { headers, .. } | Transport::OpenApi { headers, .. }
                if headers.contains_key("authorization") =>
            {
                ("an Authorization header is configured".to_owned(), true)
            }
            _ => ("no login".to_owned(), true),
        };
    };
    if account.grant() == Grant::Program {
        return ("logs in by itself, with a client secret".to_owned(), true);
    }
    match account.record().await {
        Ok(Some(record)) => describe(&record),
        Ok(None) => (format!("not logged in ({})", login_command(name)), false),
        Err(error) => (error.message, false),
    }
}

/// A login in one line, and whether it is usable.
fn describe(record: &Record) -> (String, bool) {
    let mut text = "logged in".to_owned();
    if let Some(issuer) = record.issuer() {
        text += &format!(" by {issuer}");
    }
    if let Some(named) = record.named() {
        text += &format!(", for {named}, as the server names itself");
    }
    if !record.scopes().is_empty() {
        text += &format!(", scopes {}", record.scopes().join(" "));
    }
    let over = record.lasts().is_some_and(|lasts| lasts.is_zero());
    text += &match (record.lasts(), record.is_renewable()) {
        (_, true) => ", renewed when needed".to_owned(),
        (None, false) => String::new(),
        (Some(_), false) if over => ", expired".to_owned(),
        (Some(lasts), false) => format!(", for {} more minutes", lasts.as_secs().div_ceil(60)),
    };
    (text, record.is_renewable() || !over)
}

fn known(config: &Config, name: &str) -> Result<(), Failure> {
    if config.servers.contains_key(name) {
        return Ok(());
    }
    let near = base::error::nearest(name, config.servers.keys().map(String::as_str));
    let failure = Failure::usage(format!("no server is called `{name}`"));
    Err(match base::error::did_you_mean(&near) {
        Some(hint) => failure.hint(&hint),
        None => failure,
    })
}

/// The login of a server.
fn of(config: &Config, name: &str, server: &config::Server) -> base::error::Result<Option<Arc<Account>>> {
    Ok(Account::of(name, server, &state::open(config)?))
}

fn account(config: &Config, name: &str) -> Result<Arc<Account>, Failure> {
    known(config, name)?;
    let server = &config.servers[name];
    if !server.enabled {
        return Err(Failure::usage(format!("{name} is disabled")));
    }
    of(config, name, server)?.ok_or_else(|| match &server.transport {
        Transport::Stdio { .. } => Failure::usage(format!("{name} is started here: it needs no login of this kind")),
        Transport::Http { headers, .. } | Transport::OpenApi { headers, .. }
            if headers.contains_key("authorization") =>
        {
            Failure::usage(format!("{name} has an Authorization header in its `headers`"))
                .hint("remove it there to log in instead")
        }
        Transport::OpenApi { .. } => {
            Failure::usage(format!("{name} is an API without a login")).hint("give it a table `auth`")
        }
        Transport::Http { .. } => {
            Failure::usage(format!("{name} is on plain HTTP, which carries no tokens")).hint("use an https URL")
        }
    })
}
