//! The working folders of calls and of terminal sessions.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::lock;
use super::manager::ManagerError;

/// The most sessions with a folder of their own.
const MAX_SESSIONS: usize = 1_000;

/// The working folders of terminal sessions, relative to the root. Clones share them.
///
/// The session of calls that name no session is `""`.
#[derive(Debug, Clone, Default)]
pub struct SessionFolders(Arc<Mutex<BTreeMap<String, PathBuf>>>);

impl SessionFolders {
    /// Returns the folder of a session, relative to the root; an empty path for the root.
    pub fn get(&self, session: &str) -> PathBuf {
        lock(&self.0).get(session).cloned().unwrap_or_default()
    }

    /// Sets the folder of a session. Returns `false` if there are too many sessions.
    pub fn set(&self, session: &str, folder: PathBuf) -> bool {
        let mut folders = lock(&self.0);
        if folders.len() >= MAX_SESSIONS && !folders.contains_key(session) {
            return false;
        }
        folders.insert(session.to_owned(), folder);
        true
    }

    /// Returns all sessions to the root.
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Returns the absolute path of a working folder.
pub(super) fn open_root(folder: &Path) -> Result<Arc<Path>, ManagerError> {
    let root_error = |source: io::Error| ManagerError::Root {
        root: folder.display().to_string(),
        source,
    };
    let root = folder.canonicalize().map_err(root_error)?;
    if !root.is_dir() {
        return Err(root_error(io::ErrorKind::NotADirectory.into()));
    }
    Ok(root.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_separate_and_bounded() {
        let folders = SessionFolders::default();
        assert!(folders.set("a", "src".into()));
        assert_eq!(folders.get("a"), PathBuf::from("src"));
        assert_eq!(folders.get("b"), PathBuf::new());
        for number in 1..MAX_SESSIONS {
            assert!(folders.set(&number.to_string(), PathBuf::new()));
        }
        assert!(!folders.set("one more", "src".into()));
        assert!(folders.set("a", "docs".into()));
        folders.clear();
        assert_eq!(folders.get("a"), PathBuf::new());
    }
}
