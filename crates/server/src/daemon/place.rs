//! Files of the daemon of a configuration: socket, log and locks, in a folder that only its user can enter.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use tokio::net::{UnixListener, UnixStream};

use base::files;

/// Bytes of a socket's path that every system takes.
const SOCKET_PATH: usize = 100;
/// Digits of the digest in file names.
const DIGITS: usize = 16;

/// Place of the daemon of one configuration.
#[derive(Debug, Clone)]
pub struct Place {
    /// The configuration file in its canonical folder. A link stays: relative paths are resolved from its folder.
    pub config: PathBuf,
    folder: PathBuf,
    name: String,
}

impl Place {
    /// The place of the daemon of `config` in the state folder.
    ///
    /// # Errors
    /// When the file does not exist.
    pub fn of(state: &Path, config: &Path) -> io::Result<Self> {
        let wrong = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", config.display()));
        fs::metadata(config).map_err(wrong)?;
        let folder = match config.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let name = config.file_name().ok_or_else(|| wrong(io::ErrorKind::InvalidFilename.into()))?;
        let config = fs::canonicalize(folder).map_err(wrong)?.join(name);
        let mut name = stubgen::digest(&*config.to_string_lossy());
        name.truncate(DIGITS);
        Ok(Self { config, folder: state.join("daemon"), name })
    }

    /// Makes the folder, which no other user may enter.
    fn make_folder(&self) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

        files::make_own_folder(&self.folder)?;
        if fs::metadata(&self.folder)?.mode() & 0o077 != 0 {
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Its log; the previous one has `.1` behind it.
    pub fn log(&self) -> PathBuf {
        self.file("log")
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Takes the lock that the daemon holds as long as it lives; `None` if another process has it.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn hold(&self) -> io::Result<Option<Held>> {
        let Some(mut file) = self.lock("lock")? else { return Ok(None) };
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Held { _file: file }))
    }

    /// Takes the lock of a process that starts the daemon; `None` if another one starts it.
    ///
    /// # Errors
    /// As [`Place::hold`].
    pub fn begin(&self) -> io::Result<Option<File>> {
        self.lock("start")
    }

    /// Process id of the daemon; `None` if none lives.
    ///
    /// # Errors
    /// As [`Place::hold`].
    pub fn holder(&self) -> io::Result<Option<Pid>> {
        let mut file = self.open("lock")?;
        if files::try_lock(&file)? {
            return Ok(None);
        }
        let mut text = String::new();
        file.rewind()?;
        file.take(32).read_to_string(&mut text)?;
        // Empty for a moment after it was taken.
        Ok(Some(Pid::from_raw(text.trim().parse().unwrap_or(0))))
    }

    fn lock(&self, kind: &str) -> io::Result<Option<File>> {
        let file = self.open(kind)?;
        Ok(files::try_lock(&file)?.then_some(file))
    }

    fn open(&self, kind: &str) -> io::Result<File> {
        let path = self.file(kind);
        self.make_folder()
            .and_then(|()| files::open_private(&path, files::private().read(true).write(true).create(true)))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Listens on the socket, in place of one that a dead daemon left. The lock is what makes this one the only one.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(&self, _held: &Held) -> io::Result<UnixListener> {
        use std::os::unix::fs::PermissionsExt as _;

        self.unlink();
        let (_folder, path) = self.short()?;
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(self.socket(), fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Removes the socket.
    pub fn unlink(&self) {
        let _ = fs::remove_file(self.socket());
    }

    /// Connects to the socket; `None` if nothing listens. The other end is a process of this user.
    ///
    /// # Errors
    /// When it cannot be reached for another reason, or belongs to another user.
    pub async fn connect(&self) -> io::Result<Option<UnixStream>> {
        match files::check_folder(&self.folder) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            checked => checked?,
        }
        let (_folder, path) = self.short()?;
        match UnixStream::connect(path).await {
            Ok(stream) => check_peer(&stream).map(|()| Some(stream)),
            // Reset: a daemon that ends closes its socket with this connection unaccepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A path of the socket that is short enough for the system, with the open folder that it may go through.
    fn short(&self) -> io::Result<(Option<File>, PathBuf)> {
        let path = self.socket();
        let bytes = path.as_os_str().len();
        if bytes <= SOCKET_PATH {
            return Ok((None, path));
        }
        if cfg!(target_os = "linux") {
            use std::os::fd::AsRawFd as _;
            let folder = File::open(&self.folder)?;
            let short = format!("/proc/self/fd/{}/{}.sock", folder.as_raw_fd(), self.name);
            return Ok((Some(folder), PathBuf::from(short)));
        }
        let what = format!(
            "the path of the socket has {bytes} bytes, over the limit of {SOCKET_PATH} bytes: {}; set XDG_STATE_HOME \
             to a folder with a shorter path",
            path.display()
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }
}

/// The daemon's lock, until dropped.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

/// Accepts a peer of this user alone.
///
/// # Errors
/// `PermissionDenied` for another user's process.
pub(super) fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let (theirs, ours) = (stream.peer_cred()?.uid(), nix::unistd::geteuid().as_raw());
    if theirs == ours {
        return Ok(());
    }
    let what = format!("the process at the other end belongs to another user (uid {theirs}, this is uid {ours})");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_closes_meanwhile_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("forge.toml");
        fs::write(&config, "").expect("it can be written");
        let place = Place::of(folder.path(), &config).expect("a place");
        let held = place.hold().expect("the lock").expect("free");
        for _ in 0..2_000 {
            let listener = place.listen(&held).expect("it listens");
            let closing = std::thread::spawn(move || drop(listener));
            let _either = place.connect().await.expect("a stream or none");
            closing.join().expect("it ends");
        }
    }
}
