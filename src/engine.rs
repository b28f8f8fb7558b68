//! The stages composed.
//!
//! An [`Engine`] holds what is built once for a catalog; [`Engine::pick`] runs the pipeline:
//!
//! ```text
//! eligibility → keyword ‖ semantic → fuse   (or a custom scorer)   → min_score → rerank → select
//! ```
//!
//! Skills, where there are some, are ranked before `min_score` in the same way, and their tools come along.
//!
//! It is synchronous, never runs a tool and keeps no state between picks. Only three things may be slow, the
//! embedding of the request, a custom scorer and a reranker, and when there is a deadline they run on a thread that is
//! left behind when it passes.

mod explain;
mod request;
mod rerank;
mod set;
mod signals;
mod skills;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::explain::{Basis, Explainer, MAX_CONSIDERED, Reranked};
use self::request::Request;
use self::signals::{Embedded, embed, guarded, models, plain_signals, signals};
use self::skills::SkillIndex;
use crate::access::Eligibility;
#[cfg(feature = "tokens")]
use crate::budget::CostTable;
use crate::catalog::{Catalog, Tool};
use crate::deadline::Deadline;
use crate::embed::{Embedder, StaticEmbedder};
use crate::error::{IndexError, ScorerError};
use crate::fuse::{Fused, Fusion, Mode, Retriever, RetrieverScores};
use crate::index::{Index, IndexConfig, IndexStats, Progress, Twins, Vectors};
use crate::names::{Skill, SkillReport};
use crate::options::{Choice, PickError, PickOptions};
use crate::query::Query;
use crate::ranking::{Candidate, Ranking, ToolId, top_k};
use crate::rerank::{Rerank, Reranker};
use crate::scorer::{self, NoScores, Score, ScoreFuture, Scorer};
use crate::select::{Cut, Kept, cut};
use crate::selection::{Degraded, SELECTION_VERSION, Selection, Stage, StageReport, StageStatus, Timings, TokenReport};
use crate::sequences::{Prior, SequenceStats, Sequences};

/// A catalog, indexed and ready to be picked from. Cloning is cheap and shares the indexes.
#[derive(Clone)]
pub struct Engine {
    index: Arc<Index>,
    skills: Option<Arc<SkillIndex>>,
    prior: Option<Arc<Prior>>,
    scorer: Option<Arc<dyn Scorer>>,
    reranker: Option<Arc<dyn Reranker>>,
    #[cfg(feature = "tokens")]
    costs: Arc<CostTable>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("index", &self.index)
            .field("skills", &self.skills)
            .field("sequences", &self.sequence_stats())
            .field("scorer", &self.scorer.as_ref().map(|scorer| scorer.name()))
            .field("reranker", &self.reranker.as_ref().map(|reranker| reranker.name()))
            .finish_non_exhaustive()
    }
}

/// Builds an [`Engine`]. Unless told otherwise it ranks by words and, with the [`StaticEmbedder`], by meaning.
pub struct EngineBuilder {
    catalog: Catalog,
    model: Model,
    cache_dir: Option<PathBuf>,
    progress: Progress,
    skills: Option<Vec<Skill>>,
    sequences: Option<Sequences>,
    scorer: Option<Arc<dyn Scorer>>,
    reranker: Option<Arc<dyn Reranker>>,
}

/// What ranks by meaning.
enum Model {
    Static,
    Given(Arc<dyn Embedder>),
    None,
}

impl EngineBuilder {
    /// Ranks by meaning with this model. The static one helps it along in the hybrid mode, and stands in where it
    /// fails, unless this one is a static model too.
    #[must_use]
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.model = Model::Given(embedder);
        self
    }

    /// Ranks by words alone: no model is opened and no vector is made.
    #[must_use]
    pub fn keyword_only(mut self) -> Self {
        self.model = Model::None;
        self
    }

    /// Keeps embeddings in this folder, so that no text is embedded twice. Models whose vectors are quicker to
    /// compute than to look up, as the static one, leave it alone.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// Calls `report` with the number of tools embedded so far and of all tools, from any thread.
    #[must_use]
    pub fn on_progress(mut self, report: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        self.progress = Progress(Some(Arc::new(report)));
        self
    }

    /// Picks skills too, and brings their tools along. Only those are picked whose tools the catalog has; see
    /// [`Engine::skill_reports`]. They are ranked beside
    /// the tools by the built-in ranking, also where a custom scorer ranks the tools.
    #[must_use]
    pub fn skills(mut self, skills: Vec<Skill>) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Raises tools that go with those in use, by what earlier tasks called; see [`PickOptions::in_use`]. It changes
    /// the order of what `min_score` leaves, of a weighted ranking.
    #[must_use]
    pub fn sequences(mut self, sequences: Sequences) -> Self {
        self.sequences = Some(sequences);
        self
    }

    /// Lets this scorer rank the tools of every pick, in place of the built-in ranking. Skills it does not see, and tools
    /// in use raise nothing.
    #[must_use]
    pub fn scorer(mut self, scorer: Arc<dyn Scorer>) -> Self {
        self.scorer = Some(scorer);
        self
    }

    /// Lets this reranker put the best candidates in another order, where [`PickOptions::rerank`] asks for it. Skills it
    /// does not see.
    #[must_use]
    pub fn reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// Builds the indexes.
    ///
    /// # Errors
    ///
    /// [`IndexError`] when the model fails on a tool, or two skills have one name. A cache that cannot be used is no
    /// error; see [`IndexStats::cache`].
    pub fn build(self) -> Result<Engine, IndexError> {
        let embedders: Vec<Arc<dyn Embedder>> = match self.model {
            Model::Static => vec![StaticEmbedder::shared()?],
            Model::Given(embedder) => match Retriever::of(embedder.as_ref()) {
                Retriever::Model => vec![StaticEmbedder::shared()?, embedder],
                Retriever::Keyword | Retriever::Static => vec![embedder],
            },
            Model::None => Vec::new(),
        };
        let config = |progress: Progress| IndexConfig {
            embedders: embedders.clone(),
            cache_dir: self.cache_dir.clone(),
            progress,
        };
        let index = Index::build(self.catalog, config(self.progress))?;
        let skills = self.skills.map(|skills| SkillIndex::build(skills, &index, config(Progress::default())));
        let prior = self.sequences.map(|sequences| Arc::new(Prior::new(&sequences, &index.names)));
        Ok(Engine {
            index: Arc::new(index),
            skills: skills.transpose()?.map(Arc::new),
            prior,
            scorer: self.scorer,
            reranker: self.reranker,
            #[cfg(feature = "tokens")]
            costs: Arc::default(),
        })
    }
}

impl Engine {
    /// Indexes a catalog by words and by meaning, with the static model.
    ///
    /// # Errors
    ///
    /// [`IndexError`] when the index cannot be built.
    pub fn new(catalog: Catalog) -> Result<Self, IndexError> {
        Self::builder(catalog).build()
    }

    /// Starts building an engine with another model, or with none.
    pub fn builder(catalog: Catalog) -> EngineBuilder {
        let (model, cache_dir, progress) = (Model::Static, None, Progress::default());
        EngineBuilder {
            catalog,
            model,
            cache_dir,
            progress,
            skills: None,
            sequences: None,
            scorer: None,
            reranker: None,
        }
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.index.catalog
    }

    /// Tells of every skill that the engine was given what its tools mean, whether or not it can be picked.
    pub fn skill_reports(&self) -> &[SkillReport] {
        self.skills.as_ref().map_or(&[], |skills| skills.reports())
    }

    /// Tells what of the sequences of calls the catalog knows, where the engine was given some.
    pub fn sequence_stats(&self) -> Option<SequenceStats> {
        self.prior.as_ref().map(|prior| prior.stats())
    }

    /// Returns what the indexes hold.
    pub fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// Returns a built-in ranking as a [`Scorer`], to compose with others for [`EngineBuilder::scorer`].
    pub fn scorer(&self, mode: Mode) -> BuiltInScorer {
        BuiltInScorer { index: Arc::clone(&self.index), mode }
    }

    /// Picks the tools that `query` needs.
    ///
    /// # Errors
    ///
    /// [`PickError`] when an option makes no sense or names an unknown tool, or the index fails. What goes wrong
    /// with models, scorers and time is no error: it stands in [`Selection::degraded`].
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        let index = &*self.index;
        let reranker = self.reranker.as_ref();
        if options.rerank == Rerank::Always && reranker.is_none() {
            return Err(PickError::NoReranker);
        }
        let mut trace = Trace::new(options);
        let mut request = Request::new(index, query, options)?;
        trace.ran(Stage::Eligibility);
        let mut basis = match &self.scorer {
            Some(scorer) => score(index, &request, scorer, &mut trace),
            None => rank(index, &request, &mut trace)?,
        };
        if let Some(prior) = &self.prior {
            raise(prior, &request, &mut basis, &mut trace);
        }
        let picked = match &self.skills {
            Some(skills) => Some((skills, skills.pick(index, &mut request, &basis, &mut trace)?)),
            None => None,
        };
        let narrowed = narrow(index, &request, &basis, reranker, &mut trace)?;
        let Narrowed { below_threshold, ranking, reranked, mut kept } = narrowed;
        let tokens = self.fit(&request, &basis, &mut kept, &trace)?;
        let why = Explainer::new(index, &request, &basis).reranked(reranked.as_ref());
        let picks = why.picks(&kept);
        let considered = options.debug.then(|| why.considered(&ranking, &kept, &picks));
        let skills = picked.map(|(skills, picked)| skills.explain(picked, index, &request, &picks));
        Ok(Selection {
            version: SELECTION_VERSION,
            catalog: index.catalog.digest().to_owned(),
            scorer: basis.scorer().to_owned(),
            answerable: basis.answerable(),
            picks,
            skills,
            ineligible: why.ineligible(&kept),
            below_threshold,
            unknown_in_use: request.in_use.unknown.clone(),
            dropped: why.dropped(&kept),
            scorer_errors: basis.errors().iter().map(ToString::to_string).collect(),
            considered,
            rerank: reranked.map(|reranked| reranked.report),
            tokens,
            stages: trace.stages,
            degraded: trace.degraded,
            timings: Timings(trace.timings),
        })
    }

    /// Fits the picks to the token budget, and counts.
    #[cfg(feature = "tokens")]
    fn fit(
        &self,
        request: &Request<'_>,
        basis: &Basis,
        kept: &mut Kept,
        trace: &Trace,
    ) -> Result<Option<TokenReport>, PickError> {
        let Some(budget) = &request.options.token_budget else { return Ok(None) };
        let costs = self.costs.of(self.index.catalog.tools(), budget);
        Ok(Some(set::fit(&costs, budget.tokens, request, basis, kept, trace.deadline)?))
    }

    /// This build counts no tokens, and the options have no budget.
    #[cfg(not(feature = "tokens"))]
    fn fit(&self, _: &Request<'_>, _: &Basis, _: &mut Kept, _: &Trace) -> Result<Option<TokenReport>, PickError> {
        Ok(None)
    }

    /// Returns the scores that each retriever of the options' mode gives to every tool, before they are fused; whether a
    /// tool is eligible makes no difference. For measuring retrievers and fitting a fusion.
    ///
    /// # Errors
    ///
    /// [`PickError`] when the options are invalid, or a retriever that the mode needs fails.
    pub fn retriever_scores(&self, query: &Query, options: &PickOptions) -> Result<Vec<RetrieverScores>, PickError> {
        let request = Request::new(&self.index, query, options)?;
        let (_, signals) = signals(&self.index, &request, &mut Trace::new(options))?;
        Ok(signals.into_iter().map(RetrieverScores::from).collect())
    }

    /// Picks on tokio's blocking pool, for asynchronous callers; otherwise as [`Engine::pick`].
    ///
    /// # Errors
    ///
    /// As [`Engine::pick`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn pick_async(&self, query: Query, options: PickOptions) -> Result<Selection, PickError> {
        let engine = self.clone();
        let pick = tokio::task::spawn_blocking(move || engine.pick(&query, &options));
        pick.await.map_err(|error| PickError::Worker { reason: error.to_string() })?
    }
}

/// Picks from tools that are indexed for this one request, with the built-in ranking. An [`Engine`] serves many requests,
/// and may have a scorer, a reranker or skills.
///
/// # Errors
///
/// [`PickError`] when the tools are no valid catalog, and as [`Engine::pick`].
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn pick_tools(
    input: impl Into<Query>,
    tools: impl IntoIterator<Item = Tool>,
    options: PickOptions,
) -> Result<Selection, PickError> {
    let engine = Engine::new(Catalog::from_tools(tools)?)?;
    engine.pick_async(input.into(), options).await
}

/// What is left of a ranking.
struct Narrowed {
    /// How many tools scored too low.
    below_threshold: usize,
    /// The others, best first.
    ranking: Ranking,
    /// What reranking came to, where it was asked for.
    reranked: Option<Reranked>,
    /// What the cut made of them.
    kept: Kept,
}

/// Applies `min_score`, reranks, and cuts.
fn narrow(
    index: &Index,
    request: &Request<'_>,
    basis: &Basis,
    reranker: Option<&Arc<dyn Reranker>>,
    trace: &mut Trace,
) -> Result<Narrowed, PickError> {
    let options = request.options;
    let (mut musts, mut needed) = (request.musts(), request.brought());
    musts.retain(|&tool| basis.ranks(tool));
    needed.retain(|&tool| basis.ranks(tool));
    let mut held = request.held();
    held.retain(|&tool| basis.ranks(tool));
    let stay: BTreeSet<ToolId> = musts.iter().chain(&needed).chain(&held).copied().collect();
    let candidates = candidates(request, basis, &stay);
    let mut below_threshold = request.eligibility.admitted_count() - basis.errors().len() - candidates.len();
    trace.min_score(basis);
    let mut parts = set::parts(request, basis);
    let twins = Some(&index.twins).filter(|_| options.choice == Choice::Set);
    let depth = depth(options, stay.len()).max(set::pool(&parts)).saturating_add(twins.map_or(0, Twins::len));
    let depth = depth.max(rerank::window(request, reranker));
    let mut ranking: Ranking = top_k(candidates.iter().copied(), depth);
    let reranked = rerank::rerank(index, request, basis, reranker, &mut ranking, trace);
    if reranked.as_ref().is_some_and(|reranked| reranked.report.reordered) {
        // Who reads request and tool together has seen the parts.
        parts.clear();
    }
    let limits = Cut {
        max_candidates: options.max_candidates,
        max_per_source: options.max_per_source,
        trusted_sources: &options.trusted_sources,
        must: &musts,
        held: &held,
        needed: &needed,
        twins,
        cover: set::cover(index, request, &parts, basis, &ranking, trace)?,
    };
    let mut kept = cut(&ranking, &index.catalog, limits);
    if options.choice == Choice::Set {
        set::bring_required(index, request, basis, &mut kept);
    }
    if !kept.required.is_empty() {
        let above = candidates.iter().filter(|candidate| kept.required.contains_key(&candidate.tool)).count();
        below_threshold -= kept.required.len() - above;
    }
    trace.ran(Stage::Select);
    Ok(Narrowed { below_threshold, ranking, reranked, kept })
}

/// Applies `min_score`; tools that must stay do, whether or not anything ranked them.
fn candidates(request: &Request<'_>, basis: &Basis, musts: &BTreeSet<ToolId>) -> Vec<Candidate> {
    let least = basis.value_at(request.options.min_score);
    let mut candidates: Vec<Candidate> = basis
        .candidates(&request.eligibility)
        .filter(|&candidate| basis.reaches(candidate, least) || musts.contains(&candidate.tool))
        .collect();
    let ranked: BTreeSet<ToolId> =
        candidates.iter().map(|candidate| candidate.tool).filter(|tool| musts.contains(tool)).collect();
    candidates.extend(musts.difference(&ranked).map(|&tool| basis.candidate(tool)));
    candidates
}

/// How many candidates are put in order; all of them where the cut may reach far down.
fn depth(options: &PickOptions, musts: usize) -> usize {
    if musts > 0 || options.max_per_source.is_some() {
        return usize::MAX;
    }
    options.max_candidates.max(if options.debug { MAX_CONSIDERED } else { 0 })
}

/// The built-in ranking.
fn rank(index: &Index, request: &Request<'_>, trace: &mut Trace) -> Result<Basis, PickError> {
    let (terms, signals) = signals(index, request, trace)?;
    if signals.is_empty() && !trace.degraded.is_empty() {
        trace.skipped(Stage::Fuse, "there is nothing to fuse");
        return Ok(Basis::registration(request.mode.name()));
    }
    let fused = Fused::new(signals, request.options.fusion, &request.eligibility);
    trace.ran(Stage::Fuse);
    Ok(Basis::Fused { mode: request.mode, terms, fused })
}

/// Raises what goes with the tools in use.
fn raise(prior: &Prior, request: &Request<'_>, basis: &mut Basis, trace: &mut Trace) {
    let in_use = request.held();
    match basis {
        Basis::Fused { .. } if in_use.is_empty() => trace.skipped(Stage::Prior, "no tool is in use"),
        Basis::Fused { fused, .. } if fused.method == Fusion::Weighted => {
            fused.raise(prior.gains(&in_use));
            trace.ran(Stage::Prior);
        }
        Basis::Fused { .. } => trace.skipped(Stage::Prior, "ranks cannot be raised"),
        Basis::Custom { .. } => trace.skipped(Stage::Prior, "a custom scorer ranks"),
        Basis::Registration { .. } => trace.skipped(Stage::Prior, "the ranking failed"),
    }
}

/// A custom scorer in place of the built-in ranking; where it gives nothing, registration order stands in.
fn score(index: &Index, request: &Request<'_>, scorer: &Arc<dyn Scorer>, trace: &mut Trace) -> Basis {
    for stage in [Stage::Keyword, Stage::Semantic, Stage::Fuse] {
        trace.skipped(stage, "a custom scorer takes its place");
    }
    let tools = request.eligibility.admitted().map(|tool| Arc::clone(index.catalog.tool(tool))).collect();
    match scorer::run(scorer, request.query, tools, trace.deadline) {
        Ok(scores) => {
            trace.ran(Stage::Scorer);
            Basis::custom(scorer.name(), index, &request.eligibility, scores)
        }
        Err(missed) => {
            let reason = match missed {
                NoScores::Failed(error) => error.to_string(),
                NoScores::Expired => "the deadline passed before the scorer answered".to_owned(),
            };
            trace.failed(Stage::Scorer, format!("{reason}; eligible tools stand in registration order"));
            Basis::registration(scorer.name())
        }
    }
}

/// What became of the stages so far.
struct Trace {
    deadline: Deadline,
    /// The request as each model sees it, which is asked once.
    embedded: Vec<(Retriever, Embedded)>,
    last: Instant,
    stages: Vec<StageReport>,
    degraded: Vec<Degraded>,
    timings: Vec<(Stage, Duration)>,
}

impl Trace {
    fn new(options: &PickOptions) -> Self {
        Self::from(Deadline::after(options.timeout))
    }

    /// A trace of the same request within this one, which does not ask again what is known.
    fn inner(&mut self) -> Self {
        let embedded = std::mem::take(&mut self.embedded);
        Self { embedded, ..Self::from(self.deadline) }
    }

    fn from(deadline: Deadline) -> Self {
        let (embedded, stages, degraded, timings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { deadline, embedded, last: Instant::now(), stages, degraded, timings }
    }

    /// Embeds the request unless that was done or tried before.
    fn embedded(&mut self, vectors: &Vectors, query: &Query) -> &Embedded {
        let model = Retriever::of(vectors.embedder().as_ref());
        let place = self.embedded.iter().position(|(known, _)| *known == model).unwrap_or_else(|| {
            self.embedded.push((model, embed(vectors, query, self.deadline)));
            self.embedded.len() - 1
        });
        &self.embedded[place].1
    }

    fn ran(&mut self, stage: Stage) {
        let now = Instant::now();
        self.timings.push((stage, now - self.last));
        self.last = now;
        self.stages.push(StageReport { stage, status: StageStatus::Ran });
    }

    /// Notes what a stage that ran could not do.
    fn degraded(&mut self, stage: Stage, reason: String) {
        self.degraded.push(Degraded { stage, reason });
    }

    fn skipped(&mut self, stage: Stage, reason: impl Into<String>) {
        self.stages.push(StageReport { stage, status: StageStatus::Skipped { reason: reason.into() } });
    }

    fn failed(&mut self, stage: Stage, reason: impl Into<String>) {
        let reason = reason.into();
        let now = Instant::now();
        self.timings.push((stage, now - self.last));
        self.last = now;
        self.degraded.push(Degraded { stage, reason: reason.clone() });
        self.stages.push(StageReport { stage, status: StageStatus::Failed { reason } });
    }

    /// Notes a stage that did not run because it has failed of late.
    fn left_out(&mut self, stage: Stage, reason: String) {
        self.degraded.push(Degraded { stage, reason: reason.clone() });
        self.skipped(stage, reason);
    }

    fn min_score(&mut self, basis: &Basis) {
        match basis {
            Basis::Registration { .. } => self.skipped(Stage::MinScore, "there are no scores"),
            _ => self.ran(Stage::MinScore),
        }
    }
}

/// A built-in ranking as a [`Scorer`]. It scores the tools it is given against each other, and only tools of the
/// engine's catalog.
#[derive(Debug, Clone)]
pub struct BuiltInScorer {
    index: Arc<Index>,
    mode: Mode,
}

impl Scorer for BuiltInScorer {
    fn name(&self) -> &str {
        self.mode.name()
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            let failed = |reason: String| ScorerError::Failed { scorer: self.mode.name().to_owned(), reason };
            let index = &*self.index;
            let ids = tools
                .iter()
                .map(|tool| {
                    index.catalog.find(&tool.id).ok_or_else(|| failed(format!("{:?} is not in its catalog", tool.id)))
                })
                .collect::<Result<Vec<ToolId>, _>>()?;
            let eligibility = Eligibility::only(&ids, index.catalog.len());
            if models(index, self.mode).is_empty() && self.mode.uses_semantic() {
                return Err(failed("the engine has no embedding model".to_owned()));
            }
            let signals = plain_signals(index, query, self.mode).map_err(failed)?;
            let fused = Fused::new(signals, Fusion::Weighted, &eligibility);
            Ok(ids.into_iter().map(|tool| Score::new(fused.score_of(tool))).collect())
        })
    }
}
