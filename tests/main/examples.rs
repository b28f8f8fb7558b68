//! Examples: their effect, its limits, and identical picks without them.

use picktools::catalog::FaultKind;
use picktools::embed::{Embedder as _, StaticEmbedder, TextRole};
use picktools::examples::{Example, Examples, MAX_PER_TOOL, Vocabulary};
use picktools::options::Fusion;
use picktools::selection::{ExampleOrigin, Stage, StageStatus};
use picktools::{CatalogOptions, Engine, Mode, PickOptions, Query, Selection};
use proptest::prelude::*;

use crate::support::{KEYWORDS, WORKPLACE, catalog, engine, ids, in_mode, pick, tool, workplace};

/// A request that shares no word with its tool.
const REQUEST: &str = "my gizmo is bust again, who can have a look?";
const SERVED: &str = "the gizmo is bust";
const FOR: &str = "helpdesk/create_ticket";

fn bytes(selection: &Selection) -> String {
    serde_json::to_string(selection).expect("it serialises")
}

fn with(examples: &[(&str, &str)]) -> Engine {
    let mut list = Examples::default();
    list.extend(
        examples
            .iter()
            .map(|&(tool, request)| Example::new(tool, request)),
    );
    Engine::builder(workplace())
        .examples(list)
        .build()
        .expect("the static model needs nothing")
}

fn place(selection: &Selection, id: &str) -> Option<usize> {
    ids(selection).iter().position(|pick| *pick == id)
}

#[test]
fn example_like_request_raises_tool_with_reason() {
    let options = PickOptions {
        max_candidates: 10,
        ..PickOptions::default()
    };
    let engine = with(&[(FOR, SERVED)]);
    assert!(place(&pick(&WORKPLACE, REQUEST, &options), FOR).is_none_or(|place| place > 0));
    for options in [
        options.clone(),
        in_mode(Mode::Keyword),
        in_mode(Mode::Semantic),
    ] {
        let selection = pick(&engine, REQUEST, &options);
        assert_eq!(place(&selection, FOR), Some(0), "{:?}", options.mode);
        let pick = &selection.picks[0];
        assert!(
            pick.reason
                .starts_with(&format!("similar to a request it served: {SERVED:?}; ")),
            "{}",
            pick.reason
        );
        let examples = pick
            .provenance
            .examples
            .as_ref()
            .expect("they add something");
        assert_eq!(
            (&*examples.nearest, examples.origin),
            (SERVED, ExampleOrigin::Served)
        );
        assert!(examples.gain > 0.0 && examples.share > 0.5 && examples.share <= 1.0);
        assert_eq!(
            selection
                .stages
                .iter()
                .filter(|report| report.stage == Stage::Examples)
                .count(),
            1
        );
        let ranked = selection
            .picks
            .windows(2)
            .all(|pair| pair[0].score >= pair[1].score);
        assert!(ranked && (0.0..=1.0).contains(&pick.score));
    }
    let score_before = pick(&WORKPLACE, REQUEST, &PickOptions::default())
        .answerable
        .expect("it is estimated");
    let after = pick(&engine, REQUEST, &PickOptions::default())
        .answerable
        .expect("it is estimated");
    assert!(
        after > score_before,
        "what was served before is likelier to be served again: {score_before} {after}"
    );
}

#[test]
fn example_like_subquery_raises_tool() {
    let engine = with(&[(FOR, SERVED)]);
    let request = "Show me the air quality readings in Krakow and then look why the gizmo is bust";
    let selection = pick(&engine, request, &PickOptions::default());
    assert!(
        place(&selection, FOR).is_some() && place(&selection, "weather/get_air_quality").is_some(),
        "{:?}",
        ids(&selection)
    );
}

#[test]
fn request_is_compared_with_centroid_of_text_and_examples() {
    let model = StaticEmbedder::shared().expect("it is part of the library");
    let embed = |role, text: &str| {
        model
            .embed(role, &[text], &|_| {})
            .expect("it embeds")
            .remove(0)
    };
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    // Examples that differ only in numbers are duplicates.
    let many = ["kitchen", "hall", "garden", "cellar", "garage", "office"]
        .into_iter()
        .flat_map(|room| {
            ["bust", "broken", "mute", "hot"].map(|how| format!("the gizmo in the {room} is {how}"))
        });
    let many: Vec<String> = many.collect();
    for (examples, weight) in [
        (vec![], 0.5),
        (vec![SERVED], 0.5),
        (vec![SERVED, "please mend the kettle"], 0.5),
        (vec!["who won the cup in 1974?"], 0.5),
        (many.iter().map(String::as_str).collect(), 0.5 * 8.0 / 24.0),
    ] {
        let mut helpdesk = tool(
            "helpdesk",
            "create_ticket",
            "Opens a ticket for the technicians",
        );
        helpdesk.examples = examples.iter().map(|&example| example.to_owned()).collect();
        let engine = engine(catalog([helpdesk]));
        let text_vectors = embed(
            TextRole::Document,
            "create ticket: Opens a ticket for the technicians",
        );
        let mut centre = text_vectors.clone();
        for example in &examples {
            centre
                .iter_mut()
                .zip(embed(TextRole::Query, example))
                .for_each(|(sum, value)| *sum += weight * value);
        }
        for sentences in [
            &["have somebody look at my broken gizmo"][..],
            &[
                "the gizmo is bust.",
                "please mend the kettle.",
                "who won the cup in 1974?",
            ],
        ] {
            let request = sentences.join(" ");
            // Half the whole request and half its nearest sentence.
            let similar_to = |vector: &[f32]| {
                let to = |text: &str| {
                    dot(&embed(TextRole::Query, text), vector) / dot(vector, vector).sqrt()
                };
                let best = sentences
                    .iter()
                    .map(|sentence| to(sentence))
                    .fold(f32::NEG_INFINITY, f32::max);
                f32::midpoint(to(&request), best)
            };
            let scores = engine
                .retriever_scores(&Query::new(&*request), &in_mode(Mode::Semantic))
                .expect("it ranks");
            let (found, wanted) = (
                scores[0].scores[0],
                similar_to(&centre).max(similar_to(&text_vectors)),
            );
            assert!(
                (found - wanted).abs() < 0.005,
                "{request}: {examples:?}: {found} is not {wanted}"
            );
        }
    }
}

#[test]
fn pick_without_examples_is_identical() {
    let none = Engine::builder(workplace())
        .examples(Examples::default())
        .build()
        .expect("it builds");
    let learned = WORKPLACE
        .learn([("no_such_tool", SERVED), (FOR, "and the")])
        .expect("it learns nothing");
    assert_eq!(
        learned.example_stats().map(|stats| stats.unknown.clone()),
        Some(vec!["no_such_tool".to_owned()])
    );
    for request in [
        REQUEST,
        "book a room and mail it",
        "",
        "read_file",
        "Where is my parcel? Also pay the invoice.",
    ] {
        for debug in [false, true] {
            let options = PickOptions {
                debug,
                ..PickOptions::default()
            };
            let plain = bytes(&pick(&WORKPLACE, request, &options));
            assert!(!plain.contains("examples"), "{plain}");
            assert_eq!(bytes(&pick(&none, request, &options)), plain);
            assert_eq!(bytes(&pick(&learned, request, &options)), plain);
        }
    }
}

#[test]
fn same_examples_from_any_origin_rank_alike() {
    let workplace = workplace();
    let in_catalog = workplace.tools().expect("readable").iter().map(|tool| {
        let mut tool = (**tool).clone();
        if tool.id == FOR {
            tool.examples = vec![SERVED.to_owned()];
        }
        tool
    });
    let in_catalog = engine(catalog(in_catalog.collect::<Vec<_>>()));
    let picked = |engine: &Engine| {
        let selection = pick(engine, REQUEST, &PickOptions::default());
        selection
            .picks
            .iter()
            .map(|pick| (pick.tool.id.clone(), pick.score.to_bits()))
            .collect::<Vec<_>>()
    };
    let expected = picked(&with(&[(FOR, SERVED)]));
    assert_eq!(picked(&in_catalog), expected);
    assert_eq!(
        picked(
            &WORKPLACE
                .learn([("create_ticket", SERVED)])
                .expect("it learns")
        ),
        expected
    );
    let reason = &pick(&in_catalog, REQUEST, &PickOptions::default()).picks[0].reason;
    assert!(
        reason.contains("similar to an example in its definition"),
        "{reason}"
    );
}

#[test]
fn examples_of_untrusted_source_are_ignored_and_reported() {
    let mut stranger = tool("stranger", "fetch", "Fetches");
    stranger.examples = vec![SERVED.to_owned()];
    let options = CatalogOptions {
        untrusted_sources: ["stranger".to_owned()].into(),
        ..CatalogOptions::default()
    };
    let catalog = options
        .collect([stranger, tool("own", "send", "Sends")])
        .expect("valid");
    let [notice] = catalog.notices() else {
        panic!("one notice: {:?}", catalog.notices())
    };
    assert_eq!(
        (notice.kind, &*notice.pointer),
        (FaultKind::UntrustedExamples, "/examples")
    );
    assert!(catalog.tools().expect("readable")[0].examples.is_empty());
    assert!(engine(catalog.clone()).example_stats().is_none());
    // The operator's examples count.
    let engine = engine(catalog)
        .learn([("fetch", SERVED)])
        .expect("it learns");
    let all = PickOptions {
        min_score: 0.0,
        ..PickOptions::default()
    };
    assert_eq!(ids(&pick(&engine, REQUEST, &all))[0], "stranger/fetch");
}

#[test]
fn repeated_example_gains_no_more_than_its_share() {
    let requests: Vec<String> = (0..1_000_u32)
        .map(|number| {
            let word: String = number
                .to_string()
                .chars()
                .map(|digit| char::from(b'k' + digit as u8 - b'0'))
                .collect();
            format!("the air quality readings of {word} please")
        })
        .collect();
    let greedy = WORKPLACE
        .learn(requests.iter().map(|request| (FOR, request.as_str())))
        .expect("it learns");
    let stats = greedy.example_stats().expect("there are some");
    assert_eq!((stats.examples, stats.tools), (MAX_PER_TOOL, 1));
    let repeated = greedy
        .learn(requests.iter().map(|request| (FOR, request.as_str())))
        .expect("it learns");
    assert_eq!(
        repeated.example_stats(),
        greedy.example_stats(),
        "nothing more comes in"
    );
    // Other requests are served as before.
    for request in [
        "book a meeting room",
        "pay the invoice of March",
        "who merged the pull request?",
    ] {
        let options = PickOptions::default();
        assert_eq!(
            ids(&pick(&greedy, request, &options))[0],
            ids(&pick(&WORKPLACE, request, &options))[0],
            "{request}"
        );
    }
}

#[test]
fn tool_without_examples_is_not_drowned() {
    let many: Vec<(String, String)> = WORKPLACE
        .catalog()
        .tools()
        .expect("readable")
        .iter()
        .filter(|tool| tool.id != "calendar/book_meeting_room")
        .flat_map(|tool| {
            [
                "please take care of this for me",
                "can you have a look at the other thing for us",
                "do the usual with the new one",
            ]
            .map(|request| (tool.id.clone(), request.to_owned()))
        })
        .collect();
    let engine = with(
        &many
            .iter()
            .map(|(tool, request)| (&**tool, &**request))
            .collect::<Vec<_>>(),
    );
    for request in [
        "book a meeting room",
        "please reserve a meeting room for us",
        "can you find us a room to meet in?",
    ] {
        let options = PickOptions::default();
        let score_before = pick(&WORKPLACE, request, &options);
        let after = pick(&engine, request, &options);
        assert_eq!(
            place(&score_before, "calendar/book_meeting_room"),
            place(&after, "calendar/book_meeting_room"),
            "{request}"
        );
    }
}

#[test]
fn rank_fusion_and_scorers_use_examples() {
    let engine = with(&[(FOR, SERVED)]);
    let ranks = PickOptions {
        fusion: Fusion::Rrf { k: 60 },
        ..PickOptions::default()
    };
    assert_eq!(ids(&pick(&engine, REQUEST, &ranks))[0], FOR);
    let scorer = std::sync::Arc::new(engine.scorer(Mode::Hybrid));
    let scored = Engine::builder(workplace())
        .scorer(scorer)
        .build()
        .expect("it builds");
    assert_eq!(
        ids(&pick(&scored, REQUEST, &PickOptions::default()))[0],
        FOR
    );
    // An engine with a custom scorer reports that its examples had no effect.
    let mut list = Examples::default();
    list.push(Example::new(FOR, SERVED));
    let idle = Engine::builder(workplace())
        .scorer(std::sync::Arc::new(KEYWORDS.scorer(Mode::Keyword)))
        .examples(list);
    let selection = pick(
        &idle.build().expect("it builds"),
        REQUEST,
        &PickOptions::default(),
    );
    let of_examples = selection
        .stages
        .iter()
        .find(|report| report.stage == Stage::Examples)
        .expect("it is told");
    assert!(matches!(of_examples.status, StageStatus::Skipped { .. }));
}

fn pairs() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let name = prop::sample::select(vec![
        FOR,
        "book_meeting_room",
        "weather/get_air_quality",
        "nobody",
    ]);
    let word = prop::sample::select(vec![
        "gizmo",
        "bust",
        "Oslo",
        "the",
        "rain",
        "\"quoted\"",
        "12",
        "mail@example.org",
        "book",
    ]);
    let request = prop::collection::vec(word, 0..5).prop_map(|words| words.join(" "));
    prop::collection::vec((name, request), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn learned_engine_equals_built_engine(pairs in pairs(), cut in 0..30_usize) {
        let vocabulary = Vocabulary::from_catalog(WORKPLACE.catalog()).expect("readable");
        let mut list = Examples::default();
        for (tool, request) in &pairs {
            list.learn(tool, request, &vocabulary);
        }
        let built = Engine::builder(workplace()).examples(list).build().expect("it builds");
        let borrowed: Vec<(&str, &str)> = pairs.iter().map(|(tool, request)| (*tool, &**request)).collect();
        let (first, then) = borrowed.split_at(cut.min(borrowed.len()));
        let learned = WORKPLACE.learn(first.iter().copied()).and_then(|engine| engine.learn(then.iter().copied()));
        let learned = learned.expect("it learns");
        prop_assert_eq!(learned.example_stats(), built.example_stats());
        let options = PickOptions { debug: true, max_candidates: 20, ..PickOptions::default() };
        for request in [REQUEST, "rain in Oslo?", "book a room"] {
            prop_assert_eq!(bytes(&pick(&learned, request, &options)), bytes(&pick(&built, request, &options)));
        }
    }
}
