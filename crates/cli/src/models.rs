//! `picktools models`.

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::known::PullOutcome;
use self::known::{KnownModel, ModelLocation, STATIC, TUNED};
use super::args::FolderArgs;
use super::output;

mod fetch;
pub(super) mod known;

const EXAMPLES: &str = "\
Examples:
  picktools models list
  picktools models pull tuned --from tuned.onnx";

/// List and download embedding models.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ModelsCommand {
    #[command(subcommand)]
    command: ModelsSubcommand,
}

const LIST_EXAMPLES: &str = "\
Examples:
  picktools models list
  picktools models list --json";
const PULL_EXAMPLES: &str = "\
Examples:
  picktools models pull tuned --from tuned.onnx
  picktools models pull BGESmallENV15";

#[derive(Subcommand)]
enum ModelsSubcommand {
    /// List the models that --model accepts by name.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(ListCommand),
    /// Download a model, so that --model NAME finds it.
    #[command(after_long_help = PULL_EXAMPLES)]
    Pull(PullCommand),
}

#[derive(Args)]
struct ListCommand {
    #[command(flatten)]
    folders: FolderArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PullCommand {
    /// Name of the model, from `picktools models list`.
    name: String,
    /// URL or file from which the model `tuned` is taken.
    #[arg(long, value_name = "URL|FILE")]
    from: Option<String>,
    #[command(flatten)]
    folders: FolderArgs,
}

#[derive(Serialize)]
struct ModelList {
    version: u32,
    models: Vec<KnownModel>,
}

impl ModelsCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            ModelsSubcommand::List(command) => command.run(),
            ModelsSubcommand::Pull(command) => command.run(),
        }
    }
}

impl ListCommand {
    fn run(self) -> anyhow::Result<()> {
        let models = known::models(
            self.folders.models_dir().as_deref(),
            self.folders.hub_dir().as_deref(),
        )?;
        if self.json {
            return output::json(&ModelList { version: 1, models });
        }
        output::answer(table(&models))
    }
}

fn table(models: &[KnownModel]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "model",
        "dimensions",
        "size",
        "licence",
        "location",
        "description",
    ]);
    for model in models {
        let location = match &model.place {
            ModelLocation::InProgram => "built in".to_owned(),
            ModelLocation::OnDisk { path } => path.display().to_string(),
            ModelLocation::NotHere { remedy } => format!("not installed: {remedy}"),
        };
        table.add_row([
            model.name.clone(),
            model.dimensions.to_string(),
            model.bytes.map_or_else(
                || "–".to_owned(),
                |bytes| format!("{:.1} MB", bytes as f64 / 1e6),
            ),
            model.licence.unwrap_or("–").to_owned(),
            location,
            model.description.clone(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

impl PullCommand {
    fn run(self) -> anyhow::Result<()> {
        let name = self.name.as_str();
        let text = match name {
            STATIC => in_program(STATIC),
            TUNED => self.pull_tuned()?,
            _ if self.from.is_some() => {
                anyhow::bail!(
                    "--from is only for the model {TUNED}; leave it out for models of the hub"
                )
            }
            _ => {
                // Opening the model downloads it if needed, and proves that it works.
                let dimensions = (self.folders.clone().embedder(name)?.open)()?.dimensions();
                format!("{name} is installed, with vectors of {dimensions} dimensions")
            }
        };
        output::answer(text)
    }

    fn pull_tuned(&self) -> anyhow::Result<String> {
        let bar = bytes_bar();
        let progress = |done: u64, total: Option<u64>| {
            bar.set_length(total.unwrap_or(done));
            bar.set_position(done);
        };
        let outcome = known::pull_tuned(
            self.folders.models_dir().as_deref(),
            self.from.as_deref(),
            &progress,
        );
        bar.finish_and_clear();
        Ok(match outcome? {
            PullOutcome::InProgram => in_program(TUNED),
            PullOutcome::Already(path) => {
                format!("{TUNED} is already installed: {}", path.display())
            }
            PullOutcome::Fetched(path) => format!("{TUNED} is now installed: {}", path.display()),
        })
    }
}

fn in_program(name: &str) -> String {
    format!("{name} is built in; nothing to download")
}

/// Creates a progress bar in bytes that is visible only on a terminal.
fn bytes_bar() -> ProgressBar {
    let bar = ProgressBar::new(0).with_message("downloading");
    match ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} ({eta})") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
