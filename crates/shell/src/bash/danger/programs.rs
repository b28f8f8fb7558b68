//! Programs that run others, and scripts.

use super::rules::{Given, values};
use super::walk::FIRST_SUBSTITUTED;
use super::words::{FETCHED, TRUSTED, UNKNOWN, is_known, unescaped};
use super::{Examiner, Input, Shell, Verdict, danger, unclear};

const SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "rbash", "sh", "zsh"];
/// Programs that run the rest of their arguments: their options with a value, and how many operands
/// stand before.
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
/// Programs with a language of their own, in whose strings commands may stand.
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
/// Those of them that write the files that they are given.
const EDITORS: [&str; 6] = ["ed", "emacs", "ex", "nvim", "vi", "vim"];
/// Those of them that fetch a script which they are given the address of.
const FETCH_SCRIPTS: [&str; 2] = ["bun", "deno"];
/// Options whose value a program gives to a shell, by itself or behind `=`.
const VALUES_THAT_RUN: [(&str, &str, &str); 9] = [
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
/// Programs that give what they are told to a shell.
const TELLS_SHELL: [&str; 7] = [
    "parallel", "rsh", "screen", "script", "ssh", "tmux", "watch",
];

impl Examiner {
    /// Examines a program that may run another; returns what it writes.
    pub(super) fn runs(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        if let Some((_, valued, before)) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name) {
            return self.wrapped(name, arguments, valued, *before, shell, input);
        }
        let is_interpreter = INTERPRETERS.contains(&name)
            || ["python", "ruby", "pypy", "tclsh"]
                .iter()
                .any(|it| name.starts_with(it));
        match name {
            _ if SHELLS.contains(&name) => self.shell(arguments, shell, input),
            _ if name.starts_with("ld-") || name.starts_with("ld.") => {
                self.wrapped(name, arguments, &[], 0, shell, input)
            }
            _ if is_interpreter => {
                for argument in arguments {
                    self.code(argument, shell)?;
                }
                let operands = Given::new(arguments).operands;
                if EDITORS.contains(&name) {
                    operands
                        .iter()
                        .try_for_each(|path| self.places.write(path, shell))?;
                }
                let is_address = |operand: &&str| {
                    operand.starts_with("http://") || operand.starts_with("https://")
                };
                if FETCH_SCRIPTS.contains(&name) && operands.iter().any(is_address) {
                    return self.fetched();
                }
                if let Input::Text(text) = input {
                    self.code(text, shell)?;
                }
                let is_fetched = *input == Input::Fetched
                    && !arguments
                        .iter()
                        .any(|it| ["-c", "-e", "-m"].contains(&it.as_str()));
                match is_fetched && !["awk", "gawk", "mawk", "nawk"].contains(&name) {
                    true => self.fetched(),
                    false => Ok(Input::Unknown),
                }
            }
            _ if TELLS_SHELL.contains(&name) => {
                for at in 0..arguments.len() {
                    self.suspect(&arguments[at..].join(" "), shell)?;
                }
                Ok(Input::Unknown)
            }
            "env" => self.env(arguments, shell, input),
            "xargs" => self.xargs(arguments, shell, input),
            "find" => self.find(arguments, shell),
            "eval" => self.evaluated(&arguments.join(" "), shell, input),
            "source" | "." => self.sourced(arguments, shell, input),
            "trap" => {
                if let Some(script) = arguments.iter().find(|argument| !argument.starts_with('-')) {
                    self.script(script, &mut shell.clone(), &Input::Nothing)?;
                    shell.traps.push(script.clone());
                }
                Ok(Input::Nothing)
            }
            "alias" => {
                for (_, script) in arguments
                    .iter()
                    .filter_map(|argument| argument.split_once('='))
                {
                    self.suspect(script, shell)?;
                }
                Ok(Input::Nothing)
            }
            "cd" | "pushd" | "popd" => {
                self.enter(name, arguments, shell);
                Ok(Input::Nothing)
            }
            "git"
                if arguments
                    .first()
                    .is_some_and(|verb| ["ls-files", "ls-tree"].contains(&verb.as_str())) =>
            {
                Ok(Input::Paths(vec![".".to_owned()]))
            }
            _ => self.builtin(name, arguments, shell, input),
        }
    }

    /// Examines what a program gives to a shell, of what it is told by its options.
    pub(super) fn values_that_run(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut Shell,
    ) -> Verdict {
        for (_, short, long) in VALUES_THAT_RUN
            .iter()
            .filter(|(program, ..)| *program == name)
        {
            for value in values(arguments, short, long) {
                let behind = value.split_once('=').map_or(value, |(_, behind)| behind);
                let script = behind.trim_start_matches('!').replace("$(shell ", "$(");
                self.suspect(&script, shell)?;
            }
        }
        Ok(())
    }

    fn builtin(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        let set = |shell: &mut Shell, names: &[&str]| {
            for name in names.iter().filter(|name| !name.starts_with('-')) {
                shell
                    .variables
                    .insert((*name).to_owned(), vec![UNKNOWN.to_string()]);
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
                Ok(Input::Text(if all.len() > words.len() {
                    unescaped(&text)
                } else {
                    text
                }))
            }
            "printf" => {
                set(shell, &values(arguments, "-v", "-v"));
                // What a format makes of its arguments is worked out where it is plain.
                match all.as_slice() {
                    [format] if !format.contains('%') => Ok(Input::Text(unescaped(format))),
                    ["%s" | "%s\\n", text] => Ok(Input::Text((*text).to_owned())),
                    _ => Ok(Input::Unknown),
                }
            }
            "cat" | "tac" | "head" | "tail" | "sort" | "uniq" | "grep" | "tr"
                if all.is_empty() || all == ["-"] =>
            {
                Ok(if name == "cat" {
                    input.clone()
                } else {
                    self.passed(input)
                })
            }
            "cat" => match all.as_slice() {
                [path] => Ok(self.file(path)),
                _ => Ok(Input::File),
            },
            "mktemp" => {
                let folder = shell
                    .variables
                    .get("TMPDIR")
                    .map_or_else(|| "/tmp".to_owned(), |folder| folder.concat());
                Ok(Input::Text(format!("{folder}/tmp.made")))
            }
            "pwd" => Ok(shell.folder.as_ref().map_or(Input::Unknown, |path| {
                Input::Text(path.to_string_lossy().into())
            })),
            "which" | "type" => Ok(all
                .last()
                .map_or(Input::Nothing, |name| Input::Text((*name).to_owned()))),
            "ls" | "fd" => Ok(Input::Unknown),
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
                Ok(Input::Nothing)
            }
            "shift" => {
                let count = all
                    .first()
                    .and_then(|count| count.parse().ok())
                    .unwrap_or(1)
                    .min(shell.positionals.len());
                shell.positionals.drain(..count);
                Ok(Input::Nothing)
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for script in values(arguments, "-C", "-C") {
                    self.script(script, &mut shell.clone(), &Input::Nothing)?;
                }
                set(shell, &all);
                Ok(Input::Nothing)
            }
            "unset" => {
                all.iter()
                    .for_each(|name| drop(shell.variables.remove(*name)));
                Ok(Input::Nothing)
            }
            "declare" | "local" | "typeset"
                if all
                    .iter()
                    .any(|option| option.starts_with('-') && option.contains('n')) =>
            {
                let names: Vec<&str> = all
                    .iter()
                    .map(|word| word.split('=').next().unwrap_or(word))
                    .collect();
                set(shell, &names);
                Ok(Input::Nothing)
            }
            "compgen" => {
                for script in values(arguments, "-C", "-C") {
                    self.script(script, &mut shell.clone(), &Input::Nothing)?;
                }
                for words in values(arguments, "-W", "-W") {
                    self.document(words, shell)?;
                }
                Ok(Input::Unknown)
            }
            _ => Ok(self.passed(input)),
        }
    }

    /// What any program makes of its input: from the network stays from the network.
    fn passed(&self, input: &Input) -> Input {
        match input {
            Input::Fetched => Input::Fetched,
            _ => Input::Unknown,
        }
    }

    pub(super) fn fetched(&self) -> Verdict<Input> {
        match self.refuse_fetched_scripts {
            true => danger(
                "it runs a script as it is fetched; fetch it into a file, read it, then run that",
            ),
            false => Ok(Input::Unknown),
        }
    }

    fn wrapped(
        &mut self,
        name: &str,
        arguments: &[String],
        valued: &[&str],
        before: usize,
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        if name == "command"
            && arguments
                .first()
                .is_some_and(|option| ["-v", "-V"].contains(&option.as_str()))
        {
            return Ok(arguments
                .last()
                .map_or(Input::Nothing, |name| Input::Text(name.clone())));
        }
        if name == "flock" {
            for script in values(arguments, "-c", "--command") {
                self.script(script, &mut shell.clone(), input)?;
            }
        }
        let mut at = 0;
        while let Some(option) = arguments
            .get(at)
            .filter(|option| option.starts_with('-') && option.len() > 1)
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
            .get(at + before..)
            .unwrap_or_default()
            .split_first()
        {
            Some((name, arguments)) => self.start(name, arguments, shell, input),
            None => Ok(Input::Nothing),
        }
    }

    fn env(&mut self, arguments: &[String], shell: &mut Shell, input: &Input) -> Verdict<Input> {
        for text in values(arguments, "-S", "--split-string") {
            self.script(text, &mut shell.clone(), input)?;
        }
        let mut at = 0;
        let mut inner = shell.clone();
        while let Some(argument) = arguments.get(at) {
            match argument.as_str() {
                "-u" | "--unset" | "-S" | "--split-string" => at += 2,
                "-C" | "--chdir" => {
                    self.enter(
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
        Ok(Input::Unknown)
    }

    fn xargs(&mut self, arguments: &[String], shell: &mut Shell, input: &Input) -> Verdict<Input> {
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
        while let Some(option) = arguments.get(at).filter(|option| option.starts_with('-')) {
            at += if VALUED.contains(&option.as_str()) {
                2
            } else {
                1
            };
        }
        let read = match input {
            _ if arguments
                .iter()
                .take(at)
                .any(|option| option.starts_with("-a") || option.starts_with("--arg")) =>
            {
                vec![UNKNOWN.to_string()]
            }
            Input::Nothing => Vec::new(),
            Input::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Input::Paths(paths) => paths
                .iter()
                .map(|path| format!("{}/found", path.trim_end_matches('/')))
                .collect(),
            Input::Fetched => vec![FETCHED.to_string()],
            Input::File | Input::Unknown => vec![UNKNOWN.to_string()],
        };
        let Some((name, rest)) = arguments.get(at..).unwrap_or_default().split_first() else {
            return Ok(Input::Unknown);
        };
        let sign = values(arguments, "-I", "--replace").first().copied();
        let sign = sign.or_else(|| {
            arguments
                .iter()
                .any(|option| option == "-i")
                .then_some("{}")
        });
        match sign {
            None => {
                let all: Vec<String> = rest.iter().cloned().chain(read).collect();
                self.start(name, &all, shell, &Input::Nothing)
            }
            Some(sign) => {
                for value in read {
                    let put = |text: &String| text.replace(sign, &value);
                    self.start(
                        &put(name),
                        &rest.iter().map(put).collect::<Vec<_>>(),
                        shell,
                        &Input::Nothing,
                    )?;
                }
                Ok(Input::Unknown)
            }
        }
    }

    fn find(&mut self, arguments: &[String], shell: &mut Shell) -> Verdict<Input> {
        let begins =
            |word: &String| word.starts_with('-') && !["-H", "-L", "-P"].contains(&word.as_str());
        let end = arguments
            .iter()
            .position(|word| begins(word) || word == "(" || word == "!")
            .unwrap_or(arguments.len());
        let mut starts: Vec<String> = arguments[..end]
            .iter()
            .filter(|word| !word.starts_with('-'))
            .cloned()
            .collect();
        if starts.is_empty() {
            starts.push(".".to_owned());
        }
        for (at, word) in arguments.iter().enumerate().skip(end) {
            match word.as_str() {
                "-delete" => {
                    for start in &starts {
                        self.places.tree(start, shell, "deletes", true)?;
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let rest = &arguments[at + 1..];
                    let ends = |word: &String| word == ";" || word == "+";
                    let command = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
                    for start in &starts {
                        self.found(command, start, shell)?;
                    }
                }
                "-fprint" | "-fprintf" | "-fls" | "-fprint0" => {
                    if let Some(path) = arguments.get(at + 1) {
                        self.places.write(path, shell)?;
                    }
                }
                _ => {}
            }
        }
        Ok(Input::Paths(starts))
    }

    /// Examines what `find` runs on what lies below `start`.
    fn found(&mut self, command: &[String], start: &str, shell: &mut Shell) -> Verdict {
        let below = format!("{}/found", start.trim_end_matches('/'));
        let command: Vec<String> = command
            .iter()
            .map(|word| word.replace("{}", &below))
            .collect();
        let Some((name, arguments)) = command.split_first() else {
            return Ok(());
        };
        if ["rm", "shred", "unlink"].contains(&name.rsplit('/').next().unwrap_or(name)) {
            self.places.tree(start, shell, "deletes", true)?;
        }
        self.start(name, arguments, shell, &Input::Nothing)?;
        Ok(())
    }

    fn shell(&mut self, arguments: &[String], shell: &mut Shell, input: &Input) -> Verdict<Input> {
        const VALUED: [&str; 6] = ["-o", "+o", "-O", "+O", "--rcfile", "--init-file"];
        let mut inner = shell.clone();
        let mut at = 0;
        let (mut is_script, mut is_input, mut is_interactive) = (false, false, false);
        while let Some(option) = arguments
            .get(at)
            .filter(|option| option.starts_with(['-', '+']))
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
                return Ok(Input::Nothing);
            };
            if let Some((name, parameters)) = parameters.split_first() {
                inner.variables.insert("0".to_owned(), vec![name.clone()]);
                inner.positionals = parameters.to_vec();
            }
            return self.evaluated(script, &mut inner, input);
        }
        if is_interactive {
            return danger("it starts a shell that waits for orders, which nobody gives here");
        }
        let read = match rest.first() {
            Some(path) if !is_input => self.named_script(path, input),
            _ => input.clone(),
        };
        self.read_script(&read, &mut inner)
    }

    /// What a script that is named is read from.
    fn named_script(&self, path: &str, input: &Input) -> Input {
        match path {
            "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" => input.clone(),
            path if path.contains(FETCHED) => Input::Fetched,
            path => self.file(path),
        }
    }

    fn read_script(&mut self, read: &Input, shell: &mut Shell) -> Verdict<Input> {
        match read {
            Input::Nothing | Input::File => Ok(Input::Unknown),
            Input::Text(script) => self.evaluated(script, shell, &Input::Nothing),
            Input::Fetched => self.fetched(),
            Input::Paths(_) | Input::Unknown => {
                unclear("the script that it gives to a shell cannot be known before it runs")
            }
        }
    }

    fn sourced(
        &mut self,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        let Some(path) = arguments.first() else {
            return Ok(Input::Nothing);
        };
        let read = self.named_script(path, input);
        let number = path
            .strip_prefix("/dev/fd/")
            .and_then(|number| number.parse::<usize>().ok());
        if read == Input::File && number.is_none_or(|number| number < FIRST_SUBSTITUTED) {
            shell.has_sourced = true;
            return Ok(Input::Unknown);
        }
        self.read_script(&read, shell)
    }

    /// Examines a script that was put together.
    fn evaluated(&mut self, script: &str, shell: &mut Shell, input: &Input) -> Verdict<Input> {
        if script.contains(FETCHED) {
            return self.fetched();
        }
        if script.trim() == TRUSTED.to_string() {
            shell.has_sourced = true;
            return Ok(Input::Unknown);
        }
        match self.script(script, shell, input) {
            // What is known of it may be dangerous enough.
            Ok(_) if !is_known(script) => {
                unclear("the script that it puts together cannot be known before it runs")
            }
            verdict => verdict,
        }
    }

    fn enter(&mut self, name: &str, arguments: &[String], shell: &mut Shell) {
        let given = Given::new(arguments);
        let target = match (name, given.operands.first()) {
            ("popd", _) | (_, Some(&"-")) => None,
            ("pushd", None) => None,
            (_, None) => Some(self.home.clone()),
            (_, Some(path)) => Some((*path).to_owned()),
        };
        let Some(target) =
            target.filter(|target| is_known(target) && !super::words::has_pattern(target))
        else {
            shell.folder = None;
            return;
        };
        let base = match target.starts_with('/') {
            true => Some(std::path::PathBuf::from("/")),
            false => shell.folder.clone(),
        };
        shell.folder = base.map(|mut folder| {
            for part in target
                .split('/')
                .filter(|part| !part.is_empty() && *part != ".")
            {
                match part {
                    ".." => drop(folder.pop()),
                    part => folder.push(part),
                }
            }
            folder
        });
    }
}
