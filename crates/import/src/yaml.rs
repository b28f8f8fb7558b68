//! YAML parser with limits against hostile documents.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};
use serde_saphyr::{Error, Options};

use picktools::json::Json;

/// The largest number of values; the largest published document (47 MB as JSON) has 3 million.
const MAX_VALUES: usize = 10_000_000;
/// The largest total size of all scalars, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 20;
/// The deepest nesting.
const MAX_DEPTH: usize = 120;
/// The largest number of values that aliases may repeat.
const MAX_REPEATED_VALUES: usize = 200_000;

/// A place in a text that is not YAML.
pub(crate) struct YamlFault {
    /// The line, from 1; 0 if unknown.
    pub(crate) line: usize,
    /// The column, from 1; 0 if unknown.
    pub(crate) column: usize,
    /// The cause, without content of the text.
    pub(crate) message: &'static str,
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * MAX_VALUES,
            max_aliases: 100_000,
            max_anchors: 10_000,
            max_recorded_anchor_events: MAX_VALUES,
            max_recorded_anchor_bytes: MAX_TEXT_BYTES,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 1,
            max_nodes: MAX_VALUES,
            max_total_scalar_bytes: MAX_TEXT_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPEATED_VALUES,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 10_000,
        },
        // As in YAML 1.2: `on` and `yes` are strings.
        strict_booleans: true,
        with_snippet: false,
    }
}

pub(crate) fn parse(text: &str) -> Result<Json, YamlFault> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let to_usize = |number: u64| usize::try_from(number).unwrap_or_default();
        let (line, column) = match error.location() {
            Some(location) => (to_usize(location.line()), to_usize(location.column())),
            None => (0, 0),
        };
        YamlFault {
            line,
            column,
            message: message(&error),
        }
    })
}

/// Returns the numbers and booleans of a parsed text as they are written, in the places that they
/// have in `value`; everything else is `null`.
pub(crate) fn scalar_texts(text: &str, value: &Value) -> Option<Value> {
    serde_saphyr::with_deserializer_from_str_with_options(text, options(), |deserializer| {
        ScalarTexts(value).deserialize(deserializer)
    })
    .ok()
}

/// Reader for the texts of the scalars of a value that is parsed already.
#[derive(Clone, Copy)]
struct ScalarTexts<'v>(&'v Value);

impl<'de> DeserializeSeed<'de> for ScalarTexts<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            Value::Bool(_) | Value::Number(_) => String::deserialize(deserializer).map(Value::from),
            Value::Array(_) => deserializer.deserialize_seq(self),
            Value::Object(_) => deserializer.deserialize_map(self),
            Value::Null | Value::String(_) => {
                IgnoredAny::deserialize(deserializer).map(|_| Value::Null)
            }
        }
    }
}

impl<'de> Visitor<'de> for ScalarTexts<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same document")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence
            .next_element_seed(ScalarTexts(self.0.get(items.len()).unwrap_or(&Value::Null)))?
        {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let text =
                map.next_value_seed(ScalarTexts(self.0.get(&key).unwrap_or(&Value::Null)))?;
            members.insert(key, text);
        }
        Ok(members.into())
    }
}

fn message(error: &Error) -> &'static str {
    match error {
        Error::DuplicateMappingKey { .. } => "duplicate key; remove one of them",
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "the document is too large or too deep, or its aliases multiply it; expand the aliases"
        }
        // The error is inside the target of an alias.
        Error::AliasError { error, .. } => message(error),
        // The scanner has a limit of its own, which only its message tells.
        other if other.to_string().starts_with("recursion limit exceeded") => {
            "nested deeper than 120 levels; flatten this part"
        }
        _ => "invalid YAML; correct this part",
    }
}
