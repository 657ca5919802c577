//! Scripts in a folder that are tools of the server `scripts`, and the lock that says what each may do.

mod callable;
mod compare;
mod declared;
mod definition;
mod folder;
mod load;
mod lock;
mod returned;
mod saved;
mod write;

pub use callable::{Callable, Callables};
pub use compare::{Listed, differences, reason};
pub use declared::{Declared, declared};
pub use definition::definition;
pub use folder::{Folder, Refused, Source, ident};
pub use lock::{FILE, Lock, Locked, LockedCall, Use, in_file};
pub use saved::{Extension, Saved, Wanted, function, is_script_name};
pub use write::{CASSETTE, EXTENSIONS, further_tests, write};

/// Name of the server whose tools are scripts.
pub use config::SCRIPTS_SERVER as SERVER;

/// Scripts of a configuration with their lock: read together, and swapped with the configuration.
#[derive(Debug, Clone, Default)]
pub struct Scripts {
    /// The scripts, as they were read.
    pub folder: Folder,
    /// The lock; `None` without a file.
    pub lock: Option<Lock>,
}
