//! Why a call was not carried out, in words that a model can act on.

use std::time::Duration;

use picktools::access::IneligibleReason;
use picktools::call::CallError;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::json;

/// A call that was not carried out: the result of a tool, as no model sees the errors of the protocol.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

/// What went wrong; stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    UnknownTool,
    AmbiguousTool,
    InvalidArguments,
    NotAllowed,
    Quarantined,
    NotConfirmed,
    UpstreamDown,
    UpstreamDied,
    UpstreamError,
    TimedOut,
    Cancelled,
    Busy,
    NotCarried,
    ResultBlocked,
    NotAudited,
}

impl Code {
    /// Its name, as a client sees it.
    pub(crate) fn name(self) -> &'static str {
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
        Self { code, message: message.into(), retry_after: None }
    }

    pub(crate) fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
    }

    pub(crate) fn unknown(name: &str) -> Self {
        Self::new(
            Code::UnknownTool,
            CallError::UnknownTool { name: name.to_owned(), suggestions: Vec::new() }.to_string(),
        )
    }

    /// Writes it as the result of a tool.
    pub(crate) fn result(&self) -> CallToolResult {
        let mut error = json!({"code": self.code.name()});
        if let Some(time) = self.retry_after {
            error["retry_after_ms"] = json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
        let mut meta = MetaObject::new();
        meta.0.insert("picktools/error".to_owned(), error);
        CallToolResult::error(vec![ContentBlock::text(self.message.clone())]).with_meta(Some(meta))
    }
}

/// Whether a caller is not told that a tool exists: it is not for them.
pub(crate) fn is_hidden(reasons: &[IneligibleReason]) -> bool {
    use IneligibleReason::{Excluded, Role, Source};
    reasons.iter().any(|reason| matches!(reason, Role { .. } | Source { .. } | Excluded))
}

impl Refusal {
    /// Why a call by this name is no call of a tool.
    pub(crate) fn of(error: CallError, requested: &str) -> Self {
        let code = match &error {
            CallError::AmbiguousTool { .. } => Code::AmbiguousTool,
            CallError::Ineligible { tool, reasons } => {
                let is_held = |reason: &IneligibleReason| matches!(reason, IneligibleReason::Quarantine);
                if is_hidden(reasons) {
                    return Self::unknown(requested);
                }
                if reasons.iter().any(is_held) {
                    let message = format!(
                        "{tool} is held back: its definition is new or was changed, and waits for the operator \
                         (picktools approve)"
                    );
                    return Self::new(Code::Quarantined, message);
                }
                Code::NotAllowed
            }
            CallError::NotReadOnly { .. } => Code::NotAllowed,
            CallError::TooLarge { .. } | CallError::Malformed { .. } | CallError::Invalid { .. } => {
                Code::InvalidArguments
            }
            _ => Code::UnknownTool,
        };
        Self::new(code, error.to_string())
    }
}
