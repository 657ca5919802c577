//! Follows a log: each look takes the lines that came since the last one, over rotations.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::file::rotated;
use base::limits;
use base::lines::{self, Line};

/// A log that is being followed.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// The file that was read last, and the bytes read of it.
    at: Option<(u64, u64)>,
}

impl Follower {
    /// Follows the log at a path, from its oldest line.
    pub fn new(path: PathBuf) -> Self {
        Self { path, at: None }
    }

    /// Path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the whole lines that came since the last look, oldest first; one that is too long as an empty one. Nothing
    /// where there is no file. Lines of a file that was removed meanwhile are missing, and those of the others come again.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn look(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut files = Vec::new();
        // Newest first, up to the one that was read last.
        for path in std::iter::once(self.path.clone()).chain((1..).map(|number| rotated(&self.path, number))) {
            let file = match open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => match files.is_empty() && path == self.path {
                    // It is being rotated at this moment, or was never written.
                    true => continue,
                    false => break,
                },
                file => file?,
            };
            let metadata = file.metadata()?;
            // Another file takes its place at a rotation.
            let identity = metadata.ino();
            let known = self.at.filter(|(known, read)| *known == identity && *read <= metadata.len());
            files.push((file, identity, known.map_or(0, |(_, read)| read)));
            if known.is_some() {
                break;
            }
        }
        for (file, identity, from) in files.into_iter().rev() {
            let read = whole_lines(file, from, &mut take)?;
            self.at = Some((identity, from + read));
        }
        Ok(())
    }
}

/// Opens a file, but no pipe, which would have it wait.
fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Takes the whole lines of a file from a position on; returns their bytes.
fn whole_lines(mut file: File, from: u64, take: &mut impl FnMut(&[u8])) -> io::Result<u64> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = 0;
    lines::read(BufReader::new(file), limits::AUDIT_LINE.max, |line| {
        match line {
            Line::Whole(line) => {
                bytes += line.len() as u64 + 1;
                take(&line);
            }
            Line::Skipped { bytes: skipped, .. } => {
                bytes += skipped as u64 + 1;
                take(b"");
            }
        }
        Some(())
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn each_line_is_taken_once_over_rotations_and_half_lines_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let write = |path: &Path, text: &str| {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
            file.write_all(text.as_bytes()).expect("written");
        };
        let mut follower = Follower::new(path.clone());
        let mut look = || {
            let mut taken = String::new();
            follower.look(|line| taken += &format!("{},", String::from_utf8_lossy(line))).expect("read");
            taken
        };
        assert_eq!(look(), "", "no file yet");
        write(&rotated(&path, 2), "a\n");
        write(&rotated(&path, 1), "b\n");
        write(&path, "c\nhal");
        assert_eq!(look(), "a,b,c,");
        write(&path, "f\n");
        assert_eq!((look(), look()), ("half,".to_owned(), String::new()));
        write(&path, "d\n");
        for number in [2, 1] {
            std::fs::rename(rotated(&path, number), rotated(&path, number + 1)).expect("renamed");
        }
        std::fs::rename(&path, rotated(&path, 1)).expect("renamed");
        write(&path, "e\n");
        assert_eq!(look(), "d,e,", "what was written before the rotation, and after it");
    }
}
