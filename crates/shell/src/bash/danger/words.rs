//! What words come to: quotes are taken off, variables and substitutions put in, as far as they are
//! known.

use brush_parser::word::{
    self, BraceExpressionMember, BraceExpressionOrText, Parameter, ParameterExpr,
    ParameterTestType, SpecialParameter, SubstringMatchKind, TildeExpr, WordPiece,
    WordPieceWithSource,
};

use super::places::OWN;
use super::{Examiner, Input, Refusal, Shell, Verdict, danger, options, shown, unclear};

/// Stands for text that is not known.
pub(super) const UNKNOWN: char = '\u{10ffff}';
/// Stands for text from the network.
pub(super) const FETCHED: char = '\u{10fffe}';
/// Stands for what well-known programs write to be evaluated.
pub(super) const TRUSTED: char = '\u{10fffd}';
/// The most words that one may come to.
const MAX_WORDS: usize = 256;
/// A longer expression may be more than arithmetic.
const MAX_ARITHMETIC_BYTES: usize = 200;
/// The longest text that a word may come to, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Returns `true` if all of a text is known.
pub(super) fn is_known(text: &str) -> bool {
    !text.contains([UNKNOWN, FETCHED, TRUSTED])
}

/// Returns `true` if a text may be a pattern of file names.
pub(super) fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?']) || (text.contains('[') && text.contains(']'))
}

/// Words that are being put together.
#[derive(Default)]
struct Fields {
    done: Vec<String>,
    begun: Option<String>,
}

impl Fields {
    fn push(&mut self, text: &str) {
        self.begun.get_or_insert_default().push_str(text);
    }

    fn push_split(&mut self, text: &str, separators: &str) {
        for letter in text.chars() {
            match separators.contains(letter) {
                true => self.done.extend(self.begun.take()),
                false => self.begun.get_or_insert_default().push(letter),
            }
        }
    }

    /// Adds the elements of a list, each a word of its own.
    fn push_each(&mut self, texts: &[String]) {
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                self.done.extend(self.begun.take());
            }
            self.push(text);
        }
    }
}

impl Examiner {
    /// Returns the words that one comes to.
    pub(super) fn fields(&mut self, raw: &str, shell: &mut Shell) -> Verdict<Vec<String>> {
        let mut words = Vec::new();
        for raw in alternatives(raw)? {
            let mut fields = Fields::default();
            for piece in self.pieces(&raw)? {
                self.piece(&piece.piece, shell, &mut fields, false)?;
            }
            words.extend(fields.done);
            words.extend(fields.begun);
            let bytes: usize = words.iter().map(String::len).sum();
            if words.len() > MAX_WORDS || bytes > MAX_TEXT_BYTES {
                return unclear("a word of the command comes to too many");
            }
        }
        Ok(words)
    }

    /// Returns what a word comes to where it is not split.
    pub(super) fn text(&mut self, raw: &str, shell: &mut Shell) -> Verdict<String> {
        let pieces = self.pieces(raw)?;
        self.joined(&pieces, shell)
    }

    /// Returns what a here-document comes to.
    pub(super) fn document(&mut self, raw: &str, shell: &mut Shell) -> Verdict<String> {
        let pieces = word::parse_heredoc(raw, &options());
        let pieces =
            pieces.map_err(|_| Refusal::Unclear("a here-document cannot be parsed".to_owned()))?;
        self.joined(&pieces, shell)
    }

    /// Examines the substitutions of an arithmetic expression. What looks like one may be two
    /// subshells.
    pub(super) fn arithmetic(&mut self, raw: &str, shell: &mut Shell) -> Verdict {
        self.text(raw, shell)?;
        match raw.len() < MAX_ARITHMETIC_BYTES && brush_parser::arithmetic::parse(raw).is_ok() {
            true => Ok(()),
            false => self.suspect(&format!("({raw})"), shell),
        }
    }

    fn pieces(&self, raw: &str) -> Verdict<Vec<WordPieceWithSource>> {
        word::parse(raw, &options())
            .map_err(|_| Refusal::Unclear(format!("the word {:?} cannot be parsed", shown(raw))))
    }

    fn joined(&mut self, pieces: &[WordPieceWithSource], shell: &mut Shell) -> Verdict<String> {
        let mut fields = Fields::default();
        for piece in pieces {
            self.piece(&piece.piece, shell, &mut fields, true)?;
        }
        fields.done.extend(fields.begun);
        let text = fields.done.join(" ");
        match text.len() > MAX_TEXT_BYTES {
            true => unclear("a word of the command comes to too much"),
            false => Ok(text),
        }
    }

    fn piece(
        &mut self,
        piece: &WordPiece,
        shell: &mut Shell,
        fields: &mut Fields,
        quoted: bool,
    ) -> Verdict {
        match piece {
            WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => fields.push(text),
            WordPiece::AnsiCQuotedText(text) => fields.push(&unescaped(text)),
            WordPiece::EscapeSequence(text) => match text.strip_prefix('\\').unwrap_or(text) {
                "\n" => {}
                escaped => fields.push(escaped),
            },
            WordPiece::DoubleQuotedSequence(pieces)
            | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                // An empty list in quotes is no word, anything else is one, though it is empty.
                if !matches!(pieces.as_slice(), [piece] if is_list(&piece.piece)) {
                    fields.push("");
                }
                for piece in pieces {
                    self.piece(&piece.piece, shell, fields, true)?;
                }
            }
            WordPiece::TildeExpansion(tilde) => fields.push(&self.tilde(tilde, shell)),
            WordPiece::CommandSubstitution(script)
            | WordPiece::BackquotedCommandSubstitution(script) => {
                let text = self.substituted(script, shell)?;
                push(fields, &[text], quoted, shell);
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.arithmetic(&expression.value, shell)?;
                fields.push("1");
            }
            WordPiece::ParameterExpansion(expression) => {
                let values = self.parameter(expression, shell)?;
                push(fields, &values, quoted, shell);
            }
        }
        Ok(())
    }

    fn tilde(&self, tilde: &TildeExpr, shell: &Shell) -> String {
        let folder = || {
            shell
                .folder
                .as_ref()
                .map(|folder| folder.to_string_lossy().into_owned())
        };
        match tilde {
            TildeExpr::Home => shell
                .variables
                .get("HOME")
                .map_or_else(|| self.home.clone(), |home| home.join(" ")),
            TildeExpr::UserHome(user) if user == "root" => "/root".to_owned(),
            TildeExpr::UserHome(user) => format!("/home/{user}"),
            TildeExpr::WorkingDir => folder().unwrap_or_else(|| UNKNOWN.to_string()),
            _ => UNKNOWN.to_string(),
        }
    }

    /// Returns what a substituted command writes, as far as it is known.
    fn substituted(&mut self, script: &str, shell: &mut Shell) -> Verdict<String> {
        let fetches = self.fetches;
        let written = self.script(script, &mut shell.clone(), &Input::Nothing)?;
        Ok(match written {
            Input::Nothing => String::new(),
            Input::Text(text) => text.trim_end_matches('\n').to_owned(),
            _ if self.fetches > fetches => FETCHED.to_string(),
            _ => UNKNOWN.to_string(),
        })
    }

    fn parameter(&mut self, expression: &ParameterExpr, shell: &mut Shell) -> Verdict<Vec<String>> {
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
                self.text(error_message.as_deref().unwrap_or_default(), shell)?;
                let values = self.value(parameter, *indirect, shell)?;
                // The shell ends there where it has none.
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
                    self.text(alternative_value.as_deref().unwrap_or_default(), shell)?;
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
                let number = |text: &str| text.trim().parse::<usize>().ok();
                let length = length.as_ref().map(|length| number(&length.value));
                let (Some(from), [value]) = (number(&offset.value), values.as_slice()) else {
                    return unknown();
                };
                match length {
                    _ if !is_known(value) => unknown(),
                    Some(None) => unknown(),
                    Some(Some(length)) => Ok(vec![value.chars().skip(from).take(length).collect()]),
                    None => Ok(vec![value.chars().skip(from).collect()]),
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
            } => self.cut(
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
            } => self.cut(
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
            } if is_empty(pattern) => Ok(self
                .value(parameter, *indirect, shell)?
                .iter()
                .map(|value| value.to_uppercase())
                .collect()),
            Is::LowercasePattern {
                parameter,
                indirect,
                pattern,
            } if is_empty(pattern) => Ok(self
                .value(parameter, *indirect, shell)?
                .iter()
                .map(|value| value.to_lowercase())
                .collect()),
            Is::ReplaceSubstring {
                parameter,
                indirect,
                pattern,
                replacement,
                match_kind,
            } => {
                let pattern = self.text(pattern, shell)?;
                let replacement = self.text(replacement.as_deref().unwrap_or_default(), shell)?;
                let values = self.value(parameter, *indirect, shell)?;
                let plain = is_known(&pattern)
                    && !has_pattern(&pattern)
                    && values.iter().all(|value| is_known(value));
                let times = match match_kind {
                    SubstringMatchKind::Anywhere => usize::MAX,
                    SubstringMatchKind::FirstOccurrence => 1,
                    SubstringMatchKind::Prefix | SubstringMatchKind::Suffix => return unknown(),
                };
                let bytes = values.concat().len() * (replacement.len() + 1);
                if !plain || pattern.is_empty() || bytes > MAX_TEXT_BYTES {
                    return unknown();
                }
                Ok(values
                    .iter()
                    .map(|value| value.replacen(&pattern, &replacement, times))
                    .collect())
            }
            Is::Transform {
                op: word::ParameterTransformOp::PromptExpand,
                ..
            } => danger("it expands a variable as a prompt, which runs what stands in it"),
            // What is done to the value is not worked out, but it is examined.
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
        shell: &mut Shell,
    ) -> Verdict<Vec<String>> {
        let default = self.text(default.unwrap_or_default(), shell)?;
        let is_set = matches!(test, ParameterTestType::Unset)
            && matches!(parameter, Parameter::Named(name) if shell.variables.contains_key(name));
        let values = self.value(parameter, indirect, shell)?;
        Ok(if values.concat().is_empty() && !is_set {
            vec![default]
        } else {
            values
        })
    }

    fn cut(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        pattern: Option<&str>,
        shell: &mut Shell,
        strip: for<'a> fn(&'a str, &str) -> Option<&'a str>,
    ) -> Verdict<Vec<String>> {
        let pattern = self.text(pattern.unwrap_or_default(), shell)?;
        let values = self.value(parameter, indirect, shell)?;
        if !is_known(&pattern) || has_pattern(&pattern) {
            return Ok(vec![UNKNOWN.to_string()]);
        }
        Ok(values
            .iter()
            .map(|value| strip(value, &pattern).unwrap_or(value).to_owned())
            .collect())
    }

    fn value(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        shell: &mut Shell,
    ) -> Verdict<Vec<String>> {
        let one = |text: &str| vec![text.to_owned()];
        let values = match parameter {
            Parameter::Positional(0) | Parameter::Special(SpecialParameter::ShellName) => shell
                .variables
                .get("0")
                .cloned()
                .unwrap_or_else(|| one("bash")),
            Parameter::Positional(number) => {
                let value = shell.positionals.get(*number as usize - 1);
                value.map(|value| one(value)).unwrap_or_default()
            }
            Parameter::Special(special) => match special {
                SpecialParameter::AllPositionalParameters { .. } => shell.positionals.clone(),
                SpecialParameter::ProcessId | SpecialParameter::ShellName => one(OWN),
                SpecialParameter::LastBackgroundProcessId => one("4243"),
                SpecialParameter::PositionalParameterCount | SpecialParameter::LastExitStatus => {
                    one("1")
                }
                SpecialParameter::CurrentOptionFlags => one("hBc"),
            },
            Parameter::Named(name) => named(name, shell).into_iter().take(1).collect(),
            Parameter::NamedWithIndex { name, index } => {
                self.arithmetic(index, shell)?;
                let index = index.trim().parse::<usize>();
                match (named(name, shell), index) {
                    (values, _) if values.is_empty() => values,
                    (values, Ok(index)) if index < values.len() => one(&values[index]),
                    _ => one(&UNKNOWN.to_string()),
                }
            }
            Parameter::NamedWithAllIndices { name, .. } => named(name, shell),
        };
        match indirect {
            false => Ok(values),
            true => match values.as_slice() {
                [name] if is_known(name) && !name.contains('[') => Ok(named(name, shell)),
                _ => Ok(one(&UNKNOWN.to_string())),
            },
        }
    }
}

/// Returns what a variable holds.
fn named(name: &str, shell: &Shell) -> Vec<String> {
    let one = |text: &str| vec![text.to_owned()];
    if let Some(values) = shell.variables.get(name) {
        return values.clone();
    }
    match name {
        "PWD" => shell.folder.as_ref().map_or_else(
            || one(&UNKNOWN.to_string()),
            |path| one(&path.to_string_lossy()),
        ),
        "IFS" => one(" \t\n"),
        "BASHPID" => one(OWN),
        // Whoever kills it kills what runs the tool.
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

fn push(fields: &mut Fields, values: &[String], quoted: bool, shell: &Shell) {
    if quoted {
        fields.push_each(values);
        return;
    }
    let separators = named("IFS", shell).concat();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            fields.done.extend(fields.begun.take());
        }
        fields.push_split(value, &separators);
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

/// Returns the words that braces make of one.
fn alternatives(raw: &str) -> Verdict<Vec<String>> {
    if !raw.contains('{') {
        return Ok(vec![raw.to_owned()]);
    }
    let parsed = word::parse_brace_expansions(raw, &options());
    let parsed = parsed
        .map_err(|_| Refusal::Unclear(format!("the word {:?} cannot be parsed", shown(raw))))?;
    parsed.map_or_else(|| Ok(vec![raw.to_owned()]), |parts| product(&parts))
}

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
                        // All of them are alike.
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
            return unclear("a word of the command comes to too many");
        }
        words = words
            .iter()
            .flat_map(|word| choices.iter().map(move |choice| format!("{word}{choice}")))
            .collect();
    }
    Ok(words)
}

/// Takes the escapes out of `$'…'`, and of what `echo -e` and `printf` are given.
pub(super) fn unescaped(text: &str) -> String {
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
                let mut number = |first: Option<char>, radix: u32, most: usize| {
                    let mut digits: String = first.into_iter().collect();
                    while digits.len() < most
                        && letters.peek().is_some_and(|digit| digit.is_digit(radix))
                    {
                        digits.extend(letters.next());
                    }
                    u32::from_str_radix(&digits, radix)
                        .ok()
                        .and_then(char::from_u32)
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
