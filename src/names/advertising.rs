//! Strategies for the names under which a model sees tools.
//!
//! A model can only call names that it has seen. For example, a skill uses `bash`, and the host's
//! tool is `terminalRun`. Then the model must see the tool as `bash`, or see in the description
//! that the tool is also known as `bash`. `picktools translate --costs` shows the token cost of
//! each strategy.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use serde::{Deserialize, Serialize};

use crate::catalog::Tool;
use crate::names::AdvertisingError;

/// The most aliases of a tool that can have a definition each. It stops a tool with thousands of
/// aliases from flooding the model's context.
const MAX_EXPANDED_ALIASES: usize = 32;

/// Strategy for the names under which a model sees tools.
///
/// Deprecated aliases still resolve when a model calls them, but are never shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Advertising {
    /// The canonical name.
    #[default]
    Canonical,
    /// The first alias, or the canonical name if the tool has no alias.
    PrimaryAlias,
    /// The canonical name and each alias, each with the complete definition.
    Expanded,
    /// The canonical name, with the aliases in the description.
    Described,
    /// The name that the map has for the tool's id, qualified name or name; otherwise the canonical
    /// name.
    ProviderMap(BTreeMap<String, String>),
}

/// A tool with its shown name and description.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AdvertisedTool {
    /// The name to show, before a provider's rules for names apply.
    pub name: String,
    /// The tool.
    pub tool: Arc<Tool>,
    /// The description to show.
    pub description: String,
}

impl Advertising {
    /// Returns the strategy's stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::PrimaryAlias => "primary-alias",
            Self::Expanded => "expanded",
            Self::Described => "described",
            Self::ProviderMap(_) => "provider-map",
        }
    }

    /// Returns `tools` with their shown names and descriptions, in the same order.
    ///
    /// # Errors
    ///
    /// [`AdvertisingError`] for a map with an unknown or ambiguous key, two keys for one tool, an
    /// empty name, or one name for two tools. [`AdvertisingError::TooManyAliases`] for a tool with
    /// too many aliases to expand.
    ///
    /// If another strategy gives two tools the same name, the provider's rules for names
    /// distinguish them.
    pub fn apply(&self, tools: &[Arc<Tool>]) -> Result<Vec<AdvertisedTool>, AdvertisingError> {
        let mut names = match self {
            Self::ProviderMap(map) => map_names(map, tools)?.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut advertised = Vec::with_capacity(tools.len());
        for tool in tools {
            let mut show = |name: &str, description: String| {
                advertised.push(AdvertisedTool {
                    name: name.to_owned(),
                    tool: Arc::clone(tool),
                    description,
                });
            };
            match self {
                Self::Canonical => show(&tool.name, tool.description.clone()),
                Self::PrimaryAlias => {
                    let name = shown_aliases(tool).next().unwrap_or(&tool.name);
                    show(name, tool.description.clone());
                }
                Self::Expanded => {
                    check_alias_count(tool)?;
                    show(&tool.name, tool.description.clone());
                    for alias in shown_aliases(tool) {
                        let description = format!("Alias for {}. {}", tool.name, tool.description);
                        show(alias, description.trim_end().to_owned());
                    }
                }
                Self::Described => show(&tool.name, describe_with_aliases(tool)),
                Self::ProviderMap(_) => {
                    let name = names.next().unwrap_or_else(|| tool.name.clone());
                    show(&name, tool.description.clone());
                }
            }
        }
        Ok(advertised)
    }
}

/// Checks that a tool does not have too many aliases to expand.
fn check_alias_count(tool: &Tool) -> Result<(), AdvertisingError> {
    match tool.aliases.len() {
        0..=MAX_EXPANDED_ALIASES => Ok(()),
        count => Err(AdvertisingError::TooManyAliases {
            tool: tool.id.clone(),
            count,
            limit: MAX_EXPANDED_ALIASES,
        }),
    }
}

/// Returns the aliases that a model may see: those that are not deprecated.
pub fn shown_aliases(tool: &Tool) -> impl Iterator<Item = &str> {
    tool.aliases
        .iter()
        .filter(|alias| !alias.deprecated)
        .map(|alias| alias.name.as_str())
}

fn describe_with_aliases(tool: &Tool) -> String {
    let aliases: Vec<&str> = shown_aliases(tool).collect();
    if aliases.is_empty() {
        return tool.description.clone();
    }
    let alias_sentence = format!("Also known as: {}.", aliases.join(", "));
    if tool.description.trim().is_empty() {
        alias_sentence
    } else {
        format!("{} {alias_sentence}", tool.description.trim_end())
    }
}

/// Returns the shown name of each tool under a name map.
fn map_names(
    map: &BTreeMap<String, String>,
    tools: &[Arc<Tool>],
) -> Result<Vec<String>, AdvertisingError> {
    let mut owners: HashMap<String, Vec<usize>> = HashMap::with_capacity(tools.len() * 2);
    for (index, tool) in tools.iter().enumerate() {
        for key in [tool.name.clone(), tool.qualified_name()] {
            let indexes = owners.entry(key).or_default();
            if indexes.last() != Some(&index) {
                indexes.push(index);
            }
        }
    }
    // An id is unique, so it wins over another tool's equal name.
    for (index, tool) in tools.iter().enumerate() {
        owners.insert(tool.id.clone(), vec![index]);
    }
    let mut names: Vec<Option<&str>> = vec![None; tools.len()];
    for (key, name) in map {
        let Some(indexes) = owners.get(key) else {
            return Err(AdvertisingError::UnknownTool { name: key.clone() });
        };
        let [index] = indexes[..] else {
            let candidates = indexes.iter().map(|&index| tools[index].id.clone());
            return Err(AdvertisingError::AmbiguousTool {
                name: key.clone(),
                candidates: candidates.collect(),
            });
        };
        let tool = || tools[index].id.clone();
        if name.trim().is_empty() {
            return Err(AdvertisingError::EmptyName { tool: tool() });
        }
        if names[index].replace(name).is_some() {
            return Err(AdvertisingError::NamedTwice { tool: tool() });
        }
    }
    let mut by_shown_name: HashMap<&str, usize> = HashMap::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        let name = names[index].unwrap_or(&tool.name);
        let Some(other) = by_shown_name.insert(name, index) else {
            continue;
        };
        // For two tools that are not in the map, the provider's rules resolve the conflict.
        if names[index].is_some() || names[other].is_some() {
            let tools = vec![tools[other].id.clone(), tool.id.clone()];
            return Err(AdvertisingError::SharedName {
                name: name.to_owned(),
                tools,
            });
        }
    }
    let mut shown_names = Vec::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        shown_names.push(names[index].unwrap_or(&tool.name).to_owned());
    }
    Ok(shown_names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Alias;

    /// The terminal tools that skills call `bash`, `cd` and `read_file`.
    fn terminal() -> Vec<Arc<Tool>> {
        let tool = |name: &str, description: &str, aliases: &[(&str, bool)]| {
            let mut tool = Tool::without_arguments(name, description);
            tool.aliases = aliases
                .iter()
                .map(|&(name, deprecated)| Alias {
                    name: name.into(),
                    deprecated,
                })
                .collect();
            Arc::new(tool)
        };
        vec![
            tool(
                "terminalRun",
                "Runs a command.",
                &[("sh", true), ("bash", false), ("shell", false)],
            ),
            tool("terminalCd", "Changes the folder.", &[]),
            tool("terminalReadFile", "", &[("read_file", false)]),
        ]
    }

    fn names_and_descriptions(advertising: &Advertising) -> Vec<(String, String)> {
        let advertised = advertising.apply(&terminal()).expect("the names are valid");
        advertised
            .into_iter()
            .map(|tool| (tool.name, tool.description))
            .collect()
    }

    fn names(advertising: &Advertising) -> Vec<String> {
        names_and_descriptions(advertising)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    fn map(names: &[(&str, &str)]) -> Advertising {
        Advertising::ProviderMap(
            names
                .iter()
                .map(|&(key, name)| (key.to_owned(), name.to_owned()))
                .collect(),
        )
    }

    #[test]
    fn each_strategy_shows_its_names() {
        assert_eq!(
            names(&Advertising::default()),
            ["terminalRun", "terminalCd", "terminalReadFile"]
        );
        assert_eq!(
            names(&Advertising::PrimaryAlias),
            ["bash", "terminalCd", "read_file"]
        );
        assert_eq!(
            names(&Advertising::Expanded),
            [
                "terminalRun",
                "bash",
                "shell",
                "terminalCd",
                "terminalReadFile",
                "read_file"
            ]
        );
        assert_eq!(
            names(&map(&[("terminalRun", "execute_command")]))[..2],
            ["execute_command", "terminalCd"]
        );
    }

    #[test]
    fn aliases_are_shown_unless_they_are_deprecated() {
        let described = names_and_descriptions(&Advertising::Described);
        assert_eq!(
            described[0].1,
            "Runs a command. Also known as: bash, shell."
        );
        assert_eq!(described[1].1, "Changes the folder.");
        assert_eq!(described[2].1, "Also known as: read_file.");
        let expanded = names_and_descriptions(&Advertising::Expanded);
        assert_eq!(
            expanded[1],
            (
                "bash".to_owned(),
                "Alias for terminalRun. Runs a command.".to_owned()
            )
        );
    }

    #[test]
    fn tool_with_too_many_aliases_is_not_expanded() {
        let mut tool = Tool::without_arguments("go", "");
        tool.aliases = (0..33)
            .map(|number| Alias {
                name: format!("go{number}"),
                deprecated: false,
            })
            .collect();
        let error = Advertising::Expanded
            .apply(&[Arc::new(tool)])
            .expect_err("the aliases are too many");
        assert!(
            error
                .to_string()
                .starts_with("too many aliases: the tool go has 33, and at most 32 can"),
            "{error}"
        );
    }

    #[test]
    fn invalid_name_map_is_refused() {
        let mut tools = terminal();
        let mut other = Tool::without_arguments("terminalRun", "");
        (other.source, other.id) = (Some("far".into()), "far/terminalRun".into());
        tools.push(Arc::new(other));
        // The bare name is the first tool's id, so it is not ambiguous.
        assert!(map(&[("terminalRun", "x")]).apply(&tools).is_ok());
        Arc::get_mut(&mut tools[0])
            .expect("there is no other reference")
            .id = "near".into();
        let fault = |names: &[(&str, &str)]| {
            map(names)
                .apply(&tools)
                .expect_err("the map is refused")
                .to_string()
        };
        assert!(
            fault(&[("terminalRun", "x")])
                .contains("\"terminalRun\"; write one of: near, far/terminalRun")
        );
        assert!(fault(&[("terminalMove", "x")]).contains("unknown tool in the name map"));
        assert!(
            fault(&[("near", "x"), ("far/terminalRun", "x")])
                .contains("would both be shown as \"x\"")
        );
        assert!(fault(&[("near", "terminalCd")]).contains("would both be shown as \"terminalCd\""));
        assert!(fault(&[("terminalCd", " ")]).contains("empty name"));
        let twice = [("terminalReadFile", "a"), ("terminalReadFile", "b")];
        assert!(map(&twice).apply(&tools).is_ok(), "a map has a key once");
        Arc::get_mut(&mut tools[2])
            .expect("there is no other reference")
            .id = "reader".into();
        let error = map(&[("reader", "a"), ("terminalReadFile", "b")])
            .apply(&tools)
            .expect_err("the map is refused");
        assert!(matches!(error, AdvertisingError::NamedTwice { tool } if tool == "reader"));
    }
}
