//! Identifiers and tokens from the system's randomness.

/// Twelve hexadecimal digits, to tell records, sessions and files apart.
pub(crate) fn id() -> String {
    let mut bytes = [0; 6];
    // Without randomness records of one moment share an id, and are told apart by their time.
    let _ = getrandom::fill(&mut bytes);
    hex(&bytes)
}

/// 128 bits that cannot be guessed.
pub(crate) fn token() -> String {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no randomness");
        return format!("{:p}-{:?}", &raw const bytes, std::time::Instant::now());
    }
    hex(&bytes)
}

/// 32 bits that cannot be guessed, or 0 where the system has no randomness.
pub(crate) fn number() -> u32 {
    let mut bytes = [0; 4];
    let _ = getrandom::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
