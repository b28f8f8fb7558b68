//! Picks: guaranteed and excluded tools, limits, and determinism. Unless stated otherwise, the
//! ranking is hybrid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use picktools::access::AccessError;
use picktools::options::{Fusion, SelectionMode};
use picktools::query::MAX_QUERY_BYTES;
use picktools::selection::{DropReason, NoMatchKind, Stage, StageStatus};
use picktools::{Access, Catalog, Engine, Mode, PickError, PickOptions, Query, Selection, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{
    KEYWORDS, WORKPLACE, catalog, engine, fixture, ids, in_mode, pick, public_ids, set, tool,
    workplace,
};

/// The requests of the fixture catalog.
pub(crate) static REQUESTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let lines = std::fs::read_to_string(fixture("catalogs/workplace/queries.jsonl"))
        .expect("the fixture is there");
    let query =
        |line| serde_json::from_str::<Value>(line).expect("the fixture is valid")["text"].take();
    lines
        .lines()
        .map(|line| query(line).as_str().expect("it has a text").to_owned())
        .collect()
});

fn bytes(selection: &Selection) -> String {
    serde_json::to_string(selection).expect("a selection serialises")
}

// Guarantees

#[test]
fn mentioned_tool_is_picked() {
    for (query, tool) in [
        ("read_file", "terminal/terminalReadFile"),
        ("  bash\n", "terminal/terminalRun"),
        ("zip", "files/compress_folder"),
        (
            "use terminalRun to count the lines of every rust file",
            "terminal/terminalRun",
        ),
        ("metrics.query", "monitoring/metrics.query"),
        (
            "please run search-flights, from ZRH to OSL",
            "travel/search-flights",
        ),
        ("I said (edit_file)!", "terminal/terminalEditFile"),
        ("`ls` of the drive", "files/list_directory"),
        ("call \"grep\" on the log", "terminal/terminalGrep"),
        ("call 'dm' to tell her", "chat/send_direct_message"),
        ("call “ps” first", "terminal/terminalListProcesses"),
        (
            "use tracker/create_issue for the leak",
            "tracker/create_issue",
        ),
        ("fx-convert 3 CHF", "fx-convert"),
        ("查询订单", "kefu-wuliu/查询订单"),
    ] {
        // No score reaches 1, so only mentioned tools are left.
        let options = PickOptions {
            min_score: 1.0,
            max_candidates: 1,
            ..PickOptions::default()
        };
        let selection = pick(&WORKPLACE, query, &options);
        assert_eq!(ids(&selection), [tool], "{query}");
        assert!(selection.picks[0].provenance.named.is_some(), "{query}");
        assert!(
            selection.picks[0]
                .reason
                .starts_with("named in the request as "),
            "{}",
            selection.picks[0].reason
        );
    }
}

#[test]
fn mention_of_shared_name_names_all_tools() {
    let options = PickOptions {
        min_score: 1.0,
        ..PickOptions::default()
    };
    let selection = pick(&WORKPLACE, "create_issue", &options);
    assert_eq!(
        ids(&selection).into_iter().collect::<BTreeSet<_>>(),
        ["forge/create_issue", "tracker/create_issue"].into()
    );
}

#[test]
fn identifier_next_to_any_character_is_found() {
    let options = PickOptions {
        min_score: 1.0,
        ..PickOptions::default()
    };
    for query in [
        "call read_file(\"/etc/hosts\")",
        "用read_file看一下",
        "read_file,terminalRun",
        "terminalReadFile's output",
    ] {
        let selection = pick(&WORKPLACE, query, &options);
        assert!(
            ids(&selection).contains(&"terminal/terminalReadFile"),
            "{query}: {:?}",
            ids(&selection)
        );
    }
}

#[test]
fn plain_word_equal_to_name_is_no_mention() {
    let options = PickOptions {
        min_score: 1.0,
        ..PickOptions::default()
    };
    for query in [
        "run the numbers",
        "kill two birds with one cat",
        "don't run what isn't mine",
        "a convert to sql",
    ] {
        let selection = pick(&WORKPLACE, query, &options);
        assert!(selection.picks.is_empty(), "{query}: {:?}", ids(&selection));
    }
    let scored = pick(&WORKPLACE, "run a command line", &PickOptions::default());
    assert_eq!(ids(&scored)[0], "terminal/terminalRun");
    assert!(scored.picks[0].provenance.named.is_none());
}

#[test]
fn mentioned_ineligible_tool_is_reported() {
    for (query, tool, name, codes) in [
        (
            "`delete_file` the old draft",
            "files/delete_file",
            "delete_file",
            vec!["unsafe"],
        ),
        (
            "kill",
            "terminal/terminalKillProcess",
            "kill",
            vec!["unsafe"],
        ),
        (
            "run forge/delete_repository now",
            "forge/delete_repository",
            "forge/delete_repository",
            vec!["unsafe", "role"],
        ),
        (
            "reset_password for Bo",
            "helpdesk/reset_password",
            "reset_password",
            vec!["role"],
        ),
    ] {
        let selection = pick(&WORKPLACE, query, &PickOptions::default());
        assert!(!ids(&selection).contains(&tool), "{query}");
        let first = &selection.ineligible.tools[0];
        assert_eq!(
            (first.tool_id.as_str(), first.named.as_deref()),
            (tool, Some(name)),
            "{query}"
        );
        assert_eq!(
            first
                .reasons
                .iter()
                .map(|reason| reason.code())
                .collect::<Vec<_>>(),
            codes,
            "{query}"
        );
        assert_eq!(
            selection
                .ineligible
                .tools
                .iter()
                .filter(|ineligible| ineligible.tool_id == tool)
                .count(),
            1
        );
    }
}

#[test]
fn empty_pick_reports_whether_a_source_is_near() {
    let near = |source: &str| {
        Some(NoMatchKind::NearSource {
            source: source.to_owned(),
        })
    };
    let strict = PickOptions {
        min_score: 0.99,
        ..PickOptions::default()
    };
    for (query, kind) in [
        ("translate good morning into Finnish", near("lingua")),
        ("mute the calendar's reminder sounds", near("calendar")),
        (
            "who won the world cup in 1998?",
            Some(NoMatchKind::OutOfScope),
        ),
        ("tell me a joke", Some(NoMatchKind::NoRequest)),
        ("", None),
        ("?!", None),
    ] {
        let selection = pick(&WORKPLACE, query, &strict);
        assert!(selection.picks.is_empty(), "{query}");
        assert_eq!(selection.nothing_fits, kind, "{query}");
    }
    let picked = pick(
        &WORKPLACE,
        "translate good morning into Finnish",
        &PickOptions::default(),
    );
    assert!(!picked.picks.is_empty() && picked.nothing_fits.is_none());
    let mut elsewhere = strict.clone();
    elsewhere.access.deny_sources = set(&["lingua"]);
    let hidden = pick(
        &WORKPLACE,
        "translate good morning into Finnish",
        &elsewhere,
    );
    assert!(
        hidden.picks.is_empty() && hidden.nothing_fits != near("lingua"),
        "{:?}",
        hidden.nothing_fits
    );
    let few = catalog([
        tool("files", "read", "Read a file."),
        tool("mail", "send", "Send a mail."),
    ]);
    let few = pick(&engine(few), "win the cup", &strict);
    assert!(few.picks.is_empty());
}

#[test]
fn surplus_mentions_are_dropped_and_reported() {
    let query = "playMusic at dusk, startVacuum, check energyUsage, then setThermostat";
    let all = pick(
        &WORKPLACE,
        query,
        &PickOptions {
            max_candidates: 4,
            ..PickOptions::default()
        },
    );
    assert_eq!(
        all.picks
            .iter()
            .filter(|pick| pick.provenance.named.is_some())
            .count(),
        4
    );
    let few = pick(
        &WORKPLACE,
        query,
        &PickOptions {
            max_candidates: 2,
            ..PickOptions::default()
        },
    );
    assert_eq!(ids(&few), ids(&all)[..2]);
    let dropped: Vec<_> = few
        .dropped
        .iter()
        .map(|dropped| (dropped.tool_id.as_str(), dropped.reason))
        .collect();
    assert_eq!(
        dropped,
        [ids(&all)[2], ids(&all)[3]].map(|tool| (tool, DropReason::MaxCandidates))
    );
    assert!(all.dropped.is_empty());
}

#[test]
fn always_included_tool_is_picked() {
    for query in [
        "list the events of my calendar and find a file",
        "book a meeting room",
        "",
        "🚀",
    ] {
        for min_score in [0.0, 0.05, 1.0] {
            let options = PickOptions {
                always_include: vec!["jisuan_yunfei".to_owned(), "dm".to_owned()],
                min_score,
                ..PickOptions::default()
            };
            let selection = pick(&WORKPLACE, query, &options);
            for tool in ["kefu-wuliu/jisuan_yunfei", "chat/send_direct_message"] {
                let included = selection.picks.iter().find(|pick| pick.tool.id == tool);
                let included = included.unwrap_or_else(|| {
                    panic!(
                        "{query:?} from {min_score} lacks {tool}: {:?}",
                        ids(&selection)
                    )
                });
                assert!(included.provenance.always_included);
                assert!(
                    included.reason.starts_with("always included by the caller"),
                    "{}",
                    included.reason
                );
            }
            assert!(selection.picks.len() <= 3);
        }
    }
}

#[test]
fn mentioned_tool_among_other_matches_is_picked() {
    let query = "list and find the events, messages, files, issues and users; search the pages; then `reservar_sala`";
    for max_candidates in 1..5 {
        let options = PickOptions {
            min_score: 0.0,
            max_candidates,
            ..PickOptions::default()
        };
        let selection = pick(&WORKPLACE, query, &options);
        assert!(
            ids(&selection).contains(&"biblioteca/reservar_sala"),
            "{max_candidates}: {:?}",
            ids(&selection)
        );
        assert_eq!(selection.picks.len(), max_candidates);
    }
}

// The cut

#[test]
fn max_per_source_limits_each_source() {
    let query = "search the messages, find events, and list files of the chat";
    let options_for = |max_per_source| PickOptions {
        max_candidates: 6,
        max_per_source,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let sources = |selection: &Selection| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for pick in &selection.picks {
            *counts
                .entry(pick.tool.source.clone().expect("the fixture has sources"))
                .or_default() += 1;
        }
        counts
    };
    let free = pick(&WORKPLACE, query, &options_for(None));
    assert!(
        sources(&free).values().any(|&count| count > 1),
        "{:?}",
        ids(&free)
    );
    for share in [1, 2] {
        let bounded = pick(&WORKPLACE, query, &options_for(Some(share)));
        assert_eq!(bounded.picks.len(), 6, "others take the places");
        assert!(
            sources(&bounded).values().all(|&count| count <= share),
            "{:?}",
            ids(&bounded)
        );
        let over = bounded
            .dropped
            .iter()
            .filter(|dropped| dropped.reason == DropReason::MaxPerSource);
        let over: Vec<&str> = over.map(|dropped| dropped.tool_id.as_str()).collect();
        assert!(
            ids(&free)
                .iter()
                .all(|id| ids(&bounded).contains(id) || over.contains(id)),
            "{over:?}"
        );
    }
}

#[test]
fn tools_below_threshold_are_counted() {
    let query = "find a free room for a meeting and send the invitation by mail";
    let eligible = public_ids(WORKPLACE.catalog()).len();
    let with = |min_score| {
        pick(
            &WORKPLACE,
            query,
            &PickOptions {
                min_score,
                max_candidates: 500,
                choice: SelectionMode::Best,
                ..PickOptions::default()
            },
        )
    };
    let all = with(0.0);
    assert!(all.picks.len() > 10);
    for min_score in [0.0, 0.01, 0.05, 0.2, 0.5, 1.0] {
        let some = with(min_score);
        let expected: Vec<&str> = all
            .picks
            .iter()
            .filter(|pick| pick.score >= min_score)
            .map(|pick| pick.tool.id.as_str())
            .collect();
        assert_eq!(ids(&some), expected, "{min_score}");
        assert_eq!(
            some.below_threshold,
            eligible - expected.len(),
            "{min_score}"
        );
    }
}

#[test]
fn every_tool_is_counted_once() {
    let total = WORKPLACE.catalog().len();
    let mut has_more = false;
    for query in [
        "find a free room for a meeting and send the invitation by mail",
        "use terminate_instance on the old web server, then post in the chat that it is done",
        "merge the contracts",
        "thanks!",
        "",
    ] {
        for max_candidates in [1, 3, 200] {
            for min_score in [0.0, 0.05, 0.5] {
                for choice in [SelectionMode::Best, SelectionMode::Set] {
                    let options = PickOptions {
                        max_candidates,
                        min_score,
                        choice,
                        ..PickOptions::default()
                    };
                    let selection = pick(&WORKPLACE, query, &options);
                    let counted = selection.picks.len()
                        + selection.required.len()
                        + selection.above_threshold
                        + selection.below_threshold
                        + selection.ineligible.total;
                    assert_eq!(counted, total, "{query}: {options:?}");
                    has_more |= selection.above_threshold > 0;
                }
            }
        }
    }
    assert!(has_more);
}

#[test]
fn equal_scores_keep_registration_order() {
    let names = ["zebra", "ant", "mole", "bee"];
    let twins = names.map(|source| tool(source, "send_mail", "Sends a mail"));
    let engine = engine(catalog(twins));
    for (fusion, k) in [
        (Fusion::Weighted, 3),
        (Fusion::Weighted, 4),
        (Fusion::Rrf { k: 60 }, 2),
    ] {
        let options = PickOptions {
            max_candidates: k,
            fusion,
            ..PickOptions::default()
        };
        let selection = pick(&engine, "send this mail", &options);
        let expected: Vec<String> = names[..k]
            .iter()
            .map(|source| format!("{source}/send_mail"))
            .collect();
        assert_eq!(ids(&selection), expected);
    }
}

#[test]
fn rank_fusion_of_one_retriever_keeps_its_order() {
    for query in [
        "book a meeting room",
        "find the contract",
        "error rate of the gateway",
    ] {
        let options = |fusion| PickOptions {
            fusion,
            min_score: 0.0,
            max_candidates: 5,
            choice: SelectionMode::Best,
            ..in_mode(Mode::Keyword)
        };
        let rrf = pick(&WORKPLACE, query, &options(Fusion::Rrf { k: 60 }));
        for (index, pick) in rrf.picks.iter().enumerate() {
            let expected = 61.0 / (61 + index) as f32;
            assert!(
                (pick.score - expected).abs() < 1e-5,
                "rank {}: {} against {expected}",
                index + 1,
                pick.score
            );
            let fusion = pick
                .provenance
                .fusion
                .as_ref()
                .expect("the retriever's part is reported");
            assert_eq!(fusion.method, Fusion::Rrf { k: 60 });
            let rank = pick
                .provenance
                .keyword
                .as_ref()
                .and_then(|keyword| keyword.rank);
            assert_eq!(rank, Some(index + 1), "{query}: {}", pick.tool.id);
        }
    }
}

// Options

#[test]
fn unknown_or_ambiguous_option_names_are_errors() {
    let with = |option: &str, name: &str| {
        let mut options = PickOptions::default();
        match option {
            "always_include" => options.always_include.push(name.to_owned()),
            "exclude" => drop(options.access.exclude.insert(name.to_owned())),
            "quarantine" => drop(options.access.quarantine.insert(name.to_owned())),
            _ => drop(options.access.quotas.insert(name.to_owned(), 0)),
        }
        WORKPLACE.pick(&Query::new("anything"), &options)
    };
    for place in ["always_include", "exclude", "quarantine", "quotas"] {
        for (unknown, near) in [
            ("list_usrs", Some("list_users")),
            ("mail/send_emial", Some("mail/send_email")),
            ("☃", None),
        ] {
            match with(place, unknown) {
                Err(PickError::Access(error @ AccessError::UnknownTool { .. })) => {
                    let text = error.to_string();
                    let AccessError::UnknownTool {
                        field,
                        name,
                        suggestion,
                    } = error
                    else {
                        unreachable!("just matched")
                    };
                    assert_eq!(
                        (field, name.as_str(), suggestion.as_deref()),
                        (place, unknown, near)
                    );
                    assert_eq!(text.contains("did you mean"), near.is_some(), "{text}");
                }
                other => panic!("{place} {unknown}: {other:?}"),
            }
        }
    }
    match with("always_include", "create_issue") {
        Err(PickError::AmbiguousTool {
            option,
            name,
            candidates,
        }) => {
            assert_eq!((option, name.as_str()), ("always_include", "create_issue"));
            assert_eq!(candidates, ["forge/create_issue", "tracker/create_issue"]);
        }
        other => panic!("{other:?}"),
    }
    assert!(
        with("exclude", "create_issue").is_ok(),
        "excluding a shared name excludes all that share it"
    );
}

#[test]
fn invalid_options_are_rejected_by_name() {
    let options = PickOptions::default;
    for (name, options) in [
        (
            "max_candidates",
            PickOptions {
                max_candidates: 0,
                ..options()
            },
        ),
        (
            "max_per_source",
            PickOptions {
                max_per_source: Some(0),
                ..options()
            },
        ),
        (
            "min_score",
            PickOptions {
                min_score: -0.1,
                ..options()
            },
        ),
        (
            "min_score",
            PickOptions {
                min_score: 1.1,
                ..options()
            },
        ),
        (
            "min_score",
            PickOptions {
                min_score: f32::NAN,
                ..options()
            },
        ),
        (
            "min_score",
            PickOptions {
                min_score: f32::INFINITY,
                ..options()
            },
        ),
    ] {
        match WORKPLACE.pick(&Query::new("anything"), &options) {
            Err(PickError::InvalidOption { option, .. }) => assert_eq!(option, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let options = PickOptions {
        access: Access {
            max_cost: Some(f64::NAN),
            ..Access::default()
        },
        ..options()
    };
    let refused = WORKPLACE.pick(&Query::new("anything"), &options);
    assert!(
        matches!(refused, Err(PickError::Access(AccessError::InvalidCost))),
        "{refused:?}"
    );
}

#[test]
fn enormous_limits_are_accepted() {
    let options = PickOptions {
        max_candidates: usize::MAX,
        max_per_source: Some(usize::MAX),
        ..PickOptions::default()
    };
    assert!(
        !pick(&WORKPLACE, "book a meeting room", &options)
            .picks
            .is_empty()
    );
    let options = PickOptions {
        always_include: vec!["dm".into()],
        max_candidates: usize::MAX,
        ..PickOptions::default()
    };
    assert!(
        pick(&WORKPLACE, "book a meeting room", &options)
            .picks
            .len()
            > 1
    );
}

// Results

/// Checks the invariants of every selection.
fn check_outcome(engine: &Engine, query: &str, options: &PickOptions) {
    let selection = pick(engine, query, options);
    assert!(selection.picks.len() <= options.max_candidates, "{query:?}");
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| (0.0..=1.0).contains(&pick.score)),
        "{query:?}"
    );
    assert!(
        selection.picks.is_sorted_by(|a, b| a.score >= b.score),
        "{query:?}: {:?}",
        ids(&selection)
    );
    assert_eq!(
        ids(&selection).iter().collect::<BTreeSet<_>>().len(),
        selection.picks.len(),
        "{query:?}"
    );
    let public = public_ids(engine.catalog());
    assert!(
        ids(&selection).iter().all(|id| public.contains(id)),
        "{query:?}: {:?}",
        ids(&selection)
    );
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| !pick.reason.is_empty() && !pick.reason.ends_with('.')),
        "{query:?}"
    );
    assert_eq!(selection.catalog_digest, engine.catalog().digest());
}

#[test]
fn selection_is_ordered_and_within_bounds() {
    for query in REQUESTS.iter() {
        for options in [
            PickOptions::default(),
            PickOptions {
                max_candidates: 50,
                min_score: 0.0,
                ..PickOptions::default()
            },
            PickOptions {
                max_candidates: 20,
                fusion: Fusion::Rrf { k: 0 },
                max_per_source: Some(2),
                ..PickOptions::default()
            },
        ] {
            check_outcome(&WORKPLACE, query, &options);
            check_outcome(&KEYWORDS, query, &options);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_request_has_a_selection(words in prop::collection::vec("\\PC{0,12}|send_email|`run`|\"|'|terminalRun|\n", 0..12), k in 1_usize..8) {
        let options = PickOptions { max_candidates: k, min_score: 0.0, debug: true, ..PickOptions::default() };
        check_outcome(&WORKPLACE, &words.join(" "), &options);
    }
}

#[test]
fn registration_order_does_not_change_scores() {
    let forward = workplace();
    let backward = catalog(
        forward
            .tools()
            .expect("readable")
            .iter()
            .rev()
            .map(|tool| Tool::clone(tool)),
    );
    let backward = engine(backward);
    let options = PickOptions {
        max_candidates: 300,
        min_score: 0.0,
        ..PickOptions::default()
    };
    for query in REQUESTS.iter().step_by(13) {
        let scores = |selection: &Selection| -> BTreeMap<String, f32> {
            selection
                .picks
                .iter()
                .map(|pick| (pick.tool.id.clone(), pick.score))
                .collect()
        };
        let (one, other) = (
            scores(&pick(&WORKPLACE, query, &options)),
            scores(&pick(&backward, query, &options)),
        );
        assert!(one.keys().eq(other.keys()), "{query}");
        assert!(
            one.values()
                .zip(other.values())
                .all(|(a, b)| (a - b).abs() < 1e-4),
            "{query}"
        );
    }
}

#[test]
fn same_request_gives_the_same_bytes() {
    let options = PickOptions {
        debug: true,
        max_candidates: 10,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let answers = || {
        REQUESTS
            .iter()
            .step_by(7)
            .map(|query| bytes(&pick(&WORKPLACE, query, &options)))
            .collect::<Vec<_>>()
    };
    let first = answers();
    thread::scope(|scope| {
        let others: Vec<_> = (0..4).map(|_| scope.spawn(answers)).collect();
        for other in others {
            assert!(
                other.join().expect("nobody panics") == first,
                "another thread gets other bytes"
            );
        }
    });
    let rebuilt = engine(workplace());
    let rebuilt: Vec<String> = REQUESTS
        .iter()
        .step_by(7)
        .map(|query| bytes(&pick(&rebuilt, query, &options)))
        .collect();
    assert!(rebuilt == first, "another engine gives other bytes");
    assert!(!first[0].contains("timing"), "times stand outside");
    let timings = pick(&WORKPLACE, "anything", &options).timings;
    assert!(timings.0.iter().any(|(stage, _)| *stage == Stage::Keyword));
}

// Various requests

#[test]
fn request_without_words_gets_no_tools_and_no_error() {
    for query in ["", "  \n\t ", "𝄞𝄢", "?!…", "\u{200b}", "、。"] {
        let selection = pick(&WORKPLACE, query, &PickOptions::default());
        assert!(
            selection.picks.is_empty(),
            "{query:?}: {:?}",
            ids(&selection)
        );
        assert!(selection.degraded.is_empty(), "{query:?}");
        assert_eq!(
            selection.below_threshold,
            public_ids(WORKPLACE.catalog()).len(),
            "{query:?}"
        );
        let keyword = selection
            .stages
            .iter()
            .find(|report| report.stage == Stage::Keyword)
            .expect("every stage reports");
        assert_eq!(
            keyword.status,
            StageStatus::Skipped {
                reason: "the request has no words".to_owned()
            },
            "{query:?}"
        );
    }
}

#[test]
fn request_of_one_megabyte_is_accepted() {
    let words = (0..200_000).map(|i| format!("w{i} ")).collect::<String>();
    for text in [
        "book a meeting room ".repeat(60_000),
        words,
        "`".repeat(1 << 20),
        "read_file ".repeat(110_000),
        "猫".repeat(1 << 19),
    ] {
        assert!(text.len() >= 1 << 20);
        let query = Query::new(text);
        assert!(query.truncated() && query.text().len() <= MAX_QUERY_BYTES);
        let selection = WORKPLACE
            .pick(&query, &PickOptions::default())
            .expect("long requests are no error");
        assert!(selection.picks.len() <= 3);
    }
    let long = format!("book a meeting room {}", "and so on ".repeat(110_000));
    let selection = WORKPLACE
        .pick(&Query::new(long), &PickOptions::default())
        .expect("long requests are no error");
    assert_eq!(ids(&selection)[0], "calendar/book_meeting_room");
}

#[test]
fn request_in_other_language_finds_its_tool() {
    for (query, tool) in [
        ("我的快递到哪儿了?单号 SF20391", "kefu-wuliu/chaxun_wuliu"),
        ("这款杯子广州仓库还有多少库存", "kefu-wuliu/库存查询"),
        ("我要投诉", "kefu-wuliu/tousu_dengji"),
        (
            "Schreib der Firma Brandt eine Rechnung",
            "buchhaltung/rechnung_erstellen",
        ),
        (
            "Bitte die Umsatzsteuer-Voranmeldung übertragen",
            "buchhaltung/umsatzsteuer_voranmeldung",
        ),
        (
            "quisiera reservar una sala de estudio",
            "biblioteca/reservar_sala",
        ),
        (
            "acheter des places pour une représentation",
            "billetterie/acheter_billet",
        ),
        ("RESERVACIÓN DE SALA", "biblioteca/reservar_sala"),
    ] {
        let options = PickOptions {
            access: Access {
                roles: set(&["buchhalter"]),
                ..Access::default()
            },
            ..PickOptions::default()
        };
        let selection = pick(&WORKPLACE, query, &options);
        assert!(
            ids(&selection).contains(&tool),
            "{query}: {:?}",
            ids(&selection)
        );
    }
}

#[test]
fn empty_catalog_gives_empty_selection() {
    let empty = engine(catalog([]));
    for query in ["", "book a meeting room", "`read_file`"] {
        for options in [
            PickOptions::default(),
            PickOptions {
                timeout: Some(Duration::ZERO),
                ..PickOptions::default()
            },
        ] {
            let selection = pick(&empty, query, &options);
            assert!(selection.picks.is_empty());
            assert_eq!(
                (selection.below_threshold, selection.ineligible.total),
                (0, 0)
            );
        }
    }
    assert_eq!(empty.stats().tools, 0);
}

#[test]
fn tool_is_found_by_every_field() {
    let entries = json!([
        {"name": "quokka_counter", "parameters": {}},
        {"name": "t1", "title": "Wombat", "parameters": {}},
        {"name": "t2", "description": "About platypuses", "parameters": {}},
        {"name": "t3", "aliases": ["echidnaFinder"], "parameters": {}},
        {"name": "t4", "tags": ["numbat"], "parameters": {}},
        {"name": "t5", "parameters": {"properties": {"bilby_id": {"type": "string"}}}},
        {"name": "t6", "parameters": {"properties": {"x": {"description": "which bandicoot"}}}},
        {"name": "t7", "parameters": {"properties": {"x": {"type": "array", "items": {"properties": {"y": {"enum": ["thylacine"]}}}}}}},
    ]);
    let engine = engine(
        Catalog::from_slice(entries.to_string().as_bytes(), "here", None)
            .expect("the catalog is valid"),
    );
    for (query, tool) in [
        ("quokka", "quokka_counter"),
        ("wombats", "t1"),
        ("a platypus", "t2"),
        ("echidna", "t3"),
        ("numbat", "t4"),
        ("bilby", "t5"),
        ("bandicoot", "t6"),
        ("thylacine", "t7"),
    ] {
        let all = PickOptions {
            min_score: 0.0,
            ..in_mode(Mode::Keyword)
        };
        assert_eq!(ids(&pick(&engine, query, &all)), [tool], "{query}");
    }
}

#[test]
fn pick_without_reasons_is_otherwise_identical() {
    let without = PickOptions {
        reasons: false,
        ..PickOptions::default()
    };
    for request in REQUESTS.iter() {
        let (told, bare) = (
            pick(&WORKPLACE, request, &PickOptions::default()),
            pick(&WORKPLACE, request, &without),
        );
        let scores = |selection: &Selection| {
            let picks = selection.picks.iter().chain(&selection.required);
            picks
                .map(|pick| (pick.tool.id.clone(), pick.score.to_bits()))
                .collect::<Vec<_>>()
        };
        assert_eq!(scores(&told), scores(&bare), "{request}");
        for pick in &bare.picks {
            assert!(
                pick.reason.is_empty()
                    && pick.provenance.keyword.is_none()
                    && pick.provenance.fusion.is_none()
            );
        }
        assert!(told.picks.iter().all(|pick| !pick.reason.is_empty()));
        assert_eq!(
            serde_json::to_value(&told.ineligible).ok(),
            serde_json::to_value(&bare.ineligible).ok()
        );
    }
}

/// Rounds every number to four places, because the last digits of a logarithm depend on the
/// platform.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            json!((number.as_f64().expect("it is one") * 1e4).round() / 1e4)
        }
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (key, rounded(value)))
            .collect(),
        other => other,
    }
}

#[test]
fn selection_json_matches_snapshot() {
    let entries = json!([
        {"name": "get_forecast", "source": "weather", "title": "Weather forecast", "description": "Rain and wind of the coming days.",
         "parameters": {"type": "object", "properties": {"town": {"type": "string", "description": "Town to look up"}}}},
        {"name": "book_room", "source": "office", "description": "Books a room in a town.", "aliases": ["reserve"], "parameters": {}},
        {"name": "drop_table", "source": "db", "description": "Deletes a table.", "parameters": {}, "safe": false, "allowed_roles": ["dba"]},
    ]);
    let engine = engine(
        Catalog::from_slice(entries.to_string().as_bytes(), "here", None)
            .expect("the catalog is valid"),
    );
    let options = PickOptions {
        debug: true,
        ..PickOptions::default()
    };
    let selection = pick(
        &engine,
        "is there rain in this town? then `reserve` it, or drop_table",
        &options,
    );
    let json = serde_json::to_value(&selection).expect("a selection serialises");
    insta::assert_snapshot!(serde_json::to_string_pretty(&rounded(json)).expect("JSON"));
}
