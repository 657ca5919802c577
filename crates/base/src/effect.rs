//! Effect of a call, by its answer: the only table that proves that a call had none.
//!
//! A call with a value is done, and one that was not sent had no effect. Whatever is not below is unknown: no answer, half an
//! answer, one that is not of the protocol. An unknown call of a tool that is read-only or idempotent, by its annotations or
//! the method of the API, is made again; of any other tool it is `MAYBE_DONE`.

/// Effect of a call that went out.
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
    /// By the HTTP status of an API or of MCP. Servers also send some after the work, which are therefore unknown: 402 (a charge
    /// was tried), 406 (the answer has no accepted form), 408, 409 (a proxy's first attempt was carried out), all from 500 on, and
    /// the redirects that browsers get after a POST.
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
    pub fn of_rpc(code: i32, message: &str) -> Self {
        if matches!(code, -32_602 | -32_601) { Self::of_tool_error(message) } else { Self::Unknown }
    }

    /// By the text of an error that the tool reports (`isError`): it says that it failed. But SDKs report so, too, that the
    /// result of what it did does not fit its `outputSchema`.
    pub fn of_tool_error(text: &str) -> Self {
        const RESULT: [&str; 4] = ["output validation error", "output schema", "outputschema", "structured content"];
        let text = text.to_lowercase();
        if RESULT.iter().any(|words| text.contains(words)) { Self::Unknown } else { Self::Nothing }
    }
}
