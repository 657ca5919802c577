//! Errors, limits, text, files, HTTP, memory and tasks, for every other crate.
//!
//! | module | content |
//! |---|---|
//! | `error`, `effect`, `outcome`, `labels`, `principal` | codes and their table; what became of a call; taint; who asks |
//! | `limits`, `meter`, `memory`, `kept`, `turns` | limits of input and of complexity; metered work off the async threads; reserved memory; bounded maps; turns of clients |
//! | `json`, `yaml`, `lines`, `text`, `time` | the only parsers of outside text, all bounded; cut and escaped text; the Unix clock |
//! | `address`, `http`, `fetch`, `listener`, `tls` | addresses that a connection may use, checked when a name is resolved; clients, bounded answers and documents; HTTP |
//! | `files`, `tree` | bounded reads; `private` files of the gateway, `edited` files of people; a folder that others can write |
//! | `spawner`, `program`, `task`, `panics`, `pause`, `random` | processes; threads of the runtime; panics, which end one request; time that counts for no deadline |

pub mod address;
pub mod effect;
pub mod error;
pub mod fetch;
pub mod files;
pub mod http;
pub mod json;
pub mod kept;
pub mod labels;
pub mod limits;
pub mod lines;
pub mod listener;
pub mod memory;
pub mod meter;
pub mod outcome;
pub mod panics;
pub mod pause;
pub mod principal;
pub mod program;
pub mod random;
pub mod spawner;
pub mod task;
pub mod text;
pub mod time;
pub mod tls;
pub mod tree;
pub mod turns;
pub mod yaml;
