//! What became of a call that went out, by what came back: the only table that says that nothing was done.
//!
//! A value means that it was done; what was not sent has done nothing. All that is not below is unknown: no answer, half of
//! one, one that is not of the protocol. Of a tool that is read-only or idempotent, by its annotations or the method of the
//! API, such a call is made again; of another one it is `MAYBE_DONE`.

/// What became of a call that went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effect {
    /// Nothing was done: it was not sent, or it was refused before the work.
    Nothing,
    /// It was done, and its answer is not to be had.
    Done,
    /// It may be done or not.
    #[default]
    Unknown,
}

impl Effect {
    /// By a status of HTTP, of an API as of MCP. Unknown are those that servers also send after the work: 402 (a charge that
    /// was tried), 406 (no form of the answer is wanted), 408, 409 (by a first attempt of a proxy), and all from 500 on; and
    /// redirects that browsers get after a POST.
    #[must_use]
    #[rustfmt::skip]
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Done,
            // It is to be made elsewhere; who may ask for what; the form of the request; when it may come.
            307 | 308
            | 401 | 403 | 404 | 405 | 410 | 421
            | 400 | 411 | 413 | 414 | 415 | 417 | 422 | 426 | 431
            | 412 | 425 | 428 | 429 => Self::Nothing,
            _ => Self::Unknown,
        }
    }

    /// By the code of a JSON-RPC error: invalid parameters and an unknown method are found before the work, unless the words
    /// are of an SDK about the result.
    #[must_use]
    pub fn of_rpc(code: i32, message: &str) -> Self {
        if matches!(code, -32_602 | -32_601) { Self::of_tool_error(message) } else { Self::Unknown }
    }

    /// By the text of an error that the tool reports (`isError`): it says that it failed. But SDKs report so, too, that the
    /// result of what it did does not fit its `outputSchema`.
    #[must_use]
    pub fn of_tool_error(text: &str) -> Self {
        const RESULT: [&str; 4] = ["output validation error", "output schema", "outputschema", "structured content"];
        let text = text.to_lowercase();
        if RESULT.iter().any(|words| text.contains(words)) { Self::Unknown } else { Self::Nothing }
    }
}
