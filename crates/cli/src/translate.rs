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

const EXAMPLES: &str = "\
Examples:
  picktools translate --catalog tools.json --provider anthropic
  picktools translate --catalog tools.json --provider openai --strict --costs";

/// Write tool definitions in a provider's format.
///
/// Every change of a name or schema is reported on standard error.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct TranslateCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Provider: openai, openai-responses, anthropic, gemini, ollama or mcp.
    #[arg(long, value_name = "PROVIDER", help_heading = heading::DEFINITIONS)]
    provider: Provider,
    #[command(flatten)]
    view: ViewArgs,
    /// Compare the token counts of the strategies of --names.
    #[arg(long, help_heading = heading::OUTPUT)]
    costs: bool,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// The form in which a model sees the tools.
#[derive(Args)]
#[command(next_help_heading = heading::DEFINITIONS)]
pub(super) struct ViewArgs {
    /// Strict definitions: the provider enforces schemas as far as its format allows.
    #[arg(long)]
    strict: bool,
    /// Deferred definitions, which load on demand (anthropic, openai-responses).
    #[arg(long)]
    deferred: bool,
    /// Names under which the model sees the tools.
    #[arg(long, value_enum, default_value = "canonical")]
    names: Strategy,
    /// File with the names of `--names provider-map`, or - for standard input.
    ///
    /// The file is a JSON object from tools to shown names. A tool is written as its name,
    /// SOURCE/NAME, or its `id` in the catalog.
    #[arg(long, value_name = "FILE")]
    name_map: Option<PathBuf>,
}

/// The argument for a strategy of [`Advertising`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// The name of each tool.
    Canonical,
    /// The first alias that is not deprecated.
    PrimaryAlias,
    /// The name and all aliases, each with a definition.
    Expanded,
    /// The name; the description lists the aliases.
    Described,
    /// The names of --name-map.
    ProviderMap,
}

impl ViewArgs {
    /// Returns `true` if the model sees other names than those of the tools.
    pub(super) fn chooses_names(&self) -> bool {
        self.names != Strategy::Canonical
    }

    /// Returns the options of the translation, and reads the map of names if needed.
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
            anyhow::bail!("--name-map needs --names provider-map; add it, or leave out --name-map");
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

/// Translates the definitions of the picks, and reports what the translation changed.
pub(super) fn definitions(
    selection: &Selection,
    provider: Provider,
    view: &TranslateOptions,
) -> anyhow::Result<Translation> {
    let translation = translate(&selection.shown_tools(), provider, view)?;
    output::notes(translation.changes.iter().map(describe), output::IN_JSON);
    Ok(translation)
}

fn read_map(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let bytes = read_input(path)?;
    let map = serde_json::from_slice(&bytes).ok();
    map.with_context(|| {
        format!(
            "{}: expected a JSON object from tools to names, such as \
             {{\"SOURCE/NAME\": \"shown\"}}",
            path.display()
        )
    })
}

#[derive(Serialize)]
struct TranslationReport {
    version: u32,
    #[serde(flatten)]
    translation: Translation,
    names_strategy: &'static str,
    tokens: Option<TokenCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Vec<StrategyCost>>,
}

/// The token counts of the definitions.
#[derive(Clone, Copy, Serialize)]
struct TokenCounts {
    o200k_base: usize,
    cl100k_base: usize,
}

/// The token counts of one strategy.
#[derive(Serialize)]
struct StrategyCost {
    names_strategy: &'static str,
    definitions: usize,
    tokens: Option<TokenCounts>,
}

impl TranslateCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let catalog = self.catalog.open()?;
        let options = self.view.options()?;
        let costs = if self.costs {
            Some(self.compare(&catalog, &options)?)
        } else {
            None
        };
        if let (Some(costs), false) = (&costs, self.json) {
            return output::answer(table(costs));
        }
        let translation = translate(catalog.tools()?, self.provider, &options)?;
        if self.json {
            let (names_strategy, tokens) = (options.advertising.name(), count(&translation));
            return output::json(&TranslationReport {
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

    /// Returns the token counts of each strategy; of the map only if one is given.
    fn compare(
        &self,
        catalog: &Catalog,
        options: &TranslateOptions,
    ) -> anyhow::Result<Vec<StrategyCost>> {
        let mut strategies = vec![
            Advertising::Canonical,
            Advertising::PrimaryAlias,
            Advertising::Expanded,
            Advertising::Described,
        ];
        if matches!(options.advertising, Advertising::ProviderMap(_)) {
            strategies.push(options.advertising.clone());
        }
        let mut costs = Vec::new();
        for advertising in strategies {
            let names_strategy = advertising.name();
            let options = TranslateOptions {
                advertising,
                ..options.clone()
            };
            let translation = translate(catalog.tools()?, self.provider, &options)?;
            costs.push(StrategyCost {
                names_strategy,
                definitions: translation.names.len(),
                tokens: count(&translation),
            });
        }
        Ok(costs)
    }
}

fn count(translation: &Translation) -> Option<TokenCounts> {
    use picktools_provider::Tokenizer;
    Some(TokenCounts {
        o200k_base: translation.tokens(Tokenizer::O200k),
        cl100k_base: translation.tokens(Tokenizer::Cl100k),
    })
}

fn table(costs: &[StrategyCost]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "names",
        "definitions",
        "o200k_base",
        "cl100k_base",
    ]);
    for cost in costs {
        let tokens = |tokens: fn(TokenCounts) -> usize| {
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
