//! A server's program: its environment, its start, its end and the end of its standard error.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::failure::MAX_MESSAGE_CHARS;
use super::supervisor::{self, GRACE};
use picktools::excerpt::marked;
use picktools_import::mcp::ServerTransport;

/// A variable of the caller's environment.
pub type Variable<'a> = dyn Fn(&str) -> Option<OsString> + Sync + 'a;

/// Variables of the caller's environment that a program inherits; others come from its
/// configuration.
///
/// These are the ones that the protocol's own clients pass on (`modelcontextprotocol.io/docs/sdk`),
/// those for language, time, temporary and personal files, and those without which a program cannot
/// reach the network of a company, a container engine or a key agent.
const INHERITED: [&str; 46] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
];
/// The kept end of a program's standard error, in bytes.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// The reported number of lines of standard error.
const MAX_STDERR_LINES: usize = 5;

/// The shortest value of a variable that is removed from messages. Shorter ones are words such as
/// `debug`.
const MIN_SECRET_CHARS: usize = 6;
/// The replacement for the value of a variable.
const REDACTED: &str = "[redacted]";

/// Time to wait for the rest of standard error after a program exits.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A started program with all its child processes. Dropping it kills them.
pub(super) struct Program {
    child: Box<dyn ChildWrapper>,
    command: String,
    /// The values of its environment that no message may repeat, the longest first.
    secrets: Vec<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    pub(super) fn start(
        transport: &ServerTransport,
        environment: &Variable<'_>,
    ) -> Result<Self, String> {
        let ServerTransport::Stdio {
            command,
            arguments,
            variables,
            folder,
            inherit,
        } = transport
        else {
            return Err("it has no command".to_owned());
        };
        let mut program = supervisor::command(command);
        program.args(arguments).env_clear();
        for name in INHERITED {
            if let Some(value) = environment(name) {
                program.env(name, value);
            }
        }
        let mut secrets: Vec<String> = variables.values().cloned().collect();
        for name in inherit {
            if let Some(value) = environment(name) {
                secrets.extend(value.to_str().map(str::to_owned));
                program.env(name, value);
            }
        }
        program.envs(variables);
        secrets.retain(|value| value.chars().count() >= MIN_SECRET_CHARS);
        secrets.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = folder {
            program.current_dir(folder);
        }
        let mut wrap = CommandWrap::from(program);
        #[cfg(unix)]
        wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        wrap.wrap(process_wrap::tokio::JobObject);
        let mut child = wrap
            .spawn()
            .map_err(|error| start_failure(command, &error))?;
        let stderr = Arc::default();
        let mut reader = None;
        if let Some(pipe) = child.stderr().take() {
            reader = Some(tokio::spawn(collect_tail(pipe, Arc::clone(&stderr))));
        }
        Ok(Self {
            child,
            stderr,
            reader,
            secrets,
            command: command.clone(),
        })
    }

    pub(super) fn pipes(
        &mut self,
    ) -> Option<(tokio::process::ChildStdout, tokio::process::ChildStdin)> {
        Some((self.child.stdout().take()?, self.child.stdin().take()?))
    }

    /// Waits for the program to exit after its input is closed, and kills it otherwise.
    pub(super) async fn stop(&mut self) {
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.kill().await;
        }
        if let Some(reader) = self.reader.take() {
            drop(timeout(LAST_WORDS, reader).await);
        }
    }

    /// Kills the program, and waits for its end.
    pub(super) async fn kill(&mut self) {
        self.start_kill();
        drop(timeout(GRACE, self.child.wait()).await);
    }

    fn start_kill(&mut self) {
        // It may have ended already.
        drop(self.child.start_kill());
    }

    /// Returns the last lines of standard error, without the values of the configured variables.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let bytes = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if bytes.len() >= MAX_STDERR_BYTES {
            // The cut may be within a secret, whose rest would not be recognised.
            let longest = self.secrets.iter().map(String::len).max();
            let start = text.ceil_char_boundary(longest.unwrap_or_default());
            text.drain(..start);
        }
        for secret in &self.secrets {
            text = text.replace(secret, REDACTED);
        }
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(MAX_STDERR_LINES)..];
        last.iter()
            .map(|line| marked(line, MAX_MESSAGE_CHARS).into_owned())
            .collect()
    }
}

impl Program {
    /// Returns the reason why the supervisor could not start the program, after its end.
    pub(super) fn start_failure(&self) -> Option<String> {
        match &self.last_lines()[..] {
            [line] => Some(start_failure(
                &self.command,
                &supervisor::start_error(line)?,
            )),
            _ => None,
        }
    }
}

/// Describes why a program could not be started.
fn start_failure(command: &str, error: &io::Error) -> String {
    let command = marked(command, MAX_MESSAGE_CHARS);
    let remedy = if error.kind() == io::ErrorKind::NotFound {
        "; install it, or give its full path"
    } else {
        ""
    };
    format!("{command:?} cannot be started: {error}{remedy}")
}

impl Drop for Program {
    fn drop(&mut self) {
        self.start_kill();
    }
}

/// Reads to the end, so that a program with much output does not block, and keeps only the last
/// bytes.
async fn collect_tail(mut pipe: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; MAX_STDERR_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
        tail.drain(..surplus);
    }
}
