//! Errors, limits, text, files, HTTP, memory and tasks, for every other room. It uses none of them.
//!
//! | module | content |
//! |---|---|
//! | `error`, `effect`, `outcome`, `labels`, `principal` | codes and their table; what became of a call; taint; who asks |
//! | `limits`, `meter`, `memory`, `kept`, `turns` | limits of input and of complexity; metered work off the async threads; reserved memory; bounded maps; turns of clients |
//! | `json`, `yaml`, `lines`, `text` | the only parsers of outside text, all bounded; cut and escaped text |
//! | `address`, `fetch`, `listener`, `tls` | addresses that a connection may use, checked when a name is resolved; bounded documents and HTTP |
//! | `files`, `tree` | bounded reads; `private` files of the gateway, `edited` files of people; a folder that others can write |
//! | `spawner`, `program`, `task`, `panics`, `pause`, `random` | processes; threads of the runtime; panics, which end one request; time that counts for no deadline |

pub(crate) mod address;
pub mod effect;
pub mod error;
pub(crate) mod fetch;
pub(crate) mod files;
pub mod json;
pub(crate) mod kept;
pub mod labels;
pub mod limits;
pub(crate) mod lines;
pub(crate) mod listener;
pub(crate) mod memory;
pub(crate) mod meter;
pub mod outcome;
pub(crate) mod panics;
pub mod pause;
pub mod principal;
pub(crate) mod program;
pub(crate) mod random;
pub(crate) mod spawner;
pub(crate) mod task;
pub(crate) mod text;
pub(crate) mod tls;
pub(crate) mod tree;
pub(crate) mod turns;
pub(crate) mod yaml;
