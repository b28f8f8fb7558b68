//! The files of a folder, without those that `.gitignore` excludes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::{DirEntry, WalkBuilder};
use picktools_runtime::{Context, ErrorType};
use serde_json::Value;

use super::ignoring::IgnoreRules;
use crate::root::{FileFailure, Root};

/// The place of a search: a folder or a file in the root.
pub(super) struct SearchPlace {
    pub(super) root: Arc<Root>,
    root_path: PathBuf,
    /// The path relative to the root, without links.
    pub(super) start: PathBuf,
    pub(super) is_file: bool,
}

/// A file of a search.
pub(super) struct FoundFile {
    /// The path relative to the root.
    pub(super) relative_path: PathBuf,
    /// `true` if it is a symbolic link.
    pub(super) is_link: bool,
}

impl SearchPlace {
    /// Opens the place of a call: the argument `path`, or else the working folder.
    pub(super) fn open(arguments: &Value, context: &Context) -> Result<Self, FileFailure> {
        let root = Root::open(arguments, context)?;
        let path = root.relative(arguments["path"].as_str().unwrap_or_default())?;
        let start = root.resolve(&path);
        let start = start.map_err(|error| FileFailure::from_io(&error))?;
        let metadata = root.dir.metadata(existing_path(&start));
        let metadata = metadata.map_err(|error| FileFailure::from_io(&error))?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(FileFailure::new(
                ErrorType::User,
                "it is no folder and no regular file",
                "Give the path of a folder or of a file.",
            ));
        }
        Ok(Self {
            root: Arc::new(root),
            root_path: context.root().to_owned(),
            start,
            is_file: metadata.is_file(),
        })
    }

    /// Returns the files in the order of their paths. Hidden files are left out, and those that
    /// files named `.gitignore` or `.ignore` in the root exclude. Links to folders are not followed.
    ///
    /// The paths are only names: a folder may be replaced by a link at any time. Open each file by
    /// its path relative to the root.
    pub(super) fn files(&self) -> Box<dyn Iterator<Item = FoundFile> + '_> {
        if self.is_file {
            return Box::new(std::iter::once(FoundFile {
                relative_path: self.start.clone(),
                is_link: false,
            }));
        }
        let rules = IgnoreRules::new(Arc::clone(&self.root), self.root_path.clone());
        let mut walk = WalkBuilder::new(self.root_path.join(&self.start));
        walk.standard_filters(false)
            .hidden(true)
            .follow_links(false)
            .sort_by_file_path(Path::cmp)
            .filter_entry(move |entry| {
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                entry.depth() == 0 || !rules.exclude(entry.path(), is_folder)
            });
        let entries = walk.build().filter_map(Result::ok);
        Box::new(entries.filter_map(|entry| self.file(&entry)))
    }

    fn file(&self, entry: &DirEntry) -> Option<FoundFile> {
        let kind = entry.file_type()?;
        if !kind.is_file() && !kind.is_symlink() {
            return None;
        }
        let relative_path = entry.path().strip_prefix(&self.root_path).ok()?;
        Some(FoundFile {
            relative_path: relative_path.to_owned(),
            is_link: kind.is_symlink(),
        })
    }
}

/// Returns a path that can be opened: `.` for the root.
fn existing_path(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}
