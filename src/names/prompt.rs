//! Sections of a system prompt that list tools and skills.
//!
//! A model calls only the names that it has seen, so a host that accepts aliases lists them. Names
//! and descriptions are untrusted text of the tool's or skill's author. Each is reduced to one
//! short line, so that it cannot add a line to the prompt.

use std::collections::HashMap;
use std::sync::Arc;

use super::advertising::shown_aliases;
use super::skills::Skill;
use crate::catalog::Tool;
use crate::excerpt::one_line;

/// The most characters of a name or an alias.
const MAX_NAME_CHARS: usize = 128;
/// The most characters of a tool's description. The tool's definition has the complete text.
const MAX_TOOL_CHARS: usize = 300;
/// The most characters of a skill's description. A model sees nothing else of a skill.
const MAX_SKILL_CHARS: usize = 1024;

/// Lists tools with their aliases, one per line; returns an empty text for no tools.
///
/// Deprecated aliases are omitted. Tools that share a name are listed as `source/name`. If the
/// model also sees definitions, use `picktools_provider::Translation::tools_section`, which lists
/// the tools by the names of the definitions.
pub fn tools_section<'a>(tools: impl IntoIterator<Item = &'a Arc<Tool>>) -> String {
    let tools: Vec<&Tool> = tools.into_iter().map(Arc::as_ref).collect();
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for tool in &tools {
        *owners.entry(&tool.name).or_default() += 1;
    }
    let listed = tools.iter().map(|tool| ListedTool {
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

/// An entry of a section that lists tools.
pub struct ListedTool<'a> {
    /// The name of the tool.
    pub name: String,
    /// Further names by which the model may call the tool.
    pub aliases: Vec<String>,
    /// The description, which is shortened to one line.
    pub description: &'a str,
}

/// Lists tools, one per line; returns an empty text for no tools.
pub fn section<'a>(tools: impl Iterator<Item = ListedTool<'a>>) -> String {
    let mut any_alias = false;
    let mut lines = String::new();
    for tool in tools {
        let mut name = one_line(&tool.name, MAX_NAME_CHARS);
        if !tool.aliases.is_empty() {
            any_alias = true;
            let aliases = tool.aliases.iter();
            let aliases: Vec<String> = aliases
                .map(|alias| one_line(alias, MAX_NAME_CHARS))
                .collect();
            name.push_str(&format!(" (aliases: {})", aliases.join(", ")));
        }
        lines.push_str(&item(&name, &one_line(tool.description, MAX_TOOL_CHARS)));
    }
    if lines.is_empty() {
        return lines;
    }
    let alias_note = if any_alias {
        "\nA tool may be called by its name or by any of its aliases.\n"
    } else {
        ""
    };
    format!("You have access to these tools:\n{lines}{alias_note}")
}

/// Lists skills, one per line; returns an empty text for no skills.
pub fn skills_section<'a>(skills: impl IntoIterator<Item = &'a Skill>) -> String {
    let mut lines = String::new();
    for skill in skills {
        let name = one_line(&skill.name, MAX_NAME_CHARS);
        let description = one_line(&skill.description, MAX_SKILL_CHARS);
        lines.push_str(&item(&name, &description));
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "You have access to these skills:\n{lines}\nWhere a skill names a tool by an alias, \
         the tool may be called by that alias or by its name.\n"
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
    fn tools_are_listed_with_aliases_that_are_not_deprecated() {
        let tools = [
            tool(
                "terminalRun",
                "Run a command",
                &[("bash", false), ("sh", true), ("run", false)],
            ),
            tool("ping", "", &[]),
        ];
        let expected = concat!(
            "You have access to these tools:\n",
            "- terminalRun (aliases: bash, run): Run a command\n",
            "- ping\n",
            "\n",
            "A tool may be called by its name or by any of its aliases.\n",
        );
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
        fn untrusted_text_adds_no_line(
            name in any::<String>(), description in any::<String>(), alias in any::<String>(),
        ) {
            let section = tools_section(&[tool(&name, &description, &[(&alias, false)])]);
            prop_assert_eq!(section.lines().count(), 4, "{}", section);
            prop_assert!(!section.replace('\n', "").contains(char::is_control));
            prop_assert!(section.chars().count() < 800);
        }
    }
}
