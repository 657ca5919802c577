//! Translates a host's server into an entry of `forge.toml`.

mod values;

use std::collections::BTreeMap;
use std::path::{Path, is_separator};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::credentials::{self, Credentials};
use super::entry::{Entry, Transport, array, string};
use super::host::{Found, Host};
use super::loss::Loss;
use super::references::Scope;
use values::without;

/// Translates one server. `base` is the folder of the file to write.
///
/// # Errors
/// The reason why it is skipped.
pub fn entry(found: &Found, credentials: Credentials<'_>, base: &Path) -> Result<Entry, String> {
    let is_other = |name: &str| credentials.is_other(name);
    // Most refer to a variable of the same name.
    let value = |name: &str| ["env", "environment"].iter().find_map(|key| found.fields.get(*key)?.get(name)?.as_str());
    let sets = |name: &str| value(name).is_some_and(|value| !value.contains('{'));
    let is_own = |name: &str| sets(name) && (credentials.real)(name).is_none();
    let scope = Scope {
        expands: found.place.host.expands(),
        project: found.place.project.as_deref(),
        inputs: &found.inputs,
        hides: credentials.leave_out && credentials.kept.is_none(),
        server: &found.name,
        is_other: &is_other,
        is_own: &is_own,
    };
    let entry = Entry { name: found.name.clone(), ..Entry::default() };
    let (fields, named) = (found.fields.clone(), BTreeMap::new());
    let mut translator = Translator { found, fields, scope, credentials, base, entry, named };
    translator.server()?;
    let mut entry = translator.entry;
    entry.variables = translator.named;
    entry.notes.dedup();
    if credentials.leave_out {
        entry.notes.iter_mut().for_each(|note| *note = without(note, credentials.known));
    }
    Ok(entry)
}

struct Translator<'a> {
    found: &'a Found,
    /// Fields not translated yet.
    fields: Map<String, Value>,
    scope: Scope<'a>,
    credentials: Credentials<'a>,
    base: &'a Path,
    entry: Entry,
    /// Variables in place of credentials, with their values.
    named: BTreeMap<String, String>,
}

impl Translator<'_> {
    fn server(&mut self) -> Result<(), String> {
        self.other_forms()?;
        let kind = self.text("type")?.or(self.text("transport")?).or(self.text("transportType")?);
        let url = self.text("url")?.or(self.text("serverUrl")?);
        let command = self.text("command")?;
        let kind = kind.unwrap_or_default().to_lowercase().replace(['-', '_'], "");
        self.entry.transport = match (kind.as_str(), command, url) {
            ("" | "stdio" | "local", Some(command), None) => self.stdio(&command)?,
            ("" | "http" | "streamablehttp" | "remote" | "sse", None, Some(url)) => self.http(&kind, &url)?,
            (_, None, None) => return Err("it has neither a command nor a URL".to_owned()),
            (_, Some(_), Some(_)) => return Err("it has both a command and a URL".to_owned()),
            (kind, ..) => return Err(format!("its transport `{kind}` is not one that ForgeFS speaks")),
        };
        self.switches()?;
        let lists = [
            ("enabled_tools", "allow"),
            ("includeTools", "allow"),
            ("disabled_tools", "deny"),
            ("disabledTools", "deny"),
            ("excludeTools", "deny"),
        ];
        for (theirs, ours) in lists {
            let tools = self.list(theirs)?;
            let tools: Vec<_> = tools.iter().map(|tool| self.plain(theirs, tool)).collect();
            if !tools.is_empty() {
                self.entry.tools.push((ours, tools));
            }
        }
        self.times();
        self.auth()?;
        if let Some(description) = self.text("description")? {
            self.entry.description = Some(self.plain("description", &description));
        }
        for (name, _) in std::mem::take(&mut self.fields) {
            match Loss::of_key(&name) {
                Some(loss) => self.lose(loss),
                None => self.entry.notes.push(format!("`{name}` is not imported")),
            }
        }
        Ok(())
    }

    /// Brings the forms of opencode and Gemini CLI into the usual one.
    fn other_forms(&mut self) -> Result<(), String> {
        let fields = &mut self.fields;
        if let Some(Value::Array(words)) = fields.get_mut("command").filter(|_| self.found.place.host == Host::OpenCode)
        {
            let mut words = std::mem::take(words).into_iter();
            fields.insert("command".to_owned(), words.next().unwrap_or(Value::Null));
            fields.insert("args".to_owned(), words.collect());
        }
        if let Some(variables) = fields.remove("environment") {
            fields.insert("env".to_owned(), variables);
        }
        if self.found.place.host == Host::OpenCode {
            let text = Value::Object(fields.clone()).to_string();
            let is_set = |rest: &str| rest.split('}').next().and_then(self.credentials.real).is_some();
            let is_clear = !text.contains("${") && text.split("{env:").skip(1).all(is_set);
            match (text.contains("{env:"), text.contains("{file:")) {
                (false, false) => {}
                (true, false) if is_clear => {
                    *fields = serde_json::from_str(&text.replace("{env:", "${")).map_err(|error| error.to_string())?;
                    self.scope.expands = true;
                }
                _ => return Err("it uses `{env:…}` or `{file:…}`; write it with ${NAME}".to_owned()),
            }
        }
        if self.found.place.host == Host::Gemini {
            match fields.remove("httpUrl") {
                Some(url) => drop(fields.insert("url".to_owned(), url)),
                // There `url` is for SSE alone, and `$NAME` refers to a variable too.
                None if fields.contains_key("url") => drop(fields.insert("type".to_owned(), "sse".into())),
                None => {}
            }
            fields.values_mut().for_each(with_braces);
        }
        Ok(())
    }

    fn stdio(&mut self, command: &str) -> Result<Transport, String> {
        let mut args = self.list("args")?;
        let mut command = command.to_owned();
        // Some hosts pass the whole line to a shell.
        if args.is_empty() && command.contains(' ') && !Path::new(&command).exists() && !command.contains('"') {
            let mut words = command.split_whitespace().map(str::to_owned);
            let program = words.next().unwrap_or_default();
            args = words.collect();
            command = program;
            self.entry.notes.push("the command line was split at its spaces".to_owned());
        }
        if is_this_gateway(&command, &args) {
            return Err("it is ForgeFS itself".to_owned());
        }
        let cwd = self.text("cwd")?.map(|cwd| self.plain("cwd", &cwd));
        let cwd = cwd.map(|cwd| home_instead_of_tilde(&cwd)).or_else(|| self.project_folder(&command, &args));
        let command = self.program(&command);
        let mut written = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let previous = index.checked_sub(1).and_then(|before| args.get(before));
            let label = format!("args[{index}]");
            let parts = credentials::in_argument(previous.map(String::as_str), arg);
            written.push(self.with_credentials(&label, arg, parts));
        }
        let mut env = Vec::new();
        for (name, value) in self.table("env")? {
            let parts = credentials::in_variable(&name, &value);
            let text = self.with_credentials(&format!("env.{name}"), &value, parts);
            env.push((name, text));
        }
        for name in self.names("env_vars")? {
            match (self.credentials.real)(&name) {
                Some(_) => env.push((name.clone(), format!("${{{name}}}"))),
                None => self.lose(Loss::Passed(name)),
            }
        }
        Ok(Transport::Stdio { command, args: written, env, cwd })
    }

    fn http(&mut self, kind: &str, url: &str) -> Result<Transport, String> {
        let bare = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let legacy = kind == "sse" || (kind.is_empty() && bare.ends_with("/sse"));
        let parts = credentials::in_value(url);
        let url = self.with_credentials("url", url, parts);
        let mut headers = Vec::new();
        for (name, value) in self.table("headers")?.into_iter().chain(self.table("http_headers")?) {
            let parts = credentials::in_header(&name, &value);
            let text = self.with_credentials(&format!("headers.{name}"), &value, parts);
            headers.push((name, text));
        }
        for (name, variable) in self.table("env_http_headers")? {
            headers.push((name, self.reference(&variable)));
        }
        if let Some(variable) = self.text("bearer_token_env_var")? {
            let token = self.reference(&variable);
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        Ok(Transport::Http { legacy, url, headers })
    }

    fn switches(&mut self) -> Result<(), String> {
        let disabled = self.flag("disabled")?.unwrap_or(false);
        let enabled = self.flag("enabled")?.unwrap_or(true);
        self.entry.disabled = disabled || !enabled || self.found.disabled;
        Ok(())
    }

    fn times(&mut self) {
        let mut time = |name: &str, milliseconds: f64| {
            let value = self.fields.get(name)?.as_f64()? * milliseconds;
            self.fields.remove(name);
            // The range of forge.toml; a host's larger value means "long".
            Some(format!("{}ms", value.clamp(10.0, 3_600_000.0).round()))
        };
        let mut start = time("startup_timeout_sec", 1000.0).or_else(|| time("startup_timeout_ms", 1.0));
        if self.found.place.host == Host::OpenCode {
            start = start.or_else(|| time("timeout", 1.0));
        }
        let call = time("tool_timeout_sec", 1000.0);
        let call = match self.found.place.host {
            Host::ClaudeCode | Host::Gemini => call.or_else(|| time("timeout", 1.0)),
            _ => call,
        };
        (self.entry.connect_timeout, self.entry.timeout) = (start, call);
    }

    /// Translates a client that was registered manually.
    fn auth(&mut self) -> Result<(), String> {
        if !matches!(self.entry.transport, Transport::Http { .. }) {
            return Ok(());
        }
        let mut given = Map::new();
        for name in ["auth", "oauth"] {
            if let Some(Value::Object(table)) = self.fields.get(name) {
                given.extend(table.clone());
                self.fields.remove(name);
            }
        }
        if let Some(scopes) = self.fields.remove("scopes") {
            given.insert("scopes".to_owned(), scopes);
        }
        for (name, value) in given {
            match (name.to_lowercase().replace('_', "").as_str(), &value) {
                ("clientid", Value::String(id)) => {
                    let id = self.plain("auth.client_id", id);
                    self.entry.auth.push(("client_id", string(&id)));
                }
                ("clientsecret", Value::String(secret)) => {
                    let parts = credentials::whole("CLIENT_SECRET", secret);
                    let secret = self.with_credentials("auth.client_secret", secret, parts);
                    self.entry.auth.push(("client_secret", string(&secret)));
                }
                ("callbackport", Value::Number(port)) => self.entry.auth.push(("redirect_port", port.to_string())),
                ("scopes" | "scope", Value::String(scopes)) => {
                    let scopes: Vec<_> = scopes.split_whitespace().map(str::to_owned).collect();
                    self.entry.auth.push(("scopes", array(&scopes)));
                }
                ("scopes", Value::Array(scopes)) => {
                    let scopes: Vec<_> = scopes.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                    self.entry.auth.push(("scopes", array(&scopes)));
                }
                _ => self.lose(Loss::Login(name)),
            }
        }
        Ok(())
    }

    /// Base folder of relative paths among the arguments.
    fn project_folder(&self, command: &str, args: &[String]) -> Option<String> {
        let project = self.found.place.project.as_deref()?;
        let relative = |text: &String| {
            let path = Path::new(text);
            text.starts_with('.') || (!path.is_absolute() && !text.is_empty() && project.join(path).exists())
        };
        let needed = args.iter().any(relative) || command.starts_with('.');
        needed.then(|| if same(project, self.base) { ".".to_owned() } else { project.to_string_lossy().into_owned() })
    }

    /// A program; a relative path was relative to the project.
    fn program(&mut self, command: &str) -> String {
        let text = home_instead_of_tilde(&self.plain("command", command));
        match self.found.place.project.as_deref() {
            Some(project) if text.starts_with('.') && !same(project, self.base) && text.contains(is_separator) => {
                project.join(&text).to_string_lossy().into_owned()
            }
            _ => text,
        }
    }

    /// Takes a field of one type; null is none.
    fn field<T: DeserializeOwned>(&mut self, name: &str, other: &str) -> Result<Option<T>, String> {
        let value = self.fields.remove(name).unwrap_or_default();
        serde_json::from_value(value).map_err(|_| format!("`{name}` is {other}"))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        self.field(name, "not a string")
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>, String> {
        self.field(name, "neither true nor false")
    }

    fn list(&mut self, name: &str) -> Result<Vec<String>, String> {
        let items: Vec<Value> = self.field(name, "not an array")?.unwrap_or_default();
        let items: Option<Vec<String>> = items.iter().map(scalar).collect();
        items.ok_or_else(|| format!("`{name}` holds something else than strings"))
    }

    /// Names of variables; Codex also has a form with their source.
    fn names(&mut self, name: &str) -> Result<Vec<String>, String> {
        let Some(Value::Array(items)) = self.fields.remove(name) else { return Ok(Vec::new()) };
        let one = |item: &Value| item.get("name").or(Some(item))?.as_str().map(str::to_owned);
        let names: Option<Vec<String>> = items.iter().map(one).collect();
        names.ok_or_else(|| format!("`{name}` holds something else than names"))
    }

    fn table(&mut self, name: &str) -> Result<Vec<(String, String)>, String> {
        let table: Map<String, Value> = self.field(name, "not an object")?.unwrap_or_default();
        let mut values = Vec::new();
        for (key, value) in table {
            match scalar(&value) {
                Some(text) => values.push((key, text)),
                None if value.is_null() => self.entry.notes.push(format!("`{name}.{key}` has no value, left out")),
                None => return Err(format!("`{name}.{key}` is not a string")),
            }
        }
        Ok(values)
    }
}

/// Writes `$NAME` in the texts of a value as `${NAME}`.
fn with_braces(value: &mut Value) {
    match value {
        Value::String(text) => {
            let (mut out, mut rest) = (String::new(), text.as_str());
            while let Some((before, after)) = rest.split_once('$') {
                let length = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
                let is_name = after.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
                let (name, behind) = after.split_at(if is_name { length } else { 0 });
                out.push_str(&if is_name { format!("{before}${{{name}}}") } else { format!("{before}$") });
                rest = behind;
            }
            *text = out + rest;
        }
        Value::Array(items) => items.iter_mut().for_each(with_braces),
        Value::Object(fields) => fields.values_mut().for_each(with_braces),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// True for ForgeFS itself: `forgefs` behind `forgefs` would serve itself forever.
fn is_this_gateway(command: &str, args: &[String]) -> bool {
    let stem = |text: &str| {
        let name = text.rsplit(is_separator).next().unwrap_or_default().to_lowercase();
        name.strip_suffix(".exe").map_or_else(|| name.clone(), str::to_owned)
    };
    let program = stem(command);
    let launcher = matches!(program.as_str(), "cargo" | "cmd" | "env" | "npx" | "sh" | "bash" | "sudo" | "wsl");
    let is_sample = args.first().is_some_and(|arg| arg == "demo-server");
    (program == "forgefs" && !is_sample) || (launcher && args.iter().any(|arg| stem(arg) == "forgefs"))
}

fn home_instead_of_tilde(path: &str) -> String {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with(is_separator) => format!("${{HOME}}{rest}"),
        _ => path.to_owned(),
    }
}

fn same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(a) == real(b)
}
