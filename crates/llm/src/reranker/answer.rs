//! The answer of a model to the reranking question.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::prompt::{ANSWER_TOOL, BEST, candidate_id};
use crate::endpoint::shortened;
use crate::model::LanguageModel;
use picktools::rerank::{RerankScore, order};
use picktools_call::repair::repair;
use picktools_provider::{Arguments, Provider};

/// Parses the scores of `count` candidates, each exactly once; otherwise describes the fault.
pub(super) fn parse_scores(
    provider: Provider,
    answer: &Value,
    count: usize,
) -> Result<Vec<RerankScore>, String> {
    let Grades(grades) = match LanguageModel::answer_arguments(provider, ANSWER_TOOL, answer)? {
        Arguments::Text(text) => parse_grades(&text)?,
        Arguments::Json(value) => Grades::deserialize(&value)
            .map_err(|error| invalid_answer(&error, &value.to_string()))?,
    };
    let mut scores = Vec::new();
    for (id, score) in grades {
        let Some(candidate) = parse_candidate(&id, count) else {
            let id = shortened(&id);
            return Err(format!(
                "a score for {id:?}, which is not an id of a candidate"
            ));
        };
        if !(0.0..=f32::from(BEST)).contains(&score) {
            return Err(format!(
                "{id} the score {score}, which is not from 0 to {BEST}"
            ));
        }
        scores.push(RerankScore { candidate, score });
    }
    order(&scores, count).map(|_| scores)
}

/// Parses JSON, or almost valid JSON with one meaning.
fn parse_grades(text: &str) -> Result<Grades, String> {
    let error = match serde_json::from_str(text) {
        Ok(grades) => return Ok(grades),
        Err(error) => error,
    };
    // Scores inside prose are accepted: they only reorder tools that may be picked anyway.
    if let (Some(start), Some(end)) = (text.find('{'), text.rfind('}'))
        && let Some(object) = text.get(start..=end)
        && let Some((value, _)) = repair(object)
        && let Ok(grades) = Grades::deserialize(value)
    {
        return Ok(grades);
    }
    Err(invalid_answer(&error, text))
}

fn invalid_answer(error: &serde_json::Error, text: &str) -> String {
    format!(
        "an answer that is not an object of scores ({}): {:?}",
        shortened(&error.to_string()),
        shortened(text)
    )
}

/// Returns the index of the candidate with an id.
fn parse_candidate(id: &str, count: usize) -> Option<usize> {
    let number: usize = id.strip_prefix('c')?.parse().ok()?;
    let index = number.checked_sub(1)?;
    (index < count && candidate_id(index) == id).then_some(index)
}

/// The members of an object of numbers, duplicates included.
struct Grades(Vec<(String, f32)>);

impl<'de> Deserialize<'de> for Grades {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GradesVisitor;

        impl<'de> Visitor<'de> for GradesVisitor {
            type Value = Grades;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Grades, A::Error> {
                let mut grades = Vec::new();
                while let Some(grade) = map.next_entry()? {
                    grades.push(grade);
                }
                Ok(Grades(grades))
            }
        }

        deserializer.deserialize_map(GradesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read_text(text: &str) -> Result<Vec<(usize, f32)>, String> {
        let answer = json!({"choices": [{"message": {"content": text}}]});
        let scores = parse_scores(Provider::OpenAiChat, &answer, 2)?;
        Ok(scores
            .into_iter()
            .map(|score| (score.candidate, score.score))
            .collect())
    }

    #[test]
    fn wrapped_scores_are_read() {
        for text in [
            r#"{"c1": 3, "c2": 9.5}"#,
            " {\"c1\":3,\n\"c2\":9.5}\n",
            "```json\n{\"c1\": 3, \"c2\": 9.5}\n```",
            "Sure! Here are the scores: {\"c1\": 3, \"c2\": 9.5} I hope that helps.",
            "{'c1': 3, 'c2': 9.5,}",
        ] {
            assert_eq!(read_text(text), Ok(vec![(0, 3.0), (1, 9.5)]), "{text}");
        }
        let ollama = json!({"message": {"content": r#"{"c2": 1, "c1": 0}"#}});
        assert!(parse_scores(Provider::Ollama, &ollama, 2).is_ok());
        let anthropic = json!({"content": [{"type": "text", "text": "So:"},
            {"type": "tool_use", "name": ANSWER_TOOL, "input": {"c1": 1, "c2": 0}}]});
        assert!(parse_scores(Provider::Anthropic, &anthropic, 2).is_ok());
    }

    #[test]
    fn any_other_answer_is_refused_with_its_fault() {
        for (text, fault) in [
            (r#"{"c1": 3}"#, "no score for the candidate 2 of 2"),
            (
                r#"{"c1": 3, "c2": 1, "c1": 4}"#,
                "two scores for the candidate 1",
            ),
            (
                r#"{"c1": 3, "c2": 1, "c3": 4}"#,
                "a score for \"c3\", which is not an id",
            ),
            (
                r#"{"send_mail": 10, "c1": 3, "c2": 1}"#,
                "a score for \"send_mail\", which is not an id",
            ),
            (r#"{"c01": 3, "c2": 1}"#, "a score for \"c01\""),
            (r#"{"c+1": 3, "c2": 1}"#, "a score for \"c+1\""),
            (
                r#"{"c1": 11, "c2": 1}"#,
                "c1 the score 11, which is not from 0 to 10",
            ),
            (r#"{"c1": -1, "c2": 1}"#, "c1 the score -1"),
            (r#"{"c1": 1e99, "c2": 1}"#, "c1 the score inf"),
            (r#"{"c1": "3", "c2": 1}"#, "not an object of scores"),
            (r#"{"c1": 3, "c2": NaN}"#, "not an object of scores"),
            (r#"{"c1": {"c1": 3}, "c2": 1}"#, "not an object of scores"),
            (r#"["c2", "c1"]"#, "not an object of scores"),
            (
                r#"{"c1": 1, "c2": 2} or rather {"c1": 2, "c2": 1}"#,
                "not an object of scores",
            ),
            ("I cannot help with that.", "I cannot help with that."),
            ("", "not an object of scores"),
        ] {
            let error = read_text(text).expect_err(text);
            assert!(error.contains(fault), "{text}: {error}");
        }
        for answer in [
            json!({}),
            json!([]),
            json!({"choices": []}),
            json!({"choices": [{"message": {"content": 7}}]}),
        ] {
            for provider in [Provider::OpenAiChat, Provider::Anthropic, Provider::Ollama] {
                let error = parse_scores(provider, &answer, 2).expect_err("the answer is empty");
                assert!(error.contains("no answer"), "{error}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_faults_are_short(text in "(\\PC|[\"{}:,0-9c\\\\]){0,600}") {
            if let Err(fault) = read_text(&text) {
                prop_assert!(fault.chars().count() < 1_000, "{}", fault);
            }
        }
    }
}
