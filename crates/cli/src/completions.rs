//! `picktools completions SHELL`.

use clap::{Args, Command};
use clap_complete::Shell;

use super::output;

#[derive(Args)]
pub(super) struct CompletionsCommand {
    /// The shell to complete in.
    shell: Shell,
}

impl CompletionsCommand {
    pub(super) fn run(self, mut program: Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "picktools", &mut script);
        output::verbatim(String::from_utf8(script)?.trim_end())
    }
}
