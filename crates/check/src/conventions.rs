//! How the author of a catalog should name and define tools, beside what is invalid.
//!
//! Names say what a tool does and on what, every provider takes them, and they are written in one
//! way; calls are held to schemas. `docs/names.md` has the reasons. Names of one source are of one
//! author, who is told once.

use std::borrow::Cow;
use std::collections::HashMap;

use rayon::prelude::*;

use super::Found;
use super::rules::{MIXED_NAMES, Rule, UNCHECKED_CALLS, UNPORTABLE_NAME, VAGUE_NAME};
use picktools::catalog::{NoSchemaMode, Tool, is_reserved};
use picktools::names::words_of;

/// The most characters of a name that every provider takes.
const MOST_CHARS: usize = 64;

/// How the words of a name are parted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Style {
    Snake,
    Kebab,
    Camel,
}

const STYLES: [Style; 3] = [Style::Snake, Style::Kebab, Style::Camel];

pub(super) fn check(tools: &[&Tool], found: &mut [Vec<Found>]) {
    names(tools, found, &VAGUE_NAME, vague);
    names(tools, found, &UNPORTABLE_NAME, unportable);
    mixed(tools, found);
    for (tool, found) in tools.iter().zip(found) {
        if tool.parameters.is_none() && tool.no_schema_mode == Some(NoSchemaMode::Full) {
            found.push(Found::new(&UNCHECKED_CALLS, "/no_schema_mode", "full"));
        }
    }
}

/// Tells each source of the first of its names that `fault` finds fault with, and how many more
/// there are.
fn names(
    tools: &[&Tool],
    found: &mut [Vec<Found>],
    rule: &'static Rule,
    fault: fn(&str) -> Option<Cow<'static, str>>,
) {
    let mut by_source: HashMap<Option<&str>, (usize, Cow<'static, str>, usize)> = HashMap::new();
    let problems: Vec<_> = tools.par_iter().map(|tool| fault(&tool.name)).collect();
    for (at, problem) in problems.into_iter().enumerate() {
        if let Some(problem) = problem {
            let first = by_source.entry(tools[at].source.as_deref());
            first
                .and_modify(|(.., more)| *more += 1)
                .or_insert((at, problem, 0));
        }
    }
    for (at, problem, more) in by_source.into_values() {
        let mut message = format!("{:?} {problem}", super::shown(&tools[at].name));
        if more > 0 {
            message.push_str(&format!(", and {more} more names of the source likewise"));
        }
        found[at].push(Found {
            message,
            ..Found::new(rule, "/name", &tools[at].name)
        });
    }
}

fn vague(name: &str) -> Option<Cow<'static, str>> {
    if is_reserved(name) {
        return Some("is what agents call such a tool of any host".into());
    }
    (name.is_ascii() && words_of(name).len() < 2)
        .then_some("does not say what is done, and on what".into())
}

fn unportable(name: &str) -> Option<Cow<'static, str>> {
    let taken = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let shown_another = "so that some providers are shown another name";
    if name.chars().count() > MOST_CHARS {
        Some(format!("is longer than {MOST_CHARS} characters, {shown_another}").into())
    } else if let Some(c) = name.chars().find(|&c| !taken(c)) {
        Some(format!("holds {c:?}, {shown_another}").into())
    } else if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        Some(format!("does not begin with a letter, {shown_another}").into())
    } else {
        None
    }
}

/// Tells each source whose names are written in several ways of the first that is not written as
/// most are.
fn mixed(tools: &[&Tool], found: &mut [Vec<Found>]) {
    let mut sources: HashMap<Option<&str>, HashMap<Style, usize>> = HashMap::new();
    for tool in tools {
        if let Some(style) = style(&tool.name) {
            *sources
                .entry(tool.source.as_deref())
                .or_default()
                .entry(style)
                .or_default() += 1;
        }
    }
    for (at, tool) in tools.iter().enumerate() {
        let Some(counts) = sources.get(&tool.source.as_deref()) else {
            continue;
        };
        let all: usize = counts.values().sum();
        let is_usual = |style: &Style| counts.get(style).is_some_and(|count| 2 * count > all);
        if STYLES.iter().any(is_usual) && style(&tool.name).is_some_and(|style| !is_usual(&style)) {
            let name = super::shown(&tool.name);
            let message = format!("{name:?} is not written as most names of the source are");
            found[at].push(Found {
                message,
                ..Found::new(&MIXED_NAMES, "/name", &tool.name)
            });
            sources.remove(&tool.source.as_deref());
        }
    }
}

/// How a name of several words is written; `None` for one word, and for what is written in no known
/// way.
fn style(name: &str) -> Option<Style> {
    let is_camel = || {
        name.chars()
            .zip(name.chars().skip(1))
            .any(|(before, after)| before.is_ascii_lowercase() && after.is_ascii_uppercase())
    };
    match (name.contains('_'), name.contains('-')) {
        (true, false) => Some(Style::Snake),
        (false, true) => Some(Style::Kebab),
        (false, false) if is_camel() => Some(Style::Camel),
        _ => None,
    }
}
