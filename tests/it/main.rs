//! The integration tests: every one drives the real `forgefs` executable, with real worker processes.

mod client;
mod examples;
mod real;
mod real_servers;
