//! Sketches: one bit per value, for a fast first pass over the vectors of a large catalog.
//!
//! A sketch keeps the signs of a vector and a weight. The product with the signs, times the weight,
//! estimates the product with the vector (as in RaBitQ, Gao and Long 2024, without its rotation). A
//! sketch takes an eighth of the memory, and the estimate is off by 0.05 on average. So it selects
//! the tools that may be near, and exact products are computed for these. `docs/results.md` has
//! their number.
//!
//! Signs are looked up, not multiplied. Four signs are a number below 16. A table holds the sum of
//! four signed values of the request for each such number, and one instruction looks up 32 or 64
//! tools (André, Kermarrec, Le Scouarnec 2015). So the signs of 64 tools are adjacent. Sums are
//! integers, the same on every processor.

mod kernel;
mod tables;

use ndarray::ArrayView1;

use self::kernel::{Blocks, estimate};
use self::tables::{BLOCK, GROUPS, LookupTables, SIGNS};
use super::rows::Rows;

/// The number of blocks that are compared with one request row after the other while they are in
/// the cache: 32 KiB with 256 dimensions.
const BLOCKS_PER_PASS: usize = 16;
/// The most dimensions for which the sum of table numbers fits into 16 bits.
pub(super) const MAX_DIMENSIONS: usize = 2_048;

/// The signs of vectors.
pub(super) struct Sketch {
    /// By block, then by pair of groups, then by tool.
    codes: Vec<[u8; BLOCK]>,
    /// The weight of the product with the signs, by block, then by vector; 0 after the last vector.
    weights: Vec<[f32; BLOCK]>,
    pairs: usize,
    /// The number of vectors.
    len: usize,
}

impl Sketch {
    /// Makes the sketch of vectors with at most [`MAX_DIMENSIONS`] dimensions.
    pub(super) fn build(rows: &Rows, dimensions: usize) -> Self {
        let pairs = dimensions.div_ceil(SIGNS * GROUPS);
        let mut sketch = Self {
            codes: Vec::new(),
            weights: Vec::new(),
            pairs,
            len: 0,
        };
        let (values, scales) = rows.parts();
        for (values, scale) in values.chunks_exact(dimensions.max(1)).zip(scales) {
            sketch.push(values, *scale);
        }
        sketch
    }

    fn push(&mut self, values: &[i8], scale: f32) {
        let lane = self.len % BLOCK;
        if lane == 0 {
            self.codes.resize(self.codes.len() + self.pairs, [0; BLOCK]);
            self.weights.push([0.0; BLOCK]);
        }
        let block = self.len / BLOCK;
        self.len += 1;
        for (codes, values) in self.codes[block * self.pairs..]
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
        if sum > 0 {
            self.weights[block][lane] = scale * squares as f32 / sum as f32;
        }
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
        let mut tables = Vec::new();
        for row in request {
            tables.push(LookupTables::build(&row.to_vec(), self.pairs));
        }
        let mut estimates = Vec::with_capacity(tables.len());
        estimates.resize_with(tables.len(), || vec![[0.0; BLOCK]; self.weights.len()]);
        let passes = self.codes.chunks(BLOCKS_PER_PASS * self.pairs.max(1));
        let passes = passes.zip(self.weights.chunks(BLOCKS_PER_PASS));
        for (pass, (codes, weights)) in passes.enumerate() {
            let blocks = Blocks {
                codes,
                weights,
                pairs: self.pairs,
            };
            let first = pass * BLOCKS_PER_PASS;
            let mut pass_estimates: Vec<&mut [[f32; BLOCK]]> = estimates
                .iter_mut()
                .map(|estimates| &mut estimates[first..first + weights.len()])
                .collect();
            estimate(blocks, &tables, &mut pass_estimates);
        }
        let mut by_row = Vec::with_capacity(estimates.len());
        for blocks in estimates {
            let mut estimates = blocks.into_flattened();
            estimates.truncate(self.len);
            by_row.push(estimates);
        }
        by_row
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
