//! Texts that are found by their hash, in flat arrays.

use rayon::prelude::*;

use super::{SavedError, SavedFile, Writer};

/// Different texts in the order of their hashes, and of the texts where these are the same: whoever makes texts of one hash
/// gains nothing, as a text is always found in logarithmic time.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Texts {
    hashes: Vec<u64>,
    /// Where each text ends; it begins where the one before ends.
    ends: Vec<u64>,
    text: String,
}

impl Texts {
    /// Puts different texts in order, each with what belongs to it.
    pub(crate) fn new<S: AsRef<str> + Send + Sync, T: Send>(texts: Vec<(S, T)>) -> (Self, Vec<T>) {
        let sorted = sorted(texts);
        let (mut known, mut belonging) = (Self::for_texts(&sorted), Vec::with_capacity(sorted.len()));
        for (hash, text, of) in sorted {
            known.push(hash, text.as_ref());
            belonging.push(of);
        }
        (known, belonging)
    }

    /// Puts texts in order, each once, and tells `each` of every one what belongs to it, in the order of `texts`.
    pub(crate) fn gathered<S: AsRef<str> + Send + Sync, T: Send>(
        texts: Vec<(S, T)>,
        mut each: impl FnMut(&mut dyn Iterator<Item = T>),
    ) -> Self {
        let sorted = sorted(texts);
        let mut known = Self::for_texts(&sorted);
        let mut entries = sorted.into_iter().peekable();
        while let Some((hash, text, of)) = entries.next() {
            let is_same = |next: &(u64, S, T)| next.0 == hash && next.1.as_ref() == text.as_ref();
            let more = std::iter::from_fn(|| entries.next_if(is_same)).map(|(_, _, of)| of);
            each(&mut std::iter::once(of).chain(more));
            known.push(hash, text.as_ref());
        }
        known.hashes.shrink_to_fit();
        known.ends.shrink_to_fit();
        known.text.shrink_to_fit();
        known
    }

    /// Makes room for texts.
    fn for_texts<S: AsRef<str>, T>(sorted: &[(u64, S, T)]) -> Self {
        let mut known = Self::default();
        known.text.reserve_exact(sorted.iter().map(|(_, text, _)| text.as_ref().len()).sum());
        known.hashes.reserve_exact(sorted.len());
        known.ends.reserve_exact(sorted.len());
        known
    }

    /// Adds the next text.
    fn push(&mut self, hash: u64, text: &str) {
        self.hashes.push(hash);
        self.text.push_str(text);
        self.ends.push(self.text.len() as u64);
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
        let first = self.hashes.partition_point(|&known| known < hash);
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
        #[expect(clippy::cast_possible_truncation, reason = "no text in memory is longer than its addresses can tell")]
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

/// Texts by their hashes, and of one hash by the texts; of equal texts the first stays first.
fn sorted<S: AsRef<str> + Send + Sync, T: Send>(texts: Vec<(S, T)>) -> Vec<(u64, S, T)> {
    let hashed = texts.into_par_iter().map(|(text, of)| (fnv1a(text.as_ref()), text, of));
    let mut sorted: Vec<(u64, S, T)> = hashed.collect();
    sorted.par_sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.as_ref().cmp(b.1.as_ref())));
    sorted
}

/// Hashes a text with FNV-1a of 64 bits (Fowler, Noll, Vo, Eastlake, Hansen: RFC 9923).
pub(crate) fn fnv1a(text: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_has_the_hash_that_the_specification_gives() {
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv1a(text), hash, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
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
        assert_eq!((of("a"), of("b"), of("c")), (Some(vec![1]), Some(vec![0, 2, 4]), Some(vec![3])));
    }

    #[test]
    fn texts_of_one_hash_are_told_apart() {
        let mut texts = Texts::new(vec![("a", 0), ("b", 1), ("c", 2)]).0;
        // As if they had one hash: they stand in the order of the letters then.
        texts = Texts { hashes: vec![fnv1a("b"); 3], text: "abc".to_owned(), ..texts };
        assert_eq!((texts.find("b"), texts.find("a")), (Some(1), None));
    }
}
