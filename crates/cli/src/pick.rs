//! `picktools pick`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use super::args::{Beside, TellBlockedArg};
use super::asking::AskingArgs;
use super::numbers::{number, whole};
use super::reading::{ReadingArgs, read_input};
use super::store_args::StoreArgs;
use super::translate::{ViewArgs, definitions};
use super::{heading, output};
use picktools::access::IneligibleReason;
use picktools::excerpt::{self, MAX_LISTED, marked};
use picktools::names::{NameTable, tools_section};
use picktools::options::{Fusion, TokenBudget};
use picktools::selection::{
    AskedBy, BlockedMatch, CalledOften, CalledTogether, Definition, DropReason, ExampleEvidence,
    Field, IneligibleTool, NothingFits, PriorEvidence, Provenance, RerankEvidence, RerankReport,
    SkillPick, TermEvidence, TokenReport, WordEvidence,
};
use picktools::skills::{Skill, SkillReport, ToolMeaning, skills_section};
use picktools::{Access, Catalog, Pick, PickOptions, Query, Selection, Tool};
use picktools_provider::{Provider, translate};
use picktools_provider::{TranslateOptions, Translation};
use picktools_skills::SkillFolder;
use picktools_store::{RedisStore, SharedEngine, SharedOptions};

/// What a pick has at least, whatever came before it took: words and the static model need a few
/// milliseconds.
const LEAST_TIME: Duration = Duration::from_millis(50);
/// How much is shown of a name that no tool has.
const SHOWN_CHARS: usize = 80;

/// How many tools that are left out are explained.
const MAX_EXPLAINED: usize = 1_000;

#[derive(Args)]
pub(super) struct PickCommand {
    /// The request.
    #[arg(required_unless_present = "input", conflicts_with = "input")]
    query: Option<String>,
    /// Read the request from a file, or from standard input for `-`: text, any JSON, or a
    /// transcript as providers write it, whose last message of the user is the request.
    #[arg(long, value_name = "FILE|-", help_heading = heading::REQUEST)]
    input: Option<PathBuf>,
    /// The catalog: a file of tools, an OpenAPI document, a configuration of MCP servers, `-` for
    /// standard input, a folder of such, or the folder of an index; may be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Folder of skills (SKILL.md): those that the request needs are picked too, with their tools.
    #[arg(long, value_name = "DIR", help_heading = heading::CATALOG)]
    skills: Option<PathBuf>,
    #[command(flatten)]
    asking: AskingArgs,
    #[command(flatten)]
    picks: PicksArgs,
    /// Print the picks as definitions in a provider's format, ready for a request, in place of the
    /// list; with --json both (openai, openai-responses, anthropic, gemini, ollama, mcp).
    #[arg(long, value_name = "PROVIDER", conflicts_with = "explain", help_heading = heading::DEFINITIONS)]
    provider: Option<Provider>,
    #[command(flatten)]
    view: ViewArgs,
    /// Show the evidence of every candidate and every reason for exclusion.
    #[arg(long, help_heading = heading::OUTPUT)]
    explain: bool,
    /// Leave out what speaks for each pick, which takes time to find.
    #[arg(long, conflicts_with = "explain", help_heading = heading::OUTPUT)]
    no_reasons: bool,
    /// When to tell of the tool that would have been the best, had the caller been allowed to use
    /// it.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "except-roles", help_heading = heading::OUTPUT)]
    tell_blocked: TellBlockedArg,
    /// Show how long each stage took, on standard error.
    #[arg(long, help_heading = heading::OUTPUT)]
    timings: bool,
    /// Print tools and skills as a section of a prompt, in place of the list: the picked tools, or
    /// all that the caller may use. With --provider or --names they have the names of their
    /// definitions (in the format of --provider, else of openai).
    #[arg(long, value_name = "TOOLS", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "picks", conflicts_with_all = ["json", "explain"], help_heading = heading::OUTPUT)]
    prompt_section: Option<Listed>,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// Which tools a section of a prompt lists.
#[derive(Clone, Copy, ValueEnum)]
enum Listed {
    /// The picked tools.
    Picks,
    /// All that the caller may use.
    All,
}

/// How many tools are picked, and which.
#[derive(Args)]
#[command(next_help_heading = heading::PICKS)]
struct PicksArgs {
    /// The most tools picked.
    #[arg(short = 'k', long = "max-candidates", value_name = "N", default_value_t = 3, value_parser = whole::<usize>,
        allow_negative_numbers = true)]
    max_candidates: usize,
    /// The least score of a picked tool, 0 to 1.
    #[arg(long, value_name = "SCORE", default_value_t = 0.05, value_parser = number::<f32>,
        allow_negative_numbers = true)]
    min_score: f32,
    /// A tool that is picked whatever its score; may be repeated.
    #[arg(long = "always-include", value_name = "TOOL")]
    always_include: Vec<String>,
    /// The most tokens of the picks' definitions (o200k_base, in the format of --provider, else of
    /// openai): tools are shown in less detail, or left out, so that they fit.
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    token_budget: Option<usize>,
    /// Return what is ranked by then, counted from the start of the program: a model that is not
    /// ready is left out, and its stage says so.
    #[arg(long, value_name = "MS", value_parser = whole::<u64>, allow_negative_numbers = true)]
    timeout_ms: Option<u64>,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    selection: Selection,
    #[serde(skip_serializing_if = "Option::is_none")]
    definitions: Option<Translation>,
}

/// What is asked of an engine, and how definitions are written.
struct Asked {
    options: PickOptions,
    view: TranslateOptions,
}

impl PickCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let deadline = self
            .picks
            .timeout_ms
            .and_then(|timeout| Instant::now().checked_add(Duration::from_millis(timeout)));
        let query = self.query()?;
        if query.is_blank() && query.context().is_empty() {
            bail!("the request is empty; say what is to be done");
        }
        if query.truncated() {
            output::warn(format!(
                "only the first {} bytes of the request are read",
                query.text().len()
            ));
        }
        let reranker = self
            .asking
            .rerank
            .open(self.asking.ranking.folders(), deadline)?;
        if let Some(store) = self.store.catalog_store()? {
            let is_reranked = reranker.is_some();
            return self.pick_shared(store, &query, deadline, is_reranked);
        }
        self.asking.ranking.read_ahead();
        let catalog = self.reading.open_for_picks(&self.catalog)?;
        let skills = self.skills.as_deref().map(read_skills).transpose()?;
        let (sequences, examples) = (
            self.asking.history.sequences()?,
            self.asking.history.examples()?,
        );
        let skills = skills.unwrap_or_default();
        let beside = Some(skills.clone()).filter(|_| self.skills.is_some());
        let beside = Beside {
            skills: beside,
            sequences,
            examples,
            reranker,
        };
        let engine = self
            .asking
            .ranking
            .engine_for_pick(catalog, beside, deadline)?;
        self.asking.history.warn_of_strangers(&engine);
        output::warnings(
            engine
                .skill_reports()
                .iter()
                .filter(|report| !report.is_compatible()),
            "",
        );
        let asked = self.options(deadline)?;
        let (options, view) = (&asked.options, &asked.view);
        let named = self.provider.is_some() || self.view.chooses_names();
        let selection = engine.pick(&query, options)?;
        self.warn(&selection);
        if let Some(listed) = self.prompt_section {
            let tools = match listed {
                Listed::Picks => selection.shown(),
                Listed::All => available(engine.catalog(), &options.access)?,
            };
            let section = match self.provider.or(named.then_some(Provider::OpenAiChat)) {
                Some(provider) => translate(&tools, provider, view)?.tools_section(&tools),
                None => tools_section(&tools),
            };
            let skills = match listed {
                Listed::Picks => skills_of(&selection),
                Listed::All => skills_section(usable(&skills, engine.skill_reports(), &tools)),
            };
            return output::verbatim(format!("{section}\n{skills}").trim_end());
        }
        self.tell(selection, view)
    }

    /// Picks from a catalog in a store.
    fn pick_shared(
        &self,
        store: RedisStore,
        query: &Query,
        deadline: Option<Instant>,
        is_reranked: bool,
    ) -> anyhow::Result<()> {
        // What would be passed over in silence might be what keeps something out.
        if self.skills.is_some()
            || self.prompt_section.is_some()
            || self.asking.history.reads_files()
            || is_reranked
            || self.reading.says_something()
            || self.tell_blocked == TellBlockedArg::Always
        {
            bail!(
                "--store picks from what was published, as it was published: leave out --skills, --sequences, --examples, \
                 --prompt-section, --rerank and `--tell-blocked always`, and give {} where the catalog is indexed",
                ReadingArgs::NAMES
            );
        }
        let model = self.asking.ranking.open_model()?.beside_static();
        // One request needs no more than its candidates.
        let engine = SharedEngine::open(
            store,
            SharedOptions {
                model,
                keep: 0,
                whole: 0,
                token_counter: Some(Arc::new(picktools_provider::Definitions)),
            },
        )?;
        let asked = self.options(deadline)?;
        let selection = engine.pick(query, &asked.options)?;
        self.warn(&selection);
        self.tell(selection, &asked.view)
    }

    /// Reads the options of a pick, and how definitions are written.
    fn options(&self, deadline: Option<Instant>) -> anyhow::Result<Asked> {
        let mut options = PickOptions {
            max_candidates: self.picks.max_candidates,
            min_score: self.picks.min_score,
            always_include: self.picks.always_include.clone(),
            access: self.asking.access.clone().access(),
            timeout: deadline.map(|deadline| {
                deadline
                    .saturating_duration_since(Instant::now())
                    .max(LEAST_TIME)
            }),
            reasons: !self.no_reasons,
            debug: self.explain,
            tell_blocked: self.tell_blocked.into(),
            ..PickOptions::default()
        };
        let named = self.provider.is_some() || self.view.chooses_names();
        let asked = self.provider.is_some()
            || self.picks.token_budget.is_some()
            || (self.prompt_section.is_some() && named);
        let view = if asked {
            self.view.options()?
        } else {
            TranslateOptions::default()
        };
        if let Some(tokens) = self.picks.token_budget {
            let provider = self.provider.unwrap_or(Provider::OpenAiChat);
            options.token_budget = Some(TokenBudget {
                tokens,
                provider: provider.name().to_owned(),
                view: view.clone(),
            });
        }
        self.asking.history.apply(&mut options);
        self.asking.sources.clone().apply(&mut options);
        self.asking.ranking.apply(&mut options);
        self.asking.rerank.apply(&mut options);
        Ok(Asked { options, view })
    }

    /// Warns of what a selection was not made as asked for.
    fn warn(&self, selection: &Selection) {
        output::warn_of_unknown(&selection.unknown_values);
        output::warnings(&selection.deprecated_aliases, output::IN_JSON);
        for degraded in &selection.degraded {
            output::warn(format!(
                "degraded in the stage {}: {}",
                degraded.stage, degraded.reason
            ));
        }
        if self.timings {
            for (stage, time) in &selection.timings.0 {
                output::note(format!("{stage:<12} {:>10.1} µs", time.as_secs_f64() * 1e6));
            }
        }
    }

    /// Prints a selection.
    fn tell(&self, selection: Selection, view: &TranslateOptions) -> anyhow::Result<()> {
        let definitions = self
            .provider
            .map(|provider| definitions(&selection, provider, view))
            .transpose()?;
        match (self.json, definitions) {
            (true, definitions) => {
                return output::json(&Answer {
                    selection,
                    definitions,
                });
            }
            (false, Some(definitions)) => return output::json(&definitions.tools),
            (false, None) => {}
        }
        output::answer(render(&selection, self.picks.max_candidates, self.explain)?.trim_end())
    }

    fn query(&self) -> anyhow::Result<Query> {
        let Some(path) = &self.input else {
            return Ok(Query::new(self.query.as_deref().unwrap_or_default()));
        };
        let bytes = read_input(path)?;
        let Ok(text) = String::from_utf8(bytes) else {
            bail!(
                "the request in {} is not valid UTF-8; save it as UTF-8",
                path.display()
            );
        };
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => Ok(picktools_provider::query_from_value(&value)),
            Err(_) => Ok(Query::new(text)),
        }
    }
}

/// Reads skills, and warns of those that cannot be.
fn read_skills(folder: &Path) -> anyhow::Result<Vec<Skill>> {
    let found = SkillFolder::open(folder)?;
    output::warnings(&found.errors, "; `picktools check --skills` lists them all");
    Ok(found.skills)
}

/// The tools that the caller may use, in the order of the catalog.
fn available(catalog: &Catalog, access: &Access) -> anyhow::Result<Vec<Arc<Tool>>> {
    let eligibility = access.decide(catalog, &NameTable::of(catalog)?)?;
    let may_use = |tool: &&Arc<Tool>| {
        catalog
            .find(&tool.id)
            .is_some_and(|id| eligibility.admits(id))
    };
    let tools = catalog
        .read_all()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(tools.iter().filter(may_use).cloned().collect())
}

/// The skills all of whose tools are among these, in the order of their files.
fn usable<'a>(skills: &'a [Skill], reports: &[SkillReport], tools: &[Arc<Tool>]) -> Vec<&'a Skill> {
    let among = |id: &str| tools.iter().any(|tool| tool.id == id);
    let has_tools = |report: &SkillReport| {
        report
            .tools
            .iter()
            .all(|needed| matches!(&needed.meaning, ToolMeaning::Tool { tool, .. } if among(tool)))
    };
    let usable = |skill: &&Skill| {
        reports
            .iter()
            .any(|report| report.path == skill.path && has_tools(report))
    };
    skills.iter().filter(usable).collect()
}

/// Writes the picked skills whose tools the caller may have, for a model; warns of the others.
fn skills_of(selection: &Selection) -> String {
    let (eligible, others): (Vec<&SkillPick>, Vec<&SkillPick>) = selection
        .skills
        .iter()
        .flatten()
        .partition(|pick| pick.is_eligible());
    for SkillPick {
        skill, ineligible, ..
    } in others
    {
        let tools: Vec<String> = ineligible
            .iter()
            .map(|tool| format!("{} is {}", tool.tool_id, reasons(&tool.reasons)))
            .collect();
        output::warn(format!(
            "the skill {} is not in the section: {}",
            skill.name,
            tools.join("; ")
        ));
    }
    skills_section(eligible.into_iter().map(|pick| &*pick.skill))
}

/// Writes a selection for people, with at least as many picks as were asked for.
fn render(selection: &Selection, most: usize, explain: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    let picks = selection
        .picks
        .iter()
        .enumerate()
        .map(|(place, pick)| pick_lines(place, pick));
    list(
        &mut text,
        "",
        output::first(picks, most.max(MAX_LISTED), output::IN_JSON),
    )?;
    if selection.picks.is_empty() {
        writeln!(text, "{}{}.", why_none(selection), nothing_fits(selection))?;
    }
    if !selection.required.is_empty() {
        writeln!(text, "Required by the picks:")?;
        let required = selection
            .required
            .iter()
            .enumerate()
            .map(|(place, pick)| pick_lines(place, pick));
        list(
            &mut text,
            "",
            output::first(required, MAX_LISTED, output::IN_JSON),
        )?;
    }
    if let Some(skills) = &selection.skills {
        skill_list(&mut text, skills).context("cannot write the skills")?;
    }
    let told = selection
        .ineligible
        .tools
        .iter()
        .filter(|tool| explain || tool.named.is_some());
    let told = told.map(|tool| {
        format!(
            "{} is left out{}: {}",
            tool.tool_id,
            though(tool),
            reasons(&tool.reasons)
        )
    });
    list(
        &mut text,
        " -  ",
        output::first(
            told,
            if explain { MAX_EXPLAINED } else { MAX_LISTED },
            output::IN_JSON,
        ),
    )?;
    let named = |id: &str| {
        selection
            .ineligible
            .tools
            .iter()
            .any(|tool| tool.tool_id == id && tool.named.is_some())
    };
    if let Some(BlockedMatch {
        tool_id,
        score,
        reasons: why,
        ..
    }) = &selection.blocked
        && !named(tool_id)
    {
        writeln!(
            text,
            " -  {tool_id} would be the best, with a score of {score:.2}, but is left out: {}",
            reasons(why)
        )?;
    }
    let unknown = selection.unknown_in_use.iter();
    let unknown = unknown.map(|name| {
        format!(
            "{:?} is in use, and no tool of the catalog",
            marked(name, SHOWN_CHARS)
        )
    });
    list(
        &mut text,
        " -  ",
        output::first(unknown, MAX_LISTED, output::IN_JSON),
    )?;
    let dropped = selection
        .dropped
        .iter()
        .map(|dropped| format!("{} is left out: {}", dropped.tool_id, dropped.reason));
    list(
        &mut text,
        " -  ",
        output::first(dropped, MAX_LISTED, output::IN_JSON),
    )?;
    let errors = selection.scorer_errors.iter().map(output::line);
    list(
        &mut text,
        " -  ",
        output::first(errors, MAX_LISTED, output::IN_JSON),
    )?;
    writeln!(text, "{}", summary(selection))?;
    if let Some(why) = selection.uncalibrated {
        writeln!(text, "The scores are no probabilities: {why}")?;
    }
    if let Some(tokens) = &selection.tokens {
        writeln!(text, "{}", token_summary(tokens))?;
    }
    if explain {
        details(&mut text, selection).context("cannot write the explanation")?;
    }
    Ok(text)
}

/// Writes each item after the same mark.
fn list(text: &mut String, mark: &str, items: impl Iterator<Item = String>) -> std::fmt::Result {
    items
        .into_iter()
        .try_for_each(|item| writeln!(text, "{mark}{item}"))
}

/// A pick, its reason, and what else is to be told of it.
fn pick_lines(place: usize, pick: &Pick) -> String {
    let mut text = format!("{:>2}. {}  {:.2}", place + 1, pick.tool.id, pick.score);
    if !pick.reason.is_empty() {
        text.push_str(&format!("\n    {}", pick.reason));
    }
    if let Some(Definition { detail, tokens, .. }) = pick.definition {
        text.push_str(&format!("\n    Shown: {}, {tokens} tokens", detail.name()));
    }
    if !pick.same_as.is_empty() {
        text.push_str(&format!(
            "\n    The same: {}",
            excerpt::list(&pick.same_as, ", ")
        ));
    }
    text
}

/// How a tool that is left out was asked for.
fn though(tool: &IneligibleTool) -> String {
    match tool.asked_by {
        None => String::new(),
        Some(AskedBy::Tool) => format!(
            ", though required by {}",
            excerpt::list(&tool.required_by, ", ")
        ),
        Some(AskedBy::Request) => ", though named".to_owned(),
        Some(AskedBy::Caller) => ", though it was to be always included".to_owned(),
        Some(AskedBy::Task) => ", though in use".to_owned(),
        Some(_) => ", though asked for".to_owned(),
    }
}

fn reasons(reasons: &[IneligibleReason]) -> String {
    let reasons: Vec<String> = reasons.iter().map(IneligibleReason::describe).collect();
    reasons.join("; ")
}

/// Writes the picked skills, each with what became of its tools.
fn skill_list(text: &mut String, skills: &[SkillPick]) -> std::fmt::Result {
    writeln!(
        text,
        "{}",
        if skills.is_empty() {
            "No skill fits."
        } else {
            "Skills:"
        }
    )?;
    for (
        place,
        SkillPick {
            skill,
            score,
            reason,
            tool_ids,
            ineligible,
            ..
        },
    ) in skills.iter().enumerate()
    {
        writeln!(
            text,
            "{:>2}. {}  {score:.2}  {}",
            place + 1,
            skill.name,
            output::line(&skill.path)
        )?;
        writeln!(text, "    {reason}")?;
        if !tool_ids.is_empty() {
            writeln!(text, "    Its tools: {}", excerpt::list(tool_ids, ", "))?;
        }
        for tool in ineligible {
            writeln!(
                text,
                "    {} is left out, though it needs it: {}",
                tool.tool_id,
                reasons(&tool.reasons)
            )?;
        }
    }
    Ok(())
}

fn why_none(selection: &Selection) -> &'static str {
    if selection
        .dropped
        .iter()
        .any(|dropped| dropped.reason == DropReason::TokenBudget)
    {
        "No tool fits the token budget"
    } else if selection.below_threshold > 0 {
        "No tool fits: none of the eligible tools scores high enough"
    } else if selection.ineligible.total > 0 {
        "No tool fits: none is eligible"
    } else {
        "No tool fits: the catalog is empty"
    }
}

/// Of what kind the request is, where that can be told.
fn nothing_fits(selection: &Selection) -> String {
    match &selection.nothing_fits {
        Some(NothingFits::NearSource { source }) => {
            format!(
                "; of all sources \"{}\" is near what it asks for",
                marked(source, SHOWN_CHARS)
            )
        }
        Some(NothingFits::OutOfScope) => "; no source is near what it asks for".to_owned(),
        _ => String::new(),
    }
}

fn summary(selection: &Selection) -> String {
    let Selection {
        picks,
        required,
        below_threshold,
        ineligible,
        ..
    } = selection;
    let required = if required.is_empty() {
        String::new()
    } else {
        format!(", {} required by them", required.len())
    };
    let counts: Vec<String> = ineligible
        .counts
        .iter()
        .map(|(code, count)| format!("{code} {count}"))
        .collect();
    let counts = if counts.is_empty() {
        String::new()
    } else {
        format!(" ({})", counts.join(", "))
    };
    let answerable = selection.answerable.map_or(String::new(), |estimate| {
        format!(", a tool fits with probability {estimate:.2}")
    });
    format!(
        "{} picked by {}{answerable}{required}, {below_threshold} below the threshold, {} not eligible{counts}",
        picks.len(),
        selection.scorer,
        ineligible.total
    )
}

fn token_summary(tokens: &TokenReport) -> String {
    let TokenReport {
        budget,
        provider,
        tokenizer,
        catalog,
        picks,
        ..
    } = tokens;
    let catalog = catalog
        .filter(|catalog| *catalog > 0)
        .map_or_else(String::new, |catalog| {
            let saved = 100.0 * (1.0 - *picks as f64 / catalog as f64);
            format!(" in place of {catalog} for the whole catalog, {saved:.1} % less")
        });
    format!("{picks} of {budget} tokens ({tokenizer}, {provider}){catalog}")
}

/// Every candidate's evidence, and what each stage did.
fn details(text: &mut String, selection: &Selection) -> std::fmt::Result {
    for (place, candidate) in selection.considered.iter().flatten().enumerate() {
        let mark = if candidate.picked { '*' } else { ' ' };
        let trust = if candidate.untrusted {
            "  untrusted source"
        } else {
            ""
        };
        writeln!(
            text,
            "\n{mark}{:>3}. {}  {:.4}{trust}",
            place + 1,
            candidate.tool_id,
            candidate.score
        )?;
        evidence(text, &candidate.provenance)?;
    }
    writeln!(text)?;
    for report in &selection.stages {
        writeln!(
            text,
            "stage {:<12} {}",
            report.stage,
            output::line(&report.status)
        )?;
    }
    if let Some(RerankReport {
        reranker,
        window,
        top_margin,
        cut_margin,
        ..
    }) = &selection.rerank
    {
        let margin = |margin: Option<f32>| {
            margin.map_or_else(|| "none".to_owned(), |margin| format!("{margin:.2}"))
        };
        let (top, cut) = (margin(*top_margin), margin(*cut_margin));
        writeln!(
            text,
            "reranker {reranker}, window {window}, margin of the best {top}, at the cutoff {cut}"
        )?;
    }
    writeln!(text, "catalog {}", selection.catalog_digest)
}

fn evidence(text: &mut String, provenance: &Provenance) -> std::fmt::Result {
    let rank =
        |rank: Option<usize>| rank.map_or("no match".to_owned(), |rank| format!("rank {rank}"));
    if let Some(keyword) = &provenance.keyword {
        writeln!(
            text,
            "      keyword   {}, BM25 {:.3}",
            rank(keyword.rank),
            keyword.score
        )?;
        context(text, keyword.context)?;
        of_examples(text, keyword.examples)?;
        for term in &keyword.terms {
            let fields: Vec<&str> = term
                .fields
                .iter()
                .map(|field: &Field| field.label())
                .collect();
            let TermEvidence {
                word,
                meets,
                contribution,
                ..
            } = term;
            writeln!(
                text,
                "        {word:<20} {contribution:>7.3}  {}: {meets}",
                fields.join(", ")
            )?;
        }
    }
    for semantic in &provenance.semantic {
        writeln!(
            text,
            "      semantic  {}, cosine {:.3} ({})",
            rank(semantic.rank),
            semantic.score,
            semantic.model
        )?;
        context(text, semantic.context)?;
        of_examples(text, semantic.examples)?;
        for WordEvidence {
            word,
            contribution,
            meets,
            field,
            similarity,
            ..
        } in &semantic.words
        {
            let field = field.label();
            writeln!(
                text,
                "        {word:<20} {contribution:>7.3}  {field}: {meets} ({similarity:.2} similar)"
            )?;
        }
    }
    if let Some(ExampleEvidence { gain, nearest, .. }) = &provenance.examples {
        writeln!(
            text,
            "      examples  {gain:+.4}, the nearest: {}",
            output::line(nearest)
        )?;
    }
    if let Some(PriorEvidence {
        gain, by, popular, ..
    }) = &provenance.prior
    {
        writeln!(text, "      prior     {gain:+.4}")?;
        if let Some(CalledOften {
            tasks,
            expected,
            log_ratio,
            ..
        }) = popular
        {
            writeln!(
                text,
                "        {:<20} {log_ratio:>+7.3}  {tasks} tasks called it, {expected:.2} a tool that is called",
                "often"
            )?;
        }
        for CalledTogether {
            tool_id,
            together,
            expected,
            log_ratio,
            ..
        } in by
        {
            let more = format!("{together} times in one task, {expected:.2} by chance");
            writeln!(text, "        {tool_id:<20} {log_ratio:>+7.3}  {more}")?;
        }
    }
    if let Some(fusion) = &provenance.fusion {
        let prior = provenance.prior.as_ref().map_or("", |_| " + prior");
        let parts: Vec<String> = fusion
            .parts
            .iter()
            .map(|(name, part)| format!("{name} {:.3} × {:.3}", part.weight, part.score))
            .collect();
        match fusion.method {
            Fusion::Rrf { k } => writeln!(
                text,
                "      fused     {:.4} from the ranks, k = {k}",
                fusion.value
            )?,
            Fusion::Weighted => writeln!(
                text,
                "      fused     {:.4} = {}{prior}",
                fusion.value,
                parts.join(" + ")
            )?,
        }
    }
    if let Some(RerankEvidence {
        score,
        before,
        after,
        ..
    }) = provenance.rerank
    {
        writeln!(
            text,
            "      reranked  {score:.3}, from place {before} to {after}"
        )?;
    }
    Ok(())
}

/// By how much the tool's examples raise a score.
fn of_examples(text: &mut String, score: Option<f32>) -> std::fmt::Result {
    match score.filter(|score| *score > 0.0) {
        Some(score) => writeln!(text, "        {score:+.3} of it for its examples"),
        None => Ok(()),
    }
}

/// By how much what was said before changes a score.
fn context(text: &mut String, score: Option<f32>) -> std::fmt::Result {
    match score {
        Some(score) => writeln!(text, "        {score:+.3} of it for what was said before"),
        None => Ok(()),
    }
}
