//! The documentation as a site: each block of a page runs or says why not, each link leads somewhere, and the summary has
//! each page.

mod blocks;
mod commands;
mod links;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::client::Fence;
use crate::docs::WRITE;
use blocks::{Block, blocks};
use commands::Helps;
use page::{Done, Page};

/// Reasons for a block that is not run. A test that covers it is one as well: `see tests/it/NAME.rs`.
const REASONS: [&str; 8] = [
    "needs a browser", "needs a container engine", "needs a release", "needs the network", "takes minutes",
    "is of another program", "is a picture", "is for a person to paste",
];

/// Pages beside those in docs/.
const BESIDE: [&str; 8] = [
    "README.md", "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "ROADMAP.md", "examples/README.md",
    "packaging/npm/README.md", "packaging/pypi/README.md",
];

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Paths of all pages, relative to the repository.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("docs/ is there");
    let names = docs.map(|entry| Path::new("docs").join(entry.expect("readable").file_name()));
    let mut pages: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    pages.extend(BESIDE.map(PathBuf::from));
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// What became of the blocks of a page, by kind or reason.
type Counts = BTreeMap<String, usize>;

#[test]
#[expect(clippy::print_stderr, reason = "the table of the pages is to be seen in the log")]
fn every_block_of_a_page_runs_or_says_why_not() {
    let only = std::env::var("FORGEFS_PAGE").ok();
    let pages: Vec<PathBuf> =
        pages().into_iter().filter(|page| only.as_ref().is_none_or(|only| page.ends_with(only))).collect();
    let (left, told, wrong) = (Mutex::new(pages), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let Some(page) = left.lock().expect("no thread panics").pop() else { return };
                    let (counts, mistakes) = check(&page);
                    told.lock().expect("no thread panics").push((page, counts));
                    wrong.lock().expect("no thread panics").extend(mistakes);
                }
            });
        }
    });
    let mut told = told.into_inner().expect("no thread panics");
    told.sort();
    for (page, counts) in told.iter().filter(|(_, counts)| !counts.is_empty()) {
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
        eprintln!("{}: {}", page.display(), counts.join(", "));
    }
    let all = told.iter().flat_map(|(_, counts)| counts);
    let run: usize = all.clone().filter(|(what, _)| !what.starts_with("not run")).map(|(_, count)| count).sum();
    let whole: usize = all.map(|(_, count)| count).sum();
    eprintln!("{run} of {whole} blocks are run or checked");
    let wrong = wrong.into_inner().expect("no thread panics");
    let hint = "`cargo xtask docs` writes the outputs of commands";
    assert!(wrong.is_empty(), "{} mistakes; {hint}\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(only.is_some() || run > 100, "only {run} blocks are run");
}

/// Runs or checks the blocks of one page, in order, in one fence.
fn check(path: &Path) -> (Counts, Vec<String>) {
    let text = read(path);
    let (mut counts, mut wrong) = (Counts::new(), Vec::new());
    let mut page = Page::new(Fence::new(), text.contains("<!-- test: no forge.toml -->"));
    let mut written = Vec::new();
    for block in blocks(&text) {
        let place = format!("{}:{}", path.display(), block.line);
        let done = match covered(path, &block) {
            Some(covered) => covered,
            None => page.run(&block),
        };
        match done {
            Ok(Done::Checked(what)) => *counts.entry(what).or_default() += 1,
            Ok(Done::Shown(shown)) => {
                *counts.entry("terminal".to_owned()).or_default() += 1;
                written.push((block, shown));
            }
            Err(mistake) => wrong.push(format!("{place}: {mistake}")),
        }
    }
    if std::env::var_os(WRITE).is_some() {
        let mut lines: Vec<&str> = text.lines().collect();
        for (block, shown) in written.iter().rev() {
            lines.splice(block.line..block.line + block.text.lines().count(), shown.lines());
        }
        let current = lines.join("\n") + "\n";
        if current != text {
            fs::write(root().join(path), current).expect("the page can be written");
        }
    }
    (counts, wrong)
}

/// A block that says why it is not run, or that another test runs.
fn covered(path: &Path, block: &Block) -> Option<Result<Done, String>> {
    let checked = |what: String| Some(Ok(Done::Checked(what)));
    if path == Path::new("docs/json.md") && block.language == "json" {
        return checked("tests/it/json_shapes.rs".to_owned());
    }
    let reason = block.reason.as_deref()?;
    if let Some(test) = reason.strip_prefix("see ") {
        return match root().join(test).is_file() && test.contains("tests/") && test.ends_with(".rs") {
            true => checked(test.to_owned()),
            false => Some(Err(format!("there is no test {test}"))),
        };
    }
    match REASONS.contains(&reason) {
        true => checked(format!("not run, {reason}")),
        false => Some(Err(format!("\"{reason}\" is none of the reasons of tests/it/site.rs"))),
    }
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in &pages {
        let text = read(page);
        for link in links::links(&text) {
            count += 1;
            if let Err(mistake) = links::follow(root(), page, &link) {
                wrong.push(format!("{}: {link}: {mistake}", page.display()));
            }
        }
    }
    assert!(count > 150 && wrong.is_empty(), "{count} links\n{}", wrong.join("\n"));
}

#[test]
fn every_command_in_a_sentence_is_there() {
    let (mut helps, mut count, mut wrong) = (Helps::new(), 0, Vec::new());
    for page in pages() {
        for span in links::code(&read(&page)) {
            let Some(words) = span.strip_prefix("forgefs ") else { continue };
            count += 1;
            if !helps.know(words) {
                wrong.push(format!("{}: `{span}`", page.display()));
            }
        }
    }
    assert!(count > 100 && wrong.is_empty(), "{count} commands, not there:\n{}", wrong.join("\n"));
}

/// mdBook and GitHub drop tags that they do not know, and the text in them looks empty.
#[test]
fn no_page_has_tags_by_mistake() {
    const KNOWN: [&str; 5] = ["picture", "/picture", "source", "img", "!--"];
    let mut wrong = Vec::new();
    for page in pages() {
        let text = links::without_code(&read(&page));
        for (at, _) in text.match_indices('<') {
            let (before, tag) = (&text[..at], &text[at + 1..]);
            let is_tag = tag.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'));
            let is_link = tag.starts_with("http");
            if is_tag && !is_link && !before.ends_with('\\') && !KNOWN.iter().any(|known| tag.starts_with(known)) {
                wrong.push(format!("{}: <{}", page.display(), tag.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_summary_has_each_page_once() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<PathBuf> = links::links(&summary).iter().map(|link| Path::new("docs").join(link)).collect();
    listed.push("docs/SUMMARY.md".into());
    listed.sort();
    let pages: Vec<PathBuf> = pages().into_iter().filter(|page| page.starts_with("docs")).collect();
    assert_eq!(listed, pages);
}

#[test]
fn the_readme_fits_three_screens() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= 150, "{lines} lines, 150 at most");
}

/// Figures of the README are rows of tables that commands write.
#[test]
fn the_figures_of_the_readme_are_in_the_benchmarks() {
    let (readme, benchmarks) = (read(Path::new("README.md")), read(Path::new("docs/benchmarks.md")));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let table = benchmarks.split("tokens -->").nth(1).expect("the table of tokens");
    let table: BTreeMap<String, Vec<String>> =
        table.lines().map(cells).filter(|row| row.len() > 8).map(|row| (row[1].clone(), row)).collect();
    let shown = readme.split("| tools behind it |").nth(1).expect("the table of tokens");
    let rows: Vec<_> = shown.lines().skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    for row in &rows {
        let measured = table.get(&row[1]).unwrap_or_else(|| panic!("no row {row:?}"));
        assert_eq!(row[2..5], measured[6..9], "plain in all, ForgeFS in all, saved");
    }
    assert_eq!(rows.len(), 5);
    let surface = benchmarks.split("and the instructions: ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(surface.is_some_and(|tokens| readme.contains(&format!("{tokens} tokens"))), "{surface:?}");
}
