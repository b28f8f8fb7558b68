//! The filter that refuses dangerous commands before anything starts.
//!
//! A command is parsed like bash does and walked command by command, with the known values of its
//! variables and folders:
//!
//! - [`words`] expands words.
//! - [`walk`] determines the commands that run, and their input.
//! - [`programs`] examines programs that run other programs.
//! - [`code`] examines code in other languages.
//! - [`rules`] has the rules for single programs.
//! - [`paths`] has the rules for files and folders.
//! - [`bombs`] detects fork bombs and endless loops.
//!
//! A command that cannot be parsed is refused. A word with an unknown value is refused if it is a
//! script or a path that is deleted recursively. A program with an unknown name must pass the rules
//! of the most destructive programs. The filter cannot stop a program from doing what its user may
//! do.

mod bombs;
mod code;
mod paths;
mod programs;
mod rules;
mod walk;
mod words;

use std::collections::HashMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use brush_parser::ast::{FunctionBody, Program};
use brush_parser::{Parser, ParserOptions};

use self::paths::PathRules;
use picktools::excerpt::marked;

/// The longest command, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The most openings (parentheses, braces, compound commands) in a command and the scripts that it
/// runs. The parser recurses for each of them.
const MAX_OPENINGS: usize = 2000;
/// The most levels of nested commands: substitutions, `eval`, functions.
const MAX_DEPTH: usize = 24;
/// The most simple commands that are examined. The commands of a function count once per call.
const MAX_COMMANDS: usize = 20_000;
/// The most bytes of scripts that are parsed. A script counts each time that it is parsed.
const MAX_PARSED_BYTES: usize = 4 << 20;
/// The most recursive calls of a function that are followed.
const MAX_RECURSION: usize = 3;
/// The stack size of the thread that examines a command.
const STACK_BYTES: usize = 16 << 20;
/// The additional stack size for each opening.
const STACK_BYTES_PER_OPENING: usize = 64 << 10;
/// The time limit. The longest commands take a fraction of it.
const MAX_TIME: Duration = Duration::from_secs(4);
/// The most characters of a command's text in a message.
const MAX_EXCERPT_CHARS: usize = 60;

/// The folders, variables and options under which a command runs.
#[derive(Debug, Clone)]
pub(super) struct CommandContext {
    /// The folder that the command must not leave.
    pub(super) root: PathBuf,
    /// The folder in which the command starts.
    pub(super) folder: PathBuf,
    pub(super) home: PathBuf,
    /// The folders of temporary files.
    pub(super) temporary: Vec<PathBuf>,
    /// The environment variables.
    pub(super) variables: HashMap<String, String>,
    pub(super) refuse_fetched_scripts: bool,
}

/// The reason for which a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CommandRefusal {
    /// The command does harm.
    Danger(String),
    /// The effect of the command is unknown.
    Unclear(String),
}

type Verdict<T = ()> = Result<T, CommandRefusal>;

/// The known content of a command's standard input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StreamContent {
    Nothing,
    Text(String),
    /// The content of an existing file.
    File,
    /// Paths below these folders.
    Paths(Vec<String>),
    /// Data from the network.
    Fetched,
    Unknown,
}

/// The known state of a shell at one point of its script.
#[derive(Debug, Clone, Default)]
struct ShellState {
    /// The variables. A scalar has one element.
    variables: HashMap<String, Vec<String>>,
    positionals: Vec<String>,
    functions: HashMap<String, Rc<FunctionBody>>,
    /// The current folder; `None` if it is unknown.
    folder: Option<PathBuf>,
    /// The folders in which the shell may still be because a `cd` failed.
    other_folders: Vec<PathBuf>,
    /// The links that the script made to paths outside the root.
    links: Vec<String>,
    /// The scripts that run when the shell ends.
    traps: Vec<String>,
    /// `true` if the shell has sourced a file, which can set any variable.
    has_sourced: bool,
    ends_on_errors: bool,
}

/// Examines commands until one of them is refused.
struct Examiner {
    paths: PathRules,
    home: String,
    refuse_fetched_scripts: bool,
    depth: usize,
    openings: usize,
    commands: usize,
    parsed_bytes: usize,
    /// The names of the functions on the call stack.
    calls: Vec<String>,
    /// The number of commands so far that fetch data from the network.
    fetches: usize,
    /// The output of the process substitutions, by number.
    substitutions: Vec<StreamContent>,
}

/// Returns the reason for which a command must not start; `None` if it may start.
pub(super) fn refusal(command: &str, context: CommandContext) -> Option<String> {
    if command.len() > MAX_BYTES {
        return Some(format!("the command is longer than {MAX_BYTES} bytes"));
    }
    if command.contains('\0') {
        return Some("the command has a null character".to_owned());
    }
    let openings = count_openings(command);
    if openings > MAX_OPENINGS {
        return Some(format!(
            "the command opens more than {MAX_OPENINGS} parentheses, braces and compound commands"
        ));
    }
    let (sender, receiver) = mpsc::channel();
    let command = command.to_owned();
    let examine = move || {
        let mut examiner = Examiner::new(&context);
        let verdict = examiner.examine_command(&command, &context);
        // The receiver is gone if the time limit was reached.
        let _ignored = sender.send(verdict);
    };
    let thread = thread::Builder::new()
        .name("picktools-examine".to_owned())
        .stack_size(STACK_BYTES + openings * STACK_BYTES_PER_OPENING);
    if let Err(error) = thread.spawn(examine) {
        return Some(format!("the command cannot be examined: {error}"));
    }
    match receiver.recv_timeout(MAX_TIME) {
        Ok(Ok(())) => None,
        Ok(Err(CommandRefusal::Danger(reason) | CommandRefusal::Unclear(reason))) => Some(reason),
        Err(_) => Some("the command cannot be examined".to_owned()),
    }
}

impl Examiner {
    fn new(context: &CommandContext) -> Self {
        Self {
            paths: PathRules::new(context),
            home: context.home.to_string_lossy().into_owned(),
            refuse_fetched_scripts: context.refuse_fetched_scripts,
            depth: 0,
            openings: 0,
            commands: 0,
            parsed_bytes: 0,
            calls: Vec::new(),
            fetches: 0,
            substitutions: Vec::new(),
        }
    }

    /// Examines a command with its traps.
    fn examine_command(&mut self, command: &str, context: &CommandContext) -> Verdict {
        let mut shell = ShellState {
            folder: Some(context.folder.clone()),
            ..ShellState::default()
        };
        for (name, value) in &context.variables {
            shell.variables.insert(name.clone(), vec![value.clone()]);
        }
        self.script(command, &mut shell, &StreamContent::Nothing)?;
        for trap in std::mem::take(&mut shell.traps) {
            self.script(&trap, &mut shell, &StreamContent::Nothing)?;
        }
        Ok(())
    }

    /// Examines a script in a shell, and returns the known content of its output.
    fn script(
        &mut self,
        text: &str,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let openings = count_openings(text) + 1;
        if self.depth >= MAX_DEPTH
            || self.openings + openings > MAX_OPENINGS
            || text.len() > MAX_BYTES
        {
            return danger("commands are nested too deeply");
        }
        self.parsed_bytes += text.len() + 1;
        if self.parsed_bytes > MAX_PARSED_BYTES {
            return danger("it is too complex to be examined");
        }
        self.depth += 1;
        self.openings += openings;
        let output = match parse(text) {
            Ok(program) => match bombs::find(&program) {
                Some(reason) => Err(CommandRefusal::Danger(reason)),
                None => self.program(&program, shell, input),
            },
            Err(reason) => Err(CommandRefusal::Unclear(reason)),
        };
        self.depth -= 1;
        self.openings -= openings;
        output
    }

    /// Examines a text that may be a script, in a copy of the shell. Only danger is a reason to
    /// refuse it.
    fn suspect(&mut self, text: &str, shell: &ShellState) -> Verdict {
        match self.script(text, &mut shell.clone(), &StreamContent::Nothing) {
            Err(CommandRefusal::Danger(reason)) => Err(CommandRefusal::Danger(reason)),
            _ => Ok(()),
        }
    }
}

/// Returns the options for parsing words.
fn parser_options() -> ParserOptions {
    ParserOptions {
        enable_extended_globbing: false,
        ..ParserOptions::default()
    }
}

/// Parses a script. Bash supports extended patterns only if they are switched on; without them,
/// `!(ls)` is a subshell.
fn parse(text: &str) -> Result<Program, String> {
    let parse_with = |options: &ParserOptions| {
        Parser::new(Cursor::new(text.as_bytes()), options).parse_program()
    };
    let error = match parse_with(&parser_options()) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let extended = ParserOptions {
        enable_extended_globbing: true,
        ..ParserOptions::default()
    };
    match parse_with(&extended) {
        Ok(program) if !text.contains("!(") => Ok(program),
        _ => Err(format!(
            "the command cannot be parsed: {}",
            excerpt(&error.to_string())
        )),
    }
}

/// Counts the openings in a text for which a parser may recurse. The count is an upper bound.
fn count_openings(text: &str) -> usize {
    const WORDS: [&str; 9] = [
        "if", "while", "until", "for", "case", "function", "coproc", "time", "select",
    ];
    let signs = text
        .bytes()
        .filter(|byte| matches!(byte, b'(' | b'{' | b'`' | b'!'))
        .count();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    signs + words.filter(|word| WORDS.contains(word)).count()
}

/// Shortens a text for a message.
fn excerpt(text: &str) -> String {
    marked(text, MAX_EXCERPT_CHARS).into_owned()
}

fn danger<T>(reason: impl Into<String>) -> Verdict<T> {
    Err(CommandRefusal::Danger(reason.into()))
}

fn unclear<T>(reason: impl Into<String>) -> Verdict<T> {
    Err(CommandRefusal::Unclear(reason.into()))
}
