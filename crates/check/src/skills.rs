//! Skills beside the catalog whose tools they need.

use super::{CheckReport, Finding, Found, Rule, rules, shown, wording};
use picktools::catalog::{Catalog, Position, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::names::skills::SkillTool;
use picktools::names::{NameTable, ToolMeaning};
use picktools_skills::{SkillError, SkillFolder};

impl CheckReport {
    /// Adds what is wrong with skills: files that cannot be read or used, descriptions that are
    /// written to deceive a model, and, where there is a catalog to hold them to, tools that it
    /// does not have.
    #[must_use]
    pub fn with_skills(mut self, folder: &SkillFolder, catalog: Option<&Catalog>) -> Self {
        self.findings.extend(folder.errors.iter().map(|error| {
            let rule = if matches!(error, SkillError::Misnamed { .. }) {
                &rules::MISNAMED_SKILL
            } else {
                &rules::INVALID_SKILL
            };
            finding(rule, &Position::Skills, error.to_string())
        }));
        let table = catalog.map(|catalog| (catalog, NameTable::new(catalog)));
        let nothing = wording::Names::new(std::iter::empty());
        for skill in &folder.skills {
            let position = Position::Skill(shown(&skill.path));
            let document = Tool::without_arguments(&skill.name, &skill.description);
            self.findings.extend(
                super::of_tool(&document, &nothing)
                    .into_iter()
                    .map(|found: Found| found.at(&position, &document)),
            );
            let report = table
                .as_ref()
                .map(|(catalog, table)| skill.compatibility(catalog, table));
            let Some(report) = report else { continue };
            if !report.is_compatible() {
                self.findings.push(finding(
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
                    self.findings
                        .push(finding(&rules::DEPRECATED_ALIAS, &position, message));
                }
            }
        }
        self
    }
}

fn finding(rule: &'static Rule, position: &Position, message: String) -> Finding {
    Finding {
        code: rule.code,
        severity: rule.severity,
        position: position.clone(),
        tool: None,
        source: None,
        pointer: String::new(),
        // The message names files and tools in full; it is of the program's own making.
        message: marked(&message, 1000).into_owned(),
        evidence: String::new(),
        remedy: rule.remedy.to_owned(),
    }
}
