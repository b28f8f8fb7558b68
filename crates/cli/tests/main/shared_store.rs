//! A store that gateways share, from the view of the operator. The gateway crate tests failures of
//! the store.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, eventually, upstream};
use crate::gateway_http::Serving;
use picktools_testing::store::{Relay, RelayMode, StoreServer};

/// A store with a password.
struct Store(StoreServer);

impl Store {
    fn start() -> Self {
        Self::of(StoreServer::start(&[]))
    }

    /// Starts a store with a search index.
    fn with_search() -> Self {
        Self::of(StoreServer::with_search(&[]))
    }

    fn of(server: StoreServer) -> Self {
        server.ask(&[
            "ACL",
            "SETUSER",
            "gateway",
            "on",
            ">s3cret-word",
            "~*",
            "+@all",
        ]);
        Self(server)
    }

    /// Runs a command with the address in PICKTOOLS_STORE.
    fn run(&self, arguments: &[&str]) -> Output {
        let arguments = [arguments, &["--store", "env", "--tenant", "acme"]].concat();
        picktools(&arguments)
            .env("PICKTOOLS_STORE", self.url())
            .output()
            .expect("it runs")
    }

    fn url(&self) -> String {
        at(self.0.address())
    }
}

fn at(address: SocketAddr) -> String {
    format!("redis://gateway:s3cret-word@{address}/0")
}

fn approve(store: &Store, arguments: &[&str]) -> Output {
    let store = store.url();
    picktools(
        &[
            &["approve", "--store", &store, "--tenant", "acme"],
            arguments,
        ]
        .concat(),
    )
    .output()
    .expect("it runs")
}

#[test]
fn approval_applies_to_all_gateways_of_a_tenant() {
    let store = Store::start();
    let start = || {
        let place = Place::with(&json!({"up": upstream()}));
        place.write("settings.json", &json!({"trust": "approve"}));
        Serving::start(place, &["--store", &store.url(), "--tenant", "acme"])
    };
    let (one, other) = (start(), start());
    let until = Instant::now() + Duration::from_secs(20);
    let waiting = loop {
        let shown: Value =
            serde_json::from_str(&stdout(&approve(&store, &["--json"]))).expect("JSON");
        if shown["definitions"]
            .as_array()
            .is_some_and(|waiting| !waiting.is_empty())
        {
            break shown["definitions"].clone();
        }
        assert!(Instant::now() < until, "nothing waits");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(
        waiting
            .as_array()
            .expect("a list")
            .iter()
            .any(|waiting| waiting["name"] == "up/echo"),
        "{waiting}"
    );
    let done = approve(&store, &["--all-of", "up", "--yes"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(approve(&store, &[]).status.code(), Some(0), "nothing waits");
    let lost = approve(&store, &["--lost", "restore"]);
    assert!(
        stderr(&lost).contains("no unresolved rollback"),
        "{}",
        stderr(&lost)
    );
    assert!(
        one.place
            .path("state/gateway")
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some()),
        "it is remembered"
    );
    for serving in [&one, &other] {
        assert_eq!(serving.raw("GET", "/health", &[], "").body, "ok\n");
    }
}

#[test]
fn unusable_store_is_reported_without_password() {
    let mut store = Store::start();
    let run = |arguments: &[&str]| {
        let mut program = picktools(&["approve"]);
        let output = program
            .args(arguments)
            .env("PICKTOOLS_STORE", store.url())
            .output()
            .expect("it runs");
        (
            output.status.code(),
            format!("{}{}", stdout(&output), stderr(&output)),
        )
    };
    assert_eq!(run(&["--store", "env"]).0, Some(0), "by the variable");
    let (code, told) = run(&["--store", "env", "--tenant", "A b"]);
    assert!(code == Some(2) && told.contains("--tenant"), "{told}");
    let (code, told) = run(&["--tenant", "acme"]);
    assert!(
        code == Some(2) && told.contains("--store"),
        "a tenant of no store: {told}"
    );
    let output = picktools(&["store", "status", "--store", "env"])
        .env("PICKTOOLS_STORE", "")
        .output()
        .expect("it runs");
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("PICKTOOLS_STORE"),
        "{}",
        stderr(&output)
    );
    let (code, help) = run(&["--help"]);
    assert!(
        code == Some(0) && help.contains("PICKTOOLS_STORE") && !help.contains("s3cret-word"),
        "{help}"
    );
    for url in [
        "http://:s3cret-word@x",
        "redis://:s3cret-word@127.0.0.1:1/0",
    ] {
        let (code, told) = run(&["--store", url]);
        assert!(code == Some(2) && !told.contains("s3cret-word"), "{told}");
    }
    let port = store.0.address().port();
    store.0.kill();
    let place = Place::with(&json!({"up": upstream()}));
    let mut program = crate::gateway::gateway_program();
    program
        .arg("serve")
        .args(place.arguments())
        .args(["--store", &store.url()])
        .stdin(Stdio::null());
    let output = program.output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(2),
        "there is no gateway without its store"
    );
    let told = stderr(&output);
    assert!(
        told.contains(&format!("127.0.0.1:{port}")) && !told.contains("s3cret-word"),
        "{told}"
    );
}

/// Writes a catalog with one tool per line.
fn write(folder: &std::path::Path, names: &[&str]) -> String {
    let path = folder.join("tools.jsonl");
    let line = |name: &&str| {
        let description = format!("Does the {} of the workshop", name.replace('_', " "));
        format!(
            "{}\n",
            json!({"name": name, "description": description, "parameters": {"type": "object"}, "source": "workshop"})
        )
    };
    std::fs::write(&path, names.iter().map(line).collect::<String>()).expect("it is written");
    path.to_str().expect("a path").to_owned()
}

/// Returns the selection of a gateway.
fn selected(serving: &Serving, request: &str) -> Value {
    let json = [("Content-Type", "application/json")];
    let answer = serving.raw(
        "POST",
        "/v1/pick",
        &json,
        &json!({"query": request}).to_string(),
    );
    serde_json::from_str(&answer.body).expect("JSON")
}

/// Returns the ids of a selection.
fn ids(selection: &Value) -> Vec<&str> {
    let picks = selection["picks"]
        .as_array()
        .unwrap_or_else(|| panic!("{selection}"));
    picks
        .iter()
        .map(|pick| pick["tool"]["id"].as_str().expect("an id"))
        .collect()
}

/// Returns `true` if the first pick of a gateway is this tool.
fn picks(serving: &Serving, request: &str, id: &str) -> bool {
    ids(&selected(serving, request)).first() == Some(&id)
}

#[test]
fn published_catalog_serves_two_gateways() {
    let (store, folder) = (Store::with_search(), tempfile::tempdir().expect("a folder"));
    let none = store.run(&["pick", "sharpen the chisel"]);
    assert!(
        none.status.code() == Some(2) && stderr(&none).contains("picktools index --store"),
        "{}",
        stderr(&none)
    );
    let shown = store.run(&["store", "status"]);
    assert!(
        stdout(&shown).contains("no catalog is published") && !stdout(&shown).contains("s3cret"),
        "{}",
        stdout(&shown)
    );
    let refused = store.run(&["mcp"]);
    assert!(
        stderr(&refused).contains("the store has no catalog"),
        "{}",
        stderr(&refused)
    );
    let refused = stderr(&store.run(&["mcp", "--config", "no/such.json"]));
    assert!(
        refused.contains("no/such.json") && !refused.contains("the store has no catalog"),
        "{refused}"
    );
    let names = ["sharpen_chisel", "oil_lathe", "order_screws", "book_bench"];
    let catalog = write(folder.path(), &names);
    // This gateway started before anything was published.
    let start = || {
        Serving::start(
            Place::with(&json!({"up": upstream()})),
            &["--store", &store.url(), "--tenant", "acme"],
        )
    };
    let one = start();
    let published = store.run(&["index", "--catalog", &catalog, "--json"]);
    let report: Value = serde_json::from_str(&stdout(&published)).expect("JSON");
    assert_eq!(
        (
            &report["published"]["anew"],
            &report["published"]["written"]
        ),
        (&json!(true), &json!(4)),
        "{report}"
    );
    let selection: Value = serde_json::from_str(&stdout(&store.run(&[
        "pick",
        "sharpen the chisel",
        "--json",
    ])))
    .expect("JSON");
    assert_eq!(
        selection["picks"][0]["tool"]["id"], "workshop/sharpen_chisel",
        "{selection}"
    );
    assert_eq!(
        selection["snapshot"]["version"],
        report["published"]["version"]
    );
    assert_eq!(
        selection["stages"][0],
        json!({"stage": "store", "status": "ran"})
    );
    let other = start();
    for serving in [&one, &other] {
        eventually("it is served", || {
            picks(serving, "sharpen the chisel", "workshop/sharpen_chisel")
        });
    }
    // Both gateways serve a change.
    write(folder.path(), &[&names[1..], &["varnish_table"]].concat());
    let published = store.run(&["index", "--catalog", &catalog]);
    assert!(
        stdout(&published).contains("published as snapshot"),
        "{}",
        stdout(&published)
    );
    for serving in [&one, &other] {
        eventually("it is served", || {
            picks(serving, "varnish the table", "workshop/varnish_table")
        });
        assert!(
            !ids(&selected(serving, "sharpen the chisel")).contains(&"workshop/sharpen_chisel")
        );
    }
    let verified = store.run(&["store", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
    assert!(
        stdout(&verified).contains("verified 4 tools and 0 sources: intact"),
        "{}",
        stdout(&verified)
    );
    assert_eq!(store.run(&["store", "gc", "--json"]).status.code(), Some(0));
    let status: Value =
        serde_json::from_str(&stdout(&store.run(&["store", "status", "--json"]))).expect("JSON");
    assert_eq!(
        (&status["snapshot"]["tools"], &status["indexed"]),
        (&json!(4), &json!(4)),
        "{status}"
    );
    assert!(
        stdout(&store.run(&["store", "status"])).contains("\npublished "),
        "it tells when"
    );
    // Options that the store cannot honour are refused, because they might exclude tools.
    let reading = ["--untrusted-source", "workshop"];
    for wrong in [
        &["--skills", "fixtures/skills"][..],
        &["--catalog", &catalog],
        &["--prompt-section"],
        &["--tell-blocked", "always"],
        &["--aliases", "ecosystem"],
        &reading,
    ] {
        let refused = store.run(&[&["pick", "sharpen the chisel"], wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
    let mut program = crate::gateway::gateway_program();
    program
        .arg("serve")
        .args(one.place.arguments())
        .args(["--store", &store.url()])
        .args(reading);
    let refused = program.stdin(Stdio::null()).output().expect("it runs");
    assert!(
        refused.status.code() == Some(2) && stderr(&refused).contains("--untrusted-source"),
        "{}",
        stderr(&refused)
    );
    // An evaluation does not replace the published catalog.
    let measured = store.run(&["eval", "fixtures/catalogs/workplace", "--json"]);
    let report: Value = serde_json::from_str(&stdout(&measured)).expect("JSON");
    assert!(
        report["mean"]["nDCG@10"]
            .as_f64()
            .is_some_and(|mean| mean > 0.5),
        "{report}"
    );
    let status: Value =
        serde_json::from_str(&stdout(&store.run(&["store", "status", "--json"]))).expect("JSON");
    assert_eq!(status["snapshot"]["tools"], 4, "{status}");
}

#[test]
fn gateway_without_store_for_a_minute_keeps_serving() {
    let (store, folder) = (Store::with_search(), tempfile::tempdir().expect("a folder"));
    let publish = |names: &[&str]| {
        let published = store.run(&["index", "--catalog", &write(folder.path(), names)]);
        assert_eq!(published.status.code(), Some(0), "{}", stderr(&published));
    };
    publish(&["sharpen_chisel", "oil_lathe"]);
    let line = Relay::to(store.0.address());
    let place = Place::with(&json!({"up": upstream()}));
    place.write("settings.json", &json!({"trust": "approve"}));
    let audit = place.path("audit").display().to_string();
    let gateway = Serving::start(
        place,
        &[
            "--store",
            &at(line.address),
            "--tenant",
            "acme",
            "--audit",
            &audit,
        ],
    );
    eventually("it is served", || {
        picks(&gateway, "sharpen the chisel", "workshop/sharpen_chisel")
    });
    eventually("it waits for the operator", || {
        approve(&store, &[]).status.code() == Some(1)
    });
    let echoes = || ids(&selected(&gateway, "echo what I say")).contains(&"up/echo");
    assert!(!echoes(), "it was not approved");
    line.set_mode(RelayMode::Cut);
    // The other gateway continues to work.
    assert_eq!(
        approve(&store, &["--all-of", "up", "--yes"]).status.code(),
        Some(0)
    );
    publish(&["oil_lathe", "varnish_table"]);
    let health = || gateway.raw("GET", "/health", &[], "").body;
    eventually("it is noticed", || health().contains("store: away"));
    let (cut, mut asked) = (Instant::now(), 0);
    while cut.elapsed() < Duration::from_secs(60) {
        let started = Instant::now();
        let selection = selected(&gateway, &format!("sharpen chisel number {asked}"));
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "nobody waits for the store: {:?}",
            started.elapsed()
        );
        assert_eq!(
            ids(&selection).first(),
            Some(&"workshop/sharpen_chisel"),
            "{selection}"
        );
        assert_eq!(selection["degraded"][0]["stage"], "store", "{selection}");
        assert!(
            !echoes(),
            "an approval that cannot be read approves nothing"
        );
        asked += 1;
        std::thread::sleep(Duration::from_secs(2));
    }
    assert!(health().contains("store: away"));
    let metrics = gateway.raw("GET", "/metrics", &[], "").body;
    assert!(
        metrics.contains("picktools_store_fault{purpose=\"approvals\",fault=\"away\"} 1"),
        "{metrics}"
    );
    line.set_mode(RelayMode::Forward);
    eventually("it goes on with what was published", || {
        picks(&gateway, "varnish the table", "workshop/varnish_table")
    });
    eventually("it has what was approved", echoes);
    eventually("nothing is wrong any more", || health() == "ok\n");
    assert!(
        selected(&gateway, "oil the lathe")
            .get("degraded")
            .is_none_or(|degraded| degraded == &json!([]))
    );
    // The stream contains each decision of the meantime once.
    let recorded = || {
        let stream = store
            .0
            .ask(&["XRANGE", "picktools:{acme}:gateway:audit", "-", "+"]);
        let stream = format!("{stream:?}");
        (0..asked).all(|number| {
            stream
                .matches(&format!("sharpen chisel number {number}\\\""))
                .count()
                == 1
        })
    };
    eventually("it is recorded", recorded);
}

#[test]
fn server_definition_wins_over_published_one() {
    let (store, folder) = (Store::with_search(), tempfile::tempdir().expect("a folder"));
    let catalog = folder.path().join("tools.jsonl");
    let evil = json!({"name": "echo", "description": "Evil echo of what I say", "parameters": {"type": "object"}, "source": "up"});
    let other = json!({"name": "oil_lathe", "description": "Oils the lathe", "parameters": {"type": "object"}, "source": "shop"});
    std::fs::write(&catalog, format!("{evil}\n{other}\n")).expect("it is written");
    let publish = || {
        let published = store.run(&["index", "--catalog", catalog.to_str().expect("a path")]);
        assert_eq!(published.status.code(), Some(0), "{}", stderr(&published));
    };
    publish();
    let gateway = Serving::start(
        Place::with(&json!({"up": upstream()})),
        &["--store", &store.url(), "--tenant", "acme"],
    );
    eventually("its server is asked", || {
        gateway.raw("GET", "/ready", &[], "").status == 200
    });
    eventually("the server's own definition is shown", || {
        let selection = selected(&gateway, "echo what I say");
        let picks = selection["picks"].as_array().expect("a list");
        let echo = picks.iter().find(|pick| pick["tool"]["id"] == "up/echo");
        echo.is_some_and(|pick| {
            !pick["tool"]["description"]
                .as_str()
                .expect("text")
                .contains("Evil")
        })
    });
    assert!(picks(&gateway, "oil the lathe", "shop/oil_lathe"));
    let health = || gateway.raw("GET", "/health", &[], "").body;
    assert_eq!(health(), "ok\n");
    for (key, rubbish, fault) in [
        ("current", Some("rubbish"), "foreign (catalog)"),
        ("current", None, "older (catalog)"),
    ] {
        let key = format!("picktools:{{acme}}:{key}");
        match rubbish {
            Some(rubbish) => store.0.ask(&["SET", &key, rubbish]),
            None => store.0.ask(&["DEL", &key]),
        };
        eventually(fault, || health().contains(fault));
        let selection = selected(&gateway, "oil the lathe");
        assert_eq!(
            ids(&selection).first(),
            Some(&"shop/oil_lathe"),
            "what there was stays"
        );
        assert_eq!(selection["degraded"][0]["stage"], "store", "{selection}");
        publish();
        eventually("it is well again", || health() == "ok\n");
    }
}

#[test]
fn catalog_of_an_emptied_store_replaces_one_of_equal_version() {
    let store = Store::with_search();
    let place = Place::with(&json!({}));
    let publish = |tools: &[&str]| {
        let tool = |name: &&str| {
            let description = format!("{name} of the office");
            json!({"name": name, "description": description, "parameters": {"type": "object"}})
        };
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        place.write("catalog.json", &json!(tools));
        let path = place.path("catalog.json").display().to_string();
        let published = store.run(&["index", "--catalog", &path]);
        assert_eq!(published.status.code(), Some(0), "{}", stderr(&published));
        assert!(
            stdout(&published).contains("snapshot 1"),
            "{}",
            stdout(&published)
        );
    };
    publish(&["open_window", "wipe_archive"]);
    let other_place = Place::with(&json!({}));
    let serving = Serving::start(other_place, &["--store", &store.url(), "--tenant", "acme"]);
    let lists = |name: &str| serving.raw("GET", "/v1/tools", &[], "").body.contains(name);
    eventually("the first catalog is served", &|| lists("wipe_archive"));
    store.0.ask(&["FLUSHALL"]);
    publish(&["open_window", "feed_fish"]);
    eventually("the new catalog is served", &|| {
        lists("feed_fish") && !lists("wipe_archive")
    });
}
