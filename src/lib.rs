//! ForgeFS: a code-mode MCP gateway. Any number of MCP servers behind four small tools.
//!
//! This crate is the command line. The crates below it use only those before them: [`base`], [`redact`], [`config`],
//! [`state`], [`upstream`], [`catalog`], [`run`], [`server`]. `ARCHITECTURE.md` has the picture, the way of a call and
//! the invariants.

pub mod cli;

pub use {base, catalog, config, redact, run, server, state, upstream};
