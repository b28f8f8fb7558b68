//! Tools that a provider defines itself, such as its search of the web. An entry of such a tool
//! says nothing that could be ranked or validated.
//!
//! They are known by their types, and only where an entry holds no definition and no policy: a slip
//! in an entry of the caller's own must not make it vanish.
//!
//! Sources: `platform.claude.com`, "Tool reference"; `developers.openai.com/api/reference`,
//! Responses, `tools`; `ai.google.dev/api`, `Tool`, and the Vertex AI reference.

use serde_json::{Map, Value};

use super::entry::EntryFault;
use super::error::FaultKind;
use super::policy::{self, Holder, is_field, is_policy};
use crate::excerpt::marked;

/// How much is shown of a type.
const MAX_TYPE_CHARS: usize = 80;

/// Types without a date; with one, Anthropic's are `NAME_YYYYMMDD`, and OpenAI's `NAME_YYYY_MM_DD`.
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

/// Types that are never without a date.
const DATED_TYPES: [&str; 3] = ["bash", "memory", "text_editor"];

/// The members of Gemini's `Tool`, each of which is a tool.
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

/// Returns `true` if a key is a member of Gemini's `Tool` that is a tool of the provider.
pub(super) fn is_geminis(key: &str) -> bool {
    GEMINI.iter().any(|member| is_field(key, member))
}

/// Says why an entry without a definition is left out or refused; `None` where it may have one.
pub(super) fn fault(entry: &Map<String, Value>) -> Option<EntryFault> {
    let kind = entry.get("type").and_then(Value::as_str);
    let geminis = || !entry.is_empty() && entry.keys().all(|key| is_geminis(key));
    let (pointer, tool) = match kind {
        Some(kind) if is_type(kind) => ("/type".to_owned(), kind),
        None if geminis() => (String::new(), entry.keys().next()?.as_str()),
        None => return None,
        Some("custom") => {
            let message = "a custom tool takes free text, not the JSON that calls are held to";
            return Some(EntryFault::new(
                "/type",
                message,
                "give a function with a parameter for the text, or remove it",
            ));
        }
        Some(kind) => {
            let message = format!(
                "the type {:?} is not known, and there is no schema",
                marked(kind, MAX_TYPE_CHARS)
            );
            let remedy =
                "remove the entry, or give a function with the JSON Schema of its arguments";
            return Some(EntryFault::new("/type", message, remedy));
        }
    };
    let tool = marked(tool, MAX_TYPE_CHARS);
    if let Some(own) = own_member(entry) {
        let message = format!(
            "it stands in the entry of {tool:?}, a tool of the provider, where it counts for nothing"
        );
        return Some(EntryFault::new(
            own,
            message,
            "remove it, or give a definition with a schema",
        ));
    }
    let message =
        format!("{tool:?} is a tool of the provider without a definition, and is left out");
    let mut fault = EntryFault::new(pointer, message, "give it to the provider beside the picks")
        .of(FaultKind::ProviderTool);
    fault.name = entry
        .get("name")
        .and_then(Value::as_str)
        .map(|name| marked(name, MAX_TYPE_CHARS).into_owned());
    Some(fault)
}

fn is_type(kind: &str) -> bool {
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let dated = |&name: &&str| {
        let date = kind
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('_'));
        date.is_some_and(|date| {
            digits(date, 8) || (date.len() == 10 && digits(&date.replace('_', ""), 8))
        })
    };
    TYPES.contains(&kind) || TYPES.iter().chain(&DATED_TYPES).any(dated)
}

/// The pointer to a member that the caller means to define a tool by.
fn own_member(entry: &Map<String, Value>) -> Option<String> {
    let own = entry
        .keys()
        .find(|key| *key == "description" || is_policy(key))
        .map(|key| format!("/{key}"));
    // OpenAI's `mcp` has an approval of its own.
    let mistaken = || {
        policy::faults(Holder::Tool, &[(String::new(), entry)])
            .into_iter()
            .map(|fault| fault.pointer)
    };
    own.or_else(|| mistaken().find(|pointer| pointer != "/require_approval"))
}
