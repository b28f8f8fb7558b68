//! The fitted model of the reader: linear weights for hashed features.
//!
//! The file's parts, in order; all numbers are little-endian:
//!
//! - magic: `PTREADER`
//! - four u32: version, bits of a hash, bits of a hash of turns, number of turn acts
//! - the heads: step and intercept as f32, and a weight of i8 for each hash. The order is: scope,
//!   lines, and the acts of turns
//! - the structure of lines: the number of values as u32, their weights and the intercept as f32
//! - the lines beside the request: the same
//! - SHA-256 of all of the above

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::features::HASH_BITS;

const MAGIC: &[u8; 8] = b"PTREADER";
const VERSION: u32 = 3;
const DIGEST_BYTES: usize = 32;

/// The number of values of a hash for turns, as a power of two.
pub(super) const TURN_BITS: u32 = 14;
/// The number of values that describe a line.
pub(super) const LINE_VALUES: usize = PLACE_VALUES + SENTENCE_VALUES;
/// The number of values that describe a line's words and its place.
pub(super) const PLACE_VALUES: usize = 19;
/// The number of values of a line's sentences.
pub(super) const SENTENCE_VALUES: usize = 5;
/// The number of values that describe the lines beside a request.
pub(super) const BESIDE_VALUES: usize = 9;
/// The model in the binary; `None` without the feature `static-model`.
static BUILT_IN: LazyLock<Option<ReaderModel>> = LazyLock::new(|| {
    #[cfg(feature = "static-model")]
    let bytes: Option<&'static [u8]> = Some(picktools_models::READER_MODEL);
    #[cfg(not(feature = "static-model"))]
    let bytes: Option<&'static [u8]> = None;
    ReaderModel::parse(bytes?)
});

/// The weights of the reader.
pub(super) struct ReaderModel {
    /// The log-odds that a message asks for something that a tool could do.
    pub(super) scope: Head,
    /// The log-odds that a line belongs to the request.
    pub(super) lines: Head,
    /// The evidence for each act of a turn.
    pub(super) acts: Vec<Head>,
    /// The log-odds that a line belongs to the request, from its values.
    pub(super) structure: ValueHead<LINE_VALUES>,
    /// The log-odds that the lines beside a request are pasted matter, from their values.
    pub(super) beside: ValueHead<BESIDE_VALUES>,
}

/// A linear function of values.
pub(super) struct ValueHead<const VALUES: usize> {
    weights: [f32; VALUES],
    intercept: f32,
}

impl<const VALUES: usize> ValueHead<VALUES> {
    /// Returns the intercept and the weighted sum of the values.
    pub(super) fn score(&self, values: impl IntoIterator<Item = f32>) -> f32 {
        let weighted = self.weights.iter().zip(values).map(|(w, value)| w * value);
        self.intercept + weighted.sum::<f32>()
    }

    fn parse(rest: &mut &'static [u8]) -> Option<Self> {
        if take_u32(rest)? as usize != VALUES {
            return None;
        }
        let mut weights = [0.0; VALUES];
        for weight in &mut weights {
            *weight = take_f32(rest)?;
        }
        let intercept = take_f32(rest)?;
        Some(Self { weights, intercept })
    }
}

/// A linear function of hashed features.
pub(super) struct Head {
    weights: &'static [u8],
    step: f32,
    intercept: f32,
}

impl Head {
    /// Returns the sum of the intercept and of each group's weights, divided by the length of the
    /// group and multiplied by its factor.
    pub(super) fn score(&self, groups: &[(f32, &[u32])]) -> f32 {
        let mut score = self.intercept;
        for (factor, features) in groups {
            if features.is_empty() {
                continue;
            }
            let sum: i32 = features.iter().map(|&feature| self.weight(feature)).sum();
            score += factor * self.step * sum as f32 / (features.len() as f32).sqrt();
        }
        score
    }

    fn weight(&self, feature: u32) -> i32 {
        let position = feature as usize & (self.weights.len() - 1);
        i32::from(self.weights[position].cast_signed())
    }
}

impl ReaderModel {
    /// Returns the model in the binary. A damaged file counts as none; a test reads it.
    pub(super) fn built_in() -> Option<&'static Self> {
        BUILT_IN.as_ref()
    }

    /// Parses a file; `None` if it is damaged.
    fn parse(bytes: &'static [u8]) -> Option<Self> {
        let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_BYTES)?)?;
        if Sha256::digest(body).as_slice() != digest {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let acts = u32::try_from(TurnAct::ALL.len()).ok()?;
        let header = [VERSION, HASH_BITS, TURN_BITS, acts];
        for expected in header {
            if take_u32(&mut rest)? != expected {
                return None;
            }
        }
        let scope = Head::parse(&mut rest, HASH_BITS)?;
        let lines = Head::parse(&mut rest, HASH_BITS)?;
        let mut acts = Vec::with_capacity(TurnAct::ALL.len());
        for _ in TurnAct::ALL {
            acts.push(Head::parse(&mut rest, TURN_BITS)?);
        }
        let structure = ValueHead::parse(&mut rest)?;
        let beside = ValueHead::parse(&mut rest)?;
        rest.is_empty().then_some(Self {
            scope,
            lines,
            acts,
            structure,
            beside,
        })
    }
}

impl Head {
    fn parse(rest: &mut &'static [u8], bits: u32) -> Option<Self> {
        let (step, intercept) = (take_f32(rest)?, take_f32(rest)?);
        let (weights, remaining) = rest.split_at_checked(1 << bits)?;
        *rest = remaining;
        Some(Self {
            weights,
            step,
            intercept,
        })
    }
}

fn take_u32(rest: &mut &'static [u8]) -> Option<u32> {
    let (bytes, remaining) = rest.split_first_chunk()?;
    *rest = remaining;
    Some(u32::from_le_bytes(*bytes))
}

fn take_f32(rest: &mut &'static [u8]) -> Option<f32> {
    take_u32(rest)
        .map(f32::from_bits)
        .filter(|value| value.is_finite())
}

#[cfg(all(test, feature = "static-model"))]
mod tests {
    use super::*;

    #[test]
    fn built_in_model_is_intact_and_a_damaged_one_is_rejected() {
        let intact = picktools_models::READER_MODEL;
        assert!(ReaderModel::parse(intact).is_some());
        for position in [0, 9, 30, intact.len() - 1] {
            let mut damaged = intact.to_vec();
            damaged[position] ^= 1;
            assert!(ReaderModel::parse(damaged.leak()).is_none(), "{position}");
        }
        assert!(ReaderModel::parse(&[]).is_none());
    }
}

/// The act of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnAct {
    /// It chooses among what the assistant listed.
    Choice,
    /// It agrees with an offer of the assistant.
    Consent,
    /// It corrects a value of the request before.
    Correction,
    /// It repeats the request before with another value.
    Ellipsis,
    /// It makes a request of its own.
    NewRequest,
    /// It declines an offer, and requests something else.
    Refusal,
    /// It declines an offer.
    Refuse,
    /// It repeats the request before with another value, and requests something else.
    SecondTool,
    /// It requests nothing.
    SmallTalk,
    /// It thanks or ends the conversation.
    Thanks,
    /// It gives a detail that the assistant asked for.
    Value,
}

impl TurnAct {
    /// All acts, in the order of the model's file.
    pub(super) const ALL: [Self; 11] = [
        Self::Choice,
        Self::Consent,
        Self::Correction,
        Self::Ellipsis,
        Self::NewRequest,
        Self::Refusal,
        Self::Refuse,
        Self::SecondTool,
        Self::SmallTalk,
        Self::Thanks,
        Self::Value,
    ];
}
