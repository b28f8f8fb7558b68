//! `picktools call`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools_provider::{Arguments, ToolCall};

use super::reading::read_input;
use super::running::RunningArgs;
use super::{heading, output};

const EXAMPLES: &str = "\
Examples:
  picktools call get_current_time --args '{\"timezone\": \"Europe/Oslo\"}' --catalog .mcp.json
  picktools call read --built-in --args '{\"file_paths\": [\"Cargo.toml\"]}'";

/// The note on a call that changes a file which it would have to read first.
const UNREAD: &str = "picktools call runs a single call and keeps no record of earlier reads; write \
                      a call of read and this call to a file, and run both with `picktools run FILE`";

/// Run one tool.
///
/// The name is resolved, the arguments are validated, and an unsafe call needs a confirmation.
/// Progress is shown while the tool runs.
///
/// The exit code is 1 if the call is refused or the tool fails.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CallCommand {
    /// Name of the tool: its name, an alias, or SOURCE/NAME.
    #[arg(value_name = "NAME")]
    name: String,
    /// Arguments of the call: a JSON object, @FILE, or - for standard input.
    ///
    /// `@FILE` reads the JSON object from a file.
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", allow_hyphen_values = true,
        help_heading = heading::CALLS)]
    args: String,
    #[command(flatten)]
    running: RunningArgs,
}

impl CallCommand {
    /// Returns exit code 1 if the call was refused or the tool failed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let file = match self.args.strip_prefix('@') {
            Some(file) => Some(file),
            None => (self.args == "-").then_some("-"),
        };
        let text = match file {
            Some(file) => String::from_utf8(read_input(file.as_ref())?)
                .context("the arguments are not valid UTF-8")?,
            None => self.args,
        };
        let call = ToolCall {
            id: None,
            name: self.name,
            arguments: Arguments::Text(text),
        };
        let json = self.running.json;
        let tools = self.running.open()?;
        let files = tools.files();
        let executed = tools.execute(&[call])?;
        for (index, each) in executed.iter().enumerate() {
            if json {
                continue;
            }
            // One call is several if its name is `multi_tool_use.parallel`.
            if executed.len() > 1 {
                output::answer(format!(
                    "[{}] {}",
                    index + 1,
                    output::line(&each.call.names.requested)
                ))?;
            }
            output::result(&each.result)?;
        }
        if files.has_refused_unread() {
            output::note(UNREAD);
        }
        let has_succeeded = executed.iter().all(|each| each.result.is_success());
        Ok(if has_succeeded && !executed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}
