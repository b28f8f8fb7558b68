//! `picktools completions SHELL`.

use clap::{Args, Command};
use clap_complete::Shell;

use super::output;

const EXAMPLES: &str = "\
Examples:
  picktools completions bash > ~/.local/share/bash-completion/completions/picktools
  picktools completions fish > ~/.config/fish/completions/picktools.fish";

/// Print a shell completion script.
///
/// Save the script in the folder from which your shell loads completions.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CompletionsCommand {
    /// Shell of the script.
    shell: Shell,
}

impl CompletionsCommand {
    pub(super) fn run(self, mut program: Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "picktools", &mut script);
        output::verbatim(String::from_utf8(script)?.trim_end())
    }
}
