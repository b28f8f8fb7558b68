//! The built-in tool `bash`. It runs a command in its own shell, with limits on time, output and
//! folder.

mod accidents;
mod environment;
mod output;
mod process;
mod programs;
mod sandbox;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use sandbox::Sandbox;

use self::accidents::CommandContext;
use self::environment::Environment;
use self::output::{OutputDecoder, OutputExcerpt};
use self::process::{Shell, ShellEnd, StartError};
use self::sandbox::SandboxAccess;
use crate::root::{normalize, session_id, session_schema};
use picktools::catalog::Tool;
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};

/// The time that the manager allows beyond the timeout, so that a late command still returns its
/// output.
const MARGIN: Duration = Duration::from_millis(250);
/// The upper limit of `max_output_bytes`. As JSON, the output must fit into a result.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// The options of [`Bash`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashOptions {
    /// The timeout of a command if the call sets none.
    pub default_timeout: Duration,
    /// The longest timeout of a command.
    pub max_timeout: Duration,
    /// The most bytes of output in a result: one half from the beginning, one half from the end.
    /// The limit is 1 MiB.
    pub max_output_bytes: usize,
    /// `true` to refuse scripts that run directly from the network: `curl … | sh`.
    pub refuse_fetched_scripts: bool,
    /// The variables of the caller's environment that commands get, in addition to those for user,
    /// language and temporary files. Commands never get variables that make a shell or a loader run
    /// code, such as `BASH_ENV` and `LD_PRELOAD`.
    pub variables: Vec<String>,
    /// The use of a sandbox.
    pub sandbox: Sandbox,
    /// Paths that are readable in a sandbox, in addition to the root, the system and the programs of
    /// `PATH`.
    pub readable: Vec<PathBuf>,
    /// Paths that are writable in a sandbox, in addition to the root and temporary files.
    pub writable: Vec<PathBuf>,
    /// Folders of temporary files, in addition to `TMPDIR`. Commands may read, write and delete the
    /// files in them, including files of other programs.
    pub temporary: Vec<PathBuf>,
}

impl Default for BashOptions {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(5),
            max_timeout: Duration::from_secs(60),
            max_output_bytes: MAX_OUTPUT_BYTES,
            refuse_fetched_scripts: true,
            variables: Vec::new(),
            sandbox: Sandbox::Auto,
            readable: Vec::new(),
            writable: Vec::new(),
            temporary: vec!["/tmp".into(), "/var/tmp".into()],
        }
    }
}

/// The tool `bash`. It is unsafe: only callers that may use unsafe tools see it, and each call must
/// be confirmed.
///
/// A command gets no input, and only the environment variables for user, language and temporary
/// files. When it ends, times out or is cancelled, all processes that it started are killed.
///
/// A short list of accidents, such as `rm -rf /`, is refused before anything starts. The list is no
/// protection: only the sandbox stops a program from doing what its user may do.
///
/// ```no_run
/// use picktools::Access;
/// use picktools_shell::{Bash, BashOptions};
/// use picktools_runtime::ToolManager;
///
/// let access = Access { allow_unsafe: true, ..Access::default() };
/// let bash = Bash::new(std::env::vars_os(), BashOptions::default());
/// let manager = ToolManager::builder(access).tool(bash).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bash {
    definition: Tool,
    environment: Environment,
    options: BashOptions,
}

impl Bash {
    /// Makes the tool. Commands get a few of the `variables`, as [`BashOptions::variables`] says.
    pub fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        options: BashOptions,
    ) -> Self {
        let environment = Environment::new(variables, &options.variables);
        Self {
            definition: definition(&options),
            environment,
            options,
        }
    }

    /// Returns the reason for which a command in the folder `root` is refused as an accident; `None`
    /// if it would run. The folder is also the root.
    pub fn refusal(&self, command: &str, root: &Path) -> Option<String> {
        self.refusal_in(command, root, root)
    }

    fn refusal_in(&self, command: &str, root: &Path, folder: &Path) -> Option<String> {
        let home = self
            .environment
            .get("HOME")
            .unwrap_or_else(|| OsStr::new("/root"));
        let mut variables = HashMap::new();
        for (name, value) in self.environment.iter() {
            variables.insert(
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            );
        }
        let command_context = CommandContext {
            root: root.to_owned(),
            folder: folder.to_owned(),
            home: PathBuf::from(home.to_string_lossy().into_owned()),
            variables,
            refuse_fetched_scripts: self.options.refuse_fetched_scripts,
        };
        accidents::refusal(command, &command_context)
    }

    /// Returns the timeout of a call, at most the longest one; `None` if the argument is invalid.
    fn timeout(&self, arguments: &Value) -> Option<Duration> {
        let seconds = match arguments.get("timeout") {
            None | Some(Value::Null) => {
                return Some(self.options.default_timeout.min(self.options.max_timeout));
            }
            Some(timeout) => timeout.as_f64()?,
        };
        if seconds <= 0.0 {
            return None;
        }
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Some(timeout.min(self.options.max_timeout))
    }

    /// Checks and runs the command of a call.
    fn execute(&self, arguments: &Value, context: &Context) -> ToolResult {
        let started = Instant::now();
        let Some(command) = arguments.get("command").and_then(Value::as_str) else {
            return ToolResult::failure(ErrorType::Validation, "command is required");
        };
        if command.contains('\0') {
            let error = "command has a null character; remove it";
            return ToolResult::failure(ErrorType::Validation, error);
        }
        let Some(timeout) = self.timeout(arguments) else {
            return ToolResult::failure(
                ErrorType::Validation,
                "timeout must be a number of seconds above 0",
            );
        };
        let deadline = started + timeout;
        let working_dir = match arguments.get("working_dir") {
            Some(Value::String(path)) => PathBuf::from(path),
            _ => context.folders().get(session_id(arguments)),
        };
        let WorkingFolder { root, folder } = match resolve_folder(context.root(), &working_dir) {
            Ok(folders) => folders,
            Err(failure) => return *failure,
        };
        if let Some(reason) = self.refusal_in(command, &root, &folder) {
            return ToolResult::failure(
                ErrorType::Security,
                format!("refused, nothing was started: {reason}"),
            )
            .suggest(
                "Do it in smaller steps inside the working folder, or ask the user to run it.",
            );
        }
        let path = self.environment.get("PATH").unwrap_or_default();
        let Some(bash) = process::find_bash(path) else {
            return ToolResult::failure(ErrorType::System, "there is no bash on this system");
        };
        let mut program = Command::new(bash);
        program
            .args(["--noprofile", "--norc", "-c", command])
            .current_dir(&folder)
            .env_clear();
        program.envs(self.environment.iter());
        let access = self.sandbox_access(&root);
        let mut shell = match Shell::start(program, self.options.sandbox, access) {
            Ok(shell) => shell,
            Err(error) => return start_failure(&error),
        };
        let mut decoder = OutputDecoder::default();
        let mut excerpt = OutputExcerpt::new(self.options.max_output_bytes.min(MAX_OUTPUT_BYTES));
        let end = shell.listen(deadline, &|| context.is_cancelled(), &mut |bytes| {
            let text = decoder.feed(bytes);
            context.emit_output_chunk(&text);
            excerpt.push(&text);
        });
        let last = decoder.end();
        context.emit_output_chunk(last);
        excerpt.push(last);
        self.result(end, excerpt.into_text(), timeout, shell.sandboxed)
    }

    /// Makes the result of a command that ended.
    fn result(
        &self,
        end: ShellEnd,
        output: String,
        timeout: Duration,
        sandboxed: bool,
    ) -> ToolResult {
        let is_denied = sandboxed
            && [
                "Operation not permitted",
                "Permission denied",
                "Read-only file system",
            ]
            .iter()
            .any(|text| output.contains(text));
        let result = match end {
            ShellEnd::Exited(0) => ToolResult::success(),
            ShellEnd::Exited(code) => {
                let result = ToolResult::failure(ErrorType::User, format!("exit code {code}"));
                match is_denied {
                    true => result.suggest(
                        "The command runs in a sandbox with access to the working folder and the \
                         system folders only, and without UNIX sockets.",
                    ),
                    false => result,
                }
            }
            ShellEnd::TimedOut if timeout < self.options.max_timeout => ToolResult::failure(
                ErrorType::System,
                format!("the command did not end within {timeout:?}, and was killed"),
            )
            .suggest(format!(
                "Set a longer `timeout`, at most {} s.",
                self.options.max_timeout.as_secs_f64()
            )),
            ShellEnd::TimedOut => {
                let error = format!(
                    "the command did not end within {timeout:?}, the longest timeout, \
                     and was killed"
                );
                ToolResult::failure(ErrorType::System, error).suggest("Do it in smaller steps.")
            }
            ShellEnd::Cancelled => ToolResult::failure(
                ErrorType::User,
                "the call was cancelled, and the command killed",
            ),
        };
        let result = result.field("output", output);
        let result = match end {
            ShellEnd::Exited(code) => result.field("return_code", code),
            ShellEnd::TimedOut | ShellEnd::Cancelled => result,
        };
        result.field("sandboxed", sandboxed)
    }

    /// Returns the paths that a command may use in a sandbox.
    fn sandbox_access(&self, root: &Path) -> SandboxAccess {
        let mut writable = self.options.writable.clone();
        writable.extend(self.temporary_folders());
        writable.push(root.to_owned());
        let path = self.environment.get("PATH").unwrap_or_default();
        let home = self.environment.get("HOME").map(Path::new);
        let mut readable = programs::readable_paths(path, home, &writable);
        readable.extend_from_slice(&self.options.readable);
        SandboxAccess::new(readable, writable)
    }

    fn temporary_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.options.temporary.clone();
        folders.extend(self.environment.get("TMPDIR").map(PathBuf::from));
        folders
    }
}

impl RunnableTool for Bash {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn requires_confirmation(&self) -> bool {
        true
    }

    fn time_limit(&self, arguments: &Value) -> Option<Duration> {
        Some(self.timeout(arguments)?.saturating_add(MARGIN))
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move { self.execute(call.arguments(), context) })
    }
}

fn definition(options: &BashOptions) -> Tool {
    let default_seconds = options.default_timeout.as_secs_f64();
    let max_seconds = options.max_timeout.as_secs_f64();
    let timeout = format!(
        "Seconds after which it is killed: {default_seconds} unless given, at most {max_seconds}."
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "pattern": r"\S",
                "description": "The command, as bash reads it. It gets no input.",
            },
            "description": {
                "type": "string",
                "description": "What the command does, in 5 to 10 words.",
            },
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": timeout,
            },
            "working_dir": {
                "type": "string",
                "description": concat!(
                    "The folder to run it in, relative to the root and inside it; ",
                    "the folder of the session unless given.",
                ),
            },
            "sessionId": session_schema(),
        },
        "required": ["command"],
        "additionalProperties": false,
    });
    let description = "Runs a command in bash and returns its output and exit code. Use it for \
                       builds, tests, version control and other programs. What it leaves running \
                       is killed when it ends.";
    let mut tool = Tool::with_parameters("bash", description, parameters);
    tool.safe = Some(false);
    tool.annotations.destructive_hint = Some(true);
    tool.annotations.read_only_hint = Some(false);
    tool
}

/// The root and the folder of a command, both with resolved links.
struct WorkingFolder {
    root: PathBuf,
    folder: PathBuf,
}

/// Resolves the folder of a command, which must be inside the root.
fn resolve_folder(root: &Path, working_dir: &Path) -> Result<WorkingFolder, Box<ToolResult>> {
    let failure = |error_type, message: String, suggestion: &str| {
        let failure = ToolResult::failure(error_type, message);
        Box::new(if suggestion.is_empty() {
            failure
        } else {
            failure.suggest(suggestion)
        })
    };
    let root_failure = |error| {
        failure(
            ErrorType::System,
            format!("the root folder can no longer be used: {error}"),
            "",
        )
    };
    let root = root.canonicalize().map_err(root_failure)?;
    if !root.is_dir() {
        return Err(root_failure(io::ErrorKind::NotADirectory.into()));
    }
    let outside_failure = || {
        let suggestion = "Give a folder relative to the root, without `..` that leads out of it.";
        failure(
            ErrorType::Security,
            "working_dir is outside the root".to_owned(),
            suggestion,
        )
    };
    let joined = root.join(working_dir);
    // Checked before the file system is used: no answer may reveal if a path outside exists.
    if !normalize(&joined).starts_with(&root) {
        return Err(outside_failure());
    }
    let folder = joined.canonicalize().map_err(|error| {
        let suggestion = "Give an existing folder, relative to the root.";
        failure(
            ErrorType::User,
            format!("working_dir cannot be used: {error}"),
            suggestion,
        )
    })?;
    if !folder.starts_with(&root) {
        return Err(outside_failure());
    }
    if !folder.is_dir() {
        return Err(failure(
            ErrorType::User,
            "working_dir is not a folder".to_owned(),
            "",
        ));
    }
    Ok(WorkingFolder { root, folder })
}

fn start_failure(error: &StartError) -> ToolResult {
    match error {
        StartError::Sandbox(reason) => ToolResult::failure(
            ErrorType::System,
            format!("cannot set up the sandbox: {reason}"),
        ),
        StartError::Io(error) if error.kind() == io::ErrorKind::ArgumentListTooLong => {
            ToolResult::failure(ErrorType::Validation, "the command is too long")
                .suggest("Put it into a file.")
        }
        StartError::Io(error) => {
            ToolResult::failure(ErrorType::System, format!("cannot start bash: {error}"))
        }
    }
}
