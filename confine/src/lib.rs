//! What a process of ForgeFS gives up before it runs foreign code.
//!
//! - [`worker`]: the layers of a sandbox worker and of a checker, which need nothing but their pipes.
//! - [`server`]: those of an MCP server, which needs its program, and what its operator allows: entry of `forgefs
//!   confined`.
//! - [`folder`]: removes what such a server leaves on disk.
//! - [`cgroup`]: memory and number of processes of a server with all its children.
//! - `filter`: filters of system calls.

#[cfg(target_os = "linux")]
pub mod cgroup;
#[cfg(target_os = "linux")]
mod filter;
pub mod folder;
pub mod server;
pub mod worker;
