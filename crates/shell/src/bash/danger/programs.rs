//! Examination of programs that run other programs, and of scripts.

use std::path::PathBuf;

use super::paths::RootRule;
use super::rules::{ProgramArguments, option_values};
use super::walk::FIRST_SUBSTITUTION;
use super::words::{FETCHED, TRUSTED, UNKNOWN, has_pattern, is_known, unescape};
use super::{Examiner, ShellState, StreamContent, Verdict, danger, unclear};

const SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "rbash", "sh", "zsh"];
/// Programs that run the rest of their arguments: the name, the options with a value, and the
/// number of operands before the program.
const WRAPPERS: [(&str, &[&str], usize); 27] = [
    ("busybox", &[], 0),
    ("builtin", &[], 0),
    ("catchsegv", &[], 0),
    ("chroot", &[], 1),
    ("chrt", &["-T", "-P", "-D"], 1),
    ("command", &[], 0),
    ("dbus-run-session", &["--config-file"], 0),
    ("exec", &["-a"], 0),
    (
        "flock",
        &["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"],
        1,
    ),
    ("gtime", &["-f", "-o"], 0),
    ("gtimeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    ("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    ("ltrace", &["-o", "-e", "-p", "-u"], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("nohup", &[], 0),
    ("nsenter", &["-t", "--target"], 0),
    ("prlimit", &[], 0),
    ("setarch", &[], 1),
    ("setsid", &[], 0),
    (
        "stdbuf",
        &["-i", "-o", "-e", "--input", "--output", "--error"],
        0,
    ),
    ("strace", &["-o", "-e", "-p", "-u", "-E", "-s"], 0),
    ("taskset", &[], 1),
    ("time", &["-f", "-o"], 0),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    ("toybox", &[], 0),
    ("unbuffer", &[], 0),
    ("unshare", &["-S", "-G", "--setuid", "--setgid"], 0),
];
/// Programs with their own language, whose strings may contain commands.
const INTERPRETERS: [&str; 19] = [
    "awk",
    "bun",
    "deno",
    "ed",
    "emacs",
    "ex",
    "expect",
    "gawk",
    "gdb",
    "lua",
    "mawk",
    "nawk",
    "node",
    "nvim",
    "osascript",
    "perl",
    "php",
    "vi",
    "vim",
];
/// Interpreters that write the files in their arguments.
const EDITORS: [&str; 6] = ["ed", "emacs", "ex", "nvim", "vi", "vim"];
/// Interpreters that run a script from a URL.
const URL_INTERPRETERS: [&str; 2] = ["bun", "deno"];
/// Options whose value, or whose text after `=`, a program passes to a shell: the program, and the
/// short and long name of the option.
const SCRIPT_OPTIONS: [(&str, &str, &str); 9] = [
    ("git", "-c", "--config-env"),
    ("make", "", "--eval"),
    ("man", "-P", "--pager"),
    ("rsync", "-e", "--rsh"),
    ("scp", "-o", ""),
    ("ssh", "-o", ""),
    ("tar", "-I", "--use-compress-program"),
    ("tar", "", "--checkpoint-action"),
    ("tar", "", "--to-command"),
];
/// Programs that pass their arguments to a shell.
const SHELL_RUNNERS: [&str; 7] = [
    "parallel", "rsh", "screen", "script", "ssh", "tmux", "watch",
];

impl Examiner {
    /// Examines a program that may run another one. Returns the known content of its output.
    pub(super) fn run_program(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        if let Some((_, valued, operands)) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name)
        {
            return self.run_wrapped(name, arguments, valued, *operands, shell, input);
        }
        let is_interpreter = INTERPRETERS.contains(&name)
            || ["python", "ruby", "pypy", "tclsh"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
        match name {
            _ if SHELLS.contains(&name) => self.run_shell(arguments, shell, input),
            _ if name.starts_with("ld-") || name.starts_with("ld.") => {
                self.run_wrapped(name, arguments, &[], 0, shell, input)
            }
            _ if is_interpreter => self.run_interpreter(name, arguments, shell, input),
            _ if SHELL_RUNNERS.contains(&name) => {
                for at in 0..arguments.len() {
                    self.suspect(&arguments[at..].join(" "), shell)?;
                }
                Ok(StreamContent::Unknown)
            }
            "env" => self.run_env(arguments, shell, input),
            "xargs" => self.run_xargs(arguments, shell, input),
            "find" => self.run_find(arguments, shell),
            "eval" => self.evaluate(&arguments.join(" "), shell, input),
            "source" | "." => self.source(arguments, shell, input),
            "trap" => {
                if let Some(script) = arguments.iter().find(|argument| !argument.starts_with('-')) {
                    self.script(script, &mut shell.clone(), &StreamContent::Nothing)?;
                    shell.traps.push(script.clone());
                }
                Ok(StreamContent::Nothing)
            }
            "alias" => {
                for argument in arguments {
                    if let Some((_, script)) = argument.split_once('=') {
                        self.suspect(script, shell)?;
                    }
                }
                Ok(StreamContent::Nothing)
            }
            "cd" | "pushd" | "popd" => {
                self.change_folder(name, arguments, shell);
                Ok(StreamContent::Nothing)
            }
            "git"
                if arguments
                    .first()
                    .is_some_and(|verb| ["ls-files", "ls-tree"].contains(&verb.as_str())) =>
            {
                Ok(StreamContent::Paths(vec![".".to_owned()]))
            }
            _ => self.run_builtin(name, arguments, shell, input),
        }
    }

    /// Examines an interpreter or editor with the code in its arguments and input.
    fn run_interpreter(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        for argument in arguments {
            self.code(argument, shell)?;
        }
        let operands = ProgramArguments::new(arguments).operands;
        if EDITORS.contains(&name) {
            for path in &operands {
                self.paths.check_write(path, shell)?;
            }
        }
        let is_url =
            |operand: &&str| operand.starts_with("http://") || operand.starts_with("https://");
        if URL_INTERPRETERS.contains(&name) && operands.iter().any(is_url) {
            return self.run_fetched();
        }
        if let StreamContent::Text(text) = input {
            self.code(text, shell)?;
        }
        let reads_script = !arguments
            .iter()
            .any(|option| ["-c", "-e", "-m"].contains(&option.as_str()))
            && !["awk", "gawk", "mawk", "nawk"].contains(&name);
        match *input == StreamContent::Fetched && reads_script {
            true => self.run_fetched(),
            false => Ok(StreamContent::Unknown),
        }
    }

    /// Examines the values of options that a program passes to a shell.
    pub(super) fn examine_option_scripts(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
    ) -> Verdict {
        for (program, short, long) in SCRIPT_OPTIONS {
            if program != name {
                continue;
            }
            for value in option_values(arguments, short, long) {
                let command = match value.split_once('=') {
                    Some((_, command)) => command,
                    None => value,
                };
                let script = command.trim_start_matches('!').replace("$(shell ", "$(");
                self.suspect(&script, shell)?;
            }
        }
        Ok(())
    }

    /// Examines a builtin of the shell, or a program that runs nothing.
    fn run_builtin(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let set_unknown = |shell: &mut ShellState, names: &[&str]| {
            for name in names {
                if !name.starts_with('-') {
                    let value = vec![UNKNOWN.to_string()];
                    shell.variables.insert((*name).to_owned(), value);
                }
            }
        };
        let all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match name {
            "test" | "[" | "unset" | "read" | "printf" | "declare" | "local" | "export"
            | "readonly" | "typeset" | "let" | "mapfile" | "readarray" | "wait" | "getopts" => {
                for argument in arguments {
                    self.subscripts(argument, shell)?;
                }
            }
            _ => {}
        }
        match name {
            "echo" => {
                let words: Vec<&str> = all
                    .iter()
                    .copied()
                    .skip_while(|word| ["-e", "-n", "-ne", "-en", "-E"].contains(word))
                    .collect();
                let text = words.join(" ");
                Ok(StreamContent::Text(if all.len() > words.len() {
                    unescape(&text)
                } else {
                    text
                }))
            }
            "printf" => {
                set_unknown(shell, &option_values(arguments, "-v", "-v"));
                // Only the simplest formats are applied.
                match all.as_slice() {
                    [format] if !format.contains('%') => Ok(StreamContent::Text(unescape(format))),
                    ["%s" | "%s\\n", text] => Ok(StreamContent::Text((*text).to_owned())),
                    _ => Ok(StreamContent::Unknown),
                }
            }
            "cat" | "tac" | "head" | "tail" | "sort" | "uniq" | "grep" | "tr"
                if all.is_empty() || all == ["-"] =>
            {
                Ok(if name == "cat" {
                    input.clone()
                } else {
                    self.unknown_output(input)
                })
            }
            "cat" => match all.as_slice() {
                [path] => Ok(self.file_content(path)),
                _ => Ok(StreamContent::File),
            },
            "mktemp" => {
                let folder = match shell.variables.get("TMPDIR") {
                    Some(folder) => folder.concat(),
                    None => "/tmp".to_owned(),
                };
                Ok(StreamContent::Text(format!("{folder}/tmp.made")))
            }
            "pwd" => Ok(match &shell.folder {
                Some(folder) => StreamContent::Text(folder.to_string_lossy().into()),
                None => StreamContent::Unknown,
            }),
            "which" | "type" => Ok(match all.last() {
                Some(name) => StreamContent::Text((*name).to_owned()),
                None => StreamContent::Nothing,
            }),
            "ls" | "fd" => Ok(StreamContent::Unknown),
            "set" => {
                if all
                    .first()
                    .is_some_and(|option| option.starts_with('-') && option.contains('e'))
                {
                    shell.ends_on_errors = true;
                }
                if let Some(at) = all.iter().position(|word| *word == "--") {
                    shell.positionals = arguments[at + 1..].to_vec();
                }
                Ok(StreamContent::Nothing)
            }
            "shift" => {
                let count = all
                    .first()
                    .and_then(|count| count.parse().ok())
                    .unwrap_or(1)
                    .min(shell.positionals.len());
                shell.positionals.drain(..count);
                Ok(StreamContent::Nothing)
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for script in option_values(arguments, "-C", "-C") {
                    self.script(script, &mut shell.clone(), &StreamContent::Nothing)?;
                }
                set_unknown(shell, &all);
                Ok(StreamContent::Nothing)
            }
            "unset" => {
                for name in &all {
                    shell.variables.remove(*name);
                }
                Ok(StreamContent::Nothing)
            }
            "declare" | "local" | "typeset"
                if all
                    .iter()
                    .any(|option| option.starts_with('-') && option.contains('n')) =>
            {
                let mut names = Vec::new();
                for word in &all {
                    names.extend(word.split('=').next());
                }
                set_unknown(shell, &names);
                Ok(StreamContent::Nothing)
            }
            "compgen" => {
                for script in option_values(arguments, "-C", "-C") {
                    self.script(script, &mut shell.clone(), &StreamContent::Nothing)?;
                }
                for words in option_values(arguments, "-W", "-W") {
                    self.expand_document(words, shell)?;
                }
                Ok(StreamContent::Unknown)
            }
            _ => Ok(self.unknown_output(input)),
        }
    }

    /// Returns the output of a program with unknown effect. Data from the network stays marked.
    fn unknown_output(&self, input: &StreamContent) -> StreamContent {
        match input {
            StreamContent::Fetched => StreamContent::Fetched,
            _ => StreamContent::Unknown,
        }
    }

    /// Examines a script from the network, which the options may refuse.
    pub(super) fn run_fetched(&self) -> Verdict<StreamContent> {
        match self.refuse_fetched_scripts {
            true => danger(
                "it runs a script directly from the network; \
                 save it to a file and read it before you run it",
            ),
            false => Ok(StreamContent::Unknown),
        }
    }

    /// Examines a program that runs the rest of its arguments, after `skipped_operands` operands.
    fn run_wrapped(
        &mut self,
        name: &str,
        arguments: &[String],
        valued: &[&str],
        skipped_operands: usize,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        if name == "command"
            && arguments
                .first()
                .is_some_and(|option| ["-v", "-V"].contains(&option.as_str()))
        {
            return Ok(match arguments.last() {
                Some(name) => StreamContent::Text(name.clone()),
                None => StreamContent::Nothing,
            });
        }
        if name == "flock" {
            for script in option_values(arguments, "-c", "--command") {
                self.script(script, &mut shell.clone(), input)?;
            }
        }
        let mut at = 0;
        while let Some(option) = arguments.get(at)
            && option.starts_with('-')
            && option.len() > 1
        {
            at += if valued.contains(&option.as_str()) {
                2
            } else {
                1
            };
            if option == "--" {
                break;
            }
        }
        match arguments
            .get(at + skipped_operands..)
            .unwrap_or_default()
            .split_first()
        {
            Some((name, arguments)) => self.start(name, arguments, shell, input),
            None => Ok(StreamContent::Nothing),
        }
    }

    fn run_env(
        &mut self,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        for text in option_values(arguments, "-S", "--split-string") {
            self.script(text, &mut shell.clone(), input)?;
        }
        let mut at = 0;
        let mut inner = shell.clone();
        while let Some(argument) = arguments.get(at) {
            match argument.as_str() {
                "-u" | "--unset" | "-S" | "--split-string" => at += 2,
                "-C" | "--chdir" => {
                    self.change_folder(
                        "cd",
                        &arguments[at + 1..arguments.len().min(at + 2)],
                        &mut inner,
                    );
                    at += 2;
                }
                option if option.starts_with('-') => at += 1,
                assigned if assigned.contains('=') => at += 1,
                name => return self.start(name, &arguments[at + 1..], &mut inner, input),
            }
        }
        Ok(StreamContent::Unknown)
    }

    fn run_xargs(
        &mut self,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        const VALUED: [&str; 12] = [
            "-I",
            "-n",
            "-P",
            "-L",
            "-s",
            "-d",
            "-a",
            "-E",
            "-l",
            "--replace",
            "--max-args",
            "--max-procs",
        ];
        let mut at = 0;
        while let Some(option) = arguments.get(at)
            && option.starts_with('-')
        {
            at += if VALUED.contains(&option.as_str()) {
                2
            } else {
                1
            };
        }
        let values = match input {
            _ if arguments
                .iter()
                .take(at)
                .any(|option| option.starts_with("-a") || option.starts_with("--arg")) =>
            {
                vec![UNKNOWN.to_string()]
            }
            StreamContent::Nothing => Vec::new(),
            StreamContent::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            StreamContent::Paths(folders) => {
                let mut paths = Vec::new();
                for folder in folders {
                    paths.push(path_below(folder));
                }
                paths
            }
            StreamContent::Fetched => vec![FETCHED.to_string()],
            StreamContent::File | StreamContent::Unknown => vec![UNKNOWN.to_string()],
        };
        let Some((name, rest)) = arguments.get(at..).unwrap_or_default().split_first() else {
            return Ok(StreamContent::Unknown);
        };
        let placeholder = match option_values(arguments, "-I", "--replace").first() {
            Some(placeholder) => Some(*placeholder),
            None if arguments.iter().any(|option| option == "-i") => Some("{}"),
            None => None,
        };
        match placeholder {
            None => {
                let all = [rest, values.as_slice()].concat();
                self.start(name, &all, shell, &StreamContent::Nothing)
            }
            Some(placeholder) => {
                for value in values {
                    let mut all = Vec::new();
                    for argument in rest {
                        all.push(argument.replace(placeholder, &value));
                    }
                    let program = name.replace(placeholder, &value);
                    self.start(&program, &all, shell, &StreamContent::Nothing)?;
                }
                Ok(StreamContent::Unknown)
            }
        }
    }

    fn run_find(&mut self, arguments: &[String], shell: &mut ShellState) -> Verdict<StreamContent> {
        let is_test =
            |word: &String| word.starts_with('-') && !["-H", "-L", "-P"].contains(&word.as_str());
        let end = arguments
            .iter()
            .position(|word| is_test(word) || word == "(" || word == "!")
            .unwrap_or(arguments.len());
        let mut starts = arguments[..end].to_vec();
        starts.retain(|word| !word.starts_with('-'));
        if starts.is_empty() {
            starts.push(".".to_owned());
        }
        for (at, word) in arguments.iter().enumerate().skip(end) {
            match word.as_str() {
                "-delete" => {
                    for start in &starts {
                        self.paths
                            .check_tree(start, shell, "deletes", RootRule::Allow)?;
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let rest = &arguments[at + 1..];
                    let ends = |word: &String| word == ";" || word == "+";
                    let command = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
                    for start in &starts {
                        self.run_find_command(command, start, shell)?;
                    }
                }
                "-fprint" | "-fprintf" | "-fls" | "-fprint0" => {
                    if let Some(path) = arguments.get(at + 1) {
                        self.paths.check_write(path, shell)?;
                    }
                }
                _ => {}
            }
        }
        Ok(StreamContent::Paths(starts))
    }

    /// Examines a command that `find` runs on the files below `start`.
    fn run_find_command(
        &mut self,
        command: &[String],
        start: &str,
        shell: &mut ShellState,
    ) -> Verdict {
        let path = path_below(start);
        let mut words = Vec::new();
        for word in command {
            words.push(word.replace("{}", &path));
        }
        let Some((name, arguments)) = words.split_first() else {
            return Ok(());
        };
        if ["rm", "shred", "unlink"].contains(&name.rsplit('/').next().unwrap_or(name)) {
            self.paths
                .check_tree(start, shell, "deletes", RootRule::Allow)?;
        }
        self.start(name, arguments, shell, &StreamContent::Nothing)?;
        Ok(())
    }

    fn run_shell(
        &mut self,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        const VALUED: [&str; 6] = ["-o", "+o", "-O", "+O", "--rcfile", "--init-file"];
        let mut inner = shell.clone();
        let mut at = 0;
        let (mut is_script, mut is_input, mut is_interactive) = (false, false, false);
        while let Some(option) = arguments.get(at)
            && option.starts_with(['-', '+'])
        {
            at += if VALUED.contains(&option.as_str()) {
                2
            } else {
                1
            };
            if !option.starts_with("--") && option.starts_with('-') {
                is_script |= option.contains('c');
                is_input |= option.contains('s');
                is_interactive |= option.contains('i');
            }
            if option == "--" || option == "-" {
                break;
            }
        }
        let rest = arguments.get(at..).unwrap_or_default();
        if is_script {
            let Some((script, parameters)) = rest.split_first() else {
                return Ok(StreamContent::Nothing);
            };
            if let Some((name, parameters)) = parameters.split_first() {
                inner.variables.insert("0".to_owned(), vec![name.clone()]);
                inner.positionals = parameters.to_vec();
            }
            return self.evaluate(script, &mut inner, input);
        }
        if is_interactive {
            return danger("it starts an interactive shell, which gets no input here");
        }
        let script = match rest.first() {
            Some(path) if !is_input => self.script_content(path, input),
            _ => input.clone(),
        };
        self.run_script(&script, &mut inner)
    }

    /// Returns the content of a script file.
    fn script_content(&self, path: &str, input: &StreamContent) -> StreamContent {
        match path {
            "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" => input.clone(),
            path if path.contains(FETCHED) => StreamContent::Fetched,
            path => self.file_content(path),
        }
    }

    fn run_script(
        &mut self,
        script: &StreamContent,
        shell: &mut ShellState,
    ) -> Verdict<StreamContent> {
        match script {
            StreamContent::Nothing | StreamContent::File => Ok(StreamContent::Unknown),
            StreamContent::Text(text) => self.evaluate(text, shell, &StreamContent::Nothing),
            StreamContent::Fetched => self.run_fetched(),
            StreamContent::Paths(_) | StreamContent::Unknown => {
                unclear("the script that it passes to a shell is unknown before it runs")
            }
        }
    }

    fn source(
        &mut self,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let Some(path) = arguments.first() else {
            return Ok(StreamContent::Nothing);
        };
        let script = self.script_content(path, input);
        let number = descriptor_number(path);
        if script == StreamContent::File && number.is_none_or(|number| number < FIRST_SUBSTITUTION)
        {
            shell.has_sourced = true;
            return Ok(StreamContent::Unknown);
        }
        self.run_script(&script, shell)
    }

    /// Examines a script that the command builds from its words.
    fn evaluate(
        &mut self,
        script: &str,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        if script.contains(FETCHED) {
            return self.run_fetched();
        }
        if script.trim() == TRUSTED.to_string() {
            shell.has_sourced = true;
            return Ok(StreamContent::Unknown);
        }
        match self.script(script, shell, input) {
            // The known parts are examined first, because they may be dangerous.
            Ok(_) if !is_known(script) => {
                unclear("the script that it builds is unknown before it runs")
            }
            verdict => verdict,
        }
    }

    /// Changes the current folder of the shell, as `cd` and the like do.
    fn change_folder(&mut self, name: &str, arguments: &[String], shell: &mut ShellState) {
        let parsed = ProgramArguments::new(arguments);
        let target = match (name, parsed.operands.first()) {
            ("popd", _) | (_, Some(&"-")) => None,
            ("pushd", None) => None,
            (_, None) => Some(self.home.as_str()),
            (_, Some(path)) => Some(*path),
        };
        let current = shell.folder.take();
        let Some(target) = target else {
            return;
        };
        if !is_known(target) || has_pattern(target) {
            return;
        }
        let base = match target.starts_with('/') {
            true => Some(PathBuf::from("/")),
            false => current,
        };
        let Some(mut folder) = base else {
            return;
        };
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(folder.pop()),
                name => folder.push(name),
            }
        }
        shell.folder = Some(folder);
    }
}

/// Returns a path that stands for any file below a folder.
fn path_below(folder: &str) -> String {
    format!("{}/found", folder.trim_end_matches('/'))
}

/// Returns the number of a file descriptor in `/dev/fd`.
pub(super) fn descriptor_number(path: &str) -> Option<usize> {
    path.strip_prefix("/dev/fd/")?.parse().ok()
}
