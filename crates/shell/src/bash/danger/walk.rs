//! Walking a script: what runs, in which order, with which input, and what it leaves behind.

use std::rc::Rc;

use brush_parser::ast::{
    AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, Command,
    CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, ExtendedTestExpr, FunctionBody,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, ProcessSubstitutionKind,
    Program, SeparatorOperator, SimpleCommand, Word,
};

use super::words::{FETCHED, UNKNOWN, has_pattern};
use super::{Examiner, Input, MAX_COMMANDS, MAX_RECURSION, Shell, Verdict, danger, unclear};

/// The number of the first descriptor that stands for a process substitution here.
pub(super) const FIRST_SUBSTITUTED: usize = 1000;

impl Examiner {
    pub(super) fn program(
        &mut self,
        program: &Program,
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        let mut written = Input::Nothing;
        for (at, list) in program.complete_commands.iter().enumerate() {
            let list_written = self.list(list, shell, input)?;
            // Of several commands nobody knows what they write together.
            written = if at == 0 {
                list_written
            } else {
                together(written, list_written)
            };
        }
        Ok(written)
    }

    fn list(&mut self, list: &CompoundList, shell: &mut Shell, input: &Input) -> Verdict<Input> {
        let mut written = Input::Nothing;
        for (at, item) in list.0.iter().enumerate() {
            let item_written = match item.1 {
                SeparatorOperator::Async => self.and_or(&item.0, &mut shell.clone(), input)?,
                SeparatorOperator::Sequence => self.and_or(&item.0, shell, input)?,
            };
            written = if at == 0 {
                item_written
            } else {
                together(written, item_written)
            };
        }
        Ok(written)
    }

    fn and_or(&mut self, list: &AndOrList, shell: &mut Shell, input: &Input) -> Verdict<Input> {
        let before = shell.folder.clone();
        let mut written = self.pipeline(&list.first, shell, input)?;
        for next in &list.additional {
            let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
            let next_written = self.pipeline(pipeline, shell, input)?;
            written = together(written, next_written);
        }
        // Where a `cd` failed, what follows runs in the folder before.
        let ends = |pipeline: &Pipeline| {
            let [Command::Simple(command)] = pipeline.seq.as_slice() else {
                return false;
            };
            let name = command
                .word_or_name
                .as_ref()
                .map(|word| word.value.as_str());
            matches!(name, Some("exit" | "return" | "break" | "continue"))
        };
        let is_guarded = matches!(list.additional.last(), Some(AndOr::Or(last)) if ends(last));
        if shell.folder != before && !is_guarded && !shell.ends_on_errors {
            shell.other_folders.extend(before);
        }
        Ok(written)
    }

    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        if let [command] = pipeline.seq.as_slice() {
            return self.command(command, shell, input);
        }
        let mut passed = input.clone();
        for command in &pipeline.seq {
            let fetches = self.fetches;
            let written = self.command(command, &mut shell.clone(), &passed)?;
            passed = if self.fetches > fetches || passed == Input::Fetched {
                Input::Fetched
            } else {
                written
            };
        }
        Ok(passed)
    }

    fn command(&mut self, command: &Command, shell: &mut Shell, input: &Input) -> Verdict<Input> {
        match command {
            Command::Simple(command) => self.simple(command, shell, input),
            Command::Compound(command, redirects) => {
                let redirects = redirects.as_ref().map_or(&[][..], |list| list.0.as_slice());
                let input = self
                    .redirects(redirects, shell)?
                    .unwrap_or_else(|| input.clone());
                self.compound(command, shell, &input)
            }
            Command::Function(function) => {
                let name = self.text(&function.fname.value, shell)?;
                // The shell calls it itself.
                if name == "command_not_found_handle" {
                    self.called(&function.body, &[], &mut shell.clone(), &Input::Nothing)?;
                }
                shell.functions.insert(name, Rc::new(function.body.clone()));
                Ok(Input::Nothing)
            }
            Command::ExtendedTest(test, redirects) => {
                let redirects = redirects.as_ref().map_or(&[][..], |list| list.0.as_slice());
                self.redirects(redirects, shell)?;
                self.test(&test.expr, shell)?;
                Ok(Input::Nothing)
            }
        }
    }

    fn compound(
        &mut self,
        command: &CompoundCommand,
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        match command {
            CompoundCommand::Arithmetic(arithmetic) => {
                self.arithmetic(&arithmetic.expr.value, shell)?
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
                            values.extend(self.fields(&word.value, shell)?);
                        }
                    }
                    None => values.clone_from(&shell.positionals),
                }
                let mut written = Input::Nothing;
                for value in values {
                    shell
                        .variables
                        .insert(clause.variable_name.clone(), vec![value]);
                    written = self.list(&clause.body.list, shell, input)?;
                }
                return Ok(together(written, Input::Unknown));
            }
            CompoundCommand::CaseClause(clause) => {
                self.text(&clause.value.value, shell)?;
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.text(&pattern.value, shell)?;
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
                // Twice: what the end of the body sets, its beginning finds.
                for _ in 0..2 {
                    self.list(&clause.0, shell, input)?;
                    self.list(&clause.1.list, shell, input)?;
                }
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.command(&coprocess.body, &mut shell.clone(), &Input::Unknown)?;
            }
        }
        Ok(Input::Unknown)
    }

    fn test(&mut self, test: &ExtendedTestExpr, shell: &mut Shell) -> Verdict {
        match test {
            ExtendedTestExpr::And(first, second) | ExtendedTestExpr::Or(first, second) => {
                self.test(first, shell)?;
                self.test(second, shell)
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner, shell)
            }
            ExtendedTestExpr::UnaryTest(_, word) => self.tested(word, shell),
            ExtendedTestExpr::BinaryTest(_, first, second) => {
                self.tested(first, shell)?;
                self.tested(second, shell)
            }
        }
    }

    fn tested(&mut self, word: &Word, shell: &mut Shell) -> Verdict {
        // A pattern is no word where it is an extended one or a regular expression.
        let scripts = match self.text(&word.value, shell) {
            Ok(text) => text,
            Err(super::Refusal::Unclear(_)) if !word.value.contains(['$', '`']) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        self.subscripts(&scripts, shell)
    }

    /// Examines a text that bash may take as the name of an array's element, and evaluate what
    /// stands in its brackets.
    pub(super) fn subscripts(&mut self, text: &str, shell: &mut Shell) -> Verdict {
        if !text.contains('[') || !text.contains(['$', '`']) {
            return Ok(());
        }
        let Ok(pieces) = brush_parser::word::parse_heredoc(text, &super::options()) else {
            return Ok(());
        };
        for piece in pieces {
            use brush_parser::word::WordPiece as Is;
            if let Is::CommandSubstitution(script) | Is::BackquotedCommandSubstitution(script) =
                piece.piece
            {
                self.suspect(&script, shell)?;
            }
        }
        Ok(())
    }

    fn simple(
        &mut self,
        command: &SimpleCommand,
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            return danger(format!("it runs more than {MAX_COMMANDS} commands"));
        }
        let prefix = command
            .prefix
            .as_ref()
            .map_or(&[][..], |prefix| prefix.0.as_slice());
        let suffix = command
            .suffix
            .as_ref()
            .map_or(&[][..], |suffix| suffix.0.as_slice());
        // A variable before a command is set for it alone; what it leaves set here is known of
        // nothing less.
        let mut words = Vec::new();
        let mut redirected = None;
        for item in prefix {
            self.item(item, shell, &mut words, &mut redirected)?;
        }
        let assigned = words.len();
        if let Some(name) = &command.word_or_name {
            words.extend(self.fields(&name.value, shell)?);
        }
        let mut declared = Vec::new();
        for item in suffix {
            if let CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) = item {
                declared.push(assignment);
            }
            self.item(item, shell, &mut words, &mut redirected)?;
        }
        words.drain(..assigned);
        let input = redirected.unwrap_or_else(|| input.clone());
        let Some((name, arguments)) = words.split_first() else {
            return Ok(Input::Nothing);
        };
        // What is set for a program alone may be a command that it runs, such as a pager.
        for item in prefix {
            if let CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) = item
                && let AssignmentValue::Scalar(word) = &assignment.value
            {
                let value = self.text(&word.value, shell)?;
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

    /// Examines a command whose words are worked out.
    pub(super) fn invoke(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        match shell.functions.get(name).cloned() {
            Some(body) => {
                let calls = self.calls.iter().filter(|called| *called == name).count();
                if calls >= MAX_RECURSION {
                    return Ok(Input::Unknown);
                }
                self.calls.push(name.to_owned());
                let written = self.called(&body, arguments, shell, input);
                self.calls.pop();
                written
            }
            None => self.start(name, arguments, shell, input),
        }
    }

    /// Examines a program or builtin, of whatever name.
    pub(super) fn start(
        &mut self,
        name: &str,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        if name.contains([UNKNOWN, FETCHED]) || has_pattern(name) && name != "[" {
            return self.unnamed(arguments, shell, input);
        }
        self.judge(name, arguments, shell, input)
    }

    fn called(
        &mut self,
        body: &FunctionBody,
        arguments: &[String],
        shell: &mut Shell,
        input: &Input,
    ) -> Verdict<Input> {
        let before = std::mem::replace(&mut shell.positionals, arguments.to_vec());
        let redirects = body.1.as_ref().map_or(&[][..], |list| list.0.as_slice());
        let redirected = self.redirects(redirects, shell);
        let written = redirected.and_then(|redirected| {
            let input = redirected.unwrap_or_else(|| input.clone());
            self.compound(&body.0, shell, &input)
        });
        shell.positionals = before;
        written
    }

    fn item(
        &mut self,
        item: &CommandPrefixOrSuffixItem,
        shell: &mut Shell,
        words: &mut Vec<String>,
        redirected: &mut Option<Input>,
    ) -> Verdict {
        match item {
            CommandPrefixOrSuffixItem::Word(word) => words.extend(self.fields(&word.value, shell)?),
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                if let Some(input) = self.redirect(redirect, shell)? {
                    *redirected = Some(input);
                }
            }
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                // After the name of a command it is an argument like any other.
                match words.is_empty() {
                    true => self.assign(assignment, shell)?,
                    false => words.push(
                        self.text(&word.value, shell)
                            .or_else(|_| self.listed(assignment, shell))?,
                    ),
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                words.push(self.substitution(kind, &subshell.list, shell)?);
            }
        }
        Ok(())
    }

    fn listed(&mut self, assignment: &Assignment, shell: &mut Shell) -> Verdict<String> {
        self.assign(assignment, &mut shell.clone())?;
        Ok(assignment.name.to_string())
    }

    fn assign(&mut self, assignment: &Assignment, shell: &mut Shell) -> Verdict {
        let (name, index) = match &assignment.name {
            AssignmentName::VariableName(name) => (name, None),
            AssignmentName::ArrayElementName(name, index) => (name, Some(index)),
        };
        if let Some(index) = index {
            self.arithmetic(index, shell)?;
        }
        let mut values = match &assignment.value {
            AssignmentValue::Scalar(word) => vec![self.text(&word.value, shell)?],
            AssignmentValue::Array(elements) => {
                let mut values = Vec::new();
                for (key, word) in elements {
                    if let Some(key) = key {
                        self.text(&key.value, shell)?;
                    }
                    values.extend(self.fields(&word.value, shell)?);
                }
                values
            }
        };
        // Arithmetic runs what stands in the brackets of a variable's value; so does a prompt.
        for value in &values {
            match name.as_str() {
                "PS0" | "PS1" | "PS2" | "PS4" | "PROMPT_COMMAND" => {
                    self.suspect(&format!(": \"{value}\""), shell)?
                }
                _ => self.subscripts(value, shell)?,
            }
        }
        let before = shell.variables.get(name).cloned().unwrap_or_default();
        if index.is_some() {
            values = before.into_iter().chain(values).collect();
        } else if assignment.append {
            values = match assignment.value {
                AssignmentValue::Array(_) => before.into_iter().chain(values).collect(),
                AssignmentValue::Scalar(_) => vec![before.concat() + &values.concat()],
            };
        }
        if values.iter().map(String::len).sum::<usize>() > super::MAX_BYTES {
            return unclear("a variable comes to too much");
        }
        shell.variables.insert(name.clone(), values);
        Ok(())
    }

    fn redirects(&mut self, redirects: &[IoRedirect], shell: &mut Shell) -> Verdict<Option<Input>> {
        let mut input = None;
        for redirect in redirects {
            input = self.redirect(redirect, shell)?.or(input);
        }
        Ok(input)
    }

    /// Examines a redirection, and returns the input that it gives.
    fn redirect(&mut self, redirect: &IoRedirect, shell: &mut Shell) -> Verdict<Option<Input>> {
        let is_input = |descriptor: &Option<i32>| descriptor.is_none_or(|number| number == 0);
        match redirect {
            IoRedirect::HereDocument(descriptor, document) => {
                let text = match document.requires_expansion {
                    true => self.document(&document.doc.value, shell)?,
                    false => document.doc.value.clone(),
                };
                Ok(is_input(descriptor).then_some(Input::Text(text)))
            }
            IoRedirect::HereString(descriptor, word) => {
                let text = self.text(&word.value, shell)?;
                Ok(is_input(descriptor).then_some(Input::Text(text)))
            }
            IoRedirect::OutputAndError(word, _) => {
                let path = self.text(&word.value, shell)?;
                self.places.write(&path, shell)?;
                Ok(None)
            }
            IoRedirect::File(descriptor, kind, target) => {
                let path = match target {
                    IoFileRedirectTarget::Fd(_) => return Ok(None),
                    IoFileRedirectTarget::Filename(word)
                    | IoFileRedirectTarget::Duplicate(word) => self.text(&word.value, shell)?,
                    IoFileRedirectTarget::ProcessSubstitution(kind, subshell) => {
                        self.substitution(kind, &subshell.list, shell)?
                    }
                };
                self.places.read(&path, shell)?;
                let is_descriptor = path
                    .trim_end_matches('-')
                    .bytes()
                    .all(|byte| byte.is_ascii_digit());
                match kind {
                    IoFileRedirectKind::Read => Ok(is_input(descriptor).then(|| self.file(&path))),
                    IoFileRedirectKind::DuplicateInput => {
                        let duplicated = if is_descriptor {
                            Input::Unknown
                        } else {
                            self.file(&path)
                        };
                        Ok(is_input(descriptor).then_some(duplicated))
                    }
                    IoFileRedirectKind::DuplicateOutput if is_descriptor => Ok(None),
                    IoFileRedirectKind::Write
                    | IoFileRedirectKind::Append
                    | IoFileRedirectKind::Clobber
                    | IoFileRedirectKind::DuplicateOutput => {
                        self.places.write(&path, shell)?;
                        Ok(None)
                    }
                    IoFileRedirectKind::ReadAndWrite => {
                        self.places.write(&path, shell)?;
                        Ok(is_input(descriptor).then(|| self.file(&path)))
                    }
                }
            }
        }
    }

    /// Returns what is read from a file: from a process substitution, what that writes.
    pub(super) fn file(&self, path: &str) -> Input {
        let number = path
            .strip_prefix("/dev/fd/")
            .and_then(|number| number.parse::<usize>().ok());
        let substituted =
            number.and_then(|number| self.substituted.get(number.checked_sub(FIRST_SUBSTITUTED)?));
        substituted.cloned().unwrap_or(Input::File)
    }

    /// Examines a process substitution, and returns the path that stands for it.
    fn substitution(
        &mut self,
        kind: &ProcessSubstitutionKind,
        list: &CompoundList,
        shell: &mut Shell,
    ) -> Verdict<String> {
        let input = match kind {
            ProcessSubstitutionKind::Read => Input::Nothing,
            ProcessSubstitutionKind::Write => Input::Unknown,
        };
        let fetches = self.fetches;
        let written = self.list(list, &mut shell.clone(), &input)?;
        self.substituted.push(if self.fetches > fetches {
            Input::Fetched
        } else {
            written
        });
        Ok(format!(
            "/dev/fd/{}",
            FIRST_SUBSTITUTED + self.substituted.len() - 1
        ))
    }
}

fn together(first: Input, second: Input) -> Input {
    match (first, second) {
        (Input::Nothing, other) | (other, Input::Nothing) => other,
        (Input::Text(first), Input::Text(second)) => Input::Text(format!("{first}\n{second}")),
        (Input::Fetched, _) | (_, Input::Fetched) => Input::Fetched,
        _ => Input::Unknown,
    }
}
