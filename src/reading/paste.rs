//! The request beside pasted matter: logs, code, data, mails, quotations, stories.
//!
//! A message of several lines is split, and each line gets the log-odds that it belongs to the
//! request: from its words and from its place in the text. The lines with the best or nearly the
//! best log-odds are the request. The lines beside them may also be the user's own words: further
//! requests, details, thanks. If they look so, they belong to the request, too.
//! `models/train/reader/lines.py` has the same rules.

use std::ops::Range;

use super::features::{Words, features};
use super::model::{BESIDE_VALUES, PLACE_VALUES, ReaderModel, SENTENCE_VALUES};
/// The smallest total length, in bytes, of pasted matter without a fence. If the lines beside the
/// request and outside of fences have fewer bytes in total, they are the user's own words.
const MIN_PASTED_BYTES: usize = 180;
/// The largest number of lines that are read; a longer text is read at its beginning and its end.
const MAX_LINES: usize = 400;
/// The largest number of characters from which a line or a sentence gets its score.
const MAX_LINE_CHARS: usize = 300;
/// The largest number of characters of a line that are split into sentences.
const MAX_SENTENCE_CHARS: usize = 600;
/// The largest number of sentences of a line that get log-odds of their own.
const MAX_SENTENCES: usize = 12;
/// In a line with fewer sentences than this, sentences get no log-odds of their own.
const MIN_SENTENCES: usize = 3;
/// The smallest [`LineScore::scope`] of a request. Greetings and thanks have less.
const MIN_SCOPE: f32 = -1.0;
/// A line belongs to the request if its log-odds are at most this much below those of the best
/// line.
const MARGIN: f32 = 1.5;
/// A line with at least these log-odds belongs to the request, however much better the best line is.
const CERTAIN: f32 = 0.0;
/// The log-odds from which the lines beside a request are pasted matter.
const MIN_PASTED: f32 = 0.0;
/// The largest number of characters of a line beside the request that count.
const MAX_BESIDE_CHARS: usize = 500;
/// The marks that open and close a fence.
const FENCES: [&str; 3] = ["```", "~~~", "\"\"\""];
/// The characters of rules: lines such as `-----`, which separate parts of a text.
const RULES: [char; 5] = ['-', '=', '*', '_', '#'];
/// The beginnings of quoted and listed lines.
const MARKS: [&str; 11] = [">", "|", "#", "//", "- ", "* ", "+", "<", "{", "\"", "“"];

/// Returns the ranges of the lines that are the request, in order, if the text also has pasted
/// matter.
pub(super) fn request_lines(model: &ReaderModel, text: &str) -> Option<Vec<Range<usize>>> {
    if !text.contains('\n') {
        return None;
    }
    let layout = Layout::new(text);
    if !layout.may_have_pasted_matter() {
        return None;
    }
    let scores = layout.scores(model);
    let outside = layout.outside_fences();
    let request = chosen_lines(&scores, &outside);
    let mut beside = outside.clone();
    beside.retain(|position| request.binary_search(position).is_err());
    let is_pasted = layout.bytes(&beside) >= MIN_PASTED_BYTES
        && model
            .beside
            .score(layout.beside_values(&scores, &request, &beside))
            >= MIN_PASTED;
    let lines = if is_pasted { request } else { outside };
    if lines.len() == scores.len() {
        return None;
    }
    let range = |position: usize| layout.lines[layout.read[position]].clone();
    Some(lines.into_iter().map(range).collect())
}

/// Returns the positions of the lines that look like the request, in order.
fn chosen_lines(scores: &[LineScore], outside_fences: &[usize]) -> Vec<usize> {
    let mut chosen = outside_fences.to_vec();
    retain_if_any(&mut chosen, |&position| scores[position].scope >= MIN_SCOPE);
    let best = chosen
        .iter()
        .map(|&position| scores[position].request)
        .fold(f32::NEG_INFINITY, f32::max);
    let least = (best - MARGIN).min(CERTAIN);
    chosen.retain(|&position| scores[position].request >= least);
    chosen
}

/// Removes the items for which `is_kept` is `false`. If that is every item, keeps all of them.
fn retain_if_any<T>(items: &mut Vec<T>, is_kept: impl Fn(&T) -> bool) {
    if items.iter().any(&is_kept) {
        items.retain(is_kept);
    }
}

/// The scores of a line.
struct LineScore {
    /// The log-odds that it belongs to a request, from its words alone.
    words: f32,
    /// The best and the mean of the same log-odds of its sentences. With fewer than
    /// [`MIN_SENTENCES`] of them, both are those of the line.
    best_sentence: f32,
    mean_sentence: f32,
    /// The log-odds that it belongs to the request.
    request: f32,
    /// The log-odds that its words alone ask for something that a tool could do.
    scope: f32,
}

/// A text as lines.
struct Layout<'t> {
    text: &'t str,
    lines: Vec<Range<usize>>,
    /// The lines inside a fence, with the lines that open and close it.
    fenced: Vec<bool>,
    /// The lines at which a paragraph ends: blank lines, rules and fences.
    ends: Vec<bool>,
    /// The numbers of the lines that have scores.
    read: Vec<usize>,
}

impl<'t> Layout<'t> {
    fn new(text: &'t str) -> Self {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split('\n') {
            lines.push(start..start + line.len());
            start += line.len() + 1;
        }
        if lines.len() > MAX_LINES {
            lines.drain(MAX_LINES / 2..lines.len() - MAX_LINES / 2);
        }
        let line = |range: &Range<usize>| &text[range.clone()];
        let fenced = fenced(&lines.iter().map(line).collect::<Vec<_>>());
        let mut ends = Vec::with_capacity(lines.len());
        let mut read = Vec::new();
        for (number, range) in lines.iter().enumerate() {
            let line = line(range);
            let is_fence = fence(line).is_some();
            ends.push(line.trim().is_empty() || is_rule(line) || is_fence);
            if !is_fence && line.contains(char::is_alphanumeric) {
                read.push(number);
            }
        }
        Self {
            text,
            lines,
            fenced,
            ends,
            read,
        }
    }

    /// Returns `false` if the lines are too few or too short to be a request beside pasted matter,
    /// whatever their scores.
    fn may_have_pasted_matter(&self) -> bool {
        let lengths = self.read.iter().map(|&number| self.line(number).len());
        let Some(shortest) = lengths.clone().min() else {
            return false;
        };
        let has_fence = self.read.iter().any(|&number| self.fenced[number]);
        let longest_paste = lengths.sum::<usize>() - shortest;
        self.read.len() > 1 && (has_fence || longest_paste >= MIN_PASTED_BYTES)
    }

    fn line(&self, number: usize) -> &'t str {
        self.text[self.lines[number].clone()].trim()
    }

    /// Returns the positions of the lines outside of fences, or of all lines if every line is fenced.
    fn outside_fences(&self) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..self.read.len()).collect();
        retain_if_any(&mut positions, |&position| {
            !self.fenced[self.read[position]]
        });
        positions
    }

    /// Returns the total length of lines.
    fn bytes(&self, positions: &[usize]) -> usize {
        let lengths = positions
            .iter()
            .map(|&position| self.line(self.read[position]).len());
        lengths.sum()
    }

    /// Returns the values that describe the lines beside the request. Neither group is empty.
    fn beside_values(
        &self,
        scores: &[LineScore],
        request: &[usize],
        beside: &[usize],
    ) -> [f32; BESIDE_VALUES] {
        let scores_of = |positions: &[usize], score: fn(&LineScore) -> f32| -> Vec<f32> {
            let values = positions.iter().map(|&position| score(&scores[position]));
            values.collect()
        };
        let length = |&position: &usize| {
            let characters = self.line(self.read[position]).chars().count();
            characters.min(MAX_BESIDE_CHARS) as f32
        };
        let lengths: Vec<f32> = beside.iter().map(length).collect();
        let means = scores_of(beside, |score| score.mean_sentence);
        let weighted: f32 = means.iter().zip(&lengths).map(|(score, n)| score * n).sum();
        let count = beside.len() as f32;
        [
            weighted / lengths.iter().sum::<f32>(),
            largest(&scores_of(beside, |score| score.best_sentence)),
            mean(&lengths).log2(),
            count.log2(),
            request.len() as f32 / (request.len() as f32 + count),
            largest(&scores_of(request, |score| score.request)),
            mean(&scores_of(request, |score| score.words)),
            mean(&scores_of(beside, |score| score.scope)),
            largest(&lengths) / 100.0,
        ]
    }

    /// Returns the scores of each line that is read.
    fn scores(&self, model: &ReaderModel) -> Vec<LineScore> {
        let mut own = Vec::with_capacity(self.read.len());
        let mut scopes = Vec::with_capacity(self.read.len());
        for &number in &self.read {
            let features = features(&Words::new(beginning(self.line(number), MAX_LINE_CHARS)));
            own.push(model.lines.score(&[(1.0, &features)]));
            scopes.push(model.scope.score(&[(1.0, &features)]));
        }
        let total: f32 = own.iter().sum();
        let mut scores = Vec::with_capacity(own.len());
        for (position, scope) in scopes.into_iter().enumerate() {
            let line = self.line(self.read[position]);
            let place = self.values(position, &own, total);
            let sentences = sentence_values(model, line);
            let [best, _, mean, has_many, _] = sentences;
            let (best_sentence, mean_sentence) = if has_many > 0.0 {
                (best, mean)
            } else {
                (own[position], own[position])
            };
            scores.push(LineScore {
                words: own[position],
                best_sentence,
                mean_sentence,
                request: model.structure.score(place.into_iter().chain(sentences)),
                scope,
            });
        }
        scores
    }

    /// Returns the values that describe a line: its own score, and its place.
    fn values(&self, position: usize, own: &[f32], total: f32) -> [f32; PLACE_VALUES] {
        let (number, last) = (self.read[position], own.len() - 1);
        let line = self.line(number);
        let (mut first_line, mut last_line) = (number, number);
        while first_line > 0 && !self.ends[first_line - 1] {
            first_line -= 1;
        }
        while last_line + 1 < self.ends.len() && !self.ends[last_line + 1] {
            last_line += 1;
        }
        let before = &own[position.saturating_sub(2)..position];
        let after = &own[position + 1..(position + 3).min(own.len())];
        let near = before.len() + after.len();
        let near_sum: f32 = before.iter().chain(after).sum();
        let others = (total - own[position]) / last.max(1) as f32;
        let characters = line.chars().count().max(1) as f32;
        let share =
            |is: fn(char) -> bool| line.chars().filter(|&c| is(c)).count() as f32 / characters;
        let flag = |is: bool| f32::from(u8::from(is));
        let raw = &self.text[self.lines[number].clone()];
        [
            own[position],
            flag(MARKS.iter().any(|mark| line.starts_with(mark))),
            flag(position == 0),
            flag(position == 1),
            flag(position == last),
            flag(position + 1 == last),
            flag(first_line == last_line),
            (last_line - first_line).min(6) as f32 / 6.0,
            if near == 0 {
                0.0
            } else {
                near_sum / near as f32
            },
            if last == 0 { 0.0 } else { others },
            flag(line.contains(['?', '？'])),
            characters.min(200.0) / 200.0,
            (characters.max(100.0) / 100.0).log2().min(4.0) / 4.0,
            share(|c| !c.is_alphanumeric() && !c.is_whitespace()),
            share(|c| c.is_numeric()),
            flag(line.ends_with('.')),
            flag(raw.starts_with([' ', '\t'])),
            flag(self.read[0] >= first_line),
            flag(self.read[last] <= last_line),
        ]
    }
}

fn largest(values: &[f32]) -> f32 {
    values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len().max(1) as f32
}

/// Returns the first characters of a text, at most `count`.
fn beginning(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Returns the best, worst and mean score of the sentences of a line, whether there are at least
/// [`MIN_SENTENCES`] of them, and their number.
fn sentence_values(model: &ReaderModel, line: &str) -> [f32; SENTENCE_VALUES] {
    let sentences = sentences(beginning(line, MAX_SENTENCE_CHARS));
    let count = sentences.len().min(8) as f32 / 8.0;
    if sentences.len() < MIN_SENTENCES {
        return [0.0, 0.0, 0.0, 0.0, count];
    }
    let (mut best, mut worst, mut sum) = (f32::NEG_INFINITY, f32::INFINITY, 0.0);
    for sentence in &sentences {
        let score = model
            .lines
            .score(&[(1.0, &features(&Words::new(sentence)))]);
        best = best.max(score);
        worst = worst.min(score);
        sum += score;
    }
    [best, worst, sum / sentences.len() as f32, 1.0, count]
}

/// Splits a line into its first sentences.
fn sentences(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut ends = false;
    for (position, c) in line.char_indices() {
        if ends && c.is_whitespace() {
            sentences.push(&line[start..position]);
            start = position;
        }
        ends = matches!(c, '.' | '!' | '?' | '。' | '！' | '？' | ';');
    }
    sentences.push(&line[start..]);
    sentences.retain(|sentence| sentence.contains(char::is_alphanumeric));
    sentences.truncate(MAX_SENTENCES);
    for sentence in &mut sentences {
        *sentence = beginning(sentence.trim(), MAX_LINE_CHARS);
    }
    sentences
}

/// Returns the lines inside fences. A fence that never closes reaches to the end of the text. One
/// made of quotation marks must close.
fn fenced(lines: &[&str]) -> Vec<bool> {
    let mut fenced = vec![false; lines.len()];
    let mut open: Option<(&str, usize)> = None;
    for (number, line) in lines.iter().enumerate() {
        match (fence(line), open) {
            (None, Some((mark, start))) if line.trim_end().ends_with(mark) => {
                fenced[start..=number].fill(true);
                open = None;
            }
            (Some(mark), None) => open = Some((mark, number)),
            (Some(mark), Some((opening, start))) if mark == opening => {
                fenced[start..=number].fill(true);
                open = None;
            }
            _ => {}
        }
    }
    if let Some((mark, start)) = open
        && mark != FENCES[2]
    {
        fenced[start..].fill(true);
    }
    fenced
}

fn fence(line: &str) -> Option<&'static str> {
    FENCES
        .into_iter()
        .find(|mark| line.trim().starts_with(mark))
}

/// Returns `true` for a line of at least five equal characters that separate parts.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    let first = line.chars().next();
    first.is_some_and(|first| RULES.contains(&first) && line.chars().all(|c| c == first))
        && line.len() >= 5
}
