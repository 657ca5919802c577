//! One script or call: from the request through the worker to what the broker lets pass.
//!
//! | module | content |
//! |---|---|
//! | `execution` | a script in, a value or an explained failure out: `journaled` its journal, `concluded` and `render` for the agent in `parts` and `calls`, `background`, `replayed`, `saved`, `proposed` |
//! | `sandbox` | workers and checkers from outside: `pool` and `warm`, `process` (start, deadlines, kill), `conversation` (each frame), `checkers`, `script` and `signature` (judge a checker's facts) |
//! | `broker` | one per execution, or per script that a script calls: `arguments`, `policy` (one file per rule), `consent`, `taint`, `ops`, `recorder`, `check` |
//! | `router` | server, instance and session → upstream |
//! | `session` | one client's session: reads, stash, results, approvals |
//! | `discovery`, `searching` | `ls`, `cat`, `search`, for agents, scripts and the command line; learning from use |
//! | `approvals`, `proposals` | calls that wait for a person; scripts that agents propose |
//! | `hooks` | the operator's own programs and services that decide about calls |
//! | `scripts` | scripts that are tools: their folder, lock and definitions |
//! | `runs`, `replay` | runs as they are read below `/runs`; a script on recorded answers |
//! | `telemetry` | metrics and traces |

pub mod approvals;
pub mod broker;
pub mod calls;
pub mod discovery;
pub mod execution;
pub mod hooks;
pub mod parts;
pub mod proposals;
pub mod replay;
pub mod router;
pub mod runs;
pub mod sandbox;
pub mod scripts;
pub mod searching;
pub mod session;
pub mod telemetry;
