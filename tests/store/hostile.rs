//! Hostile names, texts and requests in a store's query syntax, and tenants that reach for each other's tools.

use std::time::{Duration, Instant};

use picktools::store::{RedisOptions, RedisStore, SharedEngine, SharedOptions, StoreError, publish};
use picktools::{Access, Catalog, Engine, PickOptions, Query, Tool};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::server::StoreServer;
use crate::support::{ids, pick, published, shared, store, tool, wide};

/// Written down before anything of a request went to a store: what means something in a query, an index or a protocol.
const ATTEMPTS: [&str; 24] = [
    "*",
    "-@p:{nobody}",
    "@p:{*}",
    ") | (*",
    "*=>[KNN 10 @v0 $near]",
    "a}|{b",
    "@s:{other} | @n:(secret)",
    "\"unclosed",
    "\\",
    "\\\\) (",
    "=>{$weight: 100000}",
    "%%%fuzzy%%%",
    "w'ild*card'",
    "FT.SEARCH picktools:{other}:g1 *",
    "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    "$near",
    "(((((((((((((((((((((((((((((((((",
    "{}{}{}{}",
    "a\u{0}b",
    "\u{202e}@p:{x}",
    "read ~-@m:{abc}",
    "picktools:{other}:current",
    "LIMIT 0 1000000",
    "RETURN 1 r",
];

/// A catalog of a stranger, and how another tenant is told apart from it.
fn hostile(texts: &[String]) -> Vec<Tool> {
    let tools = texts.iter().enumerate().map(|(number, text)| {
        let mut tool =
            tool(&format!("src {text}"), &format!("tool{number} {text}"), &format!("Reads {text} and more of it"));
        tool.tags = vec![text.clone()];
        tool.allowed_roles = [text.clone()].into();
        tool
    });
    let plain = tool("plain", "read_notes", "Reads the notes of a meeting");
    tools.chain([plain]).collect()
}

fn secrets() -> Catalog {
    Catalog::from_tools([tool("vault", "read_secret", "Reads the secret of the vault")]).expect("valid")
}

/// Publishes a hostile catalog and asks it hostile things: nothing fails, nothing of another tenant comes, and nothing that may not
/// be seen.
fn attempt(server: &StoreServer, texts: &[String], requests: &[String]) {
    let tools = hostile(texts);
    let Ok(catalog) = Catalog::from_tools(tools) else { return };
    let local = Engine::new(catalog).expect("it is indexed");
    publish(&local, &store(&server.url(), "acme"), &|_, _| {}).expect("it is published");
    let engine = shared(&server.url(), 0);
    for request in requests.iter().chain(texts) {
        for access in [
            Access::default(),
            Access { roles: [request.clone()].into(), ..Access::default() },
            Access { allow_sources: [format!("src {request}")].into(), ..Access::default() },
            Access { deny_sources: [request.clone(), "plain".to_owned()].into(), ..Access::default() },
        ] {
            let options = PickOptions { access, in_use: vec![request.clone()], ..wide() };
            let query = Query::new(request);
            let here = local.pick(&query, &options).expect("it picks");
            let there = pick(&engine, request, &options);
            assert!(there.degraded.is_empty(), "{request:?}: {:?}", there.degraded);
            assert_eq!(ids(&there), ids(&here), "{request:?}");
            assert!(ids(&there).iter().all(|id| !id.starts_with("vault/")), "{request:?}");
        }
    }
    assert_eq!(picktools::store::verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read").faults, 0);
}

#[test]
fn nothing_that_is_written_in_query_syntax_is_read_as_a_query() {
    let server = StoreServer::with_search(&[]);
    publish(&Engine::new(secrets()).expect("indexed"), &store(&server.url(), "other"), &|_, _| {}).expect("published");
    let texts = ATTEMPTS.map(str::to_owned);
    let usable: Vec<String> =
        texts.iter().filter(|text| Catalog::from_tools(hostile(&[(*text).clone()])).is_ok()).cloned().collect();
    assert!(usable.len() > 12, "most of them are names: {usable:?}");
    attempt(&server, &usable, &texts);
    assert_eq!(picktools::store::verify(&store(&server.url(), "other"), &|_, _| {}).expect("it is read").faults, 0);
}

/// As often as there is time for: `PICKTOOLS_FUZZ_S` has the seconds, 5 unless told otherwise.
#[test]
fn random_texts_in_query_syntax_are_never_a_query() {
    let server = StoreServer::with_search(&[]);
    publish(&Engine::new(secrets()).expect("indexed"), &store(&server.url(), "other"), &|_, _| {}).expect("published");
    let seconds = std::env::var("PICKTOOLS_FUZZ_S").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(5);
    let until = Instant::now() + Duration::from_secs(seconds);
    let sign = prop::sample::select(r#"@-|(){}[]*%~$=>"':\;,.<> 	pmsnvdr019aé中"#.chars().collect::<Vec<_>>());
    let text = prop_oneof![
        prop::collection::vec(sign, 1..40).prop_map(|signs| signs.into_iter().collect::<String>()),
        prop::sample::select(ATTEMPTS.map(str::to_owned).to_vec()),
        any::<String>(),
    ];
    let texts = (prop::collection::vec(text.clone(), 1..4), prop::collection::vec(text, 1..3));
    let mut rounds = 0;
    while Instant::now() < until {
        // One of its own for each round: a runner counts its cases over all runs.
        let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
        let attempted = runner.run(&texts, |(texts, requests)| {
            attempt(&server, &texts, &requests);
            Ok(())
        });
        attempted.unwrap_or_else(|failure| panic!("{failure}"));
        rounds += 1;
    }
    assert!(rounds > 0);
}

#[test]
fn a_tenant_sees_nothing_of_another_even_where_the_names_are_alike() {
    let server = StoreServer::with_search(&[]);
    let of = |tenant: &str, name: &str| {
        let tools = [tool("notes", name, "Reads the notes of a meeting"), tool("notes", "write_notes", "Writes notes")];
        let engine = Engine::new(Catalog::from_tools(tools).expect("valid")).expect("indexed");
        publish(&engine, &store(&server.url(), tenant), &|_, _| {}).expect("published");
    };
    of("a", "read_notes_of_a");
    of("a-1", "read_notes_of_a1");
    of("b", "read_notes_of_b");
    for (tenant, name) in
        [("a", "notes/read_notes_of_a"), ("a-1", "notes/read_notes_of_a1"), ("b", "notes/read_notes_of_b")]
    {
        let engine =
            SharedEngine::open(store(&server.url(), tenant), SharedOptions { whole: 0, ..SharedOptions::default() })
                .expect("it opens");
        let picked = ids(&pick(&engine, "read the notes of the meeting", &wide()));
        assert_eq!(picked, [name.to_owned(), "notes/write_notes".to_owned()], "{tenant}");
    }
    for name in ["", "A", "a b", "a}", "*", "a:b", &"a".repeat(65)] {
        let options = RedisOptions { tenant: name.to_owned(), ..RedisOptions::new(server.url()) };
        assert!(matches!(RedisStore::new(options), Err(StoreError::Tenant { .. })), "{name:?}");
    }
}

#[test]
fn a_user_of_one_tenant_cannot_read_the_rows_of_another() {
    let server = StoreServer::with_search(&[]);
    published(&Engine::new(secrets()).expect("indexed"), &server.url());
    server.ask(&[
        "ACL",
        "SETUSER",
        "b",
        "on",
        ">pass",
        "~picktools:{b}:*",
        "+@read",
        "+@write",
        "+@connection",
        "+@transaction",
        "+ft.search",
        "+ft.create",
        "+ft.info",
        "+ft.dropindex",
    ]);
    let as_b = server.url().replace("redis://", "redis://b:pass@");
    let opened = SharedEngine::open(store(&as_b, "acme"), SharedOptions { whole: 0, ..SharedOptions::default() });
    let refused = opened.expect_err("it is not for that user").to_string();
    assert!(refused.contains("NOPERM") || refused.contains("No permissions"), "{refused}");
    assert!(!refused.contains("pass@"), "a password is not told: {refused}");
    let search = ["FT.SEARCH", "picktools:{acme}:g1", "*", "RETURN", "1", "r"];
    let client = redis::Client::open(as_b.as_str()).expect("an address");
    let mut connection = client.get_connection().expect("it may come in");
    let searched: redis::RedisResult<redis::Value> = redis::cmd(search[0]).arg(&search[1..]).query(&mut connection);
    let refused = searched.expect_err("its index is not for that user either").to_string();
    assert!(refused.contains("permissions"), "{refused}");
    // Its own part it can publish and read.
    let engine = Engine::new(secrets()).expect("indexed");
    publish(&engine, &store(&as_b, "b"), &|_, _| {}).expect("it may write there");
    let own = SharedEngine::open(store(&as_b, "b"), SharedOptions { whole: 0, ..SharedOptions::default() })
        .expect("it opens");
    assert_eq!(ids(&pick(&own, "read the secret", &wide())), ["vault/read_secret"]);
}

#[test]
fn a_password_is_told_nowhere() {
    for address in [
        "redis://user:hunter2@127.0.0.1:1/0",
        "redis://:hunter2@127.0.0.1:1",
        "rediss://user:hunter2@127.0.0.1:1/0",
        "redis://:hunter2@127.0.0.1:1/0?protocol=resp3",
        "hunter2@nowhere:x",
        "redis://u:hunter2@[::1/0",
    ] {
        let told = match RedisStore::new(RedisOptions::new(address)) {
            Ok(store) => {
                let failed = SharedEngine::open(store, SharedOptions::default()).expect_err("nobody is there");
                format!("{failed} {failed:?}")
            }
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!told.contains("hunter2"), "{told}");
    }
}
