//! The built-in tool `bash`: a command, run in a shell of its own and held to time, output and
//! folder.

mod danger;
mod environment;
mod output;
mod process;
mod sandbox;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use sandbox::Sandbox;

use self::danger::Surroundings;
use self::environment::Environment;
use self::output::{Decoder, Kept};
use self::process::{End, NotStarted, Shell};
use self::sandbox::Reach;
use picktools::catalog::Tool;
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};

/// What the manager allows beyond the call's own time, so that a call that is late still tells what
/// it wrote.
const MARGIN: Duration = Duration::from_millis(250);
/// The most output that is kept, whatever the options say: as JSON it must fit into a result.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// What a caller may set of [`Bash`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashOptions {
    /// How long a command runs that does not say.
    pub default_timeout: Duration,
    /// How long any command runs at most.
    pub max_timeout: Duration,
    /// How many bytes of output are kept, half of them from its beginning, half from its end; at
    /// most 1 MiB.
    pub max_output_bytes: usize,
    /// Whether scripts are refused that are run as they are fetched: `curl … | sh`.
    pub refuse_fetched_scripts: bool,
    /// Variables of the caller's environment that commands get besides those that tell of user,
    /// language and temporary files. What makes a shell or a loader run code (`BASH_ENV`,
    /// `LD_PRELOAD`) they never get.
    pub variables: Vec<String>,
    /// Whether commands run in a sandbox.
    pub sandbox: Sandbox,
    /// What they may read in a sandbox besides the root, the system and the folders of `PATH`.
    pub readable: Vec<PathBuf>,
    /// What they may write in a sandbox besides the root and temporary files.
    pub writable: Vec<PathBuf>,
    /// Folders of temporary files besides the one that `TMPDIR` names: commands read, write and
    /// delete what is in them, though others may have put it there.
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

/// The tool `bash`. It is unsafe: only callers who may use unsafe tools see it, and each call must
/// be confirmed.
///
/// A command gets no input, and of the environment what tells of user, language and temporary
/// files. When it has ended, is late or is cancelled, all that it started is killed. What is
/// plainly destructive is refused before anything starts; no filter keeps a program from what its
/// user may do, which is why there is a sandbox.
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
    /// Makes the tool for the variables of an environment, of which commands get few.
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

    /// Returns why a command would not be started in a folder, which is the root too; `None` if it
    /// would be.
    pub fn refusal(&self, command: &str, root: &Path) -> Option<String> {
        self.refusal_in(command, root, root)
    }

    fn refusal_in(&self, command: &str, root: &Path, folder: &Path) -> Option<String> {
        let text = |name| {
            self.environment
                .get(name)
                .map(|value: &OsStr| value.to_string_lossy().into_owned())
        };
        let surroundings = Surroundings {
            root: root.to_owned(),
            folder: folder.to_owned(),
            home: PathBuf::from(text("HOME").unwrap_or_else(|| "/root".to_owned())),
            temporary: self.temporary().collect(),
            variables: self
                .environment
                .iter()
                .map(|(name, value)| {
                    (
                        name.to_string_lossy().into_owned(),
                        value.to_string_lossy().into_owned(),
                    )
                })
                .collect(),
            refuse_fetched_scripts: self.options.refuse_fetched_scripts,
        };
        danger::refusal(command, surroundings)
    }

    /// How long a call runs. More than the longest time is taken as that; what is no time is none.
    fn timeout(&self, arguments: &Value) -> Option<Duration> {
        let Some(timeout) = arguments
            .get("timeout")
            .filter(|timeout| !timeout.is_null())
        else {
            return Some(self.options.default_timeout.min(self.options.max_timeout));
        };
        let seconds = timeout.as_f64().filter(|seconds| *seconds > 0.0)?;
        Some(
            Duration::try_from_secs_f64(seconds)
                .unwrap_or(Duration::MAX)
                .min(self.options.max_timeout),
        )
    }

    fn execute(&self, arguments: &Value, context: &Context) -> ToolResult {
        let deadline = Instant::now();
        let Some(command) = arguments.get("command").and_then(Value::as_str) else {
            return ToolResult::failure(ErrorType::Validation, "command is required");
        };
        let Some(timeout) = self.timeout(arguments) else {
            return ToolResult::failure(
                ErrorType::Validation,
                "timeout is a number of seconds above 0",
            );
        };
        let deadline = deadline + timeout;
        let asked = arguments
            .get("working_dir")
            .and_then(Value::as_str)
            .unwrap_or(".");
        let (root, folder) = match folder(context.root(), asked) {
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
        let Some(bash) = process::bash(path) else {
            return ToolResult::failure(ErrorType::System, "there is no bash on this system");
        };
        let mut program = Command::new(bash);
        program
            .args(["--noprofile", "--norc", "-c", command])
            .current_dir(&folder)
            .env_clear();
        program.envs(self.environment.iter());
        let mut shell = match Shell::start(program, self.options.sandbox, self.reach(&root)) {
            Ok(shell) => shell,
            Err(error) => return not_started(&error),
        };
        let mut decoder = Decoder::default();
        let mut kept = Kept::new(self.options.max_output_bytes.min(MAX_OUTPUT_BYTES));
        let end = shell.listen(deadline, &|| context.is_cancelled(), &mut |bytes| {
            let text = decoder.feed(bytes);
            context.emit_output_chunk(&text);
            kept.push(&text);
        });
        let last = decoder.end();
        context.emit_output_chunk(last);
        kept.push(last);
        self.result(end, kept.into_text(), timeout, shell.sandboxed)
    }

    fn result(&self, end: End, output: String, timeout: Duration, sandboxed: bool) -> ToolResult {
        let denied = sandboxed
            && ["Permission denied", "Operation not permitted"]
                .iter()
                .any(|text| output.contains(text));
        let result = match end {
            End::Exited(0) => ToolResult::success(),
            End::Exited(code) => {
                let result = ToolResult::failure(ErrorType::User, format!("exit code {code}"));
                match denied {
                    true => {
                        result.suggest("It runs in a sandbox, which allows it the working folder and the system alone.")
                    }
                    false => result,
                }
            }
            End::TimedOut if timeout < self.options.max_timeout => ToolResult::failure(
                ErrorType::System,
                format!("it did not end within {timeout:?}, and was killed"),
            )
            .suggest(format!(
                "Allow it more time: `timeout`, at most {} s.",
                self.options.max_timeout.as_secs_f64()
            )),
            End::TimedOut => {
                let error = format!(
                    "it did not end within {timeout:?}, the most that is allowed, and was killed"
                );
                ToolResult::failure(ErrorType::System, error).suggest("Do it in smaller steps.")
            }
            End::Cancelled => ToolResult::failure(
                ErrorType::User,
                "the call was cancelled, and the command killed",
            ),
        };
        let result = result.field("output", output);
        let result = match end {
            End::Exited(code) => result.field("return_code", code),
            End::TimedOut | End::Cancelled => result,
        };
        result.field("sandboxed", sandboxed)
    }

    /// What a command may reach in a sandbox: programs are found in the folders of the path.
    fn reach(&self, root: &Path) -> Reach {
        let path = self
            .environment
            .get("PATH")
            .unwrap_or_default()
            .to_string_lossy();
        let home = self.environment.get("HOME").map(Path::new);
        // A folder that holds the home would open all of it.
        let programs = path.split(':').map(PathBuf::from);
        let programs = programs.filter(|folder| !home.is_some_and(|home| home.starts_with(folder)));
        let readable = programs.chain(self.options.readable.iter().cloned());
        Reach::new(
            readable,
            self.options
                .writable
                .iter()
                .cloned()
                .chain(self.temporary())
                .chain([root.to_owned()]),
        )
    }

    fn temporary(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.environment.get("TMPDIR").map(PathBuf::from);
        self.options.temporary.iter().cloned().chain(named)
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
    let (default, most) = (
        options.default_timeout.as_secs_f64(),
        options.max_timeout.as_secs_f64(),
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command, as bash reads it. It gets no input."},
            "description": {"type": "string", "description": "What the command does, in 5 to 10 words."},
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": format!("Seconds after which it is killed: {default} unless given, at most {most}."),
            },
            "working_dir": {
                "type": "string",
                "description": "The folder to run it in, relative to the root and inside it; the root unless given.",
            },
        },
        "required": ["command"],
        "additionalProperties": false,
    });
    let description = "Runs a command in bash and returns its output and exit code. Use it for builds, tests, version control \
                       and other programs. What it leaves running is killed when it ends.";
    let mut tool = Tool::with_parameters("bash", description, parameters);
    tool.safe = Some(false);
    tool.annotations.destructive_hint = Some(true);
    tool.annotations.read_only_hint = Some(false);
    tool
}

/// Returns the root and the folder to run in, links resolved, or why a command cannot run there.
fn folder(root: &Path, asked: &str) -> Result<(PathBuf, PathBuf), Box<ToolResult>> {
    let failure = |error_type, message: String, suggestion: &str| {
        let failure = ToolResult::failure(error_type, message);
        Box::new(if suggestion.is_empty() {
            failure
        } else {
            failure.suggest(suggestion)
        })
    };
    let gone = |error| {
        failure(
            ErrorType::System,
            format!("the root folder can no longer be used: {error}"),
            "",
        )
    };
    let root = root.canonicalize().map_err(gone)?;
    if !root.is_dir() {
        return Err(gone(io::ErrorKind::NotADirectory.into()));
    }
    let outside = || {
        let suggestion = "Give a folder relative to the root, without `..` that leads out of it.";
        failure(
            ErrorType::Security,
            "working_dir lies outside the root".to_owned(),
            suggestion,
        )
    };
    let joined = root.join(asked);
    // Of what lies outside nothing is told, not even whether it is there.
    if !without_dots(&joined).starts_with(&root) {
        return Err(outside());
    }
    let folder = joined.canonicalize().map_err(|error| {
        let suggestion = "Give a folder that is there, relative to the root.";
        failure(
            ErrorType::User,
            format!("working_dir cannot be used: {error}"),
            suggestion,
        )
    })?;
    if !folder.starts_with(&root) {
        return Err(outside());
    }
    if !folder.is_dir() {
        return Err(failure(
            ErrorType::User,
            "working_dir is not a folder".to_owned(),
            "",
        ));
    }
    Ok((root, folder))
}

/// A path with its `.` and `..` worked out as text.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // Above `/` is `/`.
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

fn not_started(error: &NotStarted) -> ToolResult {
    match error {
        NotStarted::Sandbox(reason) => ToolResult::failure(
            ErrorType::System,
            format!("it was not run, for want of a sandbox: {reason}"),
        ),
        NotStarted::Failed(error) if error.kind() == io::ErrorKind::ArgumentListTooLong => {
            ToolResult::failure(ErrorType::Validation, "the command is too long")
                .suggest("Put it into a file.")
        }
        NotStarted::Failed(error) => {
            ToolResult::failure(ErrorType::System, format!("bash was not started: {error}"))
        }
    }
}
