//! Skills: they have an index of their own, are ranked like tools, and add their tools to the
//! picks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::decisions::Decisions;
use super::explain::Explainer;
use super::ranking::{FusedRanking, RequestRanking};
use super::report::Report;
use super::request::ResolvedRequest;
use super::retrieval::RequestRetriever;
use super::shortlist::{Shortlist, SkillTools};
use crate::catalog::{Catalog, Tool};
use crate::fuse::{CalibratedScores, Fusion};
#[cfg(test)]
use crate::index::Vectors;
use crate::index::{Index, IndexConfig, IndexError};
use crate::names::{Skill, SkillReport, ToolMeaning};
use crate::options::{PickError, PickOptions, SelectionMode};
use crate::ranking::ToolId;
use crate::select::picks;
use crate::selection::{IneligibleTool, NameOrigin, Pick, SkillPick, Stage};

/// An index of the skills whose tools the catalog has, by name, description and instructions.
#[derive(Debug)]
pub(super) struct SkillIndex {
    /// The index of a catalog that has one entry per skill.
    index: Index,
    /// The skills, in the order of the index.
    skills: Vec<UsableSkill>,
    reports: Vec<SkillReport>,
    /// All skills, usable or not.
    all: Vec<Arc<Skill>>,
}

/// A skill that can be picked.
#[derive(Debug)]
struct UsableSkill {
    skill: Arc<Skill>,
    /// The tools that it needs, each once, with the skill's name for them.
    tools: Vec<(ToolId, String)>,
}

/// The most tools that one pattern of a skill brings.
const MAX_MATCHED: usize = 8;

/// The most distinct words of a skill's instructions that are indexed.
const MAX_INSTRUCTION_WORDS: usize = 256;
/// The length, in bytes, after which no more words are indexed.
const MAX_INSTRUCTION_BYTES: usize = 4 * 1024;

/// The skills that were picked for a request.
pub(super) struct PickedSkills<'s> {
    index: &'s SkillIndex,
    picked: Vec<PickedSkill>,
}

/// A picked skill: its position in the index, and the reason.
struct PickedSkill {
    place: usize,
    score: f32,
    reason: String,
}

impl SkillIndex {
    /// Indexes the skills whose tools the index `tools` has.
    pub(super) fn build(
        all: Vec<Arc<Skill>>,
        tools: &Index,
        config: IndexConfig,
    ) -> Result<Self, IndexError> {
        let mut usable = Vec::new();
        let mut reports = Vec::new();
        // Skills use the same few names, and finding similar names is slow, so the results are
        // cached.
        let mut meanings: HashMap<String, ToolMeaning> = HashMap::new();
        for skill in &all {
            let report = skill.report(|name| {
                if let Some(meaning) = meanings.get(name) {
                    return Ok(meaning.clone());
                }
                let meaning = ToolMeaning::resolve(name, &tools.catalog, &tools.names)?;
                meanings.insert(name.to_owned(), meaning.clone());
                Ok(meaning)
            })?;
            if report.is_compatible() {
                usable.push(UsableSkill {
                    tools: tools_of_skill(&report, &tools.catalog),
                    skill: Arc::clone(skill),
                });
            }
            reports.push(report);
        }
        let documents = usable.iter().map(|usable| document(&usable.skill));
        let catalog = Catalog::from_tools(documents).map_err(IndexError::Skills)?;
        let config = IndexConfig {
            without_tags: true,
            ..config
        };
        Ok(Self {
            index: Index::build(catalog, config)?,
            skills: usable,
            reports,
            all,
        })
    }

    /// Indexes the same skills for another tool index, with the same models.
    pub(super) fn rebuild(&self, tools: &Index) -> Result<Self, IndexError> {
        Self::build(self.all.clone(), tools, tools.same_models(None))
    }

    /// Returns the cause of a missing best-effort model.
    pub(super) fn left_out(&self) -> Option<&str> {
        self.index.left_out.as_deref()
    }

    pub(super) fn reports(&self) -> &[SkillReport] {
        &self.reports
    }

    /// Treats the skills as a large catalog.
    #[cfg(test)]
    pub(super) fn force_overview(&mut self) {
        self.index
            .vectors
            .iter_mut()
            .for_each(Vectors::force_overview);
    }

    /// Picks the skills that the request needs, by the same stages as tools.
    pub(super) fn pick(
        &self,
        request: &ResolvedRequest<'_>,
        tools: &dyn RequestRanking,
        retriever: &mut RequestRetriever<'_>,
        report: &mut Report,
    ) -> Result<PickedSkills<'_>, PickError> {
        let (index, mut picked) = (self, Vec::new());
        if self.skills.is_empty() {
            report.skipped(Stage::Skills, "no skill has tools in the catalog");
            return Ok(PickedSkills { index, picked });
        }
        let options = PickOptions {
            max_candidates: request.options.max_candidates,
            min_score: request.options.min_score,
            mode: Some(request.mode),
            choice: SelectionMode::Best,
            ..PickOptions::default()
        };
        let skills = ResolvedRequest::for_skills(&self.index, request, &options)?;
        let mut skill_report = Report::new();
        let ranking = rank_with_tools(request, tools, &skills, retriever, &mut skill_report);
        let no_tools = SkillTools::default();
        let shortlist = Shortlist::new(&skills, &ranking, no_tools, 0, &mut skill_report);
        let decisions = Decisions::new(&skills, &ranking, &shortlist, &mut skill_report)?;
        let explained = Explainer::new(&skills, &ranking, &decisions).picks()?;
        match skill_report.degraded.first() {
            Some(degraded) => report.failed(
                Stage::Skills,
                format!("{}: {}", degraded.stage, degraded.reason),
            ),
            None => report.ran(Stage::Skills),
        }
        for ((skill, _), explained_skill) in picks(&decisions).zip(explained) {
            picked.push(PickedSkill {
                place: skill.index(),
                score: explained_skill.score,
                reason: explained_skill.reason,
            });
        }
        Ok(PickedSkills { index, picked })
    }
}

impl PickedSkills<'_> {
    /// Returns the tools of the skills, each with the names of the skills.
    pub(super) fn tools(&self) -> SkillTools {
        let mut all = SkillTools::default();
        for PickedSkill { place, .. } in &self.picked {
            let UsableSkill { skill, tools } = &self.index.skills[*place];
            for (tool, _) in tools {
                all = all.with(*tool, &skill.name);
            }
        }
        all
    }

    /// Returns the names that the skills use for their tools.
    pub(super) fn tool_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for PickedSkill { place, .. } in &self.picked {
            for tool in &self.index.skills[*place].skill.allowed_tools {
                names.push(tool.name.as_str());
            }
        }
        names
    }

    /// Returns the skills with their picked and ineligible tools.
    pub(super) fn explain(self, request: &ResolvedRequest<'_>, picks: &[Pick]) -> Vec<SkillPick> {
        let mut skills = Vec::with_capacity(self.picked.len());
        for picked_skill in self.picked {
            let usable = &self.index.skills[picked_skill.place];
            let (mut tool_ids, mut ineligible) = (Vec::new(), Vec::new());
            for (tool, name) in &usable.tools {
                let id = request.index.catalog.tool_id(*tool);
                if picks.iter().any(|pick| pick.tool.id == id) {
                    tool_ids.push(id.to_owned());
                }
                if !request.eligibility().admits(*tool) {
                    ineligible.push(IneligibleTool {
                        tool_id: id.to_owned(),
                        named: Some(name.clone()),
                        asked_by: Some(NameOrigin::Skill),
                        required_by: Vec::new(),
                        reasons: request.eligibility().reasons(*tool),
                    });
                }
            }
            skills.push(SkillPick {
                skill: Arc::clone(&usable.skill),
                score: picked_skill.score,
                reason: picked_skill.reason,
                tool_ids,
                ineligible,
            });
        }
        skills
    }
}

/// Returns the indexed entry of a skill. The instructions take the place of the tags, which have
/// the smallest weight and are not embedded.
fn document(skill: &Skill) -> Tool {
    Tool {
        tags: vec![indexed_instructions(&skill.body)],
        ..Tool::without_arguments(&skill.name, &skill.description)
    }
}

/// Returns the words of the instructions that are indexed: each once, those of headings first.
/// Long instructions would otherwise outweigh the name and the description.
fn indexed_instructions(body: &str) -> String {
    let (headings, text): (Vec<&str>, Vec<&str>) =
        body.lines().partition(|line| line.starts_with('#'));
    let mut indexed_words: HashSet<String> = HashSet::new();
    let mut indexed = String::new();
    for line in headings.into_iter().chain(text) {
        for word in line.split_whitespace() {
            if indexed_words.len() == MAX_INSTRUCTION_WORDS || indexed.len() > MAX_INSTRUCTION_BYTES
            {
                return indexed;
            }
            if indexed_words.insert(word.to_lowercase()) {
                indexed.push_str(word);
                indexed.push(' ');
            }
        }
    }
    indexed
}

/// Ranks skills together with the tools, so that the best of a few skills is not taken for a good
/// one.
fn rank_with_tools<'q>(
    request: &ResolvedRequest<'_>,
    tools: &dyn RequestRanking,
    skills: &ResolvedRequest<'q>,
    retriever: &mut RequestRetriever<'_>,
    report: &mut Report,
) -> FusedRanking<'q> {
    let retrieval = retriever.retrieve_undivided(skills, report);
    let fuse_skills = |tools: &CalibratedScores| {
        tools.score_other_catalog(request.rankable(), retrieval.signals, skills.eligibility())
    };
    let fused = match tools.fused() {
        Some(tools) => fuse_skills(&tools.fused),
        None => {
            let tools = retriever.retrieve_undivided(request, report);
            let (rankable, asks) = (request.rankable(), request.query.scope());
            fuse_skills(&CalibratedScores::new(
                tools.signals,
                Fusion::Weighted,
                rankable,
                asks,
            ))
        }
    };
    FusedRanking::undivided(skills.mode, retrieval.terms, fused)
}

/// Returns the tools of a compatible skill, each once. A pattern that matches many tools brings
/// none of them: the ranking chooses among them.
fn tools_of_skill(report: &SkillReport, catalog: &Catalog) -> Vec<(ToolId, String)> {
    let mut tools: Vec<(ToolId, String)> = Vec::new();
    for tool in &report.tools {
        let ids = match &tool.meaning {
            ToolMeaning::Tool { tool: id, .. } => std::slice::from_ref(id),
            ToolMeaning::Matched { tools } if tools.len() <= MAX_MATCHED => tools,
            _ => &[],
        };
        for id in ids {
            if let Some(id) = catalog.find(id)
                && tools.iter().all(|(other, _)| *other != id)
            {
                tools.push((id, tool.allowed.name.clone()));
            }
        }
    }
    tools
}
