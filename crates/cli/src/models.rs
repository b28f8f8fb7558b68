//! `picktools models`.

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::known::Pulled;
use self::known::{KnownModel, Place, STATIC, TUNED};
use super::args::FolderArgs;
use super::output;

mod fetch;
pub(super) mod known;

#[derive(Args)]
pub(super) struct ModelsCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List every model that has a name: what it is, and where.
    List(ListCommand),
    /// Fetch a model, so that --model NAME finds it.
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
    /// The model's name; see `picktools models list`.
    name: String,
    /// Where the file of the model `tuned` is taken from.
    #[arg(long, value_name = "URL|FILE")]
    from: Option<String>,
    #[command(flatten)]
    folders: FolderArgs,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    models: Vec<KnownModel>,
}

impl ModelsCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::List(command) => command.run(),
            Command::Pull(command) => command.run(),
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
            return output::json(&Report { version: 1, models });
        }
        output::answer(table(&models))
    }
}

fn table(models: &[KnownModel]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["model", "dimensions", "size", "licence", "where", "what"]);
    for model in models {
        let place = match &model.place {
            Place::InProgram => "in the program".to_owned(),
            Place::OnDisk { path } => path.display().to_string(),
            Place::NotHere { remedy } => format!("not here: {remedy}"),
        };
        table.add_row([
            model.name.clone(),
            model.dimensions.to_string(),
            model.bytes.map_or_else(
                || "–".to_owned(),
                |bytes| format!("{:.1} MB", bytes as f64 / 1e6),
            ),
            model.licence.unwrap_or("–").to_owned(),
            place,
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
                    "--from is for the model {TUNED}; others come from their hub, under their name alone"
                )
            }
            _ => {
                // A model that was opened is here, and works.
                let dimensions = (self.folders.clone().embedder(name)?.open)()?.dimensions();
                format!("{name} is here, with vectors of {dimensions} dimensions")
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
        let pulled = known::pull_tuned(
            self.folders.models_dir().as_deref(),
            self.from.as_deref(),
            &progress,
        );
        bar.finish_and_clear();
        Ok(match pulled? {
            Pulled::InProgram => in_program(TUNED),
            Pulled::Already(path) => format!("{TUNED} is here already: {}", path.display()),
            Pulled::Fetched(path) => format!("{TUNED} is now here: {}", path.display()),
        })
    }
}

fn in_program(name: &str) -> String {
    format!("{name} is part of the program; nothing is to be fetched")
}

/// A progress bar in bytes that shows itself only on a terminal.
fn bytes_bar() -> ProgressBar {
    let bar = ProgressBar::new(0).with_message("fetching");
    match ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} ({eta})") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
