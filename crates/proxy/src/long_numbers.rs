//! Changes of JSON documents that keep all digits of their numbers. `serde_json` rounds a long number,
//! so a mark takes its place while the document is changed.

use picktools::json::first_long_number;
use picktools_state::keys;
use serde_json::Value;

/// The long numbers of a document, which marks represent in its value.
#[derive(Debug, Clone, Default)]
pub(crate) struct LongNumbers {
    /// The beginning of each mark. It is random, so that no text of the document is a mark.
    mark: String,
    numbers: Vec<String>,
}

impl LongNumbers {
    /// Parses a document. Its long numbers become marks; `None` if it is not JSON.
    pub(crate) fn parse(document: &str) -> Option<(Value, Self)> {
        let Some(first) = first_long_number(document) else {
            let value = serde_json::from_str(document).ok()?;
            return Some((value, Self::default()));
        };
        let mut long_numbers = Self {
            mark: keys::random().ok()?,
            numbers: Vec::new(),
        };
        let (mut marked, mut rest, mut next) = (String::new(), document, Some(first));
        while let Some(number) = next {
            let start = number.as_ptr().addr() - rest.as_ptr().addr();
            marked.push_str(&rest[..start]);
            let index = long_numbers.numbers.len();
            marked.push_str(&format!("\"{}.{index}\"", long_numbers.mark));
            long_numbers.numbers.push(number.to_owned());
            rest = &rest[start + number.len()..];
            next = first_long_number(rest);
        }
        marked.push_str(rest);
        let value = serde_json::from_str(&marked).ok()?;
        Some((value, long_numbers))
    }

    /// Writes a value with the numbers instead of their marks.
    pub(crate) fn write(&self, value: &Value) -> String {
        let text = value.to_string();
        if self.numbers.is_empty() {
            return text;
        }
        let start = format!("\"{}.", self.mark);
        let mut parts = text.split(&start);
        let mut written = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (index, rest) = part.split_once('"').unwrap_or((part, ""));
            let index: usize = index.parse().unwrap_or(usize::MAX);
            written.push_str(self.numbers.get(index).map_or("null", String::as_str));
            written.push_str(rest);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_document_keeps_its_long_numbers() {
        let long = "12345678901234567890123";
        let document = format!(
            r#"{{"a": [{long}, -{long}, 0.{long}, 1e-400, 5], "{long}": "{long}", "b\"": 1.5}}"#
        );
        let (mut value, long_numbers) = LongNumbers::parse(&document).expect("it is JSON");
        value["c"] = json!("\"new\"");
        let expected = format!(
            r#"{{"a":[{long},-{long},0.{long},1e-400,5],"{long}":"{long}","b\"":1.5,"c":"\"new\""}}"#
        );
        assert_eq!(long_numbers.write(&value), expected);
        value["a"] = json!([value["a"][1], value["a"][0]]);
        let swapped = long_numbers.write(&value);
        assert!(
            swapped.starts_with(&format!(r#"{{"a":[-{long},{long}]"#)),
            "{swapped}"
        );
    }

    #[test]
    fn document_without_long_numbers_has_no_marks() {
        let (value, long_numbers) = LongNumbers::parse("[1, 2.50, \"x\"]").expect("it is JSON");
        assert_eq!(long_numbers.write(&value), "[1,2.5,\"x\"]");
        assert!(LongNumbers::parse("[12345678901234567890123").is_none());
    }
}
