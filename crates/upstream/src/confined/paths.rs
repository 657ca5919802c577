//! Real paths of what a server may reach, and whether the server itself could have moved them.
//!
//! A server that may write a folder could put a link, a `pyvenv.cfg` or a script there that leads elsewhere, and be
//! allowed to read that at its next start. Nothing that it could have written decides what it may read.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{dead, system};
use base::error::Error;

/// Most links on the way to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Real {
    pub(super) path: PathBuf,
    /// Links on the way.
    pub(super) links: Vec<PathBuf>,
}

/// Follows every link of an absolute path.
pub(super) fn resolve(path: &Path) -> io::Result<Real> {
    let mut pending: VecDeque<OsString> = parts(path).collect();
    let (mut at, mut links) = (PathBuf::from("/"), Vec::new());
    while let Some(part) = pending.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        if !fs::symlink_metadata(&next)?.is_symlink() {
            at = next;
            continue;
        }
        if links.len() == MAX_LINKS {
            return Err(io::Error::other("too many links"));
        }
        let target = fs::read_link(&next)?;
        links.push(next);
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(part);
        }
    }
    Ok(Real { path: at, links })
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// Paths that a program needs to read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    /// A real path.
    pub(super) path: PathBuf,
    /// Links and files that lead there.
    pub(super) because: Vec<PathBuf>,
}

/// Paths of the configuration.
pub(super) struct Folders {
    pub(super) read: BTreeSet<PathBuf>,
    pub(super) write: BTreeSet<PathBuf>,
    pub(super) named: BTreeSet<PathBuf>,
}

/// Real paths that a server may reach.
pub(super) struct Granted {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
}

impl Folders {
    /// Adds what the program needs. Its `scripts` are not for writing, although its arguments name them.
    pub(super) fn with(self, grants: Vec<Grant>, scripts: &BTreeSet<PathBuf>) -> Result<Granted, Error> {
        let read = real(&self.read, "read")?;
        let write = real(&self.write, "write")?;
        let named = self.named.iter().filter_map(|path| Some((path, resolve(path).ok()?)));
        let named: Vec<_> = named.filter(|(_, real)| !scripts.contains(&real.path)).collect();
        let written: Vec<PathBuf> = write.iter().chain(&named).map(|(_, real)| real.path.clone()).collect();
        let is_below = |path: &Path, root: &Path| path == root || path.parent().is_some_and(|at| at.starts_with(root));
        let could_write = |path: &Path| written.iter().find(|root| is_below(path, root));
        for (path, real) in read.iter().chain(&write).chain(&named) {
            if let Some((link, root)) = real.links.iter().find_map(|link| Some((link, could_write(link)?))) {
                let error = dead(format!(
                    "`{}` leads through the link {}, which the server could change, since it may write {}",
                    path.display(),
                    link.display(),
                    root.display()
                ));
                return Err(error.hint(format!("name {} itself in its `sandbox`", real.path.display())));
            }
        }
        let mut readable: Vec<PathBuf> = read.into_iter().map(|(_, real)| real.path).collect();
        let known: Vec<PathBuf> = [readable.clone(), written.clone(), system::readable()].concat();
        for Grant { path, because } in grants {
            let doubt = because.iter().find_map(|source| Some((source, could_write(source)?)));
            match doubt {
                Some(_) if known.iter().any(|known| path.starts_with(known)) => {}
                Some((source, root)) => {
                    let error = dead(format!(
                        "{} leads its program to {}, and the server could change it, since it may write {}",
                        source.display(),
                        path.display(),
                        root.display()
                    ));
                    return Err(
                        error.hint(format!("name {} in `read` of its `sandbox`, or let it write less", path.display()))
                    );
                }
                None => readable.push(path),
            }
        }
        Ok(Granted { read: readable, write: written })
    }
}

/// Real paths of paths that must exist.
fn real<'p>(paths: &'p BTreeSet<PathBuf>, key: &str) -> Result<Vec<(&'p PathBuf, Real)>, Error> {
    let real = |path: &'p PathBuf| match std::path::absolute(path).and_then(|path| resolve(&path)) {
        Ok(real) => Ok((path, real)),
        Err(error) => {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let error = dead(format!("`{}` in `{key}` of its `sandbox`", path.display())).caused_by(error);
            Err(match is_missing {
                true => error.hint("make it, or take it out: what is made later stays closed"),
                false => error,
            })
        }
    };
    paths.iter().map(real).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::slice;

    use super::*;

    fn set(paths: &[&Path]) -> BTreeSet<PathBuf> {
        paths.iter().map(|path| path.to_path_buf()).collect()
    }

    fn refused(folders: Folders, grants: Vec<Grant>) -> String {
        match folders.with(grants, &BTreeSet::new()) {
            Ok(granted) => panic!("{:?} {:?}", granted.read, granted.write),
            Err(error) => error.message,
        }
    }

    #[test]
    fn nothing_that_a_server_can_write_widens_what_it_may_read() {
        let home = tempfile::tempdir().expect("a folder");
        let home = fs::canonicalize(home.path()).expect("it exists");
        let [work, inner, secret] = ["work", "work/inner", "secret"].map(|name| home.join(name));
        fs::create_dir_all(&inner).expect("made");
        fs::create_dir(&secret).expect("made");
        let none = BTreeSet::new;
        // A plain folder in one that it may write.
        let folders = Folders { read: set(&[&inner]), write: set(&[&work]), named: none() };
        assert_eq!(
            folders.with(Vec::new(), &none()).map(|granted| granted.read).expect("plain"),
            slice::from_ref(&inner)
        );
        // The server has put a link in its place.
        fs::remove_dir(&inner).expect("removed");
        symlink(&secret, &inner).expect("linked");
        for folders in [
            Folders { read: set(&[&inner]), write: set(&[&work]), named: none() },
            Folders { read: none(), write: set(&[&work, &inner]), named: none() },
            Folders { read: none(), write: none(), named: set(&[&work, &inner.join("../secret")]) },
        ] {
            assert!(refused(folders, Vec::new()).contains("leads through the link"));
        }
        // The operator's own link, which the server cannot change.
        let link = home.join("link");
        symlink(&secret, &link).expect("linked");
        let folders = Folders { read: set(&[&link]), write: set(&[&work]), named: none() };
        assert_eq!(
            folders.with(Vec::new(), &none()).map(|granted| granted.read).expect("kept"),
            slice::from_ref(&secret)
        );
        // A program that a file of the server leads to.
        let grant = |path: &Path, because: &Path| Grant { path: path.to_owned(), because: vec![because.to_owned()] };
        let folders = || Folders { read: none(), write: set(&[&work]), named: none() };
        let written = work.join("pyvenv.cfg");
        assert!(refused(folders(), vec![grant(&secret, &written)]).contains("the server could change it"));
        let fine = vec![grant(Path::new("/usr/lib"), &written), grant(&secret, &home.join("pyvenv.cfg"))];
        assert_eq!(folders().with(fine, &none()).map(|granted| granted.read).expect("kept"), [secret]);
        let missing = Folders { read: set(&[&home.join("missing")]), write: none(), named: none() };
        assert!(refused(missing, Vec::new()).contains("missing` in `read` of its `sandbox`: No such file"));
    }

    #[test]
    fn links_are_followed_and_remembered_and_a_circle_ends() {
        let home = tempfile::tempdir().expect("a folder");
        let home = fs::canonicalize(home.path()).expect("it exists");
        fs::create_dir(home.join("a")).expect("made");
        symlink("a/../a", home.join("b")).expect("linked");
        symlink(home.join("b"), home.join("c")).expect("linked");
        let real = resolve(&home.join("c/./.")).expect("it exists");
        assert_eq!(real, Real { path: home.join("a"), links: vec![home.join("c"), home.join("b")] });
        symlink("circle", home.join("circle")).expect("linked");
        assert!(resolve(&home.join("circle")).is_err());
    }
}
