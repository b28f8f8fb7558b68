//! Scorers that a caller gives with a request.

use std::sync::Arc;
use std::time::Instant;

use picktools::scorer::{Score, Scorer};
use picktools::selection::Stage;
use picktools::{PickOptions, Query, Selection, Tool, pick_tools_with};

use crate::scoring::{AT_MOST, Answer, BlockingScorer, DEADLINE, Scripted};
use crate::support::{WORKPLACE, ids, pick, set, tool};

/// Tools of one call: two that anybody may use, and one for a role.
fn given_tools() -> Vec<Tool> {
    let mut refund = tool("shop", "refund", "Sends a customer their money back");
    refund.allowed_roles = set(&["finance"]);
    vec![
        tool("office", "book_room", "Books a meeting room"),
        tool("weather", "get_forecast", "Weather for the coming days"),
        refund,
    ]
}

/// Gives each tool the score of its name, and all others 0.
fn by_name(scores: &'static [(&'static str, f32)]) -> Arc<dyn Scorer> {
    Arc::new(Scripted(move |_: &Query, tools: &[Arc<Tool>]| {
        let score = |tool: &Arc<Tool>| scores.iter().find(|(name, _)| *name == tool.name);
        let scores = tools
            .iter()
            .map(|tool| score(tool).map_or(0.0, |(_, score)| *score));
        Ok(scores.map(Score::new).collect())
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn pick_tools_with_ranks_by_the_given_scorer() {
    let scores = &[("get_forecast", 0.4), ("book_room", 0.9), ("refund", 1.0)];
    let pick = || async {
        let (query, options) = ("will it rain tomorrow?", PickOptions::default());
        let picked = pick_tools_with(query, given_tools(), options, by_name(scores)).await;
        picked.expect("the tools are valid")
    };
    let selection = pick().await;
    assert_eq!(
        ids(&selection),
        ["office/book_room", "weather/get_forecast"]
    );
    assert_eq!(selection.scorer, "scripted");
    assert_eq!(selection.ineligible.total, 1, "the policy is decided first");
    let bytes = |selection: &Selection| serde_json::to_string(selection).expect("it is JSON");
    assert_eq!(bytes(&selection), bytes(&pick().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn pick_tools_with_a_faulty_scorer_keeps_the_order() {
    type Answering = fn(&Query, &[Arc<Tool>]) -> Answer;
    let faults: [(Answering, &str); 3] = [
        (|_, _| panic!("on purpose"), "panicked"),
        (
            |_, _| Ok(vec![Score::new(1.0)]),
            "gave 1 scores for 2 tools",
        ),
        (
            |_, tools| Ok(vec![Score::new(1.0); tools.len() + 1]),
            "gave 3 scores for 2 tools",
        ),
    ];
    for (answer, reason) in faults {
        let (options, scorer) = (PickOptions::default(), Arc::new(Scripted(answer)));
        let picked = pick_tools_with("will it rain?", given_tools(), options, scorer).await;
        let selection = picked.expect("a fault of a scorer is not an error");
        assert_eq!(
            ids(&selection),
            ["office/book_room", "weather/get_forecast"],
            "{reason}"
        );
        let [degraded] = &selection.degraded[..] else {
            panic!("one stage is degraded: {:?}", selection.degraded)
        };
        assert!(degraded.reason.contains(reason), "{}", degraded.reason);
    }
    let not_a_number = by_name(&[("book_room", f32::NAN), ("get_forecast", 0.5)]);
    let options = PickOptions::default();
    let picked = pick_tools_with("will it rain?", given_tools(), options, not_a_number).await;
    let selection = picked.expect("a fault of a scorer is not an error");
    assert_eq!(ids(&selection), ["weather/get_forecast"]);
    assert!(selection.scorer_errors[0].contains("book_room"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pick_tools_with_a_late_scorer_ends_at_its_deadline() {
    let options = PickOptions {
        timeout: Some(DEADLINE),
        ..PickOptions::default()
    };
    let started = Instant::now();
    let scorer = Arc::new(BlockingScorer);
    let picked = pick_tools_with("will it rain?", given_tools(), options, scorer).await;
    assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
    let selection = picked.expect("being late is not an error");
    assert_eq!(
        ids(&selection),
        ["office/book_room", "weather/get_forecast"]
    );
    assert!(selection.degraded[0].reason.contains("deadline"));
}

#[test]
fn engine_with_another_scorer_shares_the_rest() {
    let scored = WORKPLACE.with_scorer(by_name(&[("playMusic", 0.9)]), None);
    let selection = pick(&scored, "book a meeting room", &PickOptions::default());
    assert_eq!(ids(&selection), ["home/playMusic"]);
    let unchanged = pick(&WORKPLACE, "book a meeting room", &PickOptions::default());
    assert_ne!(ids(&unchanged), ids(&selection));
    let failing: Arc<dyn Scorer> = Arc::new(Scripted(|_: &Query, _: &[Arc<Tool>]| -> Answer {
        panic!("on purpose")
    }));
    let shortlisted = WORKPLACE.with_scorer(failing, Some(20));
    let fallback = pick(&shortlisted, "book a meeting room", &PickOptions::default());
    assert_eq!(
        ids(&fallback),
        ids(&unchanged),
        "the built-in ranking is used"
    );
    assert_eq!(fallback.degraded[0].stage, Stage::Scorer);
}
