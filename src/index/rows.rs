//! Unit vectors in eight bits a value, and their products.
//!
//! Each row has a scale of its own, so that its largest value is 127 steps away from zero and no
//! value is further than half a step from what it was: a cosine of 256 dimensions is off by about
//! 0.0007. `docs/results.md` tells what that is of a ranking.
//!
//! Products are sums of whole numbers, which have one result in whatever order they are added up:
//! so they are the same to the bit on every processor.

mod kernel;

use std::borrow::Cow;

use ndarray::{Array1, ArrayView1, ArrayView2};
use pulp::{Arch, NullaryFnOnce};

use self::kernel::dot_products;
use crate::saved::{SavedError, SavedFile, Writer};

/// The most dimensions of a vector: so many products have a sum of 32 bits.
pub(super) const MAX_DIMENSIONS: usize = 65_536;
/// How many rows are held against one row of a request after the other, while they are near the
/// processor: 16 KiB of 256 dimensions.
const BLOCK: usize = 64;
/// The largest value of a row, in steps.
const MOST_STEPS: f32 = 127.0;

/// Vectors of one length, one a row, in eight bits a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    dimensions: usize,
    values: Vec<i8>,
    /// What a step is worth, by row; 0 where all values are.
    scales: Vec<f32>,
}

impl Rows {
    /// Makes so many rows of zeros.
    pub(super) fn zeros(rows: usize, dimensions: usize) -> Self {
        Self {
            dimensions,
            values: vec![0; rows * dimensions],
            scales: vec![0.0; rows],
        }
    }

    /// Takes vectors of finite values, one a row.
    pub(crate) fn of(vectors: ArrayView2<'_, f32>) -> Self {
        Self::of_each(vectors.ncols(), vectors.rows().into_iter())
    }

    /// Takes some of several vectors of finite values, one a row.
    pub(crate) fn of_some(vectors: ArrayView2<'_, f32>, some: &[usize]) -> Self {
        Self::of_each(vectors.ncols(), some.iter().map(|&row| vectors.row(row)))
    }

    fn of_each<'v>(
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

    /// Reads a row for each tool.
    pub(super) fn open(
        name: &str,
        file: &SavedFile,
        dimensions: usize,
    ) -> Result<Self, SavedError> {
        let (values, scales): (Vec<i8>, Vec<f32>) = (
            file.numbers(&format!("{name}.values"))?,
            file.numbers(&format!("{name}.scales"))?,
        );
        let sound = dimensions <= MAX_DIMENSIONS
            && scales.len() == file.header.tools
            && scales.len().checked_mul(dimensions) == Some(values.len())
            && scales
                .iter()
                .all(|scale| scale.is_finite() && *scale >= 0.0);
        file.ensure(sound, name)?;
        Ok(Self {
            dimensions,
            values,
            scales,
        })
    }

    /// Takes values, and what a step is worth in each row.
    pub(super) fn of_parts(dimensions: usize, values: Vec<i8>, scales: Vec<f32>) -> Self {
        Self {
            dimensions,
            values,
            scales,
        }
    }

    /// Returns the values, and what a step is worth in each row.
    pub(super) fn parts(&self) -> (&[i8], &[f32]) {
        (&self.values, &self.scales)
    }

    /// Puts rows of one length one after the other; `None` where there are none.
    pub(crate) fn gathered<'r>(
        rows: impl ExactSizeIterator<Item = (&'r Self, usize)>,
    ) -> Option<Self> {
        let (mut all, count): (Option<Self>, _) = (None, rows.len());
        for (from, row) in rows {
            let all = all.get_or_insert_with(|| {
                let values = Vec::with_capacity(count * from.dimensions);
                Self::of_parts(from.dimensions, values, Vec::with_capacity(count))
            });
            all.values
                .extend(&from.values[row * from.dimensions..][..from.dimensions]);
            all.scales.push(from.scales[row]);
        }
        all
    }

    /// Returns how many bytes they take.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.scales)
    }

    /// Returns how many rows there are.
    pub(super) fn len(&self) -> usize {
        self.scales.len()
    }

    /// Puts a vector of finite values, one a dimension, into a row.
    pub(super) fn set(&mut self, row: usize, vector: &[f32]) {
        let held = &mut self.values[row * self.dimensions..][..self.dimensions];
        self.scales[row] = Arch::new().dispatch(Steps { vector, held });
    }

    /// Puts a row of others of the same length into a row.
    pub(super) fn copy(&mut self, row: usize, others: &Self, from: usize) {
        let (dimensions, values) = (self.dimensions, &others.values);
        self.values[row * dimensions..][..dimensions]
            .copy_from_slice(&values[from * dimensions..][..dimensions]);
        self.scales[row] = others.scales[from];
    }

    /// Returns the vector of a row, as near to what it was as it is kept.
    pub(super) fn row(&self, row: usize) -> Array1<f32> {
        let mut vector = vec![0.0; self.dimensions];
        self.add_to(row, &mut vector);
        vector.into()
    }

    /// Adds the vector of a row to another.
    pub(super) fn add_to(&self, row: usize, sum: &mut [f32]) {
        let values = &self.values[row * self.dimensions..][..self.dimensions];
        Arch::new().dispatch(Sum {
            values,
            scale: self.scales[row],
            sum,
        });
    }

    /// Returns the product of every row with each row of `request`: by the latter, then by the
    /// former.
    pub(crate) fn products(&self, request: &Self) -> Vec<Vec<f32>> {
        let mut products = vec![vec![0.0; self.len()]; request.len()];
        self.products_into(request, &mut products, 0);
        products
    }

    /// Writes the product of every row with each row of `request`, from place `first` on.
    pub(super) fn products_into(&self, request: &Self, products: &mut [Vec<f32>], first: usize) {
        let dimensions = self.dimensions.max(1);
        let mut sums = [0; BLOCK];
        for (block, (rows, scales)) in self
            .values
            .chunks(BLOCK * dimensions)
            .zip(self.scales.chunks(BLOCK))
            .enumerate()
        {
            let request = request.values.chunks_exact(dimensions).zip(&request.scales);
            for ((vector, scale), products) in request.zip(&mut *products) {
                let sums = &mut sums[..scales.len()];
                dot_products(rows, vector, sums);
                let products = &mut products[first + block * BLOCK..][..scales.len()];
                for ((product, &sum), of_row) in products.iter_mut().zip(&*sums).zip(scales) {
                    *product = sum as f32 * of_row * scale;
                }
            }
        }
    }
}

/// The loop that adds a row to a sum: compiled once for each set of vector instructions, of which
/// the processor's is taken.
struct Sum<'a> {
    values: &'a [i8],
    scale: f32,
    sum: &'a mut [f32],
}

impl NullaryFnOnce for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { values, scale, sum } = self;
        sum.iter_mut()
            .zip(values)
            .for_each(|(sum, &value)| *sum += f32::from(value) * scale);
    }
}

/// The loops over the values of a row, which return what a step is worth: compiled once for each
/// set of vector instructions, of which the processor's is taken.
struct Steps<'a> {
    vector: &'a [f32],
    held: &'a mut [i8],
}

impl NullaryFnOnce for Steps<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        let Self { vector, held } = self;
        let scale = magnitude(vector) / MOST_STEPS;
        // Nothing is left of what is too small for a scale.
        if !scale.is_normal() {
            held.fill(0);
            return 0.0;
        }
        held.iter_mut()
            .zip(vector)
            .for_each(|(held, value)| *held = step(value / scale));
        scale
    }
}

/// Returns how far the furthest of some finite values is from zero.
#[inline(always)]
fn magnitude(values: &[f32]) -> f32 {
    let larger = |most: f32, value: f32| if value > most { value } else { most };
    let (chunks, rest) = values.as_chunks::<8>();
    let mut most = [0.0; 8];
    for chunk in chunks {
        most.iter_mut()
            .zip(chunk)
            .for_each(|(most, value)| *most = larger(*most, value.abs()));
    }
    rest.iter()
        .map(|value| value.abs())
        .chain(most)
        .fold(0.0, larger)
}

/// Rounds a value that is no further from zero than 127.
#[inline(always)]
fn step(value: f32) -> i8 {
    // So large a number has no places behind the point: adding to it rounds, and puts the whole
    // number into the lowest bits.
    const WHOLE: f32 = 12_582_912.0;
    i8::from_le_bytes([(value + WHOLE).to_bits().to_le_bytes()[0]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, s};
    use proptest::prelude::*;

    /// Vectors of unit length, one a row, or of zeros; some values are much larger than others.
    fn unit_rows(rows: usize, dimensions: usize) -> impl Strategy<Value = Array2<f32>> {
        let value = prop_oneof![4 => -1.0_f32..1.0, 1 => prop::sample::select(vec![0.0, -0.0, 1e-45, 50.0, -50.0])];
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

    /// The largest value of each row, in which its steps are counted.
    fn largest(row: ArrayView1<'_, f32>) -> f32 {
        row.iter()
            .fold(0.0, |most: f32, value| most.max(value.abs()))
    }

    proptest! {
        #[test]
        fn no_value_is_further_than_half_a_step_from_what_it_was((matrix, _) in matrices()) {
            let rows = Rows::of(matrix.view());
            for (at, row) in matrix.rows().into_iter().enumerate() {
                for (kept, value) in rows.row(at).iter().zip(row) {
                    let bound = 0.5001 * largest(row) / 127.0 + f32::MIN_POSITIVE;
                    prop_assert!((kept - value).abs() <= bound, "{} {}", kept, value);
                }
            }
        }

        #[test]
        fn products_are_off_by_no_more_than_the_rounding((a, b) in matrices()) {
            let found = Rows::of(a.view()).products(&Rows::of(b.view()));
            prop_assert!(found.len() == b.nrows() && found.iter().all(|products| products.len() == a.nrows()));
            for (column, row, product) in each(&found) {
                let exact = a.row(row).iter().zip(b.row(column)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                // Each vector of unit length, with what half a step in each value of the other
                // comes to at most.
                let off = |values: ArrayView1<'_, f32>| f64::from(largest(values)) / 254.0 * (a.ncols() as f64).sqrt();
                let (of_row, of_column) = (off(a.row(row)), off(b.row(column)));
                let bound = of_row + of_column + of_row * of_column + 1e-5;
                prop_assert!((f64::from(product) - exact).abs() <= bound, "{} is not {}", product, exact);
            }
        }

        #[test]
        fn a_product_does_not_depend_on_the_other_rows((a, b) in matrices()) {
            let all = Rows::of(a.view()).products(&Rows::of(b.view()));
            for (column, row, product) in each(&all) {
                let (one, other) = (a.slice(s![row..=row, ..]), b.slice(s![column..=column, ..]));
                prop_assert_eq!(Rows::of(one).products(&Rows::of(other))[0][0].to_bits(), product.to_bits());
            }
        }
    }

    #[test]
    fn the_longest_vectors_do_not_overflow() {
        for dimensions in [1, 256, 4096, MAX_DIMENSIONS] {
            let even = Array2::from_elem((1, dimensions), 1.0 / (dimensions as f32).sqrt());
            let (even, against) = (Rows::of(even.view()), Rows::of((-even).view()));
            assert!(
                (even.products(&even)[0][0] - 1.0).abs() < 1e-3,
                "{dimensions}"
            );
            assert!(
                (even.products(&against)[0][0] + 1.0).abs() < 1e-3,
                "{dimensions}"
            );
        }
    }

    #[test]
    fn a_copied_row_is_the_same() {
        let matrix =
            Array2::from_shape_vec((2, 3), vec![0.6, 0.0, -0.8, 0.0, 1.0, 0.0]).expect("it fits");
        let rows = Rows::of(matrix.view());
        let mut other = Rows::zeros(1, 3);
        other.copy(0, &rows, 0);
        assert_eq!(other.row(0), rows.row(0));
    }
}
