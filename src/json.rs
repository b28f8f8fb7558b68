//! JSON parsing that reports duplicate members and keeps long numbers. Nobody can tell which of two
//! members was intended, and two numbers that are rounded to one value would have one digest.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

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
/// The most digits that identify a double. Writers that do not look for the shortest text use all.
const MAX_DOUBLE_DIGITS: usize = 17;

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
        items.shrink_to_fit();
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
        Ok(Value::Object(exact(members)))
    }
}

/// Returns an object without space for further members. A growing one has space for four, which is
/// more than half of the memory of most schemas.
fn exact(members: Map<String, Value>) -> Map<String, Value> {
    let mut exact = Map::with_capacity(members.len());
    exact.extend(members);
    exact
}

/// Returns `true` if a JSON number loses digits when it is read as a 64-bit integer or a double: an
/// integer that neither keeps, a decimal of more than 17 digits, or one that becomes zero.
pub fn is_long_number(number: &str) -> bool {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (number, None),
    };
    if exponent.is_none() && number.len() < MAX_DOUBLE_DIGITS {
        return false;
    }
    let Ok(double) = number.parse::<f64>() else {
        return false;
    };
    let digits = significant_digits(mantissa);
    if exponent.is_some() || mantissa.contains('.') {
        return digits.len() > MAX_DOUBLE_DIGITS || (double == 0.0 && !digits.is_empty());
    }
    let is_integer = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    !is_integer && digits != significant_digits(&double.to_string())
}

/// Returns the digits of a number without its exponent, from the first to the last nonzero digit.
fn significant_digits(mantissa: &str) -> String {
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// Returns the first [long number](is_long_number) of a JSON text.
pub fn first_long_number(text: &str) -> Option<&str> {
    next_long_number(text.as_bytes(), 0).and_then(|range| text.get(range))
}

/// Describes why a call with a [long number](is_long_number) is refused.
pub fn long_number_fault(number: &str) -> String {
    format!(
        "the number {} has more digits than 64 bits keep; send fewer digits, or a string",
        cut(number, MAX_KEY_CHARS)
    )
}

/// Returns a JSON text with each [long number](is_long_number) as a string of the same digits, so
/// that definitions with different numbers have different digests.
pub fn quote_long_numbers(text: &[u8]) -> Cow<'_, [u8]> {
    let (mut quoted, mut copied_to) = (Vec::new(), 0);
    while let Some(Range { start, end }) = next_long_number(text, copied_to) {
        quoted.extend_from_slice(&text[copied_to..start]);
        quoted.push(b'"');
        quoted.extend_from_slice(&text[start..end]);
        quoted.push(b'"');
        copied_to = end;
    }
    if copied_to == 0 {
        return Cow::Borrowed(text);
    }
    quoted.extend_from_slice(&text[copied_to..]);
    Cow::Owned(quoted)
}

/// Returns the place of the first long number after `start`, which is not inside a string.
fn next_long_number(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let end = at + bytes[at..].iter().take_while(is_part).count();
                if std::str::from_utf8(&bytes[at..end]).is_ok_and(is_long_number) {
                    return Some(at..end);
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    None
}

/// Returns the position after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
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
    fn long_numbers_are_those_that_lose_digits() {
        let kept = [
            "0",
            "-0.0",
            "0e99",
            "1e30",
            "-1.5e-300",
            "0.30000000000000004",
            "0.10000000000000001",
            "3.141592653589793",
            "1.7976931348623157e308",
            "9223372036854775807",
            "-9223372036854775808",
            "18446744073709551615",
            // Writers in JavaScript and 10^30.
            "18446744073709552000",
            "1000000000000000000000000000000",
            "100.00000000000000000000000000",
        ];
        let long = [
            "1000000000000000000000000000001",
            "-1000000000000000000000000000001",
            "18446744073709551616",
            "-9223372036854775809",
            "0.100000000000000000000000000001",
            "3.14159265358979323846",
            "1000000000000000000000000000001e0",
            "1e-400",
        ];
        for number in kept {
            assert!(!is_long_number(number), "{number}");
        }
        for number in long {
            assert!(is_long_number(number), "{number}");
        }
    }

    #[test]
    fn long_numbers_outside_strings_become_strings() {
        let number = "1000000000000000000000000000001";
        let text = format!(r#"{{"a\"{number}": [{number}, -{number}, "{number}", 1e30], "b": 5}}"#);
        let expected =
            format!(r#"{{"a\"{number}": ["{number}", "-{number}", "{number}", 1e30], "b": 5}}"#);
        assert_eq!(&*quote_long_numbers(text.as_bytes()), expected.as_bytes());
        assert_eq!(first_long_number(&text), Some(number));
        assert!(matches!(
            quote_long_numbers(b"[1, 2.5, \"x"),
            Cow::Borrowed(_)
        ));
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

        #[test]
        fn kept_integers_of_one_value_have_one_sequence_of_digits(
            integer in "[1-9][0-9]{15,30}", last in "[0-9]"
        ) {
            let other = format!("{}{last}", &integer[..integer.len() - 1]);
            let read = |text: &str| serde_json::from_slice::<Value>(&quote_long_numbers(text.as_bytes()));
            prop_assert_eq!(
                read(&integer).ok() == read(&other).ok(),
                integer == other,
                "{} {}", integer, other
            );
        }
    }
}
