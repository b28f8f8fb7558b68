//! Dot products of vectors that are not quantised.

use ndarray::{Array2, ArrayView2};
use pulp::{Arch, NullaryFnOnce};

/// Returns the dot product of every row of `a` with every row of `b`, for vectors that are not
/// quantised.
///
/// A general matrix product would copy `a` first, which takes longer than the products if `b` has
/// few rows. The order of addition is the same on every processor, so results are bit-identical.
pub(crate) fn products(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Array2<f32> {
    let mut products = Array2::zeros((a.nrows(), b.nrows()));
    let dimensions = a.ncols();
    let (a, b) = (a.as_standard_layout(), b.as_standard_layout());
    if let (Some(a), Some(b), Some(out)) = (a.as_slice(), b.as_slice(), products.as_slice_mut()) {
        Arch::new().dispatch(ProductLoop {
            a,
            b,
            dimensions: dimensions.max(1),
            out,
        });
    }
    products
}

/// The loops of [`products`]. They are compiled for each set of vector instructions, and the
/// processor selects the version.
struct ProductLoop<'a> {
    a: &'a [f32],
    b: &'a [f32],
    dimensions: usize,
    out: &'a mut [f32],
}

impl NullaryFnOnce for ProductLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            a,
            b,
            dimensions,
            out,
        } = self;
        let pairs = a
            .chunks_exact(dimensions)
            .flat_map(|a| b.chunks_exact(dimensions).map(move |b| (a, b)));
        for (out, (a, b)) in out.iter_mut().zip(pairs) {
            *out = dot(a, b);
        }
    }
}

/// The number of parallel sums, as many as the widest vector instructions hold.
const LANES: usize = 16;

/// Returns the dot product of two vectors.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut sum = 0.0;
    for (a, b) in a_rest.iter().zip(b_rest) {
        sum += a * b;
    }
    sums.iter().fold(sum, |sum, lane| sum + lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{ArrayView1, Axis, s};
    use proptest::prelude::*;

    /// Returns the dot product by its definition and the sum of the absolute products, both in
    /// double precision.
    fn naive(a: ArrayView1<'_, f32>, b: ArrayView1<'_, f32>) -> (f64, f64) {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for index in 0..a.len() {
            let product = f64::from(a[index]) * f64::from(b[index]);
            sum += product;
            magnitude += product.abs();
        }
        (sum, magnitude)
    }

    /// Generates values of every magnitude whose sums of products are finite.
    fn value() -> impl Strategy<Value = f32> {
        let extremes = [
            0.0,
            -0.0,
            f32::MIN_POSITIVE,
            -1e-45,
            1e-20,
            f32::EPSILON,
            1e18,
            -1e18,
        ];
        prop_oneof![4 => -1.0_f32..1.0, 1 => prop::sample::select(extremes.to_vec())]
    }

    /// Generates two matrices with rows of equal length.
    fn matrices() -> impl Strategy<Value = (Array2<f32>, Array2<f32>)> {
        let edges = prop::sample::select(vec![0, 1, LANES - 1, LANES, LANES + 1, 3 * LANES, 256]);
        (0..6_usize, 0..4_usize, prop_oneof![0..80_usize, edges]).prop_flat_map(
            |(a, b, dimensions)| {
                let matrix = move |rows: usize| {
                    let values = prop::collection::vec(value(), rows * dimensions);
                    values.prop_map(move |values| {
                        Array2::from_shape_vec((rows, dimensions), values).expect("it fits")
                    })
                };
                (matrix(a), matrix(b))
            },
        )
    }

    /// Compares the products with the definition. The bound is the rounding error of a float sum
    /// (Higham, Accuracy and Stability of Numerical Algorithms, 3.1) plus the underflow of tiny
    /// products.
    fn check(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Result<(), TestCaseError> {
        let actual = products(a, b);
        prop_assert_eq!(actual.dim(), (a.nrows(), b.nrows()));
        let terms = a.ncols() as f64 + 2.0;
        for ((row, column), &product) in actual.indexed_iter() {
            let (exact, magnitude) = naive(a.row(row), b.row(column));
            let bound = terms * (magnitude * f64::from(f32::EPSILON) + 1e-45);
            prop_assert!(
                (f64::from(product) - exact).abs() <= bound,
                "{} is not {} ± {}",
                product,
                exact,
                bound
            );
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn products_equal_the_definition((a, b) in matrices()) {
            check(a.view(), b.view())?;
        }

        #[test]
        fn products_of_strided_views_equal_the_definition((a, b) in matrices()) {
            check(a.slice(s![..;2, ..]), b.slice(s![..;-1, ..]))?;
            check(a.slice(s![.., ..;2]), b.slice(s![.., ..;2]))?;
        }

        #[test]
        fn product_does_not_depend_on_other_rows((a, b) in matrices()) {
            let all = products(a.view(), b.view());
            for ((row, column), product) in all.indexed_iter() {
                let (a, b) = (a.row(row).insert_axis(Axis(0)), b.row(column).insert_axis(Axis(0)));
                prop_assert_eq!(products(a, b)[[0, 0]].to_bits(), product.to_bits());
            }
        }
    }
}
