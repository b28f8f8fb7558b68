//! The lookup tables of a request: the sums of its signed values.

/// The number of tools per block.
pub(super) const BLOCK: usize = 64;
/// The number of signs per lookup.
pub(super) const SIGNS: usize = 4;
/// The number of groups of signs in one byte of a tool.
pub(super) const GROUPS: usize = 2;
/// The number of sign patterns of a group, each with a sum in the table.
pub(super) const SUMS: usize = 1 << SIGNS;
/// The largest number in a table, so that the sum of two fits into a byte.
const MAX_TABLE_NUMBER: f32 = 127.0;

/// The sums of four signed values of a request, by group and sign pattern.
pub(super) struct LookupTables {
    pub(super) tables: Vec<[[u8; SUMS]; GROUPS]>,
    /// The value of one table unit.
    pub(super) step: f32,
    /// The value of a sum of zeros.
    pub(super) minimum: f32,
}

impl LookupTables {
    pub(super) fn build(request: &[f32], pairs: usize) -> Self {
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
            *table = sums(values).map(|sum| nearest(2.0 * sum / step));
        }
        Self {
            tables,
            step,
            minimum: -groups.sum::<f32>(),
        }
    }
}

/// Returns, for each sign pattern, the sum of the absolute values whose signs equal those of the
/// pattern: the sum of the signed values above its minimum, halved.
fn sums(values: &[f32]) -> [f32; SUMS] {
    let mut sums = [0.0; SUMS];
    for bit in 0..SIGNS {
        let value = values.get(bit).copied().unwrap_or_default();
        let (if_negative, if_positive) = if value > 0.0 {
            (0.0, value)
        } else {
            (value.abs(), 0.0)
        };
        // The patterns of the values so far, without this one and with it.
        let (negative, positive) = sums.split_at_mut(1 << bit);
        for (negative, positive) in negative.iter_mut().zip(positive) {
            *positive = *negative + if_positive;
            *negative += if_negative;
        }
    }
    sums
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of tables are from 0 to 127"
)]
fn nearest(value: f32) -> u8 {
    (value + 0.5) as u8
}
