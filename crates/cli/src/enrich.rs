//! `picktools enrich`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use tokio::task::JoinSet;

use super::args::progress_bar;
use super::llm::{Llm, LlmArgs};
use super::numbers::integer;
use super::reading::CatalogArgs;
use super::{heading, output};
use picktools::examples::{Example, Examples};
use picktools::{Tool, disk};
use picktools_llm::enrich::{DEFAULT_REQUESTS, EnrichError, Enricher, MAX_REQUESTS};

/// The number of concurrent requests to the model.
const MAX_CONCURRENT: usize = 4;
/// The number of answers per write of the file, which an interruption may lose.
const ANSWERS_PER_WRITE: usize = 16;

const EXAMPLES: &str = "\
Examples:
  picktools enrich --catalog tools.json --out ex.jsonl --llm-url http://localhost:8080/v1 \
--llm-model gemma
  picktools enrich --catalog tools.json --out ex.jsonl --llm-url http://localhost:11434 \
--llm-provider ollama --llm-model gemma3 --requests 5";

/// Create examples for tools with a language model.
///
/// The model writes sample requests for each tool. The result is a file for --examples.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct EnrichCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// File of examples to create or extend.
    ///
    /// Existing lines stay. A tool is skipped if the file has lines of the same definition and
    /// model. If its definition has changed, its synthetic lines are replaced.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    out: PathBuf,
    /// Number of requests per tool, 1 to 20.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_REQUESTS,
        value_parser = integer::<usize>,
        allow_negative_numbers = true, help_heading = heading::LANGUAGE_MODEL)]
    requests: usize,
    /// Largest number of tools for which the model is asked.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = integer::<usize>,
        allow_negative_numbers = true, help_heading = heading::LANGUAGE_MODEL)]
    max_tools: usize,
    #[command(flatten)]
    llm: LlmArgs,
}

impl EnrichCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if !(1..=MAX_REQUESTS).contains(&self.requests) {
            bail!("--requests is {}; give 1 to {MAX_REQUESTS}", self.requests);
        }
        let Llm {
            client,
            model,
            extra,
            timeout,
        } = self.llm.open("writing examples")?;
        let enricher = Enricher::new(client, &model)?
            .requests(self.requests)
            .extra(extra)
            .timeout(timeout);
        disk::check_writable(&self.out)?;
        let existing = if self.out.exists() {
            Examples::open(&self.out)?
        } else {
            Examples::default()
        };
        let catalog = self.catalog.open()?;
        let EnrichPlan {
            pending,
            up_to_date,
            untrusted,
        } = plan(&enricher, catalog.tools()?, &existing);
        if untrusted > 0 {
            output::warn(format!("skipped {untrusted} tools of untrusted sources"));
        }
        let over = pending.len().saturating_sub(self.max_tools);
        if over > 0 {
            output::warn(format!(
                "skipped {over} tools over the limit of --max-tools {}; run again to continue",
                self.max_tools
            ));
        }
        let pending: VecDeque<Arc<Tool>> = pending.into_iter().take(self.max_tools).collect();
        let count = pending.len();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let mut file = ExampleFile {
            path: self.out,
            existing,
            answers: BTreeMap::new(),
        };
        let failed = runtime.block_on(ask(Arc::new(enricher), pending, &mut file))?;
        output::warnings(&failed, "");
        output::note(format!(
            "asked for {} tools, {up_to_date} up to date, {} failed",
            count,
            failed.len()
        ));
        Ok(if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}

/// The tools of a catalog by their state in the file of examples.
struct EnrichPlan {
    /// The tools for which the model is asked.
    pending: Vec<Arc<Tool>>,
    /// The number of tools with examples of this definition and model.
    up_to_date: usize,
    /// The number of tools of untrusted sources, which are skipped.
    untrusted: usize,
}

/// Decides for which tools the model is asked.
fn plan(enricher: &Enricher, tools: &[Arc<Tool>], existing: &Examples) -> EnrichPlan {
    let digests: BTreeSet<&str> = existing
        .iter()
        .filter_map(|example| example.digest.as_deref())
        .collect();
    let (mut pending, mut up_to_date, mut untrusted) = (Vec::new(), 0, 0);
    for tool in tools {
        if tool.untrusted {
            untrusted += 1;
        } else if digests.contains(&*enricher.digest(tool)) {
            up_to_date += 1;
        } else {
            pending.push(Arc::clone(tool));
        }
    }
    EnrichPlan {
        pending,
        up_to_date,
        untrusted,
    }
}

/// The file of examples: the existing ones and the model's answers.
struct ExampleFile {
    path: PathBuf,
    existing: Examples,
    /// The answers by the position of their tool, so that the file does not depend on the order of
    /// answers.
    answers: BTreeMap<usize, Vec<Example>>,
}

impl ExampleFile {
    /// Writes the file. New examples of a tool replace its earlier synthetic ones.
    fn write(&self) -> anyhow::Result<()> {
        let mut answered = BTreeSet::new();
        for example in self.answers.values().flatten() {
            answered.insert(example.tool.as_str());
        }
        let is_replaced = |example: &Example| {
            example.synthetic && example.digest.is_some() && answered.contains(&*example.tool)
        };
        let mut all = Examples::default();
        let existing = self.existing.iter();
        all.extend(existing.filter(|example| !is_replaced(example)).cloned());
        all.extend(self.answers.values().flatten().cloned());
        Ok(disk::write(&self.path, all.to_json_lines().as_bytes())?)
    }
}

/// Asks the model for each tool, writes the answers, and returns the errors. After the circuit
/// breaker opens, no further tools are asked for.
async fn ask(
    enricher: Arc<Enricher>,
    mut pending: VecDeque<Arc<Tool>>,
    file: &mut ExampleFile,
) -> anyhow::Result<Vec<EnrichError>> {
    let bar = progress_bar("asking");
    bar.set_length(pending.len() as u64);
    let mut requests = JoinSet::new();
    let (mut failed, mut next_position, mut unwritten) = (Vec::new(), 0, 0);
    loop {
        while requests.len() < MAX_CONCURRENT
            && let Some(tool) = pending.pop_front()
        {
            let (enricher, position) = (Arc::clone(&enricher), next_position);
            requests.spawn(async move { (position, enricher.examples(&tool).await) });
            next_position += 1;
        }
        let Some(answer) = requests.join_next().await else {
            break;
        };
        bar.inc(1);
        match answer? {
            (position, Ok(examples)) => {
                file.answers.insert(position, examples);
                unwritten += 1;
            }
            (_, Err(error)) => {
                if matches!(error, EnrichError::Paused { .. }) {
                    pending.clear();
                }
                failed.push(error);
            }
        }
        if unwritten >= ANSWERS_PER_WRITE {
            file.write()?;
            unwritten = 0;
        }
    }
    bar.finish_and_clear();
    if unwritten > 0 {
        file.write()?;
    }
    Ok(failed)
}
