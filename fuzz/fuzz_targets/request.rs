//! A request or a transcript, and sequences of calls: a pick from a small catalog.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use picktools::options::MAX_IN_USE;
use picktools::sequences::Sequences;
use picktools::{Engine, PickOptions, Tool};

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tool = |name, description| Tool::without_arguments(name, description);
    let mut tools = vec![
        tool("find_flights", "Find flights to a city"),
        tool("book_flight", "Book a seat on a flight"),
        tool("get_forecast", "Weather for the coming days"),
        tool("send_mail", "Send a message to a colleague"),
        tool("drop_table", "Delete a table and all that it holds"),
    ];
    tools[1].requires = vec!["find_flights".to_owned()];
    tools[4].safe = Some(false);
    tools
});

fuzz_target!(|bytes: &[u8]| {
    // The request, a byte that is not valid UTF-8, and the sequences.
    let mut parts = bytes.splitn(2, |&byte| byte == 0xff);
    let (request, sequences) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let Ok(request) = serde_json::from_slice::<serde_json::Value>(request) else {
        return;
    };
    let Ok(sequences) = Sequences::from_slice(sequences, "sequences") else {
        return;
    };
    let query = picktools_provider::query_from_value(&request);
    let engine = Engine::builder(
        picktools::Catalog::from_tools(TOOLS.clone()).expect("the tools are valid"),
    );
    let engine = engine
        .sequences(sequences)
        .build()
        .expect("the static model is built in");
    let options = PickOptions {
        max_candidates: 2,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let selection = engine
        .pick(&query, &options)
        .expect("the options are valid");
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| pick.tool.name != "drop_table"),
        "an unsafe tool is not picked"
    );
    let new_picks = selection
        .picks
        .iter()
        .filter(|pick| pick.provenance.in_use.is_none())
        .count();
    // Two candidates, and the tool that `book_flight` requires.
    assert!(new_picks <= 3 && selection.picks.len() - new_picks <= MAX_IN_USE);
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| (0.0..=1.0).contains(&pick.score))
    );
    let repeated = engine
        .pick(&query, &options)
        .expect("the options are valid");
    assert_eq!(
        serde_json::to_string(&repeated).ok(),
        serde_json::to_string(&selection).ok()
    );
});
