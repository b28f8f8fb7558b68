//! The positions of the members of a JSON object in its text.
//!
//! A member can be replaced without changing any other byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The largest number of members of an object.
const MAX_MEMBERS: usize = 1_000;

/// The members of a JSON object, with the position of each value in the text.
pub(crate) struct JsonMembers<'t> {
    text: &'t str,
    ranges: BTreeMap<String, Range<usize>>,
    /// The position at which a first member can be inserted.
    start: usize,
}

impl<'t> JsonMembers<'t> {
    /// Parses an object. A duplicate key is an error, because parsers disagree about its meaning.
    pub(crate) fn parse(text: &'t str) -> Result<Self, serde_json::Error> {
        let ObjectMembers(members) = serde_json::from_str(text)?;
        let ranges = members
            .into_iter()
            .map(|(name, value)| (name.into_owned(), text_range(text, value)))
            .collect();
        let start = text.find('{').map_or(0, |at| at + 1);
        Ok(Self {
            text,
            ranges,
            start,
        })
    }

    /// Parses an object like [`JsonMembers::parse`] without parsing the known value of one member
    /// again.
    ///
    /// Returns `None` if the member `name` does not have this value.
    pub(crate) fn parse_around(text: &'t str, name: &str, known: &str) -> Option<Self> {
        let quoted = format!("\"{name}\"");
        let at = text.match_indices(&quoted).find_map(|(at, _)| {
            let rest = text[at + quoted.len()..]
                .trim_start()
                .strip_prefix(':')?
                .trim_start();
            rest.starts_with(known).then(|| text.len() - rest.len())
        })?;
        // The parsed text has a null instead of the known value.
        let end = at + known.len();
        let short = format!("{}null{}", &text[..at], &text[end..]);
        let JsonMembers {
            mut ranges, start, ..
        } = JsonMembers::parse(&short).ok()?;
        let null_len = "null".len();
        let range = ranges
            .get_mut(name)
            .filter(|range| **range == (at..at + null_len))?;
        range.end = end;
        for range in ranges.values_mut().filter(|range| range.start > at) {
            let start = range.start - null_len + known.len();
            *range = start..range.end - null_len + known.len();
        }
        Some(Self {
            text,
            ranges,
            start,
        })
    }

    /// Returns the text of the value of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&'t str> {
        self.ranges.get(name).map(|range| &self.text[range.clone()])
    }

    /// Returns `true` if the object has the member and it is not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "null")
    }

    /// Returns the text with another value of a member. A missing member is inserted first.
    pub(crate) fn replace(&self, name: &str, value: &str) -> String {
        match self.ranges.get(name) {
            Some(range) => format!(
                "{}{value}{}",
                &self.text[..range.start],
                &self.text[range.end..]
            ),
            None => {
                let (head, tail) = self.text.split_at(self.start);
                let comma = if self.ranges.is_empty() { "" } else { "," };
                format!("{head}\"{name}\":{value}{comma}{tail}")
            }
        }
    }

    /// Returns the text without these members, each with one of the commas beside it.
    pub(crate) fn remove(&self, names: &[&str]) -> String {
        let mut text = self.text.to_owned();
        let mut ranges: Vec<&Range<usize>> = names
            .iter()
            .filter_map(|name| self.ranges.get(*name))
            .collect();
        // From the last to the first, so that the positions of earlier members stay valid.
        ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in ranges {
            let before = text[..key_start(&text, range.start)].trim_end();
            let after = &text[range.end..];
            let (start, end) = match before.strip_suffix(',') {
                Some(before) => (before.len(), range.end),
                None => {
                    let rest = after.trim_start();
                    let rest = rest.strip_prefix(',').unwrap_or(rest);
                    (before.len(), text.len() - rest.len())
                }
            };
            text.replace_range(start..end, "");
        }
        text
    }
}

/// Returns the position of the key of the member whose value starts at `value_start`.
fn key_start(text: &str, value_start: usize) -> usize {
    let head = text[..value_start].trim_end();
    let head = head.strip_suffix(':').unwrap_or(head).trim_end();
    let key_end = head.strip_suffix('"').unwrap_or(head);
    // A quotation mark inside the key follows a backslash. The opening one does not.
    let mut quotes = key_end.rmatch_indices('"');
    let opening = quotes.find(|&(at, _)| !key_end[..at].ends_with('\\'));
    opening.map_or(key_end.len(), |(at, _)| at)
}

/// Returns the position of a value that was borrowed from a text.
pub(crate) fn text_range(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + value.get().len()
}

/// The members of an object in order; duplicate keys are an error.
pub(crate) struct ObjectMembers<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'de> Deserialize<'de> for ObjectMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = ObjectMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &RawValue)> = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &RawValue>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom("duplicate key in an object"));
                    }
                    if members.len() == MAX_MEMBERS {
                        return Err(A::Error::custom("too many members in an object"));
                    }
                    members.push((name, value));
                }
                Ok(ObjectMembers(members))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_value_is_found_only_as_the_value_of_the_member() {
        let known = "[{\"name\":\"a\"}]";
        for text in [
            format!("{{\"model\":\"m\",\"tools\" : {known},\"seed\":1,\"x\":[2]}}"),
            format!("{{\"tools\":{known}}}"),
            format!(" {{ \"messages\":[\"\\\"tools\\\":\"],\"tools\":{known} }} "),
        ] {
            let around = JsonMembers::parse_around(&text, "tools", known).expect("it is there");
            let parsed = JsonMembers::parse(&text).expect("an object");
            assert_eq!(
                (around.ranges.clone(), around.start),
                (parsed.ranges.clone(), parsed.start),
                "{text}"
            );
            assert_eq!(around.get("tools"), Some(known));
            assert_eq!(around.replace("tools", "[]"), parsed.replace("tools", "[]"));
            assert_eq!(
                around.replace("tool_choice", "1"),
                parsed.replace("tool_choice", "1")
            );
        }
        for text in [
            format!("{{\"metadata\":{{\"tools\":{known}}},\"tools\":[]}}"),
            format!("{{\"tools\":{known},\"tools\":{known}}}"),
            format!("{{\"tools\":{known}x}}"),
            format!("{{\"tools\":{known}null}}"),
            format!("{{\"tools\":{known}"),
            format!("[{{\"tools\":{known}}}]"),
            "{\"tools\":[{\"name\":\"b\"}]}".to_owned(),
        ] {
            assert!(
                JsonMembers::parse_around(&text, "tools", known).is_none(),
                "{text}"
            );
        }
    }

    #[test]
    fn replacing_a_member_changes_no_other_byte() {
        let text = concat!(
            " { \"model\" : \"m\",\t\"tools\":[ 1 , 2 ], ",
            "\"seed\": 9007199254740993, \"x\":\"\\u00e9\" } "
        );
        let members = JsonMembers::parse(text).expect("an object");
        assert_eq!(members.get("tools"), Some("[ 1 , 2 ]"));
        assert_eq!(
            members.replace("tools", "[]"),
            text.replace("[ 1 , 2 ]", "[]")
        );
        assert_eq!(
            members.replace("choice", "1"),
            text.replacen('{', "{\"choice\":1,", 1)
        );
        assert_eq!(
            JsonMembers::parse("{}")
                .expect("an object")
                .replace("a", "1"),
            "{\"a\":1}"
        );
    }

    #[test]
    fn removed_members_leave_a_valid_object() {
        for (text, names, expected) in [
            ("{\"a\":1}", &["a"][..], "{}"),
            ("{ \"a\" : 1 , \"b\":2}", &["a"], "{ \"b\":2}"),
            ("{\"a\":1, \"b\" : [2] }", &["b"], "{\"a\":1 }"),
            ("{\"a\":1,\"b\":2,\"c\":3}", &["b"], "{\"a\":1,\"c\":3}"),
            ("{\"a\":1,\"b\":2,\"c\":3}", &["c", "a", "x"], "{\"b\":2}"),
            ("{\"a\":1,\"b\":2,\"c\":3}", &["a", "b"], "{\"c\":3}"),
            ("{\"a\":1,\"b\":2}", &["b", "a"], "{}"),
            (
                "{\"\\u0061\" :\"\\\"\",\"b\\\"\\\\\": \"\u{e9}\", \"c\":0}",
                &["a", "b\"\\"],
                "{ \"c\":0}",
            ),
        ] {
            let members = JsonMembers::parse(text).expect("an object");
            let removed = members.remove(names);
            JsonMembers::parse(&removed).expect("an object");
            assert_eq!(removed, expected, "{text}");
        }
    }

    #[test]
    fn ambiguous_or_invalid_object_is_refused() {
        for text in [
            "",
            "[]",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
            "{\"a\":1} x",
            "{\"a\":}",
            "null",
        ] {
            assert!(JsonMembers::parse(text).is_err(), "{text}");
        }
        let many: Vec<String> = (0..=MAX_MEMBERS)
            .map(|number| format!("\"{number}\":0"))
            .collect();
        assert!(JsonMembers::parse(&format!("{{{}}}", many.join(","))).is_err());
    }
}
