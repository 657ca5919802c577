//! ForgeFS: a code-mode MCP gateway. Any number of MCP servers behind four small tools.
//!
//! [`config`] is resolved as a whole. [`upstream`] connects, with the logins of [`auth`]. [`manifest`] holds the
//! servers' lists; [`catalog`] is built from it and swapped as one immutable value, and answers [`discovery`]. A script
//! goes from [`server`] or [`cli`] through [`gateway`] to a [`sandbox`] worker, whose only way out is the [`broker`],
//! which alone calls the [`router`]. `ARCHITECTURE.md` has the picture and the invariants.

mod address;
pub mod approvals;
pub mod audit;
pub mod auth;
pub mod broker;
pub mod catalog;
pub mod cli;
pub mod config;
mod confined;
pub mod console;
#[cfg(unix)]
mod daemon;
pub mod discovery;
pub mod effect;
pub mod error;
pub mod execution;
mod fetch;
mod files;
pub mod findings;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
pub mod journal;
pub mod json;
mod kept;
pub mod labels;
pub mod limits;
mod lines;
mod listener;
pub mod manifest;
mod memory;
mod meter;
mod openapi;
pub mod outcome;
mod panics;
mod parts;
pub mod pause;
mod people;
pub mod principal;
mod program;
pub mod proposals;
mod random;
pub mod redact;
mod registry;
pub mod reload;
pub mod replay;
pub mod router;
mod running;
pub mod runs;
pub mod sandbox;
pub mod scripts;
mod secrets;
pub mod server;
pub mod session;
pub mod shapes;
pub mod skills;
mod spawner;
pub mod spending;
pub mod state;
mod task;
pub mod telemetry;
mod text;
mod tls;
mod tree;
mod turns;
pub mod upstream;
mod yaml;
