//! The truth of a pick: scores, reasons, and the report of ineligible tools.

use picktools::access::IneligibleReason;
use picktools::options::{BlockedReporting, Fusion};
use picktools::selection::{ConsideredCandidate, UncalibratedReason};
use picktools::{Access, Mode, PickOptions, Tool};

use crate::picking::REQUESTS;
use crate::support::{WORKPLACE, catalog, engine, ids, in_mode, pick, tool};

#[test]
fn answerability_is_at_least_every_score() {
    for mode in [Mode::Keyword, Mode::Semantic, Mode::Hybrid] {
        for request in REQUESTS.iter() {
            let selection = pick(
                &WORKPLACE,
                request,
                &PickOptions {
                    min_score: 0.0,
                    ..in_mode(mode)
                },
            );
            let answerable = selection
                .answerable
                .expect("the built-in ranking estimates it");
            assert!(
                selection.picks.iter().all(|pick| pick.score <= answerable),
                "{mode:?}: {request}"
            );
            assert_eq!(selection.uncalibrated, None);
        }
    }
}

#[test]
fn uncalibrated_scores_are_reported() {
    let ranks = PickOptions {
        fusion: Fusion::Rrf { k: 60 },
        ..PickOptions::default()
    };
    assert_eq!(
        pick(&WORKPLACE, "send an email", &ranks).uncalibrated,
        Some(UncalibratedReason::Ranks)
    );
}

#[test]
fn only_tool_that_does_not_fit_scores_low() {
    let alone = engine(catalog([tool("home", "lockDoor", "Locks a door")]));
    let all = PickOptions {
        min_score: 0.0,
        ..PickOptions::default()
    };
    let unrelated = pick(&alone, "sing me a song of the sea", &all);
    assert_eq!(unrelated.uncalibrated, None);
    assert!(
        unrelated.picks[0].score < 0.2,
        "{}",
        unrelated.picks[0].score
    );
    let default = PickOptions::default();
    assert!(
        pick(&alone, "sing me a song of the sea", &default)
            .picks
            .is_empty()
    );
    let related = pick(&alone, "please lock the door", &default);
    assert!(related.picks[0].score > 0.5, "{}", related.picks[0].score);
}

#[test]
fn best_ineligible_match_is_reported_with_reasons() {
    let blocked_match = |tell_blocked, access| {
        let options = PickOptions {
            tell_blocked,
            access,
            ..PickOptions::default()
        };
        pick(&WORKPLACE, "lock the front door", &options)
    };
    let selection = blocked_match(BlockedReporting::ExceptRoles, Access::default());
    let blocked = selection.blocked.expect("a better tool is unsafe");
    assert_eq!(
        (blocked.tool_id.as_str(), &*blocked.reasons),
        ("home/lockDoor", &[IneligibleReason::Unsafe][..])
    );
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| pick.score < blocked.score)
    );
    assert_eq!(
        blocked_match(BlockedReporting::Never, Access::default()).blocked,
        None
    );
    let allowed = blocked_match(
        BlockedReporting::ExceptRoles,
        Access {
            allow_unsafe: true,
            ..Access::default()
        },
    );
    assert_eq!(
        (ids(&allowed)[0], &allowed.blocked),
        ("home/lockDoor", &None)
    );

    let mut secret = tool("vault", "read_key", "Reads a key from the vault");
    secret.allowed_roles = ["admin".to_owned()].into();
    let engine = engine(catalog([
        secret,
        tool("chat", "post_message", "Posts a message"),
    ]));
    let blocked_match = |tell_blocked| {
        pick(
            &engine,
            "read the key",
            &PickOptions {
                tell_blocked,
                ..PickOptions::default()
            },
        )
        .blocked
    };
    assert_eq!(
        blocked_match(BlockedReporting::default()),
        None,
        "who has not the role need not learn of the tool"
    );
    assert_eq!(
        blocked_match(BlockedReporting::Always).map(|blocked| blocked.tool_id),
        Some("vault/read_key".to_owned())
    );
}

#[test]
fn word_with_same_stem_only_is_no_evidence() {
    let request =
        "use terminate_instance on the old web server, then post in the chat that it is done";
    let selection = pick(
        &WORKPLACE,
        request,
        &PickOptions {
            debug: true,
            ..PickOptions::default()
        },
    );
    assert!(
        !ids(&selection).contains(&"terminal/terminalRun"),
        "{:?}",
        ids(&selection)
    );
    let terminates = |considered: &ConsideredCandidate| {
        let terms = considered
            .provenance
            .keyword
            .iter()
            .flat_map(|keyword| &keyword.terms);
        terms
            .filter(|term| term.word == "terminate")
            .map(|term| term.meets.to_lowercase())
            .collect::<Vec<_>>()
    };
    let met: Vec<String> = selection
        .considered
        .iter()
        .flatten()
        .flat_map(terminates)
        .collect();
    assert!(
        met.iter().all(|word| word.starts_with("terminat")),
        "{met:?}"
    );
}

#[test]
fn foreign_function_word_is_no_evidence() {
    for (request, function_words) in [
        ("el tiempo de Madrid", &["el", "de"][..]),
        (
            "Wie ist das Wetter in der Stadt",
            &["wie", "ist", "das", "der"],
        ),
        ("envoie le rapport à Marie", &["le", "à"]),
        (
            "prenota un tavolo per due al ristorante",
            &["un", "per", "al"],
        ),
    ] {
        let selection = pick(
            &WORKPLACE,
            request,
            &PickOptions {
                debug: true,
                ..PickOptions::default()
            },
        );
        for ConsideredCandidate {
            tool_id,
            provenance,
            ..
        } in selection.considered.iter().flatten()
        {
            let matched = provenance
                .keyword
                .iter()
                .flat_map(|keyword| &keyword.terms)
                .map(|term| &term.word);
            let near = provenance
                .semantic
                .iter()
                .flat_map(|semantic| &semantic.words)
                .map(|word| &word.word);
            for word in matched.chain(near) {
                assert!(
                    !function_words.contains(&word.to_lowercase().as_str()),
                    "{request}: {word:?} of {tool_id}"
                );
            }
        }
    }
}

#[test]
fn reason_quotes_the_tools_form_of_a_word() {
    let engine = engine(catalog([Tool::without_arguments(
        "book_hotel",
        "Makes a Booking at one of many hotels",
    )]));
    let selection = pick(
        &engine,
        "bookings in hotels, HOTEL by hotel",
        &in_mode(Mode::Keyword),
    );
    let best = &selection.picks[0];
    assert!(
        best.reason
            .contains("match \"bookings\" (as \"book\") and \"hotels\" (as \"hotel\")"),
        "{}",
        best.reason
    );
    let terms = &best.provenance.keyword.as_ref().expect("words match").terms;
    let met: Vec<_> = terms
        .iter()
        .map(|term| (term.word.as_str(), term.meets.as_str()))
        .collect();
    assert_eq!(
        met,
        [
            ("bookings", "book"),
            ("hotels", "hotel"),
            ("bookings in hotels", "book_hotel")
        ]
    );
    assert!(
        pick(&engine, "Hotel", &in_mode(Mode::Keyword)).picks[0]
            .reason
            .contains("\"Hotel\"")
    );
}
