//! A store that gateways share, as its operator sees it. What becomes of it when the store fails is tested where the gateway is.

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, upstream};
use crate::gateway_http::Serving;
use crate::support::root;

/// A store that ends with the test.
struct Store {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Store {
    fn start() -> Self {
        Self::with(&[])
    }

    /// One that has an index.
    fn with_search() -> Self {
        Self::with(&["--loadmodule".to_owned(), root("target/store/redisearch.so").display().to_string()])
    }

    fn with(more: &[String]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let folder = tempfile::tempdir().expect("a folder");
        let program =
            std::env::var_os("PICKTOOLS_TEST_STORE").unwrap_or_else(|| root("target/store/valkey-server").into());
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--requirepass", "s3cret-word"])
            .args(more)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts; see scripts/fetch-store.sh");
        let until = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "it does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port, _folder: folder }
    }

    /// Runs a command with the address in the variable.
    fn run(&self, arguments: &[&str]) -> Output {
        let arguments = [arguments, &["--store", "env", "--tenant", "acme"]].concat();
        picktools(&arguments).env("PICKTOOLS_STORE", self.url()).output().expect("it runs")
    }

    fn url(&self) -> String {
        format!("redis://:s3cret-word@127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn approve(store: &Store, arguments: &[&str]) -> Output {
    let store = store.url();
    picktools(&[&["approve", "--store", &store, "--tenant", "acme"], arguments].concat()).output().expect("it runs")
}

#[test]
fn an_operator_approves_for_all_gateways_of_a_tenant() {
    let store = Store::start();
    let start = || {
        let place = Place::with(&json!({"up": upstream()}));
        place.write("settings.json", &json!({"trust": "approve"}));
        Serving::start(place, &["--store", &store.url(), "--tenant", "acme"])
    };
    let (one, other) = (start(), start());
    let until = Instant::now() + Duration::from_secs(20);
    let waiting = loop {
        let shown: Value = serde_json::from_str(&stdout(&approve(&store, &["--json"]))).expect("JSON");
        if shown["definitions"].as_array().is_some_and(|waiting| !waiting.is_empty()) {
            break shown["definitions"].clone();
        }
        assert!(Instant::now() < until, "nothing waits");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(waiting.as_array().expect("a list").iter().any(|waiting| waiting["name"] == "up/echo"), "{waiting}");
    let done = approve(&store, &["--all-of", "up", "--yes"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(approve(&store, &[]).status.code(), Some(0), "nothing waits");
    let lost = approve(&store, &["--lost", "restore"]);
    assert!(stderr(&lost).contains("nothing was lost"), "{}", stderr(&lost));
    assert!(
        one.place.path("state/gateway").read_dir().is_ok_and(|mut files| files.next().is_some()),
        "it is remembered"
    );
    for serving in [&one, &other] {
        assert_eq!(serving.raw("GET", "/health", &[], "").body, "ok\n");
    }
}

#[test]
fn a_store_that_cannot_be_used_is_told_without_its_password() {
    let mut store = Store::start();
    let run = |arguments: &[&str]| {
        let mut program = picktools(&["approve"]);
        let output = program.args(arguments).env("PICKTOOLS_STORE", store.url()).output().expect("it runs");
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    assert_eq!(run(&["--store", "env"]).0, Some(0), "by the variable");
    let (code, told) = run(&["--store", "env", "--tenant", "A b"]);
    assert!(code == Some(2) && told.contains("--tenant"), "{told}");
    let (code, help) = run(&["--help"]);
    assert!(code == Some(0) && help.contains("PICKTOOLS_STORE") && !help.contains("s3cret-word"), "{help}");
    for url in ["http://:s3cret-word@x", "redis://:s3cret-word@127.0.0.1:1/0"] {
        let (code, told) = run(&["--store", url]);
        assert!(code == Some(2) && !told.contains("s3cret-word"), "{told}");
    }
    let port = store.port;
    drop(store.child.kill());
    drop(store.child.wait());
    let place = Place::with(&json!({"up": upstream()}));
    let mut program = crate::gateway::gateway_program();
    program.arg("serve").args(place.arguments()).args(["--store", &store.url()]).stdin(Stdio::null());
    let output = program.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "there is no gateway without its store");
    let told = stderr(&output);
    assert!(told.contains(&format!("127.0.0.1:{port}")) && !told.contains("s3cret-word"), "{told}");
}

/// Writes a catalog of one tool for each line.
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

/// The ids of what a gateway picks.
fn picked(serving: &Serving, request: &str) -> Vec<String> {
    let json = [("Content-Type", "application/json")];
    let answer = serving.raw("POST", "/v1/pick", &json, &json!({"query": request}).to_string());
    let selection: Value = serde_json::from_str(&answer.body).expect("JSON");
    let picks = selection["picks"].as_array().unwrap_or_else(|| panic!("{selection}"));
    picks.iter().map(|pick| pick["tool"]["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_catalog_is_published_picked_from_served_by_two_gateways_and_looked_after() {
    let (store, folder) = (Store::with_search(), tempfile::tempdir().expect("a folder"));
    let none = store.run(&["pick", "sharpen the chisel"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("picktools index --store"), "{}", stderr(&none));
    let shown = store.run(&["store", "status"]);
    assert!(
        stdout(&shown).contains("nothing is published") && !stdout(&shown).contains("s3cret"),
        "{}",
        stdout(&shown)
    );
    let names = ["sharpen_chisel", "oil_lathe", "order_screws", "book_bench"];
    let catalog = write(folder.path(), &names);
    // A gateway that was there before anything was published.
    let start =
        || Serving::start(Place::with(&json!({"up": upstream()})), &["--store", &store.url(), "--tenant", "acme"]);
    let one = start();
    let published = store.run(&["index", "--catalog", &catalog, "--json"]);
    let report: Value = serde_json::from_str(&stdout(&published)).expect("JSON");
    assert_eq!((&report["published"]["anew"], &report["published"]["written"]), (&json!(true), &json!(4)), "{report}");
    let selection: Value =
        serde_json::from_str(&stdout(&store.run(&["pick", "sharpen the chisel", "--json"]))).expect("JSON");
    assert_eq!(selection["picks"][0]["tool"]["id"], "workshop/sharpen_chisel", "{selection}");
    assert_eq!(selection["snapshot"]["version"], report["published"]["version"]);
    assert_eq!(selection["stages"][0], json!({"stage": "store", "status": "ran"}));
    let other = start();
    let until = Instant::now() + Duration::from_secs(10);
    for serving in [&one, &other] {
        while picked(serving, "sharpen the chisel").first().is_none_or(|id| id != "workshop/sharpen_chisel") {
            assert!(Instant::now() < until, "it is served");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // A change is served by both.
    write(folder.path(), &[&names[1..], &["varnish_table"]].concat());
    let published = store.run(&["index", "--catalog", &catalog]);
    assert!(stdout(&published).contains("published as snapshot"), "{}", stdout(&published));
    let seen = Instant::now();
    for serving in [&one, &other] {
        while picked(serving, "varnish the table").first().is_none_or(|id| id != "workshop/varnish_table") {
            assert!(seen.elapsed() < Duration::from_secs(10), "it is served");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(picked(serving, "sharpen the chisel").iter().all(|id| id != "workshop/sharpen_chisel"));
    }
    let verified = store.run(&["store", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
    assert!(stdout(&verified).contains("4 tools and 0 sources read: whole"), "{}", stdout(&verified));
    assert_eq!(store.run(&["store", "gc", "--json"]).status.code(), Some(0));
    let status: Value = serde_json::from_str(&stdout(&store.run(&["store", "status", "--json"]))).expect("JSON");
    assert_eq!((&status["snapshot"]["tools"], &status["indexed"]), (&json!(4), &json!(4)), "{status}");
    for wrong in [&["--skills", "fixtures/skills"][..], &["--catalog", &catalog], &["--prompt-section"]] {
        let refused = store.run(&[&["pick", "sharpen the chisel"], wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}
