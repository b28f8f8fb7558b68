//! How figures of single queries are distributed.

/// The points of the empirical distribution function:
/// `(value, share of the values that do not exceed it)`, in order of value. Of many values about
/// `most` points are given, evenly spaced in the share, and always the largest value.
///
/// # Panics
///
/// When `most` is 0.
///
/// # Complexity
///
/// `O(n log n)`.
pub fn cumulative(values: &[f64], most: usize) -> Vec<(f64, f64)> {
    assert!(most > 0, "at least one point is asked for");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let points = most.min(count);
    // Of equally many values a point, the last one: its rank is that many values' share.
    let ranks = (1..=points).map(|point| point * count / points);
    ranks
        .map(|rank| (sorted[rank - 1], rank as f64 / count as f64))
        .collect()
}

/// The share of the values in each of `bins` equal parts of 0..1; a value on a border belongs to
/// the upper part, 1 to the last, and what lies outside to the nearest. Empty when there are no
/// values.
pub fn shares(values: &[f64], bins: usize) -> Vec<f64> {
    if values.is_empty() || bins == 0 {
        return Vec::new();
    }
    let mut counts = vec![0_usize; bins];
    for value in values {
        // The upper borders that the value reaches are the parts below its own.
        let below = (1..bins)
            .filter(|&border| *value >= border as f64 / bins as f64)
            .count();
        counts[below] += 1;
    }
    counts
        .into_iter()
        .map(|count| count as f64 / values.len() as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_of_equal_parts() {
        assert_eq!(
            shares(&[0.0, 0.1, 0.25, 0.9, 1.0, 1.5, -1.0, 0.5], 4),
            [0.375, 0.125, 0.125, 0.375]
        );
        assert!(shares(&[], 4).is_empty());
    }

    #[test]
    fn few_values_are_all_points() {
        assert_eq!(
            cumulative(&[3.0, 1.0, 2.0, 2.0], 100),
            [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
        );
        assert!(cumulative(&[], 100).is_empty());
    }

    proptest! {
        #[test]
        fn a_point_is_a_value_with_its_share(values in prop::collection::vec(0.0..10.0f64, 1..300), most in 1usize..50) {
            let points = cumulative(&values, most);
            prop_assert!(points.len() <= most);
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
