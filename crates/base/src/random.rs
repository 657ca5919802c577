//! Identifiers and tokens from the system's random generator.

/// An identifier of twelve hexadecimal digits for records, sessions and files.
pub fn id() -> String {
    let mut bytes = [0; 6];
    // Without randomness records of one moment share an id, and differ by their time.
    let _ = getrandom::fill(&mut bytes);
    hex(&bytes)
}

/// An unguessable token of 128 bits.
pub fn token() -> String {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no randomness");
        return format!("{:p}-{:?}", &raw const bytes, std::time::Instant::now());
    }
    hex(&bytes)
}

/// An unguessable number of 32 bits, or 0 if the system has no randomness.
pub fn number() -> u32 {
    let mut bytes = [0; 4];
    let _ = getrandom::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that pairs of hexadecimal digits stand for; `None` for other text.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let is_digits = digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    is_digits.then(|| digits.as_bytes().chunks_exact(2).map(byte).collect())?
}
