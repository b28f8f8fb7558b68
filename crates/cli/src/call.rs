//! `picktools call`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools_provider::{Arguments, ToolCall};

use super::reading::read_input;
use super::running::RunningArgs;
use super::{heading, output};

#[derive(Args)]
pub(super) struct CallCommand {
    /// The tool: its name, an alias, or source/name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Its arguments: a JSON object, `@FILE` for one in a file, or `-` for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", allow_hyphen_values = true,
        help_heading = heading::CALLS)]
    args: String,
    #[command(flatten)]
    running: RunningArgs,
}

impl CallCommand {
    /// Answers "no" where the call was refused or the tool failed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let file = match self.args.strip_prefix('@') {
            Some(file) => Some(file),
            None => (self.args == "-").then_some("-"),
        };
        let text = match file {
            Some(file) => String::from_utf8(read_input(file.as_ref())?)
                .context("the arguments are not UTF-8")?,
            None => self.args,
        };
        let call = ToolCall {
            id: None,
            name: self.name,
            arguments: Arguments::Text(text),
        };
        let json = self.running.json;
        let executed = self.running.execute(&[call])?;
        let Some(executed) = executed.first() else {
            return Ok(ExitCode::from(1));
        };
        if !json {
            output::result(&executed.result)?;
        }
        Ok(if executed.result.is_success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}
