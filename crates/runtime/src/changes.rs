//! The changes that tools made to files in the current turn, so that they can be undone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use super::lock;

/// The most bytes of earlier contents that are kept. Beyond it, the oldest changes are dropped.
const MAX_BYTES: usize = 64 << 20;
/// The most changes that are kept.
const MAX_CHANGES: usize = 1_000;

/// A change of a file by a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file, relative to the root.
    pub path: PathBuf,
    /// The earlier content; `None` if the tool created the file.
    pub before: Option<Vec<u8>>,
    after: [u8; 32],
}

impl FileChange {
    /// Makes a change to the content `after`.
    pub fn new(path: PathBuf, before: Option<Vec<u8>>, after: &[u8]) -> Self {
        Self {
            path,
            before,
            after: Sha256::digest(after).into(),
        }
    }

    /// Returns `true` if a content is the one that the tool wrote.
    pub fn is_result(&self, content: &[u8]) -> bool {
        <[u8; 32]>::from(Sha256::digest(content)) == self.after
    }

    fn bytes(&self) -> usize {
        self.before.as_ref().map_or(0, Vec::len)
    }
}

/// The changes of the current turn, the last one at the end. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TurnChanges(Arc<Mutex<Vec<FileChange>>>);

impl TurnChanges {
    /// Adds a change.
    pub fn push(&self, change: FileChange) {
        let mut changes = lock(&self.0);
        changes.push(change);
        let mut bytes: usize = changes.iter().map(FileChange::bytes).sum();
        while changes.len() > MAX_CHANGES || bytes > MAX_BYTES {
            bytes -= changes.remove(0).bytes();
        }
    }

    /// Takes the last change.
    pub fn pop(&self) -> Option<FileChange> {
        lock(&self.0).pop()
    }

    /// Forgets all changes.
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_changes_is_bounded() {
        let changes = TurnChanges::default();
        for number in 0..2_000 {
            let path = PathBuf::from(number.to_string());
            changes.push(FileChange::new(path, Some(vec![0; 1 << 16]), b"after"));
        }
        let last = changes.pop().expect("the last change is kept");
        assert_eq!(last.path, PathBuf::from("1999"));
        assert!(last.is_result(b"after") && !last.is_result(b"before"));
        let kept = std::iter::from_fn(|| changes.pop()).count();
        assert_eq!(kept, MAX_CHANGES - 1);

        changes.push(FileChange::new("a".into(), Some(vec![0; MAX_BYTES]), b""));
        changes.push(FileChange::new("b".into(), Some(vec![0; 1]), b""));
        assert_eq!(changes.pop().expect("it is kept").path, PathBuf::from("b"));
        assert_eq!(changes.pop(), None);
    }
}
