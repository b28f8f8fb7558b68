//! The original spelling of a matched term. A stem means little to people.

use std::ops::Range;
use std::sync::OnceLock;

use super::terms::TermKey;
use crate::catalog::Tool;
use crate::text::{Analyzer, Field, ValueKind, accepted_values, field_texts};

/// The words of a tool in their original spelling, analysed per field on first use.
#[derive(Default)]
pub(crate) struct OriginalWords {
    fields: [OnceLock<FieldWords>; Field::ALL.len()],
    /// The parameters that accept kinds of values.
    value_parameters: OnceLock<Vec<(ValueKind, String)>>,
}

/// The words of one field.
struct FieldWords {
    text: String,
    /// The range of each word in the text.
    words: Vec<(TermKey, Range<usize>)>,
}

impl OriginalWords {
    /// Returns the original spelling of a term in a field. If the field contains `word` itself,
    /// ignoring case, that word is returned, else the first word with the same term. For a kind of
    /// value it is the parameter that accepts it. Every call must pass the same tool.
    pub(crate) fn find(
        &self,
        tool: &Tool,
        (term, value): (TermKey, Option<ValueKind>),
        word: &str,
        field: Field,
    ) -> Option<&str> {
        if let Some(kind) = value {
            let value_parameters = self.value_parameters.get_or_init(|| {
                accepted_values(tool)
                    .into_iter()
                    .map(|value| (value.kind, value.by.to_owned()))
                    .collect()
            });
            return value_parameters
                .iter()
                .find(|(accepted, _)| *accepted == kind)
                .map(|(_, parameter)| parameter.as_str());
        }
        let FieldWords { text, words } =
            self.fields[field as usize].get_or_init(|| FieldWords::analyze(tool, field));
        let same_term = || {
            words
                .iter()
                .filter(|(key, _)| *key == term)
                .map(|(_, range)| &text[range.clone()])
        };
        same_term()
            .find(|spelling| spelling.eq_ignore_ascii_case(word))
            .or_else(|| same_term().next())
    }
}

impl FieldWords {
    fn analyze(tool: &Tool, field: Field) -> Self {
        let (mut text, mut words) = (String::new(), Vec::new());
        Analyzer::lend(|analyzer| {
            for part in field_texts(tool, field) {
                let start = text.len();
                text.push_str(part);
                analyzer.terms(part, |word| {
                    let range = start + word.start..start + word.end;
                    words.push((TermKey::new(word.term), range));
                });
            }
        });
        Self { text, words }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn find_prefers_the_same_spelling_and_else_the_first_word() {
        let mut tool = Tool::without_arguments(
            "bookFlight",
            "Booked flights; books a flight, Booking flights",
        );
        tool.parameters =
            Some(json!({"properties": {"day": {"type": "string", "format": "date"}}}));
        let words = OriginalWords::default();
        let find =
            |term, word: &str, field| words.find(&tool, (TermKey::new(term), None), word, field);
        assert_eq!(find("book", "BOOKING", Field::Description), Some("Booking"));
        assert_eq!(find("book", "bookings", Field::Description), Some("Booked"));
        assert_eq!(find("book", "booking", Field::Name), Some("book"));
        assert_eq!(
            find("book flight", "book my flight", Field::Description),
            Some("Booked flights")
        );
        assert_eq!(
            find("bookflight", "bookflight", Field::Name),
            Some("bookFlight")
        );
        assert_eq!(find("absent", "absent", Field::Name), None);
        let parameter_for = |kind: ValueKind, word: &str| {
            words.find(
                &tool,
                (TermKey::new(kind.term()), Some(kind)),
                word,
                Field::ParameterNames,
            )
        };
        assert_eq!(parameter_for(ValueKind::Date, "3 May"), Some("day"));
        assert_eq!(parameter_for(ValueKind::Path, "a.txt"), None);
    }
}
