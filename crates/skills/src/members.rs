//! The members of front matter.

use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::allowed_tools::ToolEntries;
use crate::located::Located;

/// The members of the front matter that are read; others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct FrontMatter {
    name: Option<Spanned<String>>,
    description: Option<Spanned<String>>,
    allowed_tools: Option<Spanned<ToolEntries>>,
}

/// The members of the front matter with their lines.
#[derive(Default)]
pub(super) struct Members {
    pub(super) name: Option<Located<String>>,
    pub(super) description: Option<Located<String>>,
    pub(super) allowed_tools: Option<Located<Vec<String>>>,
}

impl From<FrontMatter> for Members {
    fn from(yaml: FrontMatter) -> Self {
        let text = |value| Located::from_yaml(value, std::convert::identity);
        Self {
            name: yaml.name.map(text),
            description: yaml.description.map(text),
            allowed_tools: yaml
                .allowed_tools
                .map(|value| Located::from_yaml(value, |entries: ToolEntries| entries.0)),
        }
    }
}

impl Members {
    /// Adds the members of `other`, which these members do not have.
    pub(super) fn merge(&mut self, other: Self) {
        self.name = self.name.take().or(other.name);
        self.description = self.description.take().or(other.description);
        self.allowed_tools = self.allowed_tools.take().or(other.allowed_tools);
    }

    /// Sets the line of every member.
    pub(super) fn set_line(&mut self, line: usize) {
        for text in [&mut self.name, &mut self.description]
            .into_iter()
            .flatten()
        {
            text.line = Some(line);
        }
        if let Some(entries) = &mut self.allowed_tools {
            entries.line = Some(line);
        }
    }
}
