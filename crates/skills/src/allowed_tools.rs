//! The tools of a skill: `allowed-tools` as a list or a text, with optional scopes.

use std::fmt;

use picktools::excerpt::cut;
use picktools::skills::AllowedTool;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use crate::SkillFault;
use crate::located::Located;
use crate::specification::MAX_NAME_CHARS;

/// The largest number of tools that a skill may name.
const MAX_ALLOWED_TOOLS: usize = 64;
/// The longest entry of a tool, in characters.
const MAX_ALLOWED_TOOL_CHARS: usize = 512;

/// The entries of `allowed-tools`, which is a list or a text.
pub(super) struct ToolEntries(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for ToolEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolEntriesVisitor;

        impl<'de> Visitor<'de> for ToolEntriesVisitor {
            type Value = ToolEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a list of tools, or a text with the tools separated by spaces or commas",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ToolEntries, E> {
                let entries = split_entries(text, is_separator);
                Ok(ToolEntries(
                    entries.into_iter().map(str::to_owned).collect(),
                ))
            }

            fn visit_unit<E: de::Error>(self) -> Result<ToolEntries, E> {
                Ok(ToolEntries(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ToolEntries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element::<String>()? {
                    entries.push(entry);
                }
                Ok(ToolEntries(entries))
            }
        }

        deserializer.deserialize_any(ToolEntriesVisitor)
    }
}

/// Parses the entries, or adds a fault for each that is not valid.
pub(super) fn parse_allowed_tools(
    faults: &mut Vec<SkillFault>,
    entries: &Located<Vec<String>>,
) -> Vec<AllowedTool> {
    let mut add_fault = |message: String, remedy: &str| {
        faults.push(SkillFault {
            line: entries.line,
            message,
            remedy: remedy.to_owned(),
        });
    };
    let count = entries.value.len();
    if count > MAX_ALLOWED_TOOLS {
        let message = format!("allowed-tools names {count} tools, more than {MAX_ALLOWED_TOOLS}");
        add_fault(message, "name only those that the skill needs");
        return Vec::new();
    }
    let mut tools = Vec::new();
    for entry in &entries.value {
        match parse_tool(entry.trim()) {
            Ok(tool) => tools.push(tool),
            Err(problem) => {
                let excerpt = cut(entry, MAX_NAME_CHARS);
                add_fault(
                    format!("allowed-tools has {excerpt:?}, {problem}"),
                    "write `Name` or `Name(scope)`",
                );
            }
        }
    }
    tools
}

/// Returns `true` if the character separates the entries of a text.
pub(super) fn is_separator(c: char) -> bool {
    c == ',' || c.is_whitespace()
}

/// Splits a text at separators outside of parentheses.
pub(super) fn split_entries(text: &str, is_separator: impl Fn(char) -> bool) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut entries: Vec<&str> = text
        .split(|c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && is_separator(c)
        })
        .collect();
    entries.retain(|entry| !entry.trim().is_empty());
    entries
}

/// Parses `Name` or `Name(scope)`.
pub(super) fn parse_tool(entry: &str) -> Result<AllowedTool, &'static str> {
    if entry.chars().count() > MAX_ALLOWED_TOOL_CHARS {
        return Err("which is too long");
    }
    let (name, scope) = match entry.split_once('(') {
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(scope) => (name, scope.trim()),
            None => return Err("whose bracket is not closed at its end"),
        },
        None if entry.contains(')') => return Err("whose bracket is not opened"),
        None => (entry, ""),
    };
    if name.trim().is_empty() {
        return Err("which has no name");
    }
    Ok(AllowedTool {
        name: name.trim().to_owned(),
        scope: (!scope.is_empty()).then(|| scope.to_owned()),
    })
}
