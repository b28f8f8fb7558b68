//! Detection of fork bombs: functions that start themselves again and again, and endless loops that
//! start programs without waiting.

use std::collections::{HashMap, HashSet};

use brush_parser::ast::{
    AndOr, AndOrList, Command, CompoundCommand, CompoundList, Pipeline, Program, SeparatorOperator,
};

use super::excerpt;

/// The calls in the body of each function, by function name.
type FunctionCalls = HashMap<String, Vec<FunctionCall>>;

/// A call in the body of a function.
struct FunctionCall {
    name: String,
    /// `true` if the call runs concurrently with another command.
    forks: bool,
}

/// Returns the description of a fork bomb in a program, if there is one.
pub(super) fn find(program: &Program) -> Option<String> {
    let mut finder = BombFinder {
        calls: HashMap::new(),
        function: String::new(),
        endless_loop: None,
    };
    for list in &program.complete_commands {
        finder.list(list, false);
    }
    if finder.endless_loop.is_some() {
        return finder.endless_loop;
    }
    let calls = &finder.calls;
    let bomb = calls.keys().find(|name| is_bomb(name, calls))?;
    Some(format!(
        "{:?} is a fork bomb: it starts itself again and again",
        excerpt(bomb)
    ))
}

/// Returns `true` if a function calls itself, directly or indirectly, with a concurrent call on the
/// way.
fn is_bomb(function: &str, calls: &FunctionCalls) -> bool {
    let mut reached = vec![(function, false)];
    let mut visited = HashSet::new();
    while let Some((name, has_forked)) = reached.pop() {
        for call in calls.get(name).into_iter().flatten() {
            let has_forked = has_forked || call.forks;
            if call.name == function && has_forked {
                return true;
            }
            if calls.contains_key(&call.name) && visited.insert((&call.name, has_forked)) {
                reached.push((&call.name, has_forked));
            }
        }
    }
    false
}

/// Collects the calls of a program. `forks` is `true` for commands that run concurrently.
struct BombFinder {
    calls: FunctionCalls,
    /// The name of the current function; empty outside functions.
    function: String,
    /// The description of an endless loop.
    endless_loop: Option<String>,
}

impl BombFinder {
    fn list(&mut self, list: &CompoundList, forks: bool) {
        for item in &list.0 {
            self.and_or(&item.0, forks || matches!(item.1, SeparatorOperator::Async));
        }
    }

    fn and_or(&mut self, list: &AndOrList, forks: bool) {
        for pipeline in pipelines(list) {
            for command in &pipeline.seq {
                self.command(command, forks || pipeline.seq.len() > 1);
            }
        }
    }

    fn command(&mut self, command: &Command, forks: bool) {
        match command {
            Command::Simple(command) => {
                let calls = self.calls.entry(self.function.clone()).or_default();
                if let Some(word) = &command.word_or_name {
                    let name = unquote(&word.value);
                    calls.push(FunctionCall { name, forks });
                }
            }
            Command::Compound(command, _) => self.compound(command, forks),
            Command::Function(function) => {
                let outer = std::mem::replace(&mut self.function, unquote(&function.fname.value));
                self.calls.entry(self.function.clone()).or_default();
                self.compound(&function.body.0, false);
                self.function = outer;
            }
            Command::ExtendedTest(..) => {}
        }
    }

    fn compound(&mut self, command: &CompoundCommand, forks: bool) {
        match command {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::ArithmeticForClause(clause) => {
                if clause.condition.is_none() {
                    self.check_endless_loop(&clause.body.list);
                }
                self.list(&clause.body.list, forks);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list, forks),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list, forks),
            CompoundCommand::ForClause(clause) => self.list(&clause.body.list, forks),
            CompoundCommand::CaseClause(clause) => {
                for case in &clause.cases {
                    if let Some(list) = &case.cmd {
                        self.list(list, forks);
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, forks);
                self.list(&clause.then, forks);
                for otherwise in clause.elses.iter().flatten() {
                    if let Some(condition) = &otherwise.condition {
                        self.list(condition, forks);
                    }
                    self.list(&otherwise.body, forks);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                let endless_conditions = match command {
                    CompoundCommand::WhileClause(_) => &["true", ":"][..],
                    _ => &["false"],
                };
                if let Some(condition) = single_command_name(&clause.0)
                    && endless_conditions.contains(&condition.as_str())
                {
                    self.check_endless_loop(&clause.1.list);
                }
                self.list(&clause.0, forks);
                self.list(&clause.1.list, forks);
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body, true),
        }
    }

    /// Records an endless loop whose body starts a program and does not wait.
    fn check_endless_loop(&mut self, body: &CompoundList) {
        const WAITS: [&str; 7] = [
            "break",
            "exit",
            "read",
            "return",
            "sleep",
            "wait",
            "inotifywait",
        ];
        let waits = |command: &Command| match command {
            Command::Simple(command) => command
                .word_or_name
                .as_ref()
                .is_some_and(|word| WAITS.contains(&unquote(&word.value).as_str())),
            // A compound command may wait inside.
            _ => true,
        };
        let mut starts_program = false;
        for item in &body.0 {
            match item.1 {
                SeparatorOperator::Async => starts_program = true,
                SeparatorOperator::Sequence => {
                    for pipeline in pipelines(&item.0) {
                        if pipeline.seq.iter().any(waits) {
                            return;
                        }
                    }
                }
            }
        }
        if starts_program {
            self.endless_loop
                .get_or_insert_with(|| "it starts programs in an endless loop".to_owned());
        }
    }
}

fn pipelines(list: &AndOrList) -> Vec<&Pipeline> {
    let mut pipelines = vec![&list.first];
    for next in &list.additional {
        let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
        pipelines.push(pipeline);
    }
    pipelines
}

/// Returns the command name of a list that consists of one simple command.
fn single_command_name(list: &CompoundList) -> Option<String> {
    let [item] = list.0.as_slice() else {
        return None;
    };
    let list = &item.0;
    match (list.first.seq.as_slice(), list.additional.as_slice()) {
        ([Command::Simple(command)], []) => Some(unquote(&command.word_or_name.as_ref()?.value)),
        _ => None,
    }
}

/// Returns a name without its quotes.
fn unquote(word: &str) -> String {
    word.chars()
        .filter(|letter| !"\\'\"".contains(*letter))
        .collect()
}
