//! Connections to MCP servers.
//!
//! One trait with one method; an operation is an enum, so that every wrapper is written once for tools,
//! resources and prompts alike. [`build`] composes the stack in one visible place.

mod http;
mod mcp;
mod reconnect;
mod stdio;
mod timeout;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::config;
use crate::error::{Error, ErrorCode, Result};

/// An MCP server, or a wrapper around one.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Performs one operation.
    ///
    /// # Errors
    /// `TIMEOUT`, `TRANSPORT_DEAD` or `UPSTREAM_ERROR`. A tool that ran and failed is not an error here: its
    /// answer says so.
    async fn call(&self, operation: &Operation) -> Result<Answer>;
}

/// What can be asked of a server.
#[derive(Debug, Clone)]
pub enum Operation {
    /// All pages of `tools/list`, with what the server says about itself.
    List,
    /// `tools/call`.
    Tool {
        /// Wire name.
        name: String,
        /// Arguments by wire name.
        arguments: Map<String, Value>,
    },
    /// `resources/read`.
    Resource {
        /// The URI.
        uri: String,
    },
    /// `prompts/get`.
    Prompt {
        /// The prompt's name.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
}

/// What a server answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// To [`Operation::List`].
    Listing(Listing),
    /// To [`Operation::Tool`].
    Tool(ToolAnswer),
    /// To [`Operation::Resource`] and [`Operation::Prompt`]: the result as it came.
    Raw(Value),
}

/// What a server says about itself, and its tools.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Negotiated protocol revision.
    pub protocol: String,
    /// The server's own instructions.
    pub instructions: Option<String>,
    /// Raw tool definitions, in the order they came.
    pub tools: Vec<Value>,
}

/// The answer of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolAnswer {
    /// The content blocks.
    pub content: Vec<Block>,
    /// `structuredContent`, where the tool sent it.
    pub structured: Option<Value>,
    /// The tool ran and failed.
    pub is_error: bool,
}

/// A content block.
#[derive(Debug, Clone)]
pub enum Block {
    /// Text.
    Text(String),
    /// Image or audio.
    Binary {
        /// `image` or `audio`.
        kind: &'static str,
        /// Media type.
        mime_type: String,
        /// Base64 as it came.
        data: String,
    },
    /// A resource, embedded or linked, as it came.
    Other(Value),
}

/// Builds the stack of one server, outside in: a call is bounded in time whatever happens below it, and below
/// that a dead connection is replaced before the next call.
#[must_use]
pub fn build(name: &str, server: &config::Server) -> Arc<dyn Upstream> {
    let connector = mcp::Connector::new(name, server);
    let client = reconnect::Reconnect::new(connector, server.connect_timeout);
    Arc::new(timeout::Timeout::new(name, client, server.timeout, server.connect_timeout))
}

/// A server known only from a file: it lists nothing new and cannot be called.
pub struct Offline {
    /// The file that described it.
    pub file: String,
}

#[async_trait]
impl Upstream for Offline {
    async fn call(&self, _: &Operation) -> Result<Answer> {
        Err(Error::new(
            ErrorCode::TransportDead,
            format!("this server is known only from {}, not connected", self.file),
        )
        .hint("configure the server in forge.toml to call it"))
    }
}
