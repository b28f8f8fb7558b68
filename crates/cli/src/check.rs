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

/// How many findings are shown as text.
const MAX_FINDINGS: usize = 100;

#[derive(Args)]
pub(super) struct CheckCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Folder of skills (SKILL.md) to look at too.
    #[arg(long, value_name = "DIR", help_heading = heading::CATALOG)]
    skills: Option<PathBuf>,
    /// The least severity that is reported.
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "note", help_heading = heading::OUTPUT)]
    min_severity: Level,
    /// The least severity that makes the answer "no" (exit code 1).
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "error", help_heading = heading::OUTPUT)]
    deny: Level,
    /// Print JSON.
    #[arg(long, conflicts_with = "sarif", help_heading = heading::OUTPUT)]
    json: bool,
    /// Print SARIF 2.1.0, which code hosts and editors read.
    #[arg(long, help_heading = heading::OUTPUT)]
    sarif: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Level {
    Note,
    Warning,
    Error,
}

impl Level {
    fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

impl CheckCommand {
    /// Answers "no" where something is as bad as what is denied, reported or not.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let files = self.catalog.files()?;
        let mut report = CheckReport::read_files(&files, &self.catalog.options(&files)?)?;
        output::warn_of_unknown(&report.unknown_values);
        if let Some(folder) = &self.skills {
            let found = SkillFolder::open(folder)?;
            // What is wrong with the catalog is told already.
            let options = CatalogOptions {
                conflicts: Conflicts::Warn,
                ..self.catalog.options(&files)?
            };
            let catalog = options.read_files(&files).ok();
            if catalog.is_none() {
                output::warn("the skills' tools are looked for once the catalog can be read");
            }
            report = report.with_skills(&found, catalog.as_ref());
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

/// The findings grouped by tool, and how many there are.
fn text(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut last = None;
    for finding in worst(&report.findings) {
        let place = (&finding.position, &finding.tool);
        if last != Some(place) {
            let tool = finding
                .tool
                .as_deref()
                .map(|tool| format!(": {tool}"))
                .unwrap_or_default();
            let _infallible = writeln!(text, "{}{tool}", finding.position);
            last = Some(place);
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
    if let Some(more) = report
        .findings
        .len()
        .checked_sub(MAX_FINDINGS)
        .filter(|more| *more > 0)
    {
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

/// The worst findings in the order of all.
fn worst(findings: &[Finding]) -> Vec<&Finding> {
    let mut worst: Vec<(usize, &Finding)> = findings.iter().enumerate().collect();
    worst.sort_by_key(|(_, finding)| Reverse(finding.severity));
    worst.truncate(MAX_FINDINGS);
    worst.sort_by_key(|(place, _)| *place);
    worst.into_iter().map(|(_, finding)| finding).collect()
}

/// The report as SARIF 2.1.0 (OASIS Standard, 2020).
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
    let index = |code: &str| {
        CheckReport::rules()
            .iter()
            .position(|rule| rule.code == code)
    };
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            let (file, line) = file_and_line(&finding.position);
            let mut physical =
                json!({"artifactLocation": {"uri": uri(file.unwrap_or(&report.catalog))}});
            if let Some(line) = line {
                physical["region"] = json!({"startLine": line});
            }
            let quoted = if finding.evidence.is_empty() {
                String::new()
            } else {
                format!(" Found: {}", finding.evidence)
            };
            let position = finding.position.to_string();
            let tool = finding.tool.as_deref().unwrap_or(&position);
            json!({
                "ruleId": finding.code,
                "ruleIndex": index(finding.code),
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
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "picktools", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}

/// Which of several files it is, and the line of JSON Lines.
fn file_and_line(position: &Position) -> (Option<&str>, Option<usize>) {
    match position {
        Position::File {
            origin, position, ..
        } => (Some(origin), file_and_line(position).1),
        Position::Part(whole, _) => file_and_line(whole),
        Position::Line(line) => (None, Some(*line)),
        _ => (None, None),
    }
}

/// A path as a URI reference: with slashes, and with percent signs for what a URI cannot hold.
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
