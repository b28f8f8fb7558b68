//! Tools that a provider defines itself, such as its web search. An entry of such a tool has no
//! definition to rank or to validate.
//!
//! They are recognised by their types, and only if an entry has no definition and no policy:
//! otherwise a slip in a definition would remove the tool.
//!
//! Sources: `platform.claude.com`, "Tool reference"; `developers.openai.com/api/reference`,
//! Responses, `tools`; `ai.google.dev/api`, `Tool`, and the Vertex AI reference.

use serde_json::{Map, Value};

use super::entry_fault::EntryFault;
use super::error::FaultKind;
use super::policy::{self, Holder, is_field, is_policy};
use crate::excerpt::marked;

/// The length of a type in messages, in characters.
const MAX_TYPE_CHARS: usize = 80;

/// Types without a date. With a date, Anthropic's are `NAME_YYYYMMDD`, and OpenAI's
/// `NAME_YYYY_MM_DD`.
const TYPES: [&str; 17] = [
    "apply_patch",
    "code_execution",
    "code_interpreter",
    "computer",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "mcp_toolset",
    "shell",
    "tool_search",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
    "web_fetch",
    "web_search",
    "web_search_preview",
];

/// Types that always have a date.
const DATED_TYPES: [&str; 3] = ["bash", "memory", "text_editor"];

/// The members of Gemini's `Tool` that are provider tools.
const GEMINI: [&str; 10] = [
    "code_execution",
    "computer_use",
    "enterprise_web_search",
    "file_search",
    "google_maps",
    "google_search",
    "google_search_retrieval",
    "mcp_servers",
    "retrieval",
    "url_context",
];

/// Returns `true` if a key is a member of Gemini's `Tool` that is a provider tool.
pub(super) fn is_gemini_tool(key: &str) -> bool {
    GEMINI.iter().any(|member| is_field(key, member))
}

/// Returns the reason why an entry without a definition is left out or rejected; `None` if it may
/// have a definition.
pub(super) fn fault(entry: &Map<String, Value>) -> Option<EntryFault> {
    let kind = entry.get("type").and_then(Value::as_str);
    let is_gemini_entry = || !entry.is_empty() && entry.keys().all(|key| is_gemini_tool(key));
    let (pointer, tool) = match kind {
        Some(kind) if is_provider_type(kind) => ("/type".to_owned(), kind),
        None if is_gemini_entry() => (String::new(), entry.keys().next()?.as_str()),
        None => return None,
        Some("custom") => {
            let message = "a custom tool takes free text, not arguments in JSON";
            return Some(EntryFault::new(
                "/type",
                message,
                "give a function with a parameter for the text, or remove it",
            ));
        }
        Some(kind) => {
            let message = format!(
                "unknown type {:?}, and no schema",
                marked(kind, MAX_TYPE_CHARS)
            );
            let remedy =
                "remove the entry, or give a function with the JSON Schema of its arguments";
            return Some(EntryFault::new("/type", message, remedy));
        }
    };
    let tool = marked(tool, MAX_TYPE_CHARS);
    if let Some(member) = definition_member(entry) {
        let message =
            format!("it has no effect in the entry of {tool:?}, which is a provider tool");
        return Some(EntryFault::new(
            member,
            message,
            "remove it, or give a definition with a schema",
        ));
    }
    let message = format!("{tool:?} is left out: a provider tool without a definition");
    let remedy = "send it to the provider together with the picks";
    let mut fault = EntryFault::new(pointer, message, remedy).with_kind(FaultKind::ProviderTool);
    if let Some(Value::String(name)) = entry.get("name") {
        fault.name = Some(marked(name, MAX_TYPE_CHARS).into_owned());
    }
    Some(fault)
}

/// Returns `true` if a type is the type of a provider tool, with or without a date.
fn is_provider_type(kind: &str) -> bool {
    let is_digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_date = |&name: &&str| {
        let Some(rest) = kind.strip_prefix(name) else {
            return false;
        };
        rest.strip_prefix('_').is_some_and(|date| {
            is_digits(date, 8) || (date.len() == 10 && is_digits(&date.replace('_', ""), 8))
        })
    };
    TYPES.contains(&kind) || TYPES.iter().chain(&DATED_TYPES).any(has_date)
}

/// Returns the pointer to a member that belongs to a definition: a description, or policy in any
/// spelling.
fn definition_member(entry: &Map<String, Value>) -> Option<String> {
    let member = entry
        .keys()
        .find(|key| *key == "description" || is_policy(key));
    if let Some(key) = member {
        return Some(format!("/{key}"));
    }
    let misspelt = policy::faults(Holder::Tool, &[(String::new(), entry)]);
    let mut pointers = misspelt.into_iter().map(|fault| fault.pointer);
    // `require_approval` is a member of OpenAI's `mcp` tool.
    pointers.find(|pointer| pointer != "/require_approval")
}
