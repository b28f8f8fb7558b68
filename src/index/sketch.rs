//! A quick first look at the vectors of a large catalog: one bit a value.
//!
//! Of a vector only the signs are kept, and how much of it they are worth: the product with the
//! signs, times that, is an estimate of the product with the vector (as in RaBitQ, Gao and Long
//! 2024, without its rotation). It is read in an eighth of the memory, and off by 0.05 on average,
//! so it tells which tools may be near, whose products are then worked out; `docs/results.md` tells
//! how many.
//!
//! Signs are looked up rather than multiplied: four of them are a number below 16, for each of
//! which the sum of four signed values of the request stands in a table, and one instruction looks
//! up those of 32 tools (André, Kermarrec, Le Scouarnec 2015). So the signs of 32 tools lie
//! together. Sums are whole numbers, the same on every processor.

use ndarray::ArrayView1;

use super::rows::Rows;

/// How many tools lie together.
const BLOCK: usize = 32;
/// How many blocks are held against one row of a request after the other, while they are near the
/// processor: 32 KiB of 256 dimensions.
const TOGETHER: usize = 32;
/// How many signs are looked up at once.
const SIGNS: usize = 4;
/// Two groups of signs lie in a byte of each tool.
const GROUPS: usize = 2;
/// How many sums of a group's signs there are.
const SUMS: usize = 1 << SIGNS;
/// The largest number in a table: two of them are added up in a byte.
const MOST: f32 = 127.0;
/// The most dimensions: so many numbers of tables have a sum of sixteen bits.
pub(super) const MAX_DIMENSIONS: usize = 2_048;

/// The signs of vectors.
pub(super) struct Sketch {
    /// By block, then by pair of groups, then by tool.
    codes: Vec<[u8; BLOCK]>,
    /// What the product with the signs of a vector is worth.
    worth: Vec<f32>,
    pairs: usize,
}

impl Sketch {
    /// Looks at vectors of so many dimensions, at most [`MAX_DIMENSIONS`], which lie in some places
    /// one after the other.
    pub(super) fn of<'r>(rows: impl Iterator<Item = &'r Rows>, dimensions: usize) -> Self {
        let pairs = dimensions.div_ceil(SIGNS * GROUPS);
        let mut sketch = Self {
            codes: Vec::new(),
            worth: Vec::new(),
            pairs,
        };
        for rows in rows {
            let (values, scales) = rows.parts();
            values
                .chunks_exact(dimensions.max(1))
                .zip(scales)
                .for_each(|(values, scale)| sketch.push(values, *scale));
        }
        sketch
    }

    fn push(&mut self, values: &[i8], scale: f32) {
        let lane = self.worth.len() % BLOCK;
        if lane == 0 {
            self.codes.resize(self.codes.len() + self.pairs, [0; BLOCK]);
        }
        let block = self.codes.len() - self.pairs;
        for (codes, values) in self.codes[block..]
            .iter_mut()
            .zip(values.chunks(SIGNS * GROUPS))
        {
            codes[lane] = values
                .iter()
                .rev()
                .fold(0, |code, &value| code << 1 | u8::from(value > 0));
        }
        let (mut sum, mut squares) = (0, 0);
        for &value in values {
            sum += u32::from(value.unsigned_abs());
            squares += u32::from(value.unsigned_abs()) * u32::from(value.unsigned_abs());
        }
        self.worth.push(if sum == 0 {
            0.0
        } else {
            scale * squares as f32 / sum as f32
        });
    }

    /// Returns how many bytes it takes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.worth)
    }

    /// Estimates the products of every vector with each row of a request: by row, then by vector.
    pub(super) fn estimates<'v>(
        &self,
        request: impl Iterator<Item = ArrayView1<'v, f32>>,
    ) -> Vec<Vec<f32>> {
        let tables: Vec<Tables> = request
            .map(|row| Tables::of(&row.to_vec(), self.pairs))
            .collect();
        let mut estimates = vec![Vec::with_capacity(self.worth.len()); tables.len()];
        let codes = self.codes.chunks(TOGETHER * self.pairs.max(1));
        for (codes, worth) in codes.zip(self.worth.chunks(TOGETHER * BLOCK)) {
            estimates
                .iter_mut()
                .zip(&tables)
                .for_each(|(estimates, tables)| self.add(codes, worth, tables, estimates));
        }
        estimates
    }

    /// Adds the estimates of some blocks to those before.
    fn add(&self, codes: &[[u8; BLOCK]], worth: &[f32], tables: &Tables, estimates: &mut Vec<f32>) {
        let Tables {
            tables,
            step,
            least,
        } = tables;
        let mut sums = [0; BLOCK];
        for (codes, worth) in codes
            .chunks_exact(self.pairs.max(1))
            .zip(worth.chunks(BLOCK))
        {
            add_up(codes, tables, &mut sums);
            // All of a block, as a loop of one length is made of vector instructions.
            let mut of_block = [0.0; BLOCK];
            of_block[..worth.len()].copy_from_slice(worth);
            of_block
                .iter_mut()
                .zip(sums)
                .for_each(|(value, sum)| *value *= step * f32::from(sum) + least);
            estimates.extend_from_slice(&of_block[..worth.len()]);
        }
    }
}

/// What four signs of a vector come to with a request, by group.
struct Tables {
    tables: Vec<[[u8; SUMS]; GROUPS]>,
    /// What one in a table stands for.
    step: f32,
    /// What zeros of all tables stand for.
    least: f32,
}

impl Tables {
    fn of(request: &[f32], pairs: usize) -> Self {
        let groups = request
            .chunks(SIGNS)
            .map(|values| values.iter().map(|value| value.abs()).sum::<f32>());
        let most = groups.clone().fold(0.0, f32::max);
        // From all signs against it to all with it.
        let step = if most > 0.0 { 2.0 * most / MOST } else { 1.0 };
        let mut tables = vec![[[0; SUMS]; GROUPS]; pairs];
        for (table, values) in tables
            .as_flattened_mut()
            .iter_mut()
            .zip(request.chunks(SIGNS))
        {
            for (signs, number) in table.iter_mut().enumerate() {
                // What is not least of each value.
                let of = |(place, value): (usize, &f32)| {
                    if (signs >> place & 1 == 1) == (*value > 0.0) {
                        value.abs()
                    } else {
                        0.0
                    }
                };
                *number = nearest(2.0 * values.iter().enumerate().map(of).sum::<f32>() / step);
            }
        }
        Self {
            tables,
            step,
            least: -groups.sum::<f32>(),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of tables are from 0 to 127"
)]
fn nearest(value: f32) -> u8 {
    (value + 0.5) as u8
}

/// Adds up what the tables say of the signs of each tool of a block.
fn add_up(codes: &[[u8; BLOCK]], tables: &[[[u8; SUMS]; GROUPS]], sums: &mut [u16; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        // SAFETY: this processor has them.
        return unsafe { avx2::add_up(codes, tables, sums) };
    }
    add_up_one_by_one(codes, tables, sums);
}

fn add_up_one_by_one(
    codes: &[[u8; BLOCK]],
    tables: &[[[u8; SUMS]; GROUPS]],
    sums: &mut [u16; BLOCK],
) {
    sums.fill(0);
    for (codes, [first, second]) in codes.iter().zip(tables) {
        for (sum, &code) in sums.iter_mut().zip(codes) {
            *sum += u16::from(first[usize::from(code & 15)])
                + u16::from(second[usize::from(code >> 4)]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_add_epi16, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi16,
        _mm256_srli_epi16, _mm256_sub_epi16,
    };

    use super::{BLOCK, GROUPS, SUMS};

    #[target_feature(enable = "avx2")]
    pub(super) fn add_up(
        codes: &[[u8; BLOCK]],
        tables: &[[[u8; SUMS]; GROUPS]],
        sums: &mut [u16; BLOCK],
    ) {
        let low = _mm256_set1_epi8(15);
        // Sums of both bytes of each pair of tools, the second as 256ths, and of the second alone.
        let (mut both, mut second) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for (codes, [of_low, of_high]) in codes.iter().zip(tables) {
            let codes: __m256i = bytemuck::cast(*codes);
            let found_low = _mm256_shuffle_epi8(table(of_low), _mm256_and_si256(codes, low));
            let found_high = _mm256_shuffle_epi8(
                table(of_high),
                _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low),
            );
            let found = _mm256_add_epi8(found_low, found_high);
            both = _mm256_add_epi16(both, found);
            second = _mm256_add_epi16(second, _mm256_srli_epi16::<8>(found));
        }
        let first: [u16; BLOCK / 2] =
            bytemuck::cast(_mm256_sub_epi16(both, _mm256_slli_epi16::<8>(second)));
        let second: [u16; BLOCK / 2] = bytemuck::cast(second);
        for (sums, (first, second)) in sums
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(first.into_iter().zip(second))
        {
            *sums = [first, second];
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn table(table: &[u8; SUMS]) -> __m256i {
        _mm256_broadcastsi128_si256(bytemuck::cast(*table))
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, Array2};
    use proptest::prelude::*;

    use super::*;

    fn matrices() -> impl Strategy<Value = (Array2<f32>, Array1<f32>)> {
        let dimensions = prop_oneof![1..40_usize, Just(256)];
        (0..70_usize, dimensions).prop_flat_map(|(rows, dimensions)| {
            let values = |count| {
                prop::collection::vec(prop_oneof![4 => -1.0_f32..1.0, 1 => Just(0.0)], count)
            };
            (values(rows * dimensions), values(dimensions)).prop_map(move |(rows_of, request)| {
                let matrix = Array2::from_shape_vec((rows, dimensions), rows_of).expect("it fits");
                (matrix, Array1::from(request))
            })
        })
    }

    proptest! {
        #[test]
        fn an_estimate_is_the_product_with_the_signs_times_what_they_are_worth((matrix, request) in matrices()) {
            let rows = Rows::of(matrix.view());
            // Several times, so that they are not all looked at together.
            let times = 2 * TOGETHER * BLOCK / matrix.nrows().max(1);
            let sketch = Sketch::of(std::iter::repeat_n(&rows, times), request.len());
            let other = -&request;
            let estimates = sketch.estimates([request.view(), other.view()].into_iter());
            prop_assert_eq!(&estimates[1], &sketch.estimates(std::iter::once(other.view()))[0]);
            let estimates = &estimates[0];
            prop_assert_eq!(estimates.len(), times * matrix.nrows());
            prop_assert!(estimates.chunks(matrix.nrows().max(1)).all(|again| again == &estimates[..matrix.nrows()]));
            // A number of a table is off by half a step at most, and a step is a 127th of the
            // widest group.
            let groups = request.len().div_ceil(SIGNS) as f32;
            let widest = request.to_vec().chunks(SIGNS).map(|group| group.iter().map(|value| value.abs()).sum::<f32>()).fold(0.0, f32::max);
            for (row, estimate) in estimates[..matrix.nrows()].iter().enumerate() {
                let kept = rows.row(row);
                let signs = kept.mapv(|value| if value > 0.0 { 1.0 } else { -1.0 });
                let sum = kept.mapv(f32::abs).sum();
                let worth = if sum > 0.0 { kept.dot(&kept) / sum } else { 0.0 };
                let bound = worth * (groups * widest / 127.0 + 1e-4) + 1e-5;
                prop_assert!((estimate - worth * signs.dot(&request)).abs() <= bound, "{estimate} {} {bound}", worth * signs.dot(&request));
            }
        }

        #[test]
        fn every_processor_adds_up_the_same(
            codes in prop::collection::vec(any::<[u8; BLOCK]>(), 0..256), seed in prop::collection::vec(0..128_u8, SUMS * GROUPS),
        ) {
            let tables: Vec<[[u8; SUMS]; GROUPS]> = (0..codes.len())
                .map(|pair| std::array::from_fn(|group| std::array::from_fn(|signs| seed[(7 * pair + SUMS * group + signs) % seed.len()])))
                .collect();
            let (mut quick, mut plain) = ([1; BLOCK], [2; BLOCK]);
            add_up(&codes, &tables, &mut quick);
            add_up_one_by_one(&codes, &tables, &mut plain);
            prop_assert_eq!(quick, plain);
        }
    }

    #[test]
    fn the_longest_vectors_have_sums_of_sixteen_bits() {
        let longest = Array2::from_elem((1, MAX_DIMENSIONS), 1.0);
        let rows = Rows::of(longest.view());
        let sketch = Sketch::of([&rows].into_iter(), MAX_DIMENSIONS);
        let estimate = sketch.estimates(longest.rows().into_iter())[0][0];
        assert!(
            (estimate / MAX_DIMENSIONS as f32 - 1.0).abs() < 1e-3,
            "{estimate}"
        );
    }
}
