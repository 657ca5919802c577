//! One gateway for all clients of one configuration file, in a process of its own on a private Unix socket.
//!
//! `place.rs` has its files, `handshake.rs` the lines in which a process says what it wants, `host.rs` is the daemon,
//! `console.rs` opens the console, `link.rs` reaches the daemon, `launch.rs` starts it, and `proxy.rs` stands between a client on stdio and the daemon.

mod console;
mod handshake;
mod host;
mod launch;
mod link;
mod place;
mod proxy;
mod traffic;

pub use console::open_console;
pub use handshake::{Hello, Purpose, Speaker};
pub use host::{Answering, DRAIN, Host};
pub use launch::{Launch, ended, keep_log_short, start, state};
pub use link::{LinkError, ask};
pub use place::Place;
pub use proxy::Proxy;
