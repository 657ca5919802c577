//! Finds cassettes, and the scripts beside them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use run::scripts::{CASSETTE, EXTENSIONS, further_tests};

/// Folders that have no scripts of one's own.
const SKIPPED: [&str; 2] = ["node_modules", "target"];
/// Most folders below each other.
const DEPTH: usize = 32;

/// The cassettes that these paths name.
pub(super) fn find(paths: &[PathBuf]) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    paths.iter().try_for_each(|path| add(path, DEPTH, &mut found))?;
    Ok(found)
}

fn add(path: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) -> Result<(), Failure> {
    // `.` and `./a.js` name one cassette.
    let path = path.strip_prefix("./").ok().filter(|path| *path != Path::new("")).unwrap_or(path);
    let wrong = |error: std::io::Error| Failure::of_path(path, error);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = fs::metadata(path).map_err(wrong)?;
    if kind.is_dir() {
        if depth == 0 {
            return Err(Failure::usage(format!("{}: over {DEPTH} folders below each other", path.display())));
        }
        for entry in fs::read_dir(path).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // A link may lead back up.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_skipped = name.starts_with('.') || SKIPPED.contains(&name.as_str());
            if (is_folder && !is_skipped) || (!is_folder && name.ends_with(CASSETTE)) {
                add(&entry.path(), depth - 1, found)?;
            }
        }
        return Ok(());
    }
    if name.ends_with(CASSETTE) {
        found.insert(path.to_owned());
        return Ok(());
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let cassette = path.with_file_name(format!("{stem}{CASSETTE}"));
    if !cassette.is_file() {
        return Err(Failure::usage(format!("{} has no cassette {}", path.display(), cassette.display()))
            .hint("`forgefs journal export RUN -o FILE` makes one of a recorded run"));
    }
    found.insert(cassette);
    let further = further_tests(&stem).map(|name| path.with_file_name(name));
    found.extend(further.filter(|cassette| cassette.is_file() && script_of(cassette).is_ok_and(|of| of == path)));
    Ok(())
}

/// The script beside a cassette.
pub(super) fn script_of(cassette: &Path) -> Result<PathBuf, Failure> {
    let name = cassette.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(CASSETTE).unwrap_or(name);
    let there = |stem: &str| {
        let paths = EXTENSIONS.map(|extension| cassette.with_file_name(format!("{stem}.{extension}")));
        paths.into_iter().filter(|path| path.is_file())
    };
    // NAME.2.cassette.json is a further test of NAME, unless a script has the name NAME.2.
    let is_further = |of: &str| there(stem).next().is_none() && further_tests(of).any(|test| test == name);
    let stem = stem.rsplit_once('.').map(|(of, _)| of).filter(|of| is_further(of)).unwrap_or(stem);
    let mut there = there(stem);
    match (there.next(), there.next()) {
        (Some(script), None) => Ok(script),
        (None, _) => Err(Failure::usage(format!("no script {stem}.js or the like is beside {}", cassette.display()))),
        (Some(one), Some(other)) => {
            Err(Failure::usage(format!("two scripts share a cassette: {} and {}", one.display(), other.display()))
                .hint("give each a name of its own"))
        }
    }
}
