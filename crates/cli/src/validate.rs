//! `picktools validate`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::asking::AccessArgs;
use super::calls::{InvalidEntry, TextCallArgs, read_calls};
use super::llm::RepairArgs;
use super::numbers::integer;
use super::reading::{CatalogArgs, read_input};
use super::translate::ViewArgs;
use super::{heading, output};
use picktools::Tool;
use picktools::catalog::NoSchemaMode;
use picktools::names::ResolvedVia;
use picktools_call::Hydrator;
use picktools_call::{CallError, HydratedCall, MAX_ARGUMENT_BYTES, Repair, ValidCall};
use picktools_llm::LlmRepairer;
use picktools_provider::{CallResult, ToolCall};
use picktools_provider::{Provider, translate};

const EXAMPLES: &str = "\
Examples:
  picktools validate --catalog tools.json --calls calls.jsonl
  picktools validate --catalog tools.json --calls answer.json --provider openai --results";

/// Validate a model's tool calls against the catalog.
///
/// Names are resolved, arguments are repaired if their meaning is certain, and access is checked.
/// No tool is called, but MCP servers in the catalog may be started or contacted to list their
/// tools. One verdict per call is printed. The exit code is 1 if a call is refused.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ValidateCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// File of calls, or a model's answer with --provider; - for standard input.
    ///
    /// Calls are JSON Lines or an array of {"name": …, "arguments": …}, with arguments as JSON or
    /// as text. With --provider the file may also be an answer of the provider, complete or as a
    /// stream. A file that the provider recognises is never read as calls of another form.
    #[arg(long, value_name = "FILE|-", help_heading = heading::CALLS)]
    calls: PathBuf,
    #[command(flatten)]
    text_calls: TextCallArgs,
    /// Provider in whose format the model received the tool definitions.
    ///
    /// One of openai, openai-responses, anthropic, gemini, ollama or mcp. Give --strict,
    /// --deferred, --names and --name-map the same values as when these definitions were made, for
    /// example by `picktools translate`.
    #[arg(long, value_name = "PROVIDER", help_heading = heading::DEFINITIONS)]
    provider: Option<Provider>,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Largest size of a call's arguments in bytes; larger ones are refused unread.
    #[arg(long, value_name = "BYTES", default_value_t = MAX_ARGUMENT_BYTES,
        value_parser = integer::<usize>,
        allow_negative_numbers = true, help_heading = heading::CALLS)]
    max_argument_bytes: usize,
    #[command(flatten)]
    repair: RepairArgs,
    /// Print the error messages for refused calls in the provider's format.
    ///
    /// These are messages or items to send back to the model in the next API request to --provider.
    /// They are printed instead of the verdicts. With --json, both are printed.
    #[arg(long, requires = "provider", help_heading = heading::OUTPUT)]
    results: bool,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct ValidationReport {
    version: u32,
    /// The number of valid calls that may run. The next two count calls that wait for approval and
    /// refused calls.
    ready: usize,
    needs_approval: usize,
    refused: usize,
    calls: Vec<ValidationOutcome>,
    /// The results of refused calls for the model, in the provider's format.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<Vec<Value>>,
}

/// The outcome of one call.
#[derive(Serialize)]
#[serde(untagged)]
enum ValidationOutcome {
    HydratedCall(HydratedCall),
    Refused {
        status: &'static str,
        id: Option<String>,
        name: String,
        error: CallError,
        message: String,
        #[serde(skip)]
        result: CallResult,
    },
    /// An entry that is not a call.
    InvalidEntry {
        status: &'static str,
        place: String,
        message: String,
    },
}

impl ValidateCommand {
    /// Returns exit code 1 if a call is refused.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let repairer = self.repair.repairer()?;
        let call_repairer = repairer.map(CallRepairer::new).transpose()?;
        let catalog = self.catalog.open()?;
        let options = self.view.options()?;
        let bytes = read_input(&self.calls)?;
        let origin = || format!("{}", self.calls.display());
        let file = read_calls(&bytes, self.provider, self.text_calls).with_context(origin)?;
        let access = self.access.access();
        output::warn_of_unknown(&access.unknown_values(&catalog)?);
        let mut hydrator =
            Hydrator::new(catalog.clone(), &access)?.max_argument_bytes(self.max_argument_bytes);
        if let Some(provider) = self.provider {
            hydrator = hydrator.translated(&translate(catalog.tools()?, provider, &options)?);
        }
        let is_shown = |name: &str| hydrator.find_tool(name).is_ok();
        let file = file.read_text(self.text_calls, &is_shown);
        let mut calls = Vec::new();
        for entry in file.entries().with_context(origin)? {
            match entry {
                Ok(call) => {
                    for call in hydrator.expand_parallel(vec![call]) {
                        calls.push(outcome(&hydrator, call, call_repairer.as_ref()));
                    }
                }
                Err(InvalidEntry { place, message }) => {
                    calls.push(ValidationOutcome::InvalidEntry {
                        status: "refused",
                        place,
                        message,
                    });
                }
            }
        }
        output::warnings(calls.iter().filter_map(deprecated), output::IN_JSON);
        let results = match self.provider {
            Some(provider) if self.results => Some(refused_results(provider, &calls)?),
            _ => None,
        };
        let report = ValidationReport::new(calls, results);
        if self.json {
            output::json(&report)?;
        } else if let Some(results) = &report.results {
            // An entry that is no call has no result in a provider's format.
            let is_no_call = |outcome: &&ValidationOutcome| {
                matches!(outcome, ValidationOutcome::InvalidEntry { .. })
            };
            output::warnings(report.calls.iter().filter(is_no_call).map(describe), "");
            output::json(results)?;
        } else {
            print(&report)?;
        }
        Ok(if report.refused == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}

impl ValidationReport {
    fn new(calls: Vec<ValidationOutcome>, results: Option<Vec<Value>>) -> Self {
        let mut report = Self {
            version: 1,
            ready: 0,
            needs_approval: 0,
            refused: 0,
            calls,
            results,
        };
        for outcome in &report.calls {
            match outcome {
                ValidationOutcome::HydratedCall(HydratedCall::Ready(_)) => report.ready += 1,
                ValidationOutcome::HydratedCall(HydratedCall::NeedsApproval(_)) => {
                    report.needs_approval += 1;
                }
                ValidationOutcome::Refused { .. } | ValidationOutcome::InvalidEntry { .. } => {
                    report.refused += 1;
                }
            }
        }
        report
    }
}

/// Returns the results of the refused calls in the provider's format.
fn refused_results(
    provider: Provider,
    outcomes: &[ValidationOutcome],
) -> anyhow::Result<Vec<Value>> {
    let mut refused = Vec::new();
    for outcome in outcomes {
        if let ValidationOutcome::Refused { result, .. } = outcome {
            refused.push(result.clone());
        }
    }
    Ok(provider.results(&refused)?)
}

/// Prints the outcome of each call, and their counts.
fn print(report: &ValidationReport) -> anyhow::Result<()> {
    for (index, outcome) in report.calls.iter().enumerate() {
        let description = describe(outcome);
        output::answer(output::line(format!("{:>2}. {description}", index + 1)))?;
    }
    output::answer(summary(report))
}

/// A repairer of call arguments, with the runtime for its requests.
struct CallRepairer {
    repairer: LlmRepairer,
    runtime: tokio::runtime::Runtime,
}

impl CallRepairer {
    fn new(repairer: LlmRepairer) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self { repairer, runtime })
    }

    fn hydrate(&self, hydrator: &Hydrator, call: &ToolCall) -> Result<HydratedCall, CallError> {
        self.runtime
            .block_on(hydrator.hydrate_with(call, &self.repairer))
    }
}

fn outcome(
    hydrator: &Hydrator,
    call: ToolCall,
    call_repairer: Option<&CallRepairer>,
) -> ValidationOutcome {
    let hydrated = match call_repairer {
        Some(call_repairer) => call_repairer.hydrate(hydrator, &call),
        None => hydrator.hydrate(&call),
    };
    match hydrated {
        Ok(hydrated) => ValidationOutcome::HydratedCall(hydrated),
        Err(error) => {
            let result = hydrator.error_result(&call, &error);
            let message = error.to_string();
            ValidationOutcome::Refused {
                status: "refused",
                id: call.id,
                name: call.name,
                error,
                message,
                result,
            }
        }
    }
}

/// Returns the warning about a call by a deprecated alias.
fn deprecated(outcome: &ValidationOutcome) -> Option<String> {
    let (is_deprecated, names, tool) = match outcome {
        ValidationOutcome::HydratedCall(HydratedCall::Ready(call)) => {
            (call.deprecated(), call.names(), call.tool())
        }
        ValidationOutcome::HydratedCall(HydratedCall::NeedsApproval(call)) => {
            (call.deprecated(), call.names(), call.tool())
        }
        _ => return None,
    };
    is_deprecated.then(|| output::deprecated(&names.requested, &tool.id))
}

fn summary(
    ValidationReport {
        ready,
        needs_approval,
        refused,
        calls,
        ..
    }: &ValidationReport,
) -> String {
    let (mut unsafe_calls, mut rewritten) = (0, 0);
    for outcome in calls {
        let ValidationOutcome::HydratedCall(HydratedCall::Ready(call)) = outcome else {
            continue;
        };
        let is_rewritten = |repair: &Repair| matches!(repair, Repair::Rewritten { .. });
        unsafe_calls += usize::from(call.tool().is_unsafe());
        rewritten += usize::from(call.repaired().iter().any(is_rewritten));
    }
    let mut flagged = String::new();
    if unsafe_calls > 0 {
        flagged.push_str(&format!(" ({unsafe_calls} of an unsafe tool)"));
    }
    if rewritten > 0 {
        flagged.push_str(&format!(" ({rewritten} rewritten by a model)"));
    }
    format!("{ready} valid{flagged}, {needs_approval} waiting for approval, {refused} refused")
}

fn describe(outcome: &ValidationOutcome) -> String {
    match outcome {
        ValidationOutcome::HydratedCall(HydratedCall::Ready(call)) => describe_valid(call),
        ValidationOutcome::HydratedCall(HydratedCall::NeedsApproval(call)) => {
            format!(
                "{}: {}{}",
                call.tool().id,
                call.awaits(),
                unsafe_mark(call.tool())
            )
        }
        ValidationOutcome::Refused { message, .. } => message.clone(),
        ValidationOutcome::InvalidEntry { place, message, .. } => format!("{place}: {message}"),
    }
}

fn describe_valid(call: &ValidCall) -> String {
    let mut text = call.tool().id.clone();
    match call.resolved_via() {
        ResolvedVia::Name | ResolvedVia::Advertised => {}
        ResolvedVia::Alias if call.deprecated() => {
            text.push_str(&format!(
                " (by the deprecated alias {})",
                call.names().requested
            ));
        }
        _ => text.push_str(&format!(" (called {})", call.names().requested)),
    }
    if call.validated() {
        text.push_str(": valid");
    } else {
        text.push_str(&format!(
            ": not validated, because the tool has no schema ({})",
            mode(call)
        ));
    }
    text.push_str(unsafe_mark(call.tool()));
    for repair in call.repaired() {
        text.push_str(&format!("; {repair}"));
    }
    for unknown in call.unknown_properties() {
        text.push_str(&format!("; {unknown}"));
    }
    text
}

/// Returns the mode in which a tool without a schema may be called.
fn mode(call: &ValidCall) -> &'static str {
    call.no_schema_mode().map_or("no mode", NoSchemaMode::name)
}

fn unsafe_mark(tool: &Tool) -> &'static str {
    if tool.is_unsafe() {
        "; marked unsafe"
    } else {
        ""
    }
}
