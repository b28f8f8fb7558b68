//! Tools to definitions: what goes into an API request, what a called name means, and what was
//! changed on the way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use picktools::options::TranslateOptions;
use serde::Serialize;
use serde_json::{Value, json};

use super::format::{Definition, Rules, SearchTool, Strictness};
use super::{Provider, naming, view};
use crate::TranslateError;
use picktools::catalog::Tool;
use picktools::excerpt::cut;
use picktools::names::{Advertised, Listed, section, shown_aliases};

/// Tools as a provider wants them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Translation {
    /// Whose format it is.
    pub provider: Provider,
    /// What goes into the API request as `tools`: for Gemini a list of one object with
    /// `functionDeclarations`, for MCP the `tools` of a `tools/list` result.
    pub tools: Value,
    /// From the names that the model is shown to the ids of the tools.
    pub names: BTreeMap<String, String>,
    /// What was dropped or changed on the way, in the order of the tools.
    pub changes: Vec<Change>,
    /// The names in the order of the definitions.
    #[serde(skip)]
    order: Vec<String>,
}

/// What of a tool, or of the whole API request, is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The tool's id; none for what concerns the API request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// JSON pointer into the tool's definition.
    pub pointer: String,
    /// What was done.
    pub code: ChangeCode,
    /// The same in words.
    pub detail: String,
}

/// What was done to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeCode {
    /// The name has characters that the provider refuses, or too many.
    NameMended,
    /// Several tools came to one name, which is now qualified or numbered.
    NameQualified,
    /// The description is longer than the provider takes.
    DescriptionShortened,
    /// The provider wants a description and the tool has none.
    DescriptionFilled,
    /// A property is called otherwise.
    PropertyRenamed,
    /// A keyword is not shown; a plain constraint stands in the description instead.
    KeywordDropped,
    /// A value or object that takes anything is not shown as such.
    ValueOpened,
    /// A listed value is not shown.
    ValueDropped,
    /// Listed values that are no strings are shown as strings.
    ValuesAsText,
    /// A value without a shape in the format is a string that holds JSON.
    JsonText,
    /// The alternatives of the root are merged into one object.
    AlternativesMerged,
    /// The root is made a plain object.
    RootMadeObject,
    /// A reference is replaced by what it refers to.
    ReferenceInlined,
    /// A reference that leads back to itself, or nowhere, is not followed.
    ReferenceCut,
    /// Several types, or a schema for each place, are alternatives.
    TypesMadeAnyOf,
    /// `oneOf` is shown as `anyOf`.
    OneOfMadeAnyOf,
    /// `const` is shown as `enum`.
    ConstMadeEnum,
    /// A keyword of an older draft is written as in 2020-12.
    OlderDraft,
    /// An optional property may be null instead of left out.
    OptionalMadeNullable,
    /// An object takes no other properties.
    ObjectClosed,
    /// The schema is too large or too deep to be shown whole.
    TooLarge,
    /// Strictness was asked for and the schema cannot be expressed so.
    NotStrict,
    /// Strictness was asked for and the provider has none.
    StrictUnavailable,
    /// The output schema is not shown.
    OutputSchemaDropped,
    /// The API request has more tools than the provider takes.
    TooManyTools,
    /// The strict tools together are more than the provider takes.
    TooMuchStrict,
    /// More changes of a tool than are listed.
    MoreChanges,
}

impl Translation {
    /// Lists the tools that were translated for a prompt, one a line, by the names of their
    /// definitions; empty where there are none.
    ///
    /// A tool's further definitions are listed as aliases, and so are its own name and its aliases
    /// where the provider takes such names and they mean no other of the tools. By all of them a
    /// `picktools_call::Hydrator` for this translation finds the tool.
    pub fn tools_section(&self, tools: &[Arc<Tool>]) -> String {
        let rule = self.provider.format().rules().tool_names;
        let mut owners: HashMap<&str, usize> = HashMap::new();
        tools
            .iter()
            .for_each(|tool| *owners.entry(&tool.name).or_default() += 1);
        let mut shown: HashMap<&str, Vec<&str>> = HashMap::new();
        for name in &self.order {
            shown.entry(&self.names[name]).or_default().push(name);
        }
        let listed = tools.iter().filter_map(|tool| {
            let (name, further) = shown.get(tool.id.as_str())?.split_first()?;
            let own = Some(tool.name.as_str()).filter(|name| owners[name] == 1);
            let is_free = |name: &&str| rule.allows(name) && !self.names.contains_key(*name);
            let others = own.into_iter().chain(shown_aliases(tool)).filter(is_free);
            let aliases = further
                .iter()
                .copied()
                .chain(others)
                .map(str::to_owned)
                .collect();
            Some(Listed {
                name: (*name).to_owned(),
                aliases,
                description: &tool.description,
            })
        });
        section(listed)
    }

    /// Returns the tokens of the definitions, written as compact JSON.
    pub fn tokens(&self, tokenizer: super::Tokenizer) -> usize {
        tokenizer.count(&self.tools.to_string())
    }
}

/// Writes `tools` as `provider` wants them.
///
/// The definitions stand in the order of the tools. Nothing is cut silently: more tools than the
/// provider takes are all there, and said in the changes.
///
/// # Errors
///
/// [`TranslateError`] where the names to show cannot be made, or the provider cannot load
/// definitions later.
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
        Some(search) => Some(search).filter(|_| options.deferred),
        None if options.deferred => {
            return Err(TranslateError::NoDeferredLoading {
                provider: provider.name(),
            });
        }
        None => None,
    };
    let advertised = options.advertising.apply(tools)?;
    let reserved: Vec<&str> = search.map(SearchTool::reserved).into_iter().collect();
    let mut changes = Vec::new();
    let names = naming::tool_names(rules.tool_names, &advertised, &reserved, &mut changes);
    let mut definitions = Vec::with_capacity(advertised.len());
    for (shown, name) in advertised.iter().zip(&names) {
        let mut changes = ToolChanges {
            tool: &shown.tool.id,
            all: &mut changes,
        };
        definitions.push(definition(provider, shown, name, options, &mut changes));
    }
    check_request(provider, options, &definitions, &mut changes);
    if let Some(search) = search.filter(|_| !definitions.is_empty()) {
        definitions.insert(0, search.definition());
    }
    let tools = format.tools(definitions);
    let order = names.clone();
    let names = names
        .into_iter()
        .zip(&advertised)
        .map(|(name, shown)| (name, shown.tool.id.clone()))
        .collect();
    // By tool, and within one in the order in which things were found.
    let places: HashMap<&str, usize> = advertised
        .iter()
        .enumerate()
        .rev()
        .map(|(index, shown)| (shown.tool.id.as_str(), index))
        .collect();
    changes.sort_by_key(|change| {
        change
            .tool
            .as_deref()
            .map_or(usize::MAX, |tool| places[tool])
    });
    Ok(Translation {
        provider,
        tools,
        names,
        changes,
        order,
    })
}

/// Makes the content of a search's result that has Anthropic load deferred tools: for a search of
/// one's own, in place of the provider's.
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

/// The changes of one tool.
pub(super) struct ToolChanges<'a> {
    tool: &'a str,
    all: &'a mut Vec<Change>,
}

impl ToolChanges<'_> {
    pub(super) fn add(
        &mut self,
        pointer: impl Into<String>,
        code: ChangeCode,
        detail: impl Into<String>,
    ) {
        let (pointer, detail) = (pointer.into(), detail.into());
        self.all.push(Change {
            tool: Some(self.tool.to_owned()),
            pointer,
            code,
            detail,
        });
    }
}

/// One definition, with its changes recorded.
fn definition(
    provider: Provider,
    shown: &Advertised,
    name: &str,
    options: &TranslateOptions,
    changes: &mut ToolChanges<'_>,
) -> Value {
    let rules = provider.format().rules();
    let tool = &*shown.tool;
    let open = json!({"type": "object", "additionalProperties": true});
    let (place, schema) = match (&tool.provider_schema, &tool.parameters) {
        (Some(schema), _) => ("/provider_schema", schema),
        (None, Some(schema)) => ("/parameters", schema),
        (None, None) => ("/parameters", &open),
    };
    let asked = options.strict.or(tool.strict);
    let viewed = view::make(
        provider,
        schema,
        asked.unwrap_or_else(|| provider.strict_by_default()),
    );
    for changed in viewed.changes {
        changes.add(
            format!("{place}{}", changed.pointer),
            changed.code,
            changed.detail,
        );
    }
    let definition = Definition {
        tool,
        name,
        description: description(rules, shown, &viewed.notes, changes),
        schema: viewed.schema,
        strict: (viewed.strict || rules.strict == Strictness::ByDefault).then_some(viewed.strict),
        deferred: options.deferred,
    };
    provider.format().definition(definition, changes)
}

/// The description, with what the schema could not say, and no longer than the provider takes.
fn description(
    rules: &Rules,
    shown: &Advertised,
    notes: &[String],
    changes: &mut ToolChanges<'_>,
) -> String {
    let notes = notes.join(" ");
    let own = shown.description.trim_end();
    let mut text = [own, &notes]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if text.is_empty() && rules.needs_description {
        text = shown
            .tool
            .title
            .clone()
            .unwrap_or_else(|| shown.tool.name.clone());
        let detail = format!("{} wants a description: the name stands in", rules.name);
        changes.add("/description", ChangeCode::DescriptionFilled, detail);
    }
    let Some(most) = rules.max_description else {
        return text;
    };
    if text.chars().nth(most).is_some() {
        changes.add(
            "/description",
            ChangeCode::DescriptionShortened,
            format!("cut after {} characters", most - 1),
        );
        text = cut(&text, most - 1).into_owned();
    }
    text
}

/// Says what is too much for one API request.
fn check_request(
    provider: Provider,
    options: &TranslateOptions,
    definitions: &[Value],
    changes: &mut Vec<Change>,
) {
    let mut too_much = |code, detail| {
        changes.push(Change {
            tool: None,
            pointer: String::new(),
            code,
            detail,
        });
    };
    let rules = provider.format().rules();
    let most = if options.deferred {
        rules.max_deferred
    } else {
        rules.max_tools
    };
    if let Some(most) = most.filter(|most| definitions.len() > *most) {
        let detail = format!(
            "{provider} takes {most} tools in a request, and there are {}",
            definitions.len()
        );
        too_much(ChangeCode::TooManyTools, detail);
    }
    for detail in provider.format().too_much_strict(definitions) {
        too_much(ChangeCode::TooMuchStrict, detail);
    }
}
