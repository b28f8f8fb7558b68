//! A shell process with all processes that it starts. It runs in its own session, and all processes
//! are killed together.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use process_wrap::std::{CommandWrap, ProcessSession};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use super::sandbox::{Sandbox, SandboxAccess};

/// The interval of checks on a silent shell.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The time for output of background processes after the shell has ended.
const LINGER: Duration = Duration::from_millis(100);
/// The time to wait for a killed shell. A process that takes longer is blocked in the kernel.
const REAP_TIMEOUT: Duration = Duration::from_millis(200);
/// The most bytes that are read after the kill. It is more than the capacity of a pipe.
const MAX_REST_BYTES: usize = 2 << 20;

/// A running shell. Dropping it kills all its processes.
pub(super) struct Shell {
    pid: Pid,
    output: PipeReader,
    /// The environment variable that marks all its processes, as `NAME=value`.
    mark: String,
    reaped: bool,
    pub(super) sandboxed: bool,
}

/// The way in which a shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellEnd {
    /// The shell exited with this code. The code is 128 plus the signal number if a signal ended
    /// it.
    Exited(i32),
    /// The shell was killed at its deadline.
    TimedOut,
    /// The shell was killed because the call was cancelled.
    Cancelled,
}

/// An error from starting a shell.
#[derive(Debug)]
pub(super) enum StartError {
    Sandbox(String),
    Io(io::Error),
}

impl Shell {
    /// Starts a program with one pipe for standard output and standard error.
    pub(super) fn start(
        mut command: Command,
        sandbox: Sandbox,
        access: SandboxAccess,
    ) -> Result<Self, StartError> {
        let mark = new_mark();
        let (name, value) = mark.split_once('=').unwrap_or((&mark, ""));
        let (output, stdout) = io::pipe().map_err(StartError::Io)?;
        let stderr = stdout.try_clone().map_err(StartError::Io)?;
        ioctl_fionbio(&output, true).map_err(|error| StartError::Io(error.into()))?;
        command
            .env(name, value)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        let start = move || {
            let sandboxed = match sandbox {
                Sandbox::Off => false,
                Sandbox::Auto | Sandbox::Required => {
                    access.restrict(sandbox).map_err(StartError::Sandbox)?
                }
            };
            if sandbox == Sandbox::Required && !sandboxed {
                return Err(StartError::Sandbox(
                    "this system does not support one".to_owned(),
                ));
            }
            let mut command = CommandWrap::from(command);
            command.wrap(ProcessSession);
            let child = command.spawn().map_err(StartError::Io)?;
            Ok((child.id(), sandboxed))
        };
        // The restriction is permanent and applies to the thread that starts the program, so that
        // thread is a new one.
        let thread = thread::Builder::new()
            .name("picktools-sandbox".to_owned())
            .spawn(start);
        let joined = thread.map_err(StartError::Io)?.join();
        let (id, sandboxed) =
            joined.map_err(|_| StartError::Io(io::Error::other("the thread panicked")))??;
        let invalid_pid = || StartError::Io(io::Error::other("invalid process id"));
        let raw_pid = i32::try_from(id).map_err(|_| invalid_pid())?;
        let pid = Pid::from_raw(raw_pid).ok_or_else(invalid_pid)?;
        Ok(Self {
            pid,
            output,
            mark,
            reaped: false,
            sandboxed,
        })
    }

    /// Passes the output to `on_output` until the shell ends, reaches the deadline or is cancelled.
    /// Then kills the remaining processes.
    pub(super) fn listen(
        &mut self,
        deadline: Instant,
        is_cancelled: &dyn Fn() -> bool,
        on_output: &mut dyn FnMut(&[u8]),
    ) -> ShellEnd {
        let mut buffer = vec![0; 64 << 10];
        let mut is_open = true;
        let mut exit: Option<(i32, Instant)> = None;
        let end = loop {
            let now = Instant::now();
            if exit.is_none()
                && let Some(code) = self.exit_code()
            {
                exit = Some((code, now));
            }
            match exit {
                Some((code, exited_at))
                    if !is_open
                        || now >= exited_at + LINGER
                        || now >= deadline
                        || is_cancelled() =>
                {
                    break ShellEnd::Exited(code);
                }
                None if is_cancelled() => break ShellEnd::Cancelled,
                None if now >= deadline => break ShellEnd::TimedOut,
                _ => {}
            }
            let pause = POLL_INTERVAL.min(deadline.saturating_duration_since(now));
            if !is_open {
                thread::sleep(pause);
            } else if self.is_readable(pause) {
                is_open = self.read_output(&mut buffer, on_output) != Some(0);
            }
        };
        self.kill(is_open);
        let mut rest_bytes = 0;
        while is_open && rest_bytes < MAX_REST_BYTES {
            match self.read_output(&mut buffer, on_output) {
                Some(bytes) if bytes > 0 => rest_bytes += bytes,
                _ => break,
            }
        }
        end
    }

    /// Reads available output. Returns `None` before more output arrives, and 0 at the end.
    fn read_output(
        &mut self,
        buffer: &mut [u8],
        on_output: &mut dyn FnMut(&[u8]),
    ) -> Option<usize> {
        match self.output.read(buffer) {
            Ok(bytes) => {
                on_output(&buffer[..bytes]);
                Some(bytes)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                None
            }
            Err(_) => Some(0),
        }
    }

    fn is_readable(&self, pause: Duration) -> bool {
        let mut polled = [PollFd::new(&self.output, PollFlags::IN)];
        let pause = Timespec::try_from(pause).ok();
        matches!(poll(&mut polled, pause.as_ref()), Ok(ready) if ready > 0)
    }

    /// Returns the exit code of the shell once it has ended. The shell is not reaped, so its
    /// process id is not reused.
    fn exit_code(&self) -> Option<i32> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(status) => Some(exit_code_from_status(&status?)),
            Err(Errno::INTR) => None,
            // Other code of this process has reaped the shell, so the exit code is lost.
            Err(_) => Some(-1),
        }
    }

    /// Kills the shell with all its processes, and reaps the shell. If the output `is_open`, also
    /// kills the processes that can write to it.
    fn kill(&mut self, is_open: bool) {
        if self.reaped {
            return;
        }
        self.reaped = true;
        // It fails if the group has no process any more.
        let _none_left = kill_process_group(self.pid, Signal::KILL);
        #[cfg(target_os = "linux")]
        strays::kill(&self.mark, is_open.then_some(&self.output));
        #[cfg(not(target_os = "linux"))]
        let _ = (is_open, &self.mark);
        let pid = self.pid;
        let reap_deadline = Instant::now() + REAP_TIMEOUT;
        while matches!(
            waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG
            ),
            Ok(None)
        ) {
            if Instant::now() >= reap_deadline {
                // A thread reaps the shell later. If no thread can be started, the shell stays a
                // zombie.
                let _reaper = thread::Builder::new()
                    .spawn(move || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED));
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.kill(true);
    }
}

fn exit_code_from_status(status: &WaitIdStatus) -> i32 {
    status
        .exit_status()
        .or_else(|| Some(128 + status.terminating_signal()?))
        .unwrap_or(-1)
}

/// Makes a variable that no other process has.
fn new_mark() -> String {
    use std::hash::{BuildHasher, RandomState};
    let [first, second] =
        [RandomState::new(), RandomState::new()].map(|state| state.hash_one(Instant::now()));
    format!("PICKTOOLS_CALL={first:016x}{second:016x}")
}

/// Finds bash in the folders of `PATH`, or in `/bin`.
pub(super) fn find_bash(path: &OsStr) -> Option<PathBuf> {
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        let bash = Path::new(OsStr::from_bytes(folder)).join("bash");
        if bash.is_file() {
            return Some(bash);
        }
    }
    let bash = PathBuf::from("/bin/bash");
    bash.is_file().then_some(bash)
}

/// Processes that have left the session of the shell.
#[cfg(target_os = "linux")]
mod strays {
    use std::ffi::OsStr;
    use std::fs;
    use std::io::{PipeReader, Read};
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// The time for repeated searches. New processes may start faster than old ones are killed.
    const SEARCH_TIME: Duration = Duration::from_millis(200);
    /// The flags of a file descriptor, as Linux shows them.
    const ACCESS_MODE: u32 = 0o3;
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    /// The most bytes of an environment that are read, which is the limit of Linux.
    const MAX_ENVIRONMENT_BYTES: u64 = 6 << 20;

    /// Kills every process that has the mark in its environment, and the processes that can still
    /// write to the pipe.
    pub(super) fn kill(mark: &str, output: Option<&PipeReader>) {
        let search_end = Instant::now() + SEARCH_TIME;
        while kill_matching(&|process| has_mark(process, mark)) && Instant::now() < search_end {}
        if let Some(output) = output
            && let Ok(pipe) = fs::read_link(format!("/proc/self/fd/{}", output.as_raw_fd()))
            && !is_at_end(output)
        {
            while kill_matching(&|process| can_write_to(process, &pipe))
                && Instant::now() < search_end
            {}
        }
    }

    /// Kills the processes that match; `false` if no process was killed.
    fn kill_matching(matches: &dyn Fn(&Path) -> bool) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        let mut has_killed = false;
        let own_pid = std::process::id().to_string();
        for process in processes.flatten() {
            let Some(pid) = pid_from_name(&process.file_name(), &own_pid) else {
                continue;
            };
            if !matches(&process.path()) {
                continue;
            }
            // Checked again with the descriptor open: the process id could have been reused.
            if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty())
                && matches(&process.path())
            {
                has_killed |= pidfd_send_signal(&descriptor, Signal::KILL).is_ok();
            }
        }
        has_killed
    }

    /// Returns the process id in the name of a folder in `/proc`; `None` for this process.
    fn pid_from_name(name: &OsStr, own_pid: &str) -> Option<Pid> {
        let name = name.to_str()?;
        if name == own_pid {
            return None;
        }
        Pid::from_raw(name.parse().ok()?)
    }

    fn has_mark(process: &Path, mark: &str) -> bool {
        let Ok(file) = fs::File::open(process.join("environ")) else {
            return false;
        };
        let mut environment = Vec::new();
        // Reading fails if the process ends meanwhile.
        let outcome = file
            .take(MAX_ENVIRONMENT_BYTES)
            .read_to_end(&mut environment);
        outcome.is_ok()
            && environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes())
    }

    /// Returns `true` if a process can write to a pipe. A process that can only read it, or that
    /// closes it when it runs its program, has just been forked from this one.
    fn can_write_to(process: &Path, pipe: &Path) -> bool {
        let Ok(files) = fs::read_dir(process.join("fd")) else {
            return false;
        };
        for file in files.flatten() {
            if !fs::read_link(file.path()).is_ok_and(|target| target == pipe) {
                continue;
            }
            let info = fs::read_to_string(process.join("fdinfo").join(file.file_name()))
                .unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            if flags.is_some_and(|flags| flags & ACCESS_MODE != 0 && flags & CLOSE_ON_EXEC == 0) {
                return true;
            }
        }
        false
    }

    /// Returns `true` if no process can write to a pipe any more.
    fn is_at_end(pipe: &PipeReader) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(pipe, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }
}
