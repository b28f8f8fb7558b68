//! The rates of talk: plain data with a version, for JSON and for tables.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::TalkKind;

/// The version of the report's JSON form; it changes if a field changes its meaning or is removed.
pub const TALK_REPORT_VERSION: u32 = 1;

/// The mean of a figure between 0 and 1 over a number of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TalkRate {
    cases: usize,
    sum: f64,
}

impl TalkRate {
    /// Adds a case that was met or not.
    pub(super) fn add_case(&mut self, is_met: bool) {
        self.add_share(f64::from(u8::from(is_met)));
    }

    /// Adds a case with a share, 0..1.
    pub(super) fn add_share(&mut self, share: f64) {
        self.cases += 1;
        self.sum += share;
    }

    /// Returns the number of cases.
    pub fn cases(&self) -> usize {
        self.cases
    }

    /// Returns the mean, or `None` without cases.
    pub fn mean(&self) -> Option<f64> {
        (self.cases > 0).then(|| self.sum / self.cases as f64)
    }
}

impl Serialize for TalkRate {
    /// Serialises to `{"n":N,"rate":R}`, with `null` for the rate of no case.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rate = serializer.serialize_struct("TalkRate", 2)?;
        rate.serialize_field("n", &self.cases)?;
        rate.serialize_field("rate", &self.mean())?;
        rate.end()
    }
}

/// The rates of small talk. Each catalog counts as a case of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SmallTalkRates {
    /// Requests without a pick.
    pub no_pick: TalkRate,
    /// Requests with an answerability estimate under 0.5.
    pub low_answerability: TalkRate,
    /// Requests without a pick whose score is over 0.3.
    pub no_likely_pick: TalkRate,
}

/// The rates of conversations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConversationRates {
    /// The share of the needed tools among eight picks.
    pub needed_in_8: TalkRate,
    /// The same by the kind of the conversation, for those that name one.
    pub needed_in_8_by_kind: BTreeMap<String, TalkRate>,
    /// Turns that need nothing and have no pick that the turns before did not have.
    pub idle_without_new_pick: TalkRate,
    /// Turns that need nothing and have no such pick whose score is over 0.3.
    pub idle_without_likely_new_pick: TalkRate,
}

/// The rates of requests with pasted content.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PasteRates {
    /// The share of the needed tools among five picks for the complete text.
    pub needed_in_5: TalkRate,
    /// The same for the ask alone.
    pub ask_alone_in_5: TalkRate,
}

impl PasteRates {
    /// Returns what the complete text finds as a share of what the ask alone finds; `None` if the
    /// ask alone finds nothing.
    pub fn share_of_ask_alone(&self) -> Option<f64> {
        let (complete, alone) = (self.needed_in_5.mean()?, self.ask_alone_in_5.mean()?);
        (alone > 0.0).then(|| complete / alone)
    }
}

impl Serialize for PasteRates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rates = serializer.serialize_struct("PasteRates", 3)?;
        rates.serialize_field("needed_in_5", &self.needed_in_5)?;
        rates.serialize_field("ask_alone_in_5", &self.ask_alone_in_5)?;
        rates.serialize_field("share_of_ask_alone", &self.share_of_ask_alone())?;
        rates.end()
    }
}

/// The rates of requests with several parts. A part is served if one of its tools is picked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PartRates {
    /// Requests of which eight picks serve every part.
    pub all_served_in_8: TalkRate,
    /// The share of the parts that eight picks serve.
    pub served_in_8: TalkRate,
    /// Parts that eight picks serve if each part is asked alone.
    pub asked_alone_in_8: TalkRate,
}

/// A case that was not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissedCase {
    /// The measure that the case lowers, such as `small_talk.no_pick`.
    pub measure: &'static str,
    /// The catalog that was asked.
    pub catalog: String,
    /// The file and line of the case.
    pub case: String,
    /// The request; for a conversation its last message.
    pub request: String,
    /// The tools that should have been picked.
    pub needed: Vec<String>,
    /// The first picks; for a turn that needs nothing, the new ones.
    pub picked: Vec<String>,
}

/// The rates of all kinds of talk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TalkReport {
    /// [`TALK_REPORT_VERSION`].
    pub version: u32,
    /// The catalogs that were asked.
    pub catalogs: Vec<String>,
    /// The kinds without a case; their rates have no value.
    pub missing: Vec<TalkKind>,
    /// Requests that need no tool.
    pub small_talk: SmallTalkRates,
    /// Transcripts.
    pub conversations: ConversationRates,
    /// Asks beside pasted content.
    pub paste: PasteRates,
    /// Requests with several parts.
    pub parts: PartRates,
    /// The first missed cases of each measure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedCase>,
}

/// One row of a table: a measure with its rate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TalkRow {
    /// The measure in words.
    pub measure: String,
    /// Its rate, over at least one case.
    pub rate: TalkRate,
}

impl TalkReport {
    pub(super) fn new(missing: Vec<TalkKind>) -> Self {
        Self {
            version: TALK_REPORT_VERSION,
            catalogs: Vec::new(),
            missing,
            small_talk: SmallTalkRates::default(),
            conversations: ConversationRates::default(),
            paste: PasteRates::default(),
            parts: PartRates::default(),
            missed: Vec::new(),
        }
    }

    /// Returns the rates that have a case, in the order of a table.
    pub fn rows(&self) -> Vec<TalkRow> {
        let mut rows = Vec::new();
        let mut add = |measure: &str, rate: TalkRate| {
            if rate.cases() > 0 {
                let measure = measure.to_owned();
                rows.push(TalkRow { measure, rate });
            }
        };
        let talk = &self.small_talk;
        add("small talk: no pick", talk.no_pick);
        add(
            "small talk: answerability under 0.5",
            talk.low_answerability,
        );
        add("small talk: no pick over 0.3", talk.no_likely_pick);
        let turns = &self.conversations;
        add("conversations: needed tools in 8", turns.needed_in_8);
        for (kind, rate) in &turns.needed_in_8_by_kind {
            add(&format!("  kind {kind}"), *rate);
        }
        add(
            "conversations: nothing needed, no new pick",
            turns.idle_without_new_pick,
        );
        add(
            "conversations: nothing needed, no new pick over 0.3",
            turns.idle_without_likely_new_pick,
        );
        add("pasted content: needed tools in 5", self.paste.needed_in_5);
        add(
            "pasted content: needed tools in 5, the ask alone",
            self.paste.ask_alone_in_5,
        );
        add("parts: all served in 8", self.parts.all_served_in_8);
        add("parts: served in 8", self.parts.served_in_8);
        add(
            "parts: each part asked alone, served in 8",
            self.parts.asked_alone_in_8,
        );
        rows
    }
}
