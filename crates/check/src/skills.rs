//! Checks of skills against the catalog whose tools they call.

use super::{CheckReport, Finding, Rule, rules, shorten, wording};
use picktools::catalog::{Catalog, Position, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::names::skills::SkillTool;
use picktools::names::{NameTable, ToolMeaning};
use picktools::saved::SavedError;
use picktools_skills::{SkillError, SkillFolder};

impl CheckReport {
    /// Adds the findings about skills: invalid files, and descriptions that are written to deceive
    /// a model. With a catalog, these include tools that it does not have.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read from a saved index.
    pub fn with_skills(
        mut self,
        folder: &SkillFolder,
        catalog: Option<&Catalog>,
    ) -> Result<Self, SavedError> {
        for error in &folder.errors {
            let rule = match error {
                SkillError::Misnamed { .. } => &rules::MISNAMED_SKILL,
                SkillError::NotYaml { .. } => &rules::NON_YAML_SKILL,
                _ => &rules::INVALID_SKILL,
            };
            let finding = skill_finding(rule, &Position::Skills, error.to_string());
            self.findings.push(finding);
        }
        let mut table = None;
        if let Some(catalog) = catalog {
            table = Some((catalog, NameTable::new(catalog)?));
        }
        let no_names = wording::KnownNames::new(std::iter::empty());
        for skill in &folder.skills {
            let position = Position::Skill(shorten(&skill.path));
            let document = Tool::without_arguments(&skill.name, &skill.description);
            for finding in super::check_tool(&document, &no_names) {
                self.findings.push(finding.at(&position, &document));
            }
            let Some((catalog, table)) = &table else {
                continue;
            };
            let report = skill.compatibility(catalog, table)?;
            if !report.is_compatible() {
                self.findings.push(skill_finding(
                    &rules::INCOMPATIBLE_SKILL,
                    &position,
                    report.to_string(),
                ));
            }
            for SkillTool {
                allowed, meaning, ..
            } in &report.tools
            {
                if let ToolMeaning::Tool {
                    tool,
                    deprecated: true,
                    ..
                } = meaning
                {
                    let name = marked(&allowed.name, MAX_NAME_CHARS);
                    let message = format!(
                        "the skill {:?} calls {tool} by the deprecated alias {name:?}",
                        report.name
                    );
                    let finding = skill_finding(&rules::DEPRECATED_ALIAS, &position, message);
                    self.findings.push(finding);
                }
            }
        }
        Ok(self)
    }
}

fn skill_finding(rule: &'static Rule, position: &Position, message: String) -> Finding {
    Finding {
        code: rule.code,
        severity: rule.severity,
        position: position.clone(),
        tool: None,
        source: None,
        pointer: String::new(),
        // The message is our own text, and needs the full names of files and tools.
        message: marked(&message, 1000).into_owned(),
        evidence: String::new(),
        remedy: rule.remedy.to_owned(),
    }
}
