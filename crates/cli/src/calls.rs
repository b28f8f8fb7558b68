//! Parsing of call files: plain calls, a provider's answer, or its stream.

use anyhow::bail;
use picktools::json::quote_long_numbers;
use picktools_provider::Provider;
use picktools_provider::{Arguments, CallStream, EventReader, ToolCall};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An entry of a call file that is not a call.
pub(super) struct InvalidEntry {
    /// The number of the line or of the entry.
    pub(super) place: String,
    pub(super) message: String,
}

pub(super) type CallEntries = Vec<Result<ToolCall, InvalidEntry>>;

/// An entry of a call file: `{"name", "arguments"}`, `{"name", "input"}` as Anthropic has it, or
/// OpenAI's `{"function": {"name", "arguments"}}`.
///
/// The arguments stay as they are written, so that their errors can be reported.
#[derive(Deserialize)]
struct CallFileEntry<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow, alias = "input")]
    arguments: Option<&'a RawValue>,
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl CallFileEntry<'_> {
    fn call(self) -> Option<ToolCall> {
        let (name, raw) = match (self.name, self.function) {
            (Some(name), _) => (name, self.arguments),
            (None, Some(function)) => (function.name, function.arguments),
            (None, None) => return None,
        };
        let raw = raw.map_or("", RawValue::get);
        let arguments = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
        Some(ToolCall {
            id: self.id,
            name,
            arguments: Arguments::Text(arguments),
        })
    }
}

/// Parses the calls of a file. Entries that are not calls are part of the result; a file without
/// any call is an error.
pub(super) fn read_calls(bytes: &[u8], provider: Option<Provider>) -> anyhow::Result<CallEntries> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let plain = read_plain(bytes);
    if plain.is_empty() || plain.iter().any(Result::is_ok) {
        return Ok(plain);
    }
    if let Some(provider) = provider {
        let calls = read_answer(bytes, provider)?;
        return Ok(calls.into_iter().map(Ok).collect());
    }
    match plain.first() {
        Some(Err(InvalidEntry { place, message })) => bail!(
            "no calls found; expected {{\"name\": …, \"arguments\": …}}, or --provider for a \
             provider's answer: {place}: {message}"
        ),
        _ => Ok(plain),
    }
}

/// Parses the calls of a provider's answer, or of its stream.
fn read_answer(bytes: &[u8], provider: Provider) -> anyhow::Result<Vec<ToolCall>> {
    if let Ok(answer) = serde_json::from_slice::<Value>(&quote_long_numbers(bytes)) {
        return Ok(provider.calls(&answer)?);
    }
    let mut reader = EventReader::new();
    let mut events = reader.push(bytes)?;
    events.extend(reader.finish()?);
    let mut stream = CallStream::new(provider);
    events.iter().try_for_each(|event| stream.push(event))?;
    Ok(stream.finish()?)
}

/// Returns the only provider in whose format the file contains calls, or `None` for plain calls.
pub(super) fn detect_provider(bytes: &[u8]) -> anyhow::Result<Option<Provider>> {
    if read_plain(bytes).iter().any(Result::is_ok) {
        return Ok(None);
    }
    let has_calls =
        |provider: &Provider| read_answer(bytes, *provider).is_ok_and(|calls| !calls.is_empty());
    let providers: Vec<Provider> = Provider::ALL.into_iter().filter(has_calls).collect();
    match providers.as_slice() {
        [one] => Ok(Some(*one)),
        [] => bail!(
            "no complete calls found in any provider's format; pass --provider to see the error"
        ),
        several => {
            let names: Vec<&str> = several.iter().map(|provider| provider.name()).collect();
            bail!(
                "the answer may come from {}; pass --provider",
                names.join(" or ")
            )
        }
    }
}

/// Returns the message of a JSON error with its column. The caller adds the line.
fn message_with_column(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let cause = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(cause, _)| cause);
    format!("column {}: {cause}", error.column())
}

/// Parses an array of calls, one call, or one call per line.
fn read_plain(bytes: &[u8]) -> CallEntries {
    let parse_entry = |place: String, bytes: &[u8]| {
        let message = match serde_json::from_slice(bytes).map(CallFileEntry::call) {
            Ok(Some(call)) => return Ok(call),
            Ok(None) => "the tool name is missing".to_owned(),
            Err(error) => message_with_column(&error),
        };
        Err(InvalidEntry { place, message })
    };
    if let Ok(entries) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        let mut calls = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let entry_name = format!("entry {}", index + 1);
            calls.push(parse_entry(entry_name, entry.get().as_bytes()));
        }
        return calls;
    }
    if let Ok(call) = parse_entry(String::new(), bytes) {
        return vec![Ok(call)];
    }
    let mut calls = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if !line.trim_ascii().is_empty() {
            calls.push(parse_entry(format!("line {}", index + 1), line));
        }
    }
    calls
}
