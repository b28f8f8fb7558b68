//! Code of other languages, of which no more is read than its strings and the names of functions
//! that destroy.

use super::{Examiner, Refusal, Shell, Verdict, danger};

impl Examiner {
    /// Examines code of another language: its strings may be commands, or what is deleted.
    pub(super) fn code(&mut self, code: &str, shell: &mut Shell) -> Verdict {
        const DELETES: [&str; 7] = [
            "delete-directory",
            "rmtree",
            "remove_tree",
            "rimraf",
            "rmSync",
            "rm_r",
            "removedirs",
        ];
        let strings = strings(code);
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
            self.fetched()?;
        }
        for string in &strings {
            self.suspect(string, shell)?;
            if deletes && string.starts_with(['/', '~', '.']) {
                let string = string.replacen('~', &self.home.clone(), 1);
                if let Err(Refusal::Danger(reason)) =
                    self.places.tree(&string, shell, "deletes", true)
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

/// The strings that stand in code, by any of the usual quotes.
fn strings(code: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        if !['\'', '"', '`'].contains(&letter) {
            continue;
        }
        let mut string = String::new();
        while let Some(inner) = letters.next().filter(|inner| *inner != letter) {
            match inner {
                '\\' => string.extend(letters.next()),
                inner => string.push(inner),
            }
        }
        if !string.is_empty() && strings.len() < 64 {
            strings.push(string);
        }
    }
    strings
}
