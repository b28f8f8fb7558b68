//! Parsing of call files: plain calls, a provider's answer, or its stream.

use anyhow::bail;
use clap::Args;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::json::quote_long_numbers;
use picktools_provider::{
    Answer, Arguments, CallStream, EventReader, Provider, ResponseError, ToolCall, call_mark,
    calls_in_text,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{heading, output};

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

/// The content of a call file.
pub(super) enum CallFile {
    /// Calls that do not depend on a provider. Entries that are not calls are part of it.
    Plain(CallEntries),
    /// The answer of a model.
    Answer {
        answer: Answer,
        /// The format; `None` for a plain text.
        provider: Option<Provider>,
    },
}

impl CallFile {
    /// Returns the format of the answer.
    pub(super) fn provider(&self) -> Option<Provider> {
        match self {
            Self::Plain(_) => None,
            Self::Answer { provider, .. } => *provider,
        }
    }

    /// Returns `true` for an answer without calls of its own.
    pub(super) fn is_without_calls(&self) -> bool {
        matches!(self, Self::Answer { answer, .. } if answer.calls.is_empty())
    }

    /// Moves the calls in the text of an answer to its calls, if `args` say so. Otherwise warns of a
    /// text that looks like a call.
    pub(super) fn read_text(self, args: TextCallArgs, is_shown: &dyn Fn(&str) -> bool) -> Self {
        let (mut answer, provider) = match self {
            Self::Answer { answer, provider } if answer.calls.is_empty() => (answer, provider),
            other => return other,
        };
        if args.text_calls {
            answer = answer.with_text_calls(is_shown);
        }
        if let Some(warning) = text_warning(&answer, args) {
            output::warn(warning);
        }
        Self::Answer { answer, provider }
    }

    /// Returns the calls, and the entries that are not calls.
    pub(super) fn entries(self) -> anyhow::Result<CallEntries> {
        match self {
            Self::Plain(entries) => Ok(entries),
            Self::Answer { answer, .. } => Ok(answer.into_calls()?.into_iter().map(Ok).collect()),
        }
    }
}

/// The option to read calls in text.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct TextCallArgs {
    /// Read calls that a local model wrote in its text.
    ///
    /// If the answer has no other calls, its text is searched for the forms of Hermes, Qwen, Llama,
    /// Mistral, Granite, Phi, DeepSeek, GLM, Kimi, functionary, Python lists, harmony and Anthropic.
    /// Only names of tools that the model was shown count. Examples in code fences stay text. The
    /// file may also be the text itself.
    #[arg(long, help_heading = heading::CALLS)]
    pub(super) text_calls: bool,
}

/// Returns the warning about an answer without calls whose text looks like a call.
fn text_warning(answer: &Answer, args: TextCallArgs) -> Option<String> {
    let text = answer.text.as_deref().filter(|_| answer.calls.is_empty())?;
    let looks_like = calls_in_text(text, &|_| true).calls;
    let Some(call) = looks_like.first() else {
        let mark = call_mark(text)?;
        return Some(format!(
            "the answer has no calls, but its text has the mark of a call ({mark}) with content \
             that cannot be read"
        ));
    };
    let name = marked(&call.name, MAX_NAME_CHARS).into_owned();
    Some(if args.text_calls {
        format!("the text of the answer looks like a call of {name}, which is not a shown tool")
    } else {
        format!(
            "the answer has no calls, but its text looks like a call of {name}; read it with \
             --text-calls"
        )
    })
}

/// Parses a call file. A file without any call is an error, unless it is the answer of a model.
///
/// A provider decides first: plain calls are what it does not recognise.
pub(super) fn read_calls(
    bytes: &[u8],
    provider: Option<Provider>,
    args: TextCallArgs,
) -> anyhow::Result<CallFile> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let plain = read_plain(bytes);
    let has_plain = plain.iter().any(Result::is_ok);
    let Some(provider) = provider else {
        let is_complete = |entry: &Result<ToolCall, InvalidEntry>| {
            entry
                .as_ref()
                .is_ok_and(|call| call.arguments != Arguments::Text(String::new()))
        };
        if args.text_calls
            && !plain.iter().all(is_complete)
            && let Ok(text) = std::str::from_utf8(bytes)
            && (!has_plain || looks_like_call(text))
        {
            return Ok(read_as_text(text));
        }
        if plain.is_empty() || has_plain {
            return Ok(CallFile::Plain(plain));
        }
        bail!("{}", no_calls(&plain, bytes));
    };
    match read_answer(bytes, provider) {
        Ok(answer) if is_empty(&answer) && has_plain => Ok(CallFile::Plain(plain)),
        Ok(answer) => Ok(CallFile::Answer {
            answer,
            provider: Some(provider),
        }),
        Err(error) => {
            let starts_plain = plain.first().is_some_and(Result::is_ok);
            let may_be_plain = match error {
                ResponseError::NotJson { event, .. } => starts_plain || event == 1,
                ResponseError::Shape { .. } => starts_plain,
                _ => false,
            };
            let is_not_json = matches!(error, ResponseError::NotJson { event: 1, .. });
            if has_plain && may_be_plain {
                return Ok(CallFile::Plain(plain));
            }
            match std::str::from_utf8(bytes) {
                Ok(text) if args.text_calls && is_not_json => Ok(read_as_text(text)),
                _ => Err(error.into()),
            }
        }
    }
}

/// Parses a call file in the format of the only provider that recognises it, or as plain calls.
pub(super) fn detect_calls(bytes: &[u8], args: TextCallArgs) -> anyhow::Result<CallFile> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let mut with_calls = Vec::new();
    let mut with_text = Vec::new();
    for provider in Provider::ALL {
        match read_answer(bytes, provider) {
            Ok(answer) if !answer.calls.is_empty() => with_calls.push((provider, answer)),
            Ok(answer) if answer.text.is_some() => with_text.push((provider, answer)),
            _ => {}
        }
    }
    with_calls.retain(|(_, answer)| answer.clone().into_calls().is_ok());
    let may_be_other = args.text_calls || read_plain(bytes).iter().any(Result::is_ok);
    if with_calls.is_empty() && with_text.is_empty() && may_be_other {
        return read_calls(bytes, None, args);
    }
    let mut recognised = if with_calls.is_empty() {
        with_text
    } else {
        with_calls
    };
    if recognised.len() > 1 {
        let names: Vec<&str> = recognised
            .iter()
            .map(|(provider, _)| provider.name())
            .collect();
        bail!(
            "the answer may come from {}; pass --provider",
            names.join(" or ")
        )
    }
    match recognised.pop() {
        Some((provider, answer)) => Ok(CallFile::Answer {
            answer,
            provider: Some(provider),
        }),
        None => bail!(NO_COMPLETE_CALLS),
    }
}

/// The error of an answer that no provider recognises, or that has no calls.
pub(super) const NO_COMPLETE_CALLS: &str =
    "no complete calls found in any provider's format; pass --provider to see the error";

/// Returns `true` if an answer has neither calls, nor a text, nor a reason for its end.
fn is_empty(answer: &Answer) -> bool {
    answer.calls.is_empty() && answer.text.is_none() && answer.finish.is_none()
}

fn looks_like_call(text: &str) -> bool {
    !calls_in_text(text, &|_| true).calls.is_empty()
}

/// Returns the answer of a model that consists of a text.
fn read_as_text(text: &str) -> CallFile {
    CallFile::Answer {
        answer: Answer::from_text(text.to_owned()),
        provider: None,
    }
}

/// The error of a file without calls.
const NO_CALLS: &str = "no calls found; expected {\"name\": …, \"arguments\": …}, or --provider for a \
                        provider's answer";

/// Returns the message for a file without calls.
fn no_calls(plain: &CallEntries, bytes: &[u8]) -> String {
    let mut message = NO_CALLS.to_owned();
    if std::str::from_utf8(bytes).is_ok_and(looks_like_call) {
        message.push_str(", or --text-calls for the text of a model");
    }
    if let Some(Err(InvalidEntry {
        place,
        message: reason,
    })) = plain.first()
    {
        let separator = if place.is_empty() { "" } else { ": " };
        message.push_str(&format!(": {place}{separator}{reason}"));
    }
    message
}

/// Parses a provider's answer, or its stream.
fn read_answer(bytes: &[u8], provider: Provider) -> Result<Answer, ResponseError> {
    let assemble = |events: &[Value]| {
        let mut stream = CallStream::new(provider);
        events.iter().try_for_each(|event| stream.push(event))?;
        stream.finish_answer()
    };
    match serde_json::from_slice::<Value>(&quote_long_numbers(bytes)) {
        // Gemini sends the chunks of a stream as an array.
        Ok(Value::Array(events)) => assemble(&events),
        Ok(document) => match provider.answer(&document) {
            Err(error @ ResponseError::Shape { .. }) => match assemble(&[document]) {
                Ok(answer) if !is_empty(&answer) => Ok(answer),
                _ => Err(error),
            },
            result => result,
        },
        Err(_) => {
            let mut reader = EventReader::new();
            let mut events = reader.push(bytes)?;
            events.extend(reader.finish()?);
            assemble(&events)
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
///
/// A complete JSON document is never read by lines, nor is a document that ends early: one of its
/// lines may look like a call.
fn read_plain(bytes: &[u8]) -> CallEntries {
    if let Ok(entries) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        let mut calls = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let entry_name = format!("entry {}", index + 1);
            calls.push(parse_entry(entry_name, entry.get().as_bytes()));
        }
        return calls;
    }
    let mut lines = bytes.split(|&byte| byte == b'\n').enumerate();
    let first = lines.find(|(_, line)| !line.trim_ascii().is_empty());
    let Some((start, first)) = first else {
        return Vec::new();
    };
    let is_unfinished =
        serde_json::from_slice::<IgnoredAny>(first).is_err_and(|error| error.is_eof());
    if is_unfinished {
        match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => return vec![parse_entry(String::new(), bytes)],
            // The next line continues the first one, which is therefore no entry that was cut off.
            Err(error) if error.line() > start + 2 || error.column() > 1 => {
                return vec![parse_entry(format!("line {}", error.line()), bytes)];
            }
            Err(_) => {}
        }
    }
    let mut calls = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate().skip(start) {
        if !line.trim_ascii().is_empty() {
            calls.push(parse_entry(format!("line {}", index + 1), line));
        }
    }
    calls
}

fn parse_entry(place: String, bytes: &[u8]) -> Result<ToolCall, InvalidEntry> {
    let message = match serde_json::from_slice(bytes).map(CallFileEntry::call) {
        Ok(Some(call)) => return Ok(call),
        Ok(None) => "the tool name is missing".to_owned(),
        Err(error) => message_with_column(&error),
    };
    Err(InvalidEntry { place, message })
}
