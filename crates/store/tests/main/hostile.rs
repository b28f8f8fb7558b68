//! Hostile names, texts and requests in query syntax, and isolation of tenants.

use std::time::{Duration, Instant};

use picktools::{Access, Catalog, Engine, PickOptions, Query, Selection, Tool};
use picktools_store::{
    RedisOptions, RedisStore, SharedCatalog, SharedEngine, SharedOptions, StoreError, publish,
    status, verify,
};
use picktools_testing::store::StoreServer;
use picktools_testing::tool;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_64;

use crate::support::{ids, pick, published, shared, store, wide, with_workplace};

/// Texts with a special meaning in queries, in the index or in the protocol.
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

/// Returns tools with these texts in their names, sources, tags and roles.
fn hostile_tools(texts: &[String]) -> Vec<Tool> {
    let tools = texts.iter().enumerate().map(|(number, text)| {
        let mut tool = tool(
            &format!("src {text}"),
            &format!("tool{number} {text}"),
            &format!("Reads {text} and more of it"),
        );
        tool.tags = vec![text.clone()];
        tool.allowed_roles = [text.clone()].into();
        tool
    });
    let plain = tool("plain", "read_notes", "Reads the notes of a meeting");
    tools.chain([plain]).collect()
}

fn secrets() -> Catalog {
    Catalog::from_tools([tool(
        "vault",
        "read_secret",
        "Reads the secret of the vault",
    )])
    .expect("valid")
}

/// Publishes hostile tools, and picks for hostile requests.
///
/// Picks must equal those of a local engine, and contain no tools of another tenant.
fn attempt(server: &StoreServer, texts: &[String], requests: &[String]) {
    let tools = hostile_tools(texts);
    let Ok(catalog) = Catalog::from_tools(tools) else {
        return;
    };
    let local = Engine::new(catalog).expect("it is indexed");
    publish(&local, &store(&server.url(), "acme"), &|_, _| {}).expect("it is published");
    let engine = shared(&server.url(), 0);
    for request in requests.iter().chain(texts) {
        for access in [
            Access::default(),
            Access {
                roles: [request.clone()].into(),
                ..Access::default()
            },
            Access {
                allow_sources: [format!("src {request}")].into(),
                ..Access::default()
            },
            Access {
                deny_sources: [request.clone(), "plain".to_owned()].into(),
                ..Access::default()
            },
        ] {
            let options = PickOptions {
                access,
                in_use: vec![request.clone()],
                ..wide()
            };
            let query = Query::new(request);
            let here = local.pick(&query, &options).expect("it picks");
            let there = pick(&engine, request, &options);
            assert!(
                there.degraded.is_empty(),
                "{request:?}: {:?}",
                there.degraded
            );
            assert_eq!(ids(&there), ids(&here), "{request:?}");
            assert!(
                ids(&there).iter().all(|id| !id.starts_with("vault/")),
                "{request:?}"
            );
        }
    }
    assert_eq!(
        picktools_store::verify(&store(&server.url(), "acme"), &|_, _| {})
            .expect("it is read")
            .faults,
        0
    );
}

#[test]
fn query_syntax_in_texts_is_never_executed() {
    let server = StoreServer::with_search(&[]);
    publish(
        &Engine::new(secrets()).expect("indexed"),
        &store(&server.url(), "other"),
        &|_, _| {},
    )
    .expect("published");
    let texts = ATTEMPTS.map(str::to_owned);
    let usable: Vec<String> = texts
        .iter()
        .filter(|text| Catalog::from_tools(hostile_tools(&[(*text).clone()])).is_ok())
        .cloned()
        .collect();
    assert!(usable.len() > 12, "most texts are valid names: {usable:?}");
    attempt(&server, &usable, &texts);
    assert_eq!(
        picktools_store::verify(&store(&server.url(), "other"), &|_, _| {})
            .expect("it is read")
            .faults,
        0
    );
}

/// Runs for `PICKTOOLS_FUZZ_S` seconds, 5 by default.
#[test]
fn random_query_syntax_is_never_executed() {
    let server = StoreServer::with_search(&[]);
    publish(
        &Engine::new(secrets()).expect("indexed"),
        &store(&server.url(), "other"),
        &|_, _| {},
    )
    .expect("published");
    let seconds = std::env::var("PICKTOOLS_FUZZ_S")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(5);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let sign = prop::sample::select(
        r#"@-|(){}[]*%~$=>"':\;,.<> 	pmsnvdr019aé中"#
            .chars()
            .collect::<Vec<_>>(),
    );
    let text = prop_oneof![
        prop::collection::vec(sign, 1..40).prop_map(|signs| signs.into_iter().collect::<String>()),
        prop::sample::select(ATTEMPTS.map(str::to_owned).to_vec()),
        any::<String>(),
    ];
    let texts = (
        prop::collection::vec(text.clone(), 1..4),
        prop::collection::vec(text, 1..3),
    );
    let mut rounds = 0;
    while Instant::now() < deadline {
        // A new runner for each round, because a runner counts its cases over all runs.
        let mut runner = TestRunner::new(Config {
            cases: 1,
            failure_persistence: None,
            ..Config::default()
        });
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
fn tenants_with_similar_names_are_isolated() {
    let server = StoreServer::with_search(&[]);
    let publish_for = |tenant: &str, name: &str| {
        let tools = [
            tool("notes", name, "Reads the notes of a meeting"),
            tool("notes", "write_notes", "Writes notes"),
        ];
        let engine = Engine::new(Catalog::from_tools(tools).expect("valid")).expect("indexed");
        publish(&engine, &store(&server.url(), tenant), &|_, _| {}).expect("published");
    };
    publish_for("a", "read_notes_of_a");
    publish_for("a-1", "read_notes_of_a1");
    publish_for("b", "read_notes_of_b");
    for (tenant, name) in [
        ("a", "notes/read_notes_of_a"),
        ("a-1", "notes/read_notes_of_a1"),
        ("b", "notes/read_notes_of_b"),
    ] {
        let engine = SharedEngine::open(
            store(&server.url(), tenant),
            SharedOptions {
                max_local_tools: 0,
                ..SharedOptions::default()
            },
        )
        .expect("it opens");
        let picked = ids(&pick(&engine, "read the notes of the meeting", &wide()));
        assert_eq!(
            picked,
            [name.to_owned(), "notes/write_notes".to_owned()],
            "{tenant}"
        );
    }
    for name in ["", "A", "a b", "a}", "*", "a:b", &"a".repeat(65)] {
        let options = RedisOptions {
            tenant: name.to_owned(),
            ..RedisOptions::new(server.url())
        };
        assert!(
            matches!(RedisStore::new(options), Err(StoreError::Tenant { .. })),
            "{name:?}"
        );
    }
}

/// Replaces the definition of a row, and returns the row with its new key.
fn forge_row(
    row: &[u8],
    models: &[String],
    definition: impl Fn(&str) -> String,
) -> ([u8; 16], Vec<u8>) {
    let length =
        |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().expect("four bytes")) as usize;
    let copies = length(23);
    let start = 27 + 16 * copies;
    let end = start + 4 + length(start);
    let definition = definition(std::str::from_utf8(&row[start + 4..end]).expect("JSON"));
    let length = u32::try_from(definition.len())
        .expect("it is short")
        .to_le_bytes();
    let forged = [
        &row[..start],
        &length,
        definition.as_bytes(),
        &row[end..row.len() - 8],
    ]
    .concat();
    let mut digest = Sha256::new_with_prefix(&row[..3]);
    digest.update(Sha256::digest(&definition));
    digest.update(&row[7..23]);
    digest.update(&row[27..start]);
    models.iter().for_each(|model| {
        digest.update((model.len() as u64).to_le_bytes());
        digest.update(model);
    });
    let sum = XxHash3_64::oneshot(&forged).to_le_bytes();
    (
        digest.finalize()[..16].try_into().expect("16 bytes"),
        [forged.as_slice(), &sum].concat(),
    )
}

#[test]
fn forged_definition_with_a_valid_key_is_refused() {
    let request = "book a meeting room for tomorrow";
    // The first forgery is found in the outline, the others in the complete definition.
    let forgeries = [
        ("\"name\":", "\"safe\":true,\"safe\":false,\"name\":"),
        ("\"description\":\"", "\"description\":\"\\ud800"),
        ("\"parameters\":{", "\"parameters\":{\"type\":7,"),
        ("\"properties\":{", "\"properties\":{},\"properties\":{"),
        ("\"parameters\":", "\"http\":\"anywhere\",\"parameters\":"),
    ];
    for (number, (from, to)) in forgeries.into_iter().enumerate() {
        let (server, _, publication) = with_workplace();
        let store = || store(&server.url(), "acme");
        let reader = shared(&server.url(), 0);
        let best = ids(&pick(&reader, request, &wide())).swap_remove(0);
        let models = status(&store()).expect("it answers").models;
        let generation = format!("picktools:{{acme}}:g{}", publication.generation);
        let read_row = |key: &str| -> Vec<u8> {
            redis::from_redis_value(server.ask(&["HGET", key, "r"])).expect("a row")
        };
        let is_best =
            |row: &[u8]| String::from_utf8_lossy(row).contains(&format!("{{\"id\":\"{best}\""));
        let rows: Vec<String> = server
            .keys()
            .into_iter()
            .filter(|key| key.starts_with(&format!("{generation}:t:")))
            .collect();
        let old = rows
            .into_iter()
            .find(|key| is_best(&read_row(key)))
            .expect("the row of the best tool");
        let (key, row) = forge_row(&read_row(&old), &models, |definition| {
            assert!(definition.contains(from), "{definition}");
            definition.replacen(from, to, 1)
        });
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let new = format!("{generation}:t:{hex}");
        server.ask(&["COPY", &old, &new]);
        server.ask_bytes(&[b"HSET", new.as_bytes(), b"r", &row]);
        server.ask(&["DEL", &old]);
        let (_, old) = old.rsplit_once(':').expect("a key of a row");
        let old: Vec<u8> = (0..16)
            .map(|at| u8::from_str_radix(&old[2 * at..2 * at + 2], 16).expect("digits"))
            .collect();
        server.ask_bytes(&[b"SREM", format!("{generation}:tools").as_bytes(), &old]);
        server.ask_bytes(&[b"SADD", format!("{generation}:tools").as_bytes(), &key]);

        let reports_damage = |selection: &Selection| {
            selection
                .degraded
                .iter()
                .any(|part| part.reason.contains("damaged"))
        };
        // The reader continues with its cache.
        for _ in 0..2 {
            let selection = pick(&reader, request, &wide());
            assert!(
                reports_damage(&selection),
                "{number}: {:?}",
                selection.degraded
            );
            assert_eq!(ids(&selection)[0], best, "{number}");
            std::thread::sleep(Duration::from_millis(1_100));
        }
        // A reader with an empty cache picks only other tools.
        let fresh = shared(&server.url(), 0);
        match fresh.pick(&Query::new(request), &wide()) {
            Ok(selection) => {
                assert!(
                    number > 0 && reports_damage(&selection),
                    "{number}: {:?}",
                    selection.degraded
                );
                let found = ids(&selection);
                assert!(
                    !found.contains(&best) && !found.iter().any(|id| id == "unreadable"),
                    "{number}: {found:?}"
                );
            }
            Err(error) => assert!(
                number == 0 && error.to_string().contains("damaged"),
                "{number}: {error}"
            ),
        }
        // Loading the complete snapshot reports the damage at once.
        let refused = [
            SharedEngine::open(store(), SharedOptions::default()).expect_err("all rows are read"),
            SharedCatalog::open(store()).expect_err("all rows are read"),
        ];
        for error in refused {
            assert!(
                matches!(error, StoreError::Damaged { .. }) && error.to_string().contains(&hex),
                "{number}: {error}"
            );
        }
        let verification = verify(&store(), &|_, _| {}).expect("the others are read");
        assert!(
            verification
                .messages
                .iter()
                .any(|fault| fault.contains(&hex)),
            "{number}: {:?}",
            verification.messages
        );
    }
}

#[test]
fn store_user_of_a_tenant_cannot_read_rows_of_another() {
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
    let opened = SharedEngine::open(
        store(&as_b, "acme"),
        SharedOptions {
            max_local_tools: 0,
            ..SharedOptions::default()
        },
    );
    let refused = opened.expect_err("the user has no permission").to_string();
    assert!(
        refused.contains("NOPERM") || refused.contains("No permissions"),
        "{refused}"
    );
    assert!(
        !refused.contains("pass@"),
        "no password in the message: {refused}"
    );
    let search = ["FT.SEARCH", "picktools:{acme}:g1", "*", "RETURN", "1", "r"];
    let client = redis::Client::open(as_b.as_str()).expect("an address");
    let mut connection = client.get_connection().expect("the user may connect");
    let searched: redis::RedisResult<redis::Value> = redis::cmd(search[0])
        .arg(&search[1..])
        .query(&mut connection);
    let refused = searched.expect_err("the user may not search").to_string();
    assert!(refused.contains("permissions"), "{refused}");
    // The user can publish and read the data of its tenant.
    let engine = Engine::new(secrets()).expect("indexed");
    publish(&engine, &store(&as_b, "b"), &|_, _| {}).expect("the user may write");
    let own = SharedEngine::open(
        store(&as_b, "b"),
        SharedOptions {
            max_local_tools: 0,
            ..SharedOptions::default()
        },
    )
    .expect("it opens");
    assert_eq!(
        ids(&pick(&own, "read the secret", &wide())),
        ["vault/read_secret"]
    );
}

#[test]
fn password_is_in_no_message() {
    for address in [
        "redis://user:hunter2@127.0.0.1:1/0",
        "redis://:hunter2@127.0.0.1:1",
        "rediss://user:hunter2@127.0.0.1:1/0",
        "redis://:hunter2@127.0.0.1:1/0?protocol=resp3",
        "hunter2@nowhere:x",
        "redis://u:hunter2@[::1/0",
    ] {
        let message = match RedisStore::new(RedisOptions::new(address)) {
            Ok(store) => {
                let failed =
                    SharedEngine::open(store, SharedOptions::default()).expect_err("no server");
                format!("{failed} {failed:?}")
            }
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!message.contains("hunter2"), "{message}");
    }
}
