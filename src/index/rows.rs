//! Unit vectors with eight bits per value, and their products.
//!
//! Each row has its own scale. The largest value of a row is 127 steps from zero, and the rounding
//! error is at most half a step. A cosine of 256 dimensions is off by about 0.0007.
//! `docs/results.md` has the effect on rankings.
//!
//! Products are sums of integers, which do not depend on the order of addition. So they are
//! bit-identical on every processor.

mod kernel;

use std::borrow::Cow;

use ndarray::{Array1, ArrayView1, ArrayView2};
use pulp::{Arch, NullaryFnOnce};

use self::kernel::dot_products;
use crate::saved::{
    ByteReader, DamagedBytes, SavedError, SavedFile, Writer, put_length, put_numbers,
};

/// The most dimensions of a vector for which a sum of products fits into 32 bits.
pub(super) const MAX_DIMENSIONS: usize = 65_536;
/// The number of rows that are multiplied by one request row after the other while they are in the
/// cache: 16 KiB with 256 dimensions.
const BLOCK: usize = 64;
/// The largest value of a row, in steps.
const MAX_STEPS: f32 = 127.0;

/// A matrix of vectors with eight bits per value, one vector per row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    dimensions: usize,
    values: Vec<i8>,
    /// The size of a step by row; 0 for a row of zeros.
    scales: Vec<f32>,
}

impl Rows {
    /// Makes a matrix of zeros.
    pub(super) fn zeros(rows: usize, dimensions: usize) -> Self {
        Self {
            dimensions,
            values: vec![0; rows * dimensions],
            scales: vec![0.0; rows],
        }
    }

    /// Quantises vectors of finite values, one per row.
    pub(crate) fn from_vectors(vectors: ArrayView2<'_, f32>) -> Self {
        Self::from_each(vectors.ncols(), vectors.rows().into_iter())
    }

    /// Quantises the rows `selected` of a matrix of finite values.
    pub(crate) fn from_selected(vectors: ArrayView2<'_, f32>, selected: &[usize]) -> Self {
        Self::from_each(
            vectors.ncols(),
            selected.iter().map(|&row| vectors.row(row)),
        )
    }

    fn from_each<'v>(
        dimensions: usize,
        vectors: impl ExactSizeIterator<Item = ArrayView1<'v, f32>>,
    ) -> Self {
        let mut rows = Self::zeros(vectors.len(), dimensions);
        for (row, vector) in vectors.enumerate() {
            rows.set(
                row,
                &vector
                    .as_slice()
                    .map_or_else(|| vector.to_vec().into(), Cow::Borrowed),
            );
        }
        rows
    }

    pub(super) fn save(&self, name: &str, writer: &mut Writer) -> Result<(), SavedError> {
        writer.numbers(&format!("{name}.values"), &self.values)?;
        writer.numbers(&format!("{name}.scales"), &self.scales)
    }

    /// Reads one row per tool.
    pub(super) fn open(
        name: &str,
        file: &SavedFile,
        dimensions: usize,
    ) -> Result<Self, SavedError> {
        let values: Vec<i8> = file.numbers(&format!("{name}.values"))?;
        let scales: Vec<f32> = file.numbers(&format!("{name}.scales"))?;
        file.ensure(scales.len() == file.header.tools, name)?;
        Self::validate(dimensions, values, scales).ok_or_else(|| file.invalid(name))
    }

    /// Appends the number of rows, the step sizes and the values.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_length(out, self.len());
        put_numbers(out, &self.scales);
        put_numbers(out, &self.values);
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(super) fn decode(
        reader: &mut ByteReader<'_>,
        dimensions: usize,
    ) -> Result<Self, DamagedBytes> {
        let count = reader.length(size_of::<f32>())?;
        let scales = reader.numbers(count)?;
        let length = count.checked_mul(dimensions);
        let length = length.ok_or_else(|| DamagedBytes::new("too many dimensions"))?;
        let values = reader.numbers(length)?;
        Self::validate(dimensions, values, scales)
            .ok_or_else(|| DamagedBytes::new("a vector with an invalid scale"))
    }

    /// Validates quantised values and the step size of each row, which may be damaged.
    fn validate(dimensions: usize, values: Vec<i8>, scales: Vec<f32>) -> Option<Self> {
        let is_valid = dimensions <= MAX_DIMENSIONS
            && scales.len().checked_mul(dimensions) == Some(values.len())
            && scales
                .iter()
                .all(|scale| scale.is_finite() && *scale >= 0.0);
        is_valid.then_some(Self {
            dimensions,
            values,
            scales,
        })
    }

    /// Returns the quantised values and the step size of each row.
    pub(super) fn parts(&self) -> (&[i8], &[f32]) {
        (&self.values, &self.scales)
    }

    /// Collects rows with equal dimensions; `None` for an empty iterator.
    pub(crate) fn gather<'r>(
        rows: impl ExactSizeIterator<Item = (&'r Self, usize)>,
    ) -> Option<Self> {
        let (mut all, count): (Option<Self>, _) = (None, rows.len());
        for (from, row) in rows {
            let all = all.get_or_insert_with(|| Self {
                dimensions: from.dimensions,
                values: Vec::with_capacity(count * from.dimensions),
                scales: Vec::with_capacity(count),
            });
            all.values
                .extend(&from.values[row * from.dimensions..][..from.dimensions]);
            all.scales.push(from.scales[row]);
        }
        all
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.scales)
    }

    /// Returns the number of dimensions.
    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.scales.len()
    }

    /// Quantises a vector of finite values into a row.
    pub(super) fn set(&mut self, row: usize, vector: &[f32]) {
        let quantized = &mut self.values[row * self.dimensions..][..self.dimensions];
        self.scales[row] = Arch::new().dispatch(QuantizeLoop { vector, quantized });
    }

    /// Copies a row of another matrix with the same dimensions.
    pub(super) fn copy(&mut self, row: usize, others: &Self, from: usize) {
        let (dimensions, values) = (self.dimensions, &others.values);
        self.values[row * dimensions..][..dimensions]
            .copy_from_slice(&values[from * dimensions..][..dimensions]);
        self.scales[row] = others.scales[from];
    }

    /// Returns the vector of a row, with the stored precision.
    pub(super) fn row(&self, row: usize) -> Array1<f32> {
        let mut vector = vec![0.0; self.dimensions];
        self.add_to(row, &mut vector);
        vector.into()
    }

    /// Adds the vector of a row to `sum`.
    pub(super) fn add_to(&self, row: usize, sum: &mut [f32]) {
        let values = &self.values[row * self.dimensions..][..self.dimensions];
        Arch::new().dispatch(AddRowLoop {
            values,
            scale: self.scales[row],
            sum,
        });
    }

    /// Returns the product of every row with each row of `request`: by request row, then by row.
    pub(crate) fn products(&self, request: &Self) -> Vec<Vec<f32>> {
        let mut products = vec![vec![0.0; self.len()]; request.len()];
        let dimensions = self.dimensions.max(1);
        let mut sums = [0; BLOCK];
        for (block, (rows, scales)) in self
            .values
            .chunks(BLOCK * dimensions)
            .zip(self.scales.chunks(BLOCK))
            .enumerate()
        {
            let request = request.values.chunks_exact(dimensions).zip(&request.scales);
            for ((vector, scale), products) in request.zip(&mut products) {
                let sums = &mut sums[..scales.len()];
                dot_products(rows, vector, sums);
                let products = &mut products[block * BLOCK..][..scales.len()];
                for ((product, &sum), row_scale) in products.iter_mut().zip(&*sums).zip(scales) {
                    *product = sum as f32 * row_scale * scale;
                }
            }
        }
        products
    }
}

/// The loop that adds a row to a sum. It is compiled for each set of vector instructions, and the
/// processor selects the version.
struct AddRowLoop<'a> {
    values: &'a [i8],
    scale: f32,
    sum: &'a mut [f32],
}

impl NullaryFnOnce for AddRowLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { values, scale, sum } = self;
        sum.iter_mut()
            .zip(values)
            .for_each(|(sum, &value)| *sum += f32::from(value) * scale);
    }
}

/// The loops that quantise a row and return its step size. They are compiled for each set of vector
/// instructions, and the processor selects the version.
struct QuantizeLoop<'a> {
    vector: &'a [f32],
    quantized: &'a mut [i8],
}

impl NullaryFnOnce for QuantizeLoop<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        let Self { vector, quantized } = self;
        let scale = magnitude(vector) / MAX_STEPS;
        // Values that are too small for a scale become zero.
        if !scale.is_normal() {
            quantized.fill(0);
            return 0.0;
        }
        quantized
            .iter_mut()
            .zip(vector)
            .for_each(|(quantized, value)| *quantized = step(value / scale));
        scale
    }
}

/// Returns the largest absolute value of some finite values.
#[inline(always)]
fn magnitude(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = values.as_chunks::<8>();
    let mut maxima = [0.0; 8];
    for chunk in chunks {
        maxima
            .iter_mut()
            .zip(chunk)
            .for_each(|(maximum, value)| *maximum = larger(*maximum, value.abs()));
    }
    rest.iter()
        .map(|value| value.abs())
        .chain(maxima)
        .fold(0.0, larger)
}

/// Rounds a value between -127 and 127.
#[inline(always)]
fn step(value: f32) -> i8 {
    // A number of this size has no fraction bits. Adding it rounds the value and leaves the integer
    // in the lowest bits.
    const ROUNDING_OFFSET: f32 = 12_582_912.0;
    i8::from_le_bytes([(value + ROUNDING_OFFSET).to_bits().to_le_bytes()[0]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, s};
    use proptest::prelude::*;

    /// Generates vectors of unit length or zero, one per row; some values are much larger than
    /// others.
    fn unit_rows(rows: usize, dimensions: usize) -> impl Strategy<Value = Array2<f32>> {
        let special = prop::sample::select(vec![0.0, -0.0, 1e-45, 50.0, -50.0]);
        let value = prop_oneof![4 => -1.0_f32..1.0, 1 => special];
        prop::collection::vec(value, rows * dimensions).prop_map(move |values| {
            let mut rows = Array2::from_shape_vec((rows, dimensions), values).expect("it fits");
            for mut row in rows.rows_mut() {
                let length = row.dot(&row).sqrt();
                if length > 0.0 {
                    row.mapv_inplace(|value| value / length);
                }
            }
            rows
        })
    }

    fn matrices() -> impl Strategy<Value = (Array2<f32>, Array2<f32>)> {
        let edges = prop::sample::select(vec![1, 31, 32, 33, 63, 64, 96, 256, 384]);
        (0..6_usize, 0..4_usize, prop_oneof![1..80_usize, edges]).prop_flat_map(
            |(a, b, dimensions)| (unit_rows(a, dimensions), unit_rows(b, dimensions)),
        )
    }

    fn each(products: &[Vec<f32>]) -> impl Iterator<Item = (usize, usize, f32)> {
        let products = products.iter().enumerate();
        products.flat_map(|(column, rows)| {
            rows.iter()
                .enumerate()
                .map(move |(row, &product)| (column, row, product))
        })
    }

    /// Returns the largest absolute value of a row, which determines its step size.
    fn largest(row: ArrayView1<'_, f32>) -> f32 {
        row.iter()
            .fold(0.0, |maximum: f32, value| maximum.max(value.abs()))
    }

    proptest! {
        #[test]
        fn quantized_values_are_off_by_at_most_half_a_step((matrix, _) in matrices()) {
            let rows = Rows::from_vectors(matrix.view());
            for (index, row) in matrix.rows().into_iter().enumerate() {
                for (restored, value) in rows.row(index).iter().zip(row) {
                    let bound = 0.5001 * largest(row) / 127.0 + f32::MIN_POSITIVE;
                    prop_assert!((restored - value).abs() <= bound, "{} {}", restored, value);
                }
            }
        }

        #[test]
        fn products_are_off_by_at_most_the_rounding_error((a, b) in matrices()) {
            let all = Rows::from_vectors(a.view()).products(&Rows::from_vectors(b.view()));
            prop_assert_eq!(all.len(), b.nrows());
            prop_assert!(all.iter().all(|products| products.len() == a.nrows()));
            for (column, row, product) in each(&all) {
                let pairs = a.row(row).into_iter().zip(b.row(column));
                let exact = pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
                // The largest effect of a rounding error of half a step per value on a product with
                // a unit vector.
                let error = |values: ArrayView1<'_, f32>| {
                    f64::from(largest(values)) / 254.0 * (a.ncols() as f64).sqrt()
                };
                let (row_error, column_error) = (error(a.row(row)), error(b.row(column)));
                let bound = row_error + column_error + row_error * column_error + 1e-5;
                let difference = (f64::from(product) - exact).abs();
                prop_assert!(difference <= bound, "{} is not {}", product, exact);
            }
        }

        #[test]
        fn product_does_not_depend_on_other_rows((a, b) in matrices()) {
            let all = Rows::from_vectors(a.view()).products(&Rows::from_vectors(b.view()));
            for (column, row, product) in each(&all) {
                let (one, other) = (a.slice(s![row..=row, ..]), b.slice(s![column..=column, ..]));
                let alone = Rows::from_vectors(one).products(&Rows::from_vectors(other))[0][0];
                prop_assert_eq!(alone.to_bits(), product.to_bits());
            }
        }
    }

    #[test]
    fn longest_vectors_do_not_overflow() {
        for dimensions in [1, 256, 4096, MAX_DIMENSIONS] {
            let even = Array2::from_elem((1, dimensions), 1.0 / (dimensions as f32).sqrt());
            let (even, opposite) = (
                Rows::from_vectors(even.view()),
                Rows::from_vectors((-even).view()),
            );
            assert!(
                (even.products(&even)[0][0] - 1.0).abs() < 1e-3,
                "{dimensions}"
            );
            assert!(
                (even.products(&opposite)[0][0] + 1.0).abs() < 1e-3,
                "{dimensions}"
            );
        }
    }

    #[test]
    fn copied_row_is_unchanged() {
        let matrix =
            Array2::from_shape_vec((2, 3), vec![0.6, 0.0, -0.8, 0.0, 1.0, 0.0]).expect("it fits");
        let rows = Rows::from_vectors(matrix.view());
        let mut other = Rows::zeros(1, 3);
        other.copy(0, &rows, 0);
        assert_eq!(other.row(0), rows.row(0));
    }
}
