//! Which tools go together: a prior that is learned from what earlier tasks called.
//!
//! [`Sequences`] holds the calls of tasks by name; for a catalog they become counts. A tool that
//! was called in tasks together with one that is in use is more likely than its text tells, by
//!
//! ```text
//! ln((n + α) / (e + α))        e = n(used) n(tool) / tasks
//! ```
//!
//! where `n` tasks called both and `e` would be expected to, had the two nothing to do with each
//! other. `α` shrinks what few tasks tell: the ratio is the mean of a gamma–Poisson model, and its
//! logarithm the information component of Bate et al. (1998). Only what is more than expected
//! counts; what several tools in use tell is added up, as if they did not depend on each other
//! (naive Bayes). `docs/results.md` has what it gives, and what else was tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::json;
use crate::names::NameTable;
use crate::ranking::ToolId;

/// An error from reading sequences of calls.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequencesError {
    /// The file cannot be read.
    #[error("cannot read the sequences {}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line is not a task.
    #[error("{origin}: line {line}: {message}")]
    Line {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
    /// There are too many calls to count.
    #[error("{origin}: more than {most} calls; give the latest tasks only")]
    TooMany {
        /// Where the text comes from.
        origin: String,
        /// The most.
        most: usize,
    },
}

/// The most different tools that count of one task.
const MAX_TOOLS: usize = 32;
/// The most calls in a file.
const MAX_CALLS: usize = 4_000_000;
/// Tasks that are added to both what is seen and what is expected: α.
const SHRINKAGE: f32 = 1.0;
/// The most that a tool gains for being called often, as a logarithm of odds: four times.
const MAX_POPULARITY: f32 = 1.386_294_4;

/// What tasks called, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Every name once.
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// The numbers of the names of each task, each once.
    tasks: Vec<Vec<usize>>,
}

/// What of the sequences a catalog knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SequenceStats {
    /// Tasks that called a tool of the catalog.
    pub tasks: usize,
    /// Tools of the catalog that a task called.
    pub tools: usize,
    /// Names that no tool of the catalog has, or several.
    pub unknown: usize,
}

/// One line of a file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an array of tool names, or an object with `tools`"
)]
enum Line {
    Names(Vec<String>),
    Task { tools: Vec<String> },
}

impl Sequences {
    /// Reads a file; see [`Sequences::from_slice`].
    ///
    /// # Errors
    ///
    /// [`SequencesError`] when the file cannot be read, and as [`Sequences::from_slice`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SequencesError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| SequencesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_slice(&bytes, &path.display().to_string())
    }

    /// Reads JSON Lines: a line is a task, an array of the names or ids of the tools that it called
    /// in their order, or an object that has it as `tools`. `origin` is what errors call it.
    ///
    /// # Errors
    ///
    /// [`SequencesError`] for a line that is none, and for more than 4 million calls.
    pub fn from_slice(bytes: &[u8], origin: &str) -> Result<Self, SequencesError> {
        let mut sequences = Self::default();
        let mut calls = 0_usize;
        for (place, line) in bytes
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(bytes)
            .split(|&byte| byte == b'\n')
            .enumerate()
        {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let task = serde_json::from_slice(line).map_err(|error| SequencesError::Line {
                origin: origin.to_owned(),
                line: place + 1,
                message: json::message(&error),
            })?;
            let (Line::Names(tools) | Line::Task { tools }) = task;
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

    /// Adds what one task called. The first 32 different tools count.
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

    /// Returns how many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// How often the tools of a catalog were called, and with which others.
#[derive(Debug, Default)]
pub(crate) struct Prior {
    given: Arc<Sequences>,
    tasks: u32,
    /// In how many tasks each tool was called.
    called: HashMap<ToolId, u32>,
    /// In how many tasks each tool was called together with each other one.
    together: HashMap<ToolId, BTreeMap<ToolId, u32>>,
    unknown: usize,
}

/// What a tool gains by one that is in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gain {
    /// The tool in use.
    pub(crate) with: ToolId,
    pub(crate) together: u32,
    pub(crate) expected: f32,
    pub(crate) log_ratio: f32,
}

/// What a tool gains for being called often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Popular {
    pub(crate) called: u32,
    pub(crate) expected: f32,
    pub(crate) log_ratio: f32,
}

/// What each tool gains by those in use, by which it gains most first.
pub(crate) type Gains = BTreeMap<ToolId, Vec<Gain>>;

impl Prior {
    /// Counts what tasks called of the tools that `names` knows. A name that several tools share
    /// counts for none.
    pub(crate) fn new(sequences: Arc<Sequences>, names: &NameTable) -> Self {
        let mut prior = Self::default();
        let tools: Vec<Option<ToolId>> = sequences
            .names
            .iter()
            .map(|name| {
                let mut meant = names.meant(name);
                meant.next().filter(|_| meant.next().is_none())
            })
            .collect();
        prior.unknown = tools.iter().filter(|tool| tool.is_none()).count();
        for task in &sequences.tasks {
            let task: BTreeSet<ToolId> = task.iter().filter_map(|&number| tools[number]).collect();
            prior.tasks += u32::from(!task.is_empty());
            for &tool in &task {
                *prior.called.entry(tool).or_default() += 1;
                let others = task.iter().filter(|&&other| other != tool);
                let together = prior.together.entry(tool).or_default();
                others.for_each(|&other| *together.entry(other).or_default() += 1);
            }
        }
        prior.given = sequences;
        prior
    }

    /// Counts the same tasks for other names.
    pub(crate) fn of(&self, names: &NameTable) -> Self {
        Self::new(Arc::clone(&self.given), names)
    }

    /// Returns what tools gain by those in use; the others gain nothing.
    pub(crate) fn gains(&self, in_use: &BTreeSet<ToolId>) -> Gains {
        let mut gains = Gains::new();
        for &with in in_use {
            let others = self.together.get(&with).into_iter().flatten();
            for (&tool, &together) in others.filter(|(tool, _)| !in_use.contains(tool)) {
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

    /// Returns what tools gain for being called often: by how much more than the tools that were
    /// called at all, at most four times; the others gain nothing.
    pub(crate) fn popular(&self) -> impl Iterator<Item = (ToolId, Popular)> {
        let all: u32 = self.called.values().sum();
        let expected = all as f32 / self.called.len().max(1) as f32;
        self.called.iter().filter_map(move |(&tool, &called)| {
            let log_ratio = ((called as f32 + SHRINKAGE) / (expected + SHRINKAGE))
                .ln()
                .min(MAX_POPULARITY);
            (log_ratio > 0.0).then_some((
                tool,
                Popular {
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
    use crate::catalog::{Alias, Catalog, Tool};

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
        let names = NameTable::new(&Catalog::from_tools(tools).expect("valid"));
        Prior::new(
            Arc::new(Sequences::from_slice(tasks.as_bytes(), "s.jsonl").expect("well formed")),
            &names,
        )
    }

    fn tool(index: usize) -> ToolId {
        ToolId::from_index(index)
    }

    #[test]
    fn tools_gain_by_those_they_were_called_with_more_often_than_by_chance() {
        let prior = prior(
            "[\"find\",\"mail\",\"find\"]\n\n{\"tools\":[\"send\",\"find\"],\"id\":7}\r\n[\"print\"]\n[\"print\"]\n[\"print\",\"find\"]\n[\"x\"]",
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
            "printing goes with nothing"
        );
        let gain = gains[&tool(1)][0];
        assert_eq!((gain.with, gain.together), (tool(0), 2));
        assert!((gain.expected - 3.0 * 2.0 / 5.0).abs() < 1e-6);
        assert!((gain.log_ratio - (3.0_f32 / 2.2).ln()).abs() < 1e-6);
        assert!(prior.gains(&BTreeSet::new()).is_empty());
        assert!(
            prior.gains(&[tool(0), tool(1)].into()).is_empty(),
            "what is in use gains nothing"
        );
    }

    #[test]
    fn tools_that_are_called_more_often_than_others_are_popular_within_bounds() {
        let prior =
            prior(&("[\"find\"]\n".repeat(3) + "[\"mail\"]\n" + &"[\"print\"]\n".repeat(5)));
        let popular: BTreeMap<ToolId, Popular> = prior.popular().collect();
        assert_eq!(
            popular.keys().copied().collect::<Vec<_>>(),
            [tool(2)],
            "three times of nine is no more than a third"
        );
        assert!((popular[&tool(2)].log_ratio - (6.0_f32 / 4.0).ln()).abs() < 1e-6);
        let prior = super::tests::prior(
            &("[\"find\"]\n".repeat(100_000) + &"[\"mail\"]\n[\"print\"]\n[\"plot\"]\n".repeat(10)),
        );
        let popular: Vec<(ToolId, Popular)> = prior.popular().collect();
        assert_eq!(popular.len(), 1);
        assert!(
            popular[0].1.log_ratio <= 4.0_f32.ln() + 1e-6,
            "however often"
        );
    }

    #[test]
    fn of_several_tools_in_use_the_most_telling_comes_first_and_those_of_no_habit_not_at_all() {
        let tasks = |both: usize, other: usize| {
            "[\"find\", \"print\"]\n".repeat(both) + &"[\"mail\", \"print\"]\n".repeat(other)
        };
        let with = |tasks: &str| -> Vec<usize> {
            let gains = prior(tasks).gains(&[tool(0), tool(1)].into());
            gains
                .get(&tool(2))
                .into_iter()
                .flatten()
                .map(|gain| gain.with.index())
                .collect()
        };
        assert_eq!(
            with(&(tasks(1, 5) + &"[\"mail\"]\n[\"find\"]\n[\"find\"]\n".repeat(9))),
            [1]
        );
        let rare = "[\"find\", \"mail\"]\n".repeat(20) + &tasks(2, 4);
        assert!(
            with(&rare).is_empty(),
            "each of the two is called without it more often"
        );
        let often = "[\"find\", \"mail\", \"print\"]\n[\"mail\", \"print\"]\n[\"mail\"]\n[\"plot\"]\n[\"plot\"]\n[\"plot\"]\n";
        assert_eq!(with(&often.repeat(9)), [0, 1]);
    }

    #[test]
    fn one_task_tells_little() {
        let gain = |tasks: usize| {
            let others = "[\"print\"]\n".repeat(1000 - tasks);
            let prior = prior(&("[\"find\",\"mail\"]\n".repeat(tasks) + &others));
            prior.gains(&[tool(0)].into())[&tool(1)][0].log_ratio
        };
        assert!(gain(1) < 0.7 && gain(10) > 2.0, "{} {}", gain(1), gain(10));
    }

    #[test]
    fn lines_that_are_no_task_are_refused_by_place() {
        let refused = |text: &[u8]| {
            Sequences::from_slice(text, "s.jsonl")
                .expect_err("refused")
                .to_string()
        };
        assert!(
            refused(b"[\"a\"]\n{\"calls\": []}")
                .starts_with("s.jsonl: line 2: expected an array of tool names")
        );
        assert!(refused(b"[1]").contains("line 1"));
        assert!(refused(b"[\"\xff\"]").contains("line 1"));
        assert!(refused("[".repeat(100_000).as_bytes()).contains("line 1"));
        assert!(
            Sequences::from_slice(b"\xef\xbb\xbf\n \n", "s.jsonl")
                .expect("empty")
                .is_empty()
        );
    }

    #[test]
    fn an_enormous_task_counts_to_its_limit() {
        let mut sequences = Sequences::default();
        sequences.push(
            &(0..10_000)
                .map(|number| number.to_string())
                .collect::<Vec<_>>(),
        );
        assert_eq!(sequences.tasks[0].len(), MAX_TOOLS);
    }
}
