//! What no program may be asked.

use super::words::is_known;
use super::{Examiner, Input, Refusal, Shell, Verdict, danger, shown, unclear};

/// What becomes another user, for which nobody gives a password here.
const BECOMES: [&str; 8] = [
    "doas", "pkexec", "run0", "runuser", "setpriv", "sg", "su", "sudo",
];
/// What switches the machine off, or changes the system that runs.
const OF_SYSTEM: [&str; 28] = [
    "chpasswd",
    "groupadd",
    "groupdel",
    "halt",
    "init",
    "insmod",
    "kexec",
    "killall5",
    "modprobe",
    "passwd",
    "pivot_root",
    "poweroff",
    "reboot",
    "rmmod",
    "shutdown",
    "swapoff",
    "swapon",
    "switch_root",
    "telinit",
    "umount",
    "useradd",
    "userdel",
    "usermod",
    "vigr",
    "vipw",
    "visudo",
    "vtysh",
    "zpool",
];
/// What starts programs that outlive the call.
const OUTLIVES: [&str; 4] = ["at", "batch", "systemd-run", "launchctl"];
/// What writes all the files that it is given.
const WRITES: [&str; 37] = [
    "badblocks",
    "blkdiscard",
    "cfdisk",
    "chattr",
    "chgrp",
    "chmod",
    "chown",
    "debugfs",
    "fdisk",
    "gdisk",
    "hdparm",
    "mkdir",
    "mke2fs",
    "mkfifo",
    "mknod",
    "mkswap",
    "parted",
    "rm",
    "rmdir",
    "setcap",
    "setfacl",
    "sfdisk",
    "sgdisk",
    "shred",
    "sponge",
    "srm",
    "tee",
    "touch",
    "truncate",
    "tune2fs",
    "unlink",
    "wipe",
    "wipefs",
    "xfs_repair",
    "cryptsetup",
    "losetup",
    "lvremove",
];
/// What writes the last of the files that it is given.
const COPIES: [&str; 6] = ["cp", "install", "ln", "rsync", "scp", "link"];
/// What fetches from the network and writes what it gets.
const FETCHES: [&str; 9] = [
    "aria2c", "curl", "fetch", "ftp", "http", "https", "lynx", "wget", "xh",
];
/// Programs whose output is made to be evaluated.
const TRUSTED: [&str; 17] = [
    "brew",
    "conda",
    "direnv",
    "dircolors",
    "fnm",
    "lesspipe",
    "luarocks",
    "mise",
    "nodenv",
    "opam",
    "pyenv",
    "rbenv",
    "ssh-agent",
    "starship",
    "minikube",
    "docker-machine",
    "zoxide",
];

/// The arguments of a program: options, and what it is to work on.
pub(super) struct Given<'a> {
    pub(super) options: Vec<&'a str>,
    pub(super) operands: Vec<&'a str>,
}

impl<'a> Given<'a> {
    pub(super) fn new(arguments: &'a [String]) -> Self {
        let (mut options, mut operands) = (Vec::new(), Vec::new());
        let mut ended = false;
        for argument in arguments {
            match argument.as_str() {
                "--" if !ended => ended = true,
                option if !ended && option.len() > 1 && option.starts_with('-') => {
                    options.push(option)
                }
                operand => operands.push(operand),
            }
        }
        Self { options, operands }
    }

    /// Returns `true` if an option is given: one of these letters, or this word, which may be
    /// shortened.
    pub(super) fn has(&self, letters: &str, word: &str) -> bool {
        self.options
            .iter()
            .any(|option| match option.strip_prefix("--") {
                Some(long) => {
                    let long = long.split('=').next().unwrap_or(long);
                    !long.is_empty() && word.starts_with(long)
                }
                None => option[1..].contains(|letter| letters.contains(letter)),
            })
    }
}

/// Returns the value of an option: `-o value`, `-ovalue`, `--option value`, `--option=value`.
pub(super) fn values<'a>(arguments: &'a [String], short: &str, long: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let next = || arguments.get(at + 1).map(String::as_str);
        let value = if argument == short || argument == long {
            next()
        } else if let Some(value) = argument
            .strip_prefix(long)
            .and_then(|rest| rest.strip_prefix('='))
        {
            Some(value)
        } else if !argument.starts_with("--") && !short.is_empty() {
            argument.strip_prefix(short)
        } else {
            None
        };
        values.extend(value);
    }
    values
}

impl Examiner {
    /// Examines a command by its name.
    pub(super) fn judge(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let given = Given::new(arguments);
        for argument in arguments {
            self.places.read(argument, shell)?;
        }
        self.values_that_run(&file, arguments, shell)?;
        match file.as_str() {
            name if BECOMES.contains(&name) => danger(format!(
                "{name} needs a password, which nobody can give here"
            )),
            name if OF_SYSTEM.contains(&name) => {
                danger(format!("{name} changes the system itself"))
            }
            name if OUTLIVES.contains(&name) => {
                danger(format!("what {name} starts would outlive the call"))
            }
            "crontab" if !given.has("l", "list") => {
                danger("what crontab sets up would outlive the call")
            }
            "mount" if !given.operands.is_empty() => danger("mount changes the system itself"),
            "systemctl" | "loginctl" => systemctl(&given),
            "kill" => kill(arguments),
            "pkill" | "killall" | "skill" => {
                let all = given
                    .operands
                    .iter()
                    .all(|pattern| pattern.chars().all(|letter| ".*^$".contains(letter)));
                match all || given.has("uUv", "inverse") {
                    true => danger("it ends programs that it did not start"),
                    false => Ok(Input::Nothing),
                }
            }
            "docker" | "podman" | "nerdctl" => container(arguments),
            "nc" | "ncat" | "netcat" if given.has("ec", "exec") => {
                danger("it gives a shell to the network")
            }
            "socat"
                if arguments
                    .iter()
                    .any(|argument| argument.to_lowercase().contains("exec:")) =>
            {
                danger("it gives a shell to the network")
            }
            "enable" if given.has("f", "") => danger("it loads code into the shell"),
            "hash" if given.has("p", "") => danger("it gives a program another's name"),
            "shopt"
                if arguments
                    .iter()
                    .any(|argument| argument == "expand_aliases") =>
            {
                unclear("with aliases switched on, what runs cannot be known")
            }
            name if name.starts_with("mkfs") || name.starts_with("fsck") => {
                self.writes(&given.operands, shell)
            }
            "rm" | "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" => {
                self.tree(&file, &given, shell)?;
                self.writes(&given.operands, shell)
            }
            name if WRITES.contains(&name) => {
                let written = self.writes(&given.operands, shell)?;
                Ok(if name == "tee" {
                    input.clone()
                } else {
                    written
                })
            }
            name if COPIES.contains(&name) => self.copies(name, arguments, &given, shell),
            "mv" | "rename" => {
                for path in &given.operands {
                    self.places.take(path, shell)?;
                }
                Ok(Input::Nothing)
            }
            "dd" => {
                for path in arguments
                    .iter()
                    .filter_map(|argument| argument.strip_prefix("of="))
                {
                    self.places.write(path, shell)?;
                }
                Ok(Input::Unknown)
            }
            "sed" | "gsed" if given.has("i", "in-place") => self.writes(&given.operands, shell),
            "tar" | "unzip" | "bsdtar" => {
                if file == "tar" && given.has("", "remove-files") {
                    for path in &given.operands {
                        self.places.tree(path, shell, "deletes", false)?;
                    }
                }
                for folder in values(arguments, "-C", "--directory")
                    .into_iter()
                    .chain(values(arguments, "-d", "--dir"))
                {
                    self.places.write(&format!("{folder}/file"), shell)?;
                }
                Ok(Input::Unknown)
            }
            name if FETCHES.contains(&name) => {
                self.fetches += 1;
                for (short, long) in [
                    ("-o", "--output"),
                    ("-O", "--output-document"),
                    ("-P", "--directory-prefix"),
                ] {
                    values(arguments, short, long)
                        .iter()
                        .try_for_each(|path| self.places.write(path, shell))?;
                }
                Ok(Input::Fetched)
            }
            "git" if given.operands.contains(&"clean") => {
                for folder in values(arguments, "-C", "--work-tree") {
                    self.places.tree(folder, shell, "cleans", true)?;
                }
                Ok(Input::Unknown)
            }
            name if TRUSTED.contains(&name) => Ok(Input::Text(super::words::TRUSTED.to_string())),
            name => {
                for path in values(arguments, "-o", "--output") {
                    self.places.write(path, shell)?;
                }
                self.runs(name, arguments, shell, input)
            }
        }
    }

    /// Examines a command whose name is not known: it may be what destroys most.
    pub(super) fn unnamed(
        &mut self,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        for name in ["rm", "dd", "tee", "kill", "find", "env", "bash", "mv"] {
            if let Err(Refusal::Danger(reason)) =
                self.judge(name, arguments, &mut shell.clone(), &Input::Nothing)
            {
                return danger(format!(
                    "its name cannot be known before it runs; if it were {name}: {reason}"
                ));
            }
        }
        match input {
            Input::Fetched => danger("its name cannot be known, and it reads what was fetched"),
            _ => Ok(Input::Unknown),
        }
    }

    fn writes(&mut self, paths: &[&str], shell: &Shell) -> Verdict<Input> {
        for path in paths {
            self.places.write(path, shell)?;
        }
        Ok(Input::Nothing)
    }

    fn tree(&mut self, name: &str, given: &Given<'_>, shell: &Shell) -> Verdict {
        let (letters, does) = match name {
            "rm" => ("rR", "deletes"),
            _ => ("R", "changes"),
        };
        let recursive = given.has(letters, "recursive");
        // An operand that is not known may be an option.
        let may_be = given
            .operands
            .iter()
            .any(|operand| !is_known(operand) && !operand.contains('/'));
        if name == "rm" && given.has("", "no-preserve-root") {
            return danger("it deletes what holds everything");
        }
        // The first operand of the others says how, unless that stands in an option.
        let paths = match name {
            "rm" => &given.operands[..],
            _ => given.operands.get(1..).unwrap_or_default(),
        };
        for path in paths {
            if recursive || (may_be && is_known(path)) {
                self.places.tree(path, shell, does, name != "rm")?;
            }
        }
        Ok(())
    }

    fn copies(
        &mut self,
        name: &str,
        arguments: &[String],
        given: &Given<'_>,
        shell: &mut Shell,
    ) -> Verdict<Input> {
        let into = values(arguments, "-t", "--target-directory");
        let last = given
            .operands
            .last()
            .copied()
            .filter(|_| into.is_empty() && given.operands.len() > 1);
        for path in into.iter().copied().chain(last) {
            // A copy to another machine.
            if matches!(name, "rsync" | "scp") && path.contains(':') {
                continue;
            }
            self.places.write(path, shell)?;
            if name == "rsync"
                && arguments
                    .iter()
                    .any(|argument| argument.starts_with("--del"))
            {
                self.places.tree(path, shell, "deletes", true)?;
            }
        }
        if name == "ln" {
            let outside = given
                .operands
                .iter()
                .filter(|path| self.places.is_outside(path, shell));
            let names: Vec<String> = outside
                .chain(given.operands.last())
                .filter_map(|path| {
                    path.trim_end_matches('/')
                        .rsplit('/')
                        .next()
                        .map(str::to_owned)
                })
                .collect();
            // The last name alone is harmless: what it leads to decides.
            if names.len() > 1 {
                shell.links.extend(names);
            }
        }
        Ok(Input::Nothing)
    }
}

fn systemctl(given: &Given<'_>) -> Verdict<Input> {
    const VERBS: [&str; 14] = [
        "default",
        "emergency",
        "exit",
        "halt",
        "hibernate",
        "hybrid-sleep",
        "isolate",
        "kexec",
        "poweroff",
        "reboot",
        "rescue",
        "soft-reboot",
        "suspend",
        "suspend-then-hibernate",
    ];
    match given.operands.iter().find(|verb| VERBS.contains(verb)) {
        Some(verb) => danger(format!("{verb} changes the system itself")),
        None => Ok(Input::Unknown),
    }
}

fn kill(arguments: &[String]) -> Verdict<Input> {
    // The first option is the signal: a number with a sign behind it is a group of processes.
    let skipped = match arguments.first().map(String::as_str) {
        Some("-s" | "-n" | "--signal") => 2,
        Some(signal) if signal.starts_with('-') && signal != "--" => 1,
        _ => 0,
    };
    let operands = arguments
        .iter()
        .skip(skipped)
        .filter(|operand| *operand != "--");
    for operand in operands {
        match operand.as_str() {
            "-1" => return danger("it ends every program of the user"),
            "1" => return danger("it ends the program that runs the tool, or the system's first"),
            _ => {}
        }
    }
    Ok(Input::Nothing)
}

fn container(arguments: &[String]) -> Verdict<Input> {
    let mounts_all = |value: &str| {
        let source = value
            .split(',')
            .find_map(|part| part.strip_prefix("source=").or(part.strip_prefix("src=")));
        let source = source.unwrap_or_else(|| value.split(':').next().unwrap_or(value));
        !source.is_empty()
            && source.chars().all(|letter| letter == '/' || letter == '.')
            && source.starts_with('/')
    };
    let mut volumes = values(arguments, "-v", "--volume");
    volumes.extend(values(arguments, "", "--mount"));
    if arguments.iter().any(|argument| argument == "--privileged")
        || volumes.iter().any(|value| mounts_all(value))
    {
        return danger("it gives a container the system itself");
    }
    match arguments
        .iter()
        .find(|argument| argument.starts_with("--pid=host"))
    {
        Some(option) => danger(format!(
            "{} gives a container the system itself",
            shown(option)
        )),
        None => Ok(Input::Unknown),
    }
}
