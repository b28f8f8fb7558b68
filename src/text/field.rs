//! The fields of a tool's document.

use serde::{Deserialize, Serialize};

/// A part of a tool's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Field {
    /// The canonical name.
    Name,
    /// The title.
    Title,
    /// The description.
    Description,
    /// The aliases.
    Aliases,
    /// The tags.
    Tags,
    /// Parameter names at any depth.
    ParameterNames,
    /// Parameter descriptions at any depth.
    ParameterDescriptions,
    /// Enumerated parameter values at any depth.
    EnumValues,
    /// The instructions of a skill. Tools do not have this field.
    Instructions,
}

impl Field {
    /// All fields of tools, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Aliases,
        Self::Description,
        Self::Tags,
        Self::ParameterNames,
        Self::ParameterDescriptions,
        Self::EnumValues,
    ];

    /// Returns the name of the field in a sentence.
    pub fn label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Description => "description",
            Self::Aliases => "aliases",
            Self::Tags => "tags",
            Self::ParameterNames => "parameter names",
            Self::ParameterDescriptions => "parameter descriptions",
            Self::EnumValues => "parameter values",
            Self::Instructions => "instructions",
        }
    }
}
