//! The distribution of figures of single queries.

/// Returns points of the empirical distribution function, in order of value. A point is a value
/// with the share of the values that do not exceed it.
///
/// There are at most `max_points` points, evenly spaced in the share. The largest value is always
/// one of them.
///
/// # Panics
///
/// If `max_points` is 0.
///
/// # Complexity
///
/// `O(n log n)`.
pub fn cumulative(values: &[f64], max_points: usize) -> Vec<(f64, f64)> {
    assert!(max_points > 0, "at least one point is needed");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let point_count = max_points.min(count);
    let mut points = Vec::with_capacity(point_count);
    for point in 1..=point_count {
        // The last of the values that belong to this point: its rank is their share.
        let rank = point * count / point_count;
        points.push((sorted[rank - 1], rank as f64 / count as f64));
    }
    points
}

/// Returns the share of the values in each of `bins` equal parts of 0..1; empty without values.
///
/// A value on a border belongs to the upper part, 1 to the last one, and a value outside to the
/// nearest one.
pub fn shares(values: &[f64], bins: usize) -> Vec<f64> {
    if values.is_empty() || bins == 0 {
        return Vec::new();
    }
    let mut counts = vec![0_usize; bins];
    for value in values {
        // The borders that the value reaches are those of the parts below.
        let mut bin = 0;
        for border in 1..bins {
            bin += usize::from(*value >= border as f64 / bins as f64);
        }
        counts[bin] += 1;
    }
    let total = values.len() as f64;
    let as_share = |count| count as f64 / total;
    counts.into_iter().map(as_share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_cover_equal_parts() {
        assert_eq!(
            shares(&[0.0, 0.1, 0.25, 0.9, 1.0, 1.5, -1.0, 0.5], 4),
            [0.375, 0.125, 0.125, 0.375]
        );
        assert!(shares(&[], 4).is_empty());
    }

    #[test]
    fn few_values_become_points_each() {
        assert_eq!(
            cumulative(&[3.0, 1.0, 2.0, 2.0], 100),
            [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
        );
        assert!(cumulative(&[], 100).is_empty());
    }

    proptest! {
        #[test]
        fn point_is_a_value_with_its_share(values in prop::collection::vec(0.0..10.0f64, 1..300), max_points in 1usize..50) {
            let points = cumulative(&values, max_points);
            prop_assert!(points.len() <= max_points);
            let largest = values.iter().copied().fold(f64::MIN, f64::max);
            prop_assert_eq!(points.last().copied(), Some((largest, 1.0)));
            for (value, share) in points {
                let up_to = values.iter().filter(|other| **other <= value).count() as f64 / values.len() as f64;
                let below = values.iter().filter(|other| **other < value).count() as f64 / values.len() as f64;
                prop_assert!(below < share && share <= up_to, "{value}: {below} < {share} <= {up_to}");
            }
        }
    }
}
