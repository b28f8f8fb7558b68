//! Which commands are refused before anything starts.
//!
//! A command is parsed as bash parses it and walked command by command, with what is known of its
//! variables and folders: [`words`] says what a word comes to, [`walk`] what runs with which input,
//! [`programs`] which program runs another, [`code`] what stands in other languages, [`rules`] what
//! no program may be asked, [`places`] which files are whose, and [`bombs`] what multiplies without
//! end.
//!
//! What cannot be parsed is refused. A word whose value is not known is refused where it matters:
//! as what is deleted with all in it, and as a script. A program whose name is not known is held to
//! the rules of those that destroy most. Nothing of this keeps a program from what its user may do.

mod bombs;
mod code;
mod places;
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

use self::places::Places;
use picktools::excerpt::marked;

/// The longest command, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The most that may open something in a command and what it runs as a command: the parser recurses
/// for each.
const MAX_OPENED: usize = 2000;
/// How deeply commands may stand in commands: substitutions, `eval`, functions.
const MAX_DEPTH: usize = 24;
/// How many simple commands are looked at, those of a function once for each call.
const MAX_COMMANDS: usize = 20_000;
/// How many bytes of scripts are parsed, those that run twice twice.
const MAX_PARSED: usize = 4 << 20;
/// How many calls of a function within itself are followed.
const MAX_RECURSION: usize = 3;
/// The stack that examining has, and what it has for each thing that is opened.
const STACK: usize = 16 << 20;
const STACK_OF_OPENED: usize = 64 << 10;
/// How long examining may take; the longest commands take a fraction of it.
const MAX_TIME: Duration = Duration::from_secs(4);
/// The most characters that are told of what a command says.
const MAX_SHOWN_CHARS: usize = 60;

/// What a command finds around it.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// The folder that it should stay in.
    pub(super) root: PathBuf,
    /// The folder that it starts in.
    pub(super) folder: PathBuf,
    pub(super) home: PathBuf,
    /// Folders of temporary files.
    pub(super) temporary: Vec<PathBuf>,
    /// Its environment.
    pub(super) variables: HashMap<String, String>,
    pub(super) refuse_fetched_scripts: bool,
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// It does harm.
    Danger(String),
    /// What it does cannot be known.
    Unclear(String),
}

type Verdict<T = ()> = Result<T, Refusal>;

/// What comes to a command by its standard input, and what another makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Input {
    Nothing,
    Text(String),
    /// A file that is there.
    File,
    /// Paths below these.
    Paths(Vec<String>),
    /// Something from the network.
    Fetched,
    Unknown,
}

/// What is known of a shell at some point of its script.
#[derive(Debug, Clone, Default)]
struct Shell {
    /// Scalars have one element.
    variables: HashMap<String, Vec<String>>,
    positionals: Vec<String>,
    functions: HashMap<String, Rc<FunctionBody>>,
    /// `None` where it cannot be known.
    folder: Option<PathBuf>,
    /// Folders that it is still in where a `cd` failed.
    other_folders: Vec<PathBuf>,
    /// Links to what lies outside, made by the script.
    links: Vec<String>,
    /// Scripts that run when it ends.
    traps: Vec<String>,
    /// It has read a file that can have set any variable.
    has_sourced: bool,
    ends_on_errors: bool,
}

/// Walks through commands until one is refused.
struct Examiner {
    places: Places,
    home: String,
    refuse_fetched_scripts: bool,
    depth: usize,
    opened: usize,
    commands: usize,
    parsed: usize,
    /// The functions that are being called.
    calls: Vec<String>,
    /// How many commands were met that fetch something.
    fetches: usize,
    /// What process substitutions give, by their number.
    substituted: Vec<Input>,
}

/// Returns why a command must not be started, if so.
pub(super) fn refusal(command: &str, surroundings: Surroundings) -> Option<String> {
    if command.len() > MAX_BYTES {
        return Some(format!("the command is longer than {MAX_BYTES} bytes"));
    }
    if command.contains('\0') {
        return Some("the command has a null character".to_owned());
    }
    let opened = opened(command);
    if opened > MAX_OPENED {
        return Some(format!(
            "the command opens more than {MAX_OPENED} parentheses, braces and compound commands"
        ));
    }
    let (sender, receiver) = mpsc::channel();
    let command = command.to_owned();
    let examine = move || {
        let mut examiner = Examiner::new(&surroundings);
        let verdict = examiner.whole(&command, &surroundings);
        // Nobody listens any more where it took too long.
        let _unheard = sender.send(verdict);
    };
    let thread = thread::Builder::new()
        .name("picktools-examine".to_owned())
        .stack_size(STACK + opened * STACK_OF_OPENED);
    if let Err(error) = thread.spawn(examine) {
        return Some(format!("the command cannot be examined: {error}"));
    }
    match receiver.recv_timeout(MAX_TIME) {
        Ok(Ok(())) => None,
        Ok(Err(Refusal::Danger(reason) | Refusal::Unclear(reason))) => Some(reason),
        Err(_) => Some("the command cannot be examined".to_owned()),
    }
}

impl Examiner {
    fn new(surroundings: &Surroundings) -> Self {
        Self {
            places: Places::new(surroundings),
            home: surroundings.home.to_string_lossy().into_owned(),
            refuse_fetched_scripts: surroundings.refuse_fetched_scripts,
            depth: 0,
            opened: 0,
            commands: 0,
            parsed: 0,
            calls: Vec::new(),
            fetches: 0,
            substituted: Vec::new(),
        }
    }

    fn whole(&mut self, command: &str, surroundings: &Surroundings) -> Verdict {
        let mut shell = Shell {
            folder: Some(surroundings.folder.clone()),
            ..Shell::default()
        };
        for (name, value) in &surroundings.variables {
            shell.variables.insert(name.clone(), vec![value.clone()]);
        }
        self.script(command, &mut shell, &Input::Nothing)?;
        for trap in std::mem::take(&mut shell.traps) {
            self.script(&trap, &mut shell, &Input::Nothing)?;
        }
        Ok(())
    }

    /// Examines a script within a shell and returns what it writes, where that is known.
    fn script(&mut self, text: &str, shell: &mut Shell, input: &Input) -> Verdict<Input> {
        let opened = opened(text) + 1;
        if self.depth >= MAX_DEPTH || self.opened + opened > MAX_OPENED || text.len() > MAX_BYTES {
            return danger("commands stand too deeply in commands");
        }
        self.parsed += text.len() + 1;
        if self.parsed > MAX_PARSED {
            return danger("it is too involved to be examined");
        }
        self.depth += 1;
        self.opened += opened;
        let written = match parse(text) {
            Ok(program) => match bombs::find(&program) {
                Some(reason) => Err(Refusal::Danger(reason)),
                None => self.program(&program, shell, input),
            },
            Err(reason) => Err(Refusal::Unclear(reason)),
        };
        self.depth -= 1;
        self.opened -= opened;
        written
    }

    /// Examines what may be a script, in a shell of its own: what cannot be known of it is no
    /// reason.
    fn suspect(&mut self, text: &str, shell: &Shell) -> Verdict {
        match self.script(text, &mut shell.clone(), &Input::Nothing) {
            Err(Refusal::Danger(reason)) => Err(Refusal::Danger(reason)),
            _ => Ok(()),
        }
    }
}

/// The options under which words are parsed.
fn options() -> ParserOptions {
    ParserOptions {
        enable_extended_globbing: false,
        ..ParserOptions::default()
    }
}

/// Parses a script. Bash knows extended patterns only where they were switched on: `!(ls)` is a
/// subshell without them.
fn parse(text: &str) -> Result<Program, String> {
    let parsed = |options: &ParserOptions| {
        Parser::new(Cursor::new(text.as_bytes()), options).parse_program()
    };
    let error = match parsed(&options()) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let extended = ParserOptions {
        enable_extended_globbing: true,
        ..ParserOptions::default()
    };
    match parsed(&extended) {
        Ok(program) if !text.contains("!(") => Ok(program),
        _ => Err(format!(
            "the command cannot be parsed: {}",
            shown(&error.to_string())
        )),
    }
}

/// How many things a text may open that a parser recurses for, generously.
fn opened(text: &str) -> usize {
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

fn shown(text: &str) -> String {
    marked(text, MAX_SHOWN_CHARS).into_owned()
}

fn danger<T>(reason: impl Into<String>) -> Verdict<T> {
    Err(Refusal::Danger(reason.into()))
}

fn unclear<T>(reason: impl Into<String>) -> Verdict<T> {
    Err(Refusal::Unclear(reason.into()))
}
