//! Reads the file, which people may have edited: each mistake has its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::{FILE, Lock, Locked, LockedCall, VERSION, read};
use base::error::{Error, ErrorCode};
use base::files;
use base::limits;
use base::text::head;

/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;
/// Most bytes of the parser's message.
const MAX_TOLD: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct RawLock {
    version: Spanned<i64>,
    #[serde(default)]
    scripts: BTreeMap<Spanned<String>, RawLocked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct RawLocked {
    sha256: Spanned<String>,
    most_calls: Option<Spanned<i64>>,
    calls: Vec<Spanned<LockedCall>>,
    flows: Vec<Spanned<RawFlow>>,
    uses: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with from and to")]
struct RawFlow {
    from: String,
    to: String,
}

impl Lock {
    /// Reads the file at a path; `None` without one.
    ///
    /// # Errors
    /// A file that cannot be read, and the first mistake in one.
    pub fn load(path: &Path) -> Result<Option<Self>, Error> {
        let text = files::if_there(files::read_text(path, limits::SCRIPTS_LOCK.max as u64)).map_err(|error| {
            Error::new(ErrorCode::InvalidArgs, path.display().to_string())
                .caused_by(error)
                .hint("`forgefs scripts lock` writes it anew")
        })?;
        text.map(|text| Self::parse(&text)).transpose()
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let reader = Reader { text };
        let raw: RawLock = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.wrong(at, head(&error.message().replace('\n', "; "), MAX_TOLD))
        })?;
        if *raw.version.get_ref() != VERSION {
            let what = format!("version {} is not known, only {VERSION}", raw.version.get_ref());
            return Err(reader.wrong(raw.version.span().start, &what));
        }
        let mut scripts = BTreeMap::new();
        for (name, raw) in raw.scripts {
            let at = name.span().start;
            let name = name.into_inner();
            if !name.split('/').all(stubgen::is_tool_ident) {
                return Err(reader.wrong(at, &format!("{:?} is not the name of a script", head(&name, MAX_TOLD))));
            }
            if scripts.len() >= limits::SCRIPTS.max {
                return Err(reader.wrong(at, &format!("over {} scripts", limits::SCRIPTS.max)));
            }
            scripts.insert(name, reader.locked(raw)?);
        }
        Ok(Self { scripts })
    }
}

struct Reader<'t> {
    text: &'t str,
}

impl Reader<'_> {
    fn wrong(&self, offset: usize, what: &str) -> Error {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let hint = "write the file with `forgefs scripts lock`, and review what changes; it is not edited by hand";
        Error::new(ErrorCode::InvalidArgs, format!("{FILE}:{line}: {what}")).hint(hint)
    }

    fn locked(&self, raw: RawLocked) -> Result<Locked, Error> {
        let RawLocked { sha256, most_calls, calls, flows, uses } = raw;
        self.digest(sha256.span().start, sha256.get_ref())?;
        let most_calls = match most_calls {
            None => None,
            Some(most) => match u32::try_from(*most.get_ref()) {
                Ok(most) => Some(most),
                Err(_) => return Err(self.wrong(most.span().start, "`most_calls` must be a whole number from 0")),
            },
        };
        let mut sorted: BTreeMap<(String, String), LockedCall> = BTreeMap::new();
        for call in calls {
            let at = call.span().start;
            let call = call.into_inner();
            self.filled(at, &[&call.server, &call.tool])?;
            self.digest(at, &call.definition)?;
            if sorted.insert((call.server.clone(), call.tool.clone()), call).is_some() {
                return Err(self.wrong(at, "the tool is listed twice"));
            }
        }
        let mut pairs = BTreeSet::new();
        for flow in flows {
            let at = flow.span().start;
            let RawFlow { from, to } = flow.into_inner();
            self.filled(at, &[&from, &to])?;
            if !pairs.insert((from, to)) {
                return Err(self.wrong(at, "the flow is listed twice"));
            }
        }
        let mut used = BTreeSet::new();
        for text in uses {
            let Some(one) = read(text.get_ref()) else {
                let known = "stash, results, runs, discovery, resources:SERVER and prompts:SERVER";
                let what = format!("{:?} is no use; known are {known}", head(text.get_ref(), MAX_TOLD));
                return Err(self.wrong(text.span().start, &what));
            };
            if !used.insert(one) {
                return Err(self.wrong(text.span().start, "the use is listed twice"));
            }
        }
        Ok(Locked {
            sha256: sha256.into_inner(),
            calls: sorted.into_values().collect(),
            flows: pairs,
            uses: used,
            most_calls,
        })
    }

    fn filled(&self, at: usize, names: &[&String]) -> Result<(), Error> {
        match names.iter().any(|name| name.trim().is_empty() || name.len() > limits::NAME.max) {
            true => Err(self.wrong(at, "a name is empty or too long")),
            false => Ok(()),
        }
    }

    fn digest(&self, at: usize, text: &str) -> Result<(), Error> {
        match text.len() == DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            true => Ok(()),
            false => Err(self.wrong(at, &format!("expected {DIGITS} hexadecimal digits"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Use;
    use super::*;

    fn full() -> Lock {
        let call = |server: &str, tool: &str, writes| LockedCall {
            server: server.to_owned(),
            tool: tool.to_owned(),
            definition: "a".repeat(DIGITS),
            writes,
        };
        let locked = Locked {
            sha256: "0".repeat(DIGITS),
            calls: vec![call("shop", "a \"b\" \u{202e}\n", true), call("shop", "list", false)],
            flows: [("crm".to_owned(), "shop".to_owned())].into(),
            uses: [Use::Stash, Use::Resources("crm".to_owned())].into(),
            most_calls: Some(3),
        };
        let plain = Locked { sha256: "f".repeat(DIGITS), ..Locked::default() };
        Lock { scripts: [("billing/refund".to_owned(), locked), ("empty".to_owned(), plain)].into() }
    }

    #[test]
    fn a_written_lock_is_read_as_it_was_and_written_to_the_same_bytes() {
        let text = full().text();
        let read = Lock::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, full());
        assert_eq!(read.text(), text);
        assert!(text.contains(r"\U0000202E\U0000000A"), "{text}");
    }

    #[test]
    fn each_mistake_has_its_line() {
        let text = full().text();
        let digest = "0".repeat(DIGITS);
        for (from, to, told) in [
            ("version = 1", "version = 2", "scripts.lock:2: version 2 is not known, only 1"),
            ("version = 1\n", "", "missing field `version`"),
            ("[scripts.\"empty\"]", "[scripts.\"em pty\"]", "\"em pty\" is not the name of a script"),
            ("[scripts.\"empty\"]", "[scripts.\"billing/refund\"]", "duplicate key"),
            (digest.as_str(), "00", "scripts.lock:5: expected 64 hexadecimal digits"),
            ("most_calls = 3", "most_calls = -3", "scripts.lock:6: `most_calls` must be a whole number from 0"),
            ("most_calls", "most_cals", "scripts.lock:6: unknown field `most_cals`"),
            ("\"stash\"", "\"stach\"", "\"stach\" is no use; known are stash,"),
            ("\"stash\"", "\"resources:crm\"", "scripts.lock:16: the use is listed twice"),
            ("writes = true", "writes = 1", "invalid type"),
            ("from = \"crm\"", "from = \" \"", "scripts.lock:12: a name is empty or too long"),
            ("tool = \"list\"", "tool = \"a \\\"b\\\" \\u202e\\n\"", "scripts.lock:9: the tool is listed twice"),
        ] {
            let edited = text.replacen(from, to, 1);
            assert_ne!(edited, text, "{from}");
            let error = Lock::parse(&edited).expect_err(to);
            assert!(error.message.contains(told), "{to}: {error}");
        }
        assert!(Lock::parse(&"[".repeat(1 << 20)).is_err());
        assert!(Lock::parse("").is_err(), "an emptied lock is no lock");
    }
}
