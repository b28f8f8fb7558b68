//! Tools to definitions: what goes into a request, what a called name means, and what was changed on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ANTHROPIC_MAX_DEFERRED, OPENAI_MAX_DESCRIPTION, Provider, naming, view};
use crate::catalog::Tool;
use crate::error::TranslateError;
use crate::excerpt::cut;
use crate::names::{Advertised, Advertising};

/// Anthropic's search over deferred tools; the name is fixed. Source: `platform.claude.com`, "Tool search tool".
const ANTHROPIC_SEARCH: (&str, &str) = ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25");
/// OpenAI's. Source: `developers.openai.com/api/docs/guides/tools-tool-search`.
const OPENAI_SEARCH: &str = "tool_search";

/// What Anthropic allows in all strict tools of a request together: tools, optional properties, values of several kinds.
/// Source: `platform.claude.com`, "Structured outputs", schema complexity limits; the error "Schemas contains too many
/// parameters with union types (… limit: 16)".
const ANTHROPIC_MAX_STRICT: [(&str, usize); 3] =
    [("strict tools", 20), ("optional parameters", 24), ("parameters with union types", 16)];

/// How tools are translated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TranslateOptions {
    /// Whether the provider shall hold the model to the schemas. `None` leaves it to each tool
    /// ([`Tool::strict`]), and where that says nothing to the provider ([`Provider::strict_by_default`]).
    pub strict: Option<bool>,
    /// Under which names the tools are shown.
    pub advertising: Advertising,
    /// Whether definitions are loaded only when the model asks for them.
    pub deferred: bool,
}

/// Tools as a provider wants them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Translation {
    /// Whose format it is.
    pub provider: Provider,
    /// What goes into the request as `tools`: for Gemini a list of one object with `functionDeclarations`, for MCP the
    /// `tools` of a `tools/list` result.
    pub tools: Value,
    /// From the names that the model is shown to the ids of the tools.
    pub names: BTreeMap<String, String>,
    /// What was dropped or changed on the way, in the order of the tools.
    pub changes: Vec<Change>,
}

/// What of a tool, or of the whole request, is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The tool's id; none for what concerns the request.
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
    /// The request has more tools than the provider takes.
    TooManyTools,
    /// The strict tools together are more than the provider takes.
    TooMuchStrict,
    /// More changes of a tool than are listed.
    MoreChanges,
}

impl Translation {
    /// Returns the tokens of the definitions, written as compact JSON.
    #[cfg(feature = "tokens")]
    pub fn tokens(&self, tokenizer: super::Tokenizer) -> usize {
        tokenizer.count(&self.tools.to_string())
    }
}

/// Writes `tools` as `provider` wants them.
///
/// The definitions stand in the order of the tools. Nothing is cut silently: more tools than the provider takes are all
/// there, and said in the changes.
///
/// # Errors
///
/// [`TranslateError`] where the names to show cannot be made, or the provider cannot load definitions later.
pub fn translate(
    tools: &[Arc<Tool>],
    provider: Provider,
    options: &TranslateOptions,
) -> Result<Translation, TranslateError> {
    if options.deferred && !provider.has_deferred_loading() {
        return Err(TranslateError::NoDeferredLoading { provider: provider.name() });
    }
    let advertised = options.advertising.apply(tools)?;
    let reserved: &[&str] = match (options.deferred, provider) {
        (false, _) => &[],
        (true, Provider::Anthropic) => &[ANTHROPIC_SEARCH.1],
        (true, _) => &[OPENAI_SEARCH],
    };
    let mut changes = Vec::new();
    let names = naming::tool_names(provider, &advertised, reserved, &mut changes);
    let mut definitions = Vec::with_capacity(advertised.len());
    for (shown, name) in advertised.iter().zip(&names) {
        let definition = definition(provider, shown, name, options, &mut changes);
        definitions.push(definition);
    }
    check_request(provider, options, &definitions, &mut changes);
    if options.deferred && !definitions.is_empty() {
        definitions.insert(0, search_tool(provider));
    }
    let tools = match provider {
        Provider::Gemini if definitions.is_empty() => json!([]),
        Provider::Gemini => json!([{"functionDeclarations": definitions}]),
        _ => Value::Array(definitions),
    };
    let names = names.into_iter().zip(&advertised).map(|(name, shown)| (name, shown.tool.id.clone())).collect();
    // By tool, and within one in the order in which things were found.
    let order: std::collections::HashMap<&str, usize> =
        advertised.iter().enumerate().rev().map(|(index, shown)| (shown.tool.id.as_str(), index)).collect();
    changes.sort_by_key(|change| change.tool.as_deref().map_or(usize::MAX, |tool| order[tool]));
    Ok(Translation { provider, tools, names, changes })
}

/// Makes the content of a search's result that has Anthropic load deferred tools: for a search of one's own, in place of
/// the provider's.
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
    if provider != Provider::Anthropic {
        return Err(TranslateError::NoToolReferences { provider: provider.name() });
    }
    Ok(names.into_iter().map(|name| json!({"type": "tool_reference", "tool_name": name})).collect())
}

fn search_tool(provider: Provider) -> Value {
    match provider {
        Provider::Anthropic => json!({"type": ANTHROPIC_SEARCH.0, "name": ANTHROPIC_SEARCH.1}),
        _ => json!({"type": OPENAI_SEARCH}),
    }
}

/// One definition, with its changes recorded.
fn definition(
    provider: Provider,
    shown: &Advertised,
    name: &str,
    options: &TranslateOptions,
    changes: &mut Vec<Change>,
) -> Value {
    let tool = &*shown.tool;
    let open = json!({"type": "object", "additionalProperties": true});
    let (place, schema) = match (&tool.provider_schema, &tool.parameters) {
        (Some(schema), _) => ("/provider_schema", schema),
        (None, Some(schema)) => ("/parameters", schema),
        (None, None) => ("/parameters", &open),
    };
    let asked = options.strict.or(tool.strict);
    let wanted = asked.unwrap_or_else(|| provider.strict_by_default());
    let viewed = view::make(provider, schema, wanted);
    let mut change = |pointer: String, code, detail| {
        changes.push(Change { tool: Some(tool.id.clone()), pointer, code, detail });
    };
    for changed in viewed.changes {
        change(format!("{place}{}", changed.pointer), changed.code, changed.detail);
    }
    let description = description(provider, shown, &viewed.notes, &mut change);
    let mut function = Map::from_iter([("name".to_owned(), json!(name))]);
    if let (Provider::Mcp, Some(title)) = (provider, &tool.title) {
        function.insert("title".to_owned(), json!(title));
    }
    if !description.is_empty() {
        function.insert("description".to_owned(), json!(description));
    }
    if let Some(schema) = viewed.schema {
        let key = match provider {
            Provider::Anthropic => "input_schema",
            Provider::Mcp => "inputSchema",
            _ => "parameters",
        };
        function.insert(key.to_owned(), schema);
    }
    // Responses is strict where nothing is said, so it is said.
    if viewed.strict || provider == Provider::OpenAiResponses {
        function.insert("strict".to_owned(), json!(viewed.strict));
    }
    if options.deferred {
        function.insert("defer_loading".to_owned(), json!(true));
    }
    if provider == Provider::Mcp {
        mcp_members(tool, &mut function, &mut change);
    }
    match provider {
        Provider::OpenAiChat | Provider::Ollama => json!({"type": "function", "function": function}),
        Provider::OpenAiResponses => {
            let mut whole = Map::from_iter([("type".to_owned(), json!("function"))]);
            whole.append(&mut function);
            Value::Object(whole)
        }
        Provider::Anthropic | Provider::Gemini | Provider::Mcp => Value::Object(function),
    }
}

/// What MCP tells of a tool beside its arguments.
fn mcp_members(tool: &Tool, function: &mut Map<String, Value>, change: &mut impl FnMut(String, ChangeCode, String)) {
    if let Some(schema) = &tool.output_schema {
        if schema.get("type") == Some(&json!("object")) {
            function.insert("outputSchema".to_owned(), schema.clone());
        } else {
            let detail = "MCP takes an output schema only where its root is an object";
            change("/output_schema".to_owned(), ChangeCode::OutputSchemaDropped, detail.to_owned());
        }
    }
    if let Ok(Value::Object(hints)) = serde_json::to_value(&tool.annotations)
        && !hints.is_empty()
    {
        function.insert("annotations".to_owned(), Value::Object(hints));
    }
}

/// The description, with what the schema could not say, and no longer than the provider takes.
fn description(
    provider: Provider,
    shown: &Advertised,
    notes: &[String],
    change: &mut impl FnMut(String, ChangeCode, String),
) -> String {
    let notes = notes.join(" ");
    let own = shown.description.trim_end();
    let mut text = [own, &notes].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let place = || "/description".to_owned();
    if text.is_empty() && provider == Provider::Gemini {
        // `FunctionDeclaration.description` is required.
        text = shown.tool.title.clone().unwrap_or_else(|| shown.tool.name.clone());
        change(place(), ChangeCode::DescriptionFilled, "Gemini wants a description: the name stands in".to_owned());
    }
    let most = match provider {
        Provider::OpenAiChat | Provider::OpenAiResponses => OPENAI_MAX_DESCRIPTION,
        _ => return text,
    };
    if text.chars().nth(most).is_some() {
        change(place(), ChangeCode::DescriptionShortened, format!("cut after {} characters", most - 1));
        text = cut(&text, most - 1).into_owned();
    }
    text
}

/// Says what is too much for one request.
fn check_request(provider: Provider, options: &TranslateOptions, definitions: &[Value], changes: &mut Vec<Change>) {
    let mut too_much = |code, detail| {
        changes.push(Change { tool: None, pointer: String::new(), code, detail });
    };
    let most = match provider {
        Provider::Anthropic if options.deferred => Some(ANTHROPIC_MAX_DEFERRED),
        // What is searched is not in the prompt, and no limit is stated.
        _ if options.deferred => None,
        _ => provider.max_tools(),
    };
    if let Some(most) = most.filter(|most| definitions.len() > *most) {
        let detail = format!("{provider} takes {most} tools in a request, and there are {}", definitions.len());
        too_much(ChangeCode::TooManyTools, detail);
    }
    if provider == Provider::Anthropic {
        let strict: Vec<&Value> = definitions.iter().filter(|definition| definition["strict"] == true).collect();
        let mut counts = [strict.len(), 0, 0];
        strict.iter().for_each(|definition| count_complexity(&definition["input_schema"], &mut counts));
        for ((what, most), count) in ANTHROPIC_MAX_STRICT.into_iter().zip(counts) {
            if count > most {
                let detail = format!("{provider} takes {most} {what} in a request, and there are {count}");
                too_much(ChangeCode::TooMuchStrict, detail);
            }
        }
    }
}

/// Counts optional properties and values of several kinds.
fn count_complexity(schema: &Value, counts: &mut [usize; 3]) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                let required = members.get("required").and_then(Value::as_array).map_or(0, Vec::len);
                counts[1] += properties.len().saturating_sub(required);
            }
            if members.contains_key("anyOf") || members.get("type").is_some_and(Value::is_array) {
                counts[2] += 1;
            }
            members.values().for_each(|member| count_complexity(member, counts));
        }
        Value::Array(items) => items.iter().for_each(|item| count_complexity(item, counts)),
        _ => {}
    }
}
