//! Keys of callers: 256 random bits, of which only the digest is stored.

use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

/// The prefix of a key, by which a leaked key is recognised.
const PREFIX: &str = "pk_";
/// The number of hexadecimal digits of a key.
const KEY_DIGITS: usize = 64;

/// Returns the digest of a key. A key has 256 random bits, so a slow hash function would add
/// nothing.
pub fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Returns the current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// Creates a key. Returns the key for its holder and the digest for the settings.
///
/// # Errors
///
/// An I/O error if the system has no random numbers.
pub fn new_key() -> std::io::Result<(String, String)> {
    let key = format!("{PREFIX}{}", random()?);
    let stored = hex(&digest(&key));
    Ok((key, stored))
}

/// Returns 256 random bits as hexadecimal digits.
///
/// # Errors
///
/// An I/O error if the system has no random numbers.
pub fn random() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex(&bytes))
}

/// Returns `true` if a text contains a key of a gateway.
pub fn contains_key(text: &str) -> bool {
    text.match_indices(PREFIX).any(|(start, _)| {
        let digits = text.get(start + PREFIX.len()..).unwrap_or_default();
        let count = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        count >= KEY_DIGITS
    })
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_differ_and_store_only_digests() {
        let (first, second) = (
            new_key().expect("random numbers"),
            new_key().expect("random numbers"),
        );
        assert_ne!(first.0, second.0);
        assert_eq!(first.0.len(), 67);
        assert!(contains_key(&format!("Bearer {}", first.0)));
        assert!(!contains_key("Bearer pk_live_of_another_service"));
        assert!(!first.1.contains(&first.0[3..]) && first.1.len() == 64);
    }
}
