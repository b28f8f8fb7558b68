//! Skills beside tools: an index of their own, ranked as tools are, and what they bring along.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::candidates::Candidates;
use super::explain::Explainer;
use super::ranked::Ranked;
use super::report::Report;
use super::request::Request;
use super::set;
use super::signals::{Embeddings, Said, signals};
use crate::catalog::{Catalog, Tool};
use crate::fuse::{Fused, Fusion};
use crate::index::{Index, IndexConfig, IndexError};
use crate::names::{Skill, SkillReport, ToolMeaning};
use crate::options::{Choice, PickError, PickOptions};
use crate::ranking::ToolId;
use crate::select::picks;
use crate::selection::{AskedBy, IneligibleTool, Pick, SkillPick, Stage};

/// The skills whose tools a catalog has, indexed by name and description.
#[derive(Debug)]
pub(super) struct SkillIndex {
    /// Over a catalog that has a skill in the place of each tool.
    index: Index,
    /// In the order of the index.
    skills: Vec<UsableSkill>,
    reports: Vec<SkillReport>,
    /// All that were given.
    given: Vec<Arc<Skill>>,
}

/// A skill that can be picked.
#[derive(Debug)]
struct UsableSkill {
    skill: Arc<Skill>,
    /// The tools that it needs, each once, with the name that it calls them by.
    tools: Vec<(ToolId, String)>,
}

/// A skill that was picked: its place in the index, and why.
pub(super) struct Picked {
    place: usize,
    score: f32,
    reason: String,
}

impl SkillIndex {
    /// Keeps the skills whose tools `tools` has, and indexes them.
    pub(super) fn build(
        given: Vec<Arc<Skill>>,
        tools: &Index,
        config: IndexConfig,
    ) -> Result<Self, IndexError> {
        let mut usable = Vec::new();
        let mut reports = Vec::new();
        // Skills name the same few tools over and over, and the nearest names take a while to find.
        let mut known: HashMap<String, ToolMeaning> = HashMap::new();
        for skill in &given {
            let report = skill.report(|name| {
                let meaning = known.entry(name.to_owned());
                meaning
                    .or_insert_with(|| ToolMeaning::of(name, &tools.catalog, &tools.names))
                    .clone()
            });
            if report.is_compatible() {
                usable.push(UsableSkill {
                    tools: needed(&report, &tools.catalog),
                    skill: Arc::clone(skill),
                });
            }
            reports.push(report);
        }
        let documents = usable
            .iter()
            .map(|usable| Tool::without_arguments(&usable.skill.name, &usable.skill.description));
        let catalog = Catalog::from_tools(documents).map_err(IndexError::Skills)?;
        Ok(Self {
            index: Index::build(catalog, config)?,
            skills: usable,
            reports,
            given,
        })
    }

    /// Looks for the tools of the same skills in another index, which ranks by the same models.
    pub(super) fn of(&self, tools: &Index) -> Result<Self, IndexError> {
        Self::build(self.given.clone(), tools, tools.same_models(None))
    }

    /// Returns why the optional model is not among those that rank.
    pub(super) fn left_out(&self) -> Option<&str> {
        self.index.left_out.as_deref()
    }

    pub(super) fn reports(&self) -> &[SkillReport] {
        &self.reports
    }

    /// Picks the skills that the request needs: the stages that tools pass, over their own index.
    pub(super) fn pick(
        &self,
        request: &Request<'_>,
        tools: &Ranked<'_>,
        embeddings: &mut Embeddings,
        report: &mut Report,
    ) -> Result<Vec<Picked>, PickError> {
        if self.skills.is_empty() {
            report.skipped(Stage::Skills, "the catalog has the tools of no skill");
            return Ok(Vec::new());
        }
        let options = PickOptions {
            max_candidates: request.options.max_candidates,
            min_score: request.options.min_score,
            mode: Some(request.mode),
            choice: Choice::Best,
            ..PickOptions::default()
        };
        let mut asked = Request::new(&self.index, request.query, &options)?;
        asked.deadline = request.deadline;
        let mut own = Report::new();
        let ranked = rank_beside(request, tools, &asked, embeddings, &mut own);
        let candidates = Candidates::new(&asked, &ranked, Vec::new(), 0, &mut own);
        let decisions = set::choose(&asked, &ranked, &candidates, &mut own);
        let explained = Explainer::new(&asked, &ranked, &decisions).picks();
        match own.degraded.first() {
            Some(degraded) => report.failed(
                Stage::Skills,
                format!("{}: {}", degraded.stage, degraded.reason),
            ),
            None => report.ran(Stage::Skills),
        }
        let picked = picks(&decisions).zip(explained);
        let picked = picked.map(|((skill, _), Pick { score, reason, .. })| Picked {
            place: skill.index(),
            score,
            reason,
        });
        Ok(picked.collect())
    }

    /// Returns the tools that picked skills need, each with the names of the skills.
    pub(super) fn needed(&self, picked: &[Picked]) -> BTreeMap<ToolId, Vec<String>> {
        let mut needed: BTreeMap<ToolId, Vec<String>> = BTreeMap::new();
        for Picked { place, .. } in picked {
            let UsableSkill { skill, tools } = &self.skills[*place];
            for (tool, _) in tools {
                needed.entry(*tool).or_default().push(skill.name.clone());
            }
        }
        needed
    }

    /// Returns the names by which picked skills call their tools.
    pub(super) fn tool_names(&self, picked: &[Picked]) -> Vec<&str> {
        let skills = picked.iter().map(|picked| &self.skills[picked.place].skill);
        skills
            .flat_map(|skill| &skill.allowed_tools)
            .map(|tool| tool.name.as_str())
            .collect()
    }

    /// Says what became of the tools of the picked skills.
    pub(super) fn explain(
        &self,
        picked: Vec<Picked>,
        request: &Request<'_>,
        picks: &[Pick],
    ) -> Vec<SkillPick> {
        let id = |tool: ToolId| &request.index.catalog.tool(tool).id;
        let skills = picked.into_iter().map(
            |Picked {
                 place,
                 score,
                 reason,
             }| {
                let usable = &self.skills[place];
                let brought = usable.tools.iter().map(|(tool, _)| id(*tool));
                let refused = usable
                    .tools
                    .iter()
                    .filter(|(tool, _)| !request.eligibility.admits(*tool));
                SkillPick {
                    skill: Arc::clone(&usable.skill),
                    score,
                    reason,
                    tool_ids: brought
                        .filter(|&id| picks.iter().any(|pick| pick.tool.id == *id))
                        .cloned()
                        .collect(),
                    ineligible: refused
                        .map(|(tool, name)| IneligibleTool {
                            tool_id: id(*tool).clone(),
                            named: Some(name.clone()),
                            asked_by: Some(AskedBy::Skill),
                            required_by: Vec::new(),
                            reasons: request.eligibility.reasons(*tool),
                        })
                        .collect(),
                }
            },
        );
        skills.collect()
    }
}

/// Ranks skills beside the tools, so that the best of a few skills is not taken for a good one.
fn rank_beside<'q>(
    request: &Request<'_>,
    tools: &Ranked<'_>,
    asked: &Request<'q>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> Ranked<'q> {
    let Said {
        terms,
        signals: skills,
    } = signals(asked, None, embeddings, report);
    let fused = if let Ranked::Fused { fused, .. } = tools {
        fused.beside(request.rankable(), skills, &asked.eligibility)
    } else {
        let of_tools = signals(request, None, embeddings, report);
        let fused = Fused::new(of_tools.signals, Fusion::Weighted, request.rankable());
        fused.beside(request.rankable(), skills, &asked.eligibility)
    };
    Ranked::Fused {
        mode: asked.mode,
        terms,
        fused,
    }
}

/// The tools of a compatible skill, each once.
fn needed(report: &SkillReport, catalog: &Catalog) -> Vec<(ToolId, String)> {
    let mut tools: Vec<(ToolId, String)> = Vec::new();
    for tool in &report.tools {
        if let ToolMeaning::Tool { tool: id, .. } = &tool.meaning
            && let Some(id) = catalog.find(id)
            && tools.iter().all(|(known, _)| *known != id)
        {
            tools.push((id, tool.allowed.name.clone()));
        }
    }
    tools
}
