//! docs/servers-tried.md: written from what was seen, and read again to find what became worse.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    attempt::{End, Outcome},
    table::{Registry, Row},
};

pub(crate) const PATH: &str = "docs/servers-tried.md";

const HEAD: &str = "\
# Servers that were tried

`cargo xtask world` installs these servers from npm and PyPI, and tries each with the built executable, alone in a home of its own:
it connects, lists the tools, has the stubs checked by ty and tsc, looks for one of its tools among those of all servers by the
beginning of its description, and makes one call that only reads. The table of servers is
[tests/real/world.toml](https://github.com/forgefs/forgefs/blob/main/tests/real/world.toml). No server got a credential: those
that need an account came to where they ask for it, and what they said then is in the last column.

`sandbox` is the tightest that is known to bear the call, as `forge.toml` has it ([the sandbox](sandbox.md#servers)); for a server
that asks for an account it is the one to use it with. `{data}` and `{home}` are folders of the attempt. The machine of this run
reached package registries and nothing else, so that a call to a service ends where the service would be asked. A server of both
eras that is slow to answer the first probe, as on a busy machine, is spoken to in 2025-11-25.

";

/// The whole page.
pub(crate) fn write(seen: &[(&Row, &Outcome)]) -> String {
    let mut page = HEAD.to_owned();
    let date = seen.iter().map(|(_, outcome)| outcome.date.as_str()).max().unwrap_or_default();
    let count = |ends: &[End]| seen.iter().filter(|(_, outcome)| ends.contains(&outcome.end)).count();
    let _ = writeln!(
        page,
        "On {date}: {} servers with {} tools. {} were called, {} answered a call with an error, {} were listed only, {} did not \
         become ready.\n",
        seen.len(),
        seen.iter().map(|(_, outcome)| outcome.tools).sum::<usize>(),
        count(&[End::Called]),
        count(&[End::Refused]),
        count(&[End::Listed]),
        count(&[End::NotStarted]),
    );
    page += "| server | version | transport | revision | tools | sandbox | call | what was odd |\n";
    page += "|---|---|---|---|---|---|---|---|\n";
    for (row, outcome) in seen {
        let _ = writeln!(page, "{}", line(row, outcome));
    }
    page
}

fn line(row: &Row, outcome: &Outcome) -> String {
    let Outcome { end, revision, tools, says, odd, .. } = outcome;
    let registry = match row.from {
        Registry::Npm => "npm",
        Registry::Pypi => "PyPI",
    };
    let transport = match &row.url {
        None => "stdio",
        Some(url) if url.ends_with("/sse") => "HTTP+SSE",
        Some(_) => "HTTP",
    };
    let call = match (end, &row.call) {
        (End::NotStarted, _) => "not ready".to_owned(),
        (End::Called, Some(tool)) => format!("`{tool}`: done"),
        (End::Refused, Some(tool)) => format!("`{tool}`: error"),
        (_, _) => "none".to_owned(),
    };
    let needs = row.needs.as_ref().map(|needs| format!("needs {needs}"));
    let says = says.as_ref().map(|says| format!("says `{says}`"));
    let notes: Vec<String> = needs.into_iter().chain(row.odd.clone()).chain(says).chain(odd.clone()).collect();
    format!(
        "| {} | {registry} {} {} | {transport} | {revision} | {tools} | `{}` | {call} | {} |",
        row.name,
        row.package,
        row.version,
        row.sandbox(),
        notes.join("; ").replace('|', "/")
    )
}

/// A row of the page.
#[derive(Debug, PartialEq)]
struct Recorded {
    version: String,
    tools: usize,
    end: End,
    odd: String,
}

/// Servers of a page by name.
fn read(page: &str) -> BTreeMap<String, Recorded> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim().strip_prefix('|')?.split('|').map(str::trim).collect();
        let [name, version, _, _, tools, _, call, odd, _] = *cells else { return None };
        let end = match call {
            "not ready" => End::NotStarted,
            "none" => End::Listed,
            call if call.ends_with(": error") => End::Refused,
            call if call.ends_with(": done") => End::Called,
            _ => return None,
        };
        let recorded = Recorded { version: version.to_owned(), tools: tools.parse().ok()?, end, odd: odd.to_owned() };
        Some((name.to_owned(), recorded))
    };
    page.lines().filter_map(row).collect()
}

/// Marks of the last column that were no fault before and are one now.
const FAULTS: [&str; 4] = ["ty finds", "tsc finds", super::NOT_FOUND, "stubs generate failed"];

/// Regressions since `page` was written, a line each.
pub(crate) fn worse(page: &str, seen: &[(&Row, &Outcome)]) -> Vec<String> {
    let recorded = read(page);
    let mut worse = Vec::new();
    for (row, outcome) in seen {
        let name = &row.name;
        // The page's own writer, so that both are compared in one form.
        let (Some(then), Some(now)) = (recorded.get(name), read(&line(row, outcome)).remove(name)) else { continue };
        if now.end < then.end {
            let says = outcome.says.as_deref().unwrap_or("nothing");
            worse.push(format!("{name}: {:?} now, {:?} before; it says: {says}", now.end, then.end));
        }
        if now.tools < then.tools && now.version == then.version {
            worse.push(format!("{name}: {} tools now, {} before, at {}", now.tools, then.tools, now.version));
        }
        for fault in FAULTS.iter().filter(|fault| now.odd.contains(**fault) && !then.odd.contains(**fault)) {
            worse.push(format!("{name}: {fault} …, which it was not before"));
        }
    }
    worse
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "name = \"a\"\nfrom = \"npm\"\npackage = \"p\"\nversion = \"1\"\nprogram = \"p\"\nsandbox = \"pure\"\ncall = \"t\"";

    /// Regressions, and what is none, beside a page that has the first outcome.
    #[test]
    fn what_became_worse_is_found_in_the_page_itself() {
        let row: Row = toml::from_str(ROW).expect("a row");
        let seen = |end, tools, odd: &str, says: &str| Outcome {
            end,
            revision: "2026-07-28".to_owned(),
            tools,
            says: Some(says.to_owned()).filter(|says| !says.is_empty()),
            odd: Some(odd.to_owned()).filter(|odd| !odd.is_empty()).into_iter().collect(),
            query: None,
            date: "2026-11-26".to_owned(),
        };
        let page = write(&[(&row, &seen(End::Called, 3, "", ""))]);
        for (now, expected) in [
            (seen(End::Called, 3, "", "other words"), None),
            (seen(End::Called, 4, "a note", ""), None),
            (seen(End::Refused, 3, "", "no | `luck`"), Some("Refused now, Called before")),
            (seen(End::NotStarted, 3, "", ""), Some("NotStarted now, Called before")),
            (seen(End::Called, 2, "", ""), Some("2 tools now, 3 before")),
            (seen(End::Called, 3, "tsc finds 1 errors in its stubs", ""), Some("tsc finds")),
            (seen(End::Called, 3, crate::world::NOT_FOUND, ""), Some("search does not find it")),
        ] {
            let found = worse(&page, &[(&row, &now)]);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(found.iter().all(|line| line.contains(expected.unwrap_or_default())), "{found:?}");
        }
        let newer: Row = toml::from_str(&ROW.replace("\"1\"", "\"2\"")).expect("a row");
        assert!(worse(&page, &[(&newer, &seen(End::Called, 2, "", ""))]).is_empty());
    }
}
