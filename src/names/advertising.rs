//! Under which names a model is shown the tools.
//!
//! A model can only call names that it has seen. A skill says `bash` where the host's tool is
//! `terminalRun`, so either the model is shown `bash`, or it is told that `terminalRun` is also
//! known as that. Which costs what in tokens is told by `picktools translate --costs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use serde::{Deserialize, Serialize};

use crate::catalog::Tool;
use crate::names::AdvertisingError;

/// The most aliases of a tool that can each have a definition: a catalog that claims thousands is
/// not to grow with them.
const MAX_EXPANDED_ALIASES: usize = 32;

/// Under which names tools are shown to a model.
///
/// Deprecated aliases still resolve when a model calls them, but are never shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Advertising {
    /// Under its own name.
    #[default]
    Canonical,
    /// Under its first alias, where it has one.
    PrimaryAlias,
    /// Under its name and under each alias, each with the whole definition.
    Expanded,
    /// Under its name, with the aliases in the description.
    Described,
    /// Under the name that the map has for its id, qualified name or name; under its own where the
    /// map has none.
    ProviderMap(BTreeMap<String, String>),
}

/// A tool as a model is shown it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Advertised {
    /// The name to show, before a provider's rules for names.
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

    /// Returns what a model is shown of `tools`, in their order.
    ///
    /// # Errors
    ///
    /// [`AdvertisingError`] for a map with a key that means none or several of the tools, two keys
    /// for one tool, an empty name, or one name for two tools; and for a tool with more aliases
    /// than can each have a definition. Where the other strategies give two tools one name, it is
    /// the provider's rules for names that part them.
    pub fn apply(&self, tools: &[Arc<Tool>]) -> Result<Vec<Advertised>, AdvertisingError> {
        let shown = |tool: &Arc<Tool>, name: &str, description: String| Advertised {
            name: name.to_owned(),
            tool: Arc::clone(tool),
            description,
        };
        Ok(match self {
            Self::Canonical => tools
                .iter()
                .map(|tool| shown(tool, &tool.name, tool.description.clone()))
                .collect(),
            Self::PrimaryAlias => tools
                .iter()
                .map(|tool| {
                    shown(
                        tool,
                        shown_aliases(tool).next().unwrap_or(&tool.name),
                        tool.description.clone(),
                    )
                })
                .collect(),
            Self::Expanded => tools
                .iter()
                .map(|tool| match tool.aliases.len() {
                    0..=MAX_EXPANDED_ALIASES => Ok(tool),
                    count => Err(AdvertisingError::TooManyAliases {
                        tool: tool.id.clone(),
                        count,
                        limit: MAX_EXPANDED_ALIASES,
                    }),
                })
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .flat_map(|tool| {
                    let own = shown(tool, &tool.name, tool.description.clone());
                    let others = shown_aliases(tool).map(|alias| {
                        let description = format!("Alias for {}. {}", tool.name, tool.description);
                        shown(tool, alias, description.trim_end().to_owned())
                    });
                    std::iter::once(own).chain(others).collect::<Vec<_>>()
                })
                .collect(),
            Self::Described => tools
                .iter()
                .map(|tool| shown(tool, &tool.name, described(tool)))
                .collect(),
            Self::ProviderMap(map) => {
                let names = mapped(map, tools)?;
                tools
                    .iter()
                    .zip(names)
                    .map(|(tool, name)| shown(tool, &name, tool.description.clone()))
                    .collect()
            }
        })
    }
}

/// The aliases that a model may be shown.
pub fn shown_aliases(tool: &Tool) -> impl Iterator<Item = &str> {
    tool.aliases
        .iter()
        .filter(|alias| !alias.deprecated)
        .map(|alias| alias.name.as_str())
}

fn described(tool: &Tool) -> String {
    let aliases: Vec<&str> = shown_aliases(tool).collect();
    if aliases.is_empty() {
        return tool.description.clone();
    }
    let known = format!("Also known as: {}.", aliases.join(", "));
    if tool.description.trim().is_empty() {
        known
    } else {
        format!("{} {known}", tool.description.trim_end())
    }
}

/// The name of each tool under a map.
fn mapped(
    map: &BTreeMap<String, String>,
    tools: &[Arc<Tool>],
) -> Result<Vec<String>, AdvertisingError> {
    let mut owners: HashMap<String, Vec<usize>> = HashMap::with_capacity(tools.len() * 2);
    for (index, tool) in tools.iter().enumerate() {
        for key in [tool.name.clone(), tool.qualified_name()] {
            let known = owners.entry(key).or_default();
            if known.last() != Some(&index) {
                known.push(index);
            }
        }
    }
    // An id is unique, so it means its tool even where it is also another's name.
    owners.extend(
        tools
            .iter()
            .enumerate()
            .map(|(index, tool)| (tool.id.clone(), vec![index])),
    );
    let mut names: Vec<Option<&str>> = vec![None; tools.len()];
    for (key, name) in map {
        let index = match owners.get(key).map_or(&[][..], Vec::as_slice) {
            [] => return Err(AdvertisingError::UnknownTool { name: key.clone() }),
            [index] => *index,
            several => {
                let candidates = several
                    .iter()
                    .map(|&index| tools[index].id.clone())
                    .collect();
                return Err(AdvertisingError::AmbiguousTool {
                    name: key.clone(),
                    candidates,
                });
            }
        };
        let tool = || tools[index].id.clone();
        if name.trim().is_empty() {
            return Err(AdvertisingError::EmptyName { tool: tool() });
        }
        if names[index].replace(name).is_some() {
            return Err(AdvertisingError::NamedTwice { tool: tool() });
        }
    }
    let mut shown: HashMap<&str, usize> = HashMap::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        let name = names[index].unwrap_or(&tool.name);
        let Some(other) = shown.insert(name, index) else {
            continue;
        };
        // Two tools that the map does not speak of are parted by their sources, as ever.
        if names[index].is_some() || names[other].is_some() {
            let tools = vec![tools[other].id.clone(), tool.id.clone()];
            return Err(AdvertisingError::SharedName {
                name: name.to_owned(),
                tools,
            });
        }
    }
    Ok(tools
        .iter()
        .zip(names)
        .map(|(tool, name)| name.unwrap_or(&tool.name).to_owned())
        .collect())
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

    fn shown(advertising: &Advertising) -> Vec<(String, String)> {
        let advertised = advertising.apply(&terminal()).expect("it can be shown");
        advertised
            .into_iter()
            .map(|shown| (shown.name, shown.description))
            .collect()
    }

    fn names(advertising: &Advertising) -> Vec<String> {
        shown(advertising)
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
    fn aliases_are_told_and_deprecated_ones_are_not() {
        let described = shown(&Advertising::Described);
        assert_eq!(
            described[0].1,
            "Runs a command. Also known as: bash, shell."
        );
        assert_eq!(described[1].1, "Changes the folder.");
        assert_eq!(described[2].1, "Also known as: read_file.");
        let expanded = shown(&Advertising::Expanded);
        assert_eq!(
            expanded[1],
            (
                "bash".to_owned(),
                "Alias for terminalRun. Runs a command.".to_owned()
            )
        );
    }

    #[test]
    fn a_tool_with_a_flood_of_aliases_is_not_expanded() {
        let mut tool = Tool::without_arguments("go", "");
        tool.aliases = (0..33)
            .map(|number| Alias {
                name: format!("go{number}"),
                deprecated: false,
            })
            .collect();
        let error = Advertising::Expanded
            .apply(&[Arc::new(tool)])
            .expect_err("they are too many");
        assert!(
            error
                .to_string()
                .starts_with("the tool go has 33 aliases, of which 32 can"),
            "{error}"
        );
    }

    #[test]
    fn a_map_that_is_not_plain_is_refused() {
        let mut tools = terminal();
        let mut other = Tool::without_arguments("terminalRun", "");
        (other.source, other.id) = (Some("far".into()), "far/terminalRun".into());
        tools.push(Arc::new(other));
        // The first tool's id is the bare name, so that is no question of two.
        assert!(map(&[("terminalRun", "x")]).apply(&tools).is_ok());
        Arc::get_mut(&mut tools[0]).expect("it is the only one").id = "near".into();
        let fault = |names: &[(&str, &str)]| {
            map(names)
                .apply(&tools)
                .expect_err("it is refused")
                .to_string()
        };
        assert!(
            fault(&[("terminalRun", "x")])
                .contains("ambiguous; write one of: near, far/terminalRun")
        );
        assert!(fault(&[("terminalMove", "x")]).contains("none of the tools"));
        assert!(
            fault(&[("near", "x"), ("far/terminalRun", "x")])
                .contains("would both be shown as \"x\"")
        );
        assert!(fault(&[("near", "terminalCd")]).contains("would both be shown as \"terminalCd\""));
        assert!(fault(&[("terminalCd", " ")]).contains("empty name"));
        let twice = [("terminalReadFile", "a"), ("terminalReadFile", "b")];
        assert!(map(&twice).apply(&tools).is_ok(), "a map has a key once");
        Arc::get_mut(&mut tools[2]).expect("it is the only one").id = "reader".into();
        let error = map(&[("reader", "a"), ("terminalReadFile", "b")])
            .apply(&tools)
            .expect_err("it is refused");
        assert!(matches!(error, AdvertisingError::NamedTwice { tool } if tool == "reader"));
    }
}
