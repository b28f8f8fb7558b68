//! Fair shares of what all keys have together, such as sessions.
//!
//! If there is no place left, the key that has the most gives one of its places. A key therefore
//! takes places of another one only as long as it has fewer.

use std::collections::HashMap;
use std::hash::Hash;

/// Returns the holder of the most places; `requester` if it has as many as that one. Returns `None`
/// if there is no holder.
pub fn largest_holder<K: Hash + Eq>(
    holders: impl IntoIterator<Item = K>,
    requester: &K,
) -> Option<K> {
    let mut counts: HashMap<K, usize> = HashMap::new();
    for holder in holders {
        *counts.entry(holder).or_default() += 1;
    }
    let largest = counts
        .into_iter()
        .max_by_key(|(holder, count)| (*count, holder == requester));
    largest.map(|(holder, _)| holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_holder_prefers_the_requester_among_equals() {
        assert_eq!(largest_holder(["a", "b", "b"], &"a"), Some("b"));
        assert_eq!(largest_holder(["a", "b", "a", "b"], &"a"), Some("a"));
        assert_eq!(largest_holder(["a", "b"], &"c").map(str::len), Some(1));
        assert_eq!(largest_holder(Vec::<&str>::new(), &"a"), None);
    }
}
