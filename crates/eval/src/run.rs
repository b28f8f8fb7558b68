//! Runs: the ranking of each query.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::EvalError;
use super::files::{check_read_id, check_written_id, excerpt, lines, read_file, write_atomically};

/// One ranked tool.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEntry {
    /// The tool's id.
    pub tool: String,
    /// Its score, on the scale of the ranking system; more is better. Only the rank determines the
    /// order.
    pub score: f64,
}

/// The rankings of a set of queries, each best first, in order of query id.
///
/// # Format
///
/// TREC's `query Q0 tool rank score tag`, written with tabs so that ids may contain spaces, with
/// ranks from 1. A line without any tab is read in the original form, separated by white space. Its
/// last three columns are rank, score and tag, and the columns between `Q0` and them are the tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    queries: BTreeMap<String, Vec<RunEntry>>,
}

/// One line of a run file.
struct RunLine {
    query: String,
    rank: u64,
    entry: RunEntry,
}

impl Run {
    /// Sets the ranking of a query, best first, and returns the one it replaces.
    pub fn insert(
        &mut self,
        query: impl Into<String>,
        ranking: Vec<RunEntry>,
    ) -> Option<Vec<RunEntry>> {
        self.queries.insert(query.into(), ranking)
    }

    /// Returns the ranking of one query, or `None` if the run does not answer it.
    pub fn get(&self, query: &str) -> Option<&[RunEntry]> {
        self.queries.get(query).map(Vec::as_slice)
    }

    /// Iterates over the queries with their rankings, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[RunEntry])> {
        self.queries
            .iter()
            .map(|(query, ranking)| (query.as_str(), ranking.as_slice()))
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns `true` if the run has no query.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Reads a TREC run file.
    ///
    /// # Errors
    ///
    /// [`EvalError::Read`] if the file cannot be read, otherwise as [`Run::parse_trec`].
    pub fn read_trec(path: &Path) -> Result<Self, EvalError> {
        Self::parse_trec(&read_file(path)?, path)
    }

    /// Reads a TREC run from memory; errors name `origin` as the file.
    ///
    /// Lines may come in any order, and ranks may have gaps or start at 0. The tools of a query are
    /// ordered by rank; scores are kept but do not reorder them.
    ///
    /// # Errors
    ///
    /// [`EvalError::NotUtf8`], [`EvalError::Columns`], [`EvalError::BadId`] or
    /// [`EvalError::BadNumber`] (a score must be finite) for a line that is not a ranked tool.
    /// [`EvalError::DuplicateTool`] or [`EvalError::DuplicateRank`] if a query repeats one.
    pub fn parse_trec(bytes: &[u8], origin: &Path) -> Result<Self, EvalError> {
        let mut ranked: BTreeMap<String, BTreeMap<u64, RunEntry>> = BTreeMap::new();
        let mut read_tools: HashSet<(String, String)> = HashSet::new();
        for line in lines(bytes, origin) {
            let (line, text) = line?;
            let RunLine { query, rank, entry } = parse_line(text, origin, line)?;
            if !read_tools.insert((query.clone(), entry.tool.clone())) {
                return Err(EvalError::DuplicateTool {
                    path: origin.to_path_buf(),
                    line,
                    query: excerpt(&query),
                    tool: excerpt(&entry.tool),
                });
            }
            let ranking = ranked.entry(query.clone()).or_default();
            if ranking.insert(rank, entry).is_some() {
                let query = excerpt(&query);
                return Err(EvalError::DuplicateRank {
                    path: origin.to_path_buf(),
                    line,
                    query,
                    rank,
                });
            }
        }
        let mut queries = BTreeMap::new();
        for (query, ranking) in ranked {
            queries.insert(query, ranking.into_values().collect());
        }
        Ok(Self { queries })
    }

    /// Formats the run as TREC lines, in order of query id and rank; `tag` names the ranking
    /// system.
    ///
    /// A query with an empty ranking has no line. A duplicate tool of a ranking is written at its
    /// first position only, as measures count it.
    ///
    /// # Errors
    ///
    /// [`EvalError::BadTag`] if the tag is not one word, [`EvalError::UnwritableId`] if an id is
    /// empty or contains a tab or a line break, [`EvalError::NonFiniteScore`] if a score is not a
    /// finite number.
    pub fn to_trec(&self, tag: &str) -> Result<String, EvalError> {
        if tag.is_empty() || tag.contains(char::is_whitespace) {
            return Err(EvalError::BadTag { tag: excerpt(tag) });
        }
        let mut text = String::new();
        for (query, ranking) in self.iter() {
            check_written_id(query, "query")?;
            let mut written = HashSet::new();
            for RunEntry { tool, score } in ranking {
                if !written.insert(tool.as_str()) {
                    continue;
                }
                let rank = written.len();
                check_written_id(tool, "tool")?;
                if !score.is_finite() {
                    return Err(EvalError::NonFiniteScore {
                        query: excerpt(query),
                        tool: excerpt(tool),
                        score: *score,
                    });
                }
                text.push_str(&format!("{query}\tQ0\t{tool}\t{rank}\t{score}\t{tag}\n"));
            }
        }
        Ok(text)
    }

    /// Writes the TREC form to a file, completely or not at all.
    ///
    /// # Errors
    ///
    /// As [`Run::to_trec`], and [`EvalError::Write`] if the file cannot be written.
    pub fn write_trec(&self, path: &Path, tag: &str) -> Result<(), EvalError> {
        write_atomically(path, self.to_trec(tag)?.as_bytes())
    }
}

/// Parses one line, in the tab-separated or the original form.
fn parse_line(text: &str, origin: &Path, line: usize) -> Result<RunLine, EvalError> {
    let wrong_columns = |count, expected| EvalError::Columns {
        path: origin.to_path_buf(),
        line,
        count,
        expected,
    };
    let (query, tool, rank, score) = if text.contains('\t') {
        let columns: Vec<&str> = text.split('\t').collect();
        let [query, _, tool, rank, score, _] = columns[..] else {
            let expected = "query, Q0, tool, rank, score and tag, separated by tabs";
            return Err(wrong_columns(columns.len(), expected));
        };
        (query, tool.to_owned(), rank, score)
    } else {
        let columns: Vec<&str> = text.split_whitespace().collect();
        let [query, _, tool @ .., rank, score, _] = &columns[..] else {
            return Err(wrong_columns(
                columns.len(),
                "query, Q0, tool, rank, score and tag",
            ));
        };
        (*query, tool.join(" "), *rank, *score)
    };
    check_read_id(query, "query", origin, line)?;
    check_read_id(&tool, "tool", origin, line)?;
    let bad_number = |column, value: &str, expected| EvalError::BadNumber {
        path: origin.to_path_buf(),
        line,
        column,
        value: excerpt(value),
        expected,
    };
    let Ok(rank) = rank.trim().parse() else {
        return Err(bad_number("rank", rank, "a whole number of 0 or more"));
    };
    match score.trim().parse::<f64>() {
        Ok(score) if score.is_finite() => Ok(RunLine {
            query: query.to_owned(),
            rank,
            entry: RunEntry { tool, score },
        }),
        _ => Err(bad_number("score", score, "a finite number")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::files::scratch::Scratch;
    use super::*;

    fn parse(text: &str) -> Result<Run, EvalError> {
        Run::parse_trec(text.as_bytes(), Path::new("run.trec"))
    }

    fn entry(tool: &str, score: f64) -> RunEntry {
        RunEntry {
            tool: tool.to_owned(),
            score,
        }
    }

    fn check_refused(text: &str, message: &str) {
        let error = parse(text).expect_err("the text is refused").to_string();
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn rank_determines_the_order() {
        let run = parse("q 1\tQ0\ttool b\t2\t9\tt\r\nq 1\tQ0\ttool a\t0\t1e-3\tt\r\n\r\n")
            .expect("well formed");
        assert_eq!(
            run.get("q 1"),
            Some(&[entry("tool a", 0.001), entry("tool b", 9.0)][..])
        );
        assert_eq!(run.get("other"), None);
    }

    #[test]
    fn original_form_splits_on_white_space() {
        let run = parse("q1 Q0  two words 1 0.5 tag\nq1 Q0 b 2 -3 tag").expect("well formed");
        assert_eq!(
            run.get("q1"),
            Some(&[entry("two words", 0.5), entry("b", -3.0)][..])
        );
    }

    #[test]
    fn invalid_line_is_refused_with_its_number() {
        check_refused(
            "q\tQ0\ta\t1\t1\tt\nq\tQ0\tb\t2\t1",
            "run.trec:2: 5 columns; write query, Q0, tool",
        );
        check_refused("q Q0 1 1 t", "run.trec:1: tool id \"\" is empty");
        check_refused("q Q0 1", "run.trec:1: 3 columns");
        check_refused(
            "q\tQ0\ta\t-1\t1\tt",
            "run.trec:1: rank \"-1\" is not a whole number",
        );
        check_refused(
            "q\tQ0\ta\t1\tNaN\tt",
            "run.trec:1: score \"NaN\" is not a finite number",
        );
        check_refused("q\tQ0\ta\t1\tinf\tt", "run.trec:1: score \"inf\"");
        check_refused("q\tQ0\ta\t1\tx\tt", "run.trec:1: score \"x\"");
        check_refused(
            "q\tQ0\ta\t1\t1\tt\nq\tQ0\ta\t2\t1\tt",
            "run.trec:2: tool \"a\" is ranked twice",
        );
        check_refused(
            "q\tQ0\ta\t1\t1\tt\nq\tQ0\tb\t1\t1\tt",
            "run.trec:2: rank 1 is given twice",
        );
    }

    #[test]
    fn unreadable_run_is_not_written() {
        let mut run = Run::default();
        run.insert("q", vec![entry("a", 1.0)]);
        assert!(matches!(
            run.to_trec("two words"),
            Err(EvalError::BadTag { .. })
        ));
        assert!(matches!(run.to_trec(""), Err(EvalError::BadTag { .. })));
        run.insert("q", vec![entry("a", f64::NAN)]);
        assert!(matches!(
            run.to_trec("t"),
            Err(EvalError::NonFiniteScore { .. })
        ));
        run.insert("q", vec![entry("a\nb", 1.0)]);
        assert!(matches!(
            run.to_trec("t"),
            Err(EvalError::UnwritableId { .. })
        ));
    }

    #[test]
    fn duplicate_tool_is_written_once() {
        let mut run = Run::default();
        run.insert("q", vec![entry("a", 3.0), entry("a", 2.0), entry("b", 1.5)]);
        assert_eq!(
            run.to_trec("t").expect("writable"),
            "q\tQ0\ta\t1\t3\tt\nq\tQ0\tb\t2\t1.5\tt\n"
        );
    }

    #[test]
    fn refused_write_keeps_the_old_file() {
        let scratch = Scratch::new();
        let path = scratch.path().join("set.trec");
        let mut run = Run::default();
        run.insert("q 1", vec![entry("tool a", 0.1)]);
        run.write_trec(&path, "keyword")
            .expect("the folder is writable");
        let mut broken = run.clone();
        broken.insert("q 2", vec![entry("b", f64::INFINITY)]);
        assert!(broken.write_trec(&path, "keyword").is_err());
        assert_eq!(Run::read_trec(&path).expect("it was written"), run);
    }

    proptest! {
        #[test]
        fn written_run_reads_back(
            rankings in prop::collection::btree_map(
                "[a-c é]{0,3}x",
                prop::collection::btree_map("[a-c \"]{0,3}y", -1e300_f64..1e300, 1..8),
                0..8,
            ),
        ) {
            let mut run = Run::default();
            for (query, ranking) in rankings {
                run.insert(query, ranking.iter().map(|(tool, &score)| entry(tool, score)).collect());
            }
            prop_assert_eq!(parse(&run.to_trec("t").expect("plain ids")).expect("our own format"), run);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop::sample::select(&b"qa\t\n\r 01-.e\xff"[..]), 0..80)) {
            drop(Run::parse_trec(&bytes, Path::new("x")));
        }
    }
}
