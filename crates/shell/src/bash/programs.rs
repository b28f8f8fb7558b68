//! The files that the programs of `PATH` need in order to start in a sandbox.
//!
//! An interpreter in a home folder reads its installation, which is beside its folder of programs.
//! Its settings and credentials are there too, so only the known folders of an installation are
//! readable.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folders of an installation, beside `bin` or `shims`.
const INSTALLATION: [&str; 15] = [
    "Cellar", "bin", "include", "installs", "lib", "lib32", "lib64", "libexec", "opt", "plugins",
    "shims", "tools", "version", "versions", "share",
];
/// Files of version managers below the home folder. Virtual environments link to the programs in
/// them.
const VERSION_MANAGERS: [&str; 8] = [
    ".asdf/installs",
    ".local/share/mise/installs",
    ".local/share/uv/python",
    ".nvm/versions",
    ".pyenv/versions",
    ".rustup/settings.toml",
    ".rustup/toolchains",
    ".tool-versions",
];
/// A folder below the home folder whose `share` belongs to all programs, with their secrets.
const SHARED: &str = ".local";

/// Returns the readable paths for the programs in the folders of `PATH`.
///
/// A folder that a command can write opens nothing else, because the command could add links.
pub(super) fn readable_paths(
    path: &OsStr,
    home: Option<&Path>,
    writable: &[PathBuf],
) -> Vec<PathBuf> {
    let mut resolved_writable = Vec::new();
    for folder in writable {
        resolved_writable.extend(folder.canonicalize());
    }
    let home = home.and_then(|home| home.canonicalize().ok());
    let mut paths = ReadablePaths {
        home,
        writable: resolved_writable,
        paths: BTreeSet::new(),
    };
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        paths.add_folder(Path::new(OsStr::from_bytes(folder)));
    }
    let home = paths.home.clone();
    for path in home
        .iter()
        .flat_map(|home| VERSION_MANAGERS.map(|path| home.join(path)))
    {
        paths.paths.insert(path);
    }
    paths.paths.into_iter().collect()
}

struct ReadablePaths {
    home: Option<PathBuf>,
    writable: Vec<PathBuf>,
    paths: BTreeSet<PathBuf>,
}

impl ReadablePaths {
    /// Adds a folder of `PATH`, its installation, and the targets of its links.
    fn add_folder(&mut self, folder: &Path) {
        if folder
            .ancestors()
            .any(|ancestor| self.is_writable(ancestor))
        {
            return;
        }
        let Ok(folder) = folder.canonicalize() else {
            return;
        };
        if self.contains_home(&folder) || !self.paths.insert(folder.clone()) {
            return;
        }
        self.add_installation(&folder);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && let Ok(target) = entry.path().canonicalize() {
                self.add_link_target(&target);
            }
        }
    }

    fn add_link_target(&mut self, target: &Path) {
        let is_readable = target
            .ancestors()
            .any(|ancestor| self.paths.contains(ancestor));
        if is_readable || !target.is_file() || self.is_writable(target) {
            return;
        }
        self.paths.insert(target.to_owned());
        if let Some(folder) = target.parent() {
            self.add_installation(folder);
        }
    }

    fn add_installation(&mut self, programs: &Path) {
        let is_programs = ["bin", "sbin", "shims"]
            .iter()
            .any(|name| programs.file_name() == Some(OsStr::new(name)));
        let Some(prefix) = programs.parent().filter(|_| is_programs) else {
            return;
        };
        if self.contains_home(prefix) || prefix == Path::new("/") {
            return;
        }
        let is_shared = self
            .home
            .as_ref()
            .is_some_and(|home| prefix == home.join(SHARED));
        for name in INSTALLATION {
            if name != "share" || !is_shared {
                self.paths.insert(prefix.join(name));
            }
        }
    }

    /// Returns `true` if a folder is the home folder or contains it. It would open all of the home.
    fn contains_home(&self, folder: &Path) -> bool {
        self.home
            .as_ref()
            .is_some_and(|home| home.starts_with(folder))
    }

    fn is_writable(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else {
            return false;
        };
        self.writable.iter().any(|folder| path.starts_with(folder))
    }
}
