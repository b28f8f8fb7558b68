//! A JSON object as it was written: where its members stand, so that some can be replaced and no
//! other byte changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The most members of an object.
const MAX_MEMBERS: usize = 1_000;

/// The members of an object, each with the place of its value in the text.
pub(crate) struct Members<'t> {
    text: &'t str,
    places: BTreeMap<String, Range<usize>>,
    /// Where a member can be put in before all others.
    start: usize,
}

impl<'t> Members<'t> {
    /// Reads an object. One that has a name twice means different things to different readers, and
    /// is refused.
    pub(crate) fn read(text: &'t str) -> Result<Self, serde_json::Error> {
        let Listed(members) = serde_json::from_str(text)?;
        let places = members
            .into_iter()
            .map(|(name, value)| (name.into_owned(), place(text, value)))
            .collect();
        let start = text.find('{').map_or(0, |at| at + 1);
        Ok(Self {
            text,
            places,
            start,
        })
    }

    /// Reads an object as [`Members::read`] does, of which a part is known: a whole value, which is
    /// not read again. `None` where that is not the value of the member `name`.
    pub(crate) fn read_around(text: &'t str, name: &str, known: &str) -> Option<Self> {
        let quoted = format!("\"{name}\"");
        let at = text.match_indices(&quoted).find_map(|(at, _)| {
            let rest = text[at + quoted.len()..]
                .trim_start()
                .strip_prefix(':')?
                .trim_start();
            rest.starts_with(known).then(|| text.len() - rest.len())
        })?;
        // What is read has a null in its place.
        let end = at + known.len();
        let short = format!("{}null{}", &text[..at], &text[end..]);
        let Members {
            mut places, start, ..
        } = Members::read(&short).ok()?;
        let cut = "null".len();
        let place = places
            .get_mut(name)
            .filter(|place| **place == (at..at + cut))?;
        place.end = end;
        for place in places.values_mut().filter(|place| place.start > at) {
            *place = place.start - cut + known.len()..place.end - cut + known.len();
        }
        Some(Self {
            text,
            places,
            start,
        })
    }

    /// The value of a member, as it is written.
    pub(crate) fn get(&self, name: &str) -> Option<&'t str> {
        self.places.get(name).map(|place| &self.text[place.clone()])
    }

    /// Returns `true` if a member is there and not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "null")
    }

    /// The text with another value in a member, which is put in first where it is not there.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        match self.places.get(name) {
            Some(place) => format!(
                "{}{value}{}",
                &self.text[..place.start],
                &self.text[place.end..]
            ),
            None => {
                let (before, after) = self.text.split_at(self.start);
                let comma = if self.places.is_empty() { "" } else { "," };
                format!("{before}\"{name}\":{value}{comma}{after}")
            }
        }
    }
}

/// Where a value that was borrowed from a text stands in it.
pub(crate) fn place(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + value.get().len()
}

pub(crate) struct Listed<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'de> Deserialize<'de> for Listed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Listed<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &RawValue)> = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &RawValue>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom("a name stands twice in an object"));
                    }
                    if members.len() == MAX_MEMBERS {
                        return Err(A::Error::custom("an object has too many members"));
                    }
                    members.push((name, value));
                }
                Ok(Listed(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_known_is_found_where_it_is_the_member_and_nowhere_else() {
        let known = "[{\"name\":\"a\"}]";
        for text in [
            format!("{{\"model\":\"m\",\"tools\" : {known},\"seed\":1,\"x\":[2]}}"),
            format!("{{\"tools\":{known}}}"),
            format!(" {{ \"messages\":[\"\\\"tools\\\":\"],\"tools\":{known} }} "),
        ] {
            let (around, whole) = (
                Members::read_around(&text, "tools", known),
                Members::read(&text),
            );
            let (around, whole) = (around.expect("it is there"), whole.expect("an object"));
            assert_eq!(
                (around.places.clone(), around.start),
                (whole.places.clone(), whole.start),
                "{text}"
            );
            assert_eq!(around.get("tools"), Some(known));
            assert_eq!(around.with("tools", "[]"), whole.with("tools", "[]"));
            assert_eq!(
                around.with("tool_choice", "1"),
                whole.with("tool_choice", "1")
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
                Members::read_around(&text, "tools", known).is_none(),
                "{text}"
            );
        }
    }

    #[test]
    fn only_the_member_that_is_replaced_changes() {
        let text = " { \"model\" : \"m\",\t\"tools\":[ 1 , 2 ], \"seed\": 9007199254740993, \"x\":\"\\u00e9\" } ";
        let members = Members::read(text).expect("an object");
        assert_eq!(members.get("tools"), Some("[ 1 , 2 ]"));
        assert_eq!(members.with("tools", "[]"), text.replace("[ 1 , 2 ]", "[]"));
        assert_eq!(
            members.with("choice", "1"),
            text.replacen('{', "{\"choice\":1,", 1)
        );
        assert_eq!(
            Members::read("{}").expect("an object").with("a", "1"),
            "{\"a\":1}"
        );
    }

    #[test]
    fn what_readers_may_understand_differently_is_refused() {
        for text in [
            "",
            "[]",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
            "{\"a\":1} x",
            "{\"a\":}",
            "null",
        ] {
            assert!(Members::read(text).is_err(), "{text}");
        }
        let many: Vec<String> = (0..=MAX_MEMBERS)
            .map(|number| format!("\"{number}\":0"))
            .collect();
        assert!(Members::read(&format!("{{{}}}", many.join(","))).is_err());
    }
}
