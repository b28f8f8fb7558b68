//! Store failures: killed, restarted empty, full, slow, cut off, foreign data, rolled back.

use std::time::{Duration, Instant};

use picktools::catalog::Changes;
use picktools::selection::Stage;
use picktools::{Catalog, Engine, PickOptions, Selection, Tool};
use picktools_store::{SharedEngine, StoreError, collect, publish, publish_anew, status, verify};
use picktools_testing::store::{Relay, RelayMode, StoreServer};
use picktools_testing::{tool, workplace};
use redis::Value;

use crate::support::{
    ids, pick, published, shared, store, try_publish, wide, with_workplace, within,
};

const REQUEST: &str = "book a meeting room for tomorrow";

fn is_degraded(selection: &Selection) -> bool {
    selection
        .degraded
        .iter()
        .any(|degraded| degraded.stage == Stage::Store)
}

/// Checks that a pick answers in time from the cache while the store fails, and reports it.
fn check_degraded(engine: &SharedEngine, limit: Duration, best: &str) {
    for timeout in [None, Some(limit)] {
        let options = PickOptions { timeout, ..wide() };
        let started = Instant::now();
        let selection = pick(engine, REQUEST, &options);
        assert!(
            started.elapsed() < limit + Duration::from_millis(300),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(ids(&selection).first().map(String::as_str), Some(best));
        assert!(is_degraded(&selection), "{:?}", selection.stages);
        assert!(selection.snapshot.is_some());
    }
    assert!(engine.state().fault.is_some());
}

fn best(engine: &SharedEngine) -> String {
    ids(&pick(engine, REQUEST, &wide())).swap_remove(0)
}

#[test]
fn picks_use_the_cache_while_the_store_is_down() {
    let (mut server, engine, publication) = with_workplace();
    let (partial, complete) = (shared(&server.url(), 0), shared(&server.url(), 1_000));
    let expected = best(&partial);
    assert_eq!(best(&complete), expected);
    server.kill();
    for engine in [&partial, &complete] {
        within(Duration::from_secs(3), "the fault is noticed", || {
            engine.state().fault.is_some()
        });
        check_degraded(engine, Duration::from_millis(700), &expected);
        assert_eq!(engine.state().snapshot.version, publication.version);
    }
    // After an empty restart, picks use the previous snapshot and report it.
    server.restart();
    for engine in [&partial, &complete] {
        within(
            Duration::from_secs(3),
            "the empty store is reported",
            || {
                engine
                    .state()
                    .fault
                    .is_some_and(|fault| fault.contains("has no catalog"))
            },
        );
        check_degraded(engine, Duration::from_millis(700), &expected);
    }
    published(&engine, &server.url());
    for engine in [&partial, &complete] {
        within(Duration::from_secs(5), "the store is used again", || {
            !is_degraded(&pick(engine, REQUEST, &wide()))
        });
        assert_eq!(best(engine), expected);
        assert!(engine.state().fault.is_none() && engine.state().failures > 0);
    }
}

#[test]
fn full_store_refuses_a_publication_and_serves_readers() {
    let (server, engine, _) = with_workplace();
    let reader = shared(&server.url(), 0);
    let expected = best(&reader);
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.ask(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let put = (0..50)
        .map(|number| {
            tool(
                "more",
                &format!("more_{number}"),
                "Books a meeting room at once",
            )
        })
        .collect();
    let more = engine
        .update(Changes {
            put,
            ..Changes::default()
        })
        .expect("it is indexed");
    let refused = try_publish(&more, &server.url()).expect_err("it is full");
    assert!(
        refused.to_string().contains("OOM") && refused.to_string().contains("store gc"),
        "{refused}"
    );
    assert_eq!(best(&reader), expected);
    assert!(
        !is_degraded(&pick(&reader, REQUEST, &wide())),
        "readers are not affected"
    );
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    server.ask(&["DEL", "picktools:{acme}:lock"]);
    assert_eq!(published(&more, &server.url()).written, 50);
}

#[test]
fn garbage_is_removed_from_a_full_store_without_a_publisher() {
    let (server, engine, _) = with_workplace();
    let lock = "picktools:{acme}:lock";
    // A generation with an index, and one without.
    let leave_behind = || {
        server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        server.ask(&["SADD", "picktools:{acme}:generations", "77", "78"]);
        let tool_prefix = "picktools:{acme}:g77:t:";
        server.ask(&[
            "FT.CREATE",
            "picktools:{acme}:g77",
            "ON",
            "HASH",
            "PREFIX",
            "1",
            tool_prefix,
            "SCHEMA",
            "w",
            "TEXT",
        ]);
        for number in 0..500 {
            server.ask(&["HSET", &format!("{tool_prefix}{number}"), "w", "word"]);
        }
        server.ask(&["SET", "picktools:{acme}:g78:head", "{}"]);
        server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        server.ask(&["CONFIG", "SET", "maxmemory", "1mb"]);
    };
    let count_garbage = || {
        server
            .keys()
            .iter()
            .filter(|key| key.contains(":g77:") || key.contains(":g78:"))
            .count()
    };
    leave_behind();
    let collected = collect(&store(&server.url(), "acme")).expect("it is removed");
    assert_eq!(
        (collected.generations, collected.keys, count_garbage()),
        (2, 501, 0)
    );
    leave_behind();
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    server.ask(&["SET", lock, "somebody"]);
    server.ask(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = collect(&store(&server.url(), "acme")).expect_err("somebody publishes");
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    assert_eq!(count_garbage(), 501);
    let expiry: i64 = redis::from_redis_value(server.ask(&["PTTL", lock])).expect("a number");
    assert!((1..=60_000).contains(&expiry), "{expiry}");
    server.ask(&["DEL", lock]);
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    published(&engine, &server.url());
    let verification = verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read");
    assert_eq!(
        (verification.tools, verification.faults),
        (engine.catalog().len(), 0),
        "{:?}",
        verification.messages
    );
}

#[test]
fn slow_or_cut_store_delays_no_pick_beyond_its_timeout() {
    let server = StoreServer::with_search(&[]);
    published(
        &Engine::new(workplace()).expect("it is indexed"),
        &server.url(),
    );
    let relay = Relay::to(server.address());
    for mode in [RelayMode::Slow, RelayMode::Cut] {
        relay.set_mode(RelayMode::Forward);
        let (partial, complete) = (shared(&relay.url(), 0), shared(&relay.url(), 1_000));
        let expected = best(&partial);
        relay.set_mode(mode);
        // A pick before the engine has noticed the failure.
        let started = Instant::now();
        let selection = pick(
            &partial,
            REQUEST,
            &PickOptions {
                timeout: Some(Duration::from_millis(300)),
                ..wide()
            },
        );
        assert!(
            started.elapsed() < Duration::from_millis(600),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(ids(&selection).first(), Some(&expected));
        assert!(is_degraded(&selection));
        for engine in [&partial, &complete] {
            within(Duration::from_secs(5), "the fault is noticed", || {
                engine.state().fault.is_some()
            });
            check_degraded(engine, Duration::from_millis(700), &expected);
        }
        relay.set_mode(RelayMode::Forward);
        for engine in [&partial, &complete] {
            within(Duration::from_secs(15), "the store is used again", || {
                !is_degraded(&pick(engine, REQUEST, &wide()))
            });
        }
    }
}

#[test]
fn foreign_data_is_an_error_and_never_a_tool() {
    let (server, engine, publication) = with_workplace();
    let generation = format!("picktools:{{acme}}:g{}", publication.generation);
    let reader = shared(&server.url(), 0);
    let expected = best(&reader);
    let rows: Vec<String> = server
        .keys()
        .into_iter()
        .filter(|key| key.starts_with(&format!("{generation}:t:")))
        .collect();
    // A row with a wrong type is named.
    server.ask(&["RENAME", &rows[3], "backup"]);
    server.ask(&["SET", &rows[3], "text"]);
    let verification =
        verify(&store(&server.url(), "acme"), &|_, _| {}).expect("the others can be read");
    let (_, row) = rows[3].rsplit_once(':').expect("a key of a row");
    let names_the_row =
        |fault: &String| fault.contains(row) && fault.contains("it is a string, not a hash");
    assert!(
        verification.messages.iter().any(names_the_row),
        "{:?}",
        verification.messages
    );
    server.ask(&["DEL", &rows[3]]);
    server.ask(&["RENAME", "backup", &rows[3]]);
    // The row of another tool under each key: its digest does not match the key.
    let row: Vec<u8> =
        redis::from_redis_value(server.ask(&["HGET", &rows[0], "r"])).expect("a row");
    for key in &rows[1..] {
        server.ask_bytes(&[b"HSET", key.as_bytes(), b"r", &row]);
    }
    let fresh = shared(&server.url(), 0);
    let refused = fresh
        .pick(&picktools::Query::new(REQUEST), &wide())
        .expect_err("no valid row was ever read");
    assert!(refused.to_string().contains("is damaged"), "{refused}");
    // An engine with valid rows continues with them.
    assert_eq!(best(&reader), expected);
    for (key, command) in [
        (format!("{generation}:tools"), vec!["SET", "", "text"]),
        (
            format!("{generation}:head"),
            vec!["SET", "", "{\"current\": 1}"],
        ),
        (
            "picktools:{acme}:current".to_owned(),
            vec!["SET", "", "no JSON"],
        ),
        (
            "picktools:{acme}:current".to_owned(),
            vec!["SADD", "", "a set"],
        ),
    ] {
        server.ask(&["FLUSHALL"]);
        published(&engine, &server.url());
        let generation = |key: &str| {
            let current: String =
                redis::from_redis_value(server.ask(&["GET", "picktools:{acme}:current"]))
                    .expect("text");
            let current: serde_json::Value = serde_json::from_str(&current).expect("JSON");
            key.replace(
                &format!(":g{}", publication.generation),
                &format!(":g{}", current["generation"]),
            )
        };
        let key = generation(&key);
        let reader = shared(&server.url(), 0);
        let expected = best(&reader);
        server.ask(&["DEL", &key]);
        let command: Vec<&str> = command
            .into_iter()
            .map(|part| if part.is_empty() { key.as_str() } else { part })
            .collect();
        server.ask(&command);
        let opened = SharedEngine::open(
            crate::support::store(&server.url(), "acme"),
            picktools_store::SharedOptions {
                max_local_tools: 0,
                ..Default::default()
            },
        );
        let message = match opened {
            Err(error) => error.to_string(),
            Ok(engine) => engine
                .pick(&picktools::Query::new(REQUEST), &wide())
                .expect_err("no valid row was ever read")
                .to_string(),
        };
        assert!(
            message.contains("damaged") || message.contains("WRONGTYPE"),
            "{key}: {message}"
        );
        let selection = pick(&reader, REQUEST, &wide());
        assert_eq!(ids(&selection).first(), Some(&expected), "{key}");
    }
}

#[test]
fn missing_index_is_reported_and_picks_use_the_cache() {
    let server = StoreServer::with_search(&[]);
    let publication = published(
        &Engine::new(workplace()).expect("it is indexed"),
        &server.url(),
    );
    let reader = shared(&server.url(), 0);
    let expected = best(&reader);
    server.ask(&[
        "FT.DROPINDEX",
        &format!("picktools:{{acme}}:g{}", publication.generation),
    ]);
    let selection = pick(&reader, REQUEST, &wide());
    assert!(is_degraded(&selection));
    assert_eq!(ids(&selection).first(), Some(&expected));
}

#[test]
fn pick_uses_the_generation_that_replaced_its_own() {
    let (server, engine, _) = with_workplace();
    let expected = best(&shared(&server.url(), 0));
    for _ in 0..5 {
        // The cache is empty.
        let reader = shared(&server.url(), 0);
        let publication = publish_anew(&engine, &store(&server.url(), "acme"), &|_, _| {})
            .expect("it is published");
        let selection = pick(&reader, REQUEST, &wide());
        assert_eq!(ids(&selection).first(), Some(&expected));
        assert_eq!(
            selection.snapshot.map(|snapshot| snapshot.version),
            Some(publication.version)
        );
        assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
    }
}

#[test]
fn connection_errors_name_the_remedy() {
    let mut server = StoreServer::start(&[]);
    server.ask(&["CONFIG", "SET", "requirepass", "s3cret-word"]);
    let message = status(&store(&server.url(), "acme"))
        .expect_err("a password is required")
        .to_string();
    assert!(
        message.contains("give user and password") && !message.contains("s3cret-word"),
        "{message}"
    );
    server.kill();
    let message = status(&store(&server.url(), "acme"))
        .expect_err("the server is down")
        .to_string();
    assert!(
        message.contains("start the server, or correct the address"),
        "{message}"
    );
}

#[test]
fn rolled_back_store_is_followed_and_published_to_again() {
    let mut server = StoreServer::with_search(&["--dbfilename", "old.rdb"]);
    let engine = Engine::new(workplace()).expect("it is indexed");
    let old = published(&engine, &server.url());
    server.save();
    let put = vec![tool(
        "kitchen",
        "descale_kettle",
        "Descales the kettle of the kitchen",
    )];
    let changed = engine
        .update(Changes {
            put,
            ..Changes::default()
        })
        .expect("it is indexed");
    let new = published(&changed, &server.url());
    let reader = shared(&server.url(), 0);
    let has_kettle = |engine: &SharedEngine| {
        ids(&pick(engine, "descale the kettle", &wide()))
            .iter()
            .any(|id| id.ends_with("kettle"))
    };
    assert!(has_kettle(&reader) && new.version > old.version);
    server.kill();
    server.restart();
    within(
        Duration::from_secs(5),
        "the older snapshot is loaded",
        || reader.state().snapshot.version == old.version,
    );
    within(Duration::from_secs(5), "the index is loaded again", || {
        !is_degraded(&pick(&reader, REQUEST, &wide()))
    });
    assert!(!has_kettle(&reader), "removed tools are not picked");
    published(&changed, &server.url());
    within(
        Duration::from_secs(5),
        "the new tool is picked again",
        || has_kettle(&reader),
    );
    assert!(matches!(server.ask(&["PING"]), Value::SimpleString(_)));
    assert!(!matches!(
        try_publish(&changed, &server.url()),
        Err(StoreError::Busy { .. })
    ));
}

#[test]
fn promoted_replica_is_followed_and_published_to() {
    let mut primary = StoreServer::with_search(&[]);
    let port = primary.address().port().to_string();
    let replica = StoreServer::with_search(&["--replicaof", "127.0.0.1", &port]);
    let line = Relay::to(primary.address());
    let engine = Engine::new(workplace()).expect("it is indexed");
    let old = published(&engine, &line.url());
    within(Duration::from_secs(20), "it is replicated", || {
        replica.keys().len() == primary.keys().len()
    });
    let at_replica = shared(&replica.url(), 0);
    assert_eq!(
        best(&at_replica),
        best(&shared(&primary.url(), 0)),
        "a replica can be read"
    );
    assert!(
        try_publish(&engine, &replica.url()).is_err(),
        "but not written"
    );
    // The replica is promoted, and misses one more publication to the primary.
    replica.ask(&["REPLICAOF", "NO", "ONE"]);
    let put = vec![tool(
        "kitchen",
        "descale_kettle",
        "Descales the kettle of the kitchen",
    )];
    let changed = engine
        .update(Changes {
            put,
            ..Changes::default()
        })
        .expect("it is indexed");
    published(&changed, &line.url());
    let reader = shared(&line.url(), 0);
    let has_kettle = || {
        ids(&pick(&reader, "descale the kettle", &wide()))
            .iter()
            .any(|id| id.ends_with("kettle"))
    };
    assert!(has_kettle());
    primary.kill();
    line.redirect_to(replica.address());
    within(Duration::from_secs(10), "it follows the replica", || {
        reader.state().snapshot.version == old.version
    });
    within(Duration::from_secs(10), "picks use the store", || {
        !is_degraded(&pick(&reader, REQUEST, &wide()))
    });
    assert!(!has_kettle(), "missing tools are not picked");
    published(&changed, &line.url());
    within(
        Duration::from_secs(5),
        "the new tool is picked again",
        has_kettle,
    );
}

#[test]
fn damaged_data_is_replaced_by_the_next_publication() {
    let (server, engine, first) = with_workplace();
    let expected = best(&shared(&server.url(), 0));
    // Data of another tenant and of gateways must not be removed.
    server.ask(&["SET", "picktools:{acme}:gateway:pins", "kept"]);
    server.ask(&["SET", "picktools:{acmes}:g1:head", "kept"]);
    let current = || -> serde_json::Value {
        let text: String =
            redis::from_redis_value(server.ask(&["GET", "picktools:{acme}:current"]))
                .expect("text");
        serde_json::from_str(&text).expect("JSON")
    };
    let mut version = first.version;
    for (key, command) in [
        ("current", vec!["SET", "", "rubbish"]),
        ("current", vec!["SADD", "", "rubbish"]),
        ("counter", vec!["SADD", "", "rubbish"]),
        ("counter", vec!["SET", "", "rubbish"]),
        ("generations", vec!["SADD", "", "rubbish"]),
        ("generations", vec!["SET", "", "rubbish"]),
        ("gN:head", vec!["SET", "", "rubbish"]),
        ("gN:head", vec!["DEL", ""]),
        ("gN:tools", vec!["SET", "", "rubbish"]),
        ("gN:tools", vec!["SADD", "", "rubbish"]),
        ("gN:tools", vec!["DEL", ""]),
        ("gN:staged", vec!["SET", "", "rubbish"]),
        ("gN", vec!["FT.DROPINDEX", ""]),
    ] {
        let generation = format!("g{}", current()["generation"]);
        let key = format!("picktools:{{acme}}:{}", key.replace("gN", &generation));
        if !matches!(command[0], "SET" | "FT.DROPINDEX")
            && !key.ends_with("generations")
            && !key.ends_with("tools")
        {
            server.ask(&["DEL", &key]);
        }
        server.ask(
            &command
                .iter()
                .map(|part| if part.is_empty() { key.as_str() } else { part })
                .collect::<Vec<_>>(),
        );
        // A change makes the publisher read the damaged value.
        let put = vec![tool(
            "kitchen",
            &format!("descale_{version}"),
            "Descales the kettle of the kitchen",
        )];
        let changed = engine
            .update(Changes {
                put,
                ..Changes::default()
            })
            .expect("it is indexed");
        let publication = published(&changed, &server.url());
        assert!(
            publication.version > version,
            "{command:?} {key}: {} after {version}",
            publication.version
        );
        version = publication.version;
        assert_eq!(
            best(&shared(&server.url(), 0)),
            expected,
            "{command:?} {key}"
        );
        let verification = verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read");
        assert_eq!(
            (verification.tools, verification.faults),
            (changed.catalog().len(), 0),
            "{command:?} {key}: {:?}",
            verification.messages
        );
    }
    // Damage that a publication does not notice is repaired by a complete publication.
    let generation = format!("picktools:{{acme}}:g{}", current()["generation"]);
    let keys = server.keys();
    let row = keys
        .iter()
        .find(|key| key.starts_with(&format!("{generation}:t:")))
        .expect("a row");
    server.ask(&["HSET", row, "r", "rubbish"]);
    keys.iter()
        .filter(|key| key.contains(":df:"))
        .for_each(|key| drop(server.ask(&["DEL", key])));
    let verification = verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read");
    assert_eq!(verification.faults, 2, "{:?}", verification.messages);
    let publication =
        publish_anew(&engine, &store(&server.url(), "acme"), &|_, _| {}).expect("it is published");
    assert!(publication.anew && publication.written == engine.catalog().len());
    let verification = verify(&store(&server.url(), "acme"), &|_, _| {}).expect("it is read");
    assert_eq!(
        (verification.tools, verification.faults),
        (engine.catalog().len(), 0),
        "{:?}",
        verification.messages
    );
    let generation = format!("picktools:{{acme}}:g{}:", publication.generation);
    let is_left =
        |key: &&String| key.starts_with("picktools:{acme}:g1") && !key.starts_with(&generation);
    assert_eq!(
        server.keys().iter().find(is_left),
        None,
        "previous generations are removed"
    );
    for key in ["picktools:{acme}:gateway:pins", "picktools:{acmes}:g1:head"] {
        assert_eq!(
            server.ask(&["GET", key]),
            Value::BulkString(b"kept".to_vec()),
            "{key}"
        );
    }
}

#[test]
fn lost_counters_and_generations_leave_no_garbage() {
    let server = StoreServer::with_search(&[]);
    let engine = Engine::new(workplace()).expect("it is indexed");
    let tools: Vec<_> = workplace()
        .tools()
        .expect("readable")
        .iter()
        .step_by(2)
        .map(|tool| Tool::clone(tool))
        .collect();
    let half = Engine::new(Catalog::from_tools(tools).expect("a catalog")).expect("it is indexed");
    let (counter, generations) = ("picktools:{acme}:counter", "picktools:{acme}:generations");
    let numbers = [
        "05",
        "+5",
        "abc",
        "-3",
        "9223372036854775807",
        "18446744073709551615",
    ];
    let mut damages: Vec<Vec<Vec<&str>>> = numbers
        .map(|number| vec![vec!["SET", counter, number]])
        .into();
    damages.extend([
        vec![vec!["DEL", counter]],
        vec![vec!["DEL", generations]],
        vec![vec!["SADD", generations, "x"]],
        vec![vec!["DEL", generations], vec!["LPUSH", generations, "x"]],
        vec![vec!["DEL", counter, generations]],
        vec![
            vec!["DEL", counter, generations],
            vec!["LPUSH", counter, "x"],
            vec!["HSET", generations, "x", "x"],
        ],
    ]);
    for damage in damages {
        for anew in [false, true] {
            server.ask(&["FLUSHALL"]);
            let before = published(&engine, &server.url());
            // The remains of killed publishers with the next two numbers, one of them with an
            // index.
            for (number, has_index) in [(before.version + 1, true), (before.version + 2, false)] {
                let key = |suffix: &str| format!("picktools:{{acme}}:g{number}{suffix}");
                if has_index {
                    server.ask(&[
                        "FT.CREATE",
                        &key(""),
                        "ON",
                        "HASH",
                        "PREFIX",
                        "1",
                        &key(":t:"),
                        "SCHEMA",
                        "w",
                        "TEXT",
                    ]);
                }
                server.ask(&["HSET", &key(":t:00"), "w", "word"]);
                server.ask(&["SADD", &key(":tools"), "no key"]);
                server.ask(&["HSET", &key(":df:0"), "12345678", "7"]);
                server.ask(&["SADD", generations, &number.to_string()]);
            }
            damage.iter().for_each(|command| drop(server.ask(command)));
            let target = store(&server.url(), "acme");
            let publication = if anew {
                publish_anew(&half, &target, &|_, _| {})
            } else {
                publish(&half, &target, &|_, _| {})
            };
            let publication =
                publication.unwrap_or_else(|error| panic!("{damage:?}, {anew}: {error}"));
            assert!(
                publication.version > before.version,
                "{damage:?}: {publication:?}"
            );
            let verification = verify(&target, &|_, _| {}).expect("it is read");
            assert_eq!(
                (verification.tools, verification.faults),
                (half.catalog().len(), 0),
                "{damage:?}, {anew}: {:?}",
                verification.messages
            );
            collect(&target).expect("it is removed");
            let own = format!("picktools:{{acme}}:g{}:", publication.generation);
            let is_left = |key: &&String| {
                key.starts_with("picktools:{acme}:g")
                    && !key.starts_with(&own)
                    && *key != generations
            };
            assert_eq!(
                server.keys().iter().find(is_left),
                None,
                "{damage:?}, {anew}"
            );
            let indexes: Vec<String> =
                redis::from_redis_value(server.ask(&["FT._LIST"])).expect("names");
            assert_eq!(indexes, [own.trim_end_matches(':')], "{damage:?}, {anew}");
            assert_eq!(
                server.ask(&["EXISTS", "picktools:{acme}:lock"]),
                Value::Int(0)
            );
        }
    }
}

#[test]
fn missing_tool_list_is_reported_and_stale_lock_expires() {
    let (server, engine, _) = with_workplace();
    let reader = shared(&server.url(), 0);
    let expected = best(&reader);
    let rows: Vec<String> = server
        .keys()
        .into_iter()
        .filter(|key| key.contains(":t:"))
        .collect();
    server.ask(&["SET", "picktools:{acme}:lock", "nobody"]);
    assert!(matches!(
        try_publish(&engine, &server.url()),
        Err(StoreError::Busy { .. })
    ));
    let expiry: i64 =
        redis::from_redis_value(server.ask(&["PTTL", "picktools:{acme}:lock"])).expect("a number");
    assert!((1..=60_000).contains(&expiry), "{expiry}");
    // The list of tools is removed.
    let fresh = shared(&server.url(), 0);
    server.ask(&[
        "DEL",
        &rows[0].replace(&rows[0][rows[0].find(":t:").expect("a row")..], ":tools"),
    ]);
    let refused = fresh
        .pick(&picktools::Query::new(REQUEST), &wide())
        .expect_err("the list of tools is missing");
    assert!(refused.to_string().contains("--anew"), "{refused}");
    let selection = pick(&reader, REQUEST, &wide());
    assert!(is_degraded(&selection));
    assert_eq!(ids(&selection).first(), Some(&expected));
}
