//! References within a schema.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Follows a reference into a schema: the whole, a JSON pointer in it, or the name of a definition
/// at its root.
pub fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = decoded(reference.strip_prefix('#')?);
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment);
    }
    let named = |definition: &&Value| {
        let anchor = definition.get("$anchor").and_then(Value::as_str) == Some(&fragment);
        anchor
            || ["$id", "id"]
                .iter()
                .any(|id| definition.get(*id).and_then(Value::as_str) == Some(reference))
    };
    let definitions = super::DEFINITIONS
        .into_iter()
        .filter_map(|holder| root.get(holder)?.as_object());
    definitions.flat_map(Map::values).find(named)
}

/// What a URI fragment stands for.
pub fn decoded(fragment: &str) -> Cow<'_, str> {
    percent_decode_str(fragment).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_lead_to_pointers_and_names() {
        let schema = json!({"$defs": {
            "a b": {"const": 1},
            "100%": {"const": 2},
            "named": {"$anchor": "café", "const": 3},
            "older": {"id": "#old", "const": 4},
        }});
        let to = |reference| {
            resolve(&schema, reference)
                .and_then(|target| target.get("const"))
                .and_then(Value::as_i64)
        };
        assert_eq!(resolve(&schema, "#"), Some(&schema));
        assert_eq!(to("#/$defs/a%20b"), Some(1));
        assert_eq!(to("#/$defs/a b"), Some(1));
        assert_eq!(to("#/$defs/100%25"), Some(2));
        assert_eq!(
            to("#/$defs/100%"),
            Some(2),
            "a sign that encodes nothing stands for itself"
        );
        assert_eq!(to("#caf%C3%A9"), Some(3));
        assert_eq!(to("#old"), Some(4));
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
