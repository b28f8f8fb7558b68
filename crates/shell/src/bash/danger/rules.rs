//! The rules for single programs.

use super::paths::RootRule;
use super::words::{TRUSTED, is_known};
use super::{
    CommandRefusal, Examiner, ShellState, StreamContent, Verdict, danger, excerpt, unclear,
};

/// Programs that change the user. They need a password, which cannot be given.
const USER_CHANGERS: [&str; 8] = [
    "doas", "pkexec", "run0", "runuser", "setpriv", "sg", "su", "sudo",
];
/// Programs that shut the machine down or change the running system.
const SYSTEM_CHANGERS: [&str; 28] = [
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
/// Programs that start other programs outside the call.
const SCHEDULERS: [&str; 4] = ["at", "batch", "systemd-run", "launchctl"];
/// Programs that write all files in their arguments.
const WRITERS: [&str; 37] = [
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
/// Programs that write the last file in their arguments.
const COPIERS: [&str; 6] = ["cp", "install", "ln", "rsync", "scp", "link"];
/// Programs that fetch data from the network and write it.
const FETCHERS: [&str; 9] = [
    "aria2c", "curl", "fetch", "ftp", "http", "https", "lynx", "wget", "xh",
];
/// Programs whose output is meant to be evaluated by a shell.
const TRUSTED_PROGRAMS: [&str; 17] = [
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

/// The arguments of a program, separated into options and operands.
pub(super) struct ProgramArguments<'a> {
    pub(super) options: Vec<&'a str>,
    pub(super) operands: Vec<&'a str>,
}

impl<'a> ProgramArguments<'a> {
    pub(super) fn new(arguments: &'a [String]) -> Self {
        let (mut options, mut operands) = (Vec::new(), Vec::new());
        let mut has_ended = false;
        for argument in arguments {
            match argument.as_str() {
                "--" if !has_ended => has_ended = true,
                option if !has_ended && option.len() > 1 && option.starts_with('-') => {
                    options.push(option);
                }
                operand => operands.push(operand),
            }
        }
        Self { options, operands }
    }

    /// Returns `true` if the options contain one of these letters, or this word or a prefix of it.
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

/// Returns the values of an option: `-o value`, `-ovalue`, `--option value`, `--option=value`.
pub(super) fn option_values<'a>(arguments: &'a [String], short: &str, long: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let assigned = argument
            .strip_prefix(long)
            .and_then(|rest| rest.strip_prefix('='));
        let value = if argument == short || argument == long {
            arguments.get(at + 1).map(String::as_str)
        } else if assigned.is_some() {
            assigned
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
    /// Examines a program by its name, and returns the known content of its output.
    pub(super) fn judge(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let parsed = ProgramArguments::new(arguments);
        for argument in arguments {
            self.paths.check_read(argument, shell)?;
        }
        self.examine_option_scripts(&file, arguments, shell)?;
        match file.as_str() {
            name if USER_CHANGERS.contains(&name) => danger(format!(
                "{name} needs a password, which cannot be given here"
            )),
            name if SYSTEM_CHANGERS.contains(&name) => {
                danger(format!("{name} changes the system itself"))
            }
            name if SCHEDULERS.contains(&name) => {
                danger(format!("what {name} starts would outlive the call"))
            }
            "crontab" if !parsed.has("l", "list") => {
                danger("what crontab sets up would outlive the call")
            }
            "mount" if !parsed.operands.is_empty() => danger("mount changes the system itself"),
            "systemctl" | "loginctl" => check_systemctl(&parsed),
            "kill" => check_kill(arguments),
            "pkill" | "killall" | "skill" => {
                let matches_all = parsed
                    .operands
                    .iter()
                    .all(|pattern| pattern.chars().all(|letter| ".*^$".contains(letter)));
                match matches_all || parsed.has("uUv", "inverse") {
                    true => danger("it ends programs that it did not start"),
                    false => Ok(StreamContent::Nothing),
                }
            }
            "docker" | "podman" | "nerdctl" => check_container(arguments),
            "nc" | "ncat" | "netcat" if parsed.has("ec", "exec") => {
                danger("it gives a shell to the network")
            }
            "socat"
                if arguments
                    .iter()
                    .any(|argument| argument.to_lowercase().contains("exec:")) =>
            {
                danger("it gives a shell to the network")
            }
            "enable" if parsed.has("f", "") => danger("it loads code into the shell"),
            "hash" if parsed.has("p", "") => danger("it gives a program another's name"),
            "shopt"
                if arguments
                    .iter()
                    .any(|argument| argument == "expand_aliases") =>
            {
                unclear("with aliases switched on, the commands that run are unknown")
            }
            name if name.starts_with("mkfs") || name.starts_with("fsck") => {
                self.check_writes(&parsed.operands, shell)
            }
            "rm" | "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" => {
                self.check_recursive(&file, &parsed, shell)?;
                self.check_writes(&parsed.operands, shell)
            }
            name if WRITERS.contains(&name) => {
                let output = self.check_writes(&parsed.operands, shell)?;
                Ok(if name == "tee" { input.clone() } else { output })
            }
            name if COPIERS.contains(&name) => self.check_copy(name, arguments, &parsed, shell),
            "mv" | "rename" => {
                for path in &parsed.operands {
                    self.paths.check_move(path, shell)?;
                }
                Ok(StreamContent::Nothing)
            }
            "dd" => {
                for argument in arguments {
                    if let Some(path) = argument.strip_prefix("of=") {
                        self.paths.check_write(path, shell)?;
                    }
                }
                Ok(StreamContent::Unknown)
            }
            "sed" | "gsed" if parsed.has("i", "in-place") => {
                self.check_writes(&parsed.operands, shell)
            }
            "tar" | "unzip" | "bsdtar" => {
                if file == "tar" && parsed.has("", "remove-files") {
                    for path in &parsed.operands {
                        self.paths
                            .check_tree(path, shell, "deletes", RootRule::Refuse)?;
                    }
                }
                let mut folders = option_values(arguments, "-C", "--directory");
                folders.extend(option_values(arguments, "-d", "--dir"));
                for folder in folders {
                    self.paths.check_write(&format!("{folder}/file"), shell)?;
                }
                Ok(StreamContent::Unknown)
            }
            name if FETCHERS.contains(&name) => {
                self.fetches += 1;
                for (short, long) in [
                    ("-o", "--output"),
                    ("-O", "--output-document"),
                    ("-P", "--directory-prefix"),
                ] {
                    for path in option_values(arguments, short, long) {
                        self.paths.check_write(path, shell)?;
                    }
                }
                Ok(StreamContent::Fetched)
            }
            "git" if parsed.operands.contains(&"clean") => {
                for folder in option_values(arguments, "-C", "--work-tree") {
                    self.paths
                        .check_tree(folder, shell, "cleans", RootRule::Allow)?;
                }
                Ok(StreamContent::Unknown)
            }
            name if TRUSTED_PROGRAMS.contains(&name) => {
                Ok(StreamContent::Text(TRUSTED.to_string()))
            }
            name => {
                for path in option_values(arguments, "-o", "--output") {
                    self.paths.check_write(path, shell)?;
                }
                self.run_program(name, arguments, shell, input)
            }
        }
    }

    /// Examines a program with an unknown name by the rules of the most destructive programs.
    pub(super) fn judge_unknown(
        &mut self,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        for name in ["rm", "dd", "tee", "kill", "find", "env", "bash", "mv"] {
            if let Err(CommandRefusal::Danger(reason)) =
                self.judge(name, arguments, &mut shell.clone(), &StreamContent::Nothing)
            {
                return danger(format!(
                    "its name is unknown before it runs; if it were {name}: {reason}"
                ));
            }
        }
        match input {
            StreamContent::Fetched => {
                danger("its name is unknown, and it reads data from the network")
            }
            _ => Ok(StreamContent::Unknown),
        }
    }

    fn check_writes(&mut self, paths: &[&str], shell: &ShellState) -> Verdict<StreamContent> {
        for path in paths {
            self.paths.check_write(path, shell)?;
        }
        Ok(StreamContent::Nothing)
    }

    /// Examines the recursive use of `rm`, `chmod` and the like.
    fn check_recursive(
        &mut self,
        name: &str,
        parsed: &ProgramArguments<'_>,
        shell: &ShellState,
    ) -> Verdict {
        let (letters, action, root_rule) = match name {
            "rm" => ("rR", "deletes", RootRule::Refuse),
            _ => ("R", "changes", RootRule::Allow),
        };
        let is_recursive = parsed.has(letters, "recursive");
        // An unknown operand may be the option.
        let may_be_recursive = parsed
            .operands
            .iter()
            .any(|operand| !is_known(operand) && !operand.contains('/'));
        if name == "rm" && parsed.has("", "no-preserve-root") {
            return danger("it deletes the root folder of the system");
        }
        // The first operand of the other programs is the mode or the owner.
        let paths = match name {
            "rm" => &parsed.operands[..],
            _ => parsed.operands.get(1..).unwrap_or_default(),
        };
        for path in paths {
            if is_recursive || (may_be_recursive && is_known(path)) {
                self.paths.check_tree(path, shell, action, root_rule)?;
            }
        }
        Ok(())
    }

    /// Examines a program that copies or links files, and records links to paths outside the root.
    fn check_copy(
        &mut self,
        name: &str,
        arguments: &[String],
        parsed: &ProgramArguments<'_>,
        shell: &mut ShellState,
    ) -> Verdict<StreamContent> {
        let mut targets = option_values(arguments, "-t", "--target-directory");
        if targets.is_empty()
            && let [_, .., last] = parsed.operands.as_slice()
        {
            targets.push(last);
        }
        let deletes = arguments
            .iter()
            .any(|argument| argument.starts_with("--del"));
        for path in targets {
            // A copy to another machine.
            if matches!(name, "rsync" | "scp") && path.contains(':') {
                continue;
            }
            self.paths.check_write(path, shell)?;
            if name == "rsync" && deletes {
                self.paths
                    .check_tree(path, shell, "deletes", RootRule::Allow)?;
            }
        }
        if name == "ln" {
            let mut names = Vec::new();
            for path in &parsed.operands {
                if self.paths.is_outside(path, shell) {
                    names.push(file_name(path));
                }
            }
            names.extend(parsed.operands.last().map(|path| file_name(path)));
            // With one name only, no target is outside.
            if names.len() > 1 {
                shell.links.extend(names);
            }
        }
        Ok(StreamContent::Nothing)
    }
}

fn file_name(path: &str) -> String {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn check_systemctl(parsed: &ProgramArguments<'_>) -> Verdict<StreamContent> {
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
    match parsed.operands.iter().find(|verb| VERBS.contains(verb)) {
        Some(verb) => danger(format!("{verb} changes the system itself")),
        None => Ok(StreamContent::Unknown),
    }
}

fn check_kill(arguments: &[String]) -> Verdict<StreamContent> {
    // The first option is the signal. A negative number after it is a process group.
    let skipped = match arguments.first().map(String::as_str) {
        Some("-s" | "-n" | "--signal") => 2,
        Some(signal) if signal.starts_with('-') && signal != "--" => 1,
        _ => 0,
    };
    for operand in arguments.iter().skip(skipped) {
        match operand.as_str() {
            "-1" => return danger("it ends every program of the user"),
            "1" => return danger("it ends the program that runs the tool, or the system's first"),
            _ => {}
        }
    }
    Ok(StreamContent::Nothing)
}

fn check_container(arguments: &[String]) -> Verdict<StreamContent> {
    let mounts_root = |value: &str| {
        let source = value
            .split(',')
            .find_map(|part| part.strip_prefix("source=").or(part.strip_prefix("src=")));
        let source = source.unwrap_or_else(|| value.split(':').next().unwrap_or(value));
        !source.is_empty()
            && source.chars().all(|letter| letter == '/' || letter == '.')
            && source.starts_with('/')
    };
    let mut volumes = option_values(arguments, "-v", "--volume");
    volumes.extend(option_values(arguments, "", "--mount"));
    if arguments.iter().any(|argument| argument == "--privileged")
        || volumes.iter().any(|value| mounts_root(value))
    {
        return danger("it gives a container the system itself");
    }
    match arguments
        .iter()
        .find(|argument| argument.starts_with("--pid=host"))
    {
        Some(option) => danger(format!(
            "{} gives a container the system itself",
            excerpt(option)
        )),
        None => Ok(StreamContent::Unknown),
    }
}
