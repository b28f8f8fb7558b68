//! A provider's whole answer.

use serde_json::Value;

use super::Provider;
use super::calls::{Calls, ToolCall};
use super::wire::At;
use crate::ResponseError;

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// Its calls, in its order.
    pub calls: Vec<ToolCall>,
    /// Its text, without its reasoning; `None` where it gave none.
    pub text: Option<String>,
    /// Why it ended; `None` where the answer does not say.
    pub finish: Option<Finish>,
}

/// Why a model's answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finish {
    /// The model had said all, or waits for the results of its calls.
    Complete,
    /// It reached the most tokens that it may write, or its context holds.
    Length,
    /// The model or a filter of the provider stopped it.
    Refused,
    /// Another reason.
    Other,
}

impl Provider {
    /// Reads a whole answer; for MCP, a `tools/call` request.
    ///
    /// An answer without calls has none, which is not an error. Of several choices the first
    /// counts.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] for an answer that reports an error, is of another shape, or is too large.
    pub fn answer(self, response: &Value) -> Result<Answer, ResponseError> {
        let mut reading = Reading::default();
        self.format()
            .read(&At::open(self, response)?, &mut reading)?;
        let Reading {
            calls,
            text,
            finish,
        } = reading;
        Ok(Answer {
            calls: calls.finish(),
            text,
            finish,
        })
    }

    /// Returns the calls in a whole answer, as [`Provider::answer`] reads it.
    ///
    /// # Errors
    ///
    /// As [`Provider::answer`], and [`ResponseError::BrokenOff`] where the model ran out of tokens
    /// after a call began: its arguments may lack their end.
    pub fn calls(self, response: &Value) -> Result<Vec<ToolCall>, ResponseError> {
        let Answer { calls, finish, .. } = self.answer(response)?;
        match calls.last() {
            Some(last) if finish == Some(Finish::Length) => Err(ResponseError::BrokenOff {
                name: last.name.clone(),
            }),
            _ => Ok(calls),
        }
    }
}

/// An answer as far as it is read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) calls: Calls,
    text: Option<String>,
    finish: Option<Finish>,
}

impl Reading {
    /// Adds to the text.
    pub(super) fn say(&mut self, text: &str) {
        self.text.get_or_insert_default().push_str(text);
    }

    /// Takes the provider's word for why the answer ended, as `meant` reads it.
    pub(super) fn end(&mut self, reason: Option<&str>, meant: fn(&str) -> Finish) {
        self.finish = reason.map(meant);
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

    /// An answer of each provider with one call, and the call.
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
    fn every_provider_s_calls_are_read() {
        for (provider, answer, expected) in answers() {
            assert_eq!(provider.calls(&answer), Ok(vec![expected]), "{provider}");
        }
    }

    #[test]
    fn an_answer_without_calls_has_none() {
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
    fn the_calls_of_an_answer_that_ran_out_of_tokens_are_refused() {
        for (provider, mut answer, call) in answers() {
            match provider {
                Provider::OpenAiChat => answer["choices"][0]["finish_reason"] = json!("length"),
                Provider::OpenAiResponses => {
                    answer["incomplete_details"] = json!({"reason": "max_output_tokens"})
                }
                Provider::Anthropic => answer["stop_reason"] = json!("max_tokens"),
                Provider::Gemini => answer["candidates"][0]["finishReason"] = json!("MAX_TOKENS"),
                Provider::Ollama => answer["done_reason"] = json!("length"),
                // A call is not an answer, and has no end.
                Provider::Mcp => continue,
            }
            let refused = provider
                .calls(&answer)
                .expect_err("the last call may lack its end");
            assert_eq!(
                refused,
                ResponseError::BrokenOff { name: call.name },
                "{provider}"
            );
        }
    }

    #[test]
    fn what_is_no_answer_is_told_with_its_place() {
        let told = |provider: Provider, answer: Value| {
            provider
                .calls(&answer)
                .expect_err("it cannot be read")
                .to_string()
        };
        assert!(
            told(
                Provider::OpenAiChat,
                json!({"error": {"message": "slow down"}})
            )
            .ends_with("an error: slow down")
        );
        assert!(
            told(Provider::Ollama, json!({"error": "no such model"})).contains("no such model")
        );
        assert!(
            told(
                Provider::Anthropic,
                json!({"type": "error", "error": {"message": "x"}})
            )
            .contains("error: x")
        );
        assert!(
            told(
                Provider::Gemini,
                json!({"promptFeedback": {"blockReason": "SAFETY"}})
            )
            .contains("SAFETY")
        );
        let wrong = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]});
        assert_eq!(
            told(Provider::OpenAiChat, wrong),
            "the answer is not one of openai: /choices/0/message/tool_calls/0/function/name is a number, expected a string"
        );
        assert!(
            told(Provider::Mcp, json!({"method": "tools/list"}))
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
    fn what_is_too_large_is_refused() {
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
    fn text_is_read_and_why_an_answer_ended() {
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
