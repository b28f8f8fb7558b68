//! The supervision of servers' programs by another process of this program, so that they end with it
//! however it ends.
//!
//! A signal such as SIGKILL leaves no time to end the started programs. So each program is started by
//! a supervisor, which leads their process group. The supervisor notices the end of its parent,
//! because nothing reads its standard error any more. It then ends the group, with all processes that
//! the program started in it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

/// The argument with which a program runs as a supervisor; the command of the server follows.
pub const SUPERVISE: &str = "supervise-server";
/// The beginning of the line that the supervisor writes if a program cannot be started; the number
/// of the error follows.
const START_ERROR: &str = "picktools supervise-server: cannot start the program: error ";

/// Time for a program to exit by itself after its input is closed.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The path of the program that supervises others.
static SUPERVISOR: OnceLock<PathBuf> = OnceLock::new();

/// Starts the programs of servers under the supervision of a program from now on.
///
/// The supervisor must run [`supervise`] if its first argument is [`SUPERVISE`]. Has no effect on
/// Windows, where jobs have the same purpose.
pub fn supervise_programs(supervisor: PathBuf) {
    if cfg!(unix) {
        SUPERVISOR.get_or_init(|| supervisor);
    }
}

/// Returns the command that starts a program, under supervision if that is set up.
pub(super) fn command(program: &str) -> tokio::process::Command {
    let Some(supervisor) = SUPERVISOR.get() else {
        return tokio::process::Command::new(program);
    };
    let mut command = tokio::process::Command::new(supervisor);
    #[cfg(unix)]
    command.arg0("picktools");
    command.arg(SUPERVISE).arg(program);
    command
}

/// Returns the error that a supervisor reported in a line.
pub(super) fn start_error(line: &str) -> Option<io::Error> {
    let number = line.strip_prefix(START_ERROR)?;
    Some(io::Error::from_raw_os_error(number.parse().ok()?))
}

/// Runs a command as the supervisor of its process group, until the command or the parent ends.
pub fn supervise(command: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(unix)]
    return unix::supervise(command);
    #[cfg(not(unix))]
    {
        drop(command);
        ExitCode::from(2)
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::OsString;
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::process::{Command, ExitCode};
    use std::thread;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::process::{Signal, kill_current_process_group, setpgid};
    use rustix::stdio::{dup2_stdin, dup2_stdout};

    use super::{GRACE, START_ERROR};

    /// The time in which the end of the parent may follow the end of the program that it causes.
    const PARENT_END_TIME: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    /// The exit code for a program that cannot be started, as in shells.
    const CANNOT_START: u8 = 127;

    pub(super) fn supervise(mut command: impl Iterator<Item = OsString>) -> ExitCode {
        let Some(program) = command.next() else {
            return ExitCode::from(2);
        };
        // The gateway has no huge pages, which its programs would inherit.
        #[cfg(target_os = "linux")]
        let _refused = rustix::thread::disable_transparent_huge_pages(false);
        // The parent has done this already, unless another program is the parent.
        let leads_group = setpgid(None, None).is_ok();
        let mut child = match Command::new(program).args(command).spawn() {
            Ok(child) => child,
            Err(error) => {
                let number = error.raw_os_error().unwrap_or_default();
                drop(writeln!(io::stderr(), "{START_ERROR}{number}"));
                return ExitCode::from(CANNOT_START);
            }
        };
        // Only the program holds the pipes, so that the parent notices when it closes them.
        if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
            let _stdin = dup2_stdin(&nothing);
            let _stdout = dup2_stdout(&nothing);
        }
        if leads_group {
            thread::spawn(|| {
                if parent_ends_within(None) {
                    // The program has no more input, and some time to end by itself.
                    thread::sleep(GRACE);
                    end_group();
                }
            });
        }
        let code = child.wait().ok().and_then(|status| status.code());
        if leads_group && parent_ends_within(Some(&PARENT_END_TIME)) {
            end_group();
        }
        code.and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from)
    }

    /// Ends the process group, and this process with it.
    fn end_group() {
        let _killed = kill_current_process_group(Signal::KILL);
    }

    /// Waits until nothing reads standard error any more, because the parent has ended. Returns
    /// `false` after the time.
    fn parent_ends_within(time: Option<&Timespec>) -> bool {
        let stderr = io::stderr();
        loop {
            let mut streams = [PollFd::new(&stderr, PollFlags::empty())];
            match poll(&mut streams, time) {
                Ok(_) => return !streams[0].revents().is_empty(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}
