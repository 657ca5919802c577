//! ForgeFS: a code-mode MCP gateway. Any number of MCP servers behind four small tools.
//!
//! Rooms, each of which uses only those before it: [`base`], [`redact`], [`config`], [`state`], [`upstream`], [`catalog`],
//! [`run`], [`server`], [`cli`]. `ARCHITECTURE.md` has the picture, the way of a call and the invariants.

pub mod base;
pub mod catalog;
pub mod cli;
pub mod config;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod redact;
pub mod run;
pub mod server;
pub mod state;
pub mod upstream;
