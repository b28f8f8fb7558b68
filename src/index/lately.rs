//! What was worked out of tools that were asked for lately: requests change, and the tools that
//! answer them return.

use std::sync::{Arc, Mutex};

use foldhash::HashMap;

use crate::ranking::ToolId;
use crate::sync::lock;

/// Of how many tools it is kept.
const MOST: usize = 2_048;

/// Something of each tool that was asked for lately.
pub(crate) struct Lately<T>(Mutex<HashMap<ToolId, Arc<T>>>);

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Lately<T> {
    /// Returns what is known of a tool, which `work_out` tells where nothing is.
    pub(crate) fn of(&self, tool: ToolId, work_out: impl FnOnce() -> T) -> Arc<T> {
        let known = || lock(&self.0);
        if let Some(known) = known().get(&tool) {
            return Arc::clone(known);
        }
        let told = Arc::new(work_out());
        let mut known = known();
        // What is asked for often is soon known again.
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(tool, Arc::clone(&told));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_worked_out_once_as_long_as_it_is_kept() {
        let lately = Lately::default();
        let of = |tool| *lately.of(ToolId::from_index(tool), || tool);
        assert_eq!(
            (0..MOST).map(of).collect::<Vec<_>>(),
            (0..MOST).collect::<Vec<_>>()
        );
        let known = |tool| *lately.of(ToolId::from_index(tool), || usize::MAX);
        assert_eq!([0, MOST - 1].map(known), [0, MOST - 1]);
        assert_eq!([MOST].map(of), [MOST]);
        assert_eq!(
            [MOST, 0].map(known),
            [MOST, usize::MAX],
            "there was no room for all"
        );
    }
}
