//! Picks within a token budget.

use std::sync::{Arc, LazyLock};

use picktools::catalog::Detail;
use picktools::names::Advertising;
use picktools::options::TokenBudget;
use picktools::selection::DropReason;
use picktools::{Catalog, Engine, Pick, PickError, PickOptions, Query, Selection, Tool};
use picktools_provider::{Definitions, Provider, Tokenizer, TranslateOptions, translate};
use picktools_testing::{ids, pick, tool, workplace};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An engine over the fixture catalog, with a token counter.
static WORKPLACE: LazyLock<Engine> = LazyLock::new(|| {
    let builder = Engine::builder(workplace()).token_counter(Arc::new(Definitions));
    builder.build().expect("the static model needs nothing")
});

fn with_budget(tokens: usize) -> PickOptions {
    PickOptions {
        token_budget: Some(TokenBudget::new(tokens)),
        ..PickOptions::default()
    }
}

#[test]
fn token_budget_of_zero_is_refused() {
    match WORKPLACE.pick(&Query::new("weather"), &with_budget(0)) {
        Err(PickError::InvalidOption { option, .. }) => assert_eq!(option, "token_budget"),
        other => panic!("{other:?}"),
    }
}

/// Counts the tokens of the picks' definitions independently.
fn tokens(selection: &Selection, budget: &TokenBudget) -> usize {
    let tools: Vec<Arc<Tool>> = selection.picks.iter().map(Pick::shown_tool).collect();
    if tools.is_empty() {
        return 0;
    }
    let translation = translate(
        &tools,
        budget.provider.parse().expect("it is known"),
        &budget.view,
    )
    .expect("the tools can be shown");
    Tokenizer::O200k.count(&translation.tools.to_string())
}

fn parameters() -> impl Strategy<Value = Value> {
    let words =
        prop::collection::vec("[a-z]{1,8}|猫|🚀|é+", 0..30).prop_map(|words| words.join(" "));
    let leaf = (
        prop::sample::select(vec!["string", "integer", "boolean"]),
        words.clone(),
    )
        .prop_map(|(kind, text)| json!({"type": kind, "description": text}));
    let property = prop_oneof![
        leaf.clone(),
        leaf.clone()
            .prop_map(|items| json!({"type": "array", "items": items})),
        prop::collection::vec("[a-z]{1,5}", 1..6).prop_map(|values| json!({"enum": values})),
    ];
    let properties = prop::collection::btree_map("[a-z_ $]{1,10}", property, 0..6);
    prop_oneof![
        Just(json!({})),
        properties.prop_map(|properties| json!({"type": "object", "properties": properties}))
    ]
}

fn tools() -> impl Strategy<Value = Vec<Tool>> {
    let text = prop::collection::vec("send|mail|file|read|a|[a-z]{1,9}|日本|\\PC{1,3}", 0..25);
    let parts = (
        "[a-zA-Z_.é ]{1,12}",
        text,
        parameters(),
        prop::sample::select(vec!["a", "b", "ü"]),
    );
    prop::collection::vec(parts, 1..14).prop_map(|tools| {
        let tools =
            tools
                .into_iter()
                .enumerate()
                .map(|(number, (name, words, parameters, source))| {
                    // Names that become equal for a provider are made unique, which costs more
                    // tokens together.
                    let mut built = tool(
                        source,
                        &format!("{name}{}", ".".repeat(number % 3)),
                        &words.join(" "),
                    );
                    built.id = format!("{number}");
                    built.parameters = Some(parameters);
                    built
                });
        tools.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn token_budget_is_never_exceeded(
        tools in tools(),
        budget in prop_oneof![1..60usize, 1..1500usize],
        provider in prop::sample::select(Provider::ALL.to_vec()),
        strict in any::<bool>(),
        expanded in any::<bool>(),
        most in 1..12usize,
    ) {
        let Ok(catalog) = Catalog::from_tools(tools) else { return Ok(()) };
        let engine = Engine::builder(catalog).keyword_only().token_counter(Arc::new(Definitions)).build();
        let engine = engine.expect("keywords need nothing");
        let advertising = if expanded { Advertising::Expanded } else { Advertising::Canonical };
        let view = TranslateOptions { strict: Some(strict), advertising, deferred: false };
        let budget = TokenBudget { tokens: budget, provider: provider.name().to_owned(), view };
        let options = PickOptions {
            token_budget: Some(budget.clone()),
            max_candidates: most,
            min_score: 0.0,
            always_include: vec![engine.catalog().tools().expect("readable")[0].id.clone()],
            ..PickOptions::default()
        };
        let free = pick(&engine, "read a file and send mail", &PickOptions { token_budget: None, ..options.clone() });
        let selection = pick(&engine, "read a file and send mail", &options);
        let counted = tokens(&selection, &budget);
        prop_assert!(counted <= budget.tokens, "{} of {}", counted, budget.tokens);
        let report = selection.tokens.clone().expect("it is counted");
        prop_assert_eq!((report.picks, report.budget), (counted, budget.tokens));
        prop_assert!(report.catalog.is_some());
        // Omitted tools are reported, and none is added.
        let over = selection.dropped.iter().filter(|dropped| dropped.reason == DropReason::TokenBudget);
        let mut all: Vec<&str> = over.map(|dropped| dropped.tool_id.as_str()).chain(ids(&selection)).collect();
        let mut wanted = ids(&free);
        all.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(all, wanted);
        let again = pick(&engine, "read a file and send mail", &options);
        prop_assert_eq!(serde_json::to_string(&selection).ok(), serde_json::to_string(&again).ok());
    }
}

const QUERY: &str = "find a free room for a meeting";

#[test]
fn large_token_budget_keeps_all_and_reports_savings() {
    let selection = pick(&WORKPLACE, QUERY, &with_budget(100_000));
    assert_eq!(
        ids(&selection),
        ids(&pick(&WORKPLACE, QUERY, &PickOptions::default()))
    );
    for pick in &selection.picks {
        let definition = pick.definition.expect("it is counted");
        assert_eq!(
            (definition.detail, pick.shown_tool()),
            (Detail::Full, Arc::clone(&pick.tool))
        );
    }
    let translation = translate(
        WORKPLACE.catalog().tools().expect("readable"),
        Provider::OpenAiChat,
        &TranslateOptions::default(),
    );
    let report = selection.tokens.expect("it is counted");
    assert_eq!(
        report.catalog,
        translation
            .ok()
            .map(|translation| translation.tokens(Tokenizer::O200k))
    );
    assert_eq!(
        report.saved,
        report.catalog.map(|catalog| catalog - report.picks)
    );
}

#[test]
fn smaller_token_budget_keeps_fewer_tools() {
    let full = pick(&WORKPLACE, QUERY, &with_budget(100_000))
        .tokens
        .expect("it is counted")
        .picks;
    let mut seen = std::collections::BTreeSet::new();
    for budget in (1..=full).rev().step_by(7) {
        let selection = pick(&WORKPLACE, QUERY, &with_budget(budget));
        let shown_details = selection
            .picks
            .iter()
            .filter_map(|pick| Some(pick.definition?.detail));
        seen.extend(shown_details);
    }
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        Detail::ALL,
        "every level has its use"
    );
    assert!(
        pick(&WORKPLACE, QUERY, &with_budget(1)).picks.is_empty(),
        "a token is not enough for a name"
    );
}

#[test]
fn mentioned_tool_is_served_before_better_ones() {
    let query = "find a free room for a meeting, and `zip` the minutes";
    let options = PickOptions {
        max_candidates: 1,
        ..PickOptions::default()
    };
    let cost = pick(
        &WORKPLACE,
        query,
        &PickOptions {
            max_candidates: 1,
            ..with_budget(100_000)
        },
    );
    assert_eq!(ids(&cost), ids(&pick(&WORKPLACE, query, &options)));
    let cost = cost.tokens.expect("it is counted").picks;
    assert_eq!(
        ids(&pick(&WORKPLACE, query, &with_budget(cost)))[..1],
        ids(&pick(&WORKPLACE, query, &options))[..]
    );
}

#[test]
fn token_budget_serves_tools_in_use_first() {
    let options = PickOptions {
        in_use: vec!["terminal/terminalRun".into()],
        token_budget: Some(TokenBudget::new(200)),
        ..PickOptions::default()
    };
    let selection = pick(&WORKPLACE, "what is the weather in Oslo", &options);
    assert!(
        ids(&selection).contains(&"terminal/terminalRun"),
        "{:?}",
        ids(&selection)
    );
    assert!(selection.tokens.expect("there is a budget").picks <= 200);
}
