//! `picktools translate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::reading::{CatalogArgs, read_input};
use super::{heading, output};
use picktools::names::Advertising;
use picktools::{Catalog, Selection};
use picktools_provider::{Change, TranslateOptions, Translation};
use picktools_provider::{Provider, translate};

#[derive(Args)]
pub(super) struct TranslateCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Whose format: openai, openai-responses, anthropic, gemini, ollama or mcp.
    #[arg(long, value_name = "PROVIDER", help_heading = heading::DEFINITIONS)]
    provider: Provider,
    #[command(flatten)]
    view: ViewArgs,
    /// Compare what the strategies of --names cost in tokens.
    #[arg(long, help_heading = heading::OUTPUT)]
    costs: bool,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// How a model is shown the tools.
#[derive(Args)]
#[command(next_help_heading = heading::DEFINITIONS)]
pub(super) struct ViewArgs {
    /// Have the provider hold the model to the schemas, where they can be expressed so.
    #[arg(long)]
    strict: bool,
    /// Have the definitions loaded when the model asks for them (anthropic, openai-responses).
    #[arg(long)]
    deferred: bool,
    /// Which names the model is shown.
    #[arg(long, value_enum, default_value = "canonical")]
    names: Strategy,
    /// The names of provider-map: a JSON object from tools (id, SOURCE/NAME or name) to the names
    /// to show, `-` for standard input.
    #[arg(long, value_name = "FILE")]
    name_map: Option<PathBuf>,
}

/// A strategy of [`Advertising`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// Each tool's own name.
    Canonical,
    /// Its first alias that is not deprecated.
    PrimaryAlias,
    /// Its name and each alias, each with a definition.
    Expanded,
    /// Its name, and the aliases in the description.
    Described,
    /// The names of --name-map.
    ProviderMap,
}

impl ViewArgs {
    /// Returns `true` if other names are asked for than the tools' own.
    pub(super) fn chooses_names(&self) -> bool {
        self.names != Strategy::Canonical
    }

    /// Reads the map of names where one is needed.
    pub(super) fn options(&self) -> anyhow::Result<TranslateOptions> {
        let advertising = self.advertising()?;
        Ok(TranslateOptions {
            strict: self.strict.then_some(true),
            advertising,
            deferred: self.deferred,
        })
    }

    fn advertising(&self) -> anyhow::Result<Advertising> {
        if self.name_map.is_some() && self.names != Strategy::ProviderMap {
            anyhow::bail!(
                "--name-map is read with --names provider-map only; add that, or leave the map out"
            );
        }
        Ok(match self.names {
            Strategy::Canonical => Advertising::Canonical,
            Strategy::PrimaryAlias => Advertising::PrimaryAlias,
            Strategy::Expanded => Advertising::Expanded,
            Strategy::Described => Advertising::Described,
            Strategy::ProviderMap => Advertising::ProviderMap(self.map()?),
        })
    }

    fn map(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let Some(path) = &self.name_map else {
            anyhow::bail!(
                "--names provider-map needs --name-map FILE: a JSON object from tools to names"
            );
        };
        read_map(path)
    }
}

/// Translates what is shown of picks, and tells of what their definitions lack.
pub(super) fn definitions(
    selection: &Selection,
    provider: Provider,
    view: &TranslateOptions,
) -> anyhow::Result<Translation> {
    let translation = translate(&selection.shown(), provider, view)?;
    output::notes(translation.changes.iter().map(describe), output::IN_JSON);
    Ok(translation)
}

fn read_map(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let bytes = read_input(path)?;
    let map = serde_json::from_slice(&bytes).ok();
    map.with_context(|| {
        format!(
            "{}: no JSON object from tools to names, as {{\"SOURCE/NAME\": \"shown\"}}",
            path.display()
        )
    })
}

#[derive(Serialize)]
struct Report {
    version: u32,
    #[serde(flatten)]
    translation: Translation,
    names_strategy: &'static str,
    tokens: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Vec<Cost>>,
}

/// The tokens of the definitions.
#[derive(Clone, Copy, Serialize)]
struct Tokens {
    o200k_base: usize,
    cl100k_base: usize,
}

/// What one strategy costs.
#[derive(Serialize)]
struct Cost {
    names_strategy: &'static str,
    definitions: usize,
    tokens: Option<Tokens>,
}

impl TranslateCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let catalog = self.catalog.open()?;
        let options = self.view.options()?;
        let costs = self
            .costs
            .then(|| self.compare(&catalog, &options))
            .transpose()?;
        if let (Some(costs), false) = (&costs, self.json) {
            return output::answer(table(costs));
        }
        let translation = translate(catalog.tools(), self.provider, &options)?;
        if self.json {
            let (names_strategy, tokens) = (options.advertising.name(), count(&translation));
            return output::json(&Report {
                version: 1,
                translation,
                names_strategy,
                tokens,
                costs,
            });
        }
        output::notes(translation.changes.iter().map(describe), output::IN_JSON);
        output::json(&translation.tools)
    }

    /// The cost of each strategy that needs no map, and of the map where one is given.
    fn compare(&self, catalog: &Catalog, options: &TranslateOptions) -> anyhow::Result<Vec<Cost>> {
        let mut strategies = vec![
            Advertising::Canonical,
            Advertising::PrimaryAlias,
            Advertising::Expanded,
            Advertising::Described,
        ];
        if matches!(options.advertising, Advertising::ProviderMap(_)) {
            strategies.push(options.advertising.clone());
        }
        let cost = |advertising: Advertising| {
            let names_strategy = advertising.name();
            let options = TranslateOptions {
                advertising,
                ..options.clone()
            };
            let translation = translate(catalog.tools(), self.provider, &options)?;
            Ok(Cost {
                names_strategy,
                definitions: translation.names.len(),
                tokens: count(&translation),
            })
        };
        strategies.into_iter().map(cost).collect()
    }
}

fn count(translation: &Translation) -> Option<Tokens> {
    use picktools_provider::Tokenizer;
    Some(Tokens {
        o200k_base: translation.tokens(Tokenizer::O200k),
        cl100k_base: translation.tokens(Tokenizer::Cl100k),
    })
}

fn table(costs: &[Cost]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "names",
        "definitions",
        "o200k_base",
        "cl100k_base",
    ]);
    for cost in costs {
        let tokens = |tokens: fn(Tokens) -> usize| {
            cost.tokens.map_or_else(
                || "not counted".to_owned(),
                |counted| tokens(counted).to_string(),
            )
        };
        table.add_row([
            cost.names_strategy.to_owned(),
            cost.definitions.to_string(),
            tokens(|counted| counted.o200k_base),
            tokens(|counted| counted.cl100k_base),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn describe(
    Change {
        tool,
        pointer,
        detail,
        ..
    }: &Change,
) -> String {
    match tool {
        Some(tool) if pointer.is_empty() => format!("{tool}: {detail}"),
        Some(tool) => format!("{tool} {pointer}: {detail}"),
        None => format!("warning: {detail}"),
    }
}
