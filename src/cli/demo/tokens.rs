//! Token counts with the o200k vocabulary, which the demo alone needs: loading it costs time and memory.

/// Tokens of `text` in o200k.
pub(super) fn count(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}
