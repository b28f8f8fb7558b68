//! A reader of shell commands: the words of simple commands, without quotes, with the known values
//! of variables. It follows neither functions nor control flow.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

/// The most bytes of a variable's value. A longer value is unknown.
const MAX_VALUE_BYTES: usize = 4 << 10;
/// Stands in a word for text that is unknown before the command runs.
pub(super) const UNKNOWN: char = '\0';

/// A command without pipes and lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<String>,
    /// The files that redirections write.
    pub(super) writes: Vec<String>,
    /// The scripts of its substitutions.
    pub(super) substitutions: Vec<String>,
    /// `true` if its input is the output of the previous command.
    pub(super) is_piped: bool,
    /// The number of enclosing subshells.
    pub(super) depth: usize,
}

/// The variables of a command.
#[derive(Debug, Clone)]
pub(super) struct Variables {
    known: HashMap<String, String>,
    home: String,
    /// The names that the script may assign, such as `NAME` in `read NAME`.
    assignable: HashSet<String>,
    has_sourced: bool,
}

impl Variables {
    pub(super) fn new(script: &str, environment: HashMap<String, String>, home: &Path) -> Self {
        let mut assignable = HashSet::new();
        let mut start = 0;
        for part in script.split(|letter: char| !is_name_letter(letter)) {
            let before = &script[..start];
            if !before.ends_with(['$', '{']) {
                assignable.insert(part.to_owned());
            }
            start += part.len();
            start += script[start..].chars().next().map_or(0, char::len_utf8);
        }
        Self {
            known: environment,
            home: home.to_string_lossy().into_owned(),
            assignable,
            has_sourced: false,
        }
    }

    /// Returns the value of a variable, which is empty if it is not set; `None` if it is unknown.
    fn value(&self, name: &str) -> Option<&str> {
        if let Some(value) = self.known.get(name) {
            return (!value.contains(UNKNOWN)).then_some(value);
        }
        let is_name =
            name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        let is_unset = is_name && !self.has_sourced && !self.assignable.contains(name);
        is_unset.then_some("")
    }

    /// Removes the assignments before a command, and stores them.
    fn assign(&mut self, words: &mut Vec<String>) {
        let is_assignment = |word: &str| {
            let name = word.split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| !name.is_empty() && name.chars().all(is_name_letter))
        };
        let count = words.iter().take_while(|word| is_assignment(word)).count();
        for word in words.drain(..count) {
            if let Some((name, value)) = word.split_once('=') {
                let value = match value.len() {
                    0..=MAX_VALUE_BYTES => value.to_owned(),
                    _ => UNKNOWN.to_string(),
                };
                self.known.insert(name.to_owned(), value);
            }
        }
        self.has_sourced |= matches!(words.first().map(String::as_str), Some("source" | "."));
    }
}

/// Reads the simple commands of a script.
pub(super) fn read_commands(script: &str, variables: &mut Variables) -> Vec<SimpleCommand> {
    let mut reader = Reader {
        rest: script.chars().peekable(),
        variables,
        commands: Vec::new(),
        command: SimpleCommand::default(),
        word: None,
        is_write_target: false,
        is_skipped_word: false,
        is_delimiter: false,
        delimiters: Vec::new(),
        depth: 0,
    };
    while let Some(letter) = reader.rest.next() {
        reader.step(letter);
    }
    reader.end_command(false);
    reader.commands
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    variables: &'a mut Variables,
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    /// The current word; `None` between words.
    word: Option<String>,
    /// `true` if the current or next word is the file that a redirection writes.
    is_write_target: bool,
    /// `true` if the current or next word is the file or text that a redirection reads.
    is_skipped_word: bool,
    /// `true` if the current or next word is the delimiter of a here-document.
    is_delimiter: bool,
    delimiters: Vec<String>,
    depth: usize,
}

impl Reader<'_> {
    fn step(&mut self, letter: char) {
        match letter {
            '\\' => match self.rest.next() {
                Some('\n') | None => {}
                Some(escaped) => self.push(escaped),
            },
            '\'' => {
                self.word.get_or_insert_default();
                while let Some(quoted) = self.rest.next_if(|letter| *letter != '\'') {
                    self.push(quoted);
                }
                self.rest.next();
            }
            '"' => self.double_quotes(),
            '$' => self.dollar(),
            '`' => {
                let script = self.until_backtick();
                self.substitute(script);
            }
            '~' if self.word.is_none()
                && matches!(
                    self.rest.peek(),
                    None | Some('/' | ' ' | '\n' | ';' | '&' | '|' | ')')
                ) =>
            {
                self.word = Some(self.variables.home.clone());
            }
            '#' if self.word.is_none() => {
                while self.rest.next_if(|letter| *letter != '\n').is_some() {}
            }
            '<' | '>' => self.redirect(letter),
            '&' if self.rest.peek() == Some(&'>') => {}
            ';' | '&' => self.end_command(false),
            '\n' => {
                self.end_command(false);
                self.skip_here_documents();
            }
            '|' => {
                let is_or = self.rest.next_if(|letter| *letter == '|').is_some();
                self.rest.next_if(|letter| *letter == '&');
                self.end_command(!is_or);
            }
            '(' => {
                self.end_command(false);
                self.depth += 1;
                self.command.depth = self.depth;
            }
            ')' => {
                self.end_command(false);
                self.depth = self.depth.saturating_sub(1);
                self.command.depth = self.depth;
            }
            letter if letter.is_whitespace() && letter.is_ascii() => self.end_word(),
            letter => self.push(letter),
        }
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn double_quotes(&mut self) {
        self.word.get_or_insert_default();
        while let Some(letter) = self.rest.next() {
            match letter {
                '"' => return,
                '\\' => {
                    if let Some(escaped) = self.rest.next() {
                        self.push(escaped);
                    }
                }
                '$' => self.dollar(),
                '`' => {
                    let script = self.until_backtick();
                    self.substitute(script);
                }
                letter => self.push(letter),
            }
        }
    }

    fn until_backtick(&mut self) -> String {
        let mut script = String::new();
        while let Some(letter) = self.rest.next_if(|letter| *letter != '`') {
            script.push(letter);
        }
        self.rest.next();
        script
    }

    fn substitute(&mut self, script: String) {
        self.command.substitutions.push(script);
        self.push(UNKNOWN);
    }

    /// Reads an expansion behind its dollar sign.
    fn dollar(&mut self) {
        match self.rest.peek() {
            Some('(') => {
                self.rest.next();
                let script = self.until_closed('(', ')');
                self.substitute(script);
            }
            Some('{') => {
                self.rest.next();
                let expansion = self.until_closed('{', '}');
                let name = expansion
                    .split(|letter: char| !is_name_letter(letter))
                    .next();
                let name = name.unwrap_or_default();
                let operator = &expansion[name.len()..];
                let value = self.variables.value(name).filter(|value| {
                    // With `:?`, bash stops if the variable is empty.
                    operator.is_empty()
                        || (operator.starts_with([':', '?'])
                            && operator.contains('?')
                            && !value.is_empty())
                });
                self.expand(value.map(str::to_owned));
            }
            Some(letter) if is_name_letter(*letter) => {
                let mut name = String::new();
                while let Some(letter) = self.rest.next_if(|letter| is_name_letter(*letter)) {
                    name.push(letter);
                }
                let value = self.variables.value(&name).map(str::to_owned);
                self.expand(value);
            }
            Some('@' | '*' | '#' | '?' | '!' | '$' | '-') => {
                self.rest.next();
                self.push(UNKNOWN);
            }
            Some('\'' | '"') => {}
            _ => self.push('$'),
        }
    }

    fn expand(&mut self, value: Option<String>) {
        let word = self.word.get_or_insert_default();
        match value {
            Some(value) => word.push_str(&value),
            None => word.push(UNKNOWN),
        }
    }

    /// Reads up to the sign that closes an expansion, without the quotes in it.
    fn until_closed(&mut self, open: char, close: char) -> String {
        let mut text = String::new();
        let mut depth = 1;
        let mut quote = None;
        while let Some(letter) = self.rest.next() {
            match (quote, letter) {
                (Some(open_quote), letter) if letter == open_quote => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (Some('\''), _) => {}
                (_, '\\') => {
                    text.push(letter);
                    text.extend(self.rest.next());
                    continue;
                }
                (None, letter) if letter == open => depth += 1,
                (None, letter) if letter == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(letter);
        }
        text
    }

    /// Reads a redirection behind its first sign.
    fn redirect(&mut self, sign: char) {
        // The number of a descriptor is not a word of the command.
        if self
            .word
            .as_ref()
            .is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
        {
            self.word = None;
        }
        self.end_word();
        if self.rest.next_if(|letter| *letter == '(').is_some() {
            let script = self.until_closed('(', ')');
            self.substitute(script);
            return;
        }
        if sign == '>' {
            self.is_write_target = true;
            while self
                .rest
                .next_if(|letter| matches!(letter, '>' | '|' | '&'))
                .is_some()
            {}
            return;
        }
        self.is_skipped_word = true;
        if self.rest.next_if(|letter| *letter == '<').is_some()
            && self.rest.next_if(|letter| *letter == '<').is_none()
        {
            self.rest.next_if(|letter| *letter == '-');
            self.is_delimiter = true;
        }
        self.rest.next_if(|letter| matches!(letter, '&' | '>'));
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else {
            return;
        };
        if self.is_delimiter {
            self.delimiters.push(word);
        } else if self.is_write_target {
            self.command.writes.push(word);
        } else if !self.is_skipped_word {
            self.command.words.push(word);
        }
        self.is_write_target = false;
        self.is_skipped_word = false;
        self.is_delimiter = false;
    }

    fn end_command(&mut self, pipes_on: bool) {
        self.end_word();
        let mut command = std::mem::take(&mut self.command);
        self.command.is_piped = pipes_on || (command.words.is_empty() && command.is_piped);
        self.command.depth = self.depth;
        self.variables.assign(&mut command.words);
        let parts = [&command.words, &command.writes, &command.substitutions];
        if parts.iter().any(|part| !part.is_empty()) {
            self.commands.push(command);
        }
    }

    fn skip_here_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.delimiters) {
            while self.rest.peek().is_some() {
                let mut line = String::new();
                while let Some(letter) = self.rest.next_if(|letter| *letter != '\n') {
                    line.push(letter);
                }
                self.rest.next();
                if line.trim_start_matches('\t') == delimiter {
                    break;
                }
            }
        }
    }
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<Vec<String>> {
        let environment = HashMap::from([("HOME".to_owned(), "/home/ada".to_owned())]);
        let mut variables = Variables::new(script, environment, Path::new("/home/ada"));
        let commands = read_commands(script, &mut variables);
        commands.into_iter().map(|command| command.words).collect()
    }

    #[test]
    fn words_lose_quotes_and_get_values() {
        for (script, expected) in [
            ("rm -rf 'a b'\"c\"\\ d", vec![vec!["rm", "-rf", "a bc d"]]),
            (
                "a; b && c || d | e & f\ng",
                vec![
                    vec!["a"],
                    vec!["b"],
                    vec!["c"],
                    vec!["d"],
                    vec!["e"],
                    vec!["f"],
                    vec!["g"],
                ],
            ),
            (
                "rm ~ ~/x '~' a~",
                vec![vec!["rm", "/home/ada", "/home/ada/x", "~", "a~"]],
            ),
            (
                "X=1 Y=2; echo $X/${Y} '$X'",
                vec![vec!["echo", "1/2", "$X"]],
            ),
            ("rm -rf \"$UNSET/\"*", vec![vec!["rm", "-rf", "/*"]]),
            (
                "read NAME; rm -rf \"$NAME/\"*",
                vec![vec!["read", "NAME"], vec!["rm", "-rf", "\0/*"]],
            ),
            ("a > b 2>&1 < c <<< d e", vec![vec!["a", "e"]]),
            (
                "cat <<'END' > x\nrm -rf /\nEND\nls",
                vec![vec!["cat"], vec!["ls"]],
            ),
            ("echo $(rm -rf /) # rm -rf /", vec![vec!["echo", "\0"]]),
        ] {
            assert_eq!(words(script), expected, "{script}");
        }
    }

    #[test]
    fn commands_have_files_substitutions_and_pipes() {
        let script = "curl x | (sh >> log) ; diff <(a b) $(c \"$(d)\")";
        let mut variables = Variables::new(script, HashMap::new(), Path::new("/"));
        let commands = read_commands(script, &mut variables);
        assert_eq!(commands[1].writes, ["log"]);
        assert!(commands[1].is_piped && commands[1].depth == 1 && !commands[0].is_piped);
        assert_eq!(commands[2].substitutions, ["a b", "c \"$(d)\""]);
        assert_eq!(commands[2].depth, 0);
    }
}
