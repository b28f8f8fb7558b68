//! The signals of a pick as bars.

use picktools::Selection;
use picktools::selection::{Provenance, SemanticEvidence, TermEvidence, WordEvidence};

/// A signal of a pick.
pub(super) struct Bar {
    pub(super) label: &'static str,
    /// The length of the bar, in percent.
    pub(super) percent: u8,
    pub(super) figure: String,
    pub(super) note: String,
}

/// A word of the request, and the word of a tool that it matches.
pub(super) struct MatchedWord {
    pub(super) word: String,
    /// The word of the tool, if it differs.
    pub(super) tool_word: Option<String>,
    /// The fields that contain the word, and its contribution.
    pub(super) note: String,
}

/// The reference of the keyword bars: the best BM25 score, since BM25 has no upper bound.
pub(super) struct Scale {
    keyword: f32,
}

impl Scale {
    pub(super) fn from_selections(selection: &Selection, all: &Selection) -> Self {
        let considered = all
            .considered
            .iter()
            .flatten()
            .map(|candidate| &candidate.provenance);
        let picked = selection
            .picks
            .iter()
            .chain(&selection.required)
            .map(|pick| &pick.provenance);
        let scores = considered
            .chain(picked)
            .filter_map(|provenance| Some(provenance.keyword.as_ref()?.score));
        Self {
            keyword: scores.fold(0.0, f32::max),
        }
    }

    pub(super) fn bars(&self, provenance: &Provenance) -> Vec<Bar> {
        let mut bars = Vec::new();
        if let Some(keyword) = &provenance.keyword {
            bars.push(Bar {
                label: "keyword",
                percent: percent(keyword.score / self.keyword),
                figure: format!("{:.2}", keyword.score),
                note: format!("{} by BM25", format_rank(keyword.rank)),
            });
        }
        for SemanticEvidence {
            rank: semantic_rank,
            score,
            model,
            stands_in,
            ..
        } in &provenance.semantic
        {
            let model = model
                .rsplit_once(':')
                .filter(|(_, digest)| is_digest(digest))
                .map_or(model.as_str(), |it| it.0);
            let stands_in = if *stands_in {
                ", instead of a model that failed"
            } else {
                ""
            };
            bars.push(Bar {
                label: "semantic",
                percent: percent(*score),
                figure: format!("{score:.2}"),
                note: format!("{} by {model}{stands_in}", format_rank(*semantic_rank)),
            });
        }
        let value = provenance
            .fusion
            .as_ref()
            .map_or(0.0, |fusion| fusion.value);
        let mut push_gain = |label, gain: f32, note: String| {
            bars.push(Bar {
                label,
                percent: percent(gain / value),
                figure: format!("{gain:+.3}"),
                note,
            });
        };
        if let Some(source) = provenance.fusion.as_ref().and_then(|fusion| fusion.source) {
            let note = if source.best {
                "best-matching server"
            } else {
                "match of its server"
            };
            push_gain("source", source.gain, note.to_owned());
        }
        if let Some(examples) = &provenance.examples {
            push_gain(
                "examples",
                examples.gain,
                format!("most similar: {}", examples.nearest),
            );
        }
        if let Some(prior) = &provenance.prior {
            let by: Vec<&str> = prior.by.iter().map(|by| by.tool_id.as_str()).collect();
            push_gain("prior", prior.gain, format!("used with {}", by.join(", ")));
        }
        if let Some(rerank) = provenance.rerank {
            bars.push(Bar {
                label: "reranker",
                percent: percent(rerank.score),
                figure: format!("{:.2}", rerank.score),
                note: format!("from rank {} to {}", rerank.before, rerank.after),
            });
        }
        bars
    }
}

/// Returns the matching words of the request and a tool, those of the keywords first.
pub(super) fn matched_words(provenance: &Provenance) -> Vec<MatchedWord> {
    let mut words: Vec<MatchedWord> = Vec::new();
    let terms = provenance.keyword.iter().flat_map(|keyword| &keyword.terms);
    for term in terms {
        let TermEvidence {
            word,
            meets,
            contribution,
            fields,
            ..
        } = term;
        let fields: Vec<&str> = fields.iter().map(|field| field.label()).collect();
        words.push(MatchedWord {
            word: word.clone(),
            tool_word: if_different(word, meets),
            note: format!("{}, keywords {contribution:+.2}", fields.join(", ")),
        });
    }
    let similar_words = provenance
        .semantic
        .iter()
        .flat_map(|semantic| &semantic.words);
    for similar in similar_words {
        let WordEvidence {
            word,
            meets,
            contribution,
            field,
            ..
        } = similar;
        if similar.similarity >= 0.999 {
            continue;
        }
        let tool_word = if_different(word, meets);
        let is_listed = words
            .iter()
            .any(|listed| &listed.word == word && listed.tool_word == tool_word);
        if !is_listed {
            words.push(MatchedWord {
                word: word.clone(),
                tool_word,
                note: format!("{}, similarity {contribution:+.2}", field.label()),
            });
        }
    }
    words
}

fn is_digest(text: &str) -> bool {
    text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the word of the tool if it differs from the word of the request.
fn if_different(word: &str, meets: &str) -> Option<String> {
    (word.to_lowercase() != meets.to_lowercase()).then(|| meets.to_owned())
}

fn format_rank(rank: Option<usize>) -> String {
    rank.map_or_else(|| "no match".to_owned(), |rank| format!("rank {rank}"))
}

/// Converts a share to percent, rounded and limited to 0 to 100.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the value is clamped to 0 to 100"
)]
pub(super) fn percent(share: f32) -> u8 {
    if share.is_finite() {
        (share * 100.0).round().clamp(0.0, 100.0) as u8
    } else {
        0
    }
}
