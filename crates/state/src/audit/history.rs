//! Reads a log: the records, runs that never ended, and all that a session had read before a record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::file;
use base::limits;
use base::lines::{self, Line};

/// Outcome of a run without an end on record: it is still running, or its gateway was killed.
pub const UNFINISHED: &str = "unfinished";

/// Readable records of a log file and its rotated files, oldest first. Runs that sent a call and never ended get a
/// record made of their calls.
///
/// # Errors
/// When there is no file, or it cannot be read.
pub fn records(path: &Path) -> io::Result<Vec<Value>> {
    Ok(records_of(lines(path, |_| true)?))
}

/// The record of one run; `None` if the log has none. Only lines that mention it are parsed.
///
/// # Errors
/// As of [`records`].
pub fn record(path: &Path, id: &str) -> io::Result<Option<Value>> {
    // As the recorder writes it: quotes in other texts are escaped.
    let (own, sent) = (format!("\"id\":\"{id}\""), format!("\"run\":\"{id}\""));
    let mentioned = lines(path, |line| line.contains(&own) || line.contains(&sent))?;
    Ok(records_of(mentioned).into_iter().rev().find(|record| text(record, "id") == id))
}

fn records_of(lines: Vec<Value>) -> Vec<Value> {
    let is_sent = |line: &Value| line.get("event").is_some();
    let ended: HashSet<String> =
        lines.iter().filter(|line| !is_sent(line)).map(|line| text(line, "id").to_owned()).collect();
    let mut records: Vec<Value> = Vec::new();
    let mut unfinished: HashMap<String, usize> = HashMap::new();
    for line in lines {
        if !is_sent(&line) {
            records.push(line);
            continue;
        }
        let run = text(&line, "run").to_owned();
        if ended.contains(&run) || run.is_empty() {
            continue;
        }
        let place = *unfinished.entry(run.clone()).or_insert_with(|| {
            records.push(json!({"id": run, "outcome": UNFINISHED, "calls": []}));
            records.len() - 1
        });
        if let Some(record) = records[place].as_object_mut() {
            add_sent(record, line);
        }
    }
    records
}

/// Adds a sent call to the record of its run, and with the first one the description of the run.
fn add_sent(record: &mut Map<String, Value>, line: Value) {
    const OF_CALL: [&str; 6] = ["server", "tool", "args", "args_hash", "verdict", "args_bytes"];
    let Value::Object(mut line) = line else { return };
    let mut call: Map<String, Value> =
        OF_CALL.iter().filter_map(|key| Some(((*key).to_owned(), line.remove(*key)?))).collect();
    call.insert("outcome".to_owned(), "unknown".into());
    if let Some(calls) = record.get_mut("calls").and_then(Value::as_array_mut) {
        calls.push(call.into());
    }
    ["event", "run", "call"].iter().for_each(|key| drop(line.remove(*key)));
    let is_first = line.contains_key("session");
    for (key, value) in line {
        if is_first || !record.contains_key(&key) {
            record.insert(key, value);
        }
    }
}

/// Stubs that a session had read before one of its records, by path, and the number of stubs no longer known. Each
/// record has those that are new since the last one.
#[must_use]
pub fn had_read(path: &Path, record: &Value) -> (BTreeMap<String, Value>, u64) {
    // Number of the part → its new reads. A record repeats those of its run's first call.
    let mut parts: BTreeMap<u64, BTreeMap<String, Value>> = BTreeMap::new();
    let own = record.get("read_part").and_then(Value::as_u64).unwrap_or_default();
    let session = text(record, "session");
    let mark = format!("\"session\":\"{session}\"");
    let reads = |line: &str| line.contains(&mark) && line.contains("\"read_part\"");
    let lines = if own > 0 { lines(path, reads).unwrap_or_default() } else { Vec::new() };
    let of_session = lines.iter().filter(|line| text(line, "session") == text(record, "session"));
    for line in of_session.chain([record]) {
        let part = line.get("read_part").and_then(Value::as_u64).unwrap_or_default();
        if part <= own {
            let read = line.get("read").and_then(Value::as_object).into_iter().flatten();
            parts.entry(part).or_default().extend(read.map(|(path, seen)| (path.clone(), seen.clone())));
        }
    }
    let read = parts.into_values().reduce(|mut read, part| {
        read.extend(part);
        read
    });
    let read = read.unwrap_or_default();
    let count = record.get("read_count").and_then(Value::as_u64).unwrap_or_default();
    let missing = count.saturating_sub(read.len() as u64);
    (read, missing)
}

/// Lines that may matter, as a look at their text says. One file, and one line, at a time: of the others nothing is kept.
fn lines(path: &Path, may_matter: impl Fn(&str) -> bool) -> io::Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut rotated: Vec<PathBuf> =
        (1..).map(|number| file::rotated(path, number)).take_while(|p| p.exists()).collect();
    rotated.reverse();
    for path in rotated.iter().map(PathBuf::as_path).chain([path]) {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        lines::read(BufReader::new(File::open(path)?), limits::AUDIT_LINE.max, |line| {
            if let Line::Whole(line) = line {
                // A full disk leaves half a record, which may end inside a character.
                let text = String::from_utf8_lossy(&line);
                found.extend(may_matter(&text).then(|| serde_json::from_str::<Value>(&text).ok()).flatten());
            }
            Some(())
        })?;
    }
    Ok(found)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
