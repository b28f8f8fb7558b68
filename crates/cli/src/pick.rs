//! `picktools pick`.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use super::args::{EngineExtras, TellBlockedArg};
use super::asking::RequestArgs;
use super::history::pack_tools;
use super::numbers::{integer, number};
use super::reading::{ReadingArgs, read_input};
use super::store_args::StoreArgs;
use super::translate::{ViewArgs, definitions};
use super::{heading, output};
use picktools::access::IneligibleReason;
use picktools::excerpt::{self, MAX_LISTED, marked};
use picktools::names::{NameTable, tools_section};
use picktools::options::{Fusion, TokenBudget};
use picktools::rerank::Reranker;
use picktools::selection::{
    BlockedMatch, CallCooccurrence, CallFrequency, DropReason, ExampleEvidence, Field,
    IneligibleTool, NameOrigin, PriorEvidence, Provenance, RerankEvidence, RerankReport,
    ShownDefinition, SkillPick, TermEvidence, TokenReport, WordEvidence,
};
use picktools::skills::{Skill, SkillReport, ToolMeaning, skills_section};
use picktools::{Access, Catalog, Engine, Pick, PickOptions, Query, Selection, Tool};
use picktools_provider::{Provider, translate};
use picktools_provider::{TranslateOptions, Translation};
use picktools_skills::SkillFolder;
use picktools_store::{RedisStore, SharedEngine, SharedOptions};

/// The shortest time limit of a pick, even if reading took longer than the timeout. Keywords and
/// the static model need a few milliseconds.
const MIN_PICK_TIME: Duration = Duration::from_millis(50);
/// The most characters of an unknown name or of a source in the output.
const MAX_UNKNOWN_CHARS: usize = 80;

const EXAMPLES: &str = "\
Examples:
  picktools pick \"make this picture smaller\" --catalog fixtures/catalogs/workplace
  picktools pick --input transcript.json --catalog tools.json --provider openai -k 5";

/// Pick the tools that a request needs.
///
/// By default, each pick has a score and a reason. Tools below the threshold are only counted, and
/// so are most ineligible tools. An ineligible tool is listed if the request names it, or if it is
/// the best match of all ineligible tools (see --tell-blocked). --explain also shows how the best
/// 100 tools above the threshold scored, and why up to 50 tools are ineligible.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct PickCommand {
    /// Text of the request.
    #[arg(required_unless_present = "input", conflicts_with = "input")]
    query: Option<String>,
    /// Read the request from a file, or from standard input for -.
    ///
    /// The file contains text or JSON. If the JSON is a transcript in a provider's format, the last
    /// user message is the request, and earlier messages give its context. A JSON string is the
    /// request. Other JSON is used as text.
    #[arg(long, value_name = "FILE|-", help_heading = heading::REQUEST)]
    input: Option<PathBuf>,
    /// Catalog: tools, an OpenAPI document, MCP servers, a folder, or - for stdin.
    ///
    /// A catalog is a file of tools, an OpenAPI document, or a configuration of MCP servers. It may
    /// also be a folder of such files, or a folder that `picktools index --out` wrote. May be
    /// repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Folder of skills (SKILL.md) to pick from.
    ///
    /// The tools that a picked skill needs are picked, too.
    #[arg(long, value_name = "DIR", help_heading = heading::CATALOG)]
    skills: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    picks: PicksArgs,
    /// Print the picks as definitions in a provider's format.
    ///
    /// One of openai, openai-responses, anthropic, gemini, ollama or mcp. The definitions replace
    /// the list; with --json both are printed.
    #[arg(long, value_name = "PROVIDER", conflicts_with = "explain",
        help_heading = heading::DEFINITIONS)]
    provider: Option<Provider>,
    #[command(flatten)]
    view: ViewArgs,
    /// Show how the best 100 tools scored, and why up to 50 tools are ineligible.
    ///
    /// The evidence of a tool has its matched words, semantic similarity and ranks. It is shown for
    /// every pick, and for the best 100 tools above the threshold. Tools below the threshold are
    /// only counted.
    #[arg(long, help_heading = heading::OUTPUT)]
    explain: bool,
    /// Do not compute the reasons of picks, which saves time.
    #[arg(long, conflicts_with = "explain", help_heading = heading::OUTPUT)]
    no_reasons: bool,
    /// When to report the best match among ineligible tools.
    ///
    /// It is the tool that would be the best if the caller were allowed to use it. Ineligible tools
    /// are always counted. Those that the request names are always listed. JSON output lists up to
    /// 50 ineligible tools, even without --explain.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "except-roles",
        help_heading = heading::OUTPUT)]
    tell_blocked: TellBlockedArg,
    /// Print the time of each stage to standard error.
    #[arg(long, help_heading = heading::OUTPUT)]
    timings: bool,
    /// Print tools and skills as a section of a prompt.
    ///
    /// The section replaces the list. It contains the picked tools, or all tools that the caller
    /// may use. With --provider, each tool has the name that it has in the definitions for that
    /// provider. With --names but without --provider, it has its name in the definitions for openai.
    #[arg(long, value_name = "TOOLS", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "picks", conflicts_with_all = ["json", "explain"],
        help_heading = heading::OUTPUT)]
    prompt_section: Option<PromptTools>,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// The tools in a section of a prompt.
#[derive(Clone, Copy, ValueEnum)]
enum PromptTools {
    /// The picked tools.
    Picks,
    /// All tools that the caller may use.
    All,
}

/// The number of picks and their threshold.
#[derive(Args)]
#[command(next_help_heading = heading::PICKS)]
struct PicksArgs {
    /// Largest number of picks.
    ///
    /// Tools in use, the tools of picked skills, and tools that the picks require are added.
    #[arg(short = 'k', long = "max-candidates", value_name = "N", default_value_t = 3,
        value_parser = integer::<usize>,
        allow_negative_numbers = true)]
    max_candidates: usize,
    /// Threshold: the lowest score of a pick, 0 to 1.
    ///
    /// Some picks may score less: tools that the request names, tools of --always-include,
    /// --fallback and --in-use, tools of picked skills, and good tools for a part of the request.
    #[arg(long, value_name = "SCORE", default_value_t = 0.05, value_parser = number::<f32>,
        allow_negative_numbers = true)]
    min_score: f32,
    /// Pick this tool or glob, such as 'github/*', with any score; may be repeated.
    #[arg(long = "always-include", value_name = "TOOL")]
    always_include: Vec<String>,
    /// Pick this tool if no other tool fits; may be repeated, and may be a glob.
    ///
    /// Use it for general tools, such as a web search. It is not used for small talk.
    #[arg(long = "fallback", value_name = "TOOL")]
    fallbacks: Vec<String>,
    /// Largest number of tokens of the picks' definitions.
    ///
    /// Tokens are counted with o200k_base, in the format of --provider or else of openai. Tools are
    /// shown with less detail, or left out, to fit.
    #[arg(long, value_name = "N", value_parser = integer::<usize>, allow_negative_numbers = true)]
    token_budget: Option<usize>,
    /// Timeout in milliseconds, from the start of the program.
    ///
    /// An embedding model or reranker that is not ready in time is skipped, and the result says so.
    /// Reading the catalog uses up part of this time, but always finishes. Another option,
    /// --server-timeout-ms, limits the time for each MCP server.
    #[arg(long, value_name = "MS", value_parser = integer::<u64>, allow_negative_numbers = true)]
    timeout_ms: Option<u64>,
}

#[derive(Serialize)]
struct PickOutput {
    #[serde(flatten)]
    selection: Selection,
    #[serde(skip_serializing_if = "Option::is_none")]
    definitions: Option<Translation>,
    /// The number of tools with examples of a pack, if a pack was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pack_tools: Option<usize>,
}

/// An engine, and the skills that it picks from.
struct EngineWithSkills {
    engine: Engine,
    skills: Vec<Skill>,
}

/// The options of a pick, and the form of its definitions.
struct PickSettings {
    options: PickOptions,
    view: TranslateOptions,
}

impl PickCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let deadline = self.deadline();
        let query = self.query()?;
        if query.is_blank() && query.context().is_empty() {
            bail!("the request is empty; describe the task");
        }
        if query.truncated() {
            output::warn(format!(
                "the request was cut to its first {} bytes",
                query.text().len()
            ));
        }
        let reranker = self
            .request
            .rerank
            .open(self.request.ranking.folders(), deadline)?;
        if let Some(store) = self.store.catalog_store()? {
            let is_reranked = reranker.is_some();
            return self.pick_shared(store, &query, deadline, is_reranked);
        }
        let opened = self.open_engine(reranker, deadline)?;
        let settings = self.options(deadline)?;
        let selection = opened.engine.pick(&query, &settings.options)?;
        self.warn(&selection);
        match self.prompt_section {
            Some(tool_set) => {
                let section = self.section(tool_set, &opened, &selection, &settings)?;
                output::verbatim(section.trim_end())
            }
            None => self.print(selection, &settings.view, pack_tools(&opened.engine)),
        }
    }

    /// Returns the time at which the timeout ends; `None` without a timeout.
    fn deadline(&self) -> Option<Instant> {
        let timeout = Duration::from_millis(self.picks.timeout_ms?);
        Instant::now().checked_add(timeout)
    }

    /// Reads and indexes the catalog and the skills.
    fn open_engine(
        &self,
        reranker: Option<Arc<dyn Reranker>>,
        deadline: Option<Instant>,
    ) -> anyhow::Result<EngineWithSkills> {
        self.request.ranking.read_ahead();
        let catalog = self.reading.open_for_picks(&self.catalog)?;
        let skills = match &self.skills {
            Some(folder) => Some(read_skills(folder)?),
            None => None,
        };
        let extras = EngineExtras {
            skills: skills.clone(),
            sequences: self.request.history.sequences()?,
            examples: self.request.history.examples()?,
            reranker,
        };
        let engine = self
            .request
            .ranking
            .engine_for_pick(catalog, extras, deadline)?;
        self.request.history.report_coverage(&engine);
        let reports = engine.skill_reports().iter();
        output::warnings(reports.filter(|report| !report.is_compatible()), "");
        Ok(EngineWithSkills {
            engine,
            skills: skills.unwrap_or_default(),
        })
    }

    /// Returns the section of a prompt: the tools, then the skills.
    fn section(
        &self,
        tool_set: PromptTools,
        EngineWithSkills { engine, skills }: &EngineWithSkills,
        selection: &Selection,
        PickSettings { options, view }: &PickSettings,
    ) -> anyhow::Result<String> {
        let tools = match tool_set {
            PromptTools::Picks => selection.shown_tools(),
            PromptTools::All => available(engine.catalog(), &options.access)?,
        };
        let provider = match self.provider {
            None if self.view.chooses_names() => Some(Provider::OpenAiChat),
            provider => provider,
        };
        let tool_section = match provider {
            Some(provider) => translate(&tools, provider, view)?.tools_section(&tools),
            None => tools_section(&tools),
        };
        let skill_section = match tool_set {
            PromptTools::Picks => picked_skills_section(selection),
            PromptTools::All => {
                skills_section(usable_skills(skills, engine.skill_reports(), &tools))
            }
        };
        Ok(format!("{tool_section}\n{skill_section}"))
    }

    /// Picks from a catalog in a store.
    fn pick_shared(
        &self,
        store: RedisStore,
        query: &Query,
        deadline: Option<Instant>,
        is_reranked: bool,
    ) -> anyhow::Result<()> {
        // An option that is ignored silently might be the one that excludes a tool.
        if self.skills.is_some()
            || self.prompt_section.is_some()
            || self.request.history.reads_files()
            || is_reranked
            || self.reading.is_set()
            || self.tell_blocked == TellBlockedArg::Always
        {
            bail!(
                "--store picks from the published snapshot; leave out --skills, --sequences, \
                 --examples, --prompt-section, --rerank and `--tell-blocked always`, and pass \
                 {} to `picktools index`",
                ReadingArgs::NAMES
            );
        }
        let model = self.request.ranking.open_model()?.unless_static();
        // One request needs only its candidates.
        let engine = SharedEngine::open(
            store,
            SharedOptions {
                model,
                max_cached_tools: 0,
                max_local_tools: 0,
                token_counter: Some(Arc::new(picktools_provider::Definitions)),
            },
        )?;
        let settings = self.options(deadline)?;
        let selection = engine.pick(query, &settings.options)?;
        self.warn(&selection);
        self.print(selection, &settings.view, None)
    }

    /// Returns the options of the pick, and the form of its definitions.
    fn options(&self, deadline: Option<Instant>) -> anyhow::Result<PickSettings> {
        let mut options = PickOptions {
            max_candidates: self.picks.max_candidates,
            min_score: self.picks.min_score,
            always_include: self.picks.always_include.clone(),
            fallbacks: self.picks.fallbacks.clone(),
            access: self.request.access.clone().access(),
            timeout: deadline.map(|deadline| {
                deadline
                    .saturating_duration_since(Instant::now())
                    .max(MIN_PICK_TIME)
            }),
            reasons: !self.no_reasons,
            debug: self.explain,
            tell_blocked: self.tell_blocked.into(),
            ..PickOptions::default()
        };
        let uses_definition_names = self.provider.is_some() || self.view.chooses_names();
        let needs_view = self.provider.is_some()
            || self.picks.token_budget.is_some()
            || (self.prompt_section.is_some() && uses_definition_names);
        let view = if needs_view {
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
        self.request.history.apply(&mut options);
        self.request.sources.clone().apply(&mut options);
        self.request.ranking.apply(&mut options);
        self.request.rerank.apply(&mut options);
        Ok(PickSettings { options, view })
    }

    /// Warns of unknown values, deprecated aliases and degraded stages, and prints the timings.
    fn warn(&self, selection: &Selection) {
        output::warn_of_unknown(&selection.unknown_values);
        output::warnings(&selection.deprecated_aliases, output::IN_JSON);
        for degraded in &selection.degraded {
            output::warn(format!(
                "degraded in stage {}: {}",
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
    fn print(
        &self,
        selection: Selection,
        view: &TranslateOptions,
        pack_tools: Option<usize>,
    ) -> anyhow::Result<()> {
        let definitions = match self.provider {
            Some(provider) => Some(definitions(&selection, provider, view)?),
            None => None,
        };
        if self.json {
            return output::json(&PickOutput {
                selection,
                definitions,
                pack_tools,
            });
        }
        if let Some(definitions) = definitions {
            return output::json(&definitions.tools);
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

/// Reads skills, and warns of those that cannot be read.
fn read_skills(folder: &Path) -> anyhow::Result<Vec<Skill>> {
    let skill_folder = SkillFolder::open(folder)?;
    output::warnings(
        &skill_folder.errors,
        "; `picktools check --skills` lists them all",
    );
    Ok(skill_folder.skills)
}

/// Returns the tools that the caller may use, in the order of the catalog.
fn available(catalog: &Catalog, access: &Access) -> anyhow::Result<Vec<Arc<Tool>>> {
    let eligibility = access.decide(catalog, &NameTable::new(catalog)?)?;
    let tools = catalog.ids().zip(catalog.tools()?);
    let admitted = tools.filter(|(id, _)| eligibility.admits(*id));
    Ok(admitted.map(|(_, tool)| Arc::clone(tool)).collect())
}

/// Returns the skills whose tools are all in `tools`, in the order of their files.
fn usable_skills<'a>(
    skills: &'a [Skill],
    reports: &[SkillReport],
    tools: &[Arc<Tool>],
) -> Vec<&'a Skill> {
    let available_ids: HashSet<&str> = tools.iter().map(|tool| tool.id.as_str()).collect();
    let is_available = |id: &str| available_ids.contains(id);
    let has_tools = |report: &SkillReport| {
        report.tools.iter().all(|needed| match &needed.meaning {
            ToolMeaning::Tool { tool, .. } => is_available(tool),
            ToolMeaning::Matched { tools } => tools.iter().any(|tool| is_available(tool)),
            _ => false,
        })
    };
    let mut usable_paths = HashSet::new();
    for report in reports {
        if has_tools(report) {
            usable_paths.insert(report.path.as_str());
        }
    }
    let is_usable = |skill: &&Skill| usable_paths.contains(skill.path.as_str());
    skills.iter().filter(is_usable).collect()
}

/// Returns the section of the picked skills whose tools the caller may use, and warns of the
/// others.
fn picked_skills_section(selection: &Selection) -> String {
    let (eligible, others): (Vec<&SkillPick>, Vec<&SkillPick>) = selection
        .skills
        .iter()
        .flatten()
        .partition(|pick| pick.is_eligible());
    for SkillPick {
        skill, ineligible, ..
    } in others
    {
        let mut tools = Vec::new();
        for tool in ineligible {
            tools.push(format!(
                "{} is not eligible ({})",
                tool.tool_id,
                reasons(&tool.reasons)
            ));
        }
        output::warn(format!(
            "the skill {} is not in the section: {}",
            skill.name,
            tools.join("; ")
        ));
    }
    skills_section(eligible.into_iter().map(|pick| &*pick.skill))
}

/// Renders a selection for people, with at least `most` picks.
fn render(selection: &Selection, most: usize, explain: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    write_picks(&mut text, &selection.picks, most.max(MAX_LISTED))?;
    if selection.picks.is_empty() {
        writeln!(
            text,
            "{}{}.",
            no_pick_cause(selection),
            no_match_hint(selection)
        )?;
    }
    if !selection.required.is_empty() {
        writeln!(text, "Required by the picks:")?;
        write_picks(&mut text, &selection.required, MAX_LISTED)?;
    }
    if let Some(skills) = &selection.skills {
        skill_list(&mut text, skills).context("cannot write the skills")?;
    }
    write_exclusions(&mut text, selection, explain).context("cannot write the exclusions")?;
    writeln!(text, "{}", summary(selection))?;
    if let Some(cause) = selection.uncalibrated {
        writeln!(text, "The scores are not probabilities: {cause}")?;
    }
    if let Some(tokens) = &selection.tokens {
        writeln!(text, "{}", token_summary(tokens))?;
    }
    if explain {
        details(&mut text, selection).context("cannot write the explanation")?;
    }
    Ok(text)
}

/// Writes the ineligible and excluded tools, unknown tools in use, and errors of scorers.
fn write_exclusions(text: &mut String, selection: &Selection, explain: bool) -> std::fmt::Result {
    write_ineligible(text, selection, explain)?;
    let unknown = selection.unknown_in_use.iter().map(|name| {
        format!(
            "{:?} is in use but not in the catalog",
            marked(name, MAX_UNKNOWN_CHARS)
        )
    });
    list(text, " -  ", unknown, MAX_LISTED)?;
    let dropped = selection
        .dropped
        .iter()
        .map(|dropped| format!("{} is excluded: {}", dropped.tool_id, dropped.reason));
    list(text, " -  ", dropped, MAX_LISTED)?;
    let errors = selection.scorer_errors.iter().map(output::line);
    list(text, " -  ", errors, MAX_LISTED)
}

/// Writes the ineligible tools that were named, or all of them, and the best ineligible match.
fn write_ineligible(text: &mut String, selection: &Selection, explain: bool) -> std::fmt::Result {
    let mut lines = Vec::new();
    for tool in &selection.ineligible.tools {
        if explain || tool.named.is_some() {
            lines.push(format!(
                "{}{} is not eligible: {}",
                tool.tool_id,
                name_origin(tool),
                reasons(&tool.reasons)
            ));
        }
    }
    let limit = if explain { lines.len() } else { MAX_LISTED };
    list(text, " -  ", lines, limit)?;
    let Some(BlockedMatch {
        tool_id,
        score,
        reasons: blocked_reasons,
        ..
    }) = &selection.blocked
    else {
        return Ok(());
    };
    let is_listed = selection
        .ineligible
        .tools
        .iter()
        .any(|tool| tool.tool_id == *tool_id && tool.named.is_some());
    if is_listed {
        return Ok(());
    }
    writeln!(
        text,
        " -  {tool_id} (best match, score {score:.2}) is not eligible: {}",
        reasons(blocked_reasons)
    )
}

/// Writes the first `most` picks with their ranks.
fn write_picks(text: &mut String, picks: &[Pick], most: usize) -> std::fmt::Result {
    let picks = picks.iter().enumerate();
    let lines = picks.map(|(index, pick)| pick_lines(index, pick));
    list(text, "", lines, most)
}

/// Writes the first `most` items, each after the same mark.
fn list(
    text: &mut String,
    mark: &str,
    items: impl IntoIterator<Item = String>,
    most: usize,
) -> std::fmt::Result {
    for item in output::first(items, most, output::IN_JSON) {
        writeln!(text, "{mark}{item}")?;
    }
    Ok(())
}

/// Returns the lines of a pick: score, reason, definition and duplicates.
fn pick_lines(index: usize, pick: &Pick) -> String {
    let mut text = format!("{:>2}. {}", index + 1, pick.tool.id);
    // The score of a fallback did not decide, and neither did one that is shown as 0.
    if !pick.provenance.fallback && pick.score >= 0.005 {
        text.push_str(&format!("  {:.2}", pick.score));
    }
    if !pick.reason.is_empty() {
        text.push_str(&format!("\n    {}", pick.reason));
    }
    if let Some(ShownDefinition { detail, tokens, .. }) = pick.definition {
        text.push_str(&format!("\n    Shown: {}, {tokens} tokens", detail.name()));
    }
    if !pick.same_as.is_empty() {
        text.push_str(&format!(
            "\n    Duplicates: {}",
            excerpt::list(&pick.same_as, ", ")
        ));
    }
    text
}

/// Returns the origin of an ineligible tool's name, in parentheses.
fn name_origin(tool: &IneligibleTool) -> String {
    match tool.asked_by {
        None => String::new(),
        Some(NameOrigin::Tool) => {
            format!(" (required by {})", excerpt::list(&tool.required_by, ", "))
        }
        Some(NameOrigin::Request) => " (named in the request)".to_owned(),
        Some(NameOrigin::Caller) => " (always included by the caller)".to_owned(),
        Some(NameOrigin::Task) => " (in use)".to_owned(),
        Some(_) => " (needed by a skill)".to_owned(),
    }
}

fn reasons(reasons: &[IneligibleReason]) -> String {
    let reasons: Vec<String> = reasons.iter().map(IneligibleReason::describe).collect();
    reasons.join("; ")
}

/// Writes the picked skills with their tools.
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
        index,
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
            index + 1,
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
                "    {} (needed by the skill) is not eligible: {}",
                tool.tool_id,
                reasons(&tool.reasons)
            )?;
        }
    }
    Ok(())
}

fn no_pick_cause(selection: &Selection) -> &'static str {
    if selection
        .dropped
        .iter()
        .any(|dropped| dropped.reason == DropReason::TokenBudget)
    {
        "No tool fits the token budget"
    } else if selection.below_threshold > 0 {
        "No tool fits: no eligible tool is likely enough to serve the request"
    } else if selection.ineligible.total > 0 {
        "No tool fits: no tool is eligible"
    } else {
        "No tool fits: the catalog is empty"
    }
}

/// Returns a hint about the kind of a request that no tool fits.
fn no_match_hint(selection: &Selection) -> String {
    match &selection.nothing_fits {
        Some(kind) if selection.below_threshold > 0 => format!("; {kind}"),
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
        format!(", {} required by the picks", required.len())
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
    let above = match selection.above_threshold {
        0 => String::new(),
        count => format!(", {count} more above the threshold"),
    };
    let answerable = match selection.answerable {
        Some(estimate) => format!(", answerability {estimate:.2}"),
        None => String::new(),
    };
    format!(
        "{}{} by {}{answerable}{required}{above}, {below_threshold} below the threshold, \
         {} not eligible{counts}",
        picks.len(),
        if picks.len() == 1 { " pick" } else { " picks" },
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
    let saving = match *catalog {
        Some(catalog) if catalog > 0 => {
            let saved = 100.0 * (1.0 - *picks as f64 / catalog as f64);
            format!(" instead of {catalog} for the complete catalog, {saved:.1} % less")
        }
        _ => String::new(),
    };
    format!("{picks} of {budget} tokens ({tokenizer}, {provider}){saving}")
}

/// Writes the evidence of every candidate, and the status of each stage.
fn details(text: &mut String, selection: &Selection) -> std::fmt::Result {
    for (index, candidate) in selection.considered.iter().flatten().enumerate() {
        let mark = if candidate.picked { '*' } else { ' ' };
        let trust = if candidate.untrusted {
            "  untrusted source"
        } else {
            ""
        };
        writeln!(
            text,
            "\n{mark}{:>3}. {}  {:.4}{trust}",
            index + 1,
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
            "reranker {reranker}, shortlist {window}, margin at the top {top}, at the cutoff {cut}"
        )?;
    }
    writeln!(text, "catalog {}", selection.catalog_digest)
}

/// Writes the evidence of a candidate.
fn evidence(text: &mut String, provenance: &Provenance) -> std::fmt::Result {
    write_retriever_evidence(text, provenance)?;
    write_history_evidence(text, provenance)?;
    write_fusion_evidence(text, provenance)
}

/// Writes the matches of the keyword and semantic retrievers.
fn write_retriever_evidence(text: &mut String, provenance: &Provenance) -> std::fmt::Result {
    if let Some(keyword) = &provenance.keyword {
        writeln!(
            text,
            "      keyword   {}, BM25 {:.3}",
            describe_rank(keyword.rank),
            keyword.score
        )?;
        write_context_share(text, keyword.context)?;
        write_example_share(text, keyword.examples)?;
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
            describe_rank(semantic.rank),
            semantic.score,
            semantic.model
        )?;
        write_context_share(text, semantic.context)?;
        write_example_share(text, semantic.examples)?;
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
                "        {word:<20} {contribution:>7.3}  {field}: {meets} \
                 (similarity {similarity:.2})"
            )?;
        }
    }
    Ok(())
}

fn describe_rank(rank: Option<usize>) -> String {
    match rank {
        Some(rank) => format!("rank {rank}"),
        None => "no match".to_owned(),
    }
}

/// Writes the effect of examples and earlier calls.
fn write_history_evidence(text: &mut String, provenance: &Provenance) -> std::fmt::Result {
    if let Some(ExampleEvidence { gain, nearest, .. }) = &provenance.examples {
        writeln!(
            text,
            "      examples  {gain:+.4}, nearest: {}",
            output::line(nearest)
        )?;
    }
    if let Some(PriorEvidence {
        gain, by, popular, ..
    }) = &provenance.prior
    {
        writeln!(text, "      prior     {gain:+.4}")?;
        if let Some(CallFrequency {
            tasks,
            expected,
            log_ratio,
            ..
        }) = popular
        {
            writeln!(
                text,
                "        {:<20} {log_ratio:>+7.3}  called in {tasks} tasks, {expected:.2} expected",
                "often"
            )?;
        }
        for CallCooccurrence {
            tool_id,
            together,
            expected,
            log_ratio,
            ..
        } in by
        {
            let more = format!("common tasks: {together}, expected by chance: {expected:.2}");
            writeln!(text, "        {tool_id:<20} {log_ratio:>+7.3}  {more}")?;
        }
    }
    Ok(())
}

/// Writes the fusion of the signals, and the effect of the reranker.
fn write_fusion_evidence(text: &mut String, provenance: &Provenance) -> std::fmt::Result {
    if let Some(fusion) = &provenance.fusion {
        let prior = if provenance.prior.is_some() {
            " + prior"
        } else {
            ""
        };
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

/// Writes the share of a score that comes from the tool's examples.
fn write_example_share(text: &mut String, score: Option<f32>) -> std::fmt::Result {
    match score {
        Some(score) if score > 0.0 => writeln!(text, "        {score:+.3} from examples"),
        _ => Ok(()),
    }
}

/// Writes the share of a score that comes from the context.
fn write_context_share(text: &mut String, score: Option<f32>) -> std::fmt::Result {
    match score {
        Some(score) => writeln!(text, "        {score:+.3} from context"),
        None => Ok(()),
    }
}
