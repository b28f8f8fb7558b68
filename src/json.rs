//! JSON parsing that reports duplicate members. Nobody can tell which of them was intended.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::excerpt::cut;

/// The most duplicate members whose pointers are recorded.
const MAX_REPEATED: usize = 100;
/// The most characters of a key in a pointer.
const MAX_KEY_CHARS: usize = 60;

/// A parsed value, with the duplicate members that `serde_json` would not report.
pub struct Json {
    /// The value. Of duplicate members it has the first.
    pub value: Value,
    /// JSON pointers to the duplicate members, in order; at most 100.
    pub repeated: Vec<String>,
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut repeated = Vec::new();
        let value = Reader(&mut repeated).deserialize(deserializer)?;
        Ok(Self { value, repeated })
    }
}

/// A reader of one value. It collects the pointers to duplicate members, relative to the value.
struct Reader<'a>(&'a mut Vec<String>);

impl Reader<'_> {
    /// Puts `key` in front of the pointers from index `first` on.
    fn prefix_pointers(&mut self, first: usize, key: impl FnOnce() -> String) {
        if self.0.len() > first {
            let key = key();
            self.0[first..]
                .iter_mut()
                .for_each(|pointer| pointer.insert_str(0, &key));
        }
    }
}

/// Returns a key as a part of a JSON pointer, shortened.
fn pointer_part(key: &str) -> String {
    format!(
        "/{}",
        cut(key, MAX_KEY_CHARS)
            .replace('~', "~0")
            .replace('/', "~1")
    )
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let mut first_pointer = self.0.len();
        while let Some(item) = sequence.next_element_seed(Reader(self.0))? {
            self.prefix_pointers(first_pointer, || format!("/{}", items.len()));
            items.push(item);
            first_pointer = self.0.len();
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match members.entry(key) {
                Entry::Vacant(member) => {
                    let first_pointer = self.0.len();
                    let value = map.next_value_seed(Reader(self.0))?;
                    self.prefix_pointers(first_pointer, || pointer_part(member.key()));
                    member.insert(value);
                }
                Entry::Occupied(member) => {
                    map.next_value::<IgnoredAny>()?;
                    if self.0.len() < MAX_REPEATED {
                        self.0.push(pointer_part(member.key()));
                    }
                }
            }
        }
        Ok(Value::Object(members))
    }
}

/// Returns the parser's message without the position, which callers report separately.
pub fn message(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if message.starts_with("recursion limit exceeded") {
        return "nested deeper than 128 levels; flatten this value".to_owned();
    }
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(text: &str) -> Json {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn duplicate_members_are_reported_at_every_depth() {
        let json = parse(
            r#"[
                {"a": 1, "a": [1]},
                {"b/c": [0, {"~": {"d": 1, "e": 2, "d": 3}}]},
                {"a": 1, "b": {"a": 1}}
            ]"#,
        );
        assert_eq!(json.repeated, ["/0/a", "/1/b~1c/1/~0/d"]);
        assert_eq!(json.value[0], json!({"a": 1}));
        assert_eq!(json.value[1]["b/c"][1]["~"], json!({"d": 1, "e": 2}));
    }

    #[test]
    fn pointers_to_hostile_duplicates_are_bounded() {
        let text = format!(
            "{{\"{}\": {{{}\"a\": 1}}}}",
            "k".repeat(10_000),
            "\"a\": 1,".repeat(10_000)
        );
        let json = parse(&text);
        assert_eq!(json.repeated.len(), MAX_REPEATED);
        assert!(json.repeated.iter().all(|pointer| pointer.len() < 100));
    }

    proptest! {
        #[test]
        fn parsed_value_equals_that_of_serde_json(
            text in "[\\[\\]{}:,\"a0-9.eE\\\\ \\-]{0,40}"
        ) {
            let json = serde_json::from_str::<Json>(&text);
            let value = serde_json::from_str::<Value>(&text);
            prop_assert_eq!(json.is_ok(), value.is_ok());
            if let (Ok(json), Ok(value)) = (json, value) {
                prop_assert!(json.value == value || !json.repeated.is_empty());
            }
        }
    }
}
