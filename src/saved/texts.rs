//! A table of distinct texts, found by hash, in flat arrays.

use rayon::prelude::*;

use super::{SavedError, SavedFile, Writer};

/// The fewest texts for which another thread pays off: waking a thread takes longer than reading
/// this many texts.
pub const MIN_PARALLEL: usize = 512;
/// The first search step from the estimated position of a hash. Among 16,000 hashes the estimate is
/// off by about 60 positions on average.
const FIRST_STEP: usize = 64;

/// Distinct texts, in the order of their hashes and, for equal hashes, of the texts.
///
/// A search takes logarithmic time, even if all texts have the same hash.
#[derive(Debug, Default, PartialEq)]
pub struct TextTable {
    hashes: Vec<u64>,
    /// The end of each text, in bytes. A text begins at the end of the previous one.
    ends: Vec<u64>,
    text: String,
}

impl TextTable {
    /// Makes a table of distinct texts. Returns it with their values in the order of the table.
    pub(crate) fn new<S: AsRef<str> + Send + Sync, T: Send + Sync>(
        texts: Vec<(S, T)>,
    ) -> (Self, Vec<T>) {
        let mut ordered = Vec::with_capacity(texts.len());
        let table = Self::group(texts, |values| ordered.extend(values));
        (table, ordered)
    }

    /// Makes a table of texts, which may repeat.
    ///
    /// Calls `each` once for every distinct text, in the order of the table, with all values of the
    /// text in the order of `texts`.
    pub(crate) fn group<S: AsRef<str> + Send + Sync, T: Send + Sync>(
        texts: Vec<(S, T)>,
        mut each: impl FnMut(&mut dyn Iterator<Item = T>),
    ) -> Self {
        let text = |index: usize| texts[index].0.as_ref();
        let mut order: Vec<(u64, usize)> = (0..texts.len())
            .into_par_iter()
            .with_min_len(MIN_PARALLEL)
            .map(|index| (fnv1a(text(index)), index))
            .collect();
        order.par_sort_unstable();
        // Texts with equal hashes are equal, except for a deliberate collision.
        for same in order.chunk_by_mut(|(one, _), (other, _)| one == other) {
            if same
                .windows(2)
                .any(|pair| text(pair[0].1) != text(pair[1].1))
            {
                same.sort_by(|a, b| text(a.1).cmp(text(b.1)));
            }
        }
        let mut table = Self::default();
        table
            .text
            .reserve_exact(texts.iter().map(|(text, _)| text.as_ref().len()).sum());
        let mut texts: Vec<Option<(S, T)>> = texts.into_iter().map(Some).collect();
        let mut next = 0;
        while let Some(&(hash, index)) = order.get(next) {
            let Some((text, first_value)) = texts[index].take() else {
                break;
            };
            next += 1;
            let more_values = std::iter::from_fn(|| {
                let index = order.get(next).filter(|(other, _)| *other == hash)?.1;
                let (_, value) =
                    texts[index].take_if(|(other, _)| other.as_ref() == text.as_ref())?;
                next += 1;
                Some(value)
            });
            each(&mut std::iter::once(first_value).chain(more_values));
            table.hashes.push(hash);
            table.text.push_str(text.as_ref());
            table.ends.push(table.text.len() as u64);
        }
        table.hashes.shrink_to_fit();
        table.ends.shrink_to_fit();
        table.text.shrink_to_fit();
        table
    }

    /// Returns the number of texts.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the memory of the table, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.hashes) + size_of_val(&*self.ends) + self.text.len()
    }

    /// Returns the position of a text.
    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        let hash = fnv1a(text);
        let first = count_smaller(&self.hashes, hash, |&other| other);
        let same = self.hashes[first..].partition_point(|&other| other == hash);
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

    /// Returns the text at a position.
    pub(crate) fn get(&self, position: usize) -> &str {
        let start = match position.checked_sub(1) {
            Some(previous) => self.ends[previous],
            None => 0,
        };
        // Both numbers are positions in a text that is in memory.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "no text in memory is longer than usize::MAX"
        )]
        &self.text[start as usize..self.ends[position] as usize]
    }

    /// Returns the texts in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|position| self.get(position))
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
        let ends_with_text = ends.last().copied().unwrap_or_default() == text.len() as u64;
        let is_valid = hashes.len() == ends.len()
            && hashes.is_sorted()
            && ends_with_text
            && ends.is_sorted()
            && ends.iter().all(|&end| is_end(end));
        file.ensure(is_valid, name)?;
        Ok(Self { hashes, ends, text })
    }
}

/// Hashes a text with 64-bit FNV-1a (Fowler, Noll, Vo, Eastlake, Hansen: RFC 9923).
pub fn fnv1a(text: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// Counts the items whose hash is smaller than `hash`. The items are in ascending order of their
/// hashes.
///
/// The result equals that of `partition_point`, with fewer memory accesses. Hashes are evenly
/// distributed, so the position can be estimated. From there the search moves in steps of doubling
/// length.
pub fn count_smaller<T>(ascending: &[T], hash: u64, hash_fn: impl Fn(&T) -> u64) -> usize {
    let is_smaller = |index: usize| hash_fn(&ascending[index]) < hash;
    let count = ascending.len();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value is at most the count"
    )]
    let guess = ((u128::from(hash) * count as u128) >> u64::BITS) as usize;
    let (mut low, mut high, mut step) = (guess, guess, FIRST_STEP);
    while low > 0 && !is_smaller(low - 1) {
        (low, high, step) = (low.saturating_sub(step), low - 1, 2 * step);
    }
    while high < count && is_smaller(high) {
        (low, high, step) = (high + 1, (high + step).min(count), 2 * step);
    }
    low + ascending[low..high].partition_point(|item| hash_fn(item) < hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fnv1a_equals_the_values_of_the_specification() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(text), hash, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn count_smaller_equals_partition_point(
            mut hashes in prop::collection::vec(hash(), 0..300),
            others in prop::collection::vec(hash(), 9),
        ) {
            hashes.sort_unstable();
            for hash in hashes.iter().chain(&others).copied() {
                let count = count_smaller(&hashes, hash, |&other| other);
                prop_assert_eq!(count, hashes.partition_point(|&other| other < hash));
            }
        }

        #[test]
        fn every_text_is_found_with_its_value(
            texts in prop::collection::btree_set("[a-cä]{0,3}", 0..20),
        ) {
            let numbered: Vec<(String, usize)> = texts.iter().cloned().zip(0..).collect();
            let (table, numbers) = TextTable::new(numbered);
            prop_assert_eq!(table.len(), texts.len());
            let stored: BTreeSet<String> = table.iter().map(str::to_owned).collect();
            prop_assert_eq!(&stored, &texts);
            for (number, text) in texts.iter().enumerate() {
                let position = table.find(text).expect("the text is in the table");
                prop_assert_eq!(table.get(position), text.as_str());
                prop_assert_eq!(numbers[position], number);
            }
            prop_assert_eq!(table.find("absent"), None);
        }
    }

    /// Hashes, with many at both ends of the range.
    fn hash() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), 0..9_u64, (u64::MAX - 9)..]
    }

    #[test]
    fn values_of_a_repeated_text_are_grouped_in_order() {
        let mut groups = Vec::new();
        let entries = vec![("b", 0), ("a", 1), ("b", 2), ("c", 3), ("b", 4)];
        let table = TextTable::group(entries, |values| groups.push(values.collect::<Vec<_>>()));
        assert_eq!(
            table,
            TextTable::new(vec![("a", ()), ("b", ()), ("c", ())]).0
        );
        let values = |text| table.find(text).map(|position| groups[position].clone());
        assert_eq!(
            (values("a"), values("b"), values("c")),
            (Some(vec![1]), Some(vec![0, 2, 4]), Some(vec![3]))
        );
    }

    #[test]
    fn texts_with_equal_hashes_are_distinguished() {
        let mut texts = TextTable::new(vec![("a", 0), ("b", 1), ("c", 2)]).0;
        // With equal hashes the texts are in alphabetical order.
        texts = TextTable {
            hashes: vec![fnv1a("b"); 3],
            text: "abc".to_owned(),
            ..texts
        };
        assert_eq!((texts.find("b"), texts.find("a")), (Some(1), None));
    }
}
