//! Translation of tools to a provider's definitions, with the names and the changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use picktools::options::TranslateOptions;
use serde::Serialize;
use serde_json::{Value, json};

use super::changes::{Change, ChangeCode, ChangeLog};
use super::format::{Definition, Rules, SearchTool, Strictness};
use super::tokens::MAX_CACHED_LIST;
use super::{Provider, naming, servers, view};
use crate::TranslateError;
use picktools::catalog::Tool;
use picktools::excerpt::cut;
use picktools::names::{AdvertisedTool, ListedTool, section, shown_aliases};

/// Tools in the format of a provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Translation {
    /// The provider of the format.
    pub provider: Provider,
    /// The `tools` member of an API request.
    ///
    /// For Gemini it is a list of one object with `functionDeclarations`; for MCP, the `tools` of a
    /// `tools/list` result.
    pub tools: Value,
    /// The tool ids by shown name.
    pub names: BTreeMap<String, String>,
    /// The changes of the translation, in the order of the tools.
    pub changes: Vec<Change>,
    /// The shown names in the order of the definitions.
    #[serde(skip)]
    order: Vec<String>,
    /// The server markers, by shown name.
    #[serde(skip)]
    markers: HashMap<String, String>,
}

impl Translation {
    /// Lists the translated tools for a prompt, one per line, by the names of their definitions;
    /// empty for an empty list.
    ///
    /// Further definitions of a tool are listed as aliases. The tool's own name and its aliases are
    /// listed too, if the provider accepts them and they do not name another tool. A
    /// `picktools_call::Hydrator` for this translation resolves all of these names.
    pub fn tools_section(&self, tools: &[Arc<Tool>]) -> String {
        let rule = self.provider.format().rules().tool_names;
        let mut name_counts: HashMap<&str, usize> = HashMap::new();
        for tool in tools {
            *name_counts.entry(&tool.name).or_default() += 1;
        }
        let mut names_by_tool: HashMap<&str, Vec<&str>> = HashMap::new();
        for name in &self.order {
            names_by_tool
                .entry(&self.names[name])
                .or_default()
                .push(name);
        }
        let mut descriptions = Vec::with_capacity(tools.len());
        for tool in tools {
            let names = names_by_tool.get(tool.id.as_str());
            let marker = names.and_then(|names| self.markers.get(*names.first()?));
            descriptions.push(with_marker(&tool.description, marker));
        }
        let entries = tools
            .iter()
            .zip(&descriptions)
            .filter_map(|(tool, description)| {
                let (name, further) = names_by_tool.get(tool.id.as_str())?.split_first()?;
                let mut aliases: Vec<String> = Vec::new();
                for name in further {
                    aliases.push((*name).to_owned());
                }
                let own_name = tool.name.as_str();
                let own_name = (name_counts[own_name] == 1).then_some(own_name);
                for name in own_name.into_iter().chain(shown_aliases(tool)) {
                    if rule.allows(name) && !self.names.contains_key(name) {
                        aliases.push(name.to_owned());
                    }
                }
                Some(ListedTool {
                    name: (*name).to_owned(),
                    aliases,
                    description,
                })
            });
        section(entries)
    }

    /// Returns the number of tokens of the definitions as compact JSON.
    pub fn tokens(&self, tokenizer: super::Tokenizer) -> usize {
        match &self.tools {
            Value::Array(definitions) if definitions.len() <= MAX_CACHED_LIST => {
                tokenizer.count_list(definitions)
            }
            tools => tokenizer.count(&tools.to_string()),
        }
    }
}

/// Translates `tools` to the format of `provider`.
///
/// The definitions have the order of the tools. Nothing is dropped silently: if there are more
/// tools than the provider accepts, all are translated and a change reports the excess.
///
/// # Errors
///
/// [`TranslateError`] if the advertised names are invalid, or if the provider does not support
/// deferred loading.
///
/// ```
/// use std::sync::Arc;
/// use picktools_provider::{Provider, translate};
/// use picktools::Tool;
///
/// let tools = [Arc::new(Tool::without_arguments("mail/send", "Sends an email"))];
/// let translation = translate(&tools, Provider::Anthropic, &Default::default())?;
/// assert_eq!(translation.tools[0]["name"], "mail_send");
/// assert_eq!(translation.names["mail_send"], "mail/send");
/// # Ok::<(), picktools_provider::TranslateError>(())
/// ```
pub fn translate(
    tools: &[Arc<Tool>],
    provider: Provider,
    options: &TranslateOptions,
) -> Result<Translation, TranslateError> {
    let format = provider.format();
    let rules = format.rules();
    let search = match &rules.search {
        Some(search) if options.deferred => Some(search),
        None if options.deferred => {
            return Err(TranslateError::NoDeferredLoading {
                provider: provider.name(),
            });
        }
        _ => None,
    };
    let advertised = options.advertising.apply(tools)?;
    let reserved: Vec<&str> = search.map(SearchTool::reserved).into_iter().collect();
    let mut changes = Vec::new();
    let names = naming::tool_names(rules.tool_names, &advertised, &reserved, &mut changes);
    let mut definitions = Vec::with_capacity(advertised.len());
    let server_markers = servers::server_markers(rules.tool_names, &advertised, &names);
    let mut markers = HashMap::new();
    for ((advertised_tool, name), marker) in advertised.iter().zip(&names).zip(server_markers) {
        let mut changes = ChangeLog {
            tool: &advertised_tool.tool.id,
            all: &mut changes,
        };
        let shown = ShownTool {
            advertised: advertised_tool,
            name,
            marker: marker.as_ref(),
        };
        definitions.push(definition(provider, &shown, options, &mut changes));
        if let Some(marker) = marker {
            markers.insert(name.clone(), marker);
        }
    }
    check_request(provider, options, &definitions, &mut changes);
    if let Some(search) = search
        && !definitions.is_empty()
    {
        definitions.insert(0, search.definition());
    }
    let tools = format.tools(definitions);
    let order = names.clone();
    let names = names
        .into_iter()
        .zip(&advertised)
        .map(|(name, advertised_tool)| (name, advertised_tool.tool.id.clone()))
        .collect();
    // Sorted by tool; the changes of one tool keep their order.
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (index, advertised_tool) in advertised.iter().enumerate() {
        positions.entry(&advertised_tool.tool.id).or_insert(index);
    }
    changes.sort_by_key(|change| match &change.tool {
        Some(tool) => positions[tool.as_str()],
        None => usize::MAX,
    });
    Ok(Translation {
        provider,
        tools,
        names,
        changes,
        order,
        markers,
    })
}

/// Makes the content of a search result that loads deferred tools in Anthropic. It is for a custom
/// search that replaces the provider's.
///
/// Source: `platform.claude.com`, "Tool search tool", Custom tool search implementation.
///
/// # Errors
///
/// [`TranslateError::NoToolReferences`] for other providers.
pub fn tool_references<'n>(
    provider: Provider,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<Value, TranslateError> {
    if !provider.format().rules().tool_references {
        return Err(TranslateError::NoToolReferences {
            provider: provider.name(),
        });
    }
    Ok(names
        .into_iter()
        .map(|name| json!({"type": "tool_reference", "tool_name": name}))
        .collect())
}

/// A tool with the texts under which a model sees it.
struct ShownTool<'a> {
    advertised: &'a AdvertisedTool,
    name: &'a str,
    /// The marker that names the server.
    marker: Option<&'a String>,
}

/// Writes one definition and records its changes.
fn definition(
    provider: Provider,
    shown: &ShownTool<'_>,
    options: &TranslateOptions,
    changes: &mut ChangeLog<'_>,
) -> Value {
    let rules = provider.format().rules();
    let tool = &*shown.advertised.tool;
    let open = json!({"type": "object", "additionalProperties": true});
    let (pointer, schema) = match (&tool.provider_schema, &tool.parameters) {
        (Some(schema), _) => ("/provider_schema", schema),
        (None, Some(schema)) => ("/parameters", schema),
        (None, None) => ("/parameters", &open),
    };
    let requested = options.strict.or(tool.strict);
    let view = view::make(
        provider,
        schema,
        requested.unwrap_or_else(|| provider.strict_by_default()),
    );
    for change in view.changes {
        changes.add(
            format!("{pointer}{}", change.pointer),
            change.code,
            change.detail,
        );
    }
    let definition = Definition {
        tool,
        name: shown.name,
        description: description(rules, shown, &view.notes, changes),
        schema: view.schema,
        strict: (view.strict || rules.strict == Strictness::ByDefault).then_some(view.strict),
        deferred: options.deferred,
    };
    provider.format().definition(definition, changes)
}

/// Returns a description with the marker in front of it, where no text of the tool precedes it.
fn with_marker(description: &str, marker: Option<&String>) -> String {
    match marker {
        Some(marker) if description.is_empty() => marker.clone(),
        Some(marker) => format!("{marker} {description}"),
        None => description.to_owned(),
    }
}

/// Builds the description with the marker and the notes of the view, cut to the provider's limit.
fn description(
    rules: &Rules,
    shown: &ShownTool<'_>,
    notes: &[String],
    changes: &mut ChangeLog<'_>,
) -> String {
    let notes = notes.join(" ");
    let tool = &shown.advertised.tool;
    let mut text = shown.advertised.description.trim_end().to_owned();
    if !text.is_empty() && !notes.is_empty() {
        text.push(' ');
    }
    text.push_str(&notes);
    if text.is_empty() && rules.needs_description {
        text = tool.title.clone().unwrap_or_else(|| tool.name.clone());
        let detail = format!("{} requires a description; the name is used", rules.name);
        changes.add("/description", ChangeCode::DescriptionFilled, detail);
    }
    if let Some(marker) = shown.marker {
        let detail = format!("{marker:?} is added, because the name does not tell the server");
        changes.add("/description", ChangeCode::ServerNamed, detail);
        text = with_marker(&text, Some(marker));
    }
    let Some(max_chars) = rules.max_description else {
        return text;
    };
    if text.chars().nth(max_chars).is_some() {
        changes.add(
            "/description",
            ChangeCode::DescriptionShortened,
            format!("cut after {} characters", max_chars - 1),
        );
        text = cut(&text, max_chars - 1).into_owned();
    }
    text
}

/// Reports limits that the whole API request exceeds.
fn check_request(
    provider: Provider,
    options: &TranslateOptions,
    definitions: &[Value],
    changes: &mut Vec<Change>,
) {
    let mut report = |code, detail| {
        changes.push(Change {
            tool: None,
            pointer: String::new(),
            code,
            detail,
        });
    };
    let rules = provider.format().rules();
    let max_tools = if options.deferred {
        rules.max_deferred
    } else {
        rules.max_tools
    };
    if let Some(max_tools) = max_tools
        && definitions.len() > max_tools
    {
        let detail = format!(
            "{provider} accepts at most {max_tools} tools per request, but there are {}",
            definitions.len()
        );
        report(ChangeCode::TooManyTools, detail);
    }
    for detail in provider.format().too_much_strict(definitions) {
        report(ChangeCode::TooMuchStrict, detail);
    }
}
