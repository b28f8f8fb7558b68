//! `picktools run`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use picktools_call::join_results;
use picktools_provider::Provider;
use picktools_provider::ToolCall;
use picktools_runtime::ExecutedCall;

use super::calls::{InvalidEntry, NO_COMPLETE_CALLS, TextCallArgs, detect_calls, read_calls};
use super::reading::read_input;
use super::running::RunningArgs;
use super::{heading, output};

const EXAMPLES: &str = "\
Examples:
  picktools run answer.json --catalog .mcp.json
  picktools run answer.json --provider anthropic --catalog .mcp.json --results";

/// Run the tool calls of a model's answer.
///
/// Every call is validated first. The exit code is 1 if a call is refused or a tool fails.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct RunCommand {
    /// A model's answer, complete or as a stream; - for standard input.
    ///
    /// Any provider's format works, and so do calls in the form that `picktools validate` reads.
    #[arg(value_name = "FILE|-")]
    answer: PathBuf,
    /// Provider of the answer; detected by default.
    ///
    /// One of openai, openai-responses, anthropic, gemini, ollama or mcp.
    #[arg(long, value_name = "PROVIDER", help_heading = heading::CALLS)]
    provider: Option<Provider>,
    #[command(flatten)]
    text_calls: TextCallArgs,
    /// Print the results in the provider's format.
    ///
    /// These are the messages or items for the next API request to the provider.
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    results: bool,
    #[command(flatten)]
    running: RunningArgs,
}

impl RunCommand {
    /// Returns exit code 1 if a call was refused or a tool failed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let bytes = read_input(&self.answer)?;
        let origin = || format!("{}", self.answer.display());
        let file = match self.provider {
            Some(provider) => read_calls(&bytes, Some(provider), self.text_calls),
            None => detect_calls(&bytes, self.text_calls),
        };
        let file = file.with_context(origin)?;
        let json = self.running.json;
        let tools = self.running.open()?;
        let file = file.read_text(self.text_calls, &|name| tools.is_callable(name));
        if self.provider.is_none() && file.is_without_calls() {
            bail!("{}: {NO_COMPLETE_CALLS}", origin());
        }
        let provider = self.provider.or(file.provider());
        let calls = file.entries().with_context(origin)?;
        let calls: Result<Vec<ToolCall>, InvalidEntry> = calls.into_iter().collect();
        let calls = match calls {
            Ok(calls) => calls,
            // An answer that is readable only in part is not run.
            Err(InvalidEntry { place, message }) => {
                bail!("{}: {place}: {message}; nothing was run", origin())
            }
        };
        let (results, origin) = (self.results, origin());
        let executed = tools.execute(&calls)?;
        if results {
            let Some(provider) = provider else {
                bail!("{origin} is not a provider's answer; name the --provider of --results")
            };
            let results: Vec<_> = executed.iter().map(ExecutedCall::call_result).collect();
            output::json(&provider.results(&join_results(results))?)?;
        } else if !json {
            for (index, executed) in executed.iter().enumerate() {
                output::answer(output::line(format!(
                    "{}. {}",
                    index + 1,
                    executed.call.names.requested
                )))?;
                output::result(&executed.result)?;
            }
        }
        let all_succeeded = executed.len() >= calls.len()
            && executed.iter().all(|executed| executed.result.is_success());
        Ok(if all_succeeded {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}
