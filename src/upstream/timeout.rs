//! Bounds the time of every operation.

use std::time::Duration;

use async_trait::async_trait;

use super::{Answer, Operation, Upstream};
use crate::error::{Error, ErrorCode, Result};

/// An upstream whose operations end in time. Dropping the inner future cancels the request at the server.
pub(super) struct Timeout<U> {
    name: String,
    inner: U,
    call: Duration,
    connect: Duration,
}

impl<U> Timeout<U> {
    /// `call` bounds an operation with all that it needs; listing may take `connect` longer.
    pub(super) fn new(name: &str, inner: U, call: Duration, connect: Duration) -> Self {
        Self { name: name.to_owned(), inner, call, connect }
    }
}

#[async_trait]
impl<U: Upstream> Upstream for Timeout<U> {
    async fn call(&self, operation: &Operation) -> Result<Answer> {
        // A list is asked for when the server starts, so it may take that long besides.
        let limit = if matches!(operation, Operation::List) { self.call + self.connect } else { self.call };
        match tokio::time::timeout(limit, self.inner.call(operation)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(ErrorCode::Timeout, format!("{} did not answer within {limit:?}", self.name))),
        }
    }
}
