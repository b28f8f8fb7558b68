//! The rules for files and folders, and the resolution of paths in commands.

use std::path::{Component, Path, PathBuf};

use super::words::{has_pattern, is_known};
use super::{CommandContext, ShellState, Verdict, danger, excerpt, unclear};

/// The folders of the system, by the first part of their path.
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
/// The devices that may be written.
const DEVICES: [&str; 9] = [
    "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr",
];
/// The folders of devices that may be written.
const DEVICE_FOLDERS: [&str; 3] = ["fd", "pts", "shm"];
/// The names of this machine. Scripts connect to them to wait for a server.
const LOCAL_HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
/// The files and folders below the home that run or are trusted at the next login.
const LOGIN_FILES: [&str; 12] = [
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

/// The folders that decide which paths a command may change.
pub(super) struct PathRules {
    root: PathBuf,
    home: PathBuf,
    temporary: Vec<PathBuf>,
}

/// The treatment of the root itself by [`PathRules::check_tree`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RootRule {
    /// The root counts as inside.
    Allow,
    /// The root counts as outside.
    Refuse,
}

impl PathRules {
    pub(super) fn new(context: &CommandContext) -> Self {
        let mut temporary = Vec::new();
        for folder in &context.temporary {
            if folder.is_absolute() && folder.parent().is_some() {
                temporary.extend(folder.canonicalize().ok());
                temporary.push(folder.clone());
            }
        }
        Self {
            root: context.root.clone(),
            home: context.home.clone(),
            temporary,
        }
    }

    /// Refuses a recursive change of a path that is neither inside the root nor a temporary file.
    /// `action` is the verb for the message.
    pub(super) fn check_tree(
        &self,
        path: &str,
        shell: &ShellState,
        action: &str,
        root_rule: RootRule,
    ) -> Verdict {
        if path.is_empty() {
            return Ok(());
        }
        if !is_known(path) {
            return unclear(format!(
                "the path that it {action} is unknown before it runs; write the path out"
            ));
        }
        let Some(resolved_paths) = self.resolve(path, shell) else {
            return unclear(format!(
                "the folder in which it {action} {:?} is unknown",
                excerpt(path)
            ));
        };
        let is_through_link = |link: &String| {
            let mut parts = path.trim_end_matches("/.").rsplit('/');
            let last = parts.next();
            parts.any(|part| part == link) || (path.ends_with('/') && last == Some(link.as_str()))
        };
        if let Some(link) = shell.links.iter().find(|link| is_through_link(link)) {
            return danger(format!(
                "it {action} {:?} through the link {:?}, which it made",
                excerpt(path),
                excerpt(link)
            ));
        }
        match resolved_paths
            .iter()
            .all(|resolved| self.is_inside(resolved, root_rule))
        {
            true => Ok(()),
            false => danger(format!(
                "it {action} {:?} with everything in it, which is not inside the working folder",
                excerpt(path)
            )),
        }
    }

    /// Refuses to write devices, files of the system, and files that run at login.
    pub(super) fn check_write(&self, path: &str, shell: &ShellState) -> Verdict {
        // A relative path in an unknown folder is accepted.
        for resolved in self.resolve(path, shell).unwrap_or_default() {
            self.check_resolved_write(path, &resolved)?;
        }
        Ok(())
    }

    fn check_resolved_write(&self, path: &str, resolved: &Path) -> Verdict {
        let names = component_names(resolved);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_allowed = resolved.starts_with(&self.root)
            || self
                .temporary
                .iter()
                .any(|folder| resolved.starts_with(folder));
        match names.as_slice() {
            ["dev", "tcp" | "udp", host, ..] if !LOCAL_HOSTS.contains(host) => {
                danger(format!("it connects the shell to {:?}", excerpt(path)))
            }
            ["dev", "tcp" | "udp", ..] => Ok(()),
            ["dev", device] if DEVICES.contains(device) || *device == "ptmx" => Ok(()),
            ["dev", folder, _, ..] if DEVICE_FOLDERS.contains(folder) => Ok(()),
            ["dev", ..] => danger(format!("it writes the device {:?}", excerpt(path))),
            ["proc", "self", "fd", ..] => Ok(()),
            _ if is_allowed => Ok(()),
            [] | [_] => danger(format!(
                "it changes {:?}, which belongs to the system",
                excerpt(path)
            )),
            [first, ..] if SYSTEM.contains(first) || has_pattern(first) => danger(format!(
                "it changes {:?}, which belongs to the system",
                excerpt(path)
            )),
            ["var", second, ..] if *second != "www" => danger(format!(
                "it changes {:?}, which belongs to the system",
                excerpt(path)
            )),
            _ if LOGIN_FILES
                .iter()
                .any(|file| resolved.starts_with(self.home.join(file))) =>
            {
                danger(format!(
                    "it changes {:?}, which is trusted at login",
                    excerpt(path)
                ))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to move a folder that contains the working folder or the home.
    pub(super) fn check_move(&self, path: &str, shell: &ShellState) -> Verdict {
        self.check_write(path, shell)?;
        let contains_folder = |resolved: &PathBuf| {
            self.root.starts_with(resolved)
                || self.home.starts_with(resolved)
                || is_top_level_pattern(resolved)
        };
        let resolved_paths = self.resolve(path, shell).unwrap_or_default();
        match resolved_paths.iter().any(contains_folder) {
            true => danger(format!(
                "it moves {:?} away, which contains the working folder or the home",
                excerpt(path)
            )),
            false => Ok(()),
        }
    }

    /// Refuses to read network connections as files, and the environment of other processes.
    pub(super) fn check_read(&self, path: &str, shell: &ShellState) -> Verdict {
        // Only the textual paths count: the link `/proc/self` has another target for the command.
        let resolved_paths = self.resolve(path, shell).unwrap_or_default();
        for resolved in resolved_paths.iter().step_by(2) {
            let names = component_names(resolved);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match names.as_slice() {
                ["dev", "tcp" | "udp", host, ..] if !LOCAL_HOSTS.contains(host) => {
                    return danger(format!("it connects the shell to {:?}", excerpt(path)));
                }
                ["proc", process, .., "environ" | "mem" | "maps"]
                    if !["self", "thread-self", PROCESS_ID].contains(process) =>
                {
                    return danger(format!(
                        "it reads {:?}, which belongs to another process",
                        excerpt(path)
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns `true` if a path leads out of the root.
    pub(super) fn is_outside(&self, path: &str, shell: &ShellState) -> bool {
        match self.resolve(path, shell) {
            Some(resolved_paths) => !resolved_paths
                .iter()
                .all(|resolved| self.is_inside(resolved, RootRule::Allow)),
            None => true,
        }
    }

    fn is_inside(&self, path: &Path, root_rule: RootRule) -> bool {
        if path == self.root {
            return root_rule == RootRule::Allow;
        }
        // A folder that contains the root is not inside, even among temporary files.
        if self.root.starts_with(path) {
            return false;
        }
        let is_temporary = |folder: &PathBuf| {
            let Ok(rest) = path.strip_prefix(folder) else {
                return false;
            };
            let first = rest.components().next();
            let name = first.and_then(|component| component.as_os_str().to_str());
            // A pattern for all files of the folder is not a temporary file.
            name.is_some_and(|name| name.chars().any(|letter| !"*?".contains(letter)))
        };
        path.starts_with(&self.root) || self.temporary.iter().any(is_temporary)
    }

    /// Resolves a path from each folder in which the shell may be; `None` if the folder is unknown.
    /// Each folder gives two paths: one resolved as text, one through existing links.
    fn resolve(&self, path: &str, shell: &ShellState) -> Option<Vec<PathBuf>> {
        if path.starts_with('/') {
            return Some(resolve_from(Path::new("/"), path).into());
        }
        let mut resolved_paths = Vec::new();
        resolved_paths.extend(resolve_from(shell.folder.as_ref()?, path));
        for folder in &shell.other_folders {
            resolved_paths.extend(resolve_from(folder, path));
        }
        Some(resolved_paths)
    }
}

/// The value that is used for `$$`.
pub(super) const PROCESS_ID: &str = "4242";

/// Returns `true` for a pattern in the root folder of the system, such as `/*`.
fn is_top_level_pattern(path: &Path) -> bool {
    path.parent() == Some(Path::new("/"))
        && path
            .file_name()
            .is_some_and(|name| has_pattern(&name.to_string_lossy()))
}

fn component_names(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for component in path.components() {
        if let Component::Normal(name) = component {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names
}

/// Resolves a path as text, and through existing links.
fn resolve_from(folder: &Path, path: &str) -> [PathBuf; 2] {
    let mut plain = folder.to_owned();
    let mut followed = folder.to_owned();
    let mut names: Vec<&str> = path.split('/').collect();
    names.retain(|name| !name.is_empty() && *name != ".");
    let is_folder = path.ends_with('/') || path.ends_with("/.");
    for (at, name) in names.iter().enumerate() {
        // A pattern such as `.*` could match the parent folder.
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
    [plain, followed]
}
