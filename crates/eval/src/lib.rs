//! Evaluation of rankings: qrels, runs, measures, comparison, report.
//!
//! Data flows one way. [`Qrels`] say which tools answer which query, and a [`Run`] says what was
//! ranked. [`evaluate`] scores every query under every [`Measure`] into a [`PerQuery`] table. A
//! [`SetReport`] has the means of that table, and [`compare`] compares two of them. Nothing here
//! uses an index, the clock or the environment: a run is plain data, so one that another program
//! wrote is scored in the same way. [`TalkMeasurement`] measures conversations; the caller passes
//! the function that picks.
//!
//! Three conventions apply everywhere:
//!
//! * a grade of 1 or more is relevant, and 0 or less is judged not relevant;
//! * a query without an answer in the run scores 0, since it was asked and not answered;
//! * a query that no tool answers has no defined recall or nDCG, so it is counted
//!   ([`PerQuery::no_answer`]) and left out of every mean.
//!
//! Files are UTF-8 with columns separated by tabs, so ids may contain spaces. A written file is
//! complete or absent: a temporary file in the same folder is renamed.

mod calibration;
mod compare;
mod confidence;
mod differences;
mod distribution;
mod error;
mod evaluate;
mod files;
mod ineligible;
mod measure;
mod qrels;
mod queries;
mod random;
mod report;
mod run;
mod talk;

pub use calibration::{Abstention, RELIABILITY_BINS, ReliabilityBin, ScoreCalibration};
pub use compare::{CompareOptions, Comparison, Enumeration, MeasureComparison, TIE, compare};
pub use confidence::{
    BootstrapOptions, CONFIDENCE_LEVEL, ConfidenceInterval, confidence_intervals,
};
pub use differences::{QueryDifference, differences};
pub use distribution::{cumulative, shares};
pub use error::EvalError;
pub use evaluate::{PerQuery, evaluate};
pub use files::{check_writable, write_atomically};
pub use ineligible::IneligibleJudgments;
pub use measure::{Measure, MeasureKind};
pub use qrels::{Judgments, Qrels};
pub use queries::{EvalQuery, QuerySet};
pub use random::SplitMix64;
pub use report::{ConfigurationReport, EvalReport, Latency, REPORT_VERSION, SetReport};
pub use run::{Run, RunEntry};
pub use talk::{
    CaseOrigin, ConversationRates, MissedCase, PartRates, PasteRates, SmallTalkRates,
    TALK_REPORT_VERSION, TalkCases, TalkKind, TalkMeasurement, TalkPick, TalkRate, TalkReport,
    TalkRow,
};
