//! Query files: the requests of a benchmark.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EvalError;
use super::files::{check_read_id, excerpt, lines, read_file};
use picktools::query::Query;

/// One query of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "QueryFileLine")]
pub struct EvalQuery {
    /// The id that qrels and runs use.
    pub id: String,
    /// The request in plain language; for a transcript, the last message of the user.
    pub text: String,
    /// The transcript that ends in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Value>,
}

/// A query in the form of its file.
#[derive(Deserialize)]
struct QueryFileLine {
    id: String,
    text: Option<String>,
    messages: Option<Value>,
}

impl EvalQuery {
    /// Returns the request to pick for.
    pub fn query(&self) -> Query {
        let transcript = match &self.messages {
            Some(messages) => picktools_provider::query_from_transcript(messages),
            None => None,
        };
        transcript.unwrap_or_else(|| Query::new(self.text.as_str()))
    }
}

impl TryFrom<QueryFileLine> for EvalQuery {
    type Error = &'static str;

    fn try_from(QueryFileLine { id, text, messages }: QueryFileLine) -> Result<Self, &'static str> {
        match (text, messages) {
            (None, None) => Err("missing field `text`, or `messages` in its place"),
            (Some(text), None) => Ok(Self {
                id,
                text,
                messages: None,
            }),
            (_, Some(messages)) => {
                let query = picktools_provider::query_from_transcript(&messages)
                    .ok_or("`messages` is not a transcript")?;
                Ok(Self {
                    id,
                    text: query.text().to_owned(),
                    messages: Some(messages),
                })
            }
        }
    }
}

/// The queries of a benchmark, in the order of their file, each id once.
///
/// # Format
///
/// JSON Lines: one `{"id": …, "text": …}` object a line, or `{"id": …, "messages": […]}` with a
/// transcript for [`query_from_transcript`](picktools_provider::query_from_transcript). Other
/// fields and blank lines are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuerySet {
    queries: Vec<EvalQuery>,
}

impl QuerySet {
    /// Reads a `queries.jsonl` file.
    ///
    /// # Errors
    ///
    /// [`EvalError::Read`] if the file cannot be read, otherwise as [`QuerySet::parse`].
    pub fn read(path: &Path) -> Result<Self, EvalError> {
        Self::parse(&read_file(path)?, path)
    }

    /// Reads queries from memory; errors name `origin` as the file.
    ///
    /// # Errors
    ///
    /// [`EvalError::NotUtf8`] or [`EvalError::BadQuery`] for a line that is not a query,
    /// [`EvalError::BadId`] for an id that qrels cannot contain, and [`EvalError::DuplicateQuery`]
    /// for an id used twice.
    pub fn parse(bytes: &[u8], origin: &Path) -> Result<Self, EvalError> {
        let mut queries: Vec<EvalQuery> = Vec::new();
        let mut first_lines: HashMap<String, usize> = HashMap::new();
        for line in lines(bytes, origin) {
            let (line, text) = line?;
            let query: EvalQuery =
                serde_json::from_str(text).map_err(|source| EvalError::BadQuery {
                    path: origin.to_path_buf(),
                    line,
                    source: source.into(),
                })?;
            check_read_id(&query.id, "query", origin, line)?;
            if let Some(first) = first_lines.insert(query.id.clone(), line) {
                let id = excerpt(&query.id);
                return Err(EvalError::DuplicateQuery {
                    path: origin.to_path_buf(),
                    line,
                    first,
                    id,
                });
            }
            queries.push(query);
        }
        Ok(Self { queries })
    }

    /// Returns the queries in the order of their file.
    pub fn as_slice(&self) -> &[EvalQuery] {
        &self.queries
    }

    /// Iterates over the queries in the order of their file.
    pub fn iter(&self) -> std::slice::Iter<'_, EvalQuery> {
        self.queries.iter()
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }
}

impl<'a> IntoIterator for &'a QuerySet {
    type Item = &'a EvalQuery;
    type IntoIter = std::slice::Iter<'a, EvalQuery>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn parse(text: &[u8]) -> Result<QuerySet, EvalError> {
        QuerySet::parse(text, Path::new("queries.jsonl"))
    }

    fn check_refused(text: &[u8], message: &str) {
        let error = parse(text).expect_err("the text is refused").to_string();
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn queries_keep_their_order() {
        let text = b"{\"id\":\"b\",\"text\":\"two\\nlines\",\"more\":1}\r\n\n{\"id\":\"a\",\"text\":\"\"}\n";
        let queries = parse(text).expect("well formed");
        let ids: Vec<&str> = queries.iter().map(|query| query.id.as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
        assert_eq!(queries.as_slice()[0].text, "two\nlines");
    }

    #[test]
    fn transcript_replaces_the_text() {
        let text = br#"{"id":"a","messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}]}"#;
        let queries = parse(text).expect("well formed");
        let query = &queries.as_slice()[0];
        assert_eq!((query.text.as_str(), query.query().context()), ("y", "x"));
        check_refused(
            br#"{"id":"a","messages":[1]}"#,
            "queries.jsonl:1: not a query",
        );
    }

    #[test]
    fn invalid_line_is_refused_with_its_number() {
        check_refused(
            b"{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"b\"}",
            "queries.jsonl:2: not a query; write one object",
        );
        check_refused(b"[1]", "queries.jsonl:1: not a query");
        check_refused(b"{\"id\":7,\"text\":\"x\"}", "queries.jsonl:1: not a query");
        check_refused(
            b"{\"id\":\"a\",\"text\":\"\xc3\x28\"}",
            "queries.jsonl:1: not valid UTF-8 from byte 19",
        );
        check_refused(
            b"{\"id\":\"a\\tb\",\"text\":\"x\"}",
            "queries.jsonl:1: query id \"a\\tb\" contains a tab",
        );
        check_refused(
            b"{\"id\":\"a\",\"text\":\"x\"}\n\n{\"id\":\"a\",\"text\":\"y\"}",
            "queries.jsonl:3: query id \"a\" was used on line 1",
        );
    }

    #[test]
    fn error_of_the_json_reader_names_the_missing_field() {
        let error = parse(b"{\"id\":\"a\"}").expect_err("the text is missing");
        let cause = error.source().expect("the cause is kept").to_string();
        assert!(cause.contains("missing field `text`"), "{cause}");
    }
}
