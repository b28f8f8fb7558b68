//! Reports of changes in shared state, wherever it is.

use std::path::PathBuf;

use crate::file_changes::FileChanges;
use crate::shared_store::{StateStore, StoreChanges};

/// The location of shared state.
pub enum StateLocation {
    /// A file of this machine, or a folder of files.
    File(PathBuf),
    /// A shared store.
    Store(StateStore),
}

/// Reports of changes in shared state. Each clone receives all reports.
#[derive(Clone)]
pub struct StateChanges {
    files: FileChanges,
    store: Option<StoreChanges>,
}

impl StateChanges {
    /// Watches these locations. All of them that are in a store are in the same one.
    pub fn watch(locations: impl IntoIterator<Item = StateLocation>) -> Self {
        let (mut files, mut store) = (Vec::new(), None);
        for location in locations {
            match location {
                StateLocation::File(path) => files.push(path),
                StateLocation::Store(location) => store = Some(location),
            }
        }
        Self {
            files: FileChanges::watch(files),
            store: store.map(|store| store.changes()),
        }
    }

    /// Waits until the state may have changed since the last call of this method. A caller compares
    /// the state: a report may come without a change.
    pub async fn changed(&mut self) {
        let Some(store) = &mut self.store else {
            return self.files.changed().await;
        };
        tokio::select! {
            () = self.files.changed() => {}
            () = store.changed() => {}
        }
    }
}
