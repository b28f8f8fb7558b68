//! The sandbox of a command. Landlock limits the files that the command can use. Mounts, dropped
//! capabilities and refused system calls close what Landlock leaves open.

#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "x86_64"
    )
))]
mod syscalls;

use std::path::PathBuf;

/// The use of a sandbox for commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Commands run in a sandbox if the kernel supports it. The field `sandboxed` of the result
    /// reports it.
    #[default]
    Auto,
    /// Commands run only in a sandbox.
    Required,
    /// Commands run without a sandbox.
    Off,
}

/// The files and folders that a command can use in a sandbox. Paths that do not exist are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SandboxAccess {
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
}

/// The folders that commands can read and execute: the system without the home folders.
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
/// The devices that commands can write. None of them stores data.
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

impl SandboxAccess {
    /// Adds the paths of the system to `readable` and `writable`.
    pub(super) fn new(mut readable: Vec<PathBuf>, mut writable: Vec<PathBuf>) -> Self {
        readable.extend(READABLE.iter().map(PathBuf::from));
        writable.extend(WRITABLE.iter().map(PathBuf::from));
        Self { readable, writable }
    }

    /// Restricts this thread and its child processes permanently; `false` if the kernel does not
    /// support it.
    ///
    /// A process in the sandbox can neither send signals to outside processes nor read their memory
    /// or environment.
    #[cfg(target_os = "linux")]
    pub(super) fn restrict(&self, sandbox: Sandbox) -> Result<bool, String> {
        if !supports_landlock() {
            return Ok(false);
        }
        // Landlock forbids mounts, so they come first.
        let mounts = mounts::make_read_only(&self.writable);
        capabilities::drop_dangerous()
            .map_err(|error| format!("cannot drop capabilities: {error}"))?;
        let is_restricted = self
            .restrict_files(sandbox)
            .map_err(|error| error.to_string())?;
        refuse_syscalls(mounts.is_ok())?;
        Ok(is_restricted)
    }

    #[cfg(target_os = "linux")]
    fn restrict_files(&self, sandbox: Sandbox) -> Result<bool, landlock::RulesetError> {
        use landlock::{
            ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr,
            RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
        };
        // The first version that restricts truncation.
        let required_abi = ABI::V3;
        let abi = ABI::V6;
        let level = match sandbox {
            Sandbox::Required => CompatLevel::HardRequirement,
            Sandbox::Auto | Sandbox::Off => CompatLevel::BestEffort,
        };
        let rules = Ruleset::default()
            .set_compatibility(level)
            .handle_access(AccessFs::from_all(required_abi))?;
        let rules = rules
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?;
        let rules = rules.scope(Scope::from_all(abi))?.create()?;
        let rules =
            rules.add_rules(path_beneath_rules(&self.readable, AccessFs::from_read(abi)))?;
        let rules = rules.add_rules(path_beneath_rules(&self.writable, AccessFs::from_all(abi)))?;
        let status = rules.restrict_self()?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn restrict(&self, _sandbox: Sandbox) -> Result<bool, String> {
        Ok(false)
    }
}

#[cfg(target_os = "linux")]
fn supports_landlock() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1));
    rules.and_then(Ruleset::create).is_ok()
}

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "x86_64"
    )
))]
fn refuse_syscalls(has_read_only_mounts: bool) -> Result<(), String> {
    use self::syscalls::OwnerProtection;
    let protection = match has_read_only_mounts {
        true => OwnerProtection::ReadOnlyMounts,
        false => OwnerProtection::Syscalls,
    };
    syscalls::refuse_dangerous(protection)
        .map_err(|error| format!("cannot refuse system calls: {error}"))
}

#[cfg(all(
    target_os = "linux",
    not(any(
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "x86_64"
    ))
))]
fn refuse_syscalls(_has_read_only_mounts: bool) -> Result<(), String> {
    Ok(())
}
