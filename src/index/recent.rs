//! A cache of data that was computed for recently requested tools. Different requests often get the
//! same tools.

use std::sync::{Arc, Mutex};

use foldhash::HashMap;

use crate::ranking::ToolId;
use crate::sync::lock;

/// The largest number of cached tools.
const MAX_TOOLS: usize = 2_048;

/// A cache with one value per recently requested tool.
pub(crate) struct RecentCache<T>(Mutex<HashMap<ToolId, Arc<T>>>);

impl<T> Default for RecentCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> RecentCache<T> {
    /// Returns the cached value of a tool, or computes and caches it.
    pub(crate) fn get_or_compute(&self, tool: ToolId, compute: impl FnOnce() -> T) -> Arc<T> {
        if let Some(cached) = lock(&self.0).get(&tool) {
            return Arc::clone(cached);
        }
        let value = Arc::new(compute());
        let mut cache = lock(&self.0);
        // Frequently requested values are soon cached again.
        if cache.len() >= MAX_TOOLS {
            cache.clear();
        }
        cache.insert(tool, Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_computed_once_while_it_is_cached() {
        let cache = RecentCache::default();
        let cache_number = |tool| *cache.get_or_compute(ToolId::from_index(tool), || tool);
        assert_eq!(
            (0..MAX_TOOLS).map(cache_number).collect::<Vec<_>>(),
            (0..MAX_TOOLS).collect::<Vec<_>>()
        );
        let cached = |tool| *cache.get_or_compute(ToolId::from_index(tool), || usize::MAX);
        assert_eq!([0, MAX_TOOLS - 1].map(cached), [0, MAX_TOOLS - 1]);
        assert_eq!([MAX_TOOLS].map(cache_number), [MAX_TOOLS]);
        assert_eq!(
            [MAX_TOOLS, 0].map(cached),
            [MAX_TOOLS, usize::MAX],
            "a full cache is cleared"
        );
    }
}
