//! Which texts are nearly the same: sets of words, compared where MinHash with bands says that they
//! may be alike, so that the time is linear in the number of texts.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use foldhash::{HashMap, HashSet};

use super::fold::{fold, words};

/// Texts that share as many of their words are nearly the same (Jaccard).
const SAME: f64 = 0.72;
/// More words of a text are not compared.
const MOST_WORDS: usize = 600;
/// More of one text is not read, in bytes.
const MOST_BYTES: usize = 1 << 16;
/// MinHash: as many bands of as many hashes.
const BANDS: usize = 16;
const ROWS: usize = 3;
/// As many texts of one band are compared with the next.
const MOST_ALIKE: usize = 8;

/// The words of a text, repeated ones once, and where to look for texts that are like it.
pub struct Sketch {
    /// As hashes, in their order.
    words: Vec<u64>,
    bands: Vec<u64>,
}

impl Sketch {
    /// Sketches the words of several texts together.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut found = HashSet::default();
        for text in texts {
            let folded = fold(read(text));
            let left = MOST_WORDS - found.len();
            found.extend(words(&folded).map(|word| hash(stem(word))).take(left));
        }
        let mut words: Vec<u64> = found.into_iter().collect();
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

    /// Returns `true` if a word is among them.
    pub fn has(&self, word: &str) -> bool {
        self.words.binary_search(&hash(stem(word))).is_ok()
    }

    /// Returns `true` if both have the very same words.
    pub fn equals(&self, other: &Self) -> bool {
        self.words == other.words
    }

    /// Returns `true` if the other has all its words.
    pub fn is_part_of(&self, other: &Self) -> bool {
        self.shared(other) == self.len()
    }

    /// Returns `true` if both have nearly the same words.
    pub fn is_like(&self, other: &Self) -> bool {
        let shared = self.shared(other);
        shared as f64 / (self.len() + other.len() - shared).max(1) as f64 >= SAME
    }

    /// How many words both have.
    fn shared(&self, other: &Self) -> usize {
        let mut others = other.words.iter().peekable();
        let is_shared = |word: &&u64| {
            while others.next_if(|other| other < word).is_some() {}
            others.next_if_eq(word).is_some()
        };
        self.words.iter().filter(is_shared).count()
    }
}

/// Texts that were met, by the bands of their sketches.
#[derive(Default)]
pub struct Bands(HashMap<(usize, u64), Vec<usize>>);

impl Bands {
    /// Returns the numbers of texts that may be like this one.
    pub fn near(&self, sketch: &Sketch) -> impl Iterator<Item = usize> {
        let mut met = HashSet::default();
        let bands = sketch.bands.iter().enumerate();
        let near = bands
            .filter_map(|(band, &signature)| self.0.get(&(band, signature)))
            .flatten()
            .copied();
        near.filter(move |&number| met.insert(number))
    }

    /// Adds a text under a number.
    pub fn add(&mut self, number: usize, sketch: &Sketch) {
        for (band, &signature) in sketch.bands.iter().enumerate() {
            let alike = self.0.entry((band, signature)).or_default();
            if alike.len() < MOST_ALIKE {
                alike.push(number);
            }
        }
    }
}

/// The words of a text in order, without case, accents and disguises, as hashes.
pub fn sequence(text: &str) -> Vec<u64> {
    words(&fold(read(text))).map(hash).collect()
}

/// What is read of a text.
fn read(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_BYTES)]
}

/// A word without the endings that a copyist changes.
pub fn stem(word: &str) -> &str {
    word.strip_suffix("es")
        .or(word.strip_suffix('s'))
        .filter(|stem| stem.len() > 2)
        .unwrap_or(word)
}

fn hash(word: &str) -> u64 {
    FixedState::default().hash_one(word)
}

/// The least hashes of a set under the hash functions of a band, as one: each multiplies the hash
/// of a word.
fn signature(words: &[u64], band: &[u64; ROWS]) -> u64 {
    let least = |by: &u64| {
        words
            .iter()
            .map(|word| word.wrapping_mul(*by))
            .min()
            .unwrap_or_default()
    };
    band.iter()
        .map(least)
        .fold(0, |all, least| mixed(all ^ least))
}

/// An odd number for each hash function.
const MULTIPLIERS: [[u64; ROWS]; BANDS] = {
    let mut multipliers = [[0; ROWS]; BANDS];
    let mut at = 0;
    while at < BANDS * ROWS {
        multipliers[at / ROWS][at % ROWS] = mixed(at as u64 + 1) | 1;
        at += 1;
    }
    multipliers
};

/// The next number of SplitMix64 (Steele, Lea, Flood 2014).
const fn mixed(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
