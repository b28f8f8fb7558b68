//! Skills: they have an index of their own, are ranked like tools, and add their tools to the
//! picks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::candidates::Candidates;
use super::explain::Explainer;
use super::ranked::RequestRanking;
use super::report::Report;
use super::request::{DocumentKind, Request};
use super::set;
use super::signals::{Embeddings, RetrievalOutput, retrieve};
use crate::catalog::{Catalog, Tool};
use crate::fuse::{FusedValues, Fusion};
use crate::index::{Index, IndexConfig, IndexError};
use crate::names::{Skill, SkillReport, ToolMeaning};
use crate::options::{PickError, PickOptions, SelectionMode};
use crate::ranking::ToolId;
use crate::select::picks;
use crate::selection::{IneligibleTool, NameOrigin, Pick, SkillPick, Stage};
use crate::text::Field;

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

/// A picked skill: its position in the index, and the reason.
pub(super) struct PickedSkill {
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
                let meaning = meanings.entry(name.to_owned());
                meaning
                    .or_insert_with(|| ToolMeaning::resolve(name, &tools.catalog, &tools.names))
                    .clone()
            });
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

    /// Picks the skills that the request needs, by the same stages as tools.
    pub(super) fn pick(
        &self,
        request: &Request<'_>,
        tools: &RequestRanking<'_>,
        embeddings: &mut Embeddings,
        report: &mut Report,
    ) -> Result<Vec<PickedSkill>, PickError> {
        if self.skills.is_empty() {
            report.skipped(Stage::Skills, "no skill has tools in the catalog");
            return Ok(Vec::new());
        }
        let options = PickOptions {
            max_candidates: request.options.max_candidates,
            min_score: request.options.min_score,
            mode: Some(request.mode),
            choice: SelectionMode::Best,
            ..PickOptions::default()
        };
        let mut skill_request = Request::new(&self.index, request.query, &options)?;
        skill_request.deadline = request.deadline;
        skill_request.documents = DocumentKind::Skills;
        let mut skill_report = Report::new();
        let ranked = rank_with_tools(
            request,
            tools,
            &skill_request,
            embeddings,
            &mut skill_report,
        );
        let candidates = Candidates::new(&skill_request, &ranked, Vec::new(), 0, &mut skill_report);
        let decisions = set::choose(&skill_request, &ranked, &candidates, &mut skill_report);
        let explained = Explainer::new(&skill_request, &ranked, &decisions).picks();
        match skill_report.degraded.first() {
            Some(degraded) => report.failed(
                Stage::Skills,
                format!("{}: {}", degraded.stage, degraded.reason),
            ),
            None => report.ran(Stage::Skills),
        }
        let mut picked = Vec::with_capacity(explained.len());
        for ((skill, _), explained_skill) in picks(&decisions).zip(explained) {
            picked.push(PickedSkill {
                place: skill.index(),
                score: explained_skill.score,
                reason: explained_skill.reason,
            });
        }
        Ok(picked)
    }

    /// Returns the tools of the picked skills, each with the names of the skills.
    pub(super) fn needed(&self, picked: &[PickedSkill]) -> BTreeMap<ToolId, Vec<String>> {
        let mut needed: BTreeMap<ToolId, Vec<String>> = BTreeMap::new();
        for PickedSkill { place, .. } in picked {
            let UsableSkill { skill, tools } = &self.skills[*place];
            for (tool, _) in tools {
                needed.entry(*tool).or_default().push(skill.name.clone());
            }
        }
        needed
    }

    /// Returns the names that the picked skills use for their tools.
    pub(super) fn tool_names(&self, picked: &[PickedSkill]) -> Vec<&str> {
        let mut names = Vec::new();
        for PickedSkill { place, .. } in picked {
            for tool in &self.skills[*place].skill.allowed_tools {
                names.push(tool.name.as_str());
            }
        }
        names
    }

    /// Returns the picked skills with their picked and ineligible tools.
    pub(super) fn explain(
        &self,
        picked: Vec<PickedSkill>,
        request: &Request<'_>,
        picks: &[Pick],
    ) -> Vec<SkillPick> {
        let mut skills = Vec::with_capacity(picked.len());
        for picked_skill in picked {
            let usable = &self.skills[picked_skill.place];
            let (mut tool_ids, mut ineligible) = (Vec::new(), Vec::new());
            for (tool, name) in &usable.tools {
                let id = &request.index.catalog.tool(*tool).id;
                if picks.iter().any(|pick| pick.tool.id == *id) {
                    tool_ids.push(id.clone());
                }
                if !request.eligibility.admits(*tool) {
                    ineligible.push(IneligibleTool {
                        tool_id: id.clone(),
                        named: Some(name.clone()),
                        asked_by: Some(NameOrigin::Skill),
                        required_by: Vec::new(),
                        reasons: request.eligibility.reasons(*tool),
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

/// Returns the field of a skill that the index holds as `field`.
pub(super) fn field_of_skill(field: Field) -> Field {
    match field {
        Field::Tags => Field::Instructions,
        other => other,
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
    request: &Request<'_>,
    tools: &RequestRanking<'_>,
    skill_request: &Request<'q>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> RequestRanking<'q> {
    let RetrievalOutput {
        terms,
        signals: skills,
    } = retrieve(skill_request, None, embeddings, report);
    let fused = if let RequestRanking::Fused { fused, .. } = tools {
        fused.score_other_catalog(request.rankable(), skills, &skill_request.eligibility)
    } else {
        let tool_output = retrieve(request, None, embeddings, report);
        let fused = FusedValues::new(
            tool_output.signals,
            Fusion::Weighted,
            request.rankable(),
            request.query.scope(),
        );
        fused.score_other_catalog(request.rankable(), skills, &skill_request.eligibility)
    };
    RequestRanking::Fused {
        mode: skill_request.mode,
        terms,
        fused,
    }
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
