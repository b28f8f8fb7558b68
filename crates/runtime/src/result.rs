//! What a tool gives back, in one form for all tools.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use picktools::excerpt::cut;

/// The lines that a preview has unless told otherwise.
pub const PREVIEW_LINES: usize = 3;
/// The most characters of a line of a preview.
const MAX_PREVIEW_CHARS: usize = 200;
/// The members that every result has; fields of these names are left out.
const RESERVED: [&str; 4] = ["success", "error", "error_type", "suggestion"];

/// What a tool gives back. As JSON it is one object: `success`, `error` (empty on success),
/// `error_type` and `suggestion` where there are such, and the tool's own fields.
///
/// ```
/// use picktools_runtime::{ErrorType, ToolResult};
/// use serde_json::json;
///
/// let done = ToolResult::success().field("count", 42);
/// assert_eq!(json!(done), json!({"success": true, "error": "", "count": 42}));
/// let missing = ToolResult::failure(ErrorType::User, "file not found").suggest("list the folder first");
/// assert_eq!(missing.preview(3), ["file not found"]);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// What went wrong, for a model to read; `None` where the tool did what it should.
    pub failure: Option<Failure>,
    /// What the tool gave, by name.
    pub fields: Map<String, Value>,
}

/// Why a tool did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What went wrong. A [`ToolManager`](super::ToolManager) puts the call before it:
    /// `tool(param="value"): message`.
    pub error: String,
    /// Of which kind it is.
    pub error_type: ErrorType,
    /// What to do about it.
    pub suggestion: Option<String>,
}

/// Of which kind an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum ErrorType {
    /// The call is wrong: its name, its arguments, or when it comes.
    #[serde(rename = "validation_error")]
    Validation,
    /// What the call is about is not there, or not as the caller believes.
    #[serde(rename = "user_error")]
    User,
    /// The tool or what it stands on failed.
    #[serde(rename = "system_error")]
    System,
    /// The caller may not do this, or nobody confirmed it.
    #[serde(rename = "permission_error")]
    Permission,
    /// The call was refused because it is dangerous.
    #[serde(rename = "security_error")]
    Security,
}

impl ErrorType {
    /// Returns the name as it stands in JSON.
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
    /// Makes the result of a tool that did what it should.
    pub fn success() -> Self {
        Self {
            failure: None,
            fields: Map::new(),
        }
    }

    /// Makes the result of a tool that did not. The message stands by itself: which call it was is
    /// put before it.
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

    /// Says what to do about a failure.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        if let Some(failure) = &mut self.failure {
            failure.suggestion = Some(suggestion.into());
        }
        self
    }

    /// Adds a field. `success`, `error`, `error_type` and `suggestion` are no fields, and are left
    /// out.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        if !RESERVED.contains(&name.as_str()) {
            self.fields.insert(name, value.into());
        }
        self
    }

    /// Returns `true` if the tool did what it should.
    pub fn is_success(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns the error; empty on success.
    pub fn error(&self) -> &str {
        self.failure.as_ref().map_or("", |failure| &failure.error)
    }

    /// Returns the first lines of the result: the error, else what its fields say, text first. At
    /// most `lines`, of at most 200 characters each.
    pub fn preview(&self, lines: usize) -> Vec<String> {
        let text = match &self.failure {
            Some(failure) => failure.error.clone(),
            None => {
                let texts = self
                    .fields
                    .values()
                    .filter_map(Value::as_str)
                    .filter(|text| !text.is_empty());
                let others = self.fields.iter().filter(|(_, value)| !value.is_string());
                let others = others.map(|(name, value)| format!("{name}: {value}"));
                texts
                    .map(str::to_owned)
                    .chain(others)
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        };
        text.lines()
            .take(lines)
            .map(|line| cut(line, MAX_PREVIEW_CHARS).into_owned())
            .collect()
    }

    /// What a model is told: the fields, of one text the text itself; else the error, with fields
    /// and suggestion where there are such.
    pub(super) fn told(&self) -> Result<Value, String> {
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
        for (name, value) in self
            .fields
            .iter()
            .filter(|(name, _)| !RESERVED.contains(&name.as_str()))
        {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
