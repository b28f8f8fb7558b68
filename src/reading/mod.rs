//! The request of a message, as far as its words alone and the turns before it show it.
//!
//! - [`request_text`]: the request beside pasted matter;
//! - [`scope`]: does the message ask for something that a tool could do, or is it small talk?
//! - [`turn_kind`]: does a turn ask for something of its own, go on with the turn before, or take up
//!   an offer of the assistant?
//!
//! The three are linear models over hashed words (`models/train/reader`). They work in any
//! language, with typing errors, and take a few microseconds. Without the feature `static-model`
//! each message is a request of its own.

mod features;
mod model;
mod paste;
mod turn;

pub(crate) use self::features::is_ideograph;
use self::features::{Words, features};
use self::model::{ReaderModel, TurnAct};

/// The least probability of a kind of turn that changes what is searched for.
const MIN_PROBABILITY: f32 = 0.5;

/// The same for a turn that asks for nothing, if it looks like small talk.
const MIN_IDLE_SMALL_TALK: f32 = 0.35;

/// The log-odds from which a turn asks for something, whatever the turn before it asks for.
const MAX_IDLE_SCOPE: f32 = 1.0;

/// The same after a turn that asks for nothing.
const MAX_IDLE_SCOPE_AFTER_SMALL_TALK: f32 = 0.0;

/// The log-odds from which a turn is a request, and does not only answer the assistant.
const MAX_ANSWER_SCOPE: f32 = 2.0;

/// The meaning of a turn of a conversation for the tools that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnKind {
    /// It asks for nothing: thanks, small talk, a refusal.
    Idle,
    /// It agrees with what the assistant offers, or answers what it asks.
    Answer,
    /// It repeats the request before with other values, perhaps with another request.
    Continuation,
    /// It asks for something else about the same matter, or it is not clear what it means.
    Related,
    /// It is a request of its own.
    Request,
}

/// Returns the part of a text that is the request, if the text also has pasted matter.
pub(crate) fn request_text(text: &str) -> Option<String> {
    let lines = paste::request_lines(ReaderModel::built_in()?, text)?;
    let lines: Vec<&str> = lines.into_iter().map(|line| text[line].trim()).collect();
    Some(lines.join("\n"))
}

/// Returns the log-odds that a message asks for something that a tool could do, under the
/// assumption that half of all messages do; `None` without a model.
pub(crate) fn scope(text: &str) -> Option<f32> {
    let model = ReaderModel::built_in()?;
    Some(model.scope.score(&[(1.0, &features(&Words::new(text)))]))
}

/// Returns what a turn means, after the user's turn before it and the assistant's answer to that.
/// `scope` is the turn's own [`scope`]. Returns `None` without a model.
pub(crate) fn turn_kind(
    before: &str,
    answer: &str,
    turn: &str,
    scope: Option<f32>,
) -> Option<TurnKind> {
    let model = ReaderModel::built_in()?;
    let acts = turn::acts(model, before, answer, turn);
    let mut idle = acts.of(&[TurnAct::SmallTalk, TurnAct::Thanks, TurnAct::Refuse]);
    let mut share = 1.0;
    let max_idle_scope = if self::scope(before).is_some_and(|before| before < 0.0) {
        MAX_IDLE_SCOPE_AFTER_SMALL_TALK
    } else {
        MAX_IDLE_SCOPE
    };
    if scope.is_some_and(|scope| scope > max_idle_scope) {
        share = 1.0 / (1.0 - idle).max(f32::EPSILON);
        idle = 0.0;
    }
    let of = |kinds: &[TurnAct]| share * acts.of(kinds);
    let mut consents = of(&[TurnAct::Consent, TurnAct::Choice, TurnAct::Value]);
    if scope.is_some_and(|scope| scope > MAX_ANSWER_SCOPE) {
        consents = 0.0;
    }
    let goes_on = of(&[TurnAct::Ellipsis, TurnAct::Correction, TurnAct::SecondTool]);
    let own = of(&[TurnAct::NewRequest]);
    // A turn that asks for nothing by itself is idle more often.
    let is_small_talk = scope.is_some_and(|scope| scope < 0.0);
    let min_idle = if is_small_talk {
        MIN_IDLE_SMALL_TALK
    } else {
        MIN_PROBABILITY
    };
    Some(if idle >= min_idle {
        TurnKind::Idle
    } else if consents >= MIN_PROBABILITY {
        TurnKind::Answer
    } else if goes_on >= MIN_PROBABILITY {
        TurnKind::Continuation
    } else if own >= MIN_PROBABILITY {
        TurnKind::Request
    } else {
        TurnKind::Related
    })
}

#[cfg(all(test, feature = "static-model"))]
mod tests {
    use super::*;

    #[test]
    fn turn_kind_tells_what_a_turn_does_with_the_turn_before() {
        use TurnKind::{Answer, Continuation, Idle, Related, Request};
        let offer = "Three left, the minimum is ten. Shall I order twenty more?";
        let told = "Showers until noon, then dry.";
        for (before, answer, turn, kind) in [
            ("how many hinges are in stock", offer, "yes please", Answer),
            ("how many hinges are in stock", offer, "do that", Answer),
            ("how many hinges are in stock", offer, "vas-y", Answer),
            ("how many hinges are in stock", offer, "mach das", Answer),
            ("how many hinges are in stock", offer, "not now", Idle),
            (
                "how many hinges are in stock",
                offer,
                "thanks, that's all for today!",
                Idle,
            ),
            (
                "how many hinges are in stock",
                offer,
                "haha those hinges again",
                Idle,
            ),
            (
                "weather in Cork on saturday",
                told,
                "and Galway?",
                Continuation,
            ),
            (
                "weather in Cork on saturday",
                told,
                "sorry, i meant sunday",
                Continuation,
            ),
            (
                "weather in Cork on saturday",
                told,
                "ok. which of my parcels are still on the way?",
                Request,
            ),
            (
                "how many hinges are in stock",
                offer,
                "no, send me the price list of the supplier instead",
                Related,
            ),
            (
                "hello",
                "What can I do?",
                "make this picture smaller",
                Related,
            ),
            (
                "weather in Cork on saturday",
                told,
                "book a meeting room",
                Related,
            ),
            (
                "hello",
                "Hi! How can I help you today?",
                "nothing really, just bored",
                Idle,
            ),
        ] {
            let found = turn_kind(before, answer, turn, scope(turn));
            assert_eq!(found, Some(kind), "{turn}");
        }
    }

    #[test]
    fn request_beside_one_paragraph_is_found() {
        let letter = "Dear neighbours, the roof was finished on Friday and the scaffolding is gone. \
            The painters were quick and friendly. We found two bicycles in the cellar that belong to nobody. \
            The gardener will come in spring. I have a new telephone, my old one fell into the pond. \
            My son passed his exams. We should have a party in the yard when it is warm. Yours, Ida";
        let story = "The lighthouse keeper woke before dawn. He climbed the stairs, counted each step, and \
            looked at the sea. A ship went by without a light. He wrote its name in his book. Nobody ever \
            asked about that night, and he never told what he had seen. The winter was long.";
        let asks = [
            "translate this into French",
            "post this in #garden",
            "pay invoice 8821",
            "turn the hall lamp off",
            "who is the manager of the warehouse?",
            "wie wird das Wetter morgen?",
        ];
        let mut missed = Vec::new();
        for ask in asks {
            for pasted in [letter, story] {
                for text in [
                    format!("{ask}\n\n{pasted}"),
                    format!("{pasted}\n\n{ask}"),
                    format!("{ask}\n{pasted}"),
                    format!("{ask}\n\n{pasted}\n\n{pasted}"),
                ] {
                    if request_text(&text).as_deref() != Some(ask) {
                        missed.push(text);
                    }
                }
            }
        }
        assert!(missed.len() <= 6, "of 48: {missed:#?}");
    }

    #[test]
    fn long_request_beside_greeting_is_kept() {
        for ask in [
            "Please find all invoices of the last quarter that the bakery has not paid yet, send each customer \
             a reminder with the amount and the date, and add a task for Monday so that I call those who owe us \
             more than five hundred euros. Skip customers that already have a payment plan.",
            "I would like to move to the coast next year, so look for flats with three rooms below 1,200 a month \
             within ten kilometres of Aveiro, compare the travel times to the hospital there, and write the five \
             best ones into a sheet with their addresses and the names of the agencies.",
        ] {
            for text in [
                format!("Hello,\n{ask}\nThanks!"),
                format!("Hi team,\n\n{ask}"),
                format!("{ask}\n\nBest regards,\nIda"),
            ] {
                let found = request_text(&text);
                assert!(
                    found.as_deref().is_none_or(|found| found.contains(ask)),
                    "{text}: {found:?}"
                );
            }
        }
    }

    /// Requests of one user with their details, and what people say between them.
    struct OwnWords {
        greeting: &'static str,
        consent: &'static str,
        thanks: &'static str,
        closing: &'static str,
        requests: &'static [&'static str],
    }

    static OWN_WORDS: [OwnWords; 5] = [
        OwnWords {
            greeting: "Hi there,",
            consent: "Yes, please.",
            thanks: "Thank you for your help.",
            closing: "Thanks a lot!",
            requests: &[
                "Can you tell me which parcels arrive today?",
                "I need a table for four at the harbour grill on Friday at eight.\nIt is for my mother's birthday.",
                "Can you move my visit to Dr. Moreau to May 9th?\nMy name is Ida Holm and the visit number is 55120.",
                "Could you also note my weight and my pulse?\nMy weight is 71 kilos and my pulse is 64.",
                "And turn the heating in the hall down to 18 degrees before I leave the house.",
            ],
        },
        OwnWords {
            greeting: "Hallo,",
            consent: "Ja, genau.",
            thanks: "Danke, das hat geklappt.",
            closing: "Vielen Dank!",
            requests: &[
                "Kannst du mir einen Termin beim Zahnarzt buchen?\nAm liebsten am 14. April um 9 Uhr, ich heiße Jana Wolf.",
                "Ich muss meine Rechnung vom März noch bezahlen.\nDie Nummer ist 5512, bitte vom gemeinsamen Konto.",
                "Kannst du nachsehen, wann der nächste Zug nach Ulm fährt?",
                "Schick meinem Mann bitte eine Nachricht, dass ich um zehn zurück bin.",
            ],
        },
        OwnWords {
            greeting: "¡Hola!",
            consent: "Sí, por favor.",
            thanks: "Gracias, muy amable.",
            closing: "¡Muchas gracias!",
            requests: &[
                "¿Puedes buscarme un vuelo a Oporto para el 3 de junio?\nSalgo de Bilbao y prefiero por la mañana.",
                "¿Puedes reservar también un hotel cerca del río?\nSomos dos adultos y una niña, tres noches.",
                "Apunta en mi calendario que el día 5 visitamos el museo.",
                "¿Y me dices qué tiempo hará en Oporto esa semana?",
            ],
        },
        OwnWords {
            greeting: "Bonjour,",
            consent: "Oui, s'il te plaît.",
            thanks: "Merci beaucoup.",
            closing: "Merci d'avance !",
            requests: &[
                "Peux-tu trouver mon rendez-vous avec le docteur Petit ?\nJe m'appelle Louise Garnier et c'est en octobre.",
                "Peux-tu le déplacer au 12 octobre à 15 heures ?\nLe numéro est 40117.",
                "Il faut aussi noter ma tension.\nC'était 12 sur 8 ce matin à sept heures.",
                "Et commande deux boîtes de filtres pour la machine à café.",
            ],
        },
        OwnWords {
            greeting: "你好，",
            consent: "好的。",
            thanks: "谢谢你的帮助。",
            closing: "非常感谢！",
            requests: &[
                "帮我查一下明天早上从上海到杭州的高铁还有没有票？\n最好是八点左右出发，两个人，二等座。",
                "能帮我在西湖附近订一家酒店吗？\n住两个晚上，从星期五到星期天，要安静一点的房间。",
                "把我星期五下午的会议改到下星期一上午十点。",
                "再给我妈妈发一条消息，说我星期天晚上才能回家。",
            ],
        },
    ];

    impl OwnWords {
        /// Returns the requests as messages, with and without phrases around and between them.
        fn messages(&self) -> Vec<String> {
            let mut messages = Vec::new();
            for first in 0..self.requests.len() {
                let mut requests = self.requests.to_vec();
                requests.rotate_left(first);
                let joined_by = |phrase: &str, gap: &str| {
                    let separator = format!("\n{phrase}{gap}");
                    requests.join(separator.as_str())
                };
                let plain = requests.join("\n");
                messages.push(format!("{}\n{plain}\n{}", self.greeting, self.closing));
                messages.push(joined_by(self.thanks, " "));
                messages.push(joined_by(self.consent, "\n"));
                messages.push(requests.join("\n\n"));
                messages.push(plain);
            }
            messages
        }
    }

    #[test]
    fn requests_of_one_user_in_several_lines_are_kept() {
        let mut count = 0;
        let mut cut = Vec::new();
        for own_words in &OWN_WORDS {
            for message in own_words.messages() {
                count += 1;
                if request_text(&message).is_some() {
                    cut.push(message);
                }
            }
        }
        assert!(cut.len() <= 2, "{} of {count}: {cut:#?}", cut.len());
    }

    #[test]
    fn requests_beside_a_log_in_a_fence_are_all_kept() {
        let log = "```\n2026-05-02 08:15:11 WARN pool exhausted, 12 waiting\n2026-05-02 08:15:14 ERROR timeout\n```";
        for own_words in &OWN_WORDS {
            let requests = own_words.requests.join("\n");
            for message in [format!("{requests}\n{log}"), format!("{log}\n{requests}")] {
                assert_eq!(request_text(&message).as_deref(), Some(requests.as_str()));
            }
        }
    }
}
