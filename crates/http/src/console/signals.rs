//! What each signal says of a pick, as bars beside each other.

use picktools::Selection;
use picktools::selection::{Provenance, SemanticEvidence, TermEvidence, WordEvidence};

/// A signal of a pick.
pub(super) struct Bar {
    pub(super) label: &'static str,
    /// The length, in percent.
    pub(super) percent: u8,
    pub(super) figure: String,
    pub(super) note: String,
}

/// A word of the request, and what it meets in a tool.
pub(super) struct Word {
    pub(super) word: String,
    /// The tool's word, where it is another.
    pub(super) meets: Option<String>,
    /// Where it stands, and what it adds.
    pub(super) told: String,
}

/// By what bars are measured: BM25 has no largest score of its own.
pub(super) struct Scale {
    keyword: f32,
}

impl Scale {
    pub(super) fn of(selection: &Selection, all: &Selection) -> Self {
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
                note: format!("{} by BM25", rank(keyword.rank)),
            });
        }
        for SemanticEvidence {
            rank: place,
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
                ", in place of one that failed"
            } else {
                ""
            };
            bars.push(Bar {
                label: "semantic",
                percent: percent(*score),
                figure: format!("{score:.2}"),
                note: format!("{} by {model}{stands_in}", rank(*place)),
            });
        }
        let value = provenance
            .fusion
            .as_ref()
            .map_or(0.0, |fusion| fusion.value);
        let mut gained = |label, gain: f32, note: String| {
            bars.push(Bar {
                label,
                percent: percent(gain / value),
                figure: format!("{gain:+.3}"),
                note,
            });
        };
        if let Some(source) = provenance.fusion.as_ref().and_then(|fusion| fusion.source) {
            let note = if source.best {
                "no server fits better than its own"
            } else {
                "for its server"
            };
            gained("source", source.gain, note.to_owned());
        }
        if let Some(examples) = &provenance.examples {
            gained(
                "examples",
                examples.gain,
                format!("nearest: {}", examples.nearest),
            );
        }
        if let Some(prior) = &provenance.prior {
            let by: Vec<&str> = prior.by.iter().map(|by| by.tool_id.as_str()).collect();
            gained("prior", prior.gain, format!("goes with {}", by.join(", ")));
        }
        if let Some(rerank) = provenance.rerank {
            bars.push(Bar {
                label: "reranker",
                percent: percent(rerank.score),
                figure: format!("{:.2}", rerank.score),
                note: format!("from place {} to {}", rerank.before, rerank.after),
            });
        }
        bars
    }
}

/// The words by which a tool was found, those of the keywords first.
pub(super) fn words(provenance: &Provenance) -> Vec<Word> {
    let terms = provenance.keyword.iter().flat_map(|keyword| &keyword.terms);
    let terms = terms.map(
        |TermEvidence {
             word,
             meets,
             contribution,
             fields,
             ..
         }| {
            let fields: Vec<&str> = fields.iter().map(|field| field.label()).collect();
            Word {
                word: word.clone(),
                meets: other(word, meets),
                told: format!("{}, {contribution:+.2} for the keywords", fields.join(", ")),
            }
        },
    );
    let near = provenance
        .semantic
        .iter()
        .flat_map(|semantic| &semantic.words);
    let near = near.filter(|near| near.similarity < 0.999).map(|near| {
        let WordEvidence {
            word,
            meets,
            contribution,
            field,
            ..
        } = near;
        Word {
            word: word.clone(),
            meets: other(word, meets),
            told: format!("{}, {contribution:+.2} for the meaning", field.label()),
        }
    });
    let mut words: Vec<Word> = terms.collect();
    for near in near {
        if !words
            .iter()
            .any(|word| (&word.word, &word.meets) == (&near.word, &near.meets))
        {
            words.push(near);
        }
    }
    words
}

fn is_digest(text: &str) -> bool {
    text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn other(word: &str, meets: &str) -> Option<String> {
    (word.to_lowercase() != meets.to_lowercase()).then(|| meets.to_owned())
}

fn rank(rank: Option<usize>) -> String {
    rank.map_or_else(|| "no match".to_owned(), |rank| format!("rank {rank}"))
}

/// A share as a whole number of percent.
#[expect(clippy::cast_possible_truncation, reason = "it is 0 to 100 then")]
pub(super) fn percent(share: f32) -> u8 {
    if share.is_finite() {
        (share * 100.0).round().clamp(0.0, 100.0) as u8
    } else {
        0
    }
}
