//! The files that `.gitignore` and `.ignore` exclude.
//!
//! The rules are read through the root and with a limit, because the crate `ignore` would follow
//! a `.gitignore` that is a link to an endless or a foreign file.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::root::Root;

/// The files with rules; later ones take precedence.
const NAMES: [&str; 2] = [".gitignore", ".ignore"];
/// The most bytes of a file with rules. The rest has no effect.
const MAX_BYTES: u64 = 1 << 20;

/// The rules of the folders below the root, read on first use.
pub(super) struct IgnoreRules {
    root: Arc<Root>,
    root_path: PathBuf,
    folders: Mutex<HashMap<PathBuf, Arc<Gitignore>>>,
}

impl IgnoreRules {
    pub(super) fn new(root: Arc<Root>, root_path: PathBuf) -> Self {
        Self {
            root,
            root_path,
            folders: Mutex::default(),
        }
    }

    /// Returns `true` if the rules exclude a path. Its folder is not excluded. The rules of the
    /// nearest folder decide.
    pub(super) fn exclude(&self, path: &Path, is_folder: bool) -> bool {
        for folder in path.ancestors().skip(1) {
            let Ok(relative_folder) = folder.strip_prefix(&self.root_path) else {
                break;
            };
            match self.rules(relative_folder).matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    fn rules(&self, folder: &Path) -> Arc<Gitignore> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = folders.get(folder) {
            return Arc::clone(rules);
        }
        let rules = Arc::new(self.read_rules(folder));
        folders.insert(folder.to_owned(), Arc::clone(&rules));
        rules
    }

    fn read_rules(&self, folder: &Path) -> Gitignore {
        let mut builder = GitignoreBuilder::new(self.root_path.join(folder));
        for name in NAMES {
            for line in self.read_lines(&folder.join(name)).lines() {
                // A rule that is invalid excludes nothing.
                let _ignored = builder.add_line(None, line);
            }
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }

    /// Returns the text of a file with rules; an empty text if it is no regular file.
    fn read_lines(&self, file: &Path) -> String {
        let metadata = self.root.dir.symlink_metadata(file);
        if !metadata.is_ok_and(|metadata| metadata.is_file()) {
            return String::new();
        }
        let mut bytes = Vec::new();
        if let Ok(opened) = self.root.open_relative(file) {
            // The rules that can be read count.
            let _ignored = opened.file.take(MAX_BYTES).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
