//! The result of a call, in one form for all tools.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use picktools::excerpt::cut;

/// The default number of lines of a preview.
pub const PREVIEW_LINES: usize = 3;
/// The most characters of a line of a preview.
const MAX_PREVIEW_CHARS: usize = 200;
/// The members that every result has; fields of these names are left out.
const RESERVED: [&str; 4] = ["success", "error", "error_type", "suggestion"];

/// The result of a call. As JSON it is one object with `success`, `error` (empty on success),
/// optional `error_type` and `suggestion`, and the tool's own fields.
///
/// ```
/// use picktools_runtime::{ErrorType, ToolResult};
/// use serde_json::json;
///
/// let done = ToolResult::success().field("count", 42);
/// assert_eq!(json!(done), json!({"success": true, "error": "", "count": 42}));
/// let missing = ToolResult::failure(ErrorType::User, "file not found");
/// let missing = missing.suggest("list the folder first");
/// assert_eq!(missing.preview(3), ["file not found"]);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The failure, described for a model; `None` on success.
    pub failure: Option<Failure>,
    /// The tool's own fields, by name.
    pub fields: Map<String, Value>,
}

/// The failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The message. A [`ToolManager`](super::ToolManager) prepends the call:
    /// `tool(param="value"): message`.
    pub error: String,
    /// The kind of the failure.
    pub error_type: ErrorType,
    /// A suggestion to resolve it.
    pub suggestion: Option<String>,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum ErrorType {
    /// The call is invalid: its name, its arguments, or its position in the turn.
    #[serde(rename = "validation_error")]
    Validation,
    /// The object of the call does not exist, or is not as the caller expects.
    #[serde(rename = "user_error")]
    User,
    /// The tool or a system that it uses failed.
    #[serde(rename = "system_error")]
    System,
    /// The caller may not do this, or the call was not confirmed.
    #[serde(rename = "permission_error")]
    Permission,
    /// The call was refused because it is dangerous.
    #[serde(rename = "security_error")]
    Security,
}

impl ErrorType {
    /// Returns the name of the kind in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validation => "validation_error",
            Self::User => "user_error",
            Self::System => "system_error",
            Self::Permission => "permission_error",
            Self::Security => "security_error",
        }
    }
}

impl ToolResult {
    /// Makes a successful result without fields.
    pub fn success() -> Self {
        Self {
            failure: None,
            fields: Map::new(),
        }
    }

    /// Makes a failed result. The message does not repeat the call, which the manager prepends.
    pub fn failure(error_type: ErrorType, error: impl Into<String>) -> Self {
        let failure = Failure {
            error: error.into(),
            error_type,
            suggestion: None,
        };
        Self {
            failure: Some(failure),
            fields: Map::new(),
        }
    }

    /// Sets the suggestion of a failed result.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        if let Some(failure) = &mut self.failure {
            failure.suggestion = Some(suggestion.into());
        }
        self
    }

    /// Adds a field. The reserved names `success`, `error`, `error_type` and `suggestion` are
    /// ignored.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        if !RESERVED.contains(&name.as_str()) {
            self.fields.insert(name, value.into());
        }
        self
    }

    /// Returns `true` if the call succeeded.
    pub fn is_success(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns the error; empty on success.
    pub fn error(&self) -> &str {
        match &self.failure {
            Some(failure) => &failure.error,
            None => "",
        }
    }

    /// Returns the first lines of the error, or of the fields with texts first. There are at most
    /// `lines` lines of at most 200 characters each.
    pub fn preview(&self, lines: usize) -> Vec<String> {
        let text = match &self.failure {
            Some(failure) => failure.error.clone(),
            None => self.format_fields(),
        };
        text.lines()
            .take(lines)
            .map(|line| cut(line, MAX_PREVIEW_CHARS).into_owned())
            .collect()
    }

    /// Formats the fields as lines: the texts, then the other values with their names.
    fn format_fields(&self) -> String {
        let (mut texts, mut others) = (Vec::new(), Vec::new());
        for (name, value) in &self.fields {
            match value {
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => texts.push(text.clone()),
                other => others.push(format!("{name}: {other}")),
            }
        }
        texts.append(&mut others);
        texts.join("\n")
    }

    /// Returns the outcome that the model receives.
    ///
    /// A success gives the fields, or the text itself if the only field is a text. A failure gives
    /// the error with its suggestion and fields, if any.
    pub(super) fn model_outcome(&self) -> Result<Value, String> {
        let Some(failure) = &self.failure else {
            let mut fields = self.fields.values();
            return Ok(match (fields.next(), fields.next()) {
                (Some(Value::String(text)), None) => Value::String(text.clone()),
                _ => Value::Object(self.fields.clone()),
            });
        };
        if !self.fields.is_empty() {
            return Err(serde_json::to_string(self).unwrap_or_else(|_| failure.error.clone()));
        }
        Err(match &failure.suggestion {
            Some(suggestion) => format!("{}\n{suggestion}", failure.error),
            None => failure.error.clone(),
        })
    }
}

impl Serialize for ToolResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("success", &self.is_success())?;
        map.serialize_entry("error", self.error())?;
        if let Some(failure) = &self.failure {
            map.serialize_entry("error_type", &failure.error_type)?;
            if let Some(suggestion) = &failure.suggestion {
                map.serialize_entry("suggestion", suggestion)?;
            }
        }
        for (name, value) in &self.fields {
            if !RESERVED.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}
