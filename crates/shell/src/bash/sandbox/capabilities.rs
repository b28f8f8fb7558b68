//! The capabilities of a command that runs as root.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The capabilities that only concern files and processes of the sandbox. The others reach beyond
/// it, such as `CAP_SYS_PTRACE` and `CAP_MKNOD`.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Drops the other capabilities of this thread and its child processes. Programs do not get them
/// back, because Landlock forbids new privileges.
pub(super) fn drop_dangerous() -> io::Result<()> {
    let sets = capabilities(None)?;
    let kept = CapabilitySets {
        effective: sets.effective.intersection(KEPT),
        permitted: sets.permitted.intersection(KEPT),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept)?;
    Ok(())
}
