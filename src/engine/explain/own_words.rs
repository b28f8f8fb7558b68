//! Which word of a tool a term of the request was found in: a stem says little to people.

use foldhash::HashMap;

use crate::catalog::Tool;
use crate::retrieve::QueryTerm;
use crate::text::{Analyzer, Field, TermKind, ValueKind, taken, texts, words};

/// Returns the words, as the tool has them (of a kind of value the parameter that takes it), of terms that stand in these fields: the request's word if the field has it, else
/// the first of the same term. A term of which none is found keeps no word.
pub(super) fn own_words<'t>(tool: &'t Tool, terms: &[(&QueryTerm, Field)]) -> Vec<Option<&'t str>> {
    let texts = texts(tool);
    let same = |&(query, field): &(&QueryTerm, Field)| {
        if query.kind == TermKind::Value {
            let kind = ValueKind::of_term(&query.term)?;
            return taken(tool).into_iter().find(|taken| taken.kind == kind).map(|taken| taken.by);
        }
        let own = texts.iter().filter(|(own, _)| *own == field);
        own.flat_map(|(_, text)| words_of(text)).find(|word| word.eq_ignore_ascii_case(&query.word))
    };
    let mut words: Vec<Option<&str>> = terms.iter().map(same).collect();
    let mut left = words.iter().filter(|word| word.is_none()).count();
    let wanted: HashMap<&str, usize> =
        terms.iter().enumerate().map(|(place, (query, _))| (query.term.as_str(), place)).collect();
    Analyzer::lend(|analyzer| {
        for (field, text) in texts {
            if left == 0 {
                break;
            }
            if terms.iter().zip(&words).all(|((_, own), word)| *own != field || word.is_some()) {
                continue;
            }
            analyzer.terms(text, |found| {
                let place = wanted.get(found.term).copied();
                if let Some(place) = place.filter(|&place| terms[place].1 == field && words[place].is_none()) {
                    words[place] = Some(&text[found.start..found.end]);
                    left -= 1;
                }
            });
        }
    });
    words
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    words(text).map(|(start, end)| &text[start..end])
}
