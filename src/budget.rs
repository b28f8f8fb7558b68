//! Definitions within a budget of tokens.
//!
//! Each tool can be shown in three levels of [`Detail`], and each level costs tokens. Which tool
//! gets which is a knapsack problem with one choice per tool; it is filled by the value that a step
//! to a higher level adds for each token, and the value of a tool is its score. That, or the best
//! tools first as richly as they fit, whichever is worth more.
//!
//! Costs are those of a definition by itself, and are kept. Together definitions may cost more, for
//! their names may have to be told apart; so what was chosen is counted as it will be sent, and
//! chosen again for less until it fits.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::catalog::{Detail, Tool};
use crate::names::Advertising;
use crate::ranking::ToolId;
use crate::sync::lock;
use crate::tokens::{TokenBudget, TokenCountError, TokenCounter};

/// How many formats of an engine's definitions are remembered.
const MAX_FORMATS: usize = 8;
/// What a tool that must stay counts more than any other.
const MUST: f32 = 10.0;
/// The least value of a tool, so that those without a score are told apart by their cost.
const LEAST: f32 = 0.001;

/// What a level is worth of the whole definition: a model that knows the arguments can call a tool
/// nearly as well without their descriptions, and one that knows only the name has to guess them.
fn worth(detail: Detail) -> f32 {
    match detail {
        Detail::Name => 0.5,
        Detail::Signature => 0.9,
        _ => 1.0,
    }
}

/// The costs of a catalog's definitions, in the formats asked for so far.
pub(crate) struct CostTable {
    counter: Arc<dyn TokenCounter>,
    formats: Mutex<Vec<Arc<Costs>>>,
}

impl fmt::Debug for CostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostTable").finish_non_exhaustive()
    }
}

impl CostTable {
    /// Makes a table that `counter` fills.
    pub(crate) fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            counter,
            formats: Mutex::default(),
        }
    }

    /// Makes an empty table with the same counter.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(Arc::clone(&self.counter))
    }

    /// Returns the costs in the format of `budget`.
    pub(crate) fn costs(&self, tools: &[Arc<Tool>], budget: &TokenBudget) -> Arc<Costs> {
        let mut known = lock(&self.formats);
        let same = |costs: &&Arc<Costs>| {
            costs.format.provider == budget.provider && costs.format.view == budget.view
        };
        if let Some(costs) = known.iter().find(same) {
            return Arc::clone(costs);
        }
        let costs = Arc::new(Costs {
            tools: tools.to_vec(),
            counter: Arc::clone(&self.counter),
            format: budget.clone(),
            by_tool: tools.iter().map(|_| OnceLock::new()).collect(),
            whole: OnceLock::new(),
        });
        if known.len() == MAX_FORMATS {
            known.remove(0);
        }
        known.push(Arc::clone(&costs));
        costs
    }
}

/// What the definitions of a catalog cost in one format. Each is counted when it is first asked
/// for.
pub(crate) struct Costs {
    tools: Vec<Arc<Tool>>,
    counter: Arc<dyn TokenCounter>,
    /// A budget with the provider and view of these costs.
    format: TokenBudget,
    by_tool: Vec<OnceLock<[usize; 3]>>,
    whole: OnceLock<Result<usize, TokenCountError>>,
}

impl Costs {
    /// Returns the name of the provider whose format it is.
    pub(crate) fn provider(&self) -> &str {
        &self.format.provider
    }

    /// Returns the name of the tokenizer.
    pub(crate) fn tokenizer(&self) -> &'static str {
        self.counter.tokenizer()
    }

    /// Returns the tokens of all definitions together.
    pub(crate) fn whole(&self) -> Result<usize, TokenCountError> {
        self.whole
            .get_or_init(|| self.count(&self.tools, &self.format))
            .clone()
    }

    /// Returns the tokens of one definition by itself, in each level of detail.
    pub(crate) fn by_detail(&self, tool: ToolId) -> Result<[usize; 3], TokenCountError> {
        if let Some(known) = self.by_tool[tool.index()].get() {
            return Ok(*known);
        }
        // A map has the names of other tools too, which by itself this one has not.
        let mut alone = self.format.clone();
        if let Advertising::ProviderMap(_) = alone.view.advertising {
            alone.view.advertising = Advertising::Canonical;
        }
        let mut costs = [0; 3];
        for (cost, detail) in costs.iter_mut().zip(Detail::ALL) {
            *cost = self.count(&[detail.of(&self.tools[tool.index()])], &alone)?;
        }
        Ok(*self.by_tool[tool.index()].get_or_init(|| costs))
    }

    fn count(&self, tools: &[Arc<Tool>], format: &TokenBudget) -> Result<usize, TokenCountError> {
        if tools.is_empty() {
            return Ok(0);
        }
        self.counter.count(tools, format)
    }
}

/// A tool that is to be shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) tool: ToolId,
    pub(crate) score: f32,
    /// Whether it stays before all others.
    pub(crate) must: bool,
}

/// What fits.
#[derive(Debug)]
pub(crate) struct Fitted {
    /// For each wanted tool its level of detail and the tokens of its definition by itself; `None`
    /// where it has no place.
    pub(crate) shown: Vec<Option<(Detail, usize)>>,
    /// The tokens of all that is shown, together.
    pub(crate) tokens: usize,
}

/// Shows as much of the wanted tools, best first, as fits `budget`.
pub(crate) fn fit(
    costs: &Costs,
    wanted: &[Wanted],
    budget: usize,
) -> Result<Fitted, TokenCountError> {
    let each = wanted.iter().map(|wanted| {
        let value = wanted.score.max(LEAST) + if wanted.must { MUST } else { 0.0 };
        Ok(Choices {
            value,
            costs: costs.by_detail(wanted.tool)?,
        })
    });
    let each = each.collect::<Result<Vec<Choices>, TokenCountError>>()?;
    let (mut target, mut step) = (budget, 1);
    loop {
        let levels = fill(&each, target);
        let tools = wanted.iter().zip(&levels);
        let tools: Vec<Arc<Tool>> = tools
            .filter_map(|(wanted, &level)| Some(level?.of(&costs.tools[wanted.tool.index()])))
            .collect();
        let tokens = costs.count(&tools, &costs.format)?;
        if tokens <= budget {
            let shown = each
                .iter()
                .zip(levels)
                .map(|(each, level)| Some((level?, each.cost(level))))
                .collect();
            return Ok(Fitted { shown, tokens });
        }
        // Nothing costs nothing, so this ends; and soon, as the step grows.
        target = target.saturating_sub(step.max(tokens - budget));
        step *= 2;
    }
}

/// What a tool can be shown as.
struct Choices {
    value: f32,
    costs: [usize; 3],
}

impl Choices {
    fn cost(&self, level: Option<Detail>) -> usize {
        level.map_or(0, |level| self.costs[level as usize])
    }

    fn value(&self, level: Option<Detail>) -> f32 {
        level.map_or(0.0, |level| self.value * worth(level))
    }

    /// The steps from nothing to the whole that add most a token, each with that.
    fn steps(&self) -> Vec<(f32, Option<Detail>, Detail)> {
        let (mut steps, mut at) = (Vec::new(), None);
        loop {
            let rate = |level: Detail| {
                let tokens = self.cost(Some(level)).saturating_sub(self.cost(at)).max(1);
                (self.value(Some(level)) - self.value(at)) / tokens as f32
            };
            let above = Detail::ALL
                .into_iter()
                .filter(|&level| at.is_none_or(|at| level > at));
            // Of equal rates the higher level.
            let Some(next) = above.max_by(|&a, &b| rate(a).total_cmp(&rate(b))) else {
                return steps;
            };
            steps.push((rate(next), at, next));
            at = Some(next);
        }
    }
}

/// Chooses levels whose costs add up to at most `budget`.
fn fill(each: &[Choices], budget: usize) -> Vec<Option<Detail>> {
    let mut levels = vec![None; each.len()];
    let mut left = budget;
    let mut steps: Vec<(f32, usize, Option<Detail>, Detail)> = Vec::new();
    for (place, choices) in each.iter().enumerate() {
        steps.extend(
            choices
                .steps()
                .into_iter()
                .map(|(rate, from, to)| (rate, place, from, to)),
        );
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, place, from, to) in steps {
        let whole = left + each[place].cost(from);
        if levels[place] == from && each[place].cost(Some(to)) <= whole {
            levels[place] = Some(to);
            left = whole - each[place].cost(Some(to));
        }
    }
    enrich(each, &mut levels, left);
    let mut in_order = vec![None; each.len()];
    enrich(each, &mut in_order, budget);
    let value = |levels: &[Option<Detail>]| {
        each.iter()
            .zip(levels)
            .map(|(each, &level)| each.value(level))
            .sum::<f32>()
    };
    if value(&in_order) > value(&levels) {
        in_order
    } else {
        levels
    }
}

/// Raises each tool in order to the highest level for which enough is left.
fn enrich(each: &[Choices], levels: &mut [Option<Detail>], mut left: usize) {
    for (choices, level) in each.iter().zip(levels) {
        let whole = left + choices.cost(*level);
        let highest = Detail::ALL
            .into_iter()
            .rev()
            .find(|&detail| choices.cost(Some(detail)) <= whole);
        if highest > *level {
            *level = highest;
        }
        left = whole - choices.cost(*level);
    }
}
