//! The system calls that a command cannot use in a sandbox.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// The mark of system calls with 32-bit pointers on `x86_64`.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The protection of the owners of files outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerProtection {
    /// Those files are on read-only mounts.
    ReadOnlyMounts,
    /// No owner of a file can be changed.
    Syscalls,
}

/// Refuses UNIX sockets in this thread and its child processes, and `io_uring`, which opens sockets
/// without a system call. Pairs of connected sockets are allowed.
pub(super) fn refuse_dangerous(protection: OwnerProtection) -> io::Result<()> {
    let domain = u64::try_from(libc::AF_UNIX).map_err(io::Error::other)?;
    let is_unix = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, domain);
    let unix_socket = is_unix
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(io::Error::other)?;
    refuse(&[libc::SYS_socket], vec![unix_socket], libc::EACCES)?;
    // Programs that get this error use other system calls.
    refuse(&[libc::SYS_io_uring_setup], Vec::new(), libc::ENOSYS)?;
    if protection == OwnerProtection::Syscalls {
        // With this error, programs that copy files do not insist on their owner.
        refuse(CHOWN, Vec::new(), libc::EPERM)?;
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
const CHOWN: &[libc::c_long] = &[
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const CHOWN: &[libc::c_long] = &[libc::SYS_fchown, libc::SYS_fchownat];

/// Lets system calls that match the rules fail. Without rules, every call matches.
fn refuse(calls: &[libc::c_long], rules: Vec<SeccompRule>, error: i32) -> io::Result<()> {
    let mut rules_by_call = BTreeMap::new();
    for call in calls {
        rules_by_call.insert(*call, rules.clone());
        #[cfg(target_arch = "x86_64")]
        rules_by_call.insert(*call | X32, rules.clone());
    }
    let program = compile(rules_by_call, error).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<BpfProgram, BackendError> {
    let refusal = SeccompAction::Errno(error.unsigned_abs());
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
}
