//! The tool definitions of an upstream between two snapshots.

use std::sync::Arc;

use lz4_flex::{compress_prepend_size, decompress_size_prepended};
use serde_json::Value;

/// The tool definitions that an upstream sent last. They are read only for a snapshot and for the
/// next list, so they are kept as compressed text, which takes a fraction of the memory of values.
#[derive(Debug, Clone)]
pub(crate) enum StoredTools {
    /// The text of a JSON array.
    Compressed(Arc<[u8]>),
    /// Definitions that text would change, for example in the last digit of a number.
    Values(Arc<[Value]>),
}

impl StoredTools {
    /// Stores the definitions of a list, unchanged.
    pub(crate) fn new(tools: Arc<[Value]>) -> Self {
        let stored = match serde_json::to_string(&tools) {
            Ok(text) => Self::Compressed(compress_prepend_size(text.as_bytes()).into()),
            Err(_) => return Self::Values(tools),
        };
        match stored.parse() {
            Ok(restored) if restored == tools => stored,
            _ => Self::Values(tools),
        }
    }

    /// Parses the definitions.
    ///
    /// # Errors
    ///
    /// The reason why the text cannot be parsed.
    pub(crate) fn parse(&self) -> Result<Arc<[Value]>, String> {
        match self {
            Self::Compressed(bytes) => {
                let text = decompress_size_prepended(bytes).map_err(|error| error.to_string())?;
                serde_json::from_slice(&text).map_err(|error| error.to_string())
            }
            Self::Values(tools) => Ok(Arc::clone(tools)),
        }
    }

    /// Returns `true` if the definitions are the same. The order of members does not count.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        if let (Self::Compressed(bytes), Self::Compressed(other_bytes)) = (self, other)
            && bytes == other_bytes
        {
            return true;
        }
        self.parse().is_ok_and(|tools| other.parse() == Ok(tools))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> StoredTools {
        let tools: Vec<Value> = serde_json::from_str(text).expect("JSON");
        StoredTools::new(tools.into())
    }

    #[test]
    fn stored_definitions_are_read_unchanged() {
        for text in [
            "[]",
            r#"[{"name":"b","inputSchema":{"z":1,"a":[1.5,-0.0,1e300,null]}},{"name":"a"}]"#,
            r#"[{"name":"\ud83d\ude00\u0000","default":18446744073709551615}]"#,
            r#"[{"name":"a","default":0.30000000000000004,"maximum":8.41e21,"minimum":5e-324}]"#,
            r#"[7,"text",[{"name":"a"}]]"#,
        ] {
            let tools: Vec<Value> = serde_json::from_str(text).expect("JSON");
            let read = stored(text).parse().expect("definitions");
            assert_eq!(read.to_vec(), tools, "{text}");
            let texts =
                [&tools[..], &read].map(|tools| serde_json::to_string(tools).expect("text"));
            assert_eq!(texts[0], texts[1], "the order of members");
        }
    }

    #[test]
    fn definitions_that_text_cannot_restore_stay_values() {
        // Text of this depth cannot be read.
        let mut schema = Value::Null;
        for _ in 0..200 {
            schema = Value::Array(vec![schema]);
        }
        let tools: Arc<[Value]> = [schema].into();
        let stored = StoredTools::new(Arc::clone(&tools));
        assert_eq!(stored.parse(), Ok(tools));
        assert!(stored.is_same(&stored.clone()));
    }

    #[test]
    fn order_of_members_is_no_change() {
        let tools = stored(r#"[{"name":"a","title":"A"}]"#);
        assert!(tools.is_same(&stored(r#"[{"title":"A","name":"a"}]"#)));
        assert!(!tools.is_same(&stored(r#"[{"title":"B","name":"a"}]"#)));
        assert!(!tools.is_same(&stored("[]")));
    }
}
