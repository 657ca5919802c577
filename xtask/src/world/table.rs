//! tests/real/world.toml: the servers, and how each is started and called.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    server: Vec<Row>,
}

/// A package registry.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Registry {
    Npm,
    Pypi,
}

/// One server. `{data}` in its texts is a folder with a note and a git repository, `{home}` its home, `{port}` a port where
/// every path answers with a short page, `{own_port}` a free port.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) from: Registry,
    pub(crate) package: String,
    pub(crate) version: String,
    /// Further packages that it needs, with their versions.
    #[serde(default)]
    pub(crate) with: Vec<String>,
    /// Its executable in the installed folder.
    pub(crate) program: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Made-up values, never credentials.
    #[serde(default)]
    pub(crate) env: toml::Table,
    /// As in forge.toml: the tightest that the call passes under. A server with `url` has none, and one that bears none.
    pub(crate) sandbox: Option<toml::Value>,
    /// Where the started program serves, for a server on HTTP.
    pub(crate) url: Option<String>,
    /// A tool that only reads, and its arguments.
    pub(crate) call: Option<String>,
    #[serde(default)]
    pub(crate) arguments: toml::Table,
    /// Words of the called tool's description to search for, where its beginning says nothing of its purpose.
    pub(crate) query: Option<String>,
    /// Needs of the server before it does anything, such as a token.
    pub(crate) needs: Option<String>,
    /// A person's observations.
    pub(crate) odd: Option<String>,
    /// One of those that CI tries: its package is among those of tests/real.
    #[serde(default)]
    pub(crate) sample: bool,
}

/// Reads the table, in order of name.
pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<Row>> {
    let path = root.join("tests/real/world.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut rows = toml::from_str::<Table>(&text).with_context(|| format!("{} is wrong", path.display()))?.server;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in rows.windows(2) {
        if pair[0].name == pair[1].name {
            bail!("{} has two servers called {}", path.display(), pair[0].name);
        }
    }
    Ok(rows)
}

/// Values of the placeholders.
pub(crate) struct Places {
    pub(crate) data: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) port: u16,
    pub(crate) own_port: u16,
}

impl Places {
    pub(crate) fn fill(&self, text: &str) -> String {
        [
            ("{data}", self.data.display().to_string()),
            ("{home}", self.home.display().to_string()),
            ("{port}", self.port.to_string()),
            ("{own_port}", self.own_port.to_string()),
        ]
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

impl Row {
    /// Its sandbox, as the page shows it.
    pub(crate) fn sandbox(&self) -> String {
        self.sandbox.as_ref().map_or_else(|| "none".to_owned(), toml::Value::to_string)
    }

    /// A `forge.toml` with this server alone, under `sandbox`.
    pub(crate) fn config(&self, program: &Path, sandbox: Option<&str>, places: &Places) -> String {
        let mut text = format!("[servers.{:?}]\nconnect_timeout = \"100s\"\n", self.name);
        match &self.url {
            Some(url) => {
                let _ = writeln!(text, "url = {:?}", places.fill(url));
            }
            None => {
                let args: Vec<String> = self.args.iter().map(|arg| places.fill(arg)).collect();
                let env = places.fill(&toml::Value::Table(self.env.clone()).to_string());
                let _ = writeln!(text, "command = {program:?}\nargs = {args:?}\nenv = {env}");
            }
        }
        if let Some(sandbox) = sandbox {
            let _ = writeln!(text, "sandbox = {}", places.fill(sandbox));
        }
        text
    }

    /// Variables of the program where it is started here.
    pub(crate) fn variables(&self, places: &Places) -> Vec<(String, String)> {
        let value = |value: &toml::Value| places.fill(value.as_str().unwrap_or_default());
        self.env.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    pub(crate) fn arguments(&self, places: &Places) -> anyhow::Result<String> {
        let arguments: Value = self.arguments.clone().try_into().context("arguments are no JSON")?;
        Ok(places.fill(&arguments.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The goal of the task, and the five that CI tries.
    #[test]
    fn the_table_has_sixty_servers_at_exact_versions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let rows = read(&root).expect("the table can be read");
        assert!(rows.len() >= 60, "{}", rows.len());
        assert_eq!(rows.iter().filter(|row| row.sample).count(), 5);
        for Row { name, version, call, needs, odd, url, sandbox, .. } in &rows {
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{name}: {version}");
            assert!(call.is_some() || needs.is_some(), "{name} says neither what to call nor why not");
            assert!(url.is_none() || sandbox.is_none(), "{name}: who starts a server that has a url?");
            assert!(url.is_some() || sandbox.is_some() || odd.is_some(), "{name} says not why it has no sandbox");
        }
    }
}
