//! Reports of changes in files.
//!
//! The system reports changes of folders and of the files in them. A file that is replaced is
//! another file to the system, so the folder of each file is watched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::lock::lock;

/// The interval of checks if the system reports no changes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The interval of checks in addition to the reports. A network file system does not report what
/// other machines change, and a folder may be replaced.
const BACKUP_INTERVAL: Duration = Duration::from_secs(10);

/// Reports of changes in files. Each clone receives all reports.
#[derive(Clone)]
pub struct FileChanges {
    /// `None` if there is nothing to watch.
    watched: Option<FileReports>,
}

#[derive(Clone)]
struct FileReports {
    reports: watch::Receiver<()>,
    folders: Arc<WatchedFolders>,
}

/// The folders that the system watches.
struct WatchedFolders {
    paths: BTreeSet<PathBuf>,
    /// `None` if the system cannot report changes.
    watcher: Mutex<Option<RecommendedWatcher>>,
    /// `true` if the system watches all of them.
    is_complete: AtomicBool,
}

/// The files whose changes are reported.
#[derive(Default)]
struct ReportedFiles {
    files: BTreeSet<PathBuf>,
    /// The folders of which each file counts.
    folders: BTreeSet<PathBuf>,
}

impl FileChanges {
    /// Watches files, which need not exist yet. Of a folder among the paths all files are watched,
    /// but not those of its subfolders.
    pub fn watch(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut reported = ReportedFiles::default();
        let mut watched_folders = BTreeSet::new();
        // The target of a link may change while the link stays.
        let with_targets = paths.into_iter().flat_map(|path| {
            let target = fs::canonicalize(&path).ok();
            [Some(path), target].into_iter().flatten()
        });
        for path in with_targets {
            if path.is_dir() {
                let folder = real_path(&path);
                reported.folders.insert(folder.clone());
                watched_folders.insert(folder);
            } else if let Some(name) = path.file_name() {
                let folder = real_path(path.parent().unwrap_or(Path::new("")));
                reported.files.insert(folder.join(name));
                watched_folders.insert(folder);
            }
        }
        if watched_folders.is_empty() {
            return Self { watched: None };
        }
        let (sender, reports) = watch::channel(());
        let on_event = move |event: notify::Result<Event>| {
            // After an error, such as a full queue of events, anything may have changed.
            if event.map_or(true, |event| reported.may_change_by(&event)) {
                sender.send_replace(());
            }
        };
        let folders = Arc::new(WatchedFolders {
            paths: watched_folders,
            watcher: Mutex::new(notify::recommended_watcher(on_event).ok()),
            is_complete: AtomicBool::new(false),
        });
        folders.watch();
        Self {
            watched: Some(FileReports { reports, folders }),
        }
    }

    /// Waits until a file may have changed since the last call of this method. A caller compares the
    /// files: a report may come without a change.
    pub async fn changed(&mut self) {
        let Some(FileReports { reports, folders }) = &mut self.watched else {
            return std::future::pending().await;
        };
        let interval = match folders.is_complete.load(Ordering::Relaxed) {
            true => BACKUP_INTERVAL,
            false => POLL_INTERVAL,
        };
        // Without a watcher, the channel is closed.
        let report = async {
            if reports.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        if timeout(interval, report).await.is_err() {
            // Before the caller looks, so that no change is missed.
            folders.watch();
        }
    }
}

impl WatchedFolders {
    /// Watches the folders, also those that were replaced or created since the last call.
    fn watch(&self) {
        let mut watcher = lock(&self.watcher);
        let Some(watcher) = &mut *watcher else {
            return;
        };
        let mut is_complete = true;
        for path in &self.paths {
            is_complete &= watcher.watch(path, RecursiveMode::NonRecursive).is_ok();
        }
        self.is_complete.store(is_complete, Ordering::Relaxed);
    }
}

impl ReportedFiles {
    /// Returns `true` if an event may be a change of the files. Reading does not count.
    fn may_change_by(&self, event: &Event) -> bool {
        let is_change = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
            EventKind::Access(_) => false,
            _ => true,
        };
        let is_reported = |path: &PathBuf| {
            let folder = path.parent().unwrap_or(path);
            self.files.contains(path) || self.folders.contains(folder)
        };
        is_change && (event.need_rescan() || event.paths.iter().any(is_reported))
    }
}

/// Returns the path under which the system reports a folder.
fn real_path(folder: &Path) -> PathBuf {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Returns `true` if a change is reported before the next backup check.
    async fn is_reported(changes: &mut FileChanges) -> bool {
        let started = Instant::now();
        changes.changed().await;
        started.elapsed() < BACKUP_INTERVAL / 2
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).expect("a file");
    }

    #[tokio::test]
    async fn written_replaced_and_removed_files_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pins.json");
        let mut changes = FileChanges::watch([path.clone()]);
        let mut clone = changes.clone();
        write(&path, "1");
        assert!(is_reported(&mut changes).await);
        assert!(is_reported(&mut clone).await, "each clone is told");
        let other = folder.path().join("other.json");
        write(&other, "2");
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(timeout(Duration::from_millis(300), changes.changed()).await);
        fs::rename(&other, &path).expect("it is replaced");
        assert!(is_reported(&mut changes).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(timeout(Duration::from_millis(300), changes.changed()).await);
        fs::remove_file(&path).expect("it is removed");
        assert!(is_reported(&mut changes).await);
    }

    #[tokio::test]
    async fn reading_and_other_files_are_not_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("calls.json");
        write(&path, "1");
        let mut changes = FileChanges::watch([path.clone()]);
        fs::read(&path).expect("it is read");
        write(&folder.path().join("calls.lock"), "");
        let reported = timeout(Duration::from_secs(1), changes.changed()).await;
        assert!(reported.is_err(), "nothing has changed");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn change_of_the_target_of_a_link_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, target) = (
            folder.path().join("link"),
            folder.path().join("real/settings.json"),
        );
        fs::create_dir(folder.path().join("real")).expect("a folder");
        write(&target, "1");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let mut changes = FileChanges::watch([link]);
        write(&target, "2");
        assert!(is_reported(&mut changes).await);
    }

    #[tokio::test]
    async fn new_file_of_a_watched_folder_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut changes = FileChanges::watch([folder.path().to_owned()]);
        write(&folder.path().join("tools.json"), "[]");
        assert!(is_reported(&mut changes).await);
    }

    #[tokio::test]
    async fn file_of_a_missing_folder_is_checked_often() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut changes = FileChanges::watch([folder.path().join("later/pins.json")]);
        assert!(
            is_reported(&mut changes).await,
            "the system reports nothing"
        );
    }

    #[tokio::test]
    async fn nothing_to_watch_reports_nothing() {
        let mut changes = FileChanges::watch([]);
        let reported = timeout(Duration::from_millis(50), changes.changed()).await;
        assert!(reported.is_err());
    }
}
