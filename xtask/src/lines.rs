//! Counts production lines: lines with code of the product, without blank ones, comments and tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr as _;

use anyhow::{Context as _, anyhow, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::say;
use crate::tasks::Workspace;

/// Folders with crates of the product; a revision may lack some. In the first two, each folder is counted by itself.
const FOLDERS: [&str; 6] = ["src", "crates", "confine/src", "stubgen/src", "wire/src", "worker/src"];
/// The crate that only tests use.
const TESTS_ALONE: &str = "inputs";

impl Workspace {
    /// Prints the lines by crate and folder, and with a `revision` what they were then.
    pub(crate) fn lines(&self, revision: Option<&str>) -> anyhow::Result<()> {
        let now = count(&self.root)?;
        let before = revision.map(|revision| at(&self.root, revision)).transpose()?;
        let places: BTreeSet<&String> = now.keys().chain(before.iter().flat_map(BTreeMap::keys)).collect();
        for place in places {
            let lines = now.get(place).unwrap_or(&0);
            match &before {
                Some(before) => {
                    let then = before.get(place).unwrap_or(&0);
                    say::line(format_args!("{then:>7} {lines:>7} {:>+7}  {place}", difference(*then, *lines)));
                }
                None => say::line(format_args!("{lines:>7}  {place}")),
            }
        }
        Ok(())
    }
}

fn difference(then: usize, now: usize) -> i128 {
    now as i128 - then as i128
}

/// Lines at a revision of the repository.
fn at(root: &Path, revision: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let folder = tempfile::tempdir()?;
    let mut archive = Command::new("git");
    archive.args(["archive", revision]).current_dir(root);
    let mut archive = archive.stdout(Stdio::piped()).spawn().context("git")?;
    let files = archive.stdout.take().context("no output of git")?;
    tar::Archive::new(files).unpack(folder.path())?;
    match archive.wait()?.success() {
        true => count(folder.path()),
        false => bail!("git has no crates at {revision}"),
    }
}

/// Lines of each crate, of each folder where several crates or rooms stand in one, and of all.
fn count(root: &Path) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut counted = BTreeMap::new();
    for of in FOLDERS {
        let folder = root.join(of);
        if !folder.is_dir() {
            continue;
        }
        let (mut files, mut tests) = (Vec::new(), BTreeSet::from([folder.join(TESTS_ALONE)]));
        collect(&folder, &mut files)?;
        let mut lines = BTreeMap::new();
        for file in &files {
            let tokens = TokenStream::from_str(&fs::read_to_string(file)?);
            let tokens = tokens.map_err(|error| anyhow!("{}: {error}", file.display()))?;
            let mut code = Code { file, lines: BTreeSet::new(), tests: &mut tests };
            code.read(tokens);
            lines.insert(file, code.lines.len());
        }
        for (file, lines) in lines {
            if tests.iter().any(|test| file.starts_with(test) || *file == test.with_extension("rs")) {
                continue;
            }
            let place = match of.strip_suffix("/src") {
                Some(name) => name.to_owned(),
                None => {
                    let first = file.strip_prefix(&folder)?.components().next().context("a name")?;
                    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
                }
            };
            *counted.entry(place).or_default() += lines;
            *counted.entry("total".to_owned()).or_default() += lines;
        }
    }
    Ok(counted)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Lines of one file that have code.
struct Code<'f> {
    file: &'f Path,
    lines: BTreeSet<usize>,
    /// Files of tests, without extension, that a module names.
    tests: &'f mut BTreeSet<PathBuf>,
}

impl Code<'_> {
    fn read(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let attribute = match (&token, tokens.peek()) {
                (TokenTree::Punct(sign), Some(TokenTree::Group(group))) if sign.as_char() == '#' => {
                    Some(group.stream().to_string())
                }
                // `#![doc = …]`
                (TokenTree::Punct(sign), Some(TokenTree::Punct(bang)))
                    if sign.as_char() == '#' && bang.as_char() == '!' =>
                {
                    tokens.next();
                    tokens.peek().map(ToString::to_string)
                }
                _ => None,
            };
            match attribute {
                Some(doc) if doc.trim_start_matches('[').trim_start().starts_with("doc =") => drop(tokens.next()),
                Some(test) if is_test(&test) => {
                    tokens.next();
                    self.skip(&mut tokens);
                }
                _ => self.token(token),
            }
        }
    }

    fn token(&mut self, token: TokenTree) {
        match token {
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::None {
                    self.lines.extend([group.span_open().start().line, group.span_close().start().line]);
                }
                self.read(group.stream());
            }
            token => self.lines.extend(token.span().start().line..=token.span().end().line),
        }
    }

    /// Passes over the item that an attribute makes a test.
    fn skip(&mut self, tokens: &mut impl Iterator<Item = TokenTree>) {
        let mut before = String::new();
        for token in tokens {
            match &token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
                TokenTree::Punct(end) if matches!(end.as_char(), ';' | ',') => {
                    let module = before.rsplit_once("mod ").map(|(_, name)| name.trim());
                    let folder = match self.file.file_stem().and_then(|stem| stem.to_str()) {
                        Some("mod" | "lib" | "main") => self.file.parent().map(Path::to_owned),
                        _ => Some(self.file.with_extension("")),
                    };
                    self.tests.extend(module.zip(folder).map(|(module, folder)| folder.join(module)));
                    return;
                }
                token => before = format!("{before}{token} "),
            }
        }
    }
}

fn is_test(attribute: &str) -> bool {
    let attribute = attribute.replace(' ', "");
    attribute.starts_with("cfg(test") || attribute.starts_with("cfg(any(test") || attribute.starts_with("cfg(all(test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_no_lines() {
        let source = "//! A crate.\n#![allow(x)]\n\n/// Doc.\nfn f() -> u8 {\n    // why\n    let text = \"a\n// b\";\n\n    /* c\n */ 7\n}\n\
                      #[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"x\"]\nmod other {\n fn g() {}\n}\nstruct S(u8);\n";
        let mut tests = BTreeSet::new();
        let mut code = Code { file: Path::new("a/b.rs"), lines: BTreeSet::new(), tests: &mut tests };
        code.read(TokenStream::from_str(source).expect("Rust"));
        assert_eq!(Vec::from_iter(code.lines), [2, 5, 7, 8, 11, 12, 20]);
        assert_eq!(Vec::from_iter(tests), [Path::new("a/b/tests")]);
    }
}
