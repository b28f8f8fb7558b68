//! Sketches: one bit per value, for a fast first pass over the vectors of a large catalog.
//!
//! A sketch keeps the signs of a vector and a weight. The product with the signs, times the weight,
//! estimates the product with the vector (as in RaBitQ, Gao and Long 2024, without its rotation). A
//! sketch takes an eighth of the memory, and the estimate is off by 0.05 on average. So it selects
//! the tools that may be near, and exact products are computed for these. `docs/results.md` has
//! their number.
//!
//! Signs are looked up, not multiplied. Four signs are a number below 16. A table holds the sum of
//! four signed values of the request for each such number, and one instruction looks up 32 tools
//! (André, Kermarrec, Le Scouarnec 2015). So the signs of 32 tools are adjacent. Sums are integers,
//! the same on every processor.

use ndarray::ArrayView1;

use super::rows::Rows;

/// The number of tools per block.
const BLOCK: usize = 32;
/// The number of blocks that are compared with one request row after the other while they are in
/// the cache: 32 KiB with 256 dimensions.
const BLOCKS_PER_PASS: usize = 32;
/// The number of signs per lookup.
const SIGNS: usize = 4;
/// The number of groups of signs in one byte of a tool.
const GROUPS: usize = 2;
/// The number of sign patterns of a group, each with a sum in the table.
const SUMS: usize = 1 << SIGNS;
/// The largest number in a table, so that the sum of two fits into a byte.
const MAX_TABLE_NUMBER: f32 = 127.0;
/// The most dimensions for which the sum of table numbers fits into 16 bits.
pub(super) const MAX_DIMENSIONS: usize = 2_048;

/// The signs of vectors.
pub(super) struct Sketch {
    /// By block, then by pair of groups, then by tool.
    codes: Vec<[u8; BLOCK]>,
    /// The weight of the product with the signs, by vector.
    weights: Vec<f32>,
    pairs: usize,
}

impl Sketch {
    /// Makes the sketch of vectors with at most [`MAX_DIMENSIONS`] dimensions.
    pub(super) fn build(rows: &Rows, dimensions: usize) -> Self {
        let pairs = dimensions.div_ceil(SIGNS * GROUPS);
        let mut sketch = Self {
            codes: Vec::new(),
            weights: Vec::new(),
            pairs,
        };
        let (values, scales) = rows.parts();
        for (values, scale) in values.chunks_exact(dimensions.max(1)).zip(scales) {
            sketch.push(values, *scale);
        }
        sketch
    }

    fn push(&mut self, values: &[i8], scale: f32) {
        let lane = self.weights.len() % BLOCK;
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
        self.weights.push(if sum == 0 {
            0.0
        } else {
            scale * squares as f32 / sum as f32
        });
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.weights)
    }

    /// Estimates the product of every vector with each row of a request: by row, then by vector.
    pub(super) fn estimates<'v>(
        &self,
        request: impl Iterator<Item = ArrayView1<'v, f32>>,
    ) -> Vec<Vec<f32>> {
        let tables: Vec<LookupTables> = request
            .map(|row| LookupTables::build(&row.to_vec(), self.pairs))
            .collect();
        let mut estimates = vec![Vec::with_capacity(self.weights.len()); tables.len()];
        let codes = self.codes.chunks(BLOCKS_PER_PASS * self.pairs.max(1));
        for (codes, weights) in codes.zip(self.weights.chunks(BLOCKS_PER_PASS * BLOCK)) {
            estimates
                .iter_mut()
                .zip(&tables)
                .for_each(|(estimates, tables)| self.add(codes, weights, tables, estimates));
        }
        estimates
    }

    /// Appends the estimates of some blocks.
    fn add(
        &self,
        codes: &[[u8; BLOCK]],
        weights: &[f32],
        tables: &LookupTables,
        estimates: &mut Vec<f32>,
    ) {
        let LookupTables {
            tables,
            step,
            minimum,
        } = tables;
        let mut sums = [0; BLOCK];
        for (codes, weights) in codes
            .chunks_exact(self.pairs.max(1))
            .zip(weights.chunks(BLOCK))
        {
            add_up(codes, tables, &mut sums);
            // The loop covers a full block, because a fixed length compiles to vector instructions.
            let mut block_estimates = [0.0; BLOCK];
            block_estimates[..weights.len()].copy_from_slice(weights);
            block_estimates
                .iter_mut()
                .zip(sums)
                .for_each(|(value, sum)| *value *= step * f32::from(sum) + minimum);
            estimates.extend_from_slice(&block_estimates[..weights.len()]);
        }
    }
}

/// The sums of four signed values of a request, by group and sign pattern.
struct LookupTables {
    tables: Vec<[[u8; SUMS]; GROUPS]>,
    /// The value of one table unit.
    step: f32,
    /// The value of a sum of zeros.
    minimum: f32,
}

impl LookupTables {
    fn build(request: &[f32], pairs: usize) -> Self {
        let groups = request
            .chunks(SIGNS)
            .map(|values| values.iter().map(|value| value.abs()).sum::<f32>());
        let max_group = groups.clone().fold(0.0, f32::max);
        // The range is from all signs against the request to all signs with it.
        let step = if max_group > 0.0 {
            2.0 * max_group / MAX_TABLE_NUMBER
        } else {
            1.0
        };
        let mut tables = vec![[[0; SUMS]; GROUPS]; pairs];
        for (table, values) in tables
            .as_flattened_mut()
            .iter_mut()
            .zip(request.chunks(SIGNS))
        {
            for (signs, number) in table.iter_mut().enumerate() {
                // The contribution of one value above its minimum.
                let contribution = |(bit, value): (usize, &f32)| {
                    if (signs >> bit & 1 == 1) == (*value > 0.0) {
                        value.abs()
                    } else {
                        0.0
                    }
                };
                let sum = values.iter().enumerate().map(contribution).sum::<f32>();
                *number = nearest(2.0 * sum / step);
            }
        }
        Self {
            tables,
            step,
            minimum: -groups.sum::<f32>(),
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

/// Adds up the table numbers for the signs of each tool of a block.
fn add_up(codes: &[[u8; BLOCK]], tables: &[[[u8; SUMS]; GROUPS]], sums: &mut [u16; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        // SAFETY: this processor has the instructions.
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
        // `pair_sums` adds up each pair of bytes as a 16-bit number, in which the second byte
        // counts 256-fold. `second_sums` adds up the second bytes alone.
        let (mut pair_sums, mut second_sums) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for (codes, [low_table, high_table]) in codes.iter().zip(tables) {
            let codes: __m256i = bytemuck::cast(*codes);
            let low_numbers = _mm256_shuffle_epi8(table(low_table), _mm256_and_si256(codes, low));
            let high_numbers = _mm256_shuffle_epi8(
                table(high_table),
                _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low),
            );
            let numbers = _mm256_add_epi8(low_numbers, high_numbers);
            pair_sums = _mm256_add_epi16(pair_sums, numbers);
            second_sums = _mm256_add_epi16(second_sums, _mm256_srli_epi16::<8>(numbers));
        }
        let first_sums: [u16; BLOCK / 2] = bytemuck::cast(_mm256_sub_epi16(
            pair_sums,
            _mm256_slli_epi16::<8>(second_sums),
        ));
        let second_sums: [u16; BLOCK / 2] = bytemuck::cast(second_sums);
        for (sums, (first, second)) in sums
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(first_sums.into_iter().zip(second_sums))
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
            (values(rows * dimensions), values(dimensions)).prop_map(
                move |(row_values, request)| {
                    let matrix =
                        Array2::from_shape_vec((rows, dimensions), row_values).expect("it fits");
                    (matrix, Array1::from(request))
                },
            )
        })
    }

    proptest! {
        #[test]
        fn estimate_is_the_weighted_product_with_the_signs(
            (matrix, request) in matrices(),
        ) {
            let rows = Rows::from_vectors(matrix.view());
            // Repeats the rows so that they do not fit into one pass.
            let times = 2 * BLOCKS_PER_PASS * BLOCK / matrix.nrows().max(1);
            let every_row = (0..times).flat_map(|_| (0..matrix.nrows()).map(|row| (&rows, row)));
            let every_row: Vec<(&Rows, usize)> = every_row.collect();
            let repeated = Rows::gather(every_row.into_iter()).unwrap_or_default();
            let sketch = Sketch::build(&repeated, request.len());
            let other = -&request;
            let estimates = sketch.estimates([request.view(), other.view()].into_iter());
            prop_assert_eq!(&estimates[1], &sketch.estimates(std::iter::once(other.view()))[0]);
            let estimates = &estimates[0];
            prop_assert_eq!(estimates.len(), times * matrix.nrows());
            let mut repetitions = estimates.chunks(matrix.nrows().max(1));
            prop_assert!(repetitions.all(|chunk| chunk == &estimates[..matrix.nrows()]));
            // A table number is off by at most half a step. A step is a 127th of the range of the
            // widest group.
            let groups = request.len().div_ceil(SIGNS) as f32;
            let width = |group: &[f32]| group.iter().map(|value| value.abs()).sum::<f32>();
            let widest = request.to_vec().chunks(SIGNS).map(width).fold(0.0, f32::max);
            for (row, estimate) in estimates[..matrix.nrows()].iter().enumerate() {
                let vector = rows.row(row);
                let signs = vector.mapv(|value| if value > 0.0 { 1.0 } else { -1.0 });
                let sum = vector.mapv(f32::abs).sum();
                let weight = if sum > 0.0 { vector.dot(&vector) / sum } else { 0.0 };
                let bound = weight * (groups * widest / 127.0 + 1e-4) + 1e-5;
                let exact = weight * signs.dot(&request);
                prop_assert!((estimate - exact).abs() <= bound, "{estimate} {exact} {bound}");
            }
        }

        #[test]
        fn vector_loop_equals_the_portable_loop(
            codes in prop::collection::vec(any::<[u8; BLOCK]>(), 0..256),
            seed in prop::collection::vec(0..128_u8, SUMS * GROUPS),
        ) {
            let number = |pair, group, signs| seed[(7 * pair + SUMS * group + signs) % seed.len()];
            let table = |pair| {
                std::array::from_fn(|group| std::array::from_fn(|signs| number(pair, group, signs)))
            };
            let tables: Vec<[[u8; SUMS]; GROUPS]> = (0..codes.len()).map(table).collect();
            let (mut quick, mut plain) = ([1; BLOCK], [2; BLOCK]);
            add_up(&codes, &tables, &mut quick);
            add_up_one_by_one(&codes, &tables, &mut plain);
            prop_assert_eq!(quick, plain);
        }
    }

    #[test]
    fn sums_of_the_longest_vectors_fit_into_16_bits() {
        let longest = Array2::from_elem((1, MAX_DIMENSIONS), 1.0);
        let rows = Rows::from_vectors(longest.view());
        let sketch = Sketch::build(&rows, MAX_DIMENSIONS);
        let estimate = sketch.estimates(longest.rows().into_iter())[0][0];
        assert!(
            (estimate / MAX_DIMENSIONS as f32 - 1.0).abs() < 1e-3,
            "{estimate}"
        );
    }
}
