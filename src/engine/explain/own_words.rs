//! Which word of a tool a term of the request was found in: a stem says little to people.

use foldhash::HashMap;

use crate::catalog::Tool;
use crate::text::{Analyzer, Field, texts};

/// Returns the words, as the tool has them, of terms that stand in these fields, each the first of its field. A term of
/// which none is found keeps no word.
pub(super) fn own_words<'t>(tool: &'t Tool, terms: &[(&str, Field)]) -> Vec<Option<&'t str>> {
    let wanted: HashMap<&str, usize> = terms.iter().enumerate().map(|(place, &(term, _))| (term, place)).collect();
    let mut words = vec![None; terms.len()];
    let mut left = terms.len();
    let mut analyzer = Analyzer::new();
    for (field, text) in texts(tool) {
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
    words
}
