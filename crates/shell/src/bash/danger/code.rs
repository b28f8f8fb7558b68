//! Examination of code in other languages. It reads only strings, and the names of destructive
//! functions.

use super::paths::RootRule;
use super::{CommandRefusal, Examiner, ShellState, Verdict, danger};

impl Examiner {
    /// Examines code in another language. Its strings may be commands or paths to delete.
    pub(super) fn code(&mut self, code: &str, shell: &mut ShellState) -> Verdict {
        const DELETES: [&str; 7] = [
            "delete-directory",
            "rmtree",
            "remove_tree",
            "rimraf",
            "rmSync",
            "rm_r",
            "removedirs",
        ];
        let strings = string_literals(code);
        let has_any = |names: &[&str]| names.iter().any(|name| code.contains(name));
        let deletes = has_any(&DELETES);
        if deletes && code.to_lowercase().contains("home") {
            return danger("its code deletes the home");
        }
        if code.contains("fork") && code.contains("while") {
            return danger("its code starts itself again and again");
        }
        if code.contains("socket") && has_any(&["dup2", "pty.spawn", "/bin/sh", "/bin/bash"]) {
            return danger("its code gives a shell to the network");
        }
        if has_any(&["exec(", "eval("]) && has_any(&["urlopen(", "requests.get("]) {
            self.run_fetched()?;
        }
        for string in &strings {
            self.suspect(string, shell)?;
            if deletes && string.starts_with(['/', '~', '.']) {
                let string = string.replacen('~', &self.home.clone(), 1);
                if let Err(CommandRefusal::Danger(reason)) =
                    self.paths
                        .check_tree(&string, shell, "deletes", RootRule::Allow)
                {
                    return danger(reason);
                }
            }
        }
        match strings.len() {
            0 | 1 => Ok(()),
            _ => self.suspect(&strings.join(" "), shell),
        }
    }
}

/// Returns the string literals of code, in any of the usual quotes.
fn string_literals(code: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        if !['\'', '"', '`'].contains(&letter) {
            continue;
        }
        let mut string = String::new();
        while let Some(inner) = letters.next() {
            match inner {
                '\\' => string.extend(letters.next()),
                quote if quote == letter => break,
                inner => string.push(inner),
            }
        }
        if !string.is_empty() && strings.len() < 64 {
            strings.push(string);
        }
    }
    strings
}
