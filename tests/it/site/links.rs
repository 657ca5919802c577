//! Links of a page in Markdown, and where they lead.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Files of this repository by their address.
const REPOSITORY: &str = "https://github.com/forgefs/forgefs/blob/main/";

/// Targets of the links and pictures of a page that are files of this repository.
pub(super) fn links(page: &str) -> Vec<String> {
    let text = without_code(page);
    let mut found = Vec::new();
    for (begin, end) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
        for part in text.split(begin).skip(1) {
            let target = part.split(end).next().unwrap_or_default();
            let is_elsewhere = target.contains("://") && !target.starts_with(REPOSITORY);
            if !is_elsewhere && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// Follows a link of a page to its file and heading.
pub(super) fn follow(root: &Path, page: &Path, link: &str) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = match path.strip_prefix(REPOSITORY) {
        Some(path) => PathBuf::from(path),
        None if path.is_empty() => page.to_owned(),
        None => normal(&page.parent().unwrap_or(Path::new("")).join(path))?,
    };
    if page.starts_with("docs") && !link.starts_with(REPOSITORY) && !file.starts_with("docs") {
        return Err(format!("it leaves the site: write {REPOSITORY}{}", file.display()));
    }
    if !root.join(&file).exists() {
        return Err(format!("there is no {}", file.display()));
    }
    if anchor.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(root.join(&file)).map_err(|error| error.to_string())?;
    match anchors(&text).contains(anchor) {
        true => Ok(()),
        false => Err(format!("{} has no heading #{anchor}", file.display())),
    }
}

/// The path without `..`.
fn normal(path: &Path) -> Result<PathBuf, String> {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !whole.pop() => return Err("it leaves the repository".to_owned()),
            Component::ParentDir | Component::CurDir => {}
            part => whole.push(part),
        }
    }
    Ok(whole)
}

/// Anchors of headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in outside_fences(page) {
        let Some(title) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let Some(title) = title.strip_prefix(' ') else { continue };
        let plain = title.trim().to_lowercase();
        let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}")).find(|next| !anchors.contains(next));
        anchors.insert(if anchors.contains(&anchor) { again.unwrap_or_default() } else { anchor });
    }
    anchors
}

fn outside_fences(page: &str) -> impl Iterator<Item = &str> {
    let mut is_open = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_open ^= is_fence;
        !is_open && !is_fence
    })
}

/// The text without fenced blocks and code between backquotes.
pub(super) fn without_code(page: &str) -> String {
    let text = outside_fences(page).collect::<Vec<_>>().join("\n");
    text.split('`').step_by(2).collect::<Vec<_>>().join("")
}

/// Code between backquotes, outside of fenced blocks, each on one line.
pub(super) fn code(page: &str) -> Vec<String> {
    let text = outside_fences(page).collect::<Vec<_>>().join(" ");
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn links_and_anchors_are_found() {
    let page = "# A `b`: c\n[x](y.md#z) `[no](code)`\n```\n[no](fence)\n```\n<img src=\"p.png\">\n## Again\n## Again\n";
    assert_eq!(links(page), ["y.md#z", "p.png"]);
    assert_eq!(code(page), ["b", "[no](code)"]);
    assert!(["a-b-c", "again", "again-1"].iter().all(|anchor| anchors(page).contains(*anchor)));
    let missing = follow(Path::new("/"), Path::new("docs/a.md"), "../README.md").expect_err("it leaves docs/");
    assert!(missing.contains(REPOSITORY), "{missing}");
}
