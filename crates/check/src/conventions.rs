//! Conventions for names and definitions of tools.
//!
//! A name should have an action and its object, every provider should accept it, and the names of a
//! source should have one style. Calls should be validated against a schema.
//! `docs/how-to/names-and-aliases.md` gives the reasons. All names of a source have one author, so
//! each rule reports once for each source.

use std::borrow::Cow;
use std::collections::HashMap;

use rayon::prelude::*;

use super::finding::{ToolFinding, shorten};
use super::rules::{MIXED_NAMES, Rule, UNCHECKED_CALLS, UNPORTABLE_NAME, VAGUE_NAME};
use picktools::catalog::{NoSchemaMode, Tool, is_reserved};
use picktools::names::split_words;

/// The longest name that every provider accepts, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The way in which a name separates its words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum NameCase {
    Snake,
    Kebab,
    Camel,
}

const NAME_CASES: [NameCase; 3] = [NameCase::Snake, NameCase::Kebab, NameCase::Camel];

pub(super) fn check(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    check_names(tools, findings, &VAGUE_NAME, find_vagueness);
    check_names(tools, findings, &UNPORTABLE_NAME, find_unportable_part);
    check_cases(tools, findings);
    for (tool, findings) in tools.iter().zip(findings) {
        if tool.parameters.is_none() && tool.no_schema_mode == Some(NoSchemaMode::Full) {
            findings.push(ToolFinding::new(
                &UNCHECKED_CALLS,
                "/no_schema_mode",
                "full",
            ));
        }
    }
}

/// The first name of a source with a problem.
struct FirstProblem {
    tool: usize,
    problem: Cow<'static, str>,
    /// The number of other names of the source with a problem.
    more: usize,
}

/// Reports for each source the first name in which `find_problem` finds one, and the number of
/// others.
fn check_names(
    tools: &[&Tool],
    findings: &mut [Vec<ToolFinding>],
    rule: &'static Rule,
    find_problem: fn(&str) -> Option<Cow<'static, str>>,
) {
    let mut by_source: HashMap<Option<&str>, FirstProblem> = HashMap::new();
    let problems: Vec<_> = tools
        .par_iter()
        .map(|tool| find_problem(&tool.name))
        .collect();
    for (tool, problem) in problems.into_iter().enumerate() {
        let Some(problem) = problem else {
            continue;
        };
        by_source
            .entry(tools[tool].source.as_deref())
            .and_modify(|first| first.more += 1)
            .or_insert(FirstProblem {
                tool,
                problem,
                more: 0,
            });
    }
    for FirstProblem {
        tool,
        problem,
        more,
    } in by_source.into_values()
    {
        let name = &tools[tool].name;
        let mut message = format!("{:?} {problem}", shorten(name));
        if more > 0 {
            message.push_str(&format!(
                "; {more} more names of the source have such a problem"
            ));
        }
        findings[tool].push(ToolFinding {
            message,
            ..ToolFinding::new(rule, "/name", name)
        });
    }
}

fn find_vagueness(name: &str) -> Option<Cow<'static, str>> {
    if is_reserved(name) {
        return Some("is a name that many hosts use for a tool of their own".into());
    }
    if name.is_ascii() && split_words(name).len() < 2 {
        return Some("does not name an action and its object".into());
    }
    None
}

fn find_unportable_part(name: &str) -> Option<Cow<'static, str>> {
    let is_portable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let consequence = "so some providers see another name";
    if name.chars().count() > MAX_NAME_CHARS {
        Some(format!("is longer than {MAX_NAME_CHARS} characters, {consequence}").into())
    } else if let Some(c) = name.chars().find(|&c| !is_portable(c)) {
        Some(format!("contains {c:?}, {consequence}").into())
    } else if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        Some(format!("does not start with a letter, {consequence}").into())
    } else {
        None
    }
}

/// Reports for each source with several naming styles the first name that differs from the
/// majority.
fn check_cases(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    let mut sources: HashMap<Option<&str>, HashMap<NameCase, usize>> = HashMap::new();
    for tool in tools {
        if let Some(case) = name_case(&tool.name) {
            let counts = sources.entry(tool.source.as_deref()).or_default();
            *counts.entry(case).or_default() += 1;
        }
    }
    for (index, tool) in tools.iter().enumerate() {
        let Some(counts) = sources.get(&tool.source.as_deref()) else {
            continue;
        };
        let total: usize = counts.values().sum();
        let is_usual = |case: &NameCase| counts.get(case).is_some_and(|count| 2 * count > total);
        let differs = name_case(&tool.name).is_some_and(|case| !is_usual(&case));
        if differs && NAME_CASES.iter().any(is_usual) {
            let name = shorten(&tool.name);
            let message = format!("{name:?} has another style than most names of the source");
            findings[index].push(ToolFinding {
                message,
                ..ToolFinding::new(&MIXED_NAMES, "/name", &tool.name)
            });
            sources.remove(&tool.source.as_deref());
        }
    }
}

/// Returns the style of a name of several words; `None` for one word or a mixture of styles.
fn name_case(name: &str) -> Option<NameCase> {
    match (name.contains('_'), name.contains('-')) {
        (true, false) => Some(NameCase::Snake),
        (false, true) => Some(NameCase::Kebab),
        (false, false) if is_camel_case(name) => Some(NameCase::Camel),
        _ => None,
    }
}

fn is_camel_case(name: &str) -> bool {
    let mut follows_lowercase = false;
    for c in name.chars() {
        if follows_lowercase && c.is_ascii_uppercase() {
            return true;
        }
        follows_lowercase = c.is_ascii_lowercase();
    }
    false
}
