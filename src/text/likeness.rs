//! Detection of near-identical texts.
//!
//! Texts are compared as sets of words. Only texts that share a MinHash band are compared, so the
//! time is linear in the number of texts.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use foldhash::{HashMap, HashSet};

use super::fold::{fold, words};

/// The lowest Jaccard similarity of the word sets of near-identical texts.
const MIN_SIMILARITY: f64 = 0.72;
/// The most words of a text that are compared.
const MAX_WORDS: usize = 600;
/// The longest text that is read, in bytes.
const MAX_BYTES: usize = 1 << 16;
/// The number of MinHash bands.
const BANDS: usize = 16;
/// The number of hashes in a band.
const ROWS: usize = 3;
/// The most texts that are stored for one band signature.
const MAX_PER_BAND: usize = 8;

/// The distinct words of a text, with its MinHash bands.
pub struct TextSketch {
    /// The hashes of the words, ascending.
    words: Vec<u64>,
    bands: Vec<u64>,
}

impl TextSketch {
    /// Makes one sketch of the words of several texts.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut hashes = HashSet::default();
        for text in texts {
            let folded = fold(cut_text(text));
            let remaining = MAX_WORDS - hashes.len();
            let word_hashes = words(&folded).map(|word| hash(stem(word)));
            hashes.extend(word_hashes.take(remaining));
        }
        let mut words: Vec<u64> = hashes.into_iter().collect();
        words.sort_unstable();
        let bands = MULTIPLIERS
            .iter()
            .map(|band| signature(&words, band))
            .collect();
        Self { words, bands }
    }

    /// Returns `true` if the texts have no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the number of different words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns `true` if the texts contain a word.
    pub fn has(&self, word: &str) -> bool {
        self.words.binary_search(&hash(stem(word))).is_ok()
    }

    /// Returns `true` if both have the same words.
    pub fn equals(&self, other: &Self) -> bool {
        self.words == other.words
    }

    /// Returns `true` if `other` has all words of this sketch.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.count_shared(other) == self.len()
    }

    /// Returns `true` if the texts are near-identical.
    pub fn is_like(&self, other: &Self) -> bool {
        let shared = self.count_shared(other);
        shared as f64 / (self.len() + other.len() - shared).max(1) as f64 >= MIN_SIMILARITY
    }

    /// Counts the words that both have.
    fn count_shared(&self, other: &Self) -> usize {
        let mut others = other.words.iter().peekable();
        let is_shared = |word: &&u64| {
            while others.next_if(|other| other < word).is_some() {}
            others.next_if_eq(word).is_some()
        };
        self.words.iter().filter(is_shared).count()
    }
}

/// An index of texts by the bands of their sketches.
#[derive(Default)]
pub struct Bands(HashMap<(usize, u64), Vec<usize>>);

impl Bands {
    /// Returns the numbers of texts that may be near-identical to this one, each once.
    pub fn near(&self, sketch: &TextSketch) -> impl Iterator<Item = usize> {
        let mut returned = HashSet::default();
        let bands = sketch.bands.iter().enumerate();
        let near = bands
            .filter_map(|(band, &signature)| self.0.get(&(band, signature)))
            .flatten()
            .copied();
        near.filter(move |&number| returned.insert(number))
    }

    /// Adds a text under a number.
    pub fn add(&mut self, number: usize, sketch: &TextSketch) {
        for (band, &signature) in sketch.bands.iter().enumerate() {
            let alike = self.0.entry((band, signature)).or_default();
            if alike.len() < MAX_PER_BAND {
                alike.push(number);
            }
        }
    }
}

/// Returns the hashes of the folded words of a text, in order.
pub fn sequence(text: &str) -> Vec<u64> {
    words(&fold(cut_text(text))).map(hash).collect()
}

/// Cuts a text to [`MAX_BYTES`].
fn cut_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

/// Removes a plural ending, which copies of a text often change.
pub fn stem(word: &str) -> &str {
    match word.strip_suffix("es").or(word.strip_suffix('s')) {
        Some(stem) if stem.len() > 2 => stem,
        _ => word,
    }
}

fn hash(word: &str) -> u64 {
    FixedState::default().hash_one(word)
}

/// Computes the signature of a band: the combined minimum hashes of a set of words. Each hash
/// function multiplies the hash of a word with a number.
fn signature(words: &[u64], band: &[u64; ROWS]) -> u64 {
    let mut combined = 0;
    for multiplier in band {
        let hashes = words.iter().map(|word| word.wrapping_mul(*multiplier));
        combined = mix(combined ^ hashes.min().unwrap_or_default());
    }
    combined
}

/// The multipliers of the hash functions, all odd.
const MULTIPLIERS: [[u64; ROWS]; BANDS] = {
    let mut multipliers = [[0; ROWS]; BANDS];
    let mut number = 0;
    while number < BANDS * ROWS {
        multipliers[number / ROWS][number % ROWS] = mix(number as u64 + 1) | 1;
        number += 1;
    }
    multipliers
};

/// Returns the next number of SplitMix64 (Steele, Lea, Flood 2014).
const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
