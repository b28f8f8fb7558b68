//! What is published is what is picked from: the same picks, scores and reasons as of a local
//! engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use picktools::catalog::Changes;
use picktools::embed::{EmbedError, EmbedProgress, Embedder, ModelKind, Role, StaticEmbedder};
use picktools::examples::Examples;
use picktools::{Catalog, Engine, PickOptions, Query, Selection, Tool};
use picktools_store::{
    SharedCatalog, SharedEngine, SharedOptions, StoreError, collect, publish, status, verify,
};
use picktools_testing::store::{Line, Relay, StoreServer};
use picktools_testing::{tool, workplace};
use picktools_tuned::TunedEmbedder;
use proptest::prelude::*;
use redis::Value;

use crate::support::{
    REQUESTS, ids, pick, published, shared, store, try_publish, wide, with_workplace, within,
};

/// What is said of each pick: the tool, the score and why.
fn said(selection: &Selection) -> Vec<(String, String, String)> {
    let said = |pick: &picktools::Pick| {
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
        .map(said)
        .collect()
}

/// So many picks that candidates are a good part of the catalog.
fn several() -> PickOptions {
    PickOptions {
        max_candidates: 16,
        ..PickOptions::default()
    }
}

#[test]
fn a_shared_catalog_gives_the_picks_scores_and_reasons_of_a_local_one() {
    let server = StoreServer::with_search(&[]);
    let local = Engine::new(workplace()).expect("it is indexed");
    let publication = published(&local, &server.url());
    assert!(publication.anew && publication.written == local.catalog().len());
    for whole in [0, 1_000] {
        let shared = shared(&server.url(), whole);
        assert_eq!(shared.state().whole, whole > 0);
        for request in REQUESTS {
            let here = local
                .pick(&Query::new(request), &several())
                .expect("it picks");
            let there = pick(&shared, request, &several());
            assert_eq!(said(&there), said(&here), "{request}, {whole} kept whole");
            // Of few picks there are few candidates, and scores may be off in the third place.
            let few = PickOptions::default();
            let (here_too, there_too) = (
                local.pick(&Query::new(request), &few).expect("it picks"),
                pick(&shared, request, &few),
            );
            assert_eq!(
                ids(&there_too),
                ids(&here_too),
                "{request}, {whole} kept whole"
            );
            assert_eq!(
                there.ineligible.counts, here.ineligible.counts,
                "{request}, {whole} kept whole"
            );
            assert_eq!(there.ineligible.total, here.ineligible.total, "{request}");
            assert_eq!(there.catalog_digest, here.catalog_digest);
            assert!(there.degraded.is_empty(), "{:?}", there.degraded);
            assert_eq!(
                there.snapshot.as_ref().map(|snapshot| snapshot.version),
                Some(publication.version)
            );
        }
    }
    let found = verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read");
    assert_eq!(
        (found.tools, found.faults),
        (local.catalog().len(), 0),
        "{:?}",
        found.told
    );
    // Nothing has changed: nothing is written.
    let again = published(&local, &server.url());
    assert_eq!((again.version, again.written), (publication.version, 0));
}

/// The static model under another name, which counts the texts that it embeds.
struct Counting(Arc<StaticEmbedder>, AtomicUsize);

impl Embedder for Counting {
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
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.1.fetch_add(texts.len(), Ordering::Relaxed);
        self.0.embed(role, texts, progress)
    }
}

#[test]
fn examples_of_definitions_find_and_rank_as_they_do_locally_and_are_not_embedded_again() {
    let server = StoreServer::with_search(&[]);
    let mut tools: Vec<Tool> = workplace()
        .tools()
        .iter()
        .map(|tool| Tool::clone(tool))
        .collect();
    tools.push(tool("clock", "set_alarm", "Sets an alarm"));
    let of_alarm = [
        "wake me up at seven",
        "get me out of bed early",
        "wake me up before the train leaves",
        "the",
    ];
    for tool in &mut tools {
        tool.examples = match &*tool.name {
            "set_alarm" => of_alarm.iter().map(|&example| example.to_owned()).collect(),
            "book_meeting_room" | "send_email" => {
                vec![
                    format!("the usual {} for seven", tool.name),
                    "as ever".to_owned(),
                ]
            }
            _ => Vec::new(),
        };
    }
    let model = Arc::new(Counting(
        StaticEmbedder::shared().expect("it is inside"),
        AtomicUsize::new(0),
    ));
    let embedder = Arc::clone(&model) as Arc<dyn Embedder>;
    let given = Examples::from_slice(
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
    // What a file gave is not published, and changes nothing of what is.
    published(&build(given.expect("an example")), &server.url());
    let open = |whole| {
        let options = SharedOptions {
            model: Some(Arc::clone(&embedder)),
            whole,
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
            let there = pick(shared, request, &several());
            let embedded = model.1.load(Ordering::Relaxed) - before;
            assert!(
                embedded <= 4,
                "the request and its parts, and no example: {embedded}"
            );
            assert_eq!(
                said(&there),
                said(
                    &local
                        .pick(&Query::new(request), &several())
                        .expect("it picks")
                ),
                "{request}"
            );
        }
        // No word of this stands in the tool itself.
        let woken = pick(shared, "please wake me up", &wide());
        assert_eq!(
            ids(&woken).first().map(String::as_str),
            Some("clock/set_alarm")
        );
    };
    compare(&open(0));
    compare(&open(1_000));
    // Counts stay right when tools with examples go and come.
    tools.retain(|tool| tool.name != "book_meeting_room");
    published(
        &local
            .with_catalog(Catalog::from_tools(tools.clone()).expect("valid"))
            .expect("it is indexed"),
        &server.url(),
    );
    let again = published(&local, &server.url());
    assert!(!again.anew && again.written > 0, "{again:?}");
    compare(&open(0));
}

#[test]
fn a_change_is_seen_by_two_engines_and_only_what_changed_is_written() {
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
        let is_there = || {
            ids(&pick(engine, request, &wide()))
                .first()
                .is_some_and(|id| id == "kitchen/calibrate_machine")
        };
        within(Duration::from_secs(5), "it is seen", is_there);
    }
    // It goes again, and so does what was kept of it.
    published(&engine, &server.url());
    for engine in [&one, &other] {
        let is_gone = || {
            ids(&pick(engine, request, &wide()))
                .iter()
                .all(|id| id != "kitchen/calibrate_machine")
        };
        within(Duration::from_secs(5), "it is gone", is_gone);
    }
}

#[test]
fn definitions_are_those_that_were_published_and_what_changes_is_read() {
    let (server, engine, publication) = with_workplace();
    let mut shared = SharedCatalog::open(store(&server.url(), "acme")).expect("it opens");
    assert_eq!(
        shared.catalog().tools(),
        engine.catalog().tools(),
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
    let remove = vec![engine.catalog().tools()[0].id.clone()];
    let changed = engine
        .update(Changes { put, remove })
        .expect("it is indexed");
    published(&changed, &server.url());
    let rows = || server.keys().into_iter().filter(|key| key.contains(":t:"));
    // What is known is not read again: nothing of it is there any more.
    let of_kettle = |key: &String| {
        let row: Vec<u8> = redis::from_redis_value(server.ask(&["HGET", key, "r"])).expect("a row");
        String::from_utf8_lossy(&row).contains("descale_kettle")
    };
    rows()
        .filter(|key| !of_kettle(key))
        .for_each(|key| drop(server.ask(&["DEL", &key])));
    assert!(shared.follow().expect("it is read"));
    // What has come stands where it stood when it was written, beside what is there.
    let by_id = |catalog: &Catalog| {
        catalog
            .tools()
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
        "what there was stays"
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
fn of_two_publishers_at_once_one_waits_its_turn() {
    let server = StoreServer::with_search(&[]);
    let engine = Engine::new(workplace()).expect("it is indexed");
    server.ask(&["SET", "picktools:{acme}:lock", "somebody"]);
    let refused = try_publish(&engine, &server.url()).expect_err("somebody publishes");
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
    let became = publishers.map(|publisher| publisher.join().expect("no panic"));
    assert!(became.iter().any(Result::is_ok));
    for refused in became.iter().filter_map(|result| result.as_ref().err()) {
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
fn what_a_publisher_leaves_behind_that_was_cut_off_counts_for_nothing_and_is_removed() {
    let (server, engine, _) = with_workplace();
    let reader = shared(&server.url(), 0);
    let before = ids(&pick(&reader, "order coffee beans", &wide()));
    // So many that the line is cut while they are written.
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
    // A publisher that is killed says nothing more.
    let cut = publish(&more, &store(&relay.url(), "acme"), &|done, _| {
        if done >= 600 {
            relay.is(Line::Closed);
        }
    });
    assert!(
        matches!(cut, Err(StoreError::Unavailable { .. })),
        "{cut:?}"
    );
    assert_eq!(ids(&pick(&reader, "order coffee beans", &wide())), before);
    // The lock of one that is gone runs out; here at once.
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
        .expect("it tells")
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

/// The counts of terms as they lie there, without those that nothing holds any more.
fn counts(server: &StoreServer, tenant: &str) -> BTreeMap<(bool, Vec<u8>), i64> {
    let mut counts = BTreeMap::new();
    let current: String =
        redis::from_redis_value(server.ask(&["GET", &format!("picktools:{{{tenant}}}:current")]))
            .expect("text");
    let current: serde_json::Value = serde_json::from_str(&current).expect("JSON");
    let generation = format!("picktools:{{{tenant}}}:g{}:", current["generation"]);
    for (kind, of_sources) in [("df:", false), ("sf:", true)] {
        let of = format!("{generation}{kind}");
        for key in server.keys().into_iter().filter(|key| key.starts_with(&of)) {
            let held: BTreeMap<Vec<u8>, i64> =
                redis::from_redis_value(server.ask(&["HGETALL", &key])).expect("counts");
            counts.extend(
                held.into_iter()
                    .filter(|(_, count)| *count != 0)
                    .map(|(term, count)| ((of_sources, term), count)),
            );
        }
    }
    counts
}

fn tools() -> impl Strategy<Value = Vec<(u8, u8, Vec<u8>)>> {
    // A source, a number within it, and words.
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
    let mut known = BTreeMap::new();
    for (source, number, words) in tools {
        let words: Vec<&str> = words.iter().map(|&word| WORDS[usize::from(word)]).collect();
        let made = tool(
            &format!("source{source}"),
            &format!("{}_{number}", words[0]),
            &words.join(" "),
        );
        known.insert(made.id.clone(), made);
    }
    known.into_values().collect()
}

#[test]
fn changes_one_after_the_other_leave_the_counts_of_what_is_published_anew() {
    let server = StoreServer::with_search(&[]);
    let config = ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(states in prop::collection::vec(tools(), 2..5))| {
        server.ask(&["FLUSHALL"]);
        let base = catalog(&(0..4).flat_map(|source| (0..40).map(move |number| (source, number, vec![number % 12, source]))).collect::<Vec<_>>());
        let engine = |state: &[(u8, u8, Vec<u8>)]| {
            let more = catalog(state).into_iter().map(|mut tool| {
                tool.name = format!("x_{}", tool.name);
                tool.id = tool.qualified_name();
                tool
            });
            Engine::new(Catalog::from_tools(base.iter().cloned().chain(more)).expect("valid")).expect("indexed")
        };
        for state in &states {
            publish(&engine(state), &store(&server.url(), "step"), &|_, _| {}).expect("published");
            prop_assert_eq!(verify(&store(&server.url(), "step"), &|_, _| {}).expect("read").faults, 0);
        }
        // What is told of the last state is the same, however it came about.
        let last = states.last().expect("there is one");
        publish(&engine(last), &store(&server.url(), "anew"), &|_, _| {}).expect("published");
        prop_assert_eq!(counts(&server, "step"), counts(&server, "anew"));
    });
}

#[test]
fn a_line_that_breaks_while_all_is_read_is_an_error_with_the_place() {
    let (server, _, _) = with_workplace();
    let relay = Relay::to(server.address());
    relay.is(Line::Cut);
    let opened = SharedEngine::open(store(&relay.url(), "acme"), SharedOptions::default());
    let error = opened.expect_err("nothing comes through").to_string();
    assert!(error.contains("did not answer within 500 ms"), "{error}");
    assert!(matches!(server.ask(&["PING"]), Value::SimpleString(_)));
}

#[test]
fn a_catalog_is_read_with_the_models_that_it_was_published_with_and_that_are_here() {
    let server = StoreServer::with_search(&[]);
    let open = |model: Option<Arc<dyn Embedder>>| {
        let options = SharedOptions {
            model,
            whole: 0,
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
    let here = |engine: &Engine| {
        ids(&engine
            .pick(&Query::new(request), &wide())
            .expect("it picks"))
    };
    // By words alone, which find no tool that has none of them.
    let keyword = Engine::builder(workplace())
        .keyword_only()
        .build()
        .expect("it is indexed");
    published(&keyword, &server.url());
    let by_words = ids(&pick(&open(None).expect("it opens"), request, &wide()));
    assert!(
        by_words.len() > 3 && here(&keyword).starts_with(&by_words),
        "{by_words:?}"
    );
    assert!(
        matches!(open(Some(tuned())), Err(StoreError::Models { .. })),
        "that model was asked for"
    );
    // By the static one: all of it is written again.
    let by_static = Engine::new(workplace()).expect("it is indexed");
    assert!(published(&by_static, &server.url()).anew);
    assert_eq!(
        ids(&pick(&open(None).expect("it opens"), request, &wide())),
        here(&by_static)
    );
    assert!(matches!(
        open(Some(tuned())),
        Err(StoreError::Models { .. })
    ));
    // By both: who has one of them ranks by that.
    let tools = workplace()
        .tools()
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
        here(&both)
    );
    assert_eq!(
        ids(&pick(&open(None).expect("it opens"), request, &wide())),
        here(&Engine::new(few()).expect("indexed"))
    );
}
