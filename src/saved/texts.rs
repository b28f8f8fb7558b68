//! Texts that are found by their hash, in flat arrays.

use rayon::prelude::*;

use super::{SavedError, SavedFile, Writer};

/// So many texts are read faster than another thread is woken.
pub const FEW: usize = 512;
/// How far from where a hash would stand it is looked for first: one of 16,000 is some 60 places
/// off on average.
const FIRST_STEP: usize = 64;

/// Different texts in the order of their hashes, and of the texts where these are the same: whoever
/// makes texts of one hash gains nothing, as a text is always found in logarithmic time.
#[derive(Debug, Default, PartialEq)]
pub struct Texts {
    hashes: Vec<u64>,
    /// Where each text ends; it begins where the one before ends.
    ends: Vec<u64>,
    text: String,
}

impl Texts {
    /// Puts different texts in order, each with what belongs to it.
    pub(crate) fn new<S: AsRef<str> + Send + Sync, T: Send + Sync>(
        texts: Vec<(S, T)>,
    ) -> (Self, Vec<T>) {
        let mut belonging = Vec::with_capacity(texts.len());
        let known = Self::gathered(texts, |of| belonging.extend(of));
        (known, belonging)
    }

    /// Puts texts in order, each once, and tells `each` of every one what belongs to it, in the
    /// order of `texts`.
    pub(crate) fn gathered<S: AsRef<str> + Send + Sync, T: Send + Sync>(
        texts: Vec<(S, T)>,
        mut each: impl FnMut(&mut dyn Iterator<Item = T>),
    ) -> Self {
        let text = |place: usize| texts[place].0.as_ref();
        let mut order: Vec<(u64, usize)> = (0..texts.len())
            .into_par_iter()
            .with_min_len(FEW)
            .map(|place| (fnv1a(text(place)), place))
            .collect();
        order.par_sort_unstable();
        // Of one hash are texts that are the same, but for what is not by chance.
        for same in order.chunk_by_mut(|(one, _), (other, _)| one == other) {
            if same
                .windows(2)
                .any(|pair| text(pair[0].1) != text(pair[1].1))
            {
                same.sort_by(|a, b| text(a.1).cmp(text(b.1)));
            }
        }
        let mut known = Self::default();
        known
            .text
            .reserve_exact(texts.iter().map(|(text, _)| text.as_ref().len()).sum());
        let mut texts: Vec<Option<(S, T)>> = texts.into_iter().map(Some).collect();
        let mut at = 0;
        while let Some(&(hash, place)) = order.get(at) {
            let Some((text, of)) = texts[place].take() else {
                break;
            };
            at += 1;
            let more = std::iter::from_fn(|| {
                let next = order.get(at).filter(|(other, _)| *other == hash)?.1;
                let (_, of) = texts[next].take_if(|(other, _)| other.as_ref() == text.as_ref())?;
                at += 1;
                Some(of)
            });
            each(&mut std::iter::once(of).chain(more));
            known.hashes.push(hash);
            known.text.push_str(text.as_ref());
            known.ends.push(known.text.len() as u64);
        }
        known.hashes.shrink_to_fit();
        known.ends.shrink_to_fit();
        known.text.shrink_to_fit();
        known
    }

    /// Returns the number of texts.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns how many bytes they take.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.hashes) + size_of_val(&*self.ends) + self.text.len()
    }

    /// Returns the place of a text.
    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        let hash = fnv1a(text);
        let first = smaller(&self.hashes, hash, |&known| known);
        let same = self.hashes[first..].partition_point(|&known| known == hash);
        let (mut low, mut high) = (first, first + same);
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Returns the text at a place.
    pub(crate) fn get(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        // Both are ends of texts, and lengths of one that is in memory.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "no text in memory is longer than its addresses can tell"
        )]
        &self.text[start as usize..self.ends[place] as usize]
    }

    /// Returns the texts in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.get(place))
    }

    pub(crate) fn save(&self, name: &str, writer: &mut Writer) -> Result<(), SavedError> {
        writer.numbers(&format!("{name}.hashes"), &self.hashes)?;
        writer.numbers(&format!("{name}.ends"), &self.ends)?;
        writer.bytes(&format!("{name}.text"), self.text.as_bytes())
    }

    pub(crate) fn open(name: &str, file: &SavedFile) -> Result<Self, SavedError> {
        let hashes: Vec<u64> = file.numbers(&format!("{name}.hashes"))?;
        let ends: Vec<u64> = file.numbers(&format!("{name}.ends"))?;
        let text = file.text(&format!("{name}.text"))?;
        let is_end = |end: u64| usize::try_from(end).is_ok_and(|end| text.is_char_boundary(end));
        let ends_well = ends.last().copied().unwrap_or_default() == text.len() as u64;
        let sound = hashes.len() == ends.len()
            && hashes.is_sorted()
            && ends_well
            && ends.is_sorted()
            && ends.iter().all(|&end| is_end(end));
        file.ensure(sound, name)?;
        Ok(Self { hashes, ends, text })
    }
}

/// Hashes a text with FNV-1a of 64 bits (Fowler, Noll, Vo, Eastlake, Hansen: RFC 9923).
pub fn fnv1a(text: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// Returns how many things have a hash that is smaller than `hash`, of things in ascending order of
/// their hashes: as `partition_point`, in fewer looks at memory. Hashes lie evenly, so that the
/// place can be guessed, and from there steps of twice the length each lead past it.
pub fn smaller<T>(ascending: &[T], hash: u64, hash_of: impl Fn(&T) -> u64) -> usize {
    let is_smaller = |place: usize| hash_of(&ascending[place]) < hash;
    let count = ascending.len();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is no more than the count"
    )]
    let guess = ((u128::from(hash) * count as u128) >> u64::BITS) as usize;
    let (mut low, mut high, mut step) = (guess, guess, FIRST_STEP);
    while low > 0 && !is_smaller(low - 1) {
        (low, high, step) = (low.saturating_sub(step), low - 1, 2 * step);
    }
    while high < count && is_smaller(high) {
        (low, high, step) = (high + 1, (high + step).min(count), 2 * step);
    }
    low + ascending[low..high].partition_point(|thing| hash_of(thing) < hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_has_the_hash_that_the_specification_gives() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(text), hash, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn as_many_are_smaller_as_there_are(
            mut hashes in prop::collection::vec(prop_oneof![any::<u64>(), 0..9_u64, (u64::MAX - 9)..], 0..300),
            others in prop::collection::vec(prop_oneof![any::<u64>(), 0..9_u64, (u64::MAX - 9)..], 9),
        ) {
            hashes.sort_unstable();
            for hash in hashes.iter().chain(&others).copied() {
                let smaller = smaller(&hashes, hash, |&known| known);
                prop_assert_eq!(smaller, hashes.partition_point(|&known| known < hash));
            }
        }

        #[test]
        fn every_text_is_found_with_what_belongs_to_it(texts in prop::collection::btree_set("[a-cä]{0,3}", 0..20)) {
            let numbered = texts.iter().cloned().enumerate().map(|(number, text)| (text, number)).collect();
            let (known, numbers) = Texts::new(numbered);
            prop_assert_eq!(known.len(), texts.len());
            prop_assert_eq!(known.iter().map(str::to_owned).collect::<BTreeSet<_>>(), texts.clone());
            for (number, text) in texts.iter().enumerate() {
                prop_assert_eq!(known.find(text).map(|place| (known.get(place), numbers[place])), Some((text.as_str(), number)));
            }
            prop_assert_eq!(known.find("absent"), None);
        }
    }

    #[test]
    fn what_belongs_to_one_text_stands_together_in_order() {
        let mut gathered = Vec::new();
        let entries = vec![("b", 0), ("a", 1), ("b", 2), ("c", 3), ("b", 4)];
        let known = Texts::gathered(entries, |of| gathered.push(of.collect::<Vec<_>>()));
        assert_eq!(known, Texts::new(vec![("a", ()), ("b", ()), ("c", ())]).0);
        let of = |text| known.find(text).map(|place| gathered[place].clone());
        assert_eq!(
            (of("a"), of("b"), of("c")),
            (Some(vec![1]), Some(vec![0, 2, 4]), Some(vec![3]))
        );
    }

    #[test]
    fn texts_of_one_hash_are_told_apart() {
        let mut texts = Texts::new(vec![("a", 0), ("b", 1), ("c", 2)]).0;
        // As if they had one hash: they stand in the order of the letters then.
        texts = Texts {
            hashes: vec![fnv1a("b"); 3],
            text: "abc".to_owned(),
            ..texts
        };
        assert_eq!((texts.find("b"), texts.find("a")), (Some(1), None));
    }
}
