//! `picktools check`.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::reading::CatalogArgs;
use super::{heading, output};
use picktools::CatalogOptions;
use picktools::catalog::{Conflicts, Position};
use picktools_check::{CheckReport, Finding, Severity};
use picktools_skills::SkillFolder;

/// The largest number of findings in the text output.
const MAX_FINDINGS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  picktools check --catalog fixtures/catalogs/workplace
  picktools check --catalog tools.json --deny warning --sarif > findings.sarif";

/// Check a catalog for defects and deceptive texts.
///
/// Examines schemas, names, aliases, and texts that try to deceive a model. The exit code is 1 if a
/// finding is at least as severe as --deny.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CheckCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Folder of skills (SKILL.md) to check, too.
    #[arg(long, value_name = "DIR", help_heading = heading::CATALOG)]
    skills: Option<PathBuf>,
    /// Lowest severity of reported findings.
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "note",
        help_heading = heading::OUTPUT)]
    min_severity: SeverityArg,
    /// Lowest severity that makes the exit code 1.
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "error",
        help_heading = heading::OUTPUT)]
    deny: SeverityArg,
    /// Print JSON.
    #[arg(long, conflicts_with = "sarif", help_heading = heading::OUTPUT)]
    json: bool,
    /// Print SARIF 2.1.0, which code hosts and editors read.
    #[arg(long, help_heading = heading::OUTPUT)]
    sarif: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SeverityArg {
    Note,
    Warning,
    Error,
}

impl SeverityArg {
    fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

impl CheckCommand {
    /// Returns exit code 1 if a finding is at least as severe as --deny, even if it is not
    /// reported.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let files = self.catalog.files()?;
        let mut report = CheckReport::read_files(&files, &self.catalog.options(&files)?)?;
        output::warn_of_unknown(&report.unknown_values);
        if let Some(folder) = &self.skills {
            let skills = SkillFolder::open(folder)?;
            // The report contains the defects of the catalog already.
            let options = CatalogOptions {
                conflicts: Conflicts::Warn,
                ..self.catalog.options(&files)?
            };
            let catalog = options.read_files(&files).ok();
            if catalog.is_none() {
                output::warn(
                    "the tools of the skills are not checked, because the catalog cannot be read",
                );
            }
            report = report.with_skills(&skills, catalog.as_ref())?;
        }
        let denied = report.worst() >= Some(self.deny.severity());
        report
            .findings
            .retain(|finding| finding.severity >= self.min_severity.severity());
        if self.json {
            output::json(&report)?;
        } else if self.sarif {
            output::json(&sarif(&report))?;
        } else {
            output::answer(text(&report))?;
        }
        Ok(if denied {
            ExitCode::from(1)
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Returns the findings grouped by tool, and their counts.
fn text(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut last = None;
    for finding in worst(&report.findings) {
        let location = (&finding.position, &finding.tool);
        if last != Some(location) {
            let tool = match &finding.tool {
                Some(tool) => format!(": {tool}"),
                None => String::new(),
            };
            let _infallible = writeln!(text, "{}{tool}", finding.position);
            last = Some(location);
        }
        let Finding {
            code,
            pointer,
            message,
            evidence,
            remedy,
            ..
        } = finding;
        let at = if pointer.is_empty() {
            String::new()
        } else {
            format!(" at {pointer}")
        };
        let _infallible = writeln!(
            text,
            "  {} {code}{at}: {message}; {remedy}",
            finding.severity.name()
        );
        if !evidence.is_empty() {
            let _infallible = writeln!(text, "    | {evidence}");
        }
    }
    let more = report.findings.len().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        let _infallible = writeln!(text, "… and {more} more; --json and --sarif list them all");
    }
    let counts = [Severity::Error, Severity::Warning, Severity::Note].map(|severity| match report
        .count(severity)
    {
        1 => format!("1 {}", severity.name()),
        count => format!("{count} {}s", severity.name()),
    });
    let tools = if report.tools == 1 {
        "1 tool".to_owned()
    } else {
        format!("{} tools", report.tools)
    };
    let _infallible = write!(text, "{tools}: {}", counts.join(", "));
    text
}

/// Returns the most severe findings in their original order.
fn worst(findings: &[Finding]) -> Vec<&Finding> {
    let mut worst: Vec<(usize, &Finding)> = findings.iter().enumerate().collect();
    worst.sort_by_key(|(_, finding)| Reverse(finding.severity));
    worst.truncate(MAX_FINDINGS);
    worst.sort_by_key(|(index, _)| *index);
    worst.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns the report as SARIF 2.1.0 (OASIS Standard, 2020).
fn sarif(report: &CheckReport) -> Value {
    let rules: Vec<Value> = CheckReport::rules()
        .iter()
        .map(|rule| {
            json!({
                "id": rule.code,
                "shortDescription": {"text": rule.summary},
                "help": {"text": rule.remedy},
                "defaultConfiguration": {"level": rule.severity.name()},
            })
        })
        .collect();
    let results = report.findings.iter();
    let results: Vec<Value> = results
        .map(|finding| sarif_result(report, finding))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "picktools",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
        }],
    })
}

/// Returns a finding as a result of SARIF.
fn sarif_result(report: &CheckReport, finding: &Finding) -> Value {
    let (file, line) = file_and_line(&finding.position);
    let mut physical = json!({"artifactLocation": {"uri": uri(file.unwrap_or(&report.catalog))}});
    if let Some(line) = line {
        physical["region"] = json!({"startLine": line});
    }
    let quoted = if finding.evidence.is_empty() {
        String::new()
    } else {
        format!(" Found: {}", finding.evidence)
    };
    let mut rules = CheckReport::rules().iter();
    let rule_index = rules.position(|rule| rule.code == finding.code);
    let position = finding.position.to_string();
    let tool = finding.tool.as_deref().unwrap_or(&position);
    json!({
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity.name(),
        "message": {"text": format!("{tool}: {}.{quoted}", finding.message)},
        "locations": [{
            "physicalLocation": physical,
            "logicalLocations": [{
                "name": tool,
                "fullyQualifiedName": format!("{position}{}", finding.pointer),
            }],
        }],
    })
}

/// Returns the file of a position, if there are several, and the line of JSON Lines.
fn file_and_line(position: &Position) -> (Option<&str>, Option<usize>) {
    match position {
        Position::File {
            origin, position, ..
        } => (Some(origin), file_and_line(position).1),
        Position::Part(parent, _) => file_and_line(parent),
        Position::Line(line) => (None, Some(*line)),
        _ => (None, None),
    }
}

/// Returns a path as a URI reference, with slashes and percent encoding.
fn uri(path: &str) -> String {
    let path = if std::path::MAIN_SEPARATOR == '\\' {
        path.replace('\\', "/")
    } else {
        path.to_owned()
    };
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _infallible = write!(uri, "%{byte:02X}");
        }
    }
    if path.starts_with('/') {
        format!("file://{uri}")
    } else {
        uri
    }
}
