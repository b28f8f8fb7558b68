//! The loop that adds up table numbers, for several sets of vector instructions. The processor
//! selects the version.

use super::tables::{BLOCK, LookupTables, SIGNS, SUMS};

/// The number of request rows that are compared with a block at a time. Each code is split into its
/// two groups of signs once for all of them.
const ROWS: usize = 2;

/// Blocks of a sketch.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'s> {
    /// By block, then by pair of groups.
    pub(super) codes: &'s [[u8; BLOCK]],
    pub(super) weights: &'s [[f32; BLOCK]],
    /// The number of pairs of groups of a block.
    pub(super) pairs: usize,
}

/// The sums of table numbers of a block, by request row.
type Sums<const R: usize> = [[u16; BLOCK]; R];

/// Writes the estimated products of blocks with each row of a request. `estimates` has one entry
/// for each row and block.
pub(super) fn estimate(
    blocks: Blocks<'_>,
    tables: &[LookupTables],
    estimates: &mut [&mut [[f32; BLOCK]]],
) {
    let (row_groups, rest) = estimates.as_chunks_mut::<ROWS>();
    let (table_groups, rest_tables) = tables.as_chunks::<ROWS>();
    for (estimates, tables) in row_groups.iter_mut().zip(table_groups) {
        estimate_rows(blocks, tables, estimates);
    }
    for (estimates, tables) in rest.iter_mut().zip(rest_tables) {
        estimate_rows(
            blocks,
            std::array::from_ref(tables),
            std::array::from_mut(estimates),
        );
    }
}

fn estimate_rows<const R: usize>(
    blocks: Blocks<'_>,
    tables: &[LookupTables; R],
    estimates: &mut [&mut [[f32; BLOCK]]; R],
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512bw") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        // SAFETY: this processor has the instructions.
        return unsafe { avx512::estimate_rows(blocks, tables, estimates) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        // SAFETY: this processor has the instructions.
        return unsafe { avx2::estimate_rows(blocks, tables, estimates) };
    }
    estimate_each(blocks, tables, estimates, add_up);
}

/// Estimates the products of each block, with `add_up` for the sums of table numbers.
#[inline(always)]
fn estimate_each<const R: usize>(
    blocks: Blocks<'_>,
    tables: &[LookupTables; R],
    estimates: &mut [&mut [[f32; BLOCK]]; R],
    add_up: impl Fn(&[[u8; BLOCK]], &[LookupTables; R]) -> Sums<R>,
) {
    let codes = blocks.codes.chunks_exact(blocks.pairs.max(1));
    for (block, (codes, weights)) in codes.zip(blocks.weights).enumerate() {
        let sums = add_up(codes, tables);
        for ((sums, tables), estimates) in sums.iter().zip(tables).zip(&mut *estimates) {
            let LookupTables { step, minimum, .. } = tables;
            let pairs = sums.iter().zip(weights);
            for (estimate, (&sum, weight)) in estimates[block].iter_mut().zip(pairs) {
                *estimate = weight * (step * f32::from(sum) + minimum);
            }
        }
    }
}

/// The portable loop.
fn add_up<const R: usize>(codes: &[[u8; BLOCK]], tables: &[LookupTables; R]) -> Sums<R> {
    let mut all_sums = [[0; BLOCK]; R];
    for (sums, tables) in all_sums.iter_mut().zip(tables) {
        for (codes, [first, second]) in codes.iter().zip(&tables.tables) {
            for (sum, &code) in sums.iter_mut().zip(codes) {
                *sum += u16::from(first[usize::from(code) % SUMS])
                    + u16::from(second[usize::from(code) >> SIGNS]);
            }
        }
    }
    all_sums
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_add_epi16, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi16,
        _mm256_srli_epi16, _mm256_sub_epi16, _mm256_unpackhi_epi16, _mm256_unpacklo_epi16,
    };

    use super::{BLOCK, Blocks, LookupTables, SUMS, Sums, estimate_each};

    /// The number of vectors that hold the codes of a block.
    const PARTS: usize = BLOCK / size_of::<__m256i>();

    #[target_feature(enable = "avx2")]
    pub(super) fn estimate_rows<const R: usize>(
        blocks: Blocks<'_>,
        tables: &[LookupTables; R],
        estimates: &mut [&mut [[f32; BLOCK]]; R],
    ) {
        estimate_each(blocks, tables, estimates, |codes, tables| {
            add_up(codes, tables)
        });
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn add_up<const R: usize>(
        codes: &[[u8; BLOCK]],
        tables: &[LookupTables; R],
    ) -> Sums<R> {
        let (zero, low_bits) = (_mm256_setzero_si256(), _mm256_set1_epi8(15));
        // `pair_sums` adds up each pair of bytes as a 16-bit number, in which the second byte
        // counts 256-fold. `second_sums` adds up the second bytes alone.
        let (mut pair_sums, mut second_sums) = ([[zero; PARTS]; R], [[zero; PARTS]; R]);
        for (pair, codes) in codes.iter().enumerate() {
            let codes: [__m256i; PARTS] = bytemuck::cast(*codes);
            let (mut low, mut high) = ([zero; PARTS], [zero; PARTS]);
            for part in 0..PARTS {
                low[part] = _mm256_and_si256(codes[part], low_bits);
                high[part] = _mm256_and_si256(_mm256_srli_epi16::<4>(codes[part]), low_bits);
            }
            for row in 0..R {
                let [low_table, high_table] = tables[row].tables[pair];
                let (low_table, high_table) = (table(low_table), table(high_table));
                for part in 0..PARTS {
                    let numbers = _mm256_add_epi8(
                        _mm256_shuffle_epi8(low_table, low[part]),
                        _mm256_shuffle_epi8(high_table, high[part]),
                    );
                    pair_sums[row][part] = _mm256_add_epi16(pair_sums[row][part], numbers);
                    let second_numbers = _mm256_srli_epi16::<8>(numbers);
                    second_sums[row][part] =
                        _mm256_add_epi16(second_sums[row][part], second_numbers);
                }
            }
        }
        let mut sums = [[0; BLOCK]; R];
        for row in 0..R {
            for (part, sums) in sums[row].as_chunks_mut().0.iter_mut().enumerate() {
                *sums = in_order(pair_sums[row][part], second_sums[row][part]);
            }
        }
        sums
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn table(table: [u8; SUMS]) -> __m256i {
        _mm256_broadcastsi128_si256(bytemuck::cast(table))
    }

    /// Returns the sums of a vector of codes in the order of the codes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn in_order(pair_sums: __m256i, second_sums: __m256i) -> [u16; size_of::<__m256i>()] {
        let first_sums = _mm256_sub_epi16(pair_sums, _mm256_slli_epi16::<8>(second_sums));
        // Eight sums of each half of the vectors.
        let low: [[u16; 8]; 2] = bytemuck::cast(_mm256_unpacklo_epi16(first_sums, second_sums));
        let high: [[u16; 8]; 2] = bytemuck::cast(_mm256_unpackhi_epi16(first_sums, second_sums));
        bytemuck::cast([low[0], high[0], low[1], high[1]])
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm_loadu_si128, _mm512_add_epi8, _mm512_add_epi16, _mm512_and_si512,
        _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_set1_epi8, _mm512_setzero_si512,
        _mm512_shuffle_epi8, _mm512_slli_epi16, _mm512_srli_epi16, _mm512_storeu_si512,
        _mm512_sub_epi16, _mm512_unpackhi_epi16, _mm512_unpacklo_epi16,
    };

    use super::{BLOCK, Blocks, LookupTables, SUMS, Sums, estimate_each};

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn estimate_rows<const R: usize>(
        blocks: Blocks<'_>,
        tables: &[LookupTables; R],
        estimates: &mut [&mut [[f32; BLOCK]]; R],
    ) {
        estimate_each(blocks, tables, estimates, |codes, tables| {
            add_up(codes, tables)
        });
    }

    /// The loop of the version for AVX2, with a vector for a whole block.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn add_up<const R: usize>(
        codes: &[[u8; BLOCK]],
        tables: &[LookupTables; R],
    ) -> Sums<R> {
        let (zero, low_bits) = (_mm512_setzero_si512(), _mm512_set1_epi8(15));
        let (mut pair_sums, mut second_sums) = ([zero; R], [zero; R]);
        for (pair, codes) in codes.iter().enumerate() {
            let codes = load(codes);
            let low = _mm512_and_si512(codes, low_bits);
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), low_bits);
            for row in 0..R {
                let [low_table, high_table] = &tables[row].tables[pair];
                let numbers = _mm512_add_epi8(
                    _mm512_shuffle_epi8(table(low_table), low),
                    _mm512_shuffle_epi8(table(high_table), high),
                );
                pair_sums[row] = _mm512_add_epi16(pair_sums[row], numbers);
                let second_numbers = _mm512_srli_epi16::<8>(numbers);
                second_sums[row] = _mm512_add_epi16(second_sums[row], second_numbers);
            }
        }
        let mut sums = [[0; BLOCK]; R];
        for row in 0..R {
            let second = second_sums[row];
            let first = _mm512_sub_epi16(pair_sums[row], _mm512_slli_epi16::<8>(second));
            // Eight sums of each quarter of the vectors.
            let low: [[u16; 8]; 4] = store(_mm512_unpacklo_epi16(first, second));
            let high: [[u16; 8]; 4] = store(_mm512_unpackhi_epi16(first, second));
            for (sums, quarters) in sums[row]
                .as_chunks_mut()
                .0
                .iter_mut()
                .zip(low.iter().zip(&high))
            {
                *sums = bytemuck::cast::<_, [u16; 16]>([*quarters.0, *quarters.1]);
            }
        }
        sums
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(codes: &[u8; BLOCK]) -> __m512i {
        #[expect(unsafe_code, reason = "vectors are loaded through pointers")]
        // SAFETY: the array has as many bytes as are loaded, and they need not be aligned.
        unsafe {
            _mm512_loadu_si512(codes.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn table(table: &[u8; SUMS]) -> __m512i {
        #[expect(unsafe_code, reason = "vectors are loaded through pointers")]
        // SAFETY: the array has as many bytes as are loaded, and they need not be aligned.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        _mm512_broadcast_i32x4(table)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(vector: __m512i) -> [[u16; 8]; 4] {
        let mut values = [[0; 8]; 4];
        #[expect(unsafe_code, reason = "vectors are stored through pointers")]
        // SAFETY: the array has as many bytes as are stored, and they need not be aligned.
        unsafe {
            _mm512_storeu_si512(values.as_mut_ptr().cast(), vector);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tables::GROUPS;
    use super::*;

    proptest! {
        #[test]
        fn vector_loops_equal_the_portable_loop(
            codes in prop::collection::vec(prop::collection::vec(any::<u8>(), BLOCK), 0..256),
            seed in prop::collection::vec(0..128_u8, SUMS * GROUPS),
        ) {
            let codes: Vec<[u8; BLOCK]> =
                codes.into_iter().map(|codes| codes.try_into().expect("a block")).collect();
            let tables = |row: usize| {
                let number = |pair, group, signs| {
                    seed[(7 * pair + 5 * row + SUMS * group + signs) % seed.len()]
                };
                let table = |pair| {
                    std::array::from_fn(|group| {
                        std::array::from_fn(|signs| number(pair, group, signs))
                    })
                };
                let tables = (0..codes.len()).map(table).collect();
                LookupTables { tables, step: 1.0, minimum: 0.0 }
            };
            let tables = [tables(0), tables(1)];
            let expected = add_up(&codes, &tables);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                #[expect(unsafe_code, reason = "instructions that not every processor has")]
                // SAFETY: this processor has the instructions.
                let sums = unsafe { avx2::add_up(&codes, &tables) };
                prop_assert_eq!(sums, expected);
            }
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512bw") {
                #[expect(unsafe_code, reason = "instructions that not every processor has")]
                // SAFETY: this processor has the instructions.
                let sums = unsafe { avx512::add_up(&codes, &tables) };
                prop_assert_eq!(sums, expected);
            }
        }
    }
}
