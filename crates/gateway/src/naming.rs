//! Names of an upstream's tools and prompts in the gateway.

use std::borrow::Cow;

use picktools::catalog::spelling;
use sha2::{Digest, Sha256};

/// The separator between the upstream and its tool.
const SEPARATOR: &str = "__";
/// The most characters of a name. Clients add a prefix such as `mcp__picktools__`, and most models
/// accept 64 characters.
pub(crate) const MAX_CHARS: usize = 48;
/// The number of digest digits at the end of a shortened name, and the most digits of a name whose
/// shorter form is taken.
const DIGITS: usize = 8;
const MAX_DIGITS: usize = 32;

/// The most characters of a quarantined tool's name that callers are shown.
const MAX_QUARANTINED_CHARS: usize = 32;

/// The names of the front tools.
pub(crate) const SEARCH: &str = "search_tools";
pub(crate) const DESCRIBE: &str = "describe_tool";
pub(crate) const CALL: &str = "call_tool";
pub(crate) const FRONT_TOOLS: [&str; 3] = [SEARCH, DESCRIBE, CALL];

/// The name of the tool that reads the rest of a large result.
pub(crate) const READ_RESULT: &str = "read_result";

/// Returns the name of a tool or prompt: `source__name`. It does not depend on other upstreams.
///
/// A name that is too long or has characters that models do not accept ends with digits of its
/// digest, so that names stay unique.
pub fn qualified_name(source: &str, name: &str) -> String {
    let full_name = format!("{source}{SEPARATOR}{name}");
    let is_unclear = source.contains(SEPARATOR) || source.ends_with('_') || name.starts_with('_');
    if is_accepted(&full_name) && !is_unclear {
        return full_name;
    }
    with_digest(&full_name, &format!("{source}\0{name}"), DIGITS)
}

/// Returns longer forms of the name of a tool, for a tool whose name another tool has.
pub(crate) fn longer_names(source: Option<&str>, name: &str) -> impl Iterator<Item = String> {
    let full_name = match source {
        Some(source) => format!("{source}{SEPARATOR}{name}"),
        None => name.to_owned(),
    };
    let identity = format!("{}\0{name}", source.unwrap_or_default());
    let lengths = (2 * DIGITS..=MAX_DIGITS).step_by(DIGITS);
    lengths.map(move |digits| with_digest(&full_name, &identity, digits))
}

/// Returns the shown name of equal tools of several servers: the name of the tools, if models
/// accept it.
pub(crate) fn merged_name(name: &str) -> String {
    if is_accepted(name) {
        return name.to_owned();
    }
    with_digest(name, name, DIGITS)
}

/// Returns `true` if a name is short enough and models accept its characters.
pub(crate) fn is_accepted(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_CHARS && name.chars().all(is_plain)
}

/// Returns the id of a quarantined tool for callers. Its name is the text of a stranger: if the
/// name is long or has unusual characters, a digest replaces it.
pub(crate) fn quarantined_id(id: &str) -> Cow<'_, str> {
    let (source, name) = id.split_once('/').unwrap_or(("", id));
    if name.len() <= MAX_QUARANTINED_CHARS && is_accepted(name) {
        return Cow::Borrowed(id);
    }
    let digest = Sha256::digest(id);
    let digits: String = digest[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Cow::Owned(format!("{source}/quarantined-{digits}"))
}

/// Returns `true` if the gateway itself has a tool of this name.
pub(crate) fn is_own_name(name: &str) -> bool {
    FRONT_TOOLS.contains(&name) || name == READ_RESULT
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns the start of a name with a number of digits of the digest of `identity`.
fn with_digest(name: &str, identity: &str, count: usize) -> String {
    let digest = Sha256::digest(identity);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let prefix: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(MAX_CHARS - count - 1)
        .collect();
    format!("{prefix}_{}", &digits[..count])
}

/// Returns `true` if two names differ only in case, space or confusable characters.
pub(crate) fn look_alike(name: &str, other: &str) -> bool {
    let plain = |name: &str| -> String {
        let visible = name.chars().filter(|c| !c.is_whitespace());
        visible.flat_map(char::to_lowercase).collect()
    };
    let (plain_name, plain_other) = (plain(name), plain(other));
    plain_name == plain_other || spelling::confusable(&plain_name, &plain_other)
}

/// Returns the reason why the name of an upstream is invalid, or `None`.
pub fn name_fault(source: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
    if source.trim().is_empty() {
        Some("the name is empty")
    } else if !source.chars().all(is_plain) {
        Some("the name may contain only letters, digits, `_`, `-`, `.` and spaces")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_plain_short_and_unique() {
        assert_eq!(qualified_name("git", "git_log"), "git__git_log");
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
            .map(|(source, name)| qualified_name(source, name))
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
    fn misleading_upstream_names_are_refused() {
        for bad in ["", "  ", "a/b", "a\u{200b}b", "a\nb", "a:b"] {
            assert!(name_fault(bad).is_some(), "{bad:?}");
        }
        for good in ["git", "my-server", "server.v2", "a__b", "Büro", "My Server"] {
            assert_eq!(name_fault(good), None, "{good:?}");
        }
    }
}
