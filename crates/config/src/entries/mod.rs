//! Entries of servers to write: from the words of a person, or from the file of another host. Credentials among their values
//! become references to variables.
//!
//! `typed` takes words, `translate` a server of another host; both make an `entry`. `credentials`, `hidden` and `spelling`
//! find credentials in values, `references` translates `${…}`, `loss` has what an entry lacks, `names` what others are called
//! from then on.

mod credentials;
mod entry;
mod hidden;
mod host;
mod loss;
mod names;
mod references;
mod spelling;
mod translate;
mod typed;

pub use credentials::Credentials;
pub use entry::{Entry, Transport, key, plain};
pub use host::{Found, Host, Place};
pub use loss::Loss;
pub use names::Names;
pub use references::{Input, variables};
pub use spelling::Known;
pub use translate::entry as translated;
pub use typed::{Surroundings, Words, masked, typed};
