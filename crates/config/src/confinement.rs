//! `sandbox` of a server: what a process that is started here may do.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use confine::server::LayerName;

use super::Transport;
use super::diff::is_raised;
use super::error::ConfigError;
use super::key::Key;
use super::raw::{RawConfinement, RawConfinementTable};
use super::units::{GIB, MIB};
use super::words::{Words, layers, words};

/// Rights of a server's process besides running its program: the `sandbox` of its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Files and folders that it may read.
    pub read: BTreeSet<PathBuf>,
    /// Files and folders that it may read and change.
    pub write: BTreeSet<PathBuf>,
    /// As `write`, as far as they exist: paths that its `cwd` and arguments name, by the preset `files`.
    pub named: BTreeSet<PathBuf>,
    /// True if it may use the network.
    pub network: bool,
    /// Most bytes of memory.
    pub memory: Option<u64>,
    /// Most processes and threads.
    pub processes: Option<u32>,
    /// Layers without which it does not start.
    pub require: BTreeSet<LayerName>,
}

/// Rights of a server without a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Preset {
    /// Its program, and a temporary folder of its own.
    #[default]
    Pure,
    /// Also its `cwd`, and the paths that its arguments name.
    Files,
    /// Also the network, but no files.
    Net,
}

words!(Preset: "pure" = Pure, "files" = Files, "net" = Net);

/// Value of `network`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    None,
    Any,
}

words!(Network: "none" = None, "any" = Any);

/// Resolves the key of a server with this transport.
pub(super) fn confinement(
    key: &Key<'_>,
    raw: Option<RawConfinement>,
    transport: &Transport,
) -> Result<Option<Confinement>, ConfigError> {
    let Some(raw) = raw else { return Ok(None) };
    let Transport::Stdio { args, cwd, .. } = transport else {
        let error = key.at_key("not a key of a server that is reached by `url`");
        return Err(error.with_hint("it runs elsewhere: only a process that is started here can be confined here"));
    };
    let (raw, preset_key) = match raw {
        RawConfinement::Text(preset) => {
            (RawConfinementTable { preset: Some(preset), ..RawConfinementTable::default() }, None)
        }
        RawConfinement::Table(table) => (*table, Some(key.key("preset"))),
    };
    let preset = preset_key.as_ref().unwrap_or(key).word(raw.preset)?.unwrap_or_default();
    let network = match raw.network {
        Some(word) => key.key("network").word(Some(word))? == Some(Network::Any),
        None => preset == Preset::Net,
    };
    let named = if preset == Preset::Files { named(args, cwd.as_deref()) } else { BTreeSet::new() };
    let memory = key.key("memory").size(raw.memory, 16 * MIB..=1024 * GIB)?;
    let processes = key.key("processes").count(raw.processes, 1..=100_000)?;
    let require = key.key("require").word_list(raw.require)?;
    let require: BTreeSet<LayerName> = require.into_iter().flatten().copied().collect();
    for (layer, name, is_set) in
        [(LayerName::Memory, "memory", memory.is_some()), (LayerName::Processes, "processes", processes.is_some())]
    {
        // Of "all" they are a part only where they are set.
        if !is_set && require.contains(&layer) && !require.contains(&LayerName::Landlock) {
            let error = key.key("require").at_value(format!("requires `{name}`, which is not set"));
            return Err(error.with_hint(format!("set `{name}` beside it")));
        }
    }
    let require = require.into_iter().filter(|layer| match layer {
        LayerName::Memory => memory.is_some(),
        LayerName::Processes => processes.is_some(),
        _ => true,
    });
    Ok(Some(Confinement {
        read: key.key("read").each(raw.read, Key::path)?,
        write: key.key("write").each(raw.write, Key::path)?,
        named,
        network,
        memory,
        processes,
        require: require.collect(),
    }))
}

/// `cwd`, and the absolute paths of arguments and of their values (`--root=/data`). The operator's own: those of a client's
/// variables are not among them.
fn named(args: &[String], cwd: Option<&Path>) -> BTreeSet<PathBuf> {
    let args = args.iter().flat_map(|arg| [Some(arg.as_str()), arg.split_once('=').map(|(_, value)| value)]);
    let paths = args.flatten().map(Path::new).filter(|path| path.is_absolute());
    paths.chain(cwd).map(Path::to_owned).collect()
}

/// Layers by one word.
pub(super) type Layers = &'static [LayerName];

impl Words for Layers {
    fn words() -> Vec<(&'static str, Self)> {
        layers(LayerName::ALL)
    }
}

impl Confinement {
    /// Rows for [`Widened`](super::Widened): keys, and whether `next` allows more in them.
    pub(super) fn widened_by(&self, next: &Self) -> [(&'static str, &'static str, bool); 7] {
        let Self { read, write, named, network, memory, processes, require } = self;
        let holds = |paths: &[&BTreeSet<PathBuf>], path: &PathBuf| {
            // Where `..` leads depends on links.
            let is_plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
            let mut known = paths.iter().flat_map(|paths| paths.iter());
            known.any(|known| path == known || is_plain(path) && is_plain(known) && path.starts_with(known))
        };
        [
            ("read", "widened", next.read.iter().any(|path| !holds(&[read, write, named], path))),
            ("write", "widened", next.write.iter().any(|path| !holds(&[write, named], path))),
            ("preset", "weaker", next.named.iter().any(|path| !holds(&[write, named], path))),
            ("network", "opened", next.network && !network),
            ("memory", "raised", is_raised(*memory, next.memory)),
            ("processes", "raised", is_raised(*processes, next.processes)),
            ("require", "shrunk", !require.is_subset(&next.require)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Server, Widened};

    fn config(sandbox: &str) -> Config {
        let text = format!("[servers.a]\ncommand = \"a\"\nargs = [\"/data\"]\n{sandbox}\n");
        Config::parse(&text, Path::new("/etc/forge.toml"), &|_| None).expect("valid")
    }

    #[test]
    fn an_edit_that_loosens_a_sandbox_widens() {
        for (now, next, summary) in [
            ("", "sandbox = \"net\"", ""),
            ("sandbox = \"net\"", "sandbox = \"pure\"", ""),
            ("sandbox = \"files\"", "sandbox = { read = [\"/data/x\"] }", ""),
            ("sandbox = { read = [\"/a\"] }", "sandbox = { read = [\"/a/b\"], memory = \"1GiB\" }", ""),
            ("sandbox = \"pure\"", "", "servers.a.sandbox (removed)"),
            ("sandbox = \"pure\"", "sandbox = \"net\"", "servers.a.sandbox.network (opened)"),
            ("sandbox = \"pure\"", "sandbox = \"files\"", "servers.a.sandbox.preset (weaker)"),
            ("sandbox = { read = [\"/a\"] }", "sandbox = { write = [\"/a\"] }", "servers.a.sandbox.write (widened)"),
            ("sandbox = { read = [\"/a\"] }", "sandbox = { read = [\"/a/../b\"] }", "servers.a.sandbox.read (widened)"),
            ("sandbox = { memory = \"1GiB\" }", "sandbox = \"pure\"", "servers.a.sandbox.memory (raised)"),
            ("sandbox = { processes = 2 }", "sandbox = { processes = 3 }", "servers.a.sandbox.processes (raised)"),
            ("sandbox = { require = [\"all\"] }", "sandbox = \"pure\"", "servers.a.sandbox.require (shrunk)"),
        ] {
            let widened = Widened::between(&config(now), &config(next));
            assert_eq!(widened.summary(), summary, "{now} -> {next}");
        }
    }

    #[test]
    fn files_are_those_of_the_arguments_and_the_working_directory() {
        let config = config("cwd = \"here\"\nsandbox = \"files\"");
        let Server { sandbox: Some(sandbox), .. } = &config.servers["a"] else { panic!("confined") };
        assert_eq!(sandbox.named, [Path::new("/data"), Path::new("/etc/here")].map(Into::into).into());
        assert!(sandbox.write.is_empty() && !sandbox.network);
    }
}
