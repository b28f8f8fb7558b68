//! The dot product loop for several sets of vector instructions. The processor selects the version.

use pulp::{Arch, NullaryFnOnce};

/// Writes the dot product of each row with a vector of at most 65,536 values. `rows` are adjacent.
pub(super) fn dot_products(rows: &[i8], vector: &[i8], products: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        // SAFETY: this processor has the instructions.
        return unsafe { vnni::dot_products(rows, vector, products) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        // SAFETY: this processor has the instructions.
        return unsafe { avx2::dot_products(rows, vector, products) };
    }
    Arch::new().dispatch(PortableLoop {
        rows,
        vector,
        products,
    });
}

/// The portable loop, compiled for the instruction sets that `pulp` detects.
struct PortableLoop<'a> {
    rows: &'a [i8],
    vector: &'a [i8],
    products: &'a mut [i32],
}

impl NullaryFnOnce for PortableLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (product, row) in self
            .products
            .iter_mut()
            .zip(self.rows.chunks_exact(self.vector.len().max(1)))
        {
            *product = dot(row, self.vector);
        }
    }
}

#[inline(always)]
fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| i32::from(a) * i32::from(b))
        .sum()
}

/// The version with the dot product instruction (VNNI) of x86 processors since about 2019. It takes
/// a quarter of the time.
#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::{
        __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_reduce_add_epi32,
        _mm512_set1_epi8, _mm512_setzero_si512, _mm512_xor_si512,
    };

    /// The number of values per instruction.
    const LANES: usize = 64;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn dot_products(rows: &[i8], vector: &[i8], products: &mut [i32]) {
        // The instruction needs one unsigned factor. 128 is added to the values of the rows and
        // subtracted from the sums again.
        let offset = 128 * vector.iter().map(|&value| i32::from(value)).sum::<i32>();
        for (product, row) in products
            .iter_mut()
            .zip(rows.chunks_exact(vector.len().max(1)))
        {
            *product = dot(row, vector) - offset;
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[inline]
    fn dot(a: &[i8], b: &[i8]) -> i32 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        let mut sums = _mm512_setzero_si512();
        for (a, b) in a.iter().zip(b) {
            let unsigned = _mm512_xor_si512(load(a), _mm512_set1_epi8(i8::MIN));
            sums = _mm512_dpbusd_epi32(sums, unsigned, load(b));
        }
        let rest = a_rest
            .iter()
            .zip(b_rest)
            .map(|(&a, &b)| (i32::from(a) + 128) * i32::from(b));
        _mm512_reduce_add_epi32(sums) + rest.sum::<i32>()
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(values: &[i8; LANES]) -> __m512i {
        #[expect(unsafe_code, reason = "vectors are loaded through pointers")]
        // SAFETY: the array has as many bytes as are loaded, and they need not be aligned.
        unsafe {
            _mm512_loadu_si512(values.as_ptr().cast())
        }
    }
}

/// The version for x86 processors since about 2014. It adds up 16-bit products in pairs, for four
/// rows at a time.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
        _mm256_extracti128_si256, _mm256_hadd_epi32, _mm256_madd_epi16, _mm256_setzero_si256,
    };

    /// The number of values per step.
    const LANES: usize = 16;
    /// The number of rows per step.
    const ROWS: usize = 4;

    #[target_feature(enable = "avx2")]
    pub(super) fn dot_products(rows: &[i8], vector: &[i8], products: &mut [i32]) {
        let dimensions = vector.len().max(1);
        let (row_groups, rest) = products.as_chunks_mut::<ROWS>();
        let (rows, rest_rows) = rows.split_at(row_groups.len() * ROWS * dimensions);
        for (products, rows) in row_groups
            .iter_mut()
            .zip(rows.chunks_exact(ROWS * dimensions))
        {
            let (ab, cd) = rows.split_at(2 * dimensions);
            let ((a, b), (c, d)) = (ab.split_at(dimensions), cd.split_at(dimensions));
            *products = dots([a, b, c, d], vector);
        }
        for (product, row) in rest.iter_mut().zip(rest_rows.chunks_exact(dimensions)) {
            [*product, ..] = dots([row; ROWS], vector);
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn dots([a, b, c, d]: [&[i8]; ROWS], vector: &[i8]) -> [i32; ROWS] {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        let ((c, c_rest), (d, d_rest)) = (c.as_chunks::<LANES>(), d.as_chunks::<LANES>());
        let (values, rest) = vector.as_chunks::<LANES>();
        let zero = _mm256_setzero_si256();
        let (mut sum_a, mut sum_b, mut sum_c, mut sum_d) = (zero, zero, zero, zero);
        for ((((values, a), b), c), d) in values.iter().zip(a).zip(b).zip(c).zip(d) {
            let values = wide(values);
            sum_a = _mm256_add_epi32(sum_a, _mm256_madd_epi16(wide(a), values));
            sum_b = _mm256_add_epi32(sum_b, _mm256_madd_epi16(wide(b), values));
            sum_c = _mm256_add_epi32(sum_c, _mm256_madd_epi16(wide(c), values));
            sum_d = _mm256_add_epi32(sum_d, _mm256_madd_epi16(wide(d), values));
        }
        let halves = _mm256_hadd_epi32(
            _mm256_hadd_epi32(sum_a, sum_b),
            _mm256_hadd_epi32(sum_c, sum_d),
        );
        let sums = _mm_add_epi32(
            _mm256_castsi256_si128(halves),
            _mm256_extracti128_si256::<1>(halves),
        );
        let [sum_a, sum_b, sum_c, sum_d]: [i32; ROWS] = bytemuck::cast(sums);
        if rest.is_empty() {
            return [sum_a, sum_b, sum_c, sum_d];
        }
        [
            sum_a + super::dot(a_rest, rest),
            sum_b + super::dot(b_rest, rest),
            sum_c + super::dot(c_rest, rest),
            sum_d + super::dot(d_rest, rest),
        ]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn wide(values: &[i8; LANES]) -> __m256i {
        _mm256_cvtepi8_epi16(bytemuck::cast(*values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(count: usize) -> impl Strategy<Value = Vec<i8>> {
        let value =
            prop_oneof![3 => any::<i8>(), 1 => prop::sample::select(vec![i8::MIN, i8::MAX])];
        prop::collection::vec(value, count)
    }

    proptest! {
        #[test]
        fn every_loop_equals_the_definition(
            (rows, vector) in (0..5_usize, prop_oneof![1..140_usize, Just(256_usize)])
                .prop_flat_map(|(rows, dimensions)| {
                    (values(rows * dimensions), values(dimensions))
                }),
        ) {
            let naive = |row: &[i8]| {
                let pairs = row.iter().zip(&vector);
                pairs.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
            };
            let expected: Vec<i32> = rows.chunks(vector.len()).map(naive).collect();
            let mut products = vec![0; expected.len()];
            dot_products(&rows, &vector, &mut products);
            prop_assert_eq!(&products, &expected);
            products.fill(0);
            PortableLoop { rows: &rows, vector: &vector, products: &mut products }.call();
            prop_assert_eq!(&products, &expected);
        }
    }
}
