//! Findings: one defect, or one suspicious text.

use picktools::catalog::{Position, Tool};
use picktools::excerpt::marked;
use serde::Serialize;

use super::rules::{Rule, Severity};

/// The longest text that a finding quotes, in characters.
const MAX_SHOWN: usize = 160;

/// One defect, or one suspicious text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's stable name; see [`CheckReport::rules`](crate::CheckReport::rules).
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The position of the entry; in JSON the text `line 3` or `entry 4`.
    pub position: Position,
    /// The tool's id, if the entry has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// JSON pointer into the definition, with the native names of its members; empty for the
    /// complete entry.
    pub pointer: String,
    /// The problem, in one sentence.
    pub message: String,
    /// The text in question, shortened and made printable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The advice for the author or the operator.
    pub remedy: String,
}

/// The warnings that hold a definition of a server like an error: the text deceives the model or
/// the person who reads it, or asks for data that the tool does not need. Honest definitions hardly
/// ever have them; `docs/results.md` has the figures.
const HOLDING: [&str; 12] = [
    "overrides-instructions",
    "role-markup",
    "conceals-from-user",
    "instructions-in-value",
    "asks-for-conversation",
    "asks-for-secrets",
    "hidden-characters",
    "disguised-words",
    "hidden-markup",
    "padded-text",
    "encoded-text",
    "embedded-command",
];

impl Finding {
    /// Returns `true` if a person should decide before a model reads the definition: for errors, and
    /// for warnings of texts that deceive the model or ask for data that the tool does not need.
    pub fn holds(&self) -> bool {
        self.severity == Severity::Error || HOLDING.contains(&self.code)
    }

    /// Returns the code and the message in one line.
    pub fn summary(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }
}

/// A finding without the position of its tool.
pub struct ToolFinding {
    pub(super) rule: &'static Rule,
    pub(super) severity: Severity,
    pub(super) pointer: String,
    pub(super) message: String,
    pub(super) evidence: String,
}

impl ToolFinding {
    pub(super) fn new(rule: &'static Rule, pointer: &str, evidence: &str) -> Self {
        Self {
            rule,
            severity: rule.severity,
            pointer: pointer.to_owned(),
            message: rule.summary.to_owned(),
            evidence: shorten(evidence),
        }
    }

    pub(super) fn at(self, position: &Position, tool: &Tool) -> Finding {
        Finding {
            code: self.rule.code,
            severity: self.severity,
            position: position.clone(),
            tool: Some(shorten(&tool.id)),
            source: tool.source.as_deref().map(shorten),
            pointer: shorten(&self.pointer),
            message: shorten(&self.message),
            evidence: self.evidence,
            remedy: self.rule.remedy.to_owned(),
        }
    }
}

pub(super) fn shorten(text: &str) -> String {
    marked(text, MAX_SHOWN).into_owned()
}
