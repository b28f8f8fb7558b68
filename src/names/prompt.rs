//! What a host may tell a model of its tools and skills, in words.
//!
//! A model calls the names that it has seen, so a host that wants aliases called lists them. Names
//! and descriptions come from whoever wrote the tool or the skill: each is made one short line, so
//! that none adds a line of its own.

use std::collections::HashMap;
use std::sync::Arc;

use super::advertising::shown_aliases;
use super::skills::Skill;
use crate::catalog::Tool;
use crate::excerpt::one_line;

/// The most characters of a name or an alias.
const MAX_NAME_CHARS: usize = 128;
/// The most characters of a tool's description, whose definition says the rest.
const MAX_TOOL_CHARS: usize = 300;
/// The most characters of a skill's description, which is all that a model sees of it.
const MAX_SKILL_CHARS: usize = 1024;

/// Lists tools with their aliases, one a line; empty where there are none.
///
/// Deprecated aliases are left out. Tools that share a name are listed as `source/name`. Where the
/// model is shown definitions, `picktools_provider::Translation::tools_section` lists the tools by
/// the names of those.
pub fn tools_section<'a>(tools: impl IntoIterator<Item = &'a Arc<Tool>>) -> String {
    let tools: Vec<&Tool> = tools.into_iter().map(Arc::as_ref).collect();
    let mut owners: HashMap<&str, usize> = HashMap::new();
    tools
        .iter()
        .for_each(|tool| *owners.entry(&tool.name).or_default() += 1);
    let listed = tools.iter().map(|tool| Listed {
        name: if owners[tool.name.as_str()] > 1 {
            tool.qualified_name()
        } else {
            tool.name.clone()
        },
        aliases: shown_aliases(tool).map(str::to_owned).collect(),
        description: &tool.description,
    });
    section(listed)
}

/// A tool as a section lists it.
pub struct Listed<'a> {
    /// The name under which it is called.
    pub name: String,
    /// By which it may be called too.
    pub aliases: Vec<String>,
    /// The description, of which the first line is shown.
    pub description: &'a str,
}

/// Lists tools, one a line; empty where there are none.
pub fn section<'a>(tools: impl Iterator<Item = Listed<'a>>) -> String {
    let mut any_alias = false;
    let lines = tools.map(
        |Listed {
             name,
             aliases,
             description,
         }| {
            let aliases: Vec<String> = aliases
                .iter()
                .map(|alias| one_line(alias, MAX_NAME_CHARS))
                .collect();
            any_alias |= !aliases.is_empty();
            let aliases = if aliases.is_empty() {
                String::new()
            } else {
                format!(" (aliases: {})", aliases.join(", "))
            };
            item(
                &format!("{}{aliases}", one_line(&name, MAX_NAME_CHARS)),
                &one_line(description, MAX_TOOL_CHARS),
            )
        },
    );
    let lines: String = lines.collect();
    let aliases = if any_alias {
        "\nA tool may be called by its name or by any of its aliases.\n"
    } else {
        ""
    };
    if lines.is_empty() {
        lines
    } else {
        format!("You have access to these tools:\n{lines}{aliases}")
    }
}

/// Lists skills, one a line; empty where there are none.
pub fn skills_section<'a>(skills: impl IntoIterator<Item = &'a Skill>) -> String {
    let lines = skills.into_iter().map(|skill| {
        item(
            &one_line(&skill.name, MAX_NAME_CHARS),
            &one_line(&skill.description, MAX_SKILL_CHARS),
        )
    });
    let lines: String = lines.collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "You have access to these skills:\n{lines}\nWhere a skill names a tool by an alias, the tool may be called by \
         that alias or by its name.\n"
    )
}

fn item(name: &str, description: &str) -> String {
    if description.is_empty() {
        format!("- {name}\n")
    } else {
        format!("- {name}: {description}\n")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Alias;

    fn tool(name: &str, description: &str, aliases: &[(&str, bool)]) -> Arc<Tool> {
        let mut tool = Tool::without_arguments(name, description);
        tool.aliases = aliases
            .iter()
            .map(|&(name, deprecated)| Alias {
                name: name.into(),
                deprecated,
            })
            .collect();
        Arc::new(tool)
    }

    #[test]
    fn tools_are_listed_with_the_aliases_that_are_still_in_use() {
        let tools = [
            tool(
                "terminalRun",
                "Run a command",
                &[("bash", false), ("sh", true), ("run", false)],
            ),
            tool("ping", "", &[]),
        ];
        let expected = "You have access to these tools:\n- terminalRun (aliases: bash, run): Run a command\n- ping\n\n\
                        A tool may be called by its name or by any of its aliases.\n";
        assert_eq!(tools_section(&tools), expected);
        assert_eq!(
            tools_section(&tools[1..]),
            "You have access to these tools:\n- ping\n"
        );
        assert_eq!(tools_section(&[]), "");
    }

    #[test]
    fn tools_that_share_a_name_are_listed_with_their_source() {
        let from = |source: &str| {
            let mut tool = Tool::without_arguments("send", "Sends");
            tool.source = Some(source.into());
            Arc::new(tool)
        };
        let section = tools_section(&[from("mail"), from("chat")]);
        assert!(
            section.contains("- mail/send: Sends\n- chat/send: Sends\n"),
            "{section}"
        );
    }

    proptest! {
        #[test]
        fn no_text_adds_a_line(name in any::<String>(), description in any::<String>(), alias in any::<String>()) {
            let section = tools_section(&[tool(&name, &description, &[(&alias, false)])]);
            prop_assert_eq!(section.lines().count(), 4, "{}", section);
            prop_assert!(!section.replace('\n', "").contains(char::is_control));
            prop_assert!(section.chars().count() < 800);
        }
    }
}
