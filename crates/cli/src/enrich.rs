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
use super::numbers::whole;
use super::reading::CatalogArgs;
use super::{heading, output};
use picktools::examples::{Example, Examples};
use picktools::{Tool, disk};
use picktools_llm::enrich::{DEFAULT_REQUESTS, EnrichError, Enricher, MAX_REQUESTS};

/// How many tools are asked for at once.
const AT_ONCE: usize = 4;
/// How many answers are written at once: what an interruption can lose.
const ANSWERS_PER_WRITE: usize = 16;

#[derive(Args)]
pub(super) struct EnrichCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// The file of examples that the requests are kept in, beside what it has: a tool whose
    /// definition and model are those of its lines there is not asked for again, and one whose
    /// definition has changed has its synthetic lines replaced.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    out: PathBuf,
    /// How many requests a tool, at most 20.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_REQUESTS, value_parser = whole::<usize>,
        allow_negative_numbers = true, help_heading = heading::LANGUAGE_MODEL)]
    requests: usize,
    /// The most tools that the model is asked for.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = whole::<usize>,
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
        } = self.llm.open("writes examples")?;
        let enricher = Enricher::new(client, &model)?
            .requests(self.requests)
            .extra(extra)
            .timeout(timeout);
        disk::check_writable(&self.out)?;
        let before = if self.out.exists() {
            Examples::open(&self.out)?
        } else {
            Examples::default()
        };
        let catalog = self.catalog.open()?;
        let (asked, kept, untrusted) = to_ask(&enricher, catalog.tools(), &before);
        if untrusted > 0 {
            output::warn(format!(
                "{untrusted} tools of untrusted sources are left out"
            ));
        }
        let over = asked.len().saturating_sub(self.max_tools);
        if over > 0 {
            output::warn(format!(
                "{over} tools are left for another time; --max-tools allows {}",
                self.max_tools
            ));
        }
        let asked: VecDeque<Arc<Tool>> = asked.into_iter().take(self.max_tools).collect();
        let most = asked.len();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let mut file = File {
            path: self.out,
            before,
            answers: BTreeMap::new(),
        };
        let failed = runtime.block_on(ask(Arc::new(enricher), asked, &mut file))?;
        output::warnings(&failed, "");
        output::note(format!(
            "{} tools asked for, {kept} as they were, {} failed",
            most,
            failed.len()
        ));
        Ok(if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}

/// The tools that there are no examples of by this model, how many there are some of, and how many
/// are untrusted.
fn to_ask(
    enricher: &Enricher,
    tools: &[Arc<Tool>],
    written: &Examples,
) -> (Vec<Arc<Tool>>, usize, usize) {
    let digests: BTreeSet<&str> = written
        .iter()
        .filter_map(|example| example.digest.as_deref())
        .collect();
    let (mut asked, mut kept, mut untrusted) = (Vec::new(), 0, 0);
    for tool in tools {
        if tool.untrusted {
            untrusted += 1;
        } else if digests.contains(&*enricher.digest(tool)) {
            kept += 1;
        } else {
            asked.push(Arc::clone(tool));
        }
    }
    (asked, kept, untrusted)
}

/// The file of examples, as it was and with what the model answers.
struct File {
    path: PathBuf,
    before: Examples,
    /// By the place of the tool among those that are asked for, so that the file does not depend on
    /// who answers first.
    answers: BTreeMap<usize, Vec<Example>>,
}

impl File {
    /// Writes it; a tool's new examples take the place of those that a model wrote before.
    fn write(&self) -> anyhow::Result<()> {
        let new = || self.answers.values().flatten();
        let answered: BTreeSet<&str> = new().map(|example| example.tool.as_str()).collect();
        let is_replaced = |example: &Example| {
            example.synthetic && example.digest.is_some() && answered.contains(&*example.tool)
        };
        let mut whole = Examples::default();
        whole.extend(
            self.before
                .iter()
                .filter(|example| !is_replaced(example))
                .chain(new())
                .cloned(),
        );
        Ok(disk::write(&self.path, whole.to_json_lines().as_bytes())?)
    }
}

/// Asks for each tool, writes what comes, and returns what went wrong. Once the model is left
/// alone, nothing more is asked.
async fn ask(
    enricher: Arc<Enricher>,
    mut asked: VecDeque<Arc<Tool>>,
    file: &mut File,
) -> anyhow::Result<Vec<EnrichError>> {
    let bar = progress_bar("asking");
    bar.set_length(asked.len() as u64);
    let mut under_way = JoinSet::new();
    let (mut failed, mut place, mut unwritten) = (Vec::new(), 0, 0);
    loop {
        while under_way.len() < AT_ONCE
            && let Some(tool) = asked.pop_front()
        {
            let (enricher, own) = (Arc::clone(&enricher), place);
            under_way.spawn(async move { (own, enricher.examples(&tool).await) });
            place += 1;
        }
        let Some(answer) = under_way.join_next().await else {
            break;
        };
        bar.inc(1);
        match answer? {
            (place, Ok(examples)) => {
                file.answers.insert(place, examples);
                unwritten += 1;
            }
            (_, Err(error)) => {
                if matches!(error, EnrichError::Paused { .. }) {
                    asked.clear();
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
