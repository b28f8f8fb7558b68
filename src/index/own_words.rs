//! Which word of a tool a term of the request was found in: a stem says little to people.

use std::ops::Range;
use std::sync::OnceLock;

use super::terms::TermKey;
use crate::catalog::Tool;
use crate::text::{Analyzer, Field, ValueKind, taken, texts_of};

/// The words of a tool, as it has them: of each field from when they are first asked for.
#[derive(Default)]
pub(crate) struct OwnWords {
    fields: [OnceLock<Words>; Field::ALL.len()],
    /// The parameters that take kinds of values.
    takes: OnceLock<Vec<(ValueKind, String)>>,
}

/// The words of a field.
struct Words {
    text: String,
    /// Where each stands in the text.
    words: Vec<(TermKey, Range<usize>)>,
}

impl OwnWords {
    /// Returns the word, as the tool has it, of a term that stands in a field: `word` itself if the
    /// field has it, whatever its case, else the first of the same term. Of a kind of value it is
    /// the parameter that takes it. The tool is the same each time.
    pub(crate) fn find(
        &self,
        tool: &Tool,
        (term, value): (TermKey, Option<ValueKind>),
        word: &str,
        field: Field,
    ) -> Option<&str> {
        if let Some(kind) = value {
            let takes = self.takes.get_or_init(|| {
                taken(tool)
                    .into_iter()
                    .map(|taken| (taken.kind, taken.by.to_owned()))
                    .collect()
            });
            return takes
                .iter()
                .find(|(taken, _)| *taken == kind)
                .map(|(_, by)| by.as_str());
        }
        let Words { text, words } =
            self.fields[field as usize].get_or_init(|| Words::of(tool, field));
        let same = || {
            words
                .iter()
                .filter(|(own, _)| *own == term)
                .map(|(_, place)| &text[place.clone()])
        };
        same()
            .find(|own| own.eq_ignore_ascii_case(word))
            .or_else(|| same().next())
    }
}

impl Words {
    fn of(tool: &Tool, field: Field) -> Self {
        let (mut text, mut words) = (String::new(), Vec::new());
        Analyzer::lend(|analyzer| {
            for own in texts_of(tool, field) {
                let start = text.len();
                text.push_str(own);
                analyzer.terms(own, |found| {
                    words.push((
                        TermKey::of(found.term),
                        start + found.start..start + found.end,
                    ));
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
    fn a_word_is_found_as_it_stands_and_else_the_first_of_its_term() {
        let mut tool = Tool::without_arguments(
            "bookFlight",
            "Booked flights; books a flight, Booking flights",
        );
        tool.parameters =
            Some(json!({"properties": {"day": {"type": "string", "format": "date"}}}));
        let own = OwnWords::default();
        let find =
            |term, word: &str, field| own.find(&tool, (TermKey::of(term), None), word, field);
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
        let takes = |kind: ValueKind, word: &str| {
            own.find(
                &tool,
                (TermKey::of(kind.term()), Some(kind)),
                word,
                Field::ParameterNames,
            )
        };
        assert_eq!(takes(ValueKind::Date, "3 May"), Some("day"));
        assert_eq!(takes(ValueKind::Path, "a.txt"), None);
    }
}
