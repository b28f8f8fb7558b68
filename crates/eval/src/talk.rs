//! Selection in real conversations: small talk, conversations, pasted content, and requests with
//! several parts.
//!
//! [`TalkCases`] has the cases of a folder, and a [`TalkMeasurement`] asks them. A conversation is
//! read like the `messages` of `POST /v1/pick`. A request without any content has no picks, as
//! there.
//!
//! | cases | picks | measured |
//! |---|---|---|
//! | small talk, on each catalog | 5 | requests without a pick; with an answerability under 0.5; without a pick over 0.3 |
//! | conversations that need tools | 8 | share of the needed tools that is picked |
//! | conversations that need nothing | 8 | those without a pick that the turns before did not have; those without such a pick over 0.3 |
//! | pasted content | 5 | share of the needed tools that is picked, for the complete text and for the ask alone |
//! | several parts | 8 | requests of which each part has one of its tools; share of such parts; the same for parts asked alone |

mod cases;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use picktools::query::Query;
use picktools::{PickError, Selection};
use picktools_provider::query_from_transcript;
use serde_json::Value;

use cases::{Case, CompoundRequest, Conversation, PastedRequest, SmallTalk};
pub use cases::{CaseOrigin, TalkCases, TalkKind};
pub use report::{
    ConversationRates, MissedCase, PartRates, PasteRates, SmallTalkRates, TALK_REPORT_VERSION,
    TalkRate, TalkReport, TalkRow,
};

/// The number of picks for small talk and for requests with pasted content.
const SINGLE_PICKS: usize = 5;
/// The number of picks for conversations and for requests with several parts.
const MANY_PICKS: usize = 8;
/// The score above which a model is likely to use a pick.
const LIKELY_SCORE: f32 = 0.3;
/// The most picks of a missed case that are listed.
const MISSED_PICKS: usize = 5;
/// The estimate below which a request is probably not answerable.
const LOW_ANSWERABILITY: f32 = 0.5;

/// A function that picks tools for a request, up to a number.
pub type TalkPick<'a> = dyn FnMut(&Query, usize) -> Result<Selection, PickError> + 'a;

/// The measurement of talk, catalog by catalog.
#[derive(Debug)]
pub struct TalkMeasurement<'a> {
    cases: &'a TalkCases,
    /// The most missed cases that are listed for each measure.
    max_missed: usize,
    report: TalkReport,
}

impl<'a> TalkMeasurement<'a> {
    /// Starts a measurement that lists up to `max_missed` missed cases of each measure.
    pub fn new(cases: &'a TalkCases, max_missed: usize) -> Self {
        Self {
            cases,
            max_missed,
            report: TalkReport::new(cases.missing()),
        }
    }

    /// Asks the cases of the catalog with this name, and small talk.
    ///
    /// # Errors
    ///
    /// The error of `pick`.
    pub fn add_catalog(&mut self, name: &str, pick: &mut TalkPick<'_>) -> Result<(), PickError> {
        let cases = self.cases;
        self.report.catalogs.push(name.to_owned());
        for case in &cases.small_talk {
            self.add_small_talk(name, case, pick)?;
        }
        for case in cases_about(name, &cases.conversations) {
            if case.content.tools.is_empty() {
                self.add_idle_turn(name, case, pick)?;
            } else {
                self.add_conversation(name, case, pick)?;
            }
        }
        for case in cases_about(name, &cases.pastes) {
            self.add_paste(name, case, pick)?;
        }
        for case in cases_about(name, &cases.compounds) {
            self.add_compound(name, case, pick)?;
        }
        Ok(())
    }

    /// Returns the rates of all catalogs together.
    pub fn finish(self) -> TalkReport {
        self.report
    }

    /// Asks a request that needs no tool.
    fn add_small_talk(
        &mut self,
        catalog: &str,
        case: &Case<SmallTalk>,
        pick: &mut TalkPick<'_>,
    ) -> Result<(), PickError> {
        let picks = pick_tools(pick, &Query::new(case.content.text.as_str()), SINGLE_PICKS)?;
        let rates = &mut self.report.small_talk;
        rates.no_pick.add_case(picks.tools.is_empty());
        rates
            .low_answerability
            .add_case(picks.is_hardly_answerable());
        rates.no_likely_pick.add_case(!picks.has_likely(|_| true));
        if !picks.tools.is_empty() {
            self.list_missed(MissedCase {
                measure: "small_talk.no_pick",
                catalog: catalog.to_owned(),
                case: case.origin.to_string(),
                request: case.content.text.clone(),
                needed: Vec::new(),
                picked: picks.first_ids(),
            });
        }
        Ok(())
    }

    /// Asks a conversation whose last turn needs tools.
    fn add_conversation(
        &mut self,
        catalog: &str,
        case: &Case<Conversation>,
        pick: &mut TalkPick<'_>,
    ) -> Result<(), PickError> {
        let Conversation { kind, tools, .. } = &case.content;
        let picks = pick_tools(pick, &transcript_query(&case.content.messages), MANY_PICKS)?;
        let share = picks.share_of(tools);
        let rates = &mut self.report.conversations;
        rates.needed_in_8.add_share(share);
        if let Some(kind) = kind {
            let by_kind = rates.needed_in_8_by_kind.entry(kind.clone()).or_default();
            by_kind.add_share(share);
        }
        if share < 1.0 {
            self.list_missed(MissedCase {
                measure: "conversations.needed_in_8",
                catalog: catalog.to_owned(),
                case: case.origin.to_string(),
                request: transcript_query(&case.content.messages).text().to_owned(),
                needed: tools.iter().cloned().collect(),
                picked: picks.first_ids(),
            });
        }
        Ok(())
    }

    /// Asks a conversation whose last turn needs nothing, with and without this turn.
    fn add_idle_turn(
        &mut self,
        catalog: &str,
        case: &Case<Conversation>,
        pick: &mut TalkPick<'_>,
    ) -> Result<(), PickError> {
        let query = transcript_query(&case.content.messages);
        let picks = pick_tools(pick, &query, MANY_PICKS)?;
        let before = match &case.content.earlier {
            Some(earlier) => pick_tools(pick, &transcript_query(earlier), MANY_PICKS)?,
            None => RequestPicks::default(),
        };
        let mut new_ids = Vec::new();
        for tool in &picks.tools {
            if !before.has(&tool.id) {
                new_ids.push(tool.id.clone());
            }
        }
        let rates = &mut self.report.conversations;
        rates.idle_without_new_pick.add_case(new_ids.is_empty());
        let has_likely = picks.has_likely(|id| !before.has(id));
        rates.idle_without_likely_new_pick.add_case(!has_likely);
        if !new_ids.is_empty() {
            self.list_missed(MissedCase {
                measure: "conversations.idle_without_new_pick",
                catalog: catalog.to_owned(),
                case: case.origin.to_string(),
                request: query.text().to_owned(),
                needed: Vec::new(),
                picked: new_ids,
            });
        }
        Ok(())
    }

    /// Asks a request with pasted content, and the ask without it.
    fn add_paste(
        &mut self,
        catalog: &str,
        case: &Case<PastedRequest>,
        pick: &mut TalkPick<'_>,
    ) -> Result<(), PickError> {
        let PastedRequest { text, ask, tools } = &case.content;
        let picks = pick_tools(pick, &Query::new(text.as_str()), SINGLE_PICKS)?;
        let alone = pick_tools(pick, &Query::new(ask.as_str()), SINGLE_PICKS)?;
        let (share, share_alone) = (picks.share_of(&tools.0), alone.share_of(&tools.0));
        let rates = &mut self.report.paste;
        rates.needed_in_5.add_share(share);
        rates.ask_alone_in_5.add_share(share_alone);
        if share < share_alone {
            self.list_missed(MissedCase {
                measure: "paste.needed_in_5",
                catalog: catalog.to_owned(),
                case: case.origin.to_string(),
                request: ask.clone(),
                needed: tools.0.iter().cloned().collect(),
                picked: picks.first_ids(),
            });
        }
        Ok(())
    }

    /// Asks a request with several parts, and each part alone.
    fn add_compound(
        &mut self,
        catalog: &str,
        case: &Case<CompoundRequest>,
        pick: &mut TalkPick<'_>,
    ) -> Result<(), PickError> {
        let parts = &case.content.parts.0;
        let picks = pick_tools(pick, &Query::new(case.content.text.as_str()), MANY_PICKS)?;
        let mut served = 0;
        let mut unserved = BTreeSet::new();
        for part in parts {
            if picks.has_any(&part.tools.0) {
                served += 1;
            } else {
                unserved.extend(part.tools.0.iter().cloned());
            }
            let alone = pick_tools(pick, &Query::new(part.text.as_str()), MANY_PICKS)?;
            let is_served = alone.has_any(&part.tools.0);
            self.report.parts.asked_alone_in_8.add_case(is_served);
        }
        let rates = &mut self.report.parts;
        rates.all_served_in_8.add_case(served == parts.len());
        rates
            .served_in_8
            .add_share(served as f64 / parts.len() as f64);
        if served < parts.len() {
            self.list_missed(MissedCase {
                measure: "parts.all_served_in_8",
                catalog: catalog.to_owned(),
                case: case.origin.to_string(),
                request: case.content.text.clone(),
                needed: unserved.into_iter().collect(),
                picked: picks.first_ids(),
            });
        }
        Ok(())
    }

    /// Lists a missed case, unless enough cases of its measure are listed.
    fn list_missed(&mut self, missed: MissedCase) {
        let listed = &mut self.report.missed;
        let same = listed
            .iter()
            .filter(|other| other.measure == missed.measure);
        if same.count() < self.max_missed {
            listed.push(missed);
        }
    }
}

/// The picks for one request, best first.
#[derive(Default)]
struct RequestPicks {
    tools: Vec<ScoredId>,
    answerable: Option<f32>,
}

/// A pick: the id of its tool and its score.
struct ScoredId {
    id: String,
    score: f32,
}

impl RequestPicks {
    fn has(&self, id: &str) -> bool {
        self.tools.iter().any(|tool| tool.id == id)
    }

    fn has_any(&self, ids: &BTreeSet<String>) -> bool {
        ids.iter().any(|id| self.has(id))
    }

    /// Returns `true` if a likely pick satisfies `is_counted`.
    fn has_likely(&self, is_counted: impl Fn(&str) -> bool) -> bool {
        let mut tools = self.tools.iter();
        tools.any(|tool| tool.score > LIKELY_SCORE && is_counted(&tool.id))
    }

    /// Returns `true` if an estimate says that no tool fits.
    fn is_hardly_answerable(&self) -> bool {
        self.answerable
            .is_some_and(|estimate| estimate < LOW_ANSWERABILITY)
    }

    /// Returns the share of `ids` that is picked; `ids` has at least one.
    fn share_of(&self, ids: &BTreeSet<String>) -> f64 {
        let hits = ids.iter().filter(|id| self.has(id)).count();
        hits as f64 / ids.len() as f64
    }

    /// Returns the ids of the first picks, for a list of missed cases.
    fn first_ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for tool in self.tools.iter().take(MISSED_PICKS) {
            ids.push(tool.id.clone());
        }
        ids
    }
}

/// Picks for a request. A request without any content has no picks, and no tool answers it.
fn pick_tools(
    pick: &mut TalkPick<'_>,
    query: &Query,
    max_picks: usize,
) -> Result<RequestPicks, PickError> {
    if query.is_blank() && query.context().is_empty() {
        return Ok(RequestPicks {
            tools: Vec::new(),
            answerable: Some(0.0),
        });
    }
    let selection = pick(query, max_picks)?;
    let mut tools = Vec::new();
    for pick in &selection.picks {
        tools.push(ScoredId {
            id: pick.tool.id.clone(),
            score: pick.score,
        });
    }
    Ok(RequestPicks {
        tools,
        answerable: selection.answerable,
    })
}

/// Reads a transcript as `POST /v1/pick` reads its messages. The reader of the cases has refused
/// what is not a transcript.
fn transcript_query(messages: &Value) -> Query {
    query_from_transcript(messages).unwrap_or_else(|| Query::new(""))
}

/// Returns the cases that name a catalog.
fn cases_about<'a, T>(catalog: &str, cases: &'a [Case<T>]) -> Vec<&'a Case<T>> {
    let mut about = Vec::new();
    for case in cases {
        if case.catalog.as_deref() == Some(catalog) {
            about.push(case);
        }
    }
    about
}
