//! The act of a turn: what the user does with the turn before and with the assistant's answer.

use std::collections::BTreeSet;

use super::features::{Word, WordKind, Words, features, hash};
use super::model::{ReaderModel, TurnAct};
/// The factor of the features of the context.
const CONTEXT_WEIGHT: f32 = 2.0;
/// The number of characters that show that two words are alike.
const STEM_CHARS: usize = 5;
/// The number of first words whose meaning depends on the answer.
const FIRST_WORDS: usize = 3;

/// The probability of each act, in the order of [`TurnAct::ALL`].
pub(super) struct ActProbabilities([f32; TurnAct::ALL.len()]);

impl ActProbabilities {
    /// Returns the probability of any of these acts.
    pub(super) fn of(&self, acts: &[TurnAct]) -> f32 {
        let mut probability = 0.0;
        for (act, own) in TurnAct::ALL.iter().zip(self.0) {
            if acts.contains(act) {
                probability += own;
            }
        }
        probability
    }
}

/// Returns the probabilities of the acts of a turn. `before` is the user's turn before, and
/// `answer` the assistant's message between both.
pub(super) fn acts(
    model: &ReaderModel,
    before: &str,
    answer: &str,
    turn: &str,
) -> ActProbabilities {
    let turn_words = Words::new(turn);
    let own = features(&turn_words);
    let context = context_features(before, answer, turn, &turn_words);
    let groups = [(1.0, own.as_slice()), (CONTEXT_WEIGHT, context.as_slice())];
    let mut scores = [0.0; TurnAct::ALL.len()];
    for (score, head) in scores.iter_mut().zip(&model.acts) {
        *score = head.score(&groups);
    }
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores
        .iter_mut()
        .for_each(|score| *score = (*score - largest).exp());
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
    ActProbabilities(scores)
}

/// Returns the features of a turn in its context, sorted, each once.
fn context_features(before: &str, answer: &str, turn: &str, turn_words: &Words) -> Vec<u32> {
    let is_question = |text: &str| text.contains(['?', '？']);
    let answer = answer.trim();
    let asks = if answer.is_empty() {
        "none"
    } else if answer.ends_with(['?', '？']) {
        "end"
    } else if is_question(answer) {
        "inside"
    } else {
        "no"
    };
    let words_in_turn = turn_words.length();
    let length_class = if words_in_turn <= 12 {
        words_in_turn
    } else {
        13 + ((words_in_turn - 13) / 8).min(3)
    };
    let answer_words = Words::new(answer);
    let before_words = Words::new(before);
    let said = stems(turn_words);
    let replied = stems(&answer_words);
    let first = stems(&before_words);
    let of_answer = said.intersection(&replied).count();
    let of_before = said.intersection(&first).count();
    let known = said
        .iter()
        .filter(|stem| replied.contains(*stem) || first.contains(*stem))
        .count();
    let name = |is: bool| if is { "True" } else { "False" };
    let mut texts = vec![
        format!("asks {asks}"),
        format!("length {asks} {length_class}"),
        format!("of answer {}", of_answer.min(3)),
        format!("of before {}", of_before.min(3)),
        format!("new {}", (said.len() - known).min(8)),
        format!("known {}", 4 * known / said.len().max(1)),
        format!("question {}", name(is_question(turn))),
        format!("digits {} {asks}", name(turn.contains(char::is_numeric))),
        format!("before {}", name(!before.trim().is_empty())),
    ];
    for word in turn_words.iter().take(FIRST_WORDS) {
        texts.push(format!("word {asks} {}", word.text));
    }
    let mut features: Vec<u32> = texts.iter().map(|text| hash(&["@", text])).collect();
    features.sort_unstable();
    features.dedup();
    features
}

/// Returns the beginnings of long words, numbers and ideographs. They show that two texts are about
/// the same thing.
fn stems(words: &Words) -> BTreeSet<&str> {
    let mut stems = BTreeSet::new();
    for Word { text, kind } in words.iter() {
        let tells = match kind {
            WordKind::Ideograph => true,
            WordKind::Plain => text.chars().nth(3).is_some() || text.contains(char::is_numeric),
            WordKind::Symbol => false,
        };
        if tells {
            let end = text
                .char_indices()
                .nth(STEM_CHARS)
                .map_or(text.len(), |(end, _)| end);
            stems.insert(&text[..end]);
        }
    }
    stems
}
