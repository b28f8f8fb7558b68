//! What a model answered.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::prompt::{ANSWER_TOOL, BEST, id};
use crate::endpoint::shortened;
use crate::model::Model;
use picktools::rerank::{RerankScore, order};
use picktools_call::repair::repair;
use picktools_provider::{Arguments, Provider};

/// Reads the scores of `count` candidates, each exactly once; else says what came instead.
pub(super) fn scores(
    provider: Provider,
    answer: &Value,
    count: usize,
) -> Result<Vec<RerankScore>, String> {
    let Grades(grades) = match Model::given(provider, ANSWER_TOOL, answer)? {
        Arguments::Text(text) => read(&text)?,
        Arguments::Json(value) => {
            Grades::deserialize(&value).map_err(|error| misread(&error, &value.to_string()))?
        }
    };
    let scores = grades.into_iter().map(|(given, score)| {
        let candidate = place(&given, count);
        let candidate = candidate.ok_or_else(|| {
            format!(
                "a score for {:?}, which is not an id it was told",
                shortened(&given)
            )
        })?;
        if !(0.0..=f32::from(BEST)).contains(&score) {
            return Err(format!(
                "{given} the score {score}, which is not from 0 to {BEST}"
            ));
        }
        Ok(RerankScore { candidate, score })
    });
    let scores = scores.collect::<Result<Vec<RerankScore>, String>>()?;
    order(&scores, count).map(|_| scores)
}

/// Reads JSON, or what is nearly JSON and has one meaning.
fn read(text: &str) -> Result<Grades, String> {
    let error = match serde_json::from_str(text) {
        Ok(grades) => return Ok(grades),
        Err(error) => error,
    };
    // Scores in prose are scores: they only order what may be picked anyway.
    let within = text
        .find('{')
        .zip(text.rfind('}'))
        .and_then(|(start, end)| text.get(start..=end));
    let mended = within
        .and_then(repair)
        .and_then(|(value, _)| Grades::deserialize(value).ok());
    mended.ok_or_else(|| misread(&error, text))
}

fn misread(error: &serde_json::Error, text: &str) -> String {
    format!(
        "an answer that is not an object of scores ({}): {:?}",
        shortened(&error.to_string()),
        shortened(text)
    )
}

fn place(given: &str, count: usize) -> Option<usize> {
    let place: usize = given.strip_prefix('c')?.parse().ok()?;
    let place = place.checked_sub(1).filter(|&place| place < count)?;
    (id(place) == given).then_some(place)
}

/// An object of numbers, with members that stand twice.
struct Grades(Vec<(String, f32)>);

impl<'de> Deserialize<'de> for Grades {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
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

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read_text(text: &str) -> Result<Vec<(usize, f32)>, String> {
        let answer = json!({"choices": [{"message": {"content": text}}]});
        let scores = scores(Provider::OpenAiChat, &answer, 2)?;
        Ok(scores
            .into_iter()
            .map(|score| (score.candidate, score.score))
            .collect())
    }

    #[test]
    fn one_score_each_counts_however_it_is_wrapped() {
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
        assert!(scores(Provider::Ollama, &ollama, 2).is_ok());
        let anthropic = json!({"content": [{"type": "text", "text": "So:"},
            {"type": "tool_use", "name": ANSWER_TOOL, "input": {"c1": 1, "c2": 0}}]});
        assert!(scores(Provider::Anthropic, &anthropic, 2).is_ok());
    }

    #[test]
    fn anything_else_is_refused_with_what_it_is() {
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
                let error = scores(provider, &answer, 2).expect_err("there is nothing");
                assert!(error.contains("no answer"), "{error}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_reason_to_panic_and_faults_are_short(text in "(\\PC|[\"{}:,0-9c\\\\]){0,600}") {
            if let Err(fault) = read_text(&text) {
                prop_assert!(fault.chars().count() < 1_000, "{}", fault);
            }
        }
    }
}
