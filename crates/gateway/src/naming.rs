//! What the things of an upstream are called here.

use sha2::{Digest, Sha256};

/// What stands between the upstream and its tool.
const BETWEEN: &str = "__";
/// The most characters of a name. Clients put a prefix before it, such as `mcp__picktools__`, and
/// most models take 64.
const MAX_CHARS: usize = 48;
/// How many of the hexadecimal digits of a digest end a name that is not the whole one.
const DIGITS: usize = 8;

/// Returns the name of a tool or prompt: `source__name`, whatever other upstreams there are.
///
/// A name with characters that models do not take, or with too many of them, ends with digits of
/// its digest, so that no two come to the same.
pub(crate) fn shown(source: &str, name: &str) -> String {
    let whole = format!("{source}{BETWEEN}{name}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_unclear = source.contains(BETWEEN) || source.ends_with('_') || name.starts_with('_');
    if whole.len() <= MAX_CHARS && whole.chars().all(is_plain) && !is_unclear {
        return whole;
    }
    let digest = Sha256::digest(format!("{source}\0{name}"));
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept: String = whole
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(MAX_CHARS - DIGITS - 1)
        .collect();
    format!("{kept}_{}", &digits[..DIGITS])
}

/// Returns why an upstream cannot be called this, or `None`.
pub(crate) fn fault(source: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
    if source.trim().is_empty() {
        Some("it has no name")
    } else if source.contains(BETWEEN) {
        Some("its name holds `__`, which stands between a server and its tool")
    } else if !source.chars().all(is_plain) {
        Some("its name holds other characters than letters, digits, `_`, `-`, `.` and spaces")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_plain_short_and_never_the_same() {
        assert_eq!(shown("git", "git_log"), "git__git_log");
        let pairs = [
            ("git", "git_log"),
            ("a_", "b"),
            ("a", "_b"),
            ("a", "b.c"),
            ("a", "b_c"),
            ("a", "b/c"),
            ("a b", "c"),
            ("a_b", "c"),
            ("é", "x"),
            ("è", "x"),
            ("a__b", "c"),
            ("a", "b__c"),
            ("a", ""),
            ("long", &"x".repeat(60)),
            ("long", &"x".repeat(61)),
        ];
        let names: Vec<String> = pairs
            .iter()
            .map(|(source, name)| shown(source, name))
            .collect();
        assert_eq!(
            names.iter().collect::<HashSet<_>>().len(),
            pairs.len(),
            "{names:?}"
        );
        for name in &names {
            assert!(
                name.len() <= MAX_CHARS
                    && !name.contains(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c))
            );
        }
    }

    #[test]
    fn names_of_upstreams_that_mislead_are_refused() {
        for bad in ["", "  ", "a__b", "a/b", "a\u{200b}b", "a\nb", "a:b"] {
            assert!(fault(bad).is_some(), "{bad:?}");
        }
        for good in ["git", "my-server", "server.v2", "Büro", "My Server"] {
            assert_eq!(fault(good), None, "{good:?}");
        }
    }
}
