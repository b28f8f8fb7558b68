//! Which word of a tool a term of the request was found in: a stem says little to people.

use foldhash::{HashSet, HashSetExt};

use super::terms::TermKey;
use crate::catalog::Tool;
use crate::text::{Analyzer, Field, TermKind, ValueKind, taken, texts};

/// The words of a tool, as it has them.
pub(crate) struct OwnWords {
    /// Different ones in the order in which they stand.
    words: Vec<(TermKey, Field, Box<str>)>,
    /// The parameters that take kinds of values.
    takes: Vec<(ValueKind, String)>,
}

impl OwnWords {
    pub(crate) fn of(tool: &Tool) -> Self {
        let (mut words, mut known) = (Vec::new(), HashSet::new());
        Analyzer::lend(|analyzer| {
            for (field, text) in texts(tool) {
                analyzer.terms(text, |found| {
                    let word = (TermKey::of(found.term), field, &text[found.start..found.end]);
                    if known.insert(word) {
                        words.push((word.0, word.1, word.2.into()));
                    }
                });
            }
        });
        let takes = taken(tool).into_iter().map(|taken| (taken.kind, taken.by.to_owned())).collect();
        Self { words, takes }
    }

    /// Returns the word, as the tool has it, of a term that stands in a field: `word` itself if the field has it, whatever its case, else the
    /// first of the same term. Of a kind of value it is the parameter that takes it.
    pub(crate) fn find(&self, term: &str, kind: TermKind, word: &str, field: Field) -> Option<&str> {
        if kind == TermKind::Value {
            let kind = ValueKind::of_term(term)?;
            return self.takes.iter().find(|(taken, _)| *taken == kind).map(|(_, by)| by.as_str());
        }
        let key = TermKey::of(term);
        let same = || self.words.iter().filter(|own| (own.0, own.1) == (key, field)).map(|own| &*own.2);
        same().find(|own| own.eq_ignore_ascii_case(word)).or_else(|| same().next())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_is_found_as_it_stands_and_else_the_first_of_its_term() {
        let mut tool = Tool::without_arguments("bookFlight", "Booked flights; books a flight, Booking flights");
        tool.parameters = Some(json!({"properties": {"day": {"type": "string", "format": "date"}}}));
        let own = OwnWords::of(&tool);
        let find = |term: &str, kind, word: &str, field| own.find(term, kind, word, field);
        let (word, pair) = (TermKind::Word, TermKind::Pair);
        assert_eq!(find("book", word, "BOOKING", Field::Description), Some("Booking"));
        assert_eq!(find("book", word, "bookings", Field::Description), Some("Booked"));
        assert_eq!(find("book", word, "booking", Field::Name), Some("book"));
        assert_eq!(find("book flight", pair, "book my flight", Field::Description), Some("Booked flights"));
        assert_eq!(find("bookflight", TermKind::Identifier, "bookflight", Field::Name), Some("bookFlight"));
        assert_eq!(find("takes:date", TermKind::Value, "3 May", Field::ParameterNames), Some("day"));
        assert_eq!(find("takes:path", TermKind::Value, "a.txt", Field::ParameterNames), None);
        assert_eq!(find("absent", word, "absent", Field::Name), None);
    }
}
