//! A prior from the tools that earlier tasks called together.
//!
//! [`Sequences`] holds the calls of tasks by name; `Prior` counts them for a catalog. If tasks
//! called a tool together with a tool in use, the tool is more likely than its text suggests, by
//!
//! ```text
//! ln((n + α) / (e + α))        e = n(used) n(tool) / tasks
//! ```
//!
//! where `n` is the number of tasks that called both, and `e` is the number expected if the two
//! tools were independent. `α` shrinks the effect of few tasks. The ratio is the mean of a
//! gamma–Poisson model, and its logarithm is the information component of Bate et al. (1998). Only
//! ratios above 1 count. The gains from several tools in use are added, as if these were
//! independent (naive Bayes). `docs/results.md` has the measurements and the alternatives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::json;
use crate::names::NameTable;
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// An error from reading sequences of calls.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequencesError {
    /// The file cannot be read.
    #[error("cannot read the sequences {}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not a task.
    #[error("{origin}: line {line}: {message}")]
    SequenceLine {
        /// The origin of the text.
        origin: String,
        /// The line number, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// The text has more calls than the limit.
    #[error("{origin}: more than {most} calls; give the latest tasks only")]
    TooMany {
        /// The origin of the text.
        origin: String,
        /// The limit.
        most: usize,
    },
}

/// The most different tools that count for one task.
const MAX_TOOLS: usize = 32;
/// The most calls that a file may have.
const MAX_CALLS: usize = 4_000_000;
/// The number of tasks added to both the observed and the expected count: α.
const SHRINKAGE: f32 = 1.0;
/// The largest gain of a tool that is called often, as a logarithm of odds: a factor of four.
const MAX_POPULARITY: f32 = 1.386_294_4;

/// The tool calls of tasks, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequences {
    /// The distinct names.
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// The distinct names that each task called, as numbers.
    tasks: Vec<Vec<usize>>,
}

/// Statistics about the sequences whose tools a catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SequenceStats {
    /// The number of tasks that called a tool of the catalog.
    pub tasks: usize,
    /// The number of tools of the catalog that a task called.
    pub tools: usize,
    /// The number of names that match no tool of the catalog, or several.
    pub unknown: usize,
}

/// One line of a file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an array of tool names, or an object with `tools`"
)]
enum SequenceLine {
    Names(Vec<String>),
    Task { tools: Vec<String> },
}

impl Sequences {
    /// Reads a file; see [`Sequences::from_slice`].
    ///
    /// # Errors
    ///
    /// [`SequencesError`] if the file cannot be read, and as [`Sequences::from_slice`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SequencesError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| SequencesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_slice(&bytes, &path.display().to_string())
    }

    /// Reads JSON Lines with one task a line. A task is an array of the names or ids of the called
    /// tools, in order. It may also be an object with such an array as `tools`. `origin` names the
    /// text in errors.
    ///
    /// # Errors
    ///
    /// [`SequencesError`] for a line that is not a task, and for more than 4 million calls.
    pub fn from_slice(bytes: &[u8], origin: &str) -> Result<Self, SequencesError> {
        let mut sequences = Self::default();
        let mut calls = 0_usize;
        for (index, line) in bytes
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(bytes)
            .split(|&byte| byte == b'\n')
            .enumerate()
        {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let task =
                serde_json::from_slice(line).map_err(|error| SequencesError::SequenceLine {
                    origin: origin.to_owned(),
                    line: index + 1,
                    message: json::message(&error),
                })?;
            let (SequenceLine::Names(tools) | SequenceLine::Task { tools }) = task;
            calls += tools.len();
            if calls > MAX_CALLS {
                return Err(SequencesError::TooMany {
                    origin: origin.to_owned(),
                    most: MAX_CALLS,
                });
            }
            sequences.push(&tools);
        }
        Ok(sequences)
    }

    /// Adds the calls of one task. The first 32 different tools count.
    pub fn push<T: AsRef<str>>(&mut self, tools: &[T]) {
        let mut task = Vec::new();
        for name in tools.iter().map(AsRef::as_ref) {
            let number = self.numbers.get(name).copied().unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.numbers.insert(name.to_owned(), self.names.len() - 1);
                self.names.len() - 1
            });
            if task.len() < MAX_TOOLS && !task.contains(&number) {
                task.push(number);
            }
        }
        self.tasks.push(task);
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns `true` if no task was added.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// Counts of the tasks that called the tools of a catalog, alone and in pairs.
#[derive(Debug, Default)]
pub(crate) struct Prior {
    sequences: Arc<Sequences>,
    tasks: u32,
    /// The number of tasks that called each tool.
    called: HashMap<ToolId, u32>,
    /// The number of tasks that called each pair of tools.
    together: HashMap<ToolId, BTreeMap<ToolId, u32>>,
    unknown: usize,
}

/// The gain of a tool from one tool in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gain {
    /// The tool in use.
    pub(crate) with: ToolId,
    pub(crate) together: u32,
    pub(crate) expected: f32,
    pub(crate) log_ratio: f32,
}

/// The gain of a tool that is called often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PopularityGain {
    pub(crate) called: u32,
    pub(crate) expected: f32,
    pub(crate) log_ratio: f32,
}

/// The gains of each tool from the tools in use, the largest first.
pub(crate) type Gains = BTreeMap<ToolId, Vec<Gain>>;

impl Prior {
    /// Counts the calls of the tools in `names`. A name that several tools share is ignored.
    pub(crate) fn new(
        sequences: Arc<Sequences>,
        names: &NameTable,
        catalog: &Catalog,
    ) -> Result<Self, SavedError> {
        let mut prior = Self::default();
        let mut tools: Vec<Option<ToolId>> = Vec::with_capacity(sequences.names.len());
        for name in &sequences.names {
            let matches = names.possible_tools(name, catalog)?;
            tools.push(<[ToolId; 1]>::try_from(matches).ok().map(|[tool]| tool));
        }
        prior.unknown = tools.iter().filter(|tool| tool.is_none()).count();
        for task in &sequences.tasks {
            let task: BTreeSet<ToolId> = task.iter().filter_map(|&number| tools[number]).collect();
            prior.tasks += u32::from(!task.is_empty());
            for &tool in &task {
                *prior.called.entry(tool).or_default() += 1;
                let together = prior.together.entry(tool).or_default();
                for &other in &task {
                    if other != tool {
                        *together.entry(other).or_default() += 1;
                    }
                }
            }
        }
        prior.sequences = sequences;
        Ok(prior)
    }

    /// Counts the same tasks for the tools in other names.
    pub(crate) fn recount(&self, names: &NameTable, catalog: &Catalog) -> Result<Self, SavedError> {
        Self::new(Arc::clone(&self.sequences), names, catalog)
    }

    /// Returns the gains from the tools in use; tools without a gain are absent.
    pub(crate) fn gains(&self, in_use: &BTreeSet<ToolId>) -> Gains {
        let mut gains = Gains::new();
        for &with in in_use {
            for (&tool, &together) in self.together.get(&with).into_iter().flatten() {
                if in_use.contains(&tool) {
                    continue;
                }
                let called =
                    |tool: ToolId| self.called.get(&tool).copied().unwrap_or_default() as f32;
                let expected = called(with) * called(tool) / self.tasks.max(1) as f32;
                let log_ratio = ((together as f32 + SHRINKAGE) / (expected + SHRINKAGE)).ln();
                if log_ratio > 0.0 {
                    gains.entry(tool).or_default().push(Gain {
                        with,
                        together,
                        expected,
                        log_ratio,
                    });
                }
            }
        }
        gains
            .values_mut()
            .for_each(|gains| gains.sort_by(|a, b| b.log_ratio.total_cmp(&a.log_ratio)));
        gains
    }

    /// Returns the gains of tools that are called more often than the average called tool, at most
    /// a factor of four; other tools are absent.
    pub(crate) fn popular(&self) -> impl Iterator<Item = (ToolId, PopularityGain)> {
        let total: u32 = self.called.values().sum();
        let expected = total as f32 / self.called.len().max(1) as f32;
        self.called.iter().filter_map(move |(&tool, &called)| {
            let log_ratio = ((called as f32 + SHRINKAGE) / (expected + SHRINKAGE))
                .ln()
                .min(MAX_POPULARITY);
            (log_ratio > 0.0).then_some((
                tool,
                PopularityGain {
                    called,
                    expected,
                    log_ratio,
                },
            ))
        })
    }

    pub(crate) fn stats(&self) -> SequenceStats {
        SequenceStats {
            tasks: self.tasks as usize,
            tools: self.called.len(),
            unknown: self.unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Alias, Tool};

    fn prior(tasks: &str) -> Prior {
        let mut mail = Tool::without_arguments("mail", "");
        mail.aliases = vec![Alias {
            name: "send".into(),
            deprecated: false,
        }];
        let tools = [
            Tool::without_arguments("find", ""),
            mail,
            Tool::without_arguments("print", ""),
            Tool::without_arguments("plot", ""),
        ];
        let catalog = Catalog::from_tools(tools).expect("valid");
        let names = NameTable::new(&catalog).expect("in memory");
        Prior::new(
            Arc::new(Sequences::from_slice(tasks.as_bytes(), "s.jsonl").expect("well formed")),
            &names,
            &catalog,
        )
        .expect("in memory")
    }

    fn tool(index: usize) -> ToolId {
        ToolId::from_index(index)
    }

    #[test]
    fn gains_follow_pairs_called_more_often_than_by_chance() {
        let prior = prior(
            "[\"find\",\"mail\",\"find\"]\n\n{\"tools\":[\"send\",\"find\"],\"id\":7}\r\n\
             [\"print\"]\n[\"print\"]\n[\"print\",\"find\"]\n[\"x\"]",
        );
        assert_eq!(
            prior.stats(),
            SequenceStats {
                tasks: 5,
                tools: 3,
                unknown: 1
            }
        );
        let gains = prior.gains(&[tool(0)].into());
        assert_eq!(
            gains.keys().copied().collect::<Vec<_>>(),
            [tool(1)],
            "print goes with find less often than by chance"
        );
        let gain = gains[&tool(1)][0];
        assert_eq!((gain.with, gain.together), (tool(0), 2));
        assert!((gain.expected - 3.0 * 2.0 / 5.0).abs() < 1e-6);
        assert!((gain.log_ratio - (3.0_f32 / 2.2).ln()).abs() < 1e-6);
        assert!(prior.gains(&BTreeSet::new()).is_empty());
        assert!(
            prior.gains(&[tool(0), tool(1)].into()).is_empty(),
            "a tool in use gains nothing"
        );
    }

    #[test]
    fn popularity_gain_of_frequent_tools_is_bounded() {
        let prior =
            prior(&("[\"find\"]\n".repeat(3) + "[\"mail\"]\n" + &"[\"print\"]\n".repeat(5)));
        let popular: BTreeMap<ToolId, PopularityGain> = prior.popular().collect();
        assert_eq!(
            popular.keys().copied().collect::<Vec<_>>(),
            [tool(2)],
            "three calls of nine are exactly the average of three tools"
        );
        assert!((popular[&tool(2)].log_ratio - (6.0_f32 / 4.0).ln()).abs() < 1e-6);
        let prior = super::tests::prior(
            &("[\"find\"]\n".repeat(100_000) + &"[\"mail\"]\n[\"print\"]\n[\"plot\"]\n".repeat(10)),
        );
        let popular: Vec<(ToolId, PopularityGain)> = prior.popular().collect();
        assert_eq!(popular.len(), 1);
        assert!(
            popular[0].1.log_ratio <= 4.0_f32.ln() + 1e-6,
            "the gain is at most a factor of four"
        );
    }

    #[test]
    fn gains_from_several_tools_in_use_start_with_the_largest() {
        let tasks = |with_find: usize, with_mail: usize| {
            "[\"find\", \"print\"]\n".repeat(with_find)
                + &"[\"mail\", \"print\"]\n".repeat(with_mail)
        };
        let gaining_tools = |tasks: &str| -> Vec<usize> {
            let gains = prior(tasks).gains(&[tool(0), tool(1)].into());
            gains
                .get(&tool(2))
                .into_iter()
                .flatten()
                .map(|gain| gain.with.index())
                .collect()
        };
        assert_eq!(
            gaining_tools(&(tasks(1, 5) + &"[\"mail\"]\n[\"find\"]\n[\"find\"]\n".repeat(9))),
            [1]
        );
        let rare = "[\"find\", \"mail\"]\n".repeat(20) + &tasks(2, 4);
        assert!(
            gaining_tools(&rare).is_empty(),
            "both tools in use are called without print more often"
        );
        let often = concat!(
            "[\"find\", \"mail\", \"print\"]\n[\"mail\", \"print\"]\n[\"mail\"]\n",
            "[\"plot\"]\n[\"plot\"]\n[\"plot\"]\n"
        );
        assert_eq!(gaining_tools(&often.repeat(9)), [0, 1]);
    }

    #[test]
    fn gain_of_one_task_is_small() {
        let gain = |tasks: usize| {
            let others = "[\"print\"]\n".repeat(1000 - tasks);
            let prior = prior(&("[\"find\",\"mail\"]\n".repeat(tasks) + &others));
            prior.gains(&[tool(0)].into())[&tool(1)][0].log_ratio
        };
        assert!(gain(1) < 0.7 && gain(10) > 2.0, "{} {}", gain(1), gain(10));
    }

    #[test]
    fn lines_without_a_task_are_rejected_with_their_line() {
        let error = |text: &[u8]| {
            Sequences::from_slice(text, "s.jsonl")
                .expect_err("the line is invalid")
                .to_string()
        };
        assert!(
            error(b"[\"a\"]\n{\"calls\": []}")
                .starts_with("s.jsonl: line 2: expected an array of tool names")
        );
        assert!(error(b"[1]").contains("line 1"));
        assert!(error(b"[\"\xff\"]").contains("line 1"));
        assert!(error("[".repeat(100_000).as_bytes()).contains("line 1"));
        assert!(
            Sequences::from_slice(b"\xef\xbb\xbf\n \n", "s.jsonl")
                .expect("empty")
                .is_empty()
        );
    }

    #[test]
    fn long_tasks_count_up_to_the_limit() {
        let mut sequences = Sequences::default();
        sequences.push(
            &(0..10_000)
                .map(|number| number.to_string())
                .collect::<Vec<_>>(),
        );
        assert_eq!(sequences.tasks[0].len(), MAX_TOOLS);
    }
}
