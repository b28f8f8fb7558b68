//! What multiplies without end: functions that call themselves twice over, and loops that never
//! wait.

use std::collections::HashMap;

use brush_parser::ast::{
    AndOr, AndOrList, Command, CompoundCommand, CompoundList, Pipeline, Program, SeparatorOperator,
    SimpleCommand,
};

use super::shown;

/// What a function runs, by name, and whether beside something else.
type Calls = HashMap<String, Vec<(String, bool)>>;

/// Says what in a program multiplies without end.
pub(super) fn find(program: &Program) -> Option<String> {
    let mut bombs = Bombs {
        calls: HashMap::new(),
        function: String::new(),
        found: None,
    };
    program
        .complete_commands
        .iter()
        .for_each(|list| bombs.list(list, false));
    let bomb = bombs.calls.keys().find(|name| is_bomb(name, &bombs.calls));
    let bomb = bomb.map(|name| {
        format!(
            "{:?} is a fork bomb: it starts itself again and again",
            shown(name)
        )
    });
    bombs.found.or(bomb)
}

/// Returns `true` if a function leads back to itself by way of something that runs beside something
/// else.
fn is_bomb(function: &str, calls: &Calls) -> bool {
    let mut reached = vec![(function, false)];
    let mut seen = std::collections::HashSet::new();
    while let Some((name, forked)) = reached.pop() {
        for (called, forks) in calls.get(name).into_iter().flatten() {
            let forked = forked || *forks;
            if called == function && forked {
                return true;
            }
            if calls.contains_key(called) && seen.insert((called, forked)) {
                reached.push((called, forked));
            }
        }
    }
    false
}

struct Bombs {
    calls: Calls,
    /// The function that is walked; empty outside any.
    function: String,
    found: Option<String>,
}

impl Bombs {
    fn list(&mut self, list: &CompoundList, forks: bool) {
        for item in &list.0 {
            self.and_or(&item.0, forks || matches!(item.1, SeparatorOperator::Async));
        }
    }

    fn and_or(&mut self, list: &AndOrList, forks: bool) {
        for pipeline in pipelines(list) {
            pipeline
                .seq
                .iter()
                .for_each(|command| self.command(command, forks || pipeline.seq.len() > 1));
        }
    }

    fn command(&mut self, command: &Command, forks: bool) {
        match command {
            Command::Simple(command) => {
                let name = command.word_or_name.iter().map(|word| plain(&word.value));
                let calls = self.calls.entry(self.function.clone()).or_default();
                calls.extend(name.map(|name| (name, forks)));
            }
            Command::Compound(command, _) => self.compound(command, forks),
            Command::Function(function) => {
                let outer = std::mem::replace(&mut self.function, plain(&function.fname.value));
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
                self.endless(clause.condition.is_none(), &clause.body.list);
                self.list(&clause.body.list, forks);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list, forks),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list, forks),
            CompoundCommand::ForClause(clause) => self.list(&clause.body.list, forks),
            CompoundCommand::CaseClause(clause) => {
                clause
                    .cases
                    .iter()
                    .filter_map(|case| case.cmd.as_ref())
                    .for_each(|list| self.list(list, forks));
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, forks);
                self.list(&clause.then, forks);
                for otherwise in clause.elses.iter().flatten() {
                    otherwise
                        .condition
                        .iter()
                        .chain([&otherwise.body])
                        .for_each(|list| self.list(list, forks));
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                let holds = match command {
                    CompoundCommand::WhileClause(_) => &["true", ":"][..],
                    _ => &["false"],
                };
                let always = matches!(clause.0.0.as_slice(), [item] if only(&item.0).is_some_and(|command| {
                    command.word_or_name.as_ref().is_some_and(|word| holds.contains(&plain(&word.value).as_str()))
                }));
                self.endless(always, &clause.1.list);
                self.list(&clause.0, forks);
                self.list(&clause.1.list, forks);
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body, true),
        }
    }

    /// Notes a loop without end that starts something each time and waits for nothing.
    fn endless(&mut self, always: bool, body: &CompoundList) {
        const WAITS: [&str; 7] = [
            "break",
            "exit",
            "read",
            "return",
            "sleep",
            "wait",
            "inotifywait",
        ];
        let starts = body
            .0
            .iter()
            .any(|item| matches!(item.1, SeparatorOperator::Async));
        let waits = body
            .0
            .iter()
            .filter(|item| matches!(item.1, SeparatorOperator::Sequence))
            .any(|item| {
                pipelines(&item.0)
                    .flat_map(|pipeline| &pipeline.seq)
                    .any(|command| match command {
                        Command::Simple(command) => command
                            .word_or_name
                            .as_ref()
                            .is_some_and(|word| WAITS.contains(&plain(&word.value).as_str())),
                        // What stands deeper may wait.
                        _ => true,
                    })
            });
        if always && starts && !waits {
            self.found
                .get_or_insert_with(|| "it starts programs in a loop without end".to_owned());
        }
    }
}

fn pipelines(list: &AndOrList) -> impl Iterator<Item = &Pipeline> {
    let more = list.additional.iter().map(|next| {
        let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
        pipeline
    });
    [&list.first].into_iter().chain(more)
}

/// The one simple command of a list that has no other.
fn only(list: &AndOrList) -> Option<&SimpleCommand> {
    match (list.first.seq.as_slice(), list.additional.as_slice()) {
        ([Command::Simple(command)], []) => Some(command),
        _ => None,
    }
}

/// A name without its quotes.
fn plain(word: &str) -> String {
    word.chars()
        .filter(|letter| !"\\'\"".contains(*letter))
        .collect()
}
