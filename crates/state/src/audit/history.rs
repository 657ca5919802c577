//! Reads a log: the records, runs that never ended, and all that a session had read before a record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use super::follow::Follower;
use super::record::{self, Read, Record};
use base::outcome::Outcome;

/// Readable records of a log file and its rotated files, oldest first, and the number of lines that are none. Runs that
/// sent a call and never ended get a record made of their calls.
///
/// # Errors
/// When there is no file, or it cannot be read.
pub fn records(path: &Path) -> io::Result<(Vec<Record>, u64)> {
    let mut broken = 0;
    let read = lines(path, |_| true, &mut broken)?;
    Ok((records_of(read), broken))
}

/// The record of one run; `None` if the log has none. Only lines that mention it are parsed.
///
/// # Errors
/// As of [`records`].
pub fn record(path: &Path, id: &str) -> io::Result<Option<Record>> {
    // As the recorder writes it: quotes in other texts are escaped.
    let (own, sent) = (format!("\"id\":\"{id}\""), format!("\"run\":\"{id}\""));
    let mentioned = lines(path, |line| line.contains(&own) || line.contains(&sent), &mut 0)?;
    Ok(records_of(mentioned).into_iter().rev().find(|record| record.id == id))
}

fn records_of(lines: Vec<record::Line>) -> Vec<Record> {
    let ended: HashSet<String> = lines.iter().filter_map(|line| Some(line.ended()?.id.clone())).collect();
    let mut records: Vec<Record> = Vec::new();
    let mut unfinished: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let (run, begun, call) = match line {
            record::Line::Ended(record) => {
                records.push(*record);
                continue;
            }
            record::Line::Sent(run, ..) if ended.contains(&run) => continue,
            record::Line::Sent(run, begun, call) => (run, *begun, *call),
        };
        let place = *unfinished.entry(run.clone()).or_insert_with(|| {
            records.push(Record {
                id: run,
                time: begun.time.clone(),
                outcome: Outcome::Unfinished,
                ..Record::default()
            });
            records.len() - 1
        });
        let record = &mut records[place];
        record.calls.push(call);
        // The first line of the run, which may stand behind one of a call that was made at the same time.
        if !begun.run.session.is_empty() {
            let (id, outcome, calls) =
                (std::mem::take(&mut record.id), record.outcome, std::mem::take(&mut record.calls));
            *record = Record { id, outcome, calls, ..begun };
        }
    }
    records
}

/// Stubs that a session had read before one of its records, by path, and the number of stubs no longer known. Each
/// record has those that are new since the last one.
pub fn had_read(path: &Path, record: &Record) -> (BTreeMap<String, Read>, u64) {
    // Number of the part → its new reads. A record repeats those of its run's first call.
    let mut parts: BTreeMap<u64, BTreeMap<String, Read>> = BTreeMap::new();
    let own = record.read_part.unwrap_or_default();
    let session = &record.run.session;
    let mark = format!("\"session\":\"{session}\"");
    let reads = |line: &str| line.contains(&mark) && line.contains("\"read_part\"");
    let lines = if own > 0 { lines(path, reads, &mut 0).unwrap_or_default() } else { Vec::new() };
    let of_session = lines.iter().map(record::Line::record).filter(|line| line.run.session == *session);
    for line in of_session.chain([record]) {
        let part = line.read_part.unwrap_or_default();
        if part <= own {
            parts.entry(part).or_default().extend(line.read.clone());
        }
    }
    let read = parts.into_values().reduce(|mut read, part| {
        read.extend(part);
        read
    });
    let read = read.unwrap_or_default();
    let missing = record.read_count.unwrap_or_default().saturating_sub(read.len() as u64);
    (read, missing)
}

/// Lines that may matter, as a look at their text says. One file, and one line, at a time: of the others nothing is kept.
/// Counts those that are `broken`.
fn lines(path: &Path, may_matter: impl Fn(&str) -> bool, broken: &mut u64) -> io::Result<Vec<record::Line>> {
    let mut found = Vec::new();
    std::fs::metadata(path)?;
    Follower::new(path.to_owned()).look(|line| {
        // A full disk leaves half a record, which may end inside a character.
        let text = String::from_utf8_lossy(line);
        if may_matter(&text) {
            match record::Line::read(&text) {
                Some(line) => found.push(line),
                None => *broken += 1,
            }
        }
    })?;
    Ok(found)
}
