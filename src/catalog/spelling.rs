//! Name comparison: by normalised spelling, and by confusable characters.

/// Returns the letters and digits of a name in lower case, and the slash between source and name.
pub fn normalise(name: &str) -> String {
    let mut normalised = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '/' {
            normalised.push(c.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            normalised.extend(c.to_lowercase());
        }
    }
    normalised
}

/// Returns the skeleton of a name without case (Unicode Technical Standard #39, §4). Names with
/// equal skeletons are confusable.
pub fn skeleton(name: &str) -> String {
    unicode_security::skeleton(&name.to_lowercase()).collect()
}

/// Returns `true` if two names are confusable and differ in more than case. Two ASCII names never
/// are: `l` and `1` look alike in every catalog.
pub fn confusable(name: &str, other: &str) -> bool {
    !(name.is_ascii() && other.is_ascii())
        && name.to_lowercase() != other.to_lowercase()
        && skeleton(name) == skeleton(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_confusable_and_other_names_are_not() {
        for (name, other) in [
            ("rеad_file", "read_file"),
            ("ｂａｓｈ", "bash"),
            ("𝗲𝘅𝗲𝗰", "exec"),
            ("Pythοn", "python"),
            ("cafe\u{301}", "café"),
        ] {
            assert!(confusable(name, other), "{name} {other}");
        }
        for (name, other) in [
            ("get_1", "get_l"),
            ("CAFÉ", "café"),
            ("größe", "grosse"),
            ("导出", "导入"),
            ("read_file", "read_file"),
        ] {
            assert!(!confusable(name, other), "{name} {other}");
        }
    }
}
