//! `picktools run`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use picktools_provider::Provider;
use picktools_provider::ToolCall;
use picktools_runtime::Executed;

use super::calls::{Unreadable, provider_of, read_calls};
use super::reading::read_input;
use super::running::RunningArgs;
use super::{heading, output};

#[derive(Args)]
pub(super) struct RunCommand {
    /// A model's answer, or its stream, in the form of any provider; or calls as `validate` takes
    /// them; `-` for standard input.
    #[arg(value_name = "FILE|-")]
    answer: PathBuf,
    /// Whose answer it is: openai, openai-responses, anthropic, gemini, ollama or mcp; found out
    /// unless told.
    #[arg(long, value_name = "PROVIDER", help_heading = heading::CALLS)]
    provider: Option<Provider>,
    /// Print what the model is to be told: the messages or items for the next request to the
    /// provider.
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    results: bool,
    #[command(flatten)]
    running: RunningArgs,
}

impl RunCommand {
    /// Answers "no" where a call was refused or a tool failed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let bytes = read_input(&self.answer)?;
        let origin = || format!("{}", self.answer.display());
        let provider = match self.provider {
            Some(provider) => Some(provider),
            None => provider_of(&bytes).with_context(origin)?,
        };
        let calls = read_calls(&bytes, provider).with_context(origin)?;
        let calls: Result<Vec<ToolCall>, Unreadable> = calls.into_iter().collect();
        let calls = match calls {
            Ok(calls) => calls,
            // Half an answer is not run.
            Err(Unreadable { place, message }) => {
                bail!("{}: {place}: {message}; nothing was run", origin())
            }
        };
        let json = self.running.json;
        let (results, origin) = (self.results, origin());
        let executed = self.running.execute(&calls)?;
        if results {
            let Some(provider) = provider else {
                bail!("{origin} is no provider's answer; name the --provider of --results")
            };
            let results: Vec<_> = executed.iter().map(Executed::call_result).collect();
            output::json(&provider.results(&results)?)?;
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
        let all_done = executed.len() == calls.len()
            && executed.iter().all(|executed| executed.result.is_success());
        Ok(if all_done {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}
