//! Keeping a command from files that it has nothing to do with, by Landlock where the kernel has
//! it.

use std::path::PathBuf;

/// Whether commands run in a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// They do where the kernel has one; the result's field `sandboxed` says whether.
    #[default]
    Auto,
    /// They do, and without one nothing runs.
    Required,
    /// They do not.
    Off,
}

/// What a command in a sandbox may do with which files and folders; those that are not there are
/// passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
}

/// What commands read and execute: the system, without the homes of its users.
const READABLE: [&str; 17] = [
    "/bin",
    "/dev",
    "/etc",
    "/gnu",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run/current-system",
    "/run/systemd/resolve",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
];
/// What commands write besides the root and temporary files: devices that keep nothing.
const WRITABLE: [&str; 8] = [
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/shm",
    "/dev/urandom",
    "/dev/zero",
];

impl Reach {
    pub(super) fn new(
        readable: impl IntoIterator<Item = PathBuf>,
        writable: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        Self {
            readable: READABLE.iter().map(PathBuf::from).chain(readable).collect(),
            writable: WRITABLE.iter().map(PathBuf::from).chain(writable).collect(),
        }
    }

    /// Restricts this thread and what it starts, for good; `false` where the kernel cannot.
    ///
    /// What is in the sandbox can neither send signals to what is outside nor read its memory or
    /// environment.
    #[cfg(target_os = "linux")]
    pub(super) fn restrict(&self, sandbox: Sandbox) -> Result<bool, String> {
        use landlock::{
            ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr,
            RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
        };
        // The first that knows of truncating.
        let needed = ABI::V3;
        let abi = ABI::V6;
        let restricted = || {
            let level = match sandbox {
                Sandbox::Required => CompatLevel::HardRequirement,
                Sandbox::Auto | Sandbox::Off => CompatLevel::BestEffort,
            };
            let rules = Ruleset::default()
                .set_compatibility(level)
                .handle_access(AccessFs::from_all(needed))?;
            let rules = rules
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(abi))?;
            let rules = rules.scope(Scope::from_all(abi))?.create()?;
            let rules =
                rules.add_rules(path_beneath_rules(&self.readable, AccessFs::from_read(abi)))?;
            let rules =
                rules.add_rules(path_beneath_rules(&self.writable, AccessFs::from_all(abi)))?;
            rules.restrict_self()
        };
        let status = restricted().map_err(|error: landlock::RulesetError| error.to_string())?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn restrict(&self, _sandbox: Sandbox) -> Result<bool, String> {
        Ok(false)
    }
}
