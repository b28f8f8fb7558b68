//! Publications: a shared engine has the picks, scores and reasons of a local engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use picktools::catalog::Changes;
use picktools::embed::{EmbedError, EmbedProgress, Embedder, ModelKind, StaticEmbedder, TextRole};
use picktools::examples::Examples;
use picktools::{Catalog, Engine, PickOptions, Query, Selection, Tool};
use picktools_store::{
    SharedCatalog, SharedEngine, SharedOptions, StoreError, collect, publish, status, verify,
};
use picktools_testing::store::{Relay, RelayMode, StoreServer};
use picktools_testing::{tool, workplace};
use picktools_tuned::TunedEmbedder;
use proptest::prelude::*;
use redis::Value;

use crate::support::{
    REQUESTS, ids, pick, published, shared, store, try_publish, wide, with_workplace, within,
};

/// Returns the tool, the score and the reason of each pick.
fn describe_picks(selection: &Selection) -> Vec<(String, String, String)> {
    let describe = |pick: &picktools::Pick| {
        (
            pick.tool.id.clone(),
            format!("{:.3}", pick.score),
            pick.reason.clone(),
        )
    };
    selection
        .picks
        .iter()
        .chain(&selection.required)
        .map(describe)
        .collect()
}

/// Returns options with so many picks that the candidates are a large part of the catalog.
fn several() -> PickOptions {
    PickOptions {
        max_candidates: 16,
        ..PickOptions::default()
    }
}

#[test]
fn floors_are_found_by_name_in_a_store_and_globs_only_in_memory() {
    let server = StoreServer::with_search(&[]);
    let local = Engine::new(workplace()).expect("it is indexed");
    published(&local, &server.url());
    let options = |name: &str| PickOptions {
        fallbacks: vec![name.to_owned()],
        ..PickOptions::default()
    };
    let request = "how high is mount everest";
    for (max_local_tools, allows_globs) in [(0, false), (1_000, true)] {
        let shared = shared(&server.url(), max_local_tools);
        let selection = pick(&shared, request, &options("wiki/search_pages"));
        assert_eq!(ids(&selection), ["wiki/search_pages"]);
        let picked = shared.pick(&Query::new(request), &options("wiki/search_*"));
        match (picked, allows_globs) {
            (Ok(selection), true) => assert_eq!(ids(&selection), ["wiki/search_pages"]),
            (Err(error), false) => {
                let message = error.to_string();
                assert!(
                    message.contains("fallbacks is \"wiki/search_*\""),
                    "{message}"
                );
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn shared_engine_picks_like_a_local_engine() {
    let server = StoreServer::with_search(&[]);
    let local = Engine::new(workplace()).expect("it is indexed");
    let publication = published(&local, &server.url());
    assert!(publication.anew && publication.written == local.catalog().len());
    for max_local_tools in [0, 1_000] {
        let shared = shared(&server.url(), max_local_tools);
        assert_eq!(shared.state().is_complete, max_local_tools > 0);
        for request in REQUESTS {
            let expected = local
                .pick(&Query::new(request), &several())
                .expect("it picks");
            let selection = pick(&shared, request, &several());
            assert_eq!(
                describe_picks(&selection),
                describe_picks(&expected),
                "{request}, {max_local_tools} cached"
            );
            // With few picks there are few candidates, and scores may differ slightly.
            let few = PickOptions::default();
            let expected_few = local.pick(&Query::new(request), &few).expect("it picks");
            let selection_few = pick(&shared, request, &few);
            assert_eq!(
                ids(&selection_few),
                ids(&expected_few),
                "{request}, {max_local_tools} cached"
            );
            assert_eq!(
                selection.ineligible.counts, expected.ineligible.counts,
                "{request}, {max_local_tools} cached"
            );
            assert_eq!(
                selection.ineligible.total, expected.ineligible.total,
                "{request}"
            );
            assert_eq!(selection.catalog_digest, expected.catalog_digest);
            assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
            assert_eq!(
                selection.snapshot.as_ref().map(|snapshot| snapshot.version),
                Some(publication.version)
            );
        }
    }
    let verification = verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read");
    assert_eq!(
        (verification.tools, verification.faults),
        (local.catalog().len(), 0),
        "{:?}",
        verification.messages
    );
    // Without changes, nothing is written.
    let unchanged = published(&local, &server.url());
    assert_eq!(
        (unchanged.version, unchanged.written),
        (publication.version, 0)
    );
}

/// The static model under another name, which counts the texts that it embeds.
struct CountingEmbedder(Arc<StaticEmbedder>, AtomicUsize);

impl Embedder for CountingEmbedder {
    fn identity(&self) -> &str {
        "counting"
    }

    fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    fn kind(&self) -> ModelKind {
        ModelKind::Static
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.1.fetch_add(texts.len(), Ordering::Relaxed);
        self.0.embed(role, texts, progress)
    }
}

#[test]
fn examples_rank_like_locally_and_are_embedded_once() {
    let server = StoreServer::with_search(&[]);
    let mut tools: Vec<Tool> = workplace()
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| Tool::clone(tool))
        .collect();
    tools.push(tool("clock", "set_alarm", "Sets an alarm"));
    let alarm_examples = [
        "wake me up at seven",
        "get me out of bed early",
        "wake me up before the train leaves",
        "the",
    ];
    for tool in &mut tools {
        // A pick from a store embeds the tags of its candidates.
        tool.tags.clear();
        tool.examples = match &*tool.name {
            "set_alarm" => alarm_examples
                .iter()
                .map(|&example| example.to_owned())
                .collect(),
            "book_meeting_room" | "send_email" => {
                vec![
                    format!("the usual {} for seven", tool.name),
                    "as ever".to_owned(),
                ]
            }
            _ => Vec::new(),
        };
    }
    let model = Arc::new(CountingEmbedder(
        StaticEmbedder::shared().expect("it is inside"),
        AtomicUsize::new(0),
    ));
    let embedder = Arc::clone(&model) as Arc<dyn Embedder>;
    let file_examples = Examples::from_slice(
        b"{\"tool\": \"clock/set_alarm\", \"request\": \"ring at noon\"}",
        "given",
    );
    let build = |examples: Examples| {
        let catalog = Catalog::from_tools(tools.clone()).expect("a catalog");
        let builder = Engine::builder(catalog)
            .embedder(Arc::clone(&embedder))
            .examples(examples);
        builder.build().expect("it is indexed")
    };
    let local = build(Examples::default());
    // Examples of a file are not published, and do not change the published data.
    published(&build(file_examples.expect("an example")), &server.url());
    let open = |max_local_tools| {
        let options = SharedOptions {
            model: Some(Arc::clone(&embedder)),
            max_local_tools,
            ..SharedOptions::default()
        };
        SharedEngine::open(store(&server.url(), "acme"), options).expect("it opens")
    };
    let compare = |shared: &SharedEngine| {
        for request in [
            "wake me up for the early train",
            "the usual for seven please",
            REQUESTS[0],
            REQUESTS[1],
        ] {
            let before = model.1.load(Ordering::Relaxed);
            let mut selection = pick(shared, request, &several());
            let embedded = model.1.load(Ordering::Relaxed) - before;
            assert!(
                embedded <= 4,
                "only the request and its parts are embedded: {embedded}"
            );
            let mut expected = local
                .pick(&Query::new(request), &several())
                .expect("it picks");
            // The rank of a required tool that is no candidate counts the candidates only.
            assert_eq!(selection.required.len(), expected.required.len());
            selection.required.clear();
            expected.required.clear();
            assert_eq!(
                describe_picks(&selection),
                describe_picks(&expected),
                "{request}"
            );
        }
        // No word of this request occurs in the tool itself.
        let selection = pick(shared, "please wake me up", &wide());
        assert_eq!(
            ids(&selection).first().map(String::as_str),
            Some("clock/set_alarm")
        );
    };
    compare(&open(0));
    compare(&open(1_000));
    // Counts stay correct when tools with examples are removed and added.
    tools.retain(|tool| tool.name != "book_meeting_room");
    published(
        &local
            .with_catalog(Catalog::from_tools(tools.clone()).expect("valid"))
            .expect("it is indexed"),
        &server.url(),
    );
    let republished = published(&local, &server.url());
    assert!(
        !republished.anew && republished.written > 0,
        "{republished:?}"
    );
    compare(&open(0));
}

#[test]
fn change_reaches_all_engines_and_writes_only_differences() {
    let (server, engine, _) = with_workplace();
    let (one, other) = (shared(&server.url(), 0), shared(&server.url(), 1_000));
    let request = "calibrate the espresso machine";
    let new = || {
        vec![tool(
            "kitchen",
            "calibrate_machine",
            "Calibrates the espresso machine of the kitchen",
        )]
    };
    let changed = engine
        .update(Changes {
            put: new(),
            ..Changes::default()
        })
        .expect("it is indexed");
    let publication = published(&changed, &server.url());
    assert!(!publication.anew);
    assert_eq!((publication.written, publication.removed), (1, 0));
    for engine in [&one, &other] {
        let is_picked = || {
            ids(&pick(engine, request, &wide()))
                .first()
                .is_some_and(|id| id == "kitchen/calibrate_machine")
        };
        within(Duration::from_secs(5), "the tool is picked", is_picked);
    }
    // The tool is removed, also from the caches.
    published(&engine, &server.url());
    for engine in [&one, &other] {
        let is_gone = || {
            ids(&pick(engine, request, &wide()))
                .iter()
                .all(|id| id != "kitchen/calibrate_machine")
        };
        within(Duration::from_secs(5), "the tool is removed", is_gone);
    }
}

#[test]
fn shared_catalog_follows_and_reads_only_new_definitions() {
    let (server, engine, publication) = with_workplace();
    let mut shared = SharedCatalog::open(store(&server.url(), "acme")).expect("it opens");
    assert_eq!(
        shared.catalog().tools().expect("readable"),
        engine.catalog().tools().expect("readable"),
        "in their order"
    );
    assert_eq!(
        (shared.catalog().digest(), shared.snapshot().version),
        (engine.catalog().digest(), publication.version)
    );
    assert!(
        !shared.follow().expect("it is asked"),
        "nothing was published"
    );
    let put = vec![tool(
        "kitchen",
        "descale_kettle",
        "Descales the kettle of the kitchen",
    )];
    let remove = vec![engine.catalog().tools().expect("readable")[0].id.clone()];
    let changed = engine
        .update(Changes { put, remove })
        .expect("it is indexed");
    published(&changed, &server.url());
    let rows = || server.keys().into_iter().filter(|key| key.contains(":t:"));
    // Known definitions are not read again, so their rows can be removed.
    let is_kettle = |key: &String| {
        let row: Vec<u8> = redis::from_redis_value(server.ask(&["HGET", key, "r"])).expect("a row");
        String::from_utf8_lossy(&row).contains("descale_kettle")
    };
    rows()
        .filter(|key| !is_kettle(key))
        .for_each(|key| drop(server.ask(&["DEL", &key])));
    assert!(shared.follow().expect("it is read"));
    // The order may differ, because new tools have the positions of their publication.
    let by_id = |catalog: &Catalog| {
        catalog
            .tools()
            .expect("readable")
            .iter()
            .map(|tool| (tool.id.clone(), Arc::clone(tool)))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(by_id(shared.catalog()), by_id(changed.catalog()));
    assert_eq!(shared.catalog().digest(), changed.catalog().digest());
    let mut fresh = SharedCatalog::open(store(&server.url(), "acme"));
    assert!(
        matches!(fresh, Err(StoreError::Damaged { .. })),
        "{fresh:?}"
    );
    server.ask(&["FLUSHALL"]);
    assert!(matches!(shared.follow(), Err(StoreError::Empty { .. })));
    assert_eq!(
        shared.catalog().len(),
        changed.catalog().len(),
        "the catalog stays unchanged"
    );
    published(&engine, &server.url());
    assert!(shared.follow().expect("it is read"));
    fresh = SharedCatalog::open(store(&server.url(), "acme"));
    assert_eq!(
        fresh.expect("it opens").catalog().digest(),
        shared.catalog().digest()
    );
}

#[test]
fn concurrent_publishers_are_refused() {
    let server = StoreServer::with_search(&[]);
    let engine = Engine::new(workplace()).expect("it is indexed");
    server.ask(&["SET", "picktools:{acme}:lock", "somebody"]);
    let refused = try_publish(&engine, &server.url()).expect_err("the lock is taken");
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    let opened = SharedEngine::open(store(&server.url(), "acme"), SharedOptions::default());
    assert!(
        matches!(opened, Err(StoreError::Empty { .. })),
        "nothing was published"
    );
    server.ask(&["DEL", "picktools:{acme}:lock"]);
    let publishers = [(); 4].map(|()| {
        let (engine, url) = (engine.clone(), server.url());
        std::thread::spawn(move || try_publish(&engine, &url))
    });
    let results = publishers.map(|publisher| publisher.join().expect("no panic"));
    assert!(results.iter().any(Result::is_ok));
    for refused in results.iter().filter_map(|result| result.as_ref().err()) {
        assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    }
    assert_eq!(
        verify(&store(&server.url(), "acme"), &|_, _| {})
            .expect("it is read")
            .faults,
        0
    );
}

#[test]
fn interrupted_publication_has_no_effect_and_is_removed() {
    let (server, engine, _) = with_workplace();
    let reader = shared(&server.url(), 0);
    let before = ids(&pick(&reader, "order coffee beans", &wide()));
    // Enough tools that the connection is closed during the publication.
    let beans = |number: usize| {
        tool(
            "beans",
            &format!("order_beans_{number}"),
            &format!("Orders coffee beans of kind {number}"),
        )
    };
    let more = engine
        .update(Changes {
            put: (0..2_000).map(beans).collect(),
            ..Changes::default()
        })
        .expect("indexed");
    let relay = Relay::to(server.address());
    // The publisher is interrupted.
    let interrupted = publish(&more, &store(&relay.url(), "acme"), &|done, _| {
        if done >= 600 {
            relay.set_mode(RelayMode::Closed);
        }
    });
    assert!(
        matches!(interrupted, Err(StoreError::Unavailable { .. })),
        "{interrupted:?}"
    );
    assert_eq!(ids(&pick(&reader, "order coffee beans", &wide())), before);
    // The lock would expire after a minute.
    server.ask(&["DEL", "picktools:{acme}:lock"]);
    let collected = collect(&store(&server.url(), "acme")).expect("it is removed");
    assert!(collected.keys + collected.generations > 0, "{collected:?}");
    assert_eq!(
        verify(&store(&server.url(), "acme"), &|_, _| {})
            .expect("it is read")
            .faults,
        0
    );
    let indexed = status(&store(&server.url(), "acme"))
        .expect("a status")
        .indexed;
    assert_eq!(indexed, Some(engine.catalog().len() as u64));
    published(&more, &server.url());
    within(
        Duration::from_secs(2),
        "the next publication is seen",
        || {
            ids(&pick(&reader, "order coffee beans", &wide()))
                .iter()
                .any(|id| id.starts_with("beans/"))
        },
    );
}

/// Returns the counts of terms in the store, without zeros.
fn counts(server: &StoreServer, tenant: &str) -> BTreeMap<(bool, Vec<u8>), i64> {
    let mut counts = BTreeMap::new();
    let current: String =
        redis::from_redis_value(server.ask(&["GET", &format!("picktools:{{{tenant}}}:current")]))
            .expect("text");
    let current: serde_json::Value = serde_json::from_str(&current).expect("JSON");
    let generation = format!("picktools:{{{tenant}}}:g{}:", current["generation"]);
    for (kind, is_source) in [("df:", false), ("sf:", true)] {
        let prefix = format!("{generation}{kind}");
        let keys = server.keys().into_iter();
        for key in keys.filter(|key| key.starts_with(&prefix)) {
            let stored: BTreeMap<Vec<u8>, i64> =
                redis::from_redis_value(server.ask(&["HGETALL", &key])).expect("counts");
            counts.extend(
                stored
                    .into_iter()
                    .filter(|(_, count)| *count != 0)
                    .map(|(term, count)| ((is_source, term), count)),
            );
        }
    }
    counts
}

fn tools() -> impl Strategy<Value = Vec<(u8, u8, Vec<u8>)>> {
    // The source, the number in the source, and the words.
    prop::collection::vec(
        (0..4_u8, 0..6_u8, prop::collection::vec(0..12_u8, 1..8)),
        1..24,
    )
}

fn catalog(tools: &[(u8, u8, Vec<u8>)]) -> Vec<Tool> {
    const WORDS: [&str; 12] = [
        "read", "write", "file", "mail", "send", "book", "room", "list", "branch", "delete",
        "note", "find",
    ];
    let mut tools_by_id = BTreeMap::new();
    for (source, number, words) in tools {
        let words: Vec<&str> = words.iter().map(|&word| WORDS[usize::from(word)]).collect();
        let generated = tool(
            &format!("source{source}"),
            &format!("{}_{number}", words[0]),
            &words.join(" "),
        );
        tools_by_id.insert(generated.id.clone(), generated);
    }
    tools_by_id.into_values().collect()
}

#[test]
fn incremental_counts_equal_those_of_a_new_publication() {
    let server = StoreServer::with_search(&[]);
    let config = ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(states in prop::collection::vec(tools(), 2..5))| {
        server.ask(&["FLUSHALL"]);
        let mut base = Vec::new();
        for source in 0..4 {
            for number in 0..40 {
                base.push((source, number, vec![number % 12, source]));
            }
        }
        let base = catalog(&base);
        let engine = |state: &[(u8, u8, Vec<u8>)]| {
            let more = catalog(state).into_iter().map(|mut tool| {
                tool.name = format!("x_{}", tool.name);
                tool.id = tool.qualified_name();
                tool
            });
            let catalog = Catalog::from_tools(base.iter().cloned().chain(more));
            Engine::new(catalog.expect("valid")).expect("indexed")
        };
        for state in &states {
            let target = store(&server.url(), "step");
            publish(&engine(state), &target, &|_, _| {}).expect("published");
            prop_assert_eq!(verify(&target, &|_, _| {}).expect("read").faults, 0);
        }
        // The counts of the last state do not depend on the earlier states.
        let last = states.last().expect("there is one");
        publish(&engine(last), &store(&server.url(), "anew"), &|_, _| {}).expect("published");
        prop_assert_eq!(counts(&server, "step"), counts(&server, "anew"));
    });
}

#[test]
fn broken_connection_while_loading_is_an_error() {
    let (server, _, _) = with_workplace();
    let relay = Relay::to(server.address());
    relay.set_mode(RelayMode::Cut);
    let opened = SharedEngine::open(store(&relay.url(), "acme"), SharedOptions::default());
    let error = opened.expect_err("the connection is cut").to_string();
    assert!(error.contains("no answer within 500 ms"), "{error}");
    assert!(matches!(server.ask(&["PING"]), Value::SimpleString(_)));
}

#[test]
fn engine_uses_the_models_that_snapshot_and_options_share() {
    let server = StoreServer::with_search(&[]);
    let open = |model: Option<Arc<dyn Embedder>>| {
        let options = SharedOptions {
            model,
            max_local_tools: 0,
            ..SharedOptions::default()
        };
        SharedEngine::open(store(&server.url(), "acme"), options)
    };
    let tuned = || {
        TunedEmbedder::shared()
            .expect("it is inside")
            .expect("it opens") as Arc<dyn Embedder>
    };
    let request = "order a taxi to the airport";
    let pick_locally = |engine: &Engine| {
        ids(&engine
            .pick(&Query::new(request), &wide())
            .expect("it picks"))
    };
    // A keyword index finds no tool without a common word.
    let keyword = Engine::builder(workplace())
        .keyword_only()
        .build()
        .expect("it is indexed");
    published(&keyword, &server.url());
    let by_words = ids(&pick(&open(None).expect("it opens"), request, &wide()));
    assert!(
        by_words.len() > 3 && pick_locally(&keyword).starts_with(&by_words),
        "{by_words:?}"
    );
    assert!(
        matches!(open(Some(tuned())), Err(StoreError::Models { .. })),
        "the requested model is missing"
    );
    // With the static model, everything is written again.
    let by_static = Engine::new(workplace()).expect("it is indexed");
    assert!(published(&by_static, &server.url()).anew);
    assert_eq!(
        ids(&pick(&open(None).expect("it opens"), request, &wide())),
        pick_locally(&by_static)
    );
    assert!(matches!(
        open(Some(tuned())),
        Err(StoreError::Models { .. })
    ));
    // With both models, an engine ranks with the models that it has.
    let tools = workplace()
        .tools()
        .expect("readable")
        .iter()
        .take(60)
        .map(|tool| Tool::clone(tool))
        .collect::<Vec<_>>();
    let few = || Catalog::from_tools(tools.clone()).expect("valid");
    let both = Engine::builder(few())
        .embedder(tuned())
        .build()
        .expect("it is indexed");
    published(&both, &server.url());
    assert_eq!(
        ids(&pick(
            &open(Some(tuned())).expect("it opens"),
            request,
            &wide()
        )),
        pick_locally(&both)
    );
    assert_eq!(
        ids(&pick(&open(None).expect("it opens"), request, &wide())),
        pick_locally(&Engine::new(few()).expect("indexed"))
    );
}
