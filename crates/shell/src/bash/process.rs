//! A shell and all that it starts: started in a session of its own, listened to, and killed as a
//! whole.

use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use process_wrap::std::{CommandWrap, ProcessSession};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use super::sandbox::{Reach, Sandbox};

/// How often a shell that says nothing is looked after.
const TICK: Duration = Duration::from_millis(10);
/// How long what the shell left running may still write once the shell has ended.
const LINGER: Duration = Duration::from_millis(100);
/// How long what was killed is waited for; what takes longer sits in the kernel.
const REAP: Duration = Duration::from_millis(200);
/// The most that is read after everything was killed: more than a pipe holds.
const MAX_REST: usize = 2 << 20;

/// A shell that runs. Dropped, it is killed with all that it started.
pub(super) struct Shell {
    pid: Pid,
    output: PipeReader,
    /// The variable that all it starts has in its environment, as `NAME=value`.
    mark: String,
    reaped: bool,
    pub(super) sandboxed: bool,
}

/// How a shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with this code; 128 and the number of the signal where a signal ended it.
    Exited(i32),
    /// It was killed because its time was over.
    TimedOut,
    /// It was killed because nobody waits for it any longer.
    Cancelled,
}

/// Why a shell was not started.
#[derive(Debug)]
pub(super) enum NotStarted {
    Sandbox(String),
    Failed(io::Error),
}

impl Shell {
    /// Starts a program, what it writes to either output going into one pipe.
    pub(super) fn start(
        mut command: Command,
        sandbox: Sandbox,
        reach: Reach,
    ) -> Result<Self, NotStarted> {
        let mark = mark();
        let (name, value) = mark.split_once('=').unwrap_or((&mark, ""));
        let (output, input) = io::pipe().map_err(NotStarted::Failed)?;
        let second = input.try_clone().map_err(NotStarted::Failed)?;
        ioctl_fionbio(&output, true).map_err(|error| NotStarted::Failed(error.into()))?;
        command
            .env(name, value)
            .stdin(Stdio::null())
            .stdout(input)
            .stderr(second);
        let start = move || {
            let sandboxed = match sandbox {
                Sandbox::Off => false,
                Sandbox::Auto | Sandbox::Required => {
                    reach.restrict(sandbox).map_err(NotStarted::Sandbox)?
                }
            };
            if sandbox == Sandbox::Required && !sandboxed {
                return Err(NotStarted::Sandbox("this system has none".to_owned()));
            }
            let mut command = CommandWrap::from(command);
            command.wrap(ProcessSession);
            let child = command.spawn().map_err(NotStarted::Failed)?;
            Ok((child.id(), sandboxed))
        };
        // What is restricted is the thread that starts the program, for good.
        let thread = thread::Builder::new()
            .name("picktools-sandbox".to_owned())
            .spawn(start);
        let started = thread.map_err(NotStarted::Failed)?.join();
        let (id, sandboxed) =
            started.map_err(|_| NotStarted::Failed(io::Error::other("starting it panicked")))??;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| NotStarted::Failed(io::Error::other("it has no number")))?;
        Ok(Self {
            pid,
            output,
            mark,
            reaped: false,
            sandboxed,
        })
    }

    /// Hands on what the shell writes until it has ended, its time is over or nobody waits for it;
    /// then kills what it left.
    pub(super) fn listen(
        &mut self,
        deadline: Instant,
        cancelled: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]),
    ) -> End {
        let mut buffer = vec![0; 64 << 10];
        let mut open = true;
        let mut ended: Option<(i32, Instant)> = None;
        let end = loop {
            let now = Instant::now();
            if ended.is_none() {
                ended = self.exit_code().map(|code| (code, now));
            }
            match ended {
                Some((code, at))
                    if !open || now >= at + LINGER || now >= deadline || cancelled() =>
                {
                    break End::Exited(code);
                }
                None if cancelled() => break End::Cancelled,
                None if now >= deadline => break End::TimedOut,
                _ => {}
            }
            let pause = TICK.min(deadline.saturating_duration_since(now));
            if !open {
                thread::sleep(pause);
            } else if self.is_readable(pause) {
                open = self.read(&mut buffer, take) != Some(0);
            }
        };
        self.kill(open);
        let mut rest = 0;
        while open && rest < MAX_REST {
            match self.read(&mut buffer, take) {
                Some(bytes) if bytes > 0 => rest += bytes,
                _ => break,
            }
        }
        end
    }

    /// Reads what is there: `None` where nothing is yet, 0 where nothing will be.
    fn read(&mut self, buffer: &mut [u8], take: &mut dyn FnMut(&[u8])) -> Option<usize> {
        match self.output.read(buffer) {
            Ok(bytes) => {
                take(&buffer[..bytes]);
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

    /// Returns the code that the shell ended with. It is not reaped, so that its number stays its
    /// own.
    fn exit_code(&self) -> Option<i32> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(status) => status.as_ref().map(code),
            Err(Errno::INTR) => None,
            // Somebody else has reaped it, and knows its code.
            Err(_) => Some(-1),
        }
    }

    /// Kills the shell and all that it started, and reaps the shell.
    fn kill(&mut self, open: bool) {
        if self.reaped {
            return;
        }
        self.reaped = true;
        // It fails where nothing is left to be killed.
        let _none_left = kill_process_group(self.pid, Signal::KILL);
        #[cfg(target_os = "linux")]
        strays::kill(&self.mark, open.then_some(&self.output));
        #[cfg(not(target_os = "linux"))]
        let _ = (open, &self.mark);
        let pid = self.pid;
        let over = Instant::now() + REAP;
        while matches!(
            waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG
            ),
            Ok(None)
        ) {
            if Instant::now() >= over {
                // Only the kernel knows when; nothing is left to be done if no thread is there to
                // wait.
                let _waiting = thread::Builder::new()
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

fn code(status: &WaitIdStatus) -> i32 {
    status
        .exit_status()
        .or_else(|| Some(128 + status.terminating_signal()?))
        .unwrap_or(-1)
}

/// A variable that no other process has.
fn mark() -> String {
    use std::hash::{BuildHasher, RandomState};
    let [first, second] =
        [RandomState::new(), RandomState::new()].map(|state| state.hash_one(Instant::now()));
    format!("PICKTOOLS_CALL={first:016x}{second:016x}")
}

/// Finds the shell that runs commands.
pub(super) fn bash(path: &std::ffi::OsStr) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let folders = path
        .as_bytes()
        .split(|byte| *byte == b':')
        .map(|folder| Path::new(std::ffi::OsStr::from_bytes(folder)));
    folders
        .chain([Path::new("/bin")])
        .map(|folder| folder.join("bash"))
        .find(|path| path.is_file())
}

/// What has left the shell's session.
#[cfg(target_os = "linux")]
mod strays {
    use std::fs;
    use std::io::{PipeReader, Read};
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// How long is searched for what starts others faster than they are killed.
    const SEARCH: Duration = Duration::from_millis(200);
    /// The most of an environment that is read, which is what Linux allows of one.
    const MAX_ENVIRONMENT: u64 = 6 << 20;

    /// Kills every process that was started with the mark, and those that can still write to the
    /// pipe.
    pub(super) fn kill(mark: &str, output: Option<&PipeReader>) {
        let over = Instant::now() + SEARCH;
        while kill_each(&|process| has_mark(process, mark)) && Instant::now() < over {}
        let pipe = output
            .and_then(|output| fs::read_link(format!("/proc/self/fd/{}", output.as_raw_fd())).ok());
        if let Some(pipe) = pipe.filter(|_| output.is_some_and(|output| !is_at_end(output))) {
            while kill_each(&|process| holds(process, &pipe)) && Instant::now() < over {}
        }
    }

    /// Kills the processes of which this is true; `false` where there are none.
    fn kill_each(condemned: &dyn Fn(&Path) -> bool) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        let mut found = false;
        let own = std::process::id().to_string();
        for process in processes.flatten() {
            let name = process.file_name();
            let number = name
                .to_str()
                .filter(|name| *name != own)
                .and_then(|name| name.parse().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else {
                continue;
            };
            if !condemned(&process.path()) {
                continue;
            }
            // Looked at again once it is held: its number could have passed on to another.
            if let Ok(held) = pidfd_open(pid, PidfdFlags::empty())
                && condemned(&process.path())
            {
                found |= pidfd_send_signal(&held, Signal::KILL).is_ok();
            }
        }
        found
    }

    fn has_mark(process: &Path, mark: &str) -> bool {
        let Ok(file) = fs::File::open(process.join("environ")) else {
            return false;
        };
        let mut environment = Vec::new();
        // What ends while it is read has no environment.
        let read = file.take(MAX_ENVIRONMENT).read_to_end(&mut environment);
        read.is_ok()
            && environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes())
    }

    /// Returns `true` if a process can write to a pipe. One that can only read is a process that is
    /// just being started.
    fn holds(process: &Path, pipe: &Path) -> bool {
        let Ok(files) = fs::read_dir(process.join("fd")) else {
            return false;
        };
        let mut held = files
            .flatten()
            .filter(|file| fs::read_link(file.path()).is_ok_and(|target| target == pipe));
        held.any(|file| {
            let info = fs::read_to_string(process.join("fdinfo").join(file.file_name()))
                .unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            flags.is_some_and(|flags| flags.trim().ends_with(['1', '2']))
        })
    }

    /// Returns `true` if nobody can write to a pipe any more.
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
