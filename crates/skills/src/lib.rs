//! Reads skills: `SKILL.md` files with YAML front matter, and folders of them.
//!
//! The format is that of [the specification](https://agentskills.io/specification).

mod allowed_tools;
mod discovery;
mod error;
mod front_matter;
mod located;
mod members;
mod specification;
mod tolerant;
mod yaml;

use std::path::Path;

pub use discovery::SkillFolder;
pub use error::{SkillError, SkillFault};
pub use front_matter::ParsedSkill;

/// Parses the text of the `SKILL.md` at `path`.
///
/// ```
/// let front_matter = "name: notes\ndescription: Takes notes.\nallowed-tools: write_file";
/// let text = format!("---\n{front_matter}\n---\nWrite them down.");
/// let parsed = picktools_skills::parse(&text, "notes/SKILL.md")?;
/// assert_eq!(parsed.skill.allowed_tools[0].name, "write_file");
/// # Ok::<(), picktools_skills::SkillError>(())
/// ```
///
/// # Errors
///
/// [`SkillError::Invalid`] with every fault.
pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<ParsedSkill, SkillError> {
    let path = path.as_ref();
    let mut parsed = front_matter::parse(text).map_err(|faults| SkillError::Invalid {
        path: path.to_owned(),
        faults,
    })?;
    parsed.skill.path = discovery::with_slashes(path);
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use picktools::catalog::{Alias, Catalog, Tool};
    use picktools::names::{NameTable, ResolvedVia};
    use picktools::skills::{SkillReport, ToolMeaning};

    use super::*;

    fn catalog() -> Catalog {
        let mut run = Tool::without_arguments("terminalRun", "Runs a command");
        run.aliases = vec![Alias {
            name: "bash".into(),
            deprecated: false,
        }];
        let send = |source: &str| {
            let tool = Tool {
                source: Some(source.to_owned()),
                ..Tool::without_arguments("send", "")
            };
            Tool {
                id: tool.qualified_name(),
                ..tool
            }
        };
        Catalog::from_tools([run, send("mail"), send("chat")]).expect("valid")
    }

    fn report(allowed: &str) -> SkillReport {
        let text = format!("---\nname: a\ndescription: b\nallowed-tools: {allowed}\n---\nc");
        let catalog = catalog();
        parse(&text, "a/SKILL.md")
            .expect("valid")
            .skill
            .compatibility(&catalog, &NameTable::new(&catalog).expect("in memory"))
            .expect("in memory")
    }

    #[test]
    fn every_tool_is_reported_with_its_meaning() {
        let report = report("[bash, terminalRun, 'Bash(git log:*)', mail/send]");
        assert!(report.is_compatible(), "{report}");
        let meanings = report.tools.iter().map(|tool| match &tool.meaning {
            ToolMeaning::Tool { tool, via, .. } => (tool.as_str(), *via),
            other => panic!("{other:?}"),
        });
        let expected = [
            ("terminalRun", ResolvedVia::Alias),
            ("terminalRun", ResolvedVia::Name),
            ("terminalRun", ResolvedVia::Normalised),
            ("mail/send", ResolvedVia::Name),
        ];
        assert_eq!(meanings.collect::<Vec<_>>(), expected);
        assert_eq!(report.tools[2].allowed.scope.as_deref(), Some("git log:*"));
    }

    #[test]
    fn missing_and_ambiguous_tools_are_reported_in_one_line() {
        let report = report("terminalRunn send zzz bash");
        assert!(!report.is_compatible());
        assert_eq!(
            report.to_string(),
            "the skill \"a\" (a/SKILL.md) cannot be used: there is no tool \"terminalRunn\", did you mean \
             terminalRun?; \"send\" is ambiguous, write one of mail/send, chat/send; there is no tool \"zzz\""
        );
    }

    #[test]
    fn skill_without_tools_is_compatible() {
        assert!(report("[]").is_compatible());
        assert!(report("''").is_compatible());
    }
}
