//! `forgefs auth`: logins to servers on HTTP.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{Failure, Format, Global, Ui, signals};
use base::principal::LOCAL;
use config::{Config, Transport};
use upstream::auth::{Account, DeviceLogin, Forgotten, Listener, Login, Record, Standing, described, kept};

/// Timeout of a login in the browser.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Subcommand)]
pub(super) enum AuthCommand {
    /// Log in to a server, in a browser
    Login(LoginArgs),
    /// Show which servers are logged into; of one server, exit with 1 if it is not
    Status {
        /// Server
        server: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Encrypt stored logins with the key of `encrypt` in [state], also those that an earlier key encrypted
    Encrypt(Format),
    /// Revoke and forget logins: to a server, of a client, or of a client to a server
    Logout {
        /// Server
        #[arg(required_unless_present = "client")]
        server: Option<String>,
        /// The client's own logins
        #[arg(long, value_name = "NAME")]
        client: Option<String>,
        /// Those of all clients too
        #[arg(long, conflicts_with = "client")]
        all: bool,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Args)]
pub(super) struct LoginArgs {
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
    /// Log in for this client of the endpoint, at a server with `auth.login = "client"` or "user"
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn auth(global: &Global, command: AuthCommand, ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    match command {
        AuthCommand::Login(args) => login(&config, args, ui).await,
        AuthCommand::Status { server, format } => status(&config, server.as_deref(), format, ui).await,
        AuthCommand::Encrypt(format) => {
            let Some((folder, Some(sealing))) = kept(&config) else {
                let failure = Failure::usage("no key is configured, or no server with a login");
                return Err(failure.hint("name the key: `encrypt = { file = \"logins.key\" }` in [state]"));
            };
            let count = upstream::auth::encrypt(&state::open(&config)?, folder, sealing).await?;
            let note = format!("{count} logins are encrypted with the key in use");
            format.tell(json!({ "encrypted": count }), &note, ui);
            Ok(0)
        }
        AuthCommand::Logout { server, client, all, format } => {
            logout(&config, (server.as_deref(), client.as_deref()), all, format, ui).await
        }
    }
}

async fn login(config: &Config, args: LoginArgs, ui: Ui) -> Result<u8, Failure> {
    let server = &args.server;
    let account = account(config, server, args.client.as_deref())?;
    if let Some(client) = &args.client
        && !config.clients.contains_key(client)
        && !config::is_of_token(client)
    {
        let failure = Failure::usage(format!("no client is called `{client}`"));
        return Err(failure.hint("`forgefs clients list` has them; one of an access token is named in `audit list`"));
    }
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
            return Err(Failure::usage(format!("no login within {PATIENCE:?}")).exit(1));
        }
        () = signals::interrupted() => return Ok(130),
    };
    logged_in(server, &login.finish(&address).await?, args.format, ui);
    Ok(0)
}

/// A login with a code, which a person enters in a browser elsewhere.
async fn by_device(account: &Arc<Account>, args: &LoginArgs, ui: Ui) -> Result<u8, Failure> {
    let server = &args.server;
    let login = DeviceLogin::begin(account, &args.scope).await?;
    let ((address, code), minutes) = (login.shown(), login.lasts().as_secs().div_ceil(60));
    ui.note(&format!("To log in to {server}, open this address in any browser:\n\n  {address}\n"));
    ui.note(&format!("and enter the code {code} there, within {minutes} min."));
    let record = tokio::select! {
        record = login.finish() => record?,
        () = signals::interrupted() => return Ok(130),
    };
    logged_in(server, &record, args.format, ui);
    Ok(0)
}

fn logged_in(server: &str, record: &Record, format: Format, ui: Ui) {
    let (detail, usable) = described(record);
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

async fn logout(
    config: &Config,
    (server, client): (Option<&str>, Option<&str>),
    all: bool,
    format: Format,
    ui: Ui,
) -> Result<u8, Failure> {
    let (mut told, mut object) = (Vec::new(), json!({}));
    if let Some(name) = server.filter(|_| client.is_none()) {
        let revoked = account(config, name, None)?.logout().await?;
        told.push(revoked.map_or_else(|| format!("{name} was not logged into"), |revoked| ended(name, revoked)));
        object = json!({ "name": name, "logged_out": revoked.is_some(), "revoked": revoked });
    }
    if all || client.is_some() {
        server.map_or(Ok(()), |name| known(config, name))?;
        let forgotten = forget(config, server, client).await?;
        let of_client = |one: &Forgotten| json!({ "name": one.server, "client": one.client, "revoked": one.revoked });
        object["clients"] = forgotten.iter().map(of_client).collect();
        told.extend(shown(client, &forgotten));
    }
    format.tell(object, &told.join("\n"), ui);
    Ok(0)
}

/// Revokes and forgets logins of a client, or of all, to a server or to all.
pub(super) async fn forget(
    config: &Config,
    server: Option<&str>,
    client: Option<&str>,
) -> Result<Vec<Forgotten>, Failure> {
    Ok(upstream::auth::forget_of_clients(config, &state::open(config)?, (server, client)).await?)
}

/// Lines about logins of a client, or of all, that were forgotten.
pub(super) fn shown(client: Option<&str>, forgotten: &[Forgotten]) -> Vec<String> {
    match client.filter(|_| forgotten.is_empty()) {
        Some(client) => vec![format!("{client} has no login of its own")],
        None => {
            let line = |one: &Forgotten| ended(&format!("{} as {}", one.server, one.client), one.revoked);
            forgotten.iter().map(line).collect()
        }
    }
}

fn ended(name: &str, revoked: bool) -> String {
    match revoked {
        true => format!("logged out of {name}; the login is revoked"),
        false => format!("logged out of {name}; the tokens are forgotten here, but were not revoked there"),
    }
}

/// The logins to a server as JSON and in lines, and whether calls need none by a person.
async fn about(config: &Config, name: &str) -> (Value, String, bool) {
    let all = match state::open(config) {
        Ok(state) => Standing::all(config, &state, name).await,
        Err(error) => return (json!({ "name": name, "usable": false, "detail": error.message }), error.message, false),
    };
    let (mut object, mut lines, mut clients) = (json!({ "name": name }), Vec::new(), Vec::new());
    for Standing { client, detail, usable, .. } in &all {
        match client {
            None => {
                lines.push(format!("{name}: {detail}"));
                (object["usable"], object["detail"]) = (json!(usable), json!(detail));
            }
            Some(client) => {
                lines.push(format!("{name} as {client}: {detail}"));
                clients.push(json!({ "client": client, "usable": usable, "detail": detail }));
            }
        }
    }
    if config.servers.get(name).is_some_and(|server| server.login() != config::Login::Gateway) {
        object["clients"] = clients.into();
    }
    (object, lines.join("\n"), all.first().is_some_and(|own| own.usable))
}

async fn status(config: &Config, server: Option<&str>, format: Format, ui: Ui) -> Result<u8, Failure> {
    server.map_or(Ok(()), |server| known(config, server))?;
    let is_shown = |name: &&String| match server {
        Some(server) => *name == server,
        None => !matches!(config.servers[*name].transport, Transport::Stdio { .. }),
    };
    let (mut objects, mut lines, mut all_usable) = (Vec::new(), Vec::new(), true);
    for name in config.servers.keys().filter(is_shown) {
        let (object, text, usable) = about(config, name).await;
        objects.push(object);
        lines.push(text);
        all_usable &= usable;
    }
    if lines.is_empty() {
        lines.push("no server on HTTP is configured".to_owned());
    }
    format.out(json!({ "servers": objects }), &lines.join("\n"), ui);
    Ok(u8::from(server.is_some() && !all_usable))
}

fn known(config: &Config, name: &str) -> Result<(), Failure> {
    if config.servers.contains_key(name) {
        return Ok(());
    }
    let near = base::error::nearest(name, config.servers.keys().map(String::as_str));
    let hint = base::error::did_you_mean(&near).unwrap_or_else(|| "`forgefs list` shows the servers".to_owned());
    Err(Failure::usage(format!("no server is called `{name}`")).hint(hint))
}

fn account(config: &Config, name: &str, client: Option<&str>) -> Result<Arc<Account>, Failure> {
    known(config, name)?;
    let server = &config.servers[name];
    if !server.enabled {
        return Err(Failure::usage(format!("{name} is disabled")));
    }
    if let Some(client) = client {
        if server.exchanges() {
            return Err(Failure::usage(format!("{name} has no logins: the caller's access token is exchanged")));
        }
        if server.login() == config::Login::Gateway {
            let failure = Failure::usage(format!("all clients use one login to {name}"));
            return Err(failure.hint("`auth.login = \"client\"` or \"user\" of the server gives each its own"));
        }
        if client == LOCAL {
            let failure = Failure::usage(format!("`{LOCAL}` uses the gateway's own login to {name}"));
            return Err(failure.hint("leave out `--client`"));
        }
    }
    upstream::auth::account(config, &state::open(config)?, name, client).ok_or_else(|| match &server.transport {
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
