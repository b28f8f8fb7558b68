//! The walk through a script: the commands that run, their order, their input, and their effect on
//! the state of the shell.

use std::rc::Rc;

use brush_parser::ast::{
    AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, Command,
    CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, ExtendedTestExpr, FunctionBody,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, ProcessSubstitutionKind,
    Program, RedirectList, SeparatorOperator, SimpleCommand, Word,
};

use brush_parser::word::{WordPiece, parse_heredoc};

use super::programs::descriptor_number;
use super::words::{FETCHED, UNKNOWN, has_pattern};
use super::{
    CommandRefusal, Examiner, MAX_COMMANDS, MAX_RECURSION, ShellState, StreamContent, Verdict,
    danger, unclear,
};

/// The first descriptor number that is used for process substitutions.
pub(super) const FIRST_SUBSTITUTION: usize = 1000;

impl Examiner {
    /// Examines a program. Returns the known content of its output.
    pub(super) fn program(
        &mut self,
        program: &Program,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let mut output = StreamContent::Nothing;
        for list in &program.complete_commands {
            let list_output = self.list(list, shell, input)?;
            output = combine(output, list_output);
        }
        Ok(output)
    }

    fn list(
        &mut self,
        list: &CompoundList,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let mut output = StreamContent::Nothing;
        for item in &list.0 {
            let item_output = match item.1 {
                SeparatorOperator::Async => self.and_or(&item.0, &mut shell.clone(), input)?,
                SeparatorOperator::Sequence => self.and_or(&item.0, shell, input)?,
            };
            output = combine(output, item_output);
        }
        Ok(output)
    }

    fn and_or(
        &mut self,
        list: &AndOrList,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let previous_folder = shell.folder.clone();
        let mut output = self.pipeline(&list.first, shell, input)?;
        for next in &list.additional {
            let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
            let next_output = self.pipeline(pipeline, shell, input)?;
            output = combine(output, next_output);
        }
        // If a `cd` failed, the following commands run in the previous folder.
        let is_guarded =
            matches!(list.additional.last(), Some(AndOr::Or(last)) if leaves_script(last));
        if shell.folder != previous_folder && !is_guarded && !shell.ends_on_errors {
            shell.other_folders.extend(previous_folder);
        }
        Ok(output)
    }

    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        if let [command] = pipeline.seq.as_slice() {
            return self.command(command, shell, input);
        }
        let mut stream = input.clone();
        for command in &pipeline.seq {
            let fetches = self.fetches;
            let output = self.command(command, &mut shell.clone(), &stream)?;
            stream = if self.fetches > fetches || stream == StreamContent::Fetched {
                StreamContent::Fetched
            } else {
                output
            };
        }
        Ok(stream)
    }

    fn command(
        &mut self,
        command: &Command,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        match command {
            Command::Simple(command) => self.simple(command, shell, input),
            Command::Compound(command, redirects) => {
                let input = self
                    .redirects(redirects.as_ref(), shell)?
                    .unwrap_or_else(|| input.clone());
                self.compound(command, shell, &input)
            }
            Command::Function(function) => {
                let name = self.expand_text(&function.fname.value, shell)?;
                // Bash calls this function itself.
                if name == "command_not_found_handle" {
                    self.call_function(
                        &function.body,
                        &[],
                        &mut shell.clone(),
                        &StreamContent::Nothing,
                    )?;
                }
                shell.functions.insert(name, Rc::new(function.body.clone()));
                Ok(StreamContent::Nothing)
            }
            Command::ExtendedTest(test, redirects) => {
                self.redirects(redirects.as_ref(), shell)?;
                self.test(&test.expr, shell)?;
                Ok(StreamContent::Nothing)
            }
        }
    }

    fn compound(
        &mut self,
        command: &CompoundCommand,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        match command {
            CompoundCommand::Arithmetic(arithmetic) => {
                self.arithmetic(&arithmetic.expr.value, shell)?;
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                for expression in [&clause.initializer, &clause.condition, &clause.updater]
                    .into_iter()
                    .flatten()
                {
                    self.arithmetic(&expression.value, shell)?;
                }
                return self.list(&clause.body.list, shell, input);
            }
            CompoundCommand::BraceGroup(group) => return self.list(&group.list, shell, input),
            CompoundCommand::Subshell(subshell) => {
                return self.list(&subshell.list, &mut shell.clone(), input);
            }
            CompoundCommand::ForClause(clause) => {
                let mut values = Vec::new();
                match &clause.values {
                    Some(words) => {
                        for word in words {
                            values.extend(self.expand_fields(&word.value, shell)?);
                        }
                    }
                    None => values.clone_from(&shell.positionals),
                }
                let mut output = StreamContent::Nothing;
                for value in values {
                    shell
                        .variables
                        .insert(clause.variable_name.clone(), vec![value]);
                    output = self.list(&clause.body.list, shell, input)?;
                }
                return Ok(combine(output, StreamContent::Unknown));
            }
            CompoundCommand::CaseClause(clause) => {
                self.expand_text(&clause.value.value, shell)?;
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.expand_text(&pattern.value, shell)?;
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list, shell, input)?;
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, shell, input)?;
                self.list(&clause.then, shell, input)?;
                for otherwise in clause.elses.iter().flatten() {
                    if let Some(condition) = &otherwise.condition {
                        self.list(condition, shell, input)?;
                    }
                    self.list(&otherwise.body, shell, input)?;
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                // Twice, because the end of the body may set variables that its beginning uses.
                for _ in 0..2 {
                    self.list(&clause.0, shell, input)?;
                    self.list(&clause.1.list, shell, input)?;
                }
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.command(&coprocess.body, &mut shell.clone(), &StreamContent::Unknown)?;
            }
        }
        Ok(StreamContent::Unknown)
    }

    fn test(&mut self, test: &ExtendedTestExpr, shell: &mut ShellState) -> Verdict {
        match test {
            ExtendedTestExpr::And(first, second) | ExtendedTestExpr::Or(first, second) => {
                self.test(first, shell)?;
                self.test(second, shell)
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner, shell)
            }
            ExtendedTestExpr::UnaryTest(_, word) => self.test_word(word, shell),
            ExtendedTestExpr::BinaryTest(_, first, second) => {
                self.test_word(first, shell)?;
                self.test_word(second, shell)
            }
        }
    }

    fn test_word(&mut self, word: &Word, shell: &mut ShellState) -> Verdict {
        // An extended pattern or a regular expression cannot be expanded as a word.
        let text = match self.expand_text(&word.value, shell) {
            Ok(text) => text,
            Err(CommandRefusal::Unclear(_)) if !word.value.contains(['$', '`']) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        self.subscripts(&text, shell)
    }

    /// Examines a text that bash may use as the name of an array element. Bash then evaluates the
    /// text in its brackets.
    pub(super) fn subscripts(&mut self, text: &str, shell: &mut ShellState) -> Verdict {
        if !text.contains('[') || !text.contains(['$', '`']) {
            return Ok(());
        }
        let Ok(pieces) = parse_heredoc(text, &super::parser_options()) else {
            return Ok(());
        };
        for piece in pieces {
            if let WordPiece::CommandSubstitution(script)
            | WordPiece::BackquotedCommandSubstitution(script) = piece.piece
            {
                self.suspect(&script, shell)?;
            }
        }
        Ok(())
    }

    fn simple(
        &mut self,
        command: &SimpleCommand,
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            return danger(format!("it runs more than {MAX_COMMANDS} commands"));
        }
        let prefix = match &command.prefix {
            Some(prefix) => prefix.0.as_slice(),
            None => &[],
        };
        let suffix = match &command.suffix {
            Some(suffix) => suffix.0.as_slice(),
            None => &[],
        };
        // Bash sets a variable in the prefix for this command only. Here it stays set, which is
        // harmless because its value is known.
        let mut words = Vec::new();
        let mut redirected = None;
        for item in prefix {
            self.item(item, shell, &mut words, &mut redirected)?;
        }
        let prefix_words = words.len();
        if let Some(name) = &command.word_or_name {
            words.extend(self.expand_fields(&name.value, shell)?);
        }
        let mut declared = Vec::new();
        for item in suffix {
            if let CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) = item {
                declared.push(assignment);
            }
            self.item(item, shell, &mut words, &mut redirected)?;
        }
        words.drain(..prefix_words);
        let input = redirected.unwrap_or_else(|| input.clone());
        let Some((name, arguments)) = words.split_first() else {
            return Ok(StreamContent::Nothing);
        };
        // A variable in the prefix may be a command that the program runs, such as a pager.
        for item in prefix {
            if let CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) = item
                && let AssignmentValue::Scalar(word) = &assignment.value
            {
                let value = self.expand_text(&word.value, shell)?;
                self.suspect(&value, shell)?;
            }
        }
        if matches!(
            name.as_str(),
            "declare" | "export" | "local" | "readonly" | "typeset"
        ) {
            for assignment in declared {
                self.assign(assignment, shell)?;
            }
        }
        self.invoke(name, arguments, shell, &input)
    }

    /// Examines a command with expanded words.
    pub(super) fn invoke(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        match shell.functions.get(name).cloned() {
            Some(body) => {
                let calls = self.calls.iter().filter(|called| *called == name).count();
                if calls >= MAX_RECURSION {
                    return Ok(StreamContent::Unknown);
                }
                self.calls.push(name.to_owned());
                let output = self.call_function(&body, arguments, shell, input);
                self.calls.pop();
                output
            }
            None => self.start(name, arguments, shell, input),
        }
    }

    /// Examines a program or builtin.
    pub(super) fn start(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        if name.contains([UNKNOWN, FETCHED]) || has_pattern(name) && name != "[" {
            return self.judge_unknown(arguments, shell, input);
        }
        self.judge(name, arguments, shell, input)
    }

    fn call_function(
        &mut self,
        body: &FunctionBody,
        arguments: &[String],
        shell: &mut ShellState,
        input: &StreamContent,
    ) -> Verdict<StreamContent> {
        let outer_positionals = std::mem::replace(&mut shell.positionals, arguments.to_vec());
        let output = match self.redirects(body.1.as_ref(), shell) {
            Ok(redirected) => {
                let input = redirected.unwrap_or_else(|| input.clone());
                self.compound(&body.0, shell, &input)
            }
            Err(refusal) => Err(refusal),
        };
        shell.positionals = outer_positionals;
        output
    }

    /// Examines a word, redirection or assignment of a simple command.
    fn item(
        &mut self,
        item: &CommandPrefixOrSuffixItem,
        shell: &mut ShellState,
        words: &mut Vec<String>,
        redirected: &mut Option<StreamContent>,
    ) -> Verdict {
        match item {
            CommandPrefixOrSuffixItem::Word(word) => {
                words.extend(self.expand_fields(&word.value, shell)?);
            }
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                if let Some(input) = self.redirect(redirect, shell)? {
                    *redirected = Some(input);
                }
            }
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                // After the name of a command, an assignment is an ordinary argument.
                match words.is_empty() {
                    true => self.assign(assignment, shell)?,
                    false => words.push(
                        self.expand_text(&word.value, shell)
                            .or_else(|_| self.assignment_name(assignment, shell))?,
                    ),
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                words.push(self.substitution(kind, &subshell.list, shell)?);
            }
        }
        Ok(())
    }

    /// Examines an assignment that cannot be expanded as a word, and returns its name.
    fn assignment_name(
        &mut self,
        assignment: &Assignment,
        shell: &mut ShellState,
    ) -> Verdict<String> {
        self.assign(assignment, &mut shell.clone())?;
        Ok(assignment.name.to_string())
    }

    fn assign(&mut self, assignment: &Assignment, shell: &mut ShellState) -> Verdict {
        let (name, index) = match &assignment.name {
            AssignmentName::VariableName(name) => (name, None),
            AssignmentName::ArrayElementName(name, index) => (name, Some(index)),
        };
        if let Some(index) = index {
            self.arithmetic(index, shell)?;
        }
        let mut values = match &assignment.value {
            AssignmentValue::Scalar(word) => vec![self.expand_text(&word.value, shell)?],
            AssignmentValue::Array(elements) => {
                let mut values = Vec::new();
                for (key, word) in elements {
                    if let Some(key) = key {
                        self.expand_text(&key.value, shell)?;
                    }
                    values.extend(self.expand_fields(&word.value, shell)?);
                }
                values
            }
        };
        // Arithmetic evaluates the text in the brackets of a value, and a prompt the whole value.
        for value in &values {
            match name.as_str() {
                "PS0" | "PS1" | "PS2" | "PS4" | "PROMPT_COMMAND" => {
                    self.suspect(&format!(": \"{value}\""), shell)?;
                }
                _ => self.subscripts(value, shell)?,
            }
        }
        let mut previous = shell.variables.get(name).cloned().unwrap_or_default();
        let is_array = matches!(assignment.value, AssignmentValue::Array(_));
        if index.is_some() || (assignment.append && is_array) {
            previous.append(&mut values);
            values = previous;
        } else if assignment.append {
            values = vec![previous.concat() + &values.concat()];
        }
        if values.iter().map(String::len).sum::<usize>() > super::MAX_BYTES {
            return unclear("a variable expands to too much text");
        }
        shell.variables.insert(name.clone(), values);
        Ok(())
    }

    /// Examines redirections. Returns the content of standard input if they redirect it.
    fn redirects(
        &mut self,
        redirects: Option<&RedirectList>,
        shell: &mut ShellState,
    ) -> Verdict<Option<StreamContent>> {
        let mut input = None;
        if let Some(redirects) = redirects {
            for redirect in &redirects.0 {
                input = self.redirect(redirect, shell)?.or(input);
            }
        }
        Ok(input)
    }

    /// Examines a redirection. Returns the content of standard input if it redirects it.
    fn redirect(
        &mut self,
        redirect: &IoRedirect,
        shell: &mut ShellState,
    ) -> Verdict<Option<StreamContent>> {
        let is_input = |descriptor: &Option<i32>| descriptor.is_none_or(|number| number == 0);
        match redirect {
            IoRedirect::HereDocument(descriptor, document) => {
                let text = match document.requires_expansion {
                    true => self.expand_document(&document.doc.value, shell)?,
                    false => document.doc.value.clone(),
                };
                Ok(is_input(descriptor).then_some(StreamContent::Text(text)))
            }
            IoRedirect::HereString(descriptor, word) => {
                let text = self.expand_text(&word.value, shell)?;
                Ok(is_input(descriptor).then_some(StreamContent::Text(text)))
            }
            IoRedirect::OutputAndError(word, _) => {
                let path = self.expand_text(&word.value, shell)?;
                self.paths.check_write(&path, shell)?;
                Ok(None)
            }
            IoRedirect::File(descriptor, kind, target) => {
                let path = match target {
                    IoFileRedirectTarget::Fd(_) => return Ok(None),
                    IoFileRedirectTarget::Filename(word)
                    | IoFileRedirectTarget::Duplicate(word) => {
                        self.expand_text(&word.value, shell)?
                    }
                    IoFileRedirectTarget::ProcessSubstitution(kind, subshell) => {
                        self.substitution(kind, &subshell.list, shell)?
                    }
                };
                self.paths.check_read(&path, shell)?;
                let is_descriptor = path
                    .trim_end_matches('-')
                    .bytes()
                    .all(|byte| byte.is_ascii_digit());
                match kind {
                    IoFileRedirectKind::Read => {
                        Ok(is_input(descriptor).then_some(self.file_content(&path)))
                    }
                    IoFileRedirectKind::DuplicateInput => {
                        let duplicated = if is_descriptor {
                            StreamContent::Unknown
                        } else {
                            self.file_content(&path)
                        };
                        Ok(is_input(descriptor).then_some(duplicated))
                    }
                    IoFileRedirectKind::DuplicateOutput if is_descriptor => Ok(None),
                    IoFileRedirectKind::Write
                    | IoFileRedirectKind::Append
                    | IoFileRedirectKind::Clobber
                    | IoFileRedirectKind::DuplicateOutput => {
                        self.paths.check_write(&path, shell)?;
                        Ok(None)
                    }
                    IoFileRedirectKind::ReadAndWrite => {
                        self.paths.check_write(&path, shell)?;
                        Ok(is_input(descriptor).then_some(self.file_content(&path)))
                    }
                }
            }
        }
    }

    /// Returns the content of a file. The content of a process substitution is its output.
    pub(super) fn file_content(&self, path: &str) -> StreamContent {
        if let Some(number) = descriptor_number(path)
            && let Some(index) = number.checked_sub(FIRST_SUBSTITUTION)
            && let Some(output) = self.substitutions.get(index)
        {
            return output.clone();
        }
        StreamContent::File
    }

    /// Examines a process substitution, and returns the path that stands for it.
    fn substitution(
        &mut self,
        kind: &ProcessSubstitutionKind,
        list: &CompoundList,
        shell: &mut ShellState,
    ) -> Verdict<String> {
        let input = match kind {
            ProcessSubstitutionKind::Read => StreamContent::Nothing,
            ProcessSubstitutionKind::Write => StreamContent::Unknown,
        };
        let fetches = self.fetches;
        let output = self.list(list, &mut shell.clone(), &input)?;
        let number = FIRST_SUBSTITUTION + self.substitutions.len();
        self.substitutions.push(if self.fetches > fetches {
            StreamContent::Fetched
        } else {
            output
        });
        Ok(format!("/dev/fd/{number}"))
    }
}

/// Returns `true` if a pipeline is one command that leaves the script, the function or the loop.
fn leaves_script(pipeline: &Pipeline) -> bool {
    let [Command::Simple(command)] = pipeline.seq.as_slice() else {
        return false;
    };
    let Some(name) = &command.word_or_name else {
        return false;
    };
    matches!(
        name.value.as_str(),
        "exit" | "return" | "break" | "continue"
    )
}

/// Combines the output of two commands that run one after the other.
fn combine(first: StreamContent, second: StreamContent) -> StreamContent {
    match (first, second) {
        (StreamContent::Nothing, other) | (other, StreamContent::Nothing) => other,
        (StreamContent::Text(first), StreamContent::Text(second)) => {
            StreamContent::Text(format!("{first}\n{second}"))
        }
        (StreamContent::Fetched, _) | (_, StreamContent::Fetched) => StreamContent::Fetched,
        _ => StreamContent::Unknown,
    }
}
