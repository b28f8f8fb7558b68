//! References within a schema.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Resolves a reference into a schema: `#` for all of it, a JSON pointer, or the name of a
/// definition at its root.
pub fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = decode_fragment(reference.strip_prefix('#')?);
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment);
    }
    for holder in super::DEFINITIONS {
        let Some(Value::Object(definitions)) = root.get(holder) else {
            continue;
        };
        for definition in definitions.values() {
            if definition["$anchor"] == *fragment
                || definition["$id"] == *reference
                || definition["id"] == *reference
            {
                return Some(definition);
            }
        }
    }
    None
}

/// Decodes the percent-encoding of a URI fragment.
pub fn decode_fragment(fragment: &str) -> Cow<'_, str> {
    percent_decode_str(fragment).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_resolve_by_pointer_and_by_name() {
        let schema = json!({"$defs": {
            "a b": {"const": 1},
            "100%": {"const": 2},
            "named": {"$anchor": "café", "const": 3},
            "older": {"id": "#old", "const": 4},
        }});
        let resolve_const = |reference| {
            resolve(&schema, reference)
                .and_then(|target| target.get("const"))
                .and_then(Value::as_i64)
        };
        assert_eq!(resolve(&schema, "#"), Some(&schema));
        assert_eq!(resolve_const("#/$defs/a%20b"), Some(1));
        assert_eq!(resolve_const("#/$defs/a b"), Some(1));
        assert_eq!(resolve_const("#/$defs/100%25"), Some(2));
        assert_eq!(
            resolve_const("#/$defs/100%"),
            Some(2),
            "a percent sign that encodes nothing is literal"
        );
        assert_eq!(resolve_const("#caf%C3%A9"), Some(3));
        assert_eq!(resolve_const("#old"), Some(4));
        for nowhere in [
            "",
            "named",
            "#named",
            "#/$defs/none",
            "#/$defs/%ff",
            "https://example.com/#",
        ] {
            assert_eq!(resolve(&schema, nowhere), None, "{nowhere}");
        }
    }
}
