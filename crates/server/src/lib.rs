//! Who is served.
//!
//! | module | content |
//! |---|---|
//! | `gateway` | the only wiring: `fleet` starts and replaces servers by configuration, `scripts` and `skills` follow their folders |
//! | `mcp` | the MCP server: `tools` the four tools, `resources`, `shown` the servers' own tools, `tasks`; `stdio`, `http` and `message` its transports, `admission` limits of a client, `changes` what is announced |
//! | `console` | the console: one file per view, its page in `web/` |
//! | `daemon` | one gateway for all clients of a file: `place`, `host`, `launch`, and the `proxy` between a client and it |
//! | `probing` | tools that the gateway itself calls once, for the shapes of their answers |
//! | `reload`, `running` | the configuration file is watched; running gateways, for the command line |

pub mod console;
pub mod daemon;
pub mod gateway;
pub mod mcp;
pub mod probing;
pub mod reload;
pub mod running;
