//! Parsing of a provider's complete answer.

use serde_json::Value;

use super::Provider;
use super::calls::{CallCollector, ToolCall};
use super::text_calls::{TextCalls, calls_in_text};
use super::wire::JsonCursor;
use crate::ResponseError;

/// The answer of a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The tool calls, in order.
    pub calls: Vec<ToolCall>,
    /// The text without the reasoning; `None` if the answer has no text.
    pub text: Option<String>,
    /// The reason for the end of the answer; `None` if the answer does not state it.
    pub finish: Option<Finish>,
}

/// The reason for the end of a model's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finish {
    /// The model finished its text, or waits for the results of its calls.
    Complete,
    /// The answer reached the token limit or the context size.
    Length,
    /// The model refused, or a filter of the provider stopped it.
    Refused,
    /// Another reason.
    Other,
}

impl Provider {
    /// Parses a complete answer; for MCP, a `tools/call` request.
    ///
    /// An answer without calls has an empty list of calls. If there are several choices, only the
    /// first is read.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] if the answer reports an error, has an unexpected shape, or is too large.
    pub fn answer(self, response: &Value) -> Result<Answer, ResponseError> {
        let mut partial = PartialAnswer::default();
        self.format()
            .read_answer(&JsonCursor::open(self, response)?, &mut partial)?;
        let PartialAnswer {
            calls,
            text,
            finish,
        } = partial;
        Ok(Answer {
            calls: calls.finish(),
            text,
            finish,
        })
    }

    /// Returns the calls of a complete answer, which is parsed by [`Provider::answer`].
    ///
    /// # Errors
    ///
    /// Those of [`Provider::answer`], and [`ResponseError::Truncated`] if the answer reached the
    /// token limit after a call began, because the arguments may be incomplete.
    pub fn calls(self, response: &Value) -> Result<Vec<ToolCall>, ResponseError> {
        self.answer(response)?.into_calls()
    }
}

impl Answer {
    /// Makes an answer without calls from its text.
    pub fn from_text(text: String) -> Self {
        Self {
            calls: Vec::new(),
            text: Some(text),
            finish: None,
        }
    }

    /// Moves the calls in the text to the calls, if there are no others; see [`calls_in_text`].
    ///
    /// A call without an id gets one, because providers require it for its result: `text_call_1`
    /// and so on.
    #[must_use]
    pub fn with_text_calls(mut self, is_shown: &dyn Fn(&str) -> bool) -> Self {
        let Some(text) = self.text.as_deref().filter(|_| self.calls.is_empty()) else {
            return self;
        };
        let TextCalls { text, mut calls } = calls_in_text(text, is_shown);
        if calls.is_empty() {
            return self;
        }
        for (index, call) in calls.iter_mut().enumerate() {
            call.id
                .get_or_insert_with(|| format!("text_call_{}", index + 1));
        }
        self.text = (!text.is_empty()).then_some(text);
        self.calls = calls;
        self
    }

    /// Returns the calls, unless the last one may lack its end.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Truncated`] if the answer has calls and reached the token limit.
    pub fn into_calls(self) -> Result<Vec<ToolCall>, ResponseError> {
        match self.calls.last() {
            Some(last) if self.finish == Some(Finish::Length) => Err(ResponseError::Truncated {
                name: last.name.clone(),
            }),
            _ => Ok(self.calls),
        }
    }
}

/// The parts of an answer that are parsed so far.
#[derive(Debug, Default)]
pub(super) struct PartialAnswer {
    pub(super) calls: CallCollector,
    text: Option<String>,
    finish: Option<Finish>,
}

impl PartialAnswer {
    /// Appends to the text.
    pub(super) fn push_text(&mut self, text: &str) {
        self.text.get_or_insert_default().push_str(text);
    }

    /// Sets the finish reason from the provider's value.
    pub(super) fn set_finish(&mut self, reason: Option<&str>, parse: fn(&str) -> Finish) {
        self.finish = reason.map(parse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arguments, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS};
    use serde_json::json;

    fn call(id: Option<&str>, arguments: Arguments) -> ToolCall {
        ToolCall {
            id: id.map(str::to_owned),
            name: "get_weather".into(),
            arguments,
        }
    }

    /// Returns an answer of each provider with one call, and the expected call.
    fn answers() -> Vec<(Provider, Value, ToolCall)> {
        let text = || Arguments::Text("{\"city\": \"Oslo\"}".into());
        let value = || Arguments::Json(json!({"city": "Oslo"}));
        vec![
            (
                Provider::OpenAiChat,
                json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "x", "input": "y"}}]}}]}),
                call(Some("c1"), text()),
            ),
            (
                Provider::OpenAiResponses,
                json!({"error": null, "output": [{"type": "reasoning"}, {"type": "function_call", "id": "fc_1",
                    "call_id": "c1", "name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}]}),
                call(Some("c1"), text()),
            ),
            (
                Provider::Anthropic,
                json!({"type": "message", "content": [{"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}]}),
                call(Some("t1"), value()),
            ),
            (
                Provider::Gemini,
                json!({"candidates": [{"content": {"parts": [{"text": "Hm."},
                    {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}]}}]}),
                call(None, value()),
            ),
            (
                Provider::Ollama,
                json!({"message": {"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}, "done": true}),
                call(None, value()),
            ),
            (
                Provider::Mcp,
                json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                    "params": {"name": "get_weather", "arguments": {"city": "Oslo"}}}),
                call(Some("7"), value()),
            ),
        ]
    }

    #[test]
    fn calls_of_every_provider_are_parsed() {
        for (provider, answer, expected) in answers() {
            assert_eq!(provider.calls(&answer), Ok(vec![expected]), "{provider}");
        }
    }

    #[test]
    fn calls_of_an_answer_without_calls_are_empty() {
        for (provider, answer) in [
            (
                Provider::OpenAiChat,
                json!({"choices": [{"message": {"content": "No.", "tool_calls": null}}]}),
            ),
            (Provider::OpenAiResponses, json!({"output": []})),
            (
                Provider::Anthropic,
                json!({"content": [{"type": "text", "text": "No."}]}),
            ),
            (
                Provider::Gemini,
                json!({"candidates": [{"finishReason": "STOP"}]}),
            ),
            (Provider::Ollama, json!({"message": {"content": "No."}})),
        ] {
            assert_eq!(provider.calls(&answer), Ok(vec![]), "{provider}");
        }
    }

    #[test]
    fn calls_of_a_truncated_answer_are_refused() {
        for (provider, mut answer, call) in answers() {
            match provider {
                Provider::OpenAiChat => answer["choices"][0]["finish_reason"] = json!("length"),
                Provider::OpenAiResponses => {
                    answer["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                Provider::Anthropic => answer["stop_reason"] = json!("max_tokens"),
                Provider::Gemini => answer["candidates"][0]["finishReason"] = json!("MAX_TOKENS"),
                Provider::Ollama => answer["done_reason"] = json!("length"),
                // An MCP call is not an answer and has no finish reason.
                Provider::Mcp => continue,
            }
            let error = provider
                .calls(&answer)
                .expect_err("the last call may lack its end");
            assert_eq!(
                error,
                ResponseError::Truncated { name: call.name },
                "{provider}"
            );
        }
    }

    #[test]
    fn calls_of_malformed_answers_name_the_position() {
        let message_for = |provider: Provider, answer: Value| {
            provider
                .calls(&answer)
                .expect_err("it cannot be read")
                .to_string()
        };
        assert!(
            message_for(
                Provider::OpenAiChat,
                json!({"error": {"message": "slow down"}})
            )
            .ends_with("an error: slow down")
        );
        assert!(
            message_for(Provider::Ollama, json!({"error": "no such model"}))
                .contains("no such model")
        );
        assert!(
            message_for(
                Provider::Anthropic,
                json!({"type": "error", "error": {"message": "x"}})
            )
            .contains("error: x")
        );
        assert!(
            message_for(
                Provider::Gemini,
                json!({"promptFeedback": {"blockReason": "SAFETY"}})
            )
            .contains("SAFETY")
        );
        let wrong = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]});
        assert_eq!(
            message_for(Provider::OpenAiChat, wrong),
            "unexpected answer of openai: /choices/0/message/tool_calls/0/function/name is a number, \
             expected a string"
        );
        assert!(
            message_for(Provider::Mcp, json!({"method": "tools/list"}))
                .contains("/method is a string, expected \"tools/call\"")
        );
        for provider in Provider::ALL {
            for answer in [
                json!(null),
                json!([]),
                json!({}),
                json!("x"),
                json!({"choices": {}, "output": 1, "content": 1,
                "candidates": 1, "message": 1, "method": 1}),
            ] {
                assert!(
                    matches!(provider.calls(&answer), Err(ResponseError::Shape { .. })),
                    "{provider} {answer}"
                );
            }
        }
    }

    #[test]
    fn calls_beyond_the_limits_are_refused() {
        let block = |input: Value| json!({"type": "tool_use", "name": "x", "input": input});
        let many = json!({"content": vec![block(json!({})); MAX_CALLS + 1]});
        assert!(matches!(
            Provider::Anthropic.calls(&many),
            Err(ResponseError::TooLarge { what: "calls", .. })
        ));
        let long = json!({"content": [block(json!("x".repeat(MAX_ANSWER_ARGUMENT_BYTES))), block(json!({}))]});
        let error = Provider::Anthropic
            .calls(&long)
            .expect_err("it is too long");
        assert!(
            matches!(
                error,
                ResponseError::TooLarge {
                    what: "bytes of arguments",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn answer_contains_text_and_finish_reason() {
        let chat = |reason: &str| json!({"choices": [{"message": {"content": "Hm."}, "finish_reason": reason}]});
        let responses = |status: &str, reason: Value| {
            json!({"status": status, "incomplete_details": {"reason": reason}, "output": [{"type": "reasoning"},
                {"type": "message", "content": [{"type": "output_text", "text": "Hm."}]}]})
        };
        let anthropic = |reason: &str| {
            json!({"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Hm."}],
                "stop_reason": reason})
        };
        let gemini = |reason: &str| {
            json!({"candidates": [{"content": {"parts": [{"text": "x", "thought": true}, {"text": "H"}, {"text": "m."}]},
                "finishReason": reason}]})
        };
        let ollama = |reason: &str| json!({"message": {"content": "Hm."}, "done_reason": reason});
        for (provider, answer, finish) in [
            (Provider::OpenAiChat, chat("stop"), Finish::Complete),
            (Provider::OpenAiChat, chat("tool_calls"), Finish::Complete),
            (Provider::OpenAiChat, chat("length"), Finish::Length),
            (
                Provider::OpenAiChat,
                chat("content_filter"),
                Finish::Refused,
            ),
            (
                Provider::OpenAiResponses,
                responses("completed", json!(null)),
                Finish::Complete,
            ),
            (
                Provider::OpenAiResponses,
                responses("incomplete", json!("max_output_tokens")),
                Finish::Length,
            ),
            (
                Provider::OpenAiResponses,
                responses("incomplete", json!("content_filter")),
                Finish::Refused,
            ),
            (Provider::Anthropic, anthropic("end_turn"), Finish::Complete),
            (Provider::Anthropic, anthropic("tool_use"), Finish::Complete),
            (Provider::Anthropic, anthropic("max_tokens"), Finish::Length),
            (Provider::Anthropic, anthropic("refusal"), Finish::Refused),
            (Provider::Anthropic, anthropic("pause_turn"), Finish::Other),
            (Provider::Gemini, gemini("STOP"), Finish::Complete),
            (Provider::Gemini, gemini("MAX_TOKENS"), Finish::Length),
            (Provider::Gemini, gemini("SAFETY"), Finish::Refused),
            (Provider::Ollama, ollama("stop"), Finish::Complete),
            (Provider::Ollama, ollama("length"), Finish::Length),
        ] {
            let answer = provider.answer(&answer).expect("it is an answer");
            assert_eq!(
                (answer.text.as_deref(), answer.finish),
                (Some("Hm."), Some(finish)),
                "{provider}"
            );
        }
        let silent = Provider::OpenAiChat
            .answer(&json!({"choices": [{"message": {"content": [{"type": "text"}]}}]}));
        let silent = silent.expect("it is an answer");
        assert_eq!((silent.text, silent.finish), (None, None));
    }
}
