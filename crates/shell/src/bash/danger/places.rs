//! Which files are whose: paths as a command names them, and where they lead.

use std::path::{Component, Path, PathBuf};

use super::words::{has_pattern, is_known};
use super::{Shell, Surroundings, Verdict, danger, shown, unclear};

/// Folders of the system, by the first part of their path.
const SYSTEM: [&str; 18] = [
    "Applications",
    "Library",
    "System",
    "bin",
    "boot",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "private",
    "proc",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
];
/// Devices that may be written, and folders of such.
const DEVICES: [&str; 9] = [
    "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr",
];
const DEVICE_FOLDERS: [&str; 3] = ["fd", "pts", "shm"];
/// This machine, on which programs wait for a port.
const OWN_HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
/// What is run or trusted at the next login, below the home.
const OF_LOGIN: [&str; 12] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".config/autostart",
    ".config/systemd",
    ".gnupg",
    ".profile",
    ".ssh",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

pub(super) struct Places {
    root: PathBuf,
    home: PathBuf,
    temporary: Vec<PathBuf>,
}

impl Places {
    pub(super) fn new(surroundings: &Surroundings) -> Self {
        let given = surroundings
            .temporary
            .iter()
            .filter(|folder| folder.is_absolute() && folder.parent().is_some());
        let resolved = given
            .clone()
            .filter_map(|folder| folder.canonicalize().ok());
        Self {
            root: surroundings.root.clone(),
            home: surroundings.home.clone(),
            temporary: resolved.chain(given.cloned()).collect(),
        }
    }

    /// Refuses to change all that stands below a path unless it lies inside the root or among
    /// temporary files. The root itself is inside where `itself` says so.
    pub(super) fn tree(&self, path: &str, shell: &Shell, does: &str, itself: bool) -> Verdict {
        if path.is_empty() {
            return Ok(());
        }
        if !is_known(path) {
            return unclear(format!(
                "what it {does} cannot be known before it runs; write the path out"
            ));
        }
        let Some(paths) = self.meant(path, shell) else {
            return unclear(format!(
                "the folder in which it {does} {:?} cannot be known",
                shown(path)
            ));
        };
        let through_link = |link: &String| {
            let mut parts = path.trim_end_matches("/.").rsplit('/');
            let last = parts.next();
            parts.any(|part| part == link) || (path.ends_with('/') && last == Some(link.as_str()))
        };
        if let Some(link) = shell.links.iter().find(|link| through_link(link)) {
            return danger(format!(
                "it {does} {:?} through the link {:?}, which it made",
                shown(path),
                shown(link)
            ));
        }
        match paths.iter().all(|path| self.is_inside(path, itself)) {
            true => Ok(()),
            false => danger(format!(
                "it {does} {:?}, which is not inside the working folder, with all in it",
                shown(path)
            )),
        }
    }

    /// Refuses to write devices, files of the system, and what is run at login.
    pub(super) fn write(&self, path: &str, shell: &Shell) -> Verdict {
        // What is in an unknown folder is judged by its name alone.
        for meant in self.meant(path, shell).unwrap_or_default() {
            self.write_one(path, &meant)?;
        }
        Ok(())
    }

    fn write_one(&self, path: &str, meant: &Path) -> Verdict {
        let parts: Vec<String> = parts(meant);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let is_ours = meant.starts_with(&self.root)
            || self
                .temporary
                .iter()
                .any(|folder| meant.starts_with(folder));
        match parts.as_slice() {
            ["dev", "tcp" | "udp", host, ..] if !OWN_HOSTS.contains(host) => {
                danger(format!("it connects the shell to {:?}", shown(path)))
            }
            ["dev", "tcp" | "udp", ..] => Ok(()),
            ["dev", device] if DEVICES.contains(device) || *device == "ptmx" => Ok(()),
            ["dev", folder, _, ..] if DEVICE_FOLDERS.contains(folder) => Ok(()),
            ["dev", ..] => danger(format!("it writes the device {:?}", shown(path))),
            ["proc", "self", "fd", ..] => Ok(()),
            _ if is_ours => Ok(()),
            [] | [_] => danger(format!(
                "it changes {:?}, which belongs to the system",
                shown(path)
            )),
            [first, ..] if SYSTEM.contains(first) || has_pattern(first) => danger(format!(
                "it changes {:?}, which belongs to the system",
                shown(path)
            )),
            ["var", second, ..] if *second != "www" => danger(format!(
                "it changes {:?}, which belongs to the system",
                shown(path)
            )),
            _ if OF_LOGIN
                .iter()
                .any(|file| meant.starts_with(self.home.join(file))) =>
            {
                danger(format!(
                    "it changes {:?}, which is trusted at login",
                    shown(path)
                ))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to move away what holds the working folder or the home.
    pub(super) fn take(&self, path: &str, shell: &Shell) -> Verdict {
        self.write(path, shell)?;
        let holds = |path: &PathBuf| {
            self.root.starts_with(path) || self.home.starts_with(path) || is_all(path)
        };
        match self
            .meant(path, shell)
            .unwrap_or_default()
            .iter()
            .any(holds)
        {
            true => danger(format!(
                "it moves {:?} away, which holds the working folder or the home",
                shown(path)
            )),
            false => Ok(()),
        }
    }

    /// Refuses to read from the network as if it were a file, and the environment of other
    /// processes.
    pub(super) fn read(&self, path: &str, shell: &Shell) -> Verdict {
        // As text: `/proc/self` leads elsewhere for the command than here.
        for meant in self
            .meant(path, shell)
            .unwrap_or_default()
            .iter()
            .step_by(2)
        {
            let parts: Vec<String> = parts(meant);
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            match parts.as_slice() {
                ["dev", "tcp" | "udp", host, ..] if !OWN_HOSTS.contains(host) => {
                    return danger(format!("it connects the shell to {:?}", shown(path)));
                }
                ["proc", process, .., "environ" | "mem" | "maps"]
                    if !["self", "thread-self", OWN].contains(process) =>
                {
                    return danger(format!(
                        "it reads {:?}, which is of another process",
                        shown(path)
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns `true` if a path leads out of the root.
    pub(super) fn is_outside(&self, path: &str, shell: &Shell) -> bool {
        !self
            .meant(path, shell)
            .is_some_and(|paths| paths.iter().all(|path| self.is_inside(path, true)))
    }

    fn is_inside(&self, path: &Path, itself: bool) -> bool {
        if path == self.root {
            return itself;
        }
        // What holds the root is not inside, though it may lie among temporary files.
        if self.root.starts_with(path) {
            return false;
        }
        let of_temporary = |folder: &PathBuf| {
            let mut rest = path.strip_prefix(folder).ok()?.components();
            let first = rest.next()?.as_os_str().to_str()?;
            Some(first.chars().any(|letter| !"*?".contains(letter)))
        };
        path.starts_with(&self.root)
            || self
                .temporary
                .iter()
                .any(|folder| of_temporary(folder) == Some(true))
    }

    /// Returns what a path may mean: as text and through the links that are there, from each folder
    /// that the shell may be in; `None` where the folder is not known.
    fn meant(&self, path: &str, shell: &Shell) -> Option<Vec<PathBuf>> {
        if path.starts_with('/') {
            return Some(both(Path::new("/"), path));
        }
        let folder = shell.folder.as_ref()?;
        Some(
            [folder]
                .into_iter()
                .chain(&shell.other_folders)
                .flat_map(|folder| both(folder, path))
                .collect(),
        )
    }
}

/// The number that `$$` has here.
pub(super) const OWN: &str = "4242";

fn is_all(path: &Path) -> bool {
    path.parent() == Some(Path::new("/"))
        && path
            .file_name()
            .is_some_and(|name| has_pattern(&name.to_string_lossy()))
}

fn parts(path: &Path) -> Vec<String> {
    let parts = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    parts
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect()
}

fn both(folder: &Path, path: &str) -> Vec<PathBuf> {
    let mut plain = folder.to_owned();
    let mut followed = folder.to_owned();
    let names: Vec<&str> = path
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .collect();
    let is_folder = path.ends_with('/') || path.ends_with("/.");
    for (at, name) in names.iter().enumerate() {
        // `.*` and the like could match the folder above.
        if *name == ".." || (name.starts_with('.') && has_pattern(name)) {
            plain.pop();
            followed.pop();
            continue;
        }
        plain.push(name);
        followed.push(name);
        if (at + 1 < names.len() || is_folder) && followed.is_symlink() {
            followed = followed.canonicalize().unwrap_or(followed);
        }
    }
    vec![plain, followed]
}
