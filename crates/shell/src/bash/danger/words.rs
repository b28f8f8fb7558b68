//! The expansion of words: quotes are removed, and known variables and substitutions are inserted.

use brush_parser::word::{
    self, BraceExpressionMember, BraceExpressionOrText, Parameter, ParameterExpr,
    ParameterTestType, SpecialParameter, SubstringMatchKind, TildeExpr, WordPiece,
    WordPieceWithSource,
};

use super::paths::PROCESS_ID;
use super::{
    CommandRefusal, Examiner, ShellState, StreamContent, Verdict, danger, excerpt, parser_options,
    unclear,
};

/// The placeholder for unknown text.
pub(super) const UNKNOWN: char = '\u{10ffff}';
/// The placeholder for text from the network.
pub(super) const FETCHED: char = '\u{10fffe}';
/// The placeholder for the output of well-known programs that is meant to be evaluated.
pub(super) const TRUSTED: char = '\u{10fffd}';
/// The most words to which one word may expand.
const MAX_WORDS: usize = 256;
/// The longest expression that is accepted as arithmetic. A longer one may be a script.
const MAX_ARITHMETIC_BYTES: usize = 200;
/// The longest text to which a word may expand, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Returns `true` if a text has no placeholders.
pub(super) fn is_known(text: &str) -> bool {
    !text.contains([UNKNOWN, FETCHED, TRUSTED])
}

/// Returns `true` if a text may be a file name pattern.
pub(super) fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?']) || (text.contains('[') && text.contains(']'))
}

/// A builder of the words to which one word expands.
#[derive(Default)]
struct WordBuilder {
    complete: Vec<String>,
    current: Option<String>,
}

impl WordBuilder {
    fn push(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    /// Ends the current word.
    fn end_word(&mut self) {
        self.complete.extend(self.current.take());
    }

    fn push_split(&mut self, text: &str, separators: &str) {
        for letter in text.chars() {
            match separators.contains(letter) {
                true => self.end_word(),
                false => self.current.get_or_insert_default().push(letter),
            }
        }
    }

    /// Adds the elements of a list as separate words.
    fn push_each(&mut self, texts: &[String]) {
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                self.end_word();
            }
            self.push(text);
        }
    }

    /// Adds values of a variable or substitution. Values without quotes are split.
    fn push_values(&mut self, values: &[String], is_quoted: bool, shell: &ShellState) {
        if is_quoted {
            self.push_each(values);
            return;
        }
        let separators = variable_values("IFS", shell).concat();
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.end_word();
            }
            self.push_split(value, &separators);
        }
    }
}

impl Examiner {
    /// Expands a word to words.
    pub(super) fn expand_fields(
        &mut self,
        raw: &str,
        shell: &mut ShellState,
    ) -> Verdict<Vec<String>> {
        let mut words = Vec::new();
        for raw in expand_braces(raw)? {
            let mut builder = WordBuilder::default();
            for piece in self.parse_pieces(&raw)? {
                self.expand_piece(&piece.piece, shell, &mut builder, false)?;
            }
            words.extend(builder.complete);
            words.extend(builder.current);
            let bytes: usize = words.iter().map(String::len).sum();
            if words.len() > MAX_WORDS || bytes > MAX_TEXT_BYTES {
                return unclear("a word of the command expands to too many words");
            }
        }
        Ok(words)
    }

    /// Expands a word that is not split.
    pub(super) fn expand_text(&mut self, raw: &str, shell: &mut ShellState) -> Verdict<String> {
        let pieces = self.parse_pieces(raw)?;
        self.join_pieces(&pieces, shell)
    }

    /// Expands a here-document.
    pub(super) fn expand_document(&mut self, raw: &str, shell: &mut ShellState) -> Verdict<String> {
        let pieces = word::parse_heredoc(raw, &parser_options());
        let pieces = pieces
            .map_err(|_| CommandRefusal::Unclear("a here-document cannot be parsed".to_owned()))?;
        self.join_pieces(&pieces, shell)
    }

    /// Examines the substitutions of an arithmetic expression. The text may also be two nested
    /// subshells.
    pub(super) fn arithmetic(&mut self, raw: &str, shell: &mut ShellState) -> Verdict {
        self.expand_text(raw, shell)?;
        match raw.len() < MAX_ARITHMETIC_BYTES && brush_parser::arithmetic::parse(raw).is_ok() {
            true => Ok(()),
            false => self.suspect(&format!("({raw})"), shell),
        }
    }

    fn parse_pieces(&self, raw: &str) -> Verdict<Vec<WordPieceWithSource>> {
        word::parse(raw, &parser_options()).map_err(|_| parse_failure(raw))
    }

    /// Expands pieces as in double quotes, and joins them to one text.
    fn join_pieces(
        &mut self,
        pieces: &[WordPieceWithSource],
        shell: &mut ShellState,
    ) -> Verdict<String> {
        let mut builder = WordBuilder::default();
        for piece in pieces {
            self.expand_piece(&piece.piece, shell, &mut builder, true)?;
        }
        builder.end_word();
        let text = builder.complete.join(" ");
        match text.len() > MAX_TEXT_BYTES {
            true => unclear("a word of the command expands to too much text"),
            false => Ok(text),
        }
    }

    fn expand_piece(
        &mut self,
        piece: &WordPiece,
        shell: &mut ShellState,
        builder: &mut WordBuilder,
        is_quoted: bool,
    ) -> Verdict {
        match piece {
            WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => builder.push(text),
            WordPiece::AnsiCQuotedText(text) => builder.push(&unescape(text)),
            WordPiece::EscapeSequence(text) => match text.strip_prefix('\\').unwrap_or(text) {
                "\n" => {}
                escaped => builder.push(escaped),
            },
            WordPiece::DoubleQuotedSequence(pieces)
            | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                // Quotes make a word even if it is empty, except around an empty list.
                if !matches!(pieces.as_slice(), [piece] if is_list(&piece.piece)) {
                    builder.push("");
                }
                for piece in pieces {
                    self.expand_piece(&piece.piece, shell, builder, true)?;
                }
            }
            WordPiece::TildeExpansion(tilde) => builder.push(&self.expand_tilde(tilde, shell)),
            WordPiece::CommandSubstitution(script)
            | WordPiece::BackquotedCommandSubstitution(script) => {
                let text = self.expand_command(script, shell)?;
                builder.push_values(&[text], is_quoted, shell);
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.arithmetic(&expression.value, shell)?;
                builder.push("1");
            }
            WordPiece::ParameterExpansion(expression) => {
                let values = self.expand_parameter(expression, shell)?;
                builder.push_values(&values, is_quoted, shell);
            }
        }
        Ok(())
    }

    fn expand_tilde(&self, tilde: &TildeExpr, shell: &ShellState) -> String {
        match tilde {
            TildeExpr::Home => match shell.variables.get("HOME") {
                Some(home) => home.join(" "),
                None => self.home.clone(),
            },
            TildeExpr::UserHome(user) if user == "root" => "/root".to_owned(),
            TildeExpr::UserHome(user) => format!("/home/{user}"),
            TildeExpr::WorkingDir => match &shell.folder {
                Some(folder) => folder.to_string_lossy().into_owned(),
                None => UNKNOWN.to_string(),
            },
            _ => UNKNOWN.to_string(),
        }
    }

    /// Expands a command substitution to the known output of its command.
    fn expand_command(&mut self, script: &str, shell: &mut ShellState) -> Verdict<String> {
        let fetches = self.fetches;
        let output = self.script(script, &mut shell.clone(), &StreamContent::Nothing)?;
        Ok(match output {
            StreamContent::Nothing => String::new(),
            StreamContent::Text(text) => text.trim_end_matches('\n').to_owned(),
            _ if self.fetches > fetches => FETCHED.to_string(),
            _ => UNKNOWN.to_string(),
        })
    }

    #[allow(
        clippy::too_many_lines,
        reason = "one arm for each form of a parameter expansion"
    )]
    fn expand_parameter(
        &mut self,
        expression: &ParameterExpr,
        shell: &mut ShellState,
    ) -> Verdict<Vec<String>> {
        use ParameterExpr as Is;
        let unknown = || Ok(vec![UNKNOWN.to_string()]);
        let is_empty = |pattern: &Option<String>| pattern.as_deref().is_none_or(str::is_empty);
        match expression {
            Is::Parameter {
                parameter,
                indirect,
            } => self.value(parameter, *indirect, shell),
            Is::UseDefaultValues {
                parameter,
                indirect,
                test_type,
                default_value,
            } => self.or_default(
                parameter,
                *indirect,
                test_type,
                default_value.as_deref(),
                shell,
            ),
            Is::AssignDefaultValues {
                parameter,
                indirect,
                test_type,
                default_value,
            } => {
                let values = self.or_default(
                    parameter,
                    *indirect,
                    test_type,
                    default_value.as_deref(),
                    shell,
                )?;
                if let Parameter::Named(name) = parameter {
                    shell.variables.insert(name.clone(), values.clone());
                }
                Ok(values)
            }
            Is::IndicateErrorIfNullOrUnset {
                parameter,
                indirect,
                error_message,
                ..
            } => {
                self.expand_text(error_message.as_deref().unwrap_or_default(), shell)?;
                let values = self.value(parameter, *indirect, shell)?;
                // The shell exits here if the variable has no value.
                Ok(if values.concat().is_empty() {
                    vec!["unset".to_owned()]
                } else {
                    values
                })
            }
            Is::UseAlternativeValue {
                parameter,
                indirect,
                alternative_value,
                ..
            } => {
                let alternative =
                    self.expand_text(alternative_value.as_deref().unwrap_or_default(), shell)?;
                let values = self.value(parameter, *indirect, shell)?;
                Ok(if values.concat().is_empty() {
                    Vec::new()
                } else {
                    vec![alternative]
                })
            }
            Is::ParameterLength { .. } => Ok(vec!["1".to_owned()]),
            Is::Substring {
                parameter,
                indirect,
                offset,
                length,
            } => {
                self.arithmetic(&offset.value, shell)?;
                if let Some(length) = length {
                    self.arithmetic(&length.value, shell)?;
                }
                let values = self.value(parameter, *indirect, shell)?;
                let number = |text: &str| text.trim().parse::<usize>();
                let (Ok(start), [value]) = (number(&offset.value), values.as_slice()) else {
                    return unknown();
                };
                let length = match length {
                    Some(length) => match number(&length.value) {
                        Ok(length) => length,
                        Err(_) => return unknown(),
                    },
                    None => usize::MAX,
                };
                match is_known(value) {
                    true => Ok(vec![value.chars().skip(start).take(length).collect()]),
                    false => unknown(),
                }
            }
            Is::RemoveSmallestSuffixPattern {
                parameter,
                indirect,
                pattern,
            }
            | Is::RemoveLargestSuffixPattern {
                parameter,
                indirect,
                pattern,
            } => self.remove_pattern(
                parameter,
                *indirect,
                pattern.as_deref(),
                shell,
                |value, pattern| value.strip_suffix(pattern),
            ),
            Is::RemoveSmallestPrefixPattern {
                parameter,
                indirect,
                pattern,
            }
            | Is::RemoveLargestPrefixPattern {
                parameter,
                indirect,
                pattern,
            } => self.remove_pattern(
                parameter,
                *indirect,
                pattern.as_deref(),
                shell,
                |value, pattern| value.strip_prefix(pattern),
            ),
            Is::UppercasePattern {
                parameter,
                indirect,
                pattern,
            } if is_empty(pattern) => {
                let mut values = self.value(parameter, *indirect, shell)?;
                for value in &mut values {
                    *value = value.to_uppercase();
                }
                Ok(values)
            }
            Is::LowercasePattern {
                parameter,
                indirect,
                pattern,
            } if is_empty(pattern) => {
                let mut values = self.value(parameter, *indirect, shell)?;
                for value in &mut values {
                    *value = value.to_lowercase();
                }
                Ok(values)
            }
            Is::ReplaceSubstring {
                parameter,
                indirect,
                pattern,
                replacement,
                match_kind,
            } => {
                let pattern = self.expand_text(pattern, shell)?;
                let replacement = replacement.as_deref().unwrap_or_default();
                let replacement = self.expand_text(replacement, shell)?;
                let mut values = self.value(parameter, *indirect, shell)?;
                let is_plain = is_known(&pattern)
                    && !has_pattern(&pattern)
                    && values.iter().all(|value| is_known(value));
                let times = match match_kind {
                    SubstringMatchKind::Anywhere => usize::MAX,
                    SubstringMatchKind::FirstOccurrence => 1,
                    SubstringMatchKind::Prefix | SubstringMatchKind::Suffix => return unknown(),
                };
                let bytes = values.concat().len() * (replacement.len() + 1);
                if !is_plain || pattern.is_empty() || bytes > MAX_TEXT_BYTES {
                    return unknown();
                }
                for value in &mut values {
                    *value = value.replacen(&pattern, &replacement, times);
                }
                Ok(values)
            }
            Is::Transform {
                op: word::ParameterTransformOp::PromptExpand,
                ..
            } => danger("it expands a variable as a prompt, which runs the commands in it"),
            // The value is examined, but its transformation is not computed.
            Is::UppercaseFirstChar {
                parameter,
                indirect,
                ..
            }
            | Is::UppercasePattern {
                parameter,
                indirect,
                ..
            }
            | Is::LowercaseFirstChar {
                parameter,
                indirect,
                ..
            }
            | Is::LowercasePattern {
                parameter,
                indirect,
                ..
            }
            | Is::Transform {
                parameter,
                indirect,
                ..
            } => {
                self.value(parameter, *indirect, shell)?;
                unknown()
            }
            Is::VariableNames { .. } | Is::MemberKeys { .. } => unknown(),
        }
    }

    fn or_default(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        test: &ParameterTestType,
        default: Option<&str>,
        shell: &mut ShellState,
    ) -> Verdict<Vec<String>> {
        let default = self.expand_text(default.unwrap_or_default(), shell)?;
        let is_set = matches!(test, ParameterTestType::Unset)
            && matches!(parameter, Parameter::Named(name) if shell.variables.contains_key(name));
        let values = self.value(parameter, indirect, shell)?;
        Ok(if values.concat().is_empty() && !is_set {
            vec![default]
        } else {
            values
        })
    }

    fn remove_pattern(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        pattern: Option<&str>,
        shell: &mut ShellState,
        strip: for<'a> fn(&'a str, &str) -> Option<&'a str>,
    ) -> Verdict<Vec<String>> {
        let pattern = self.expand_text(pattern.unwrap_or_default(), shell)?;
        let mut values = self.value(parameter, indirect, shell)?;
        if !is_known(&pattern) || has_pattern(&pattern) {
            return Ok(vec![UNKNOWN.to_string()]);
        }
        for value in &mut values {
            *value = strip(value, &pattern).unwrap_or(value).to_owned();
        }
        Ok(values)
    }

    fn value(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        shell: &mut ShellState,
    ) -> Verdict<Vec<String>> {
        let one = |text: &str| vec![text.to_owned()];
        let values = match parameter {
            Parameter::Positional(0) | Parameter::Special(SpecialParameter::ShellName) => shell
                .variables
                .get("0")
                .cloned()
                .unwrap_or_else(|| one("bash")),
            Parameter::Positional(number) => match shell.positionals.get(*number as usize - 1) {
                Some(value) => one(value),
                None => Vec::new(),
            },
            Parameter::Special(special) => match special {
                SpecialParameter::AllPositionalParameters { .. } => shell.positionals.clone(),
                SpecialParameter::ProcessId | SpecialParameter::ShellName => one(PROCESS_ID),
                SpecialParameter::LastBackgroundProcessId => one("4243"),
                SpecialParameter::PositionalParameterCount | SpecialParameter::LastExitStatus => {
                    one("1")
                }
                SpecialParameter::CurrentOptionFlags => one("hBc"),
            },
            Parameter::Named(name) => variable_values(name, shell).into_iter().take(1).collect(),
            Parameter::NamedWithIndex { name, index } => {
                self.arithmetic(index, shell)?;
                let index = index.trim().parse::<usize>();
                match (variable_values(name, shell), index) {
                    (values, _) if values.is_empty() => values,
                    (values, Ok(index)) if index < values.len() => one(&values[index]),
                    _ => one(&UNKNOWN.to_string()),
                }
            }
            Parameter::NamedWithAllIndices { name, .. } => variable_values(name, shell),
        };
        match indirect {
            false => Ok(values),
            true => match values.as_slice() {
                [name] if is_known(name) && !name.contains('[') => Ok(variable_values(name, shell)),
                _ => Ok(one(&UNKNOWN.to_string())),
            },
        }
    }
}

fn parse_failure(raw: &str) -> CommandRefusal {
    CommandRefusal::Unclear(format!("the word {:?} cannot be parsed", excerpt(raw)))
}

/// Returns the values of a variable.
fn variable_values(name: &str, shell: &ShellState) -> Vec<String> {
    let one = |text: &str| vec![text.to_owned()];
    if let Some(values) = shell.variables.get(name) {
        return values.clone();
    }
    match name {
        "PWD" => match &shell.folder {
            Some(folder) => one(&folder.to_string_lossy()),
            None => one(&UNKNOWN.to_string()),
        },
        "IFS" => one(" \t\n"),
        "BASHPID" => one(PROCESS_ID),
        // The parent process runs the tool and must not be killed.
        "PPID" => one("1"),
        "RANDOM" | "SECONDS" | "LINENO" | "UID" | "EUID" | "SHLVL" | "OPTIND" | "EPOCHSECONDS"
        | "SRANDOM" => one("1"),
        "BASH" => one("/bin/bash"),
        "OLDPWD" | "REPLY" | "HOSTNAME" | "OPTARG" | "MAPFILE" | "DIRSTACK" | "_" => {
            one(&UNKNOWN.to_string())
        }
        _ if name.starts_with("BASH_") || shell.has_sourced => one(&UNKNOWN.to_string()),
        _ => Vec::new(),
    }
}

fn is_list(piece: &WordPiece) -> bool {
    let WordPiece::ParameterExpansion(ParameterExpr::Parameter { parameter, .. }) = piece else {
        return false;
    };
    matches!(
        parameter,
        Parameter::NamedWithAllIndices {
            concatenate: false,
            ..
        } | Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate: false })
    )
}

/// Expands the braces of a word.
fn expand_braces(raw: &str) -> Verdict<Vec<String>> {
    if !raw.contains('{') {
        return Ok(vec![raw.to_owned()]);
    }
    match word::parse_brace_expansions(raw, &parser_options()) {
        Ok(Some(parts)) => product(&parts),
        Ok(None) => Ok(vec![raw.to_owned()]),
        Err(_) => Err(parse_failure(raw)),
    }
}

/// Returns all combinations of the alternatives in braces.
fn product(parts: &[BraceExpressionOrText]) -> Verdict<Vec<String>> {
    let mut words = vec![String::new()];
    for part in parts {
        let choices = match part {
            BraceExpressionOrText::Text(text) => vec![text.clone()],
            BraceExpressionOrText::Expr(members) => {
                let mut choices = Vec::new();
                for member in members {
                    match member {
                        BraceExpressionMember::Child(parts) => choices.extend(product(parts)?),
                        // The first and the last number stand for all.
                        BraceExpressionMember::NumberSequence { start, end, .. } => {
                            choices.extend([start.to_string(), end.to_string()]);
                        }
                        BraceExpressionMember::CharSequence { start, end, .. } => {
                            let (first, last) = (*start.min(end), *start.max(end));
                            choices.extend((first..=last).take(MAX_WORDS + 1).map(String::from));
                        }
                    }
                }
                choices
            }
        };
        if words.len() * choices.len() > MAX_WORDS {
            return unclear("a word of the command expands to too many words");
        }
        let mut combinations = Vec::new();
        for word in &words {
            for choice in &choices {
                combinations.push(format!("{word}{choice}"));
            }
        }
        words = combinations;
    }
    Ok(words)
}

/// Replaces the escapes in `$'…'`, and in the arguments of `echo -e` and `printf`.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            None => plain.push('\\'),
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('a' | 'b' | 'e' | 'E' | 'f' | 'v') => plain.push('\u{1}'),
            Some('c') => {
                letters.next();
                plain.push('\u{1}');
            }
            Some(escape) => {
                let mut number = |first: Option<char>, radix: u32, max_digits: usize| {
                    let mut digits: String = first.into_iter().collect();
                    while digits.len() < max_digits
                        && letters.peek().is_some_and(|digit| digit.is_digit(radix))
                    {
                        digits.extend(letters.next());
                    }
                    char::from_u32(u32::from_str_radix(&digits, radix).ok()?)
                };
                let escaped = match escape {
                    'x' => number(None, 16, 2),
                    'u' => number(None, 16, 4),
                    'U' => number(None, 16, 8),
                    '0' => number(Some(escape), 8, 4),
                    '1'..='7' => number(Some(escape), 8, 3),
                    other => Some(other),
                };
                plain.extend(escaped);
            }
        }
    }
    plain
}
