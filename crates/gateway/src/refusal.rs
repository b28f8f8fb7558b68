//! Refusals of calls, in words that a model can act on.

use std::time::Duration;

use picktools::access::IneligibleReason;
use picktools_call::CallError;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::json;

use crate::naming::quarantined_id;

/// A call that was not carried out. It is returned as a tool result, because models do not see
/// protocol errors.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of the refusal.
    pub code: Code,
    /// The reason in words.
    pub message: String,
    /// The time after which a retry may succeed.
    pub retry_after: Option<Duration>,
}

/// The kind of a refusal. Its name is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// No tool has this name, or none that the caller may know of.
    UnknownTool,
    /// Several tools have this name.
    AmbiguousTool,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// The caller may not run the tool.
    NotAllowed,
    /// The tool's definition is quarantined.
    Quarantined,
    /// The call was not confirmed.
    NotConfirmed,
    /// The server cannot be reached.
    UpstreamDown,
    /// The server stopped while the call ran.
    UpstreamDied,
    /// The server answered with a protocol error.
    UpstreamError,
    /// The server did not answer in time.
    TimedOut,
    /// The client cancelled the call.
    Cancelled,
    /// A limit of concurrent work or of requests is reached.
    Busy,
    /// The gateway does not support this.
    NotCarried,
    /// The result looks like instructions.
    ResultBlocked,
    /// The call could not be recorded.
    NotAudited,
}

impl Code {
    /// Returns the name that clients see.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::AmbiguousTool => "ambiguous_tool",
            Self::InvalidArguments => "invalid_arguments",
            Self::NotAllowed => "not_allowed",
            Self::Quarantined => "quarantined",
            Self::NotConfirmed => "not_confirmed",
            Self::UpstreamDown => "upstream_down",
            Self::UpstreamDied => "upstream_died",
            Self::UpstreamError => "upstream_error",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Busy => "busy",
            Self::ResultBlocked => "result_blocked",
            Self::NotCarried => "not_carried",
            Self::NotAudited => "not_audited",
        }
    }
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    pub(crate) fn retry_after(self, time: Duration) -> Self {
        Self {
            retry_after: Some(time),
            ..self
        }
    }

    /// Creates the refusal of a call that arrives while the gateway ends.
    pub(crate) fn ending() -> Self {
        Self::new(
            Code::Busy,
            "the gateway is shutting down: the call did not run; call again after the restart",
        )
    }

    /// Creates the refusal of a use of a parallel call that asks the client a question. The answer
    /// comes with the call again, which would run the other uses again.
    pub(crate) fn question_in_use(tool: &str) -> Self {
        let message = format!(
            "{tool} did not run: it needs an answer of the client, which a call inside another call \
             cannot get; call it on its own"
        );
        Self::new(Code::NotConfirmed, message)
    }

    pub(crate) fn unknown(name: &str) -> Self {
        Self::new(
            Code::UnknownTool,
            CallError::UnknownTool {
                name: name.to_owned(),
                suggestions: Vec::new(),
            }
            .to_string(),
        )
    }

    /// Converts the refusal to a tool result.
    pub(crate) fn result(&self) -> CallToolResult {
        let mut error = json!({"code": self.code.name()});
        if let Some(time) = self.retry_after {
            error["retry_after_ms"] = json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
        let mut meta = MetaObject::new();
        meta.0.insert("picktools/error".to_owned(), error);
        CallToolResult::error(vec![ContentBlock::text(self.message.clone())]).with_meta(Some(meta))
    }

    /// Converts the error of a name or call.
    pub fn from_call_error(error: CallError) -> Self {
        let code = match &error {
            CallError::AmbiguousTool { .. } => Code::AmbiguousTool,
            CallError::Ineligible { tool, reasons } => {
                let is_quarantine =
                    |reason: &IneligibleReason| matches!(reason, IneligibleReason::Quarantine);
                if reasons.iter().any(is_quarantine) {
                    let tool = quarantined_id(tool);
                    let message = format!(
                        "{tool} is quarantined: its definition is new or has changed, and the \
                         operator must approve it (picktools approve)"
                    );
                    return Self::new(Code::Quarantined, message);
                }
                Code::NotAllowed
            }
            CallError::NotReadOnly { .. } => Code::NotAllowed,
            CallError::TooLarge { .. }
            | CallError::Malformed { .. }
            | CallError::Invalid { .. } => Code::InvalidArguments,
            _ => Code::UnknownTool,
        };
        Self::new(code, error.to_string())
    }
}
