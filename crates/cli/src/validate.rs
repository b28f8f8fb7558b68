//! `picktools validate`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::asking::AccessArgs;
use super::calls::{Unreadable, read_calls};
use super::llm::Llm;
use super::llm::LlmArgs;
use super::numbers::whole;
use super::reading::{CatalogArgs, read_input};
use super::translate::ViewArgs;
use super::{heading, output};
use picktools::Tool;
use picktools::catalog::NoSchemaMode;
use picktools::names::ResolvedVia;
use picktools_call::Hydrator;
use picktools_call::{CallError, Hydrated, MAX_ARGUMENT_BYTES, Repair, ValidCall};
use picktools_llm::LlmRepairer;
use picktools_provider::{CallResult, ToolCall};
use picktools_provider::{Provider, translate};

#[derive(Args)]
pub(super) struct ValidateCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// The calls: JSON Lines or an array of {"name": …, "arguments": …}, arguments as JSON or as
    /// text; with --provider also a whole answer of the provider, or its stream; `-` for standard
    /// input.
    #[arg(long, value_name = "FILE|-", help_heading = heading::CALLS)]
    calls: PathBuf,
    /// The calls answer definitions that were translated for this provider: openai,
    /// openai-responses, anthropic, gemini, ollama or mcp.
    #[arg(long, value_name = "PROVIDER", help_heading = heading::DEFINITIONS)]
    provider: Option<Provider>,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Refuse arguments of more bytes than this unread.
    #[arg(long, value_name = "BYTES", default_value_t = MAX_ARGUMENT_BYTES, value_parser = whole::<usize>,
        allow_negative_numbers = true, help_heading = heading::CALLS)]
    max_argument_bytes: usize,
    /// Have a language model (--llm-url, --llm-model) mend the arguments that do not fit, once a
    /// call, and validate what it gives. It is sent the arguments and the tool's schema. Calls of
    /// tools that are marked unsafe, or have no schema, are left as they are.
    #[arg(long, help_heading = heading::CALLS)]
    repair_llm: bool,
    #[command(flatten)]
    llm: LlmArgs,
    /// Print what the model is to be told of refused calls, in place of the list: the messages or
    /// items for the next request to --provider; with --json both.
    #[arg(long, requires = "provider", help_heading = heading::OUTPUT)]
    results: bool,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    /// How many calls may be run, wait for a person, and are refused.
    ready: usize,
    needs_approval: usize,
    refused: usize,
    calls: Vec<Outcome>,
    /// What the model is to be told of the refused ones, as its provider takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<Vec<Value>>,
}

/// What became of one call.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Hydrated(Hydrated),
    Refused {
        status: &'static str,
        id: Option<String>,
        name: String,
        error: CallError,
        message: String,
        #[serde(skip)]
        result: CallResult,
    },
    /// What is no call.
    Unreadable {
        status: &'static str,
        place: String,
        message: String,
    },
}

impl ValidateCommand {
    /// Answers "no" where a call cannot be run.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let repairing = self
            .repair_llm
            .then(|| Repairing::new(&self.llm))
            .transpose()?;
        let catalog = self.catalog.open()?;
        let options = self.view.options()?;
        let bytes = read_input(&self.calls)?;
        let calls = read_calls(&bytes, self.provider)
            .with_context(|| format!("{}", self.calls.display()))?;
        let access = self.access.access();
        output::warn_of_unknown(&access.unknown_values(&catalog));
        let mut hydrator =
            Hydrator::new(catalog.clone(), &access)?.max_argument_bytes(self.max_argument_bytes);
        if let Some(provider) = self.provider {
            hydrator = hydrator.translated(&translate(catalog.tools(), provider, &options)?);
        }
        let calls: Vec<Outcome> = calls
            .into_iter()
            .map(|call| match call {
                Ok(call) => outcome(&hydrator, call, repairing.as_ref()),
                Err(Unreadable { place, message }) => Outcome::Unreadable {
                    status: "refused",
                    place,
                    message,
                },
            })
            .collect();
        output::warnings(calls.iter().filter_map(deprecated), output::IN_JSON);
        let results = self.provider.filter(|_| self.results).map(|provider| {
            let refused = calls.iter().filter_map(|outcome| match outcome {
                Outcome::Refused { result, .. } => Some(result.clone()),
                Outcome::Hydrated(_) | Outcome::Unreadable { .. } => None,
            });
            provider.results(&refused.collect::<Vec<_>>())
        });
        let results = results.transpose()?;
        let count = |is: fn(&Outcome) -> bool| calls.iter().filter(|outcome| is(outcome)).count();
        let report = Report {
            version: 1,
            ready: count(|outcome| matches!(outcome, Outcome::Hydrated(Hydrated::Ready(_)))),
            needs_approval: count(|outcome| {
                matches!(outcome, Outcome::Hydrated(Hydrated::NeedsApproval(_)))
            }),
            refused: count(|outcome| {
                matches!(
                    outcome,
                    Outcome::Refused { .. } | Outcome::Unreadable { .. }
                )
            }),
            calls,
            results,
        };
        if self.json {
            output::json(&report)?;
        } else if let Some(results) = &report.results {
            output::json(results)?;
        } else {
            for (index, outcome) in report.calls.iter().enumerate() {
                output::answer(output::line(format!(
                    "{:>2}. {}",
                    index + 1,
                    describe(outcome)
                )))?;
            }
            output::answer(summary(&report))?;
        }
        Ok(if report.refused == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}

/// What mends the arguments of calls.
struct Repairing {
    repairer: LlmRepairer,
    runtime: tokio::runtime::Runtime,
}

impl Repairing {
    fn new(llm: &LlmArgs) -> anyhow::Result<Self> {
        let Llm {
            client,
            model,
            extra,
            timeout,
        } = llm.open("repairs calls")?;
        let repairer = LlmRepairer::new(client, &model)?
            .extra(extra)
            .timeout(timeout);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self { repairer, runtime })
    }

    fn hydrate(&self, hydrator: &Hydrator, call: &ToolCall) -> Result<Hydrated, CallError> {
        self.runtime
            .block_on(hydrator.hydrate_with(call, &self.repairer))
    }
}

fn outcome(hydrator: &Hydrator, call: ToolCall, repairing: Option<&Repairing>) -> Outcome {
    let hydrated = match repairing {
        Some(repairing) => repairing.hydrate(hydrator, &call),
        None => hydrator.hydrate(&call),
    };
    match hydrated {
        Ok(hydrated) => Outcome::Hydrated(hydrated),
        Err(error) => {
            let result = hydrator.error_result(&call, &error);
            let message = error.to_string();
            Outcome::Refused {
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

/// What is to be said of a call by a deprecated alias.
fn deprecated(outcome: &Outcome) -> Option<String> {
    let (is_deprecated, names, tool) = match outcome {
        Outcome::Hydrated(Hydrated::Ready(call)) => (call.deprecated(), call.names(), call.tool()),
        Outcome::Hydrated(Hydrated::NeedsApproval(call)) => {
            (call.deprecated(), call.names(), call.tool())
        }
        _ => return None,
    };
    is_deprecated.then(|| output::deprecated(&names.requested, &tool.id))
}

fn summary(
    Report {
        ready,
        needs_approval,
        refused,
        calls,
        ..
    }: &Report,
) -> String {
    let is_unsafe = |outcome: &&Outcome| matches!(outcome, Outcome::Hydrated(Hydrated::Ready(call)) if call.tool().is_unsafe());
    let is_rewritten = |outcome: &&Outcome| {
        matches!(outcome, Outcome::Hydrated(Hydrated::Ready(call))
            if call.repaired().iter().any(|repair| matches!(repair, Repair::Rewritten { .. })))
    };
    let flag = |is: &dyn Fn(&&Outcome) -> bool, what: &str| match calls.iter().filter(is).count() {
        0 => String::new(),
        several => format!(" ({several} {what})"),
    };
    let flagged = flag(&is_unsafe, "of a tool that is marked unsafe")
        + &flag(&is_rewritten, "rewritten by a model");
    format!("{ready} valid{flagged}, {needs_approval} waiting for approval, {refused} refused")
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Hydrated(Hydrated::Ready(call)) => describe_valid(call),
        Outcome::Hydrated(Hydrated::NeedsApproval(call)) => {
            format!(
                "{}: {}{}",
                call.tool().id,
                call.awaits(),
                unsafe_mark(call.tool())
            )
        }
        Outcome::Refused { message, .. } => message.clone(),
        Outcome::Unreadable { place, message, .. } => format!("{place}: {message}"),
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
            ": not validated, as it has no schema ({})",
            mode(call)
        ));
    }
    text.push_str(unsafe_mark(call.tool()));
    for repair in call.repaired() {
        text.push_str(&format!("; {repair}"));
    }
    text
}

/// How the tool, which has no schema, may be called.
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
