//! Fitting definitions into a token budget.
//!
//! Each tool can be shown at three levels of [`Detail`], and each level costs tokens. The choice is
//! a knapsack problem with one level per tool, where the value of a tool is its score. It is solved
//! greedily by the value that a higher level adds per token. The alternative is to show the best
//! tools first in as much detail as fits; the solution with the larger value is used.
//!
//! Costs are those of single definitions, and are cached. Together definitions may cost more,
//! because conflicting names get longer. So the chosen definitions are counted as they will be
//! sent. If they exceed the budget, the choice is repeated with a smaller target.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::catalog::{Detail, Tool};
use crate::names::Advertising;
use crate::ranking::ToolId;
use crate::sync::lock;
use crate::tokens::{TokenBudget, TokenCountError, TokenCounter};

/// The number of definition formats whose costs an engine caches.
const MAX_FORMATS: usize = 8;
/// The extra value of a mandatory tool, larger than that of any other tool.
const MANDATORY_VALUE: f32 = 10.0;
/// The lowest value of a tool. With it, tools without a score differ by their cost.
const LEAST_VALUE: f32 = 0.001;

/// Returns the value of a level as a share of the full definition. A model that knows the arguments
/// calls a tool nearly as well without their descriptions. One that knows only the name has to
/// guess the arguments.
fn value_share(detail: Detail) -> f32 {
    match detail {
        Detail::Name => 0.5,
        Detail::Signature => 0.9,
        _ => 1.0,
    }
}

/// The costs of a catalog's definitions, by format.
pub(crate) struct CostTable {
    counter: Arc<dyn TokenCounter>,
    formats: Mutex<Vec<Arc<FormatCosts>>>,
}

impl fmt::Debug for CostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostTable").finish_non_exhaustive()
    }
}

impl CostTable {
    /// Makes an empty table that `counter` fills.
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
    pub(crate) fn costs(&self, tools: &[Arc<Tool>], budget: &TokenBudget) -> Arc<FormatCosts> {
        let mut formats = lock(&self.formats);
        let is_same_format = |costs: &&Arc<FormatCosts>| {
            costs.format.provider == budget.provider && costs.format.view == budget.view
        };
        if let Some(costs) = formats.iter().find(is_same_format) {
            return Arc::clone(costs);
        }
        let costs = Arc::new(FormatCosts {
            tools: tools.to_vec(),
            counter: Arc::clone(&self.counter),
            format: budget.clone(),
            by_tool: tools.iter().map(|_| OnceLock::new()).collect(),
            all_tools: OnceLock::new(),
        });
        if formats.len() == MAX_FORMATS {
            formats.remove(0);
        }
        formats.push(Arc::clone(&costs));
        costs
    }
}

/// The costs of a catalog's definitions in one format. Each definition is counted on first use.
pub(crate) struct FormatCosts {
    tools: Vec<Arc<Tool>>,
    counter: Arc<dyn TokenCounter>,
    /// A budget with the provider and view of these costs.
    format: TokenBudget,
    by_tool: Vec<OnceLock<[usize; 3]>>,
    all_tools: OnceLock<Result<usize, TokenCountError>>,
}

impl FormatCosts {
    /// Returns the name of the format's provider.
    pub(crate) fn provider(&self) -> &str {
        &self.format.provider
    }

    /// Returns the name of the tokenizer.
    pub(crate) fn tokenizer(&self) -> &'static str {
        self.counter.tokenizer()
    }

    /// Returns `true` if [`Self::count_all`] need not count any more.
    pub(crate) fn has_counted_all(&self) -> bool {
        self.all_tools.get().is_some()
    }

    /// Returns the tokens of all definitions together.
    pub(crate) fn count_all(&self) -> Result<usize, TokenCountError> {
        self.all_tools
            .get_or_init(|| self.count(&self.tools, &self.format))
            .clone()
    }

    /// Returns the tokens of a single definition at each level of detail.
    pub(crate) fn by_detail(&self, tool: ToolId) -> Result<[usize; 3], TokenCountError> {
        if let Some(costs) = self.by_tool[tool.index()].get() {
            return Ok(*costs);
        }
        // The map also contains the names of other tools, which do not belong to a single
        // definition.
        let mut single = self.format.clone();
        if let Advertising::ProviderMap(_) = single.view.advertising {
            single.view.advertising = Advertising::Canonical;
        }
        let mut costs = [0; 3];
        for (cost, detail) in costs.iter_mut().zip(Detail::ALL) {
            *cost = self.count(&[detail.apply(&self.tools[tool.index()])], &single)?;
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

/// A tool to fit into the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetItem {
    pub(crate) tool: ToolId,
    pub(crate) score: f32,
    /// `true` for a mandatory tool, which comes first.
    pub(crate) is_mandatory: bool,
}

/// The definitions that fit the budget.
#[derive(Debug)]
pub(crate) struct BudgetFit {
    /// The level of detail of each tool and the tokens of its single definition; `None` if it does
    /// not fit.
    pub(crate) definitions: Vec<Option<(Detail, usize)>>,
    /// The tokens of all shown definitions together.
    pub(crate) tokens: usize,
}

/// Chooses the detail of `items`, best first, so that their definitions fit `budget`.
pub(crate) fn fit(
    costs: &FormatCosts,
    items: &[BudgetItem],
    budget: usize,
) -> Result<BudgetFit, TokenCountError> {
    let mut each: Vec<DetailCosts> = Vec::with_capacity(items.len());
    for item in items {
        let extra_value = if item.is_mandatory {
            MANDATORY_VALUE
        } else {
            0.0
        };
        each.push(DetailCosts {
            value: item.score.max(LEAST_VALUE) + extra_value,
            costs: costs.by_detail(item.tool)?,
        });
    }
    let (mut target, mut step) = (budget, 1);
    loop {
        let levels = fill(&each, target);
        let mut tools = Vec::new();
        for (item, level) in items.iter().zip(&levels) {
            if let Some(detail) = level {
                tools.push(detail.apply(&costs.tools[item.tool.index()]));
            }
        }
        let tokens = costs.count(&tools, &costs.format)?;
        if tokens <= budget {
            let mut definitions = Vec::with_capacity(levels.len());
            for (position, level) in levels.into_iter().enumerate() {
                let tokens = each[position].cost(level);
                definitions.push(level.map(|detail| (detail, tokens)));
            }
            return Ok(BudgetFit {
                definitions,
                tokens,
            });
        }
        // An empty list costs nothing, so the loop ends. It ends soon because the step grows.
        target = target.saturating_sub(step.max(tokens - budget));
        step *= 2;
    }
}

/// The value of a tool and its cost at each level of detail.
struct DetailCosts {
    value: f32,
    costs: [usize; 3],
}

impl DetailCosts {
    fn cost(&self, level: Option<Detail>) -> usize {
        level.map_or(0, |level| self.costs[level as usize])
    }

    fn value(&self, level: Option<Detail>) -> f32 {
        level.map_or(0.0, |level| self.value * value_share(level))
    }

    /// Returns the steps from no definition to the full one that add most per token. Each step has
    /// its rate.
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
            // Of equal rates, `max_by` returns the higher level.
            let Some(next) = above.max_by(|&a, &b| rate(a).total_cmp(&rate(b))) else {
                return steps;
            };
            steps.push((rate(next), at, next));
            at = Some(next);
        }
    }
}

/// Chooses levels whose costs add up to at most `budget`.
fn fill(each: &[DetailCosts], budget: usize) -> Vec<Option<Detail>> {
    let mut levels = vec![None; each.len()];
    let mut rest = budget;
    let mut steps: Vec<(f32, usize, Option<Detail>, Detail)> = Vec::new();
    for (place, choices) in each.iter().enumerate() {
        for (rate, from, to) in choices.steps() {
            steps.push((rate, place, from, to));
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, place, from, to) in steps {
        let available = rest + each[place].cost(from);
        if levels[place] == from && each[place].cost(Some(to)) <= available {
            levels[place] = Some(to);
            rest = available - each[place].cost(Some(to));
        }
    }
    enrich(each, &mut levels, rest);
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

/// Raises each tool, in order, to the highest level that the rest of the budget allows.
fn enrich(each: &[DetailCosts], levels: &mut [Option<Detail>], mut rest: usize) {
    for (choices, level) in each.iter().zip(levels) {
        let available = rest + choices.cost(*level);
        let highest = Detail::ALL
            .into_iter()
            .rev()
            .find(|&detail| choices.cost(Some(detail)) <= available);
        if highest > *level {
            *level = highest;
        }
        rest = available - choices.cost(*level);
    }
}
