//! The review of the tools and instructions of upstreams for a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use picktools::CatalogOptions;
use picktools::catalog::CatalogFile;
use picktools_check::{CheckReport, Severity};
use picktools_state::StateStamp;
use serde_json::{Value, json};

use super::upstream_tools::UpstreamTools;
use crate::pins::{DefinitionFindings, INSTRUCTIONS, Pins, ServerListing};
use crate::settings::Settings;

/// The reviewed tools of upstreams.
#[derive(Default)]
pub(super) struct ReviewedTools {
    /// The catalog files.
    pub(super) files: Vec<CatalogFile>,
    /// The ids of quarantined tools.
    pub(super) quarantined: BTreeSet<String>,
    /// The approved instructions of servers, by server.
    pub(super) instructions: BTreeMap<String, String>,
    /// The servers whose instructions are quarantined.
    pub(super) quarantined_instructions: BTreeSet<String>,
    /// The stamp of the approvals.
    pub(super) approvals: Option<StateStamp>,
}

impl ReviewedTools {
    /// Approves everything that upstreams sent.
    pub(super) fn without_review(upstream_tools: &[UpstreamTools]) -> Self {
        let mut reviewed = Self::default();
        for upstream in upstream_tools {
            let server = &upstream.server.name;
            let file = CatalogFile::from_server(server, upstream.own_tools());
            reviewed.files.push(file);
            if let Some(instructions) = upstream.given_instructions() {
                let instructions = instructions.to_owned();
                reviewed.instructions.insert(server.clone(), instructions);
            }
        }
        reviewed
    }
}

impl UpstreamTools {
    /// Returns the instructions, unless they are empty.
    fn given_instructions(&self) -> Option<&str> {
        let instructions = self.instructions.as_deref()?;
        (!instructions.trim().is_empty()).then_some(instructions)
    }

    /// Returns the tools, except one with the name that is reserved for the instructions.
    fn own_tools(&self) -> impl Iterator<Item = &Value> {
        let tools = self.tools.iter();
        tools.filter(|tool| tool["name"] != INSTRUCTIONS)
    }

    /// Returns the file of the tools, with the instructions as a further tool, for `check`.
    fn checked_file(&self) -> CatalogFile {
        let instructions = self.given_instructions().map(|instructions| {
            json!({
                "name": INSTRUCTIONS,
                "description": instructions,
                "inputSchema": {"type": "object"}
            })
        });
        let tools = self.own_tools().chain(&instructions);
        CatalogFile::from_server(&self.server.name, tools)
    }
}

/// Compares the tools of upstreams with the approved definitions.
pub(super) fn review_tools(
    settings: &Settings,
    upstream_tools: &[UpstreamTools],
    pins: &Pins,
    options: &CatalogOptions,
) -> Result<ReviewedTools, String> {
    // The check runs at most once, and only if the review needs it for a definition. It receives
    // all tools, so that it also finds a tool that imitates one of another server.
    let checked: OnceLock<HashMap<String, DefinitionFindings>> = OnceLock::new();
    let findings_of = |source: &str, name: &str| {
        let findings = checked.get_or_init(|| find_in(upstream_tools, options));
        findings
            .get(&format!("{source}/{name}"))
            .cloned()
            .unwrap_or_default()
    };
    let mut listings = Vec::with_capacity(upstream_tools.len());
    for upstream in upstream_tools {
        listings.push(ServerListing {
            server: &upstream.server,
            scope: pins.scope(&upstream.server),
            rules: upstream.rules,
            tools: &upstream.tools,
            instructions: upstream.instructions.as_deref(),
        });
    }
    let (reviewed_listings, approvals) = pins
        .review(&listings, settings.trust, &findings_of)
        .map_err(|error| error.to_string())?;
    let mut all = ReviewedTools {
        approvals: Some(approvals),
        ..ReviewedTools::default()
    };
    for (upstream, reviewed) in upstream_tools.iter().zip(reviewed_listings) {
        let server = &upstream.server.name;
        let file = CatalogFile::from_server(server, &reviewed.definitions);
        all.files.push(file);
        for name in &reviewed.quarantined {
            all.quarantined.insert(format!("{server}/{name}"));
        }
        if let Some(instructions) = reviewed.instructions {
            all.instructions.insert(server.clone(), instructions);
        } else if upstream.given_instructions().is_some() {
            all.quarantined_instructions.insert(server.clone());
        }
    }
    Ok(all)
}

/// Returns the errors and warnings of `picktools check` for definitions, by tool id.
fn find_in(
    upstream_tools: &[UpstreamTools],
    options: &CatalogOptions,
) -> HashMap<String, DefinitionFindings> {
    let files: Vec<CatalogFile> = upstream_tools
        .iter()
        .map(UpstreamTools::checked_file)
        .collect();
    let mut findings: HashMap<String, DefinitionFindings> = HashMap::new();
    match CheckReport::read_files(&files, options) {
        Ok(report) => {
            for finding in report.findings {
                if let Some(tool) = &finding.tool
                    && finding.severity >= Severity::Warning
                {
                    findings.entry(tool.clone()).or_default().add(&finding);
                }
            }
        }
        // Definitions that cannot be checked are not approved automatically.
        Err(error) => {
            for upstream in upstream_tools {
                let names = upstream.tools.iter();
                let names = names.filter_map(|tool| tool.get("name").and_then(Value::as_str));
                for name in names.chain([INSTRUCTIONS]) {
                    let id = format!("{}/{name}", upstream.server.name);
                    findings.insert(id, DefinitionFindings::unchecked(&error));
                }
            }
        }
    }
    findings
}
