//! The history of a conversation: transcripts, tools in use, and sequences.

use picktools::options::{Fusion, MAX_IN_USE, SelectionMode};
use picktools::selection::{DropReason, NameOrigin, Stage, StageStatus};
use picktools::sequences::Sequences;
use picktools::{Access, Engine, PickOptions, Selection};

use crate::support::{WORKPLACE, catalog, engine, ids, pick, tool, workplace};

fn bytes(selection: &Selection) -> String {
    serde_json::to_string(selection).expect("it serialises")
}

#[test]
fn ineligible_tool_in_use_is_excluded_and_reported() {
    let options = PickOptions {
        in_use: vec!["drop_table".into()],
        ..PickOptions::default()
    };
    let selection = pick(&WORKPLACE, "weather in Oslo", &options);
    assert!(!ids(&selection).contains(&"warehouse/drop_table"));
    let first = &selection.ineligible.tools[0];
    assert_eq!(
        (first.tool_id.as_str(), first.named.as_deref()),
        ("warehouse/drop_table", Some("drop_table"))
    );
    assert_eq!(
        first.asked_by,
        Some(NameOrigin::Task),
        "the request does not name it"
    );
}

#[test]
fn latest_tools_in_use_stay_and_shared_name_means_all() {
    let engine = engine(catalog(
        (0..40).map(|number| tool("s", &format!("tool_{number}"), "")),
    ));
    let in_use = (0..40).map(|number| format!("tool_{number}")).collect();
    let selection = pick(
        &engine,
        "zzz",
        &PickOptions {
            in_use,
            choice: SelectionMode::Best,
            ..PickOptions::default()
        },
    );
    let picked_ids = ids(&selection);
    let stays = selection
        .picks
        .iter()
        .filter(|pick| pick.provenance.in_use.is_some())
        .count();
    assert_eq!(stays, MAX_IN_USE);
    assert!(picked_ids.contains(&"s/tool_39") && picked_ids.contains(&"s/tool_24"));
    let over = selection
        .dropped
        .iter()
        .filter(|dropped| dropped.reason == DropReason::MaxInUse)
        .count();
    assert_eq!(
        over + picked_ids.len(),
        40,
        "one that was used longer ago has to fit the request"
    );
    let shared = PickOptions {
        in_use: vec!["get_forecast".into()],
        ..PickOptions::default()
    };
    let selection = pick(&WORKPLACE, "play some jazz", &shared);
    assert!(
        ["weather/get_forecast", "skywatch/get_forecast"]
            .iter()
            .all(|id| ids(&selection).contains(id))
    );
}

fn travel(sequences: &str) -> Engine {
    let tools = catalog([
        tool("t", "find_flight", "Searches flights between two cities"),
        tool("t", "geocode", "Gives the coordinates of a place"),
        tool(
            "t",
            "exchange_rate",
            "Tells what one currency is worth in another",
        ),
        tool("t", "paint", "Paints a picture of a flight"),
    ]);
    let sequences = Sequences::from_slice(sequences.as_bytes(), "test").expect("well formed");
    Engine::builder(tools)
        .sequences(sequences)
        .build()
        .expect("the engine is valid")
}

const HABIT: &str = "[\"find_flight\", \"paint\"]\n{\"tools\": [\"find_flight\", \"exchange_rate\"]}\n[\"geocode\"]\n";

#[test]
fn tool_called_with_tool_in_use_is_raised_with_evidence() {
    let engine = travel(&HABIT.repeat(20));
    let low = |in_use: &[&str]| PickOptions {
        in_use: in_use.iter().map(|&name| name.to_owned()).collect(),
        min_score: 0.0,
        ..PickOptions::default()
    };
    let text = "what does the flight from Oslo to Rome cost in crowns";
    let (without, with) = (
        pick(&engine, text, &low(&[])),
        pick(&engine, text, &low(&["find_flight"])),
    );
    let score = |selection: &Selection| {
        selection
            .picks
            .iter()
            .find(|pick| pick.tool.name == "exchange_rate")
            .map(|pick| pick.score)
    };
    assert!(
        score(&with) > score(&without),
        "{:?} {:?}",
        score(&with),
        score(&without)
    );
    let raised = with
        .picks
        .iter()
        .find(|pick| pick.tool.name == "exchange_rate")
        .expect("it is picked");
    let prior = raised.provenance.prior.as_ref().expect("it has gained");
    let [by] = &prior.by[..] else {
        panic!("it gains by one tool: {prior:?}")
    };
    assert_eq!((by.tool_id.as_str(), by.together), ("t/find_flight", 20));
    assert!((by.expected - 40.0 * 20.0 / 60.0).abs() < 1e-4);
    assert!((by.log_ratio - (21.0_f32 / (1.0 + by.expected)).ln()).abs() < 1e-5);
    let fusion = raised.provenance.fusion.as_ref().expect("it is fused");
    let parts: f32 = fusion
        .parts
        .values()
        .map(|part| part.weight * part.score)
        .sum();
    assert!((parts + prior.gain - fusion.value).abs() < 1e-3);
    assert!(
        raised
            .reason
            .contains("called together with \"t/find_flight\" (in use) in 20 tasks"),
        "{}",
        raised.reason
    );
    assert!(
        with.picks
            .iter()
            .find(|pick| pick.tool.name == "geocode")
            .is_none_or(|pick| pick.provenance.prior.is_none())
    );
}

#[test]
fn sequence_alone_lifts_no_tool_over_threshold() {
    let engine = travel(&HABIT.repeat(1000));
    for text in [
        "geocode Rome",
        "flights between two cities",
        "zzz",
        "a picture of a flight",
    ] {
        let options = PickOptions {
            in_use: vec!["find_flight".into()],
            max_candidates: 4,
            ..PickOptions::default()
        };
        let admitted = |engine: &Engine| {
            let selection = pick(engine, text, &options);
            let mut ids: Vec<String> = ids(&selection).into_iter().map(str::to_owned).collect();
            ids.sort_unstable();
            (ids, selection.below_threshold)
        };
        assert_eq!(admitted(&engine), admitted(&travel("")), "{text}");
    }
}

#[test]
fn ineligible_sequence_tool_does_not_change_answerability() {
    let options = PickOptions {
        in_use: vec!["find_flight".into()],
        access: Access {
            exclude: ["t/paint".to_owned()].into(),
            ..Access::default()
        },
        ..PickOptions::default()
    };
    let habit = "[\"find_flight\", \"paint\"]\n[\"geocode\"]\n".repeat(1000);
    for text in [
        "a picture of a flight",
        "flights between two cities",
        "paint my dog",
    ] {
        let estimate = |sequences: &str| pick(&travel(sequences), text, &options).answerable;
        assert_eq!(estimate(&habit), estimate(""), "{text}");
    }
}

#[test]
fn popular_tool_with_option_ranks_before_equals() {
    let likes = || {
        catalog(
            ["red", "green", "blue"].map(|name| tool("t", name, "Sends a letter to a customer")),
        )
    };
    let with = |sequences: &str| {
        let sequences = Sequences::from_slice(sequences.as_bytes(), "test").expect("well formed");
        Engine::builder(likes())
            .sequences(sequences)
            .build()
            .expect("the engine is valid")
    };
    let engine = with(&("[\"blue\"]\n".repeat(500) + "[\"red\"]\n[\"green\"]\n"));
    let options = |popularity, min_score| PickOptions {
        popularity,
        min_score,
        ..PickOptions::default()
    };
    let text = "send a letter to the customer";
    let (without, counted) = (
        pick(&engine, text, &options(false, 0.0)),
        pick(&engine, text, &options(true, 0.0)),
    );
    assert!(
        ids(&without)[0] != "t/blue" && ids(&counted)[0] == "t/blue",
        "{:?} {:?}",
        ids(&without),
        ids(&counted)
    );
    let blue = &counted.picks[0];
    let popular = blue
        .provenance
        .prior
        .as_ref()
        .and_then(|prior| prior.popular.as_ref())
        .expect("it has gained");
    assert_eq!(popular.tasks, 500);
    let expected = (501.0_f32 / (502.0 / 3.0 + 1.0)).ln();
    assert!((popular.log_ratio - expected).abs() < 1e-5, "{popular:?}");
    assert!(
        blue.reason.contains("called in 500 tasks"),
        "{}",
        blue.reason
    );
    // Popularity lifts a tool no further than its text allows.
    for text in ["send a letter to the customer", "paint the wall", "zzz"] {
        let admitted = |popularity| {
            let selection = pick(&engine, text, &options(popularity, 0.3));
            let mut ids: Vec<String> = ids(&selection).into_iter().map(str::to_owned).collect();
            ids.sort_unstable();
            (ids, selection.below_threshold)
        };
        assert_eq!(admitted(true), admitted(false), "{text}");
    }
}

#[test]
fn unrelated_sequences_change_nothing() {
    let plain = engine(workplace());
    let with = |sequences: &str| {
        let sequences = Sequences::from_slice(sequences.as_bytes(), "test").expect("well formed");
        Engine::builder(workplace())
            .sequences(sequences)
            .build()
            .expect("the engine is valid")
    };
    let same = |other: &Engine, options: &PickOptions| {
        let strip = |mut selection: Selection| {
            selection
                .stages
                .retain(|report| report.stage != Stage::Prior);
            bytes(&selection)
        };
        let text = "search the wiki for the travel policy and mail it to Anna";
        assert_eq!(
            strip(pick(other, text, options)),
            strip(pick(&plain, text, options))
        );
    };
    let in_use = PickOptions {
        in_use: vec!["wiki/get_page".into()],
        debug: true,
        ..PickOptions::default()
    };
    let foreign = with("[\"alpha\", \"beta\"]\n[\"wiki/get_page\", \"beta\"]");
    assert_eq!(
        foreign
            .sequence_stats()
            .expect("there are sequences")
            .unknown,
        2
    );
    same(&foreign, &in_use);
    let known_sequences = with(
        "[\"wiki/get_page\", \"mail/send_email\"]\n[\"wiki/get_page\", \"mail/send_email\"]\n[\"bash\"]",
    );
    same(
        &known_sequences,
        &PickOptions {
            debug: true,
            ..PickOptions::default()
        },
    );
    let ranks = PickOptions {
        fusion: Fusion::Rrf { k: 60 },
        ..in_use.clone()
    };
    same(&known_sequences, &ranks);
    let prior = |options: &PickOptions| {
        let stages = pick(&known_sequences, "mail it", options).stages;
        stages
            .into_iter()
            .find(|report| report.stage == Stage::Prior)
            .expect("it is told")
            .status
    };
    assert_eq!(prior(&in_use), StageStatus::Ran);
    assert_eq!(
        prior(&PickOptions::default()),
        StageStatus::Skipped {
            reason: "no tool is in use".into()
        }
    );
    assert!(matches!(prior(&ranks), StageStatus::Skipped { .. }));
}
