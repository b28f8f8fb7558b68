//! Qrels: the tools that answer a query, with their grades.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use super::EvalError;
use super::files::{check_read_id, check_written_id, excerpt, lines, read_file, write_atomically};

/// The judged tools of one query.
///
/// A grade of 1 or more is relevant, and more is better; 0 or less is judged not relevant. A tool
/// without a grade counts as not relevant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgments {
    grades: BTreeMap<String, i32>,
}

impl Judgments {
    /// Sets a tool's grade and returns the one it replaces.
    pub fn insert(&mut self, tool: impl Into<String>, grade: i32) -> Option<i32> {
        self.grades.insert(tool.into(), grade)
    }

    /// Returns a tool's grade, or `None` if it was not judged.
    pub fn grade(&self, tool: &str) -> Option<i32> {
        self.grades.get(tool).copied()
    }

    /// Returns the number of relevant tools.
    pub fn relevant_len(&self) -> usize {
        self.grades.values().filter(|&&grade| grade > 0).count()
    }

    /// Iterates over the judged tools with their grades, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.grades
            .iter()
            .map(|(tool, &grade)| (tool.as_str(), grade))
    }

    /// Returns the number of judged tools.
    pub fn len(&self) -> usize {
        self.grades.len()
    }

    /// Returns `true` if no tool was judged.
    pub fn is_empty(&self) -> bool {
        self.grades.is_empty()
    }
}

impl<S: Into<String>> FromIterator<(S, i32)> for Judgments {
    fn from_iter<I: IntoIterator<Item = (S, i32)>>(judged: I) -> Self {
        let mut grades = BTreeMap::new();
        for (tool, grade) in judged {
            grades.insert(tool.into(), grade);
        }
        Self { grades }
    }
}

/// The judgments of a set of queries, in order of query id.
///
/// # Formats
///
/// Reads lines of `query TAB tool TAB grade`, and TREC's `query TAB iteration TAB tool TAB grade`.
/// The number of columns tells the two apart. Columns are separated by single tabs only, so ids may
/// contain spaces. Blank lines and carriage returns at the end of a line are ignored. Writes TREC's
/// form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qrels {
    queries: BTreeMap<String, Judgments>,
}

impl Qrels {
    /// Reads a qrels file.
    ///
    /// # Errors
    ///
    /// [`EvalError::Read`] if the file cannot be read, otherwise as [`Qrels::parse`].
    pub fn read(path: &Path) -> Result<Self, EvalError> {
        Self::parse(&read_file(path)?, path)
    }

    /// Reads qrels from memory; errors name `origin` as the file.
    ///
    /// # Errors
    ///
    /// [`EvalError::NotUtf8`], [`EvalError::Columns`], [`EvalError::BadId`] or
    /// [`EvalError::BadNumber`] for a line that is not a judgment. [`EvalError::ConflictingGrade`]
    /// if a tool has two different grades for one query; a repeated grade is not an error.
    pub fn parse(bytes: &[u8], origin: &Path) -> Result<Self, EvalError> {
        let mut qrels = Self::default();
        for line in lines(bytes, origin) {
            let (line, text) = line?;
            let (query, tool, value) = columns(text, origin, line)?;
            check_read_id(query, "query", origin, line)?;
            check_read_id(tool, "tool", origin, line)?;
            let Ok(grade) = value.trim().parse() else {
                return Err(EvalError::BadNumber {
                    path: origin.to_path_buf(),
                    line,
                    column: "grade",
                    value: excerpt(value),
                    expected: "a whole number",
                });
            };
            match qrels
                .queries
                .entry(query.to_owned())
                .or_default()
                .grades
                .entry(tool.to_owned())
            {
                Entry::Vacant(entry) => {
                    entry.insert(grade);
                }
                Entry::Occupied(entry) if *entry.get() == grade => {}
                Entry::Occupied(entry) => {
                    return Err(EvalError::ConflictingGrade {
                        path: origin.to_path_buf(),
                        line,
                        query: excerpt(query),
                        tool: excerpt(tool),
                        first: *entry.get(),
                        second: grade,
                    });
                }
            }
        }
        Ok(qrels)
    }

    /// Sets the grade of a tool for a query and returns the one it replaces.
    pub fn insert(
        &mut self,
        query: impl Into<String>,
        tool: impl Into<String>,
        grade: i32,
    ) -> Option<i32> {
        self.queries
            .entry(query.into())
            .or_default()
            .insert(tool, grade)
    }

    /// Returns the judgments of one query, or `None` if it was not judged.
    pub fn get(&self, query: &str) -> Option<&Judgments> {
        self.queries.get(query)
    }

    /// Iterates over the queries with their judgments, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Judgments)> {
        self.queries
            .iter()
            .map(|(query, judgments)| (query.as_str(), judgments))
    }

    /// Returns the number of judged queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns `true` if no query was judged.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Formats the qrels as TREC lines `query TAB 0 TAB tool TAB grade`, in order of query and tool
    /// id.
    ///
    /// A query without any judgment has no line.
    ///
    /// # Errors
    ///
    /// [`EvalError::UnwritableId`] if an id is empty or contains a tab or a line break.
    pub fn to_trec(&self) -> Result<String, EvalError> {
        let mut text = String::new();
        for (query, judgments) in self.iter() {
            check_written_id(query, "query")?;
            for (tool, grade) in judgments.iter() {
                check_written_id(tool, "tool")?;
                text.push_str(&format!("{query}\t0\t{tool}\t{grade}\n"));
            }
        }
        Ok(text)
    }

    /// Writes the TREC form to a file, completely or not at all.
    ///
    /// # Errors
    ///
    /// As [`Qrels::to_trec`], and [`EvalError::Write`] if the file cannot be written.
    pub fn write_trec(&self, path: &Path) -> Result<(), EvalError> {
        write_atomically(path, self.to_trec()?.as_bytes())
    }
}

/// Returns the query, tool and grade columns of either format.
fn columns<'a>(
    text: &'a str,
    origin: &Path,
    line: usize,
) -> Result<(&'a str, &'a str, &'a str), EvalError> {
    let columns: Vec<&str> = text.split('\t').collect();
    match columns[..] {
        [query, tool, grade] | [query, _, tool, grade] => Ok((query, tool, grade)),
        _ => Err(EvalError::Columns {
            path: origin.to_path_buf(),
            line,
            count: columns.len(),
            expected: "query, tool and grade, or query, 0, tool and grade, separated by tabs",
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::files::scratch::Scratch;
    use super::*;

    fn parse(text: &str) -> Result<Qrels, EvalError> {
        Qrels::parse(text.as_bytes(), Path::new("qrels.tsv"))
    }

    fn check_refused(text: &str, message: &str) {
        let error = parse(text).expect_err("the text is refused").to_string();
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn both_formats_give_the_same_qrels() {
        let short = parse("q 1\ttool a\t2\nq 1\tb\t-1\n\nq2\ta\t1").expect("three columns");
        let trec = parse("q 1\t0\ttool a\t2\r\nq 1\tQ0\tb\t-1\r\n\r\nq2\t0\ta\t 1\r\n")
            .expect("four columns");
        assert_eq!(short, trec);
        assert_eq!(
            short.get("q 1").and_then(|judged| judged.grade("tool a")),
            Some(2)
        );
        assert_eq!(
            short
                .get("q 1")
                .map(|judged| (judged.len(), judged.relevant_len())),
            Some((2, 1))
        );
        assert_eq!(short.len(), 2);
        assert!(parse("").expect("nothing is judged").is_empty());
    }

    #[test]
    fn invalid_line_is_refused_with_its_number() {
        check_refused(
            "q\ta\t1\nq a 1",
            "qrels.tsv:2: 1 columns; write query, tool and grade",
        );
        check_refused("q\t0\ta\t1\textra", "qrels.tsv:1: 5 columns");
        check_refused(
            "query-id\tcorpus-id\tscore",
            "qrels.tsv:1: grade \"score\" is not a whole number",
        );
        check_refused("q\ta\tNaN", "qrels.tsv:1: grade \"NaN\"");
        check_refused("q\ta\t1.5", "qrels.tsv:1: grade \"1.5\"");
        check_refused("q\ta\t99999999999", "qrels.tsv:1: grade \"99999999999\"");
        check_refused("q\t\t1", "qrels.tsv:1: tool id \"\" is empty");
        check_refused("\t\t", "qrels.tsv:1: query id \"\" is empty");
        check_refused(
            "q\ra\tt\t1",
            "qrels.tsv:1: query id \"q\\ra\" contains a tab or a line break",
        );
    }

    #[test]
    fn repeated_judgment_must_agree() {
        assert_eq!(parse("q\ta\t1\nq\ta\t1").expect("they agree").len(), 1);
        check_refused(
            "q\ta\t1\nq\ta\t0",
            "qrels.tsv:2: tool \"a\" of query \"q\" has grade 0 here and 1 before",
        );
    }

    #[test]
    fn unwritable_id_is_refused() {
        let mut qrels = Qrels::default();
        qrels.insert("q", "a\tb", 1);
        assert!(matches!(
            qrels.to_trec(),
            Err(EvalError::UnwritableId { column: "tool", .. })
        ));
    }

    #[test]
    fn missing_file_is_named() {
        let error = Qrels::read(Path::new("/nowhere/qrels.tsv")).expect_err("no such file");
        assert!(
            error
                .to_string()
                .starts_with("cannot read /nowhere/qrels.tsv")
        );
    }

    #[test]
    fn files_round_trip() {
        let scratch = Scratch::new();
        let path = scratch.path().join("qrels.tsv");
        let qrels = parse("q 1\ttool a\t2\nq2\tb\t0").expect("well formed");
        qrels.write_trec(&path).expect("the folder is writable");
        assert_eq!(Qrels::read(&path).expect("it was written"), qrels);
    }

    proptest! {
        #[test]
        fn written_qrels_read_back(rows in prop::collection::vec(("[a-c é]{0,3}x", "[a-c \"]{0,3}y", any::<i32>()), 0..30)) {
            let mut qrels = Qrels::default();
            for (query, tool, grade) in rows {
                qrels.insert(query, tool, grade);
            }
            prop_assert_eq!(parse(&qrels.to_trec().expect("plain ids")).expect("our own format"), qrels);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop::sample::select(&b"qa\t\n\r 01-\xff"[..]), 0..60)) {
            drop(Qrels::parse(&bytes, Path::new("x")));
        }
    }
}
