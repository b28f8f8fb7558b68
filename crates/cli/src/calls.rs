//! Calls in files: our own form, a provider's answer, or its stream.

use anyhow::bail;
use picktools_provider::Provider;
use picktools_provider::{Arguments, CallStream, EventReader, ToolCall};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What stands in the place of a call and is none.
pub(super) struct Unreadable {
    /// The line or the entry.
    pub(super) place: String,
    pub(super) message: String,
}

pub(super) type Calls = Vec<Result<ToolCall, Unreadable>>;

/// A call of the file: `{"name", "arguments"}`, `{"name", "input"}` as Anthropic has it, or
/// OpenAI's `{"function": {"name", "arguments"}}`. The arguments are kept as they are written, so
/// that what is wrong with them is seen.
#[derive(Deserialize)]
struct Line<'a> {
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

impl Line<'_> {
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

/// Reads the calls of a file. What is no call among calls is one of the results; a file without any
/// is an error.
pub(super) fn read_calls(bytes: &[u8], provider: Option<Provider>) -> anyhow::Result<Calls> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let own = read_own(bytes);
    let is_call = |calls: &Calls| calls.is_empty() || calls.iter().any(Result::is_ok);
    let Some(provider) = provider.filter(|_| !is_call(&own)) else {
        let first = own.iter().find_map(|call| call.as_ref().err());
        match first.filter(|_| !is_call(&own)) {
            Some(Unreadable { place, message }) => bail!(
                "no calls; expected {{\"name\": …, \"arguments\": …}}, or --provider for a provider's answer: {place}: \
                 {message}"
            ),
            None => return Ok(own),
        }
    };
    Ok(answered(bytes, provider)?.into_iter().map(Ok).collect())
}

/// Reads the calls of a provider's answer, or of its stream.
fn answered(bytes: &[u8], provider: Provider) -> anyhow::Result<Vec<ToolCall>> {
    if let Ok(answer) = serde_json::from_slice::<Value>(bytes) {
        return Ok(provider.calls(&answer)?);
    }
    let mut reader = EventReader::new();
    let mut events = reader.push(bytes)?;
    events.extend(reader.finish()?);
    let mut stream = CallStream::new(provider);
    events.iter().try_for_each(|event| stream.push(event))?;
    Ok(stream.finish()?)
}

/// Tells whose answer it is: the one provider's in whose form there are calls. `None` for calls in
/// our own form.
pub(super) fn provider_of(bytes: &[u8]) -> anyhow::Result<Option<Provider>> {
    if read_own(bytes).iter().any(Result::is_ok) {
        return Ok(None);
    }
    let has_calls =
        |provider: &Provider| answered(bytes, *provider).is_ok_and(|calls| !calls.is_empty());
    let providers: Vec<Provider> = Provider::ALL.into_iter().filter(has_calls).collect();
    match providers.as_slice() {
        [one] => Ok(Some(*one)),
        [] => bail!(
            "no whole calls in the form of any provider; name it with --provider to learn what is wrong"
        ),
        several => {
            let names: Vec<&str> = several.iter().map(|provider| provider.name()).collect();
            bail!(
                "the answer may be of {}; say which with --provider",
                names.join(" or ")
            )
        }
    }
}

/// What is wrong, with the column; the line is told beside it.
fn told(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let told = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(told, _)| told);
    format!("column {}: {told}", error.column())
}

/// Reads an array of calls, one call, or one a line.
fn read_own(bytes: &[u8]) -> Calls {
    let read = |place: String, bytes: &[u8]| {
        let message = match serde_json::from_slice(bytes).map(Line::call) {
            Ok(Some(call)) => return Ok(call),
            Ok(None) => "it names no tool".to_owned(),
            Err(error) => told(&error),
        };
        Err(Unreadable { place, message })
    };
    if let Ok(entries) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        let entries = entries.iter().enumerate();
        return entries
            .map(|(index, entry)| read(format!("entry {}", index + 1), entry.get().as_bytes()))
            .collect();
    }
    if let Ok(call) = read(String::new(), bytes) {
        return vec![Ok(call)];
    }
    let lines = bytes
        .split(|&byte| byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.trim_ascii().is_empty());
    lines
        .map(|(index, line)| read(format!("line {}", index + 1), line))
        .collect()
}
