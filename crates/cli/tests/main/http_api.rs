//! The HTTP API: its answers, its errors, and the data that it hides.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, upstream};
use crate::gateway_http::{Answer, Serving, digest};
use crate::mcp_servers::installed;
use crate::support::{fixture, root};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const ADMIN: (&str, &str) = ("Authorization", "Bearer admin");
const READER: (&str, &str) = ("Authorization", "Bearer reader");

impl Serving {
    pub(crate) fn json(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
        read(&self.raw(
            "POST",
            path,
            &[&[JSON], headers].concat(),
            &body.to_string(),
        ))
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        read(&self.raw("GET", path, headers, ""))
    }
}

fn read(answer: &Answer) -> (u16, Value) {
    (
        answer.status,
        serde_json::from_str(&answer.body)
            .unwrap_or_else(|_| panic!("{} {}", answer.status, answer.body)),
    )
}

/// Starts a server without keys for a catalog of files.
fn workplace() -> Serving {
    let catalog = fixture("catalogs/workplace").display().to_string();
    Serving::start(Place::with(&json!({})), &["--catalog", &catalog])
}

/// Starts a gateway in front of the faulty server with keys of two roles. One role may not see
/// tools whose names start with `e`.
fn keyed(more: &Value) -> Serving {
    let place = Place::with(&json!({"up": upstream()}));
    let mut settings = json!({
        "keys": [
            {"name": "one", "sha256": digest("admin"), "role": "admin"},
            {"name": "two", "sha256": digest("reader"), "role": "reader"},
        ],
        "roles": {"admin": {"operator": true, "unsafe": "allow"}, "reader": {"deny": ["up/e*"], "unsafe": "deny"}},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        settings[name] = value.clone();
    }
    place.write("settings.json", &settings);
    Serving::start(place, &[])
}

fn picked(selection: &Value) -> Vec<&str> {
    let picks = selection["picks"]
        .as_array()
        .unwrap_or_else(|| panic!("{selection}"));
    picks
        .iter()
        .map(|pick| pick["tool"]["id"].as_str().expect("an id"))
        .collect()
}

#[test]
fn http_pick_equals_command_line_pick() {
    let serving = workplace();
    let request = "post in the chat that the build is done";
    // The caller has no roles, so the tools of roles do not exist for it.
    let tools = std::fs::read_to_string(fixture("catalogs/workplace/tools.jsonl")).expect("tools");
    let is_visible = |line: &&str| !line.contains("\"allowed_roles\"");
    let visible: Vec<&str> = tools.lines().filter(is_visible).collect();
    let catalog = serving.place.path("visible.jsonl");
    std::fs::write(&catalog, visible.join("\n")).expect("it is written");
    let catalog = catalog.display().to_string();
    let output = picktools(&["pick", request, "--catalog", &catalog, "--json"])
        .output()
        .expect("it runs");
    let expected: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let answer = serving.raw(
        "POST",
        "/v1/pick",
        &[JSON],
        &json!({"query": request}).to_string(),
    );
    let (status, selection) = read(&answer);
    assert_eq!(status, 200);
    assert!(
        answer
            .header("server-timing")
            .is_some_and(|timing| timing.starts_with("pick;dur=")),
        "{}",
        answer.head
    );
    for member in ["version", "catalog_digest", "scorer", "answerable", "picks"] {
        assert_eq!(selection[member], expected[member], "{member}");
    }
    assert_eq!(picked(&expected)[0], "chat/post_message");

    let messages = json!([{"role": "user", "content": request}]);
    let asked =
        json!({"messages": messages, "provider": "anthropic", "options": {"max_candidates": 1}});
    let (_, transcript) = serving.json("/v1/pick", &[], &asked);
    assert_eq!(picked(&transcript), ["chat/post_message"]);
    assert_eq!(
        transcript["definitions"]["tools"][0]["name"],
        "post_message"
    );
    assert!(transcript["definitions"]["tools"][0]["input_schema"].is_object());

    let requests: Vec<Value> = [request, "", "translate this text to German"]
        .map(|text| json!({"query": text}))
        .into();
    let (status, batch) = serving.json("/v1/pick/batch", &[], &json!({"requests": requests}));
    assert_eq!(status, 200);
    let results = batch["results"].as_array().expect("results");
    assert_eq!(results.len(), 3);
    assert_eq!(
        (picked(&results[0])[0], &results[1]["error"]["code"]),
        ("chat/post_message", &json!("invalid_request"))
    );
    assert!(!picked(&results[2]).is_empty());
}

#[test]
fn http_api_serves_names_calls_definitions_and_tools() {
    let serving = workplace();
    let (_, resolved) = serving.json(
        "/v1/resolve",
        &[],
        &json!({"names": ["post_message", "postMessage", "nothing_like_it"]}),
    );
    let tools: Vec<&Value> = resolved["names"]
        .as_array()
        .expect("names")
        .iter()
        .map(|name| &name["tool"])
        .collect();
    assert_eq!(
        tools,
        [
            &json!("chat/post_message"),
            &json!("chat/post_message"),
            &Value::Null
        ],
        "{resolved}"
    );
    assert_eq!(resolved["names"][2]["error"]["code"], "unknown_tool");

    let calls = json!([
        {"name": "post_message", "arguments": "{'channel': 'builds', 'text': 'done',}"},
        {"name": "post_message", "arguments": {"text": 1}},
        {"name": "no_such", "arguments": {}},
    ]);
    let (status, held) = serving.json("/v1/validate", &[], &json!({"calls": calls}));
    assert_eq!(
        (status, &held["ready"], &held["refused"]),
        (200, &json!(1), &json!(2)),
        "{held}"
    );
    assert!(
        held["calls"][0]["repaired"]
            .as_array()
            .is_some_and(|repaired| !repaired.is_empty()),
        "{held}"
    );
    assert_eq!(held["calls"][1]["error"]["code"], "invalid_arguments");
    let answer = json!({"choices": [{"message": {"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "post_message", "arguments": "{\"channel\": \"a\", \"text\": \"b\"}"}}
    ]}, "finish_reason": "tool_calls"}]});
    let (_, held) = serving.json(
        "/v1/validate",
        &[],
        &json!({"provider": "openai", "answer": answer}),
    );
    assert_eq!(
        (&held["ready"], &held["calls"][0]["id"]),
        (&json!(1), &json!("c1")),
        "{held}"
    );

    let asked = json!({"provider": "gemini", "tools": ["chat/post_message"], "names": {"chat/post_message": "say"}});
    let (_, translated) = serving.json("/v1/translate", &[], &asked);
    assert_eq!(translated["names"], json!({"say": "chat/post_message"}));

    let (_, listed) = serving.get("/v1/tools?q=POST&source=chat&limit=1", &[]);
    assert!(
        listed["total"].as_u64().is_some_and(|total| total >= 1),
        "{listed}"
    );
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(1));
    let (status, tool) = serving.get("/v1/tools/chat%2Fpost_message", &[]);
    assert_eq!((status, &tool["name"]), (200, &json!("post_message")));
    assert!(tool["parameters"]["properties"].is_object());
}

#[test]
fn http_embeddings_follow_the_openai_format() {
    let serving = workplace();
    let texts = json!([
        "post a message",
        "send a chat message",
        "terminate the server"
    ]);
    let (status, answer) = serving.json(
        "/v1/embeddings",
        &[],
        &json!({"model": "static", "input": texts}),
    );
    assert_eq!(status, 200, "{answer}");
    let vector = |index: usize| -> Vec<f64> {
        let numbers = answer["data"][index]["embedding"]
            .as_array()
            .expect("a vector");
        numbers
            .iter()
            .map(|number| number.as_f64().expect("a number"))
            .collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert!((dot(&vector(0), &vector(0)) - 1.0).abs() < 1e-3);
    assert!(dot(&vector(0), &vector(1)) > dot(&vector(0), &vector(2)) + 0.2);
    for (body, status, place) in [
        (json!({"model": "static", "input": []}), 422, "input"),
        (
            json!({"model": "static", "input": ["a", " "]}),
            422,
            "input",
        ),
        (
            json!({"model": "static", "input": "a", "dimensions": 7}),
            422,
            "dimensions",
        ),
        (json!({"model": "gpt", "input": "a"}), 404, "model"),
        (json!({"model": "static", "input": 7}), 422, "input"),
        (
            json!({"model": "static", "input": vec!["a"; 2_049]}),
            422,
            "input",
        ),
    ] {
        let (told, problem) = serving.json("/v1/embeddings", &[], &body);
        assert_eq!(
            (told, &problem["place"]),
            (status, &json!(place)),
            "{body}: {problem}"
        );
    }
    let output = Command::new(installed("python/bin/python"))
        .arg(root("crates/cli/tests/clients/embeddings.py"))
        .arg(format!("http://{}/v1", serving.address))
        .output()
        .expect("it runs");
    assert_eq!(
        stdout(&output).trim(),
        "3 vectors of 256, the nearest to the first is 1",
        "{}",
        stderr(&output)
    );
}

#[test]
fn http_errors_have_status_and_position() {
    let serving = workplace();
    for (path, body, status, code, place) in [
        (
            "/v1/pick",
            json!({"query": "  "}),
            422,
            "invalid_request",
            json!("query"),
        ),
        ("/v1/pick", json!({}), 422, "invalid_request", Value::Null),
        (
            "/v1/pick",
            json!({"query": "a", "messages": []}),
            422,
            "invalid_request",
            Value::Null,
        ),
        (
            "/v1/pick",
            json!({"messages": "hello"}),
            422,
            "invalid_request",
            json!("messages"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "k": 3}),
            422,
            "invalid_request",
            json!("k"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"max": 3}}),
            422,
            "invalid_request",
            json!("options.max"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"max_candidates": 0}}),
            422,
            "invalid_request",
            json!("options"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"max_candidates": 10_000}}),
            422,
            "invalid_request",
            json!("options.max_candidates"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "provider": "nobody"}),
            422,
            "invalid_request",
            json!("provider"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"access": {"roles": ["admin"]}}}),
            403,
            "not_allowed",
            json!("options.access"),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"always_include": ["no_such"]}}),
            422,
            "invalid_request",
            json!("options.always_include"),
        ),
        (
            "/v1/pick/batch",
            json!({"requests": []}),
            422,
            "invalid_request",
            json!("requests"),
        ),
        (
            "/v1/pick/batch",
            json!({"requests": vec![json!({"query": "a"}); 257]}),
            422,
            "invalid_request",
            json!("requests"),
        ),
        (
            "/v1/resolve",
            json!({"names": vec!["a"; 1_001]}),
            422,
            "invalid_request",
            json!("names"),
        ),
        (
            "/v1/validate",
            json!({"answer": {}}),
            422,
            "invalid_request",
            json!("provider"),
        ),
        (
            "/v1/translate",
            json!({"provider": "openai", "tools": ["no_such"]}),
            404,
            "unknown_tool",
            Value::Null,
        ),
        (
            "/v1/call",
            json!({"name": "post_message"}),
            403,
            "calls_off",
            Value::Null,
        ),
    ] {
        let answer = serving.raw("POST", path, &[JSON], &body.to_string());
        let (told, problem) = read(&answer);
        assert_eq!(
            (told, &problem["code"], &problem["place"]),
            (status, &json!(code), &place),
            "{path} {body}: {problem}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(
            (&problem["type"], &problem["status"]),
            (&json!("about:blank"), &json!(status))
        );
    }
    for (method, path, status) in [
        ("GET", "/v1/pick", 405),
        ("DELETE", "/v1/tools", 405),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/tools/no_such", 404),
        ("GET", "/v1/tools?limit=0", 422),
        ("GET", "/v1/tools?limit=many", 422),
        ("GET", "/v1/tools?colour=red", 422),
        ("GET", "/../etc/passwd", 404),
    ] {
        assert_eq!(
            serving.raw(method, path, &[], "").status,
            status,
            "{method} {path}"
        );
    }
}

#[test]
fn hostile_http_bodies_are_refused_and_counted() {
    let serving = workplace();
    let deep = format!(
        "{{\"query\": {}1{}}}",
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    let large = format!("{{\"query\": \"{}\"}}", "a".repeat(9 << 20));
    let many = format!(
        "{{\"query\": \"a\"{}}}",
        ",\"query\": \"a\"".repeat(100_000)
    );
    for (what, body, headers, status) in [
        ("no body", "", vec![JSON], 400),
        ("half a body", "{\"query\": \"a", vec![JSON], 400),
        ("two bodies", "{\"query\": \"a\"} {}", vec![JSON], 400),
        ("a list", "[]", vec![JSON], 422),
        ("too deep", deep.as_str(), vec![JSON], 400),
        ("too large", large.as_str(), vec![JSON], 413),
        ("members again and again", many.as_str(), vec![JSON], 422),
        (
            "lone surrogates",
            "{\"query\": \"\\ud800\"}",
            vec![JSON],
            400,
        ),
        (
            "a number without an end",
            "{\"query\": \"a\", \"options\": {\"min_score\": 1e999}}",
            vec![JSON],
            400,
        ),
        ("a form", "query=a", vec![FORM], 415),
        ("no type", "{\"query\": \"a\"}", vec![], 415),
        (
            "packed",
            "{\"query\": \"a\"}",
            vec![JSON, ("Content-Encoding", "gzip")],
            415,
        ),
        (
            "another Host",
            "{\"query\": \"a\"}",
            vec![JSON, ("Host", "evil.example")],
            403,
        ),
        (
            "another Origin",
            "{\"query\": \"a\"}",
            vec![JSON, ("Origin", "http://evil.example")],
            403,
        ),
    ] {
        let answer = serving.raw("POST", "/v1/pick", &headers, body);
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert_eq!(read(&answer).1["status"], status, "{what}");
    }
    let not_utf8 = raw(&serving, b"POST /v1/pick HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"query\": \"\xff\"}");
    assert!(not_utf8.starts_with("HTTP/1.1 400"), "{not_utf8}");
    let name = "x".repeat(60);
    let flood: Vec<(String, String)> = (0..200)
        .map(|n| (format!("{name}-{n}"), "y".repeat(100)))
        .collect();
    let mut headers: Vec<(&str, &str)> = flood
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    headers.push(JSON);
    assert_eq!(
        serving.json("/v1/pick", &headers, &json!({"query": "a"})).0,
        431
    );
    let smuggled = raw(
        &serving,
        b"POST /v1/pick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    );
    assert!(smuggled.starts_with("HTTP/1.1 400"), "{smuggled}");
    let nonsense = raw(&serving, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    assert!(
        nonsense.is_empty() || nonsense.starts_with("HTTP/1.1 400"),
        "{nonsense}"
    );

    // Slow clients do not delay others.
    let slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(serving.address).expect("it listens");
            let head = "POST /v1/pick HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
            stream.write_all(head.as_bytes()).expect("it is read");
            stream
        })
        .collect();
    assert_eq!(
        serving
            .json("/v1/pick", &[], &json!({"query": "post a message"}))
            .0,
        200
    );
    drop(slow);

    let metrics = serving.raw("GET", "/metrics", &[], "").body;
    for status in [400, 403, 413, 415, 422, 431] {
        let counted = format!("picktools_requests_total{{path=\"/v1/pick\",status=\"{status}\"}}");
        assert!(metrics.contains(&counted), "{counted}: {metrics}");
    }
}

/// Sends raw bytes. The connection stays open, because a server may treat a closed connection as a
/// disconnected client.
fn raw(serving: &Serving, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(serving.address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(40)))
        .expect("a limit");
    stream.write_all(bytes).expect("it is read");
    let mut answer = Vec::new();
    let _ended = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn missing_servers_are_named_in_picks_and_lists() {
    let place = crate::gateway::Place::with(&json!({
        "up": crate::gateway::upstream(), "dead": {"command": "no-such-program"},
    }));
    place.write("settings.json", &json!({}));
    let serving = Serving::start(place, &[]);
    crate::gateway::eventually("the state is known", || {
        let picked = serving.raw(
            "POST",
            "/v1/pick",
            &[JSON],
            r#"{"query": "sum of numbers"}"#,
        );
        let listed = serving.raw("GET", "/v1/tools", &[], "");
        [picked, listed].iter().all(|answer| {
            let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            body["servers_down"][0]["server"] == "dead"
                && body["servers_down"][0]["why"]
                    .to_string()
                    .contains("cannot be started")
                && body.get("quarantined").is_none()
        })
    });
}

#[test]
fn http_key_sees_only_what_its_role_may() {
    let serving = keyed(&json!({}));
    for headers in [
        vec![],
        vec![("Authorization", "Bearer wrong")],
        vec![("Authorization", "Basic reader")],
        vec![ADMIN, READER],
    ] {
        for (method, path, body) in [
            ("POST", "/v1/pick", "{\"query\": \"echo a text\"}"),
            ("GET", "/v1/tools", ""),
            ("GET", "/metrics", ""),
            ("POST", "/v1/call", "{\"name\": \"up/echo\"}"),
        ] {
            let answer = serving.raw(method, path, &[&[JSON], headers.as_slice()].concat(), body);
            assert_eq!(
                (answer.status, answer.header("www-authenticate")),
                (401, Some("Bearer")),
                "{path} {headers:?}"
            );
            assert!(!answer.body.contains("echo"), "{}", answer.body);
        }
    }
    let all = json!({"query": "echo the text and say it again", "options": {"max_candidates": 50, "min_score": 0.0}});
    let (_, admin) = serving.json("/v1/pick", &[ADMIN], &all);
    assert!(picked(&admin).contains(&"up/echo"), "{admin}");
    let mut named = all.clone();
    named["query"] = json!("use echo, up/echo and up__echo to echo the text");
    named["options"]["in_use"] = json!(["echo", "never_there"]);
    named["options"]["debug"] = json!(true);
    named["options"]["tell_blocked"] = json!("always");
    for (path, body) in [
        ("/v1/pick", named.clone()),
        ("/v1/pick/batch", json!({"requests": [named]})),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"always_include": ["echoo"]}}),
        ),
        (
            "/v1/pick",
            json!({"query": "a", "options": {"access": {"exclude": ["ech"]}}}),
        ),
        (
            "/v1/resolve",
            json!({"names": ["ech", "up/ech", "ECHOO", "delete_everythin"]}),
        ),
        (
            "/v1/validate",
            json!({"calls": [{"name": "ech"}, {"name": "up_ech"}]}),
        ),
        (
            "/v1/validate",
            json!({"provider": "openai", "calls": [{"name": "ech"}]}),
        ),
        ("/v1/translate", json!({"provider": "openai"})),
    ] {
        let (_, mut answer) = serving.json(path, &[READER], &body);
        // The answer may contain the caller's own text.
        for place in [
            "/detail",
            "/names/0/error/message",
            "/names/1/error/message",
            "/names/2/error/message",
        ] {
            if let Some(text) = answer.pointer_mut(place) {
                *text = json!(text.as_str().unwrap_or_default().replace("ech", ""));
            }
        }
        let text = answer.to_string();
        assert!(
            !text.contains("\"up/echo\"") && !text.contains("up__echo\""),
            "{path} {body}"
        );
    }
    // The suggestions differ between names. A hidden name gets an answer of the same form as an
    // unknown one.
    let form = |text: &str, name: &str| {
        let text = text.replace(name, "NAME");
        let is_near = text.contains("did you mean");
        (
            text.split("; did you mean")
                .next()
                .unwrap_or_default()
                .to_owned(),
            is_near,
        )
    };
    for name in ["up/echo", "echo", "up__echo"] {
        let told = |name: &str| {
            let one = serving.get(
                &format!("/v1/tools/{}", name.replace('/', "%2F")),
                &[READER],
            );
            let calls = json!([{"name": name, "arguments": {}}]);
            let (_, held) = serving.json("/v1/validate", &[READER], &json!({"calls": calls}));
            (
                one.0,
                form(&one.1.to_string(), name),
                form(&held["calls"][0]["error"]["message"].to_string(), name),
            )
        };
        assert_eq!(
            told(name),
            told(&name.replace("echo", "ecco")),
            "{name}: as if it did not exist"
        );
    }
    let (_, listed) = serving.get("/v1/tools", &[READER]);
    assert!(
        !listed.to_string().contains("up/echo")
            && listed["total"].as_u64() < serving.get("/v1/tools", &[ADMIN]).1["total"].as_u64()
    );
    assert_eq!(
        serving.get("/metrics", &[READER]).0,
        403,
        "metrics tell of what others do"
    );
    assert!(
        serving
            .raw("GET", "/metrics", &[ADMIN], "")
            .body
            .contains("status=\"401\"")
    );
    for path in ["/health", "/ready", "/openapi.json"] {
        let answer = serving.raw("GET", path, &[], "");
        assert!(
            answer.status == 200 && !answer.body.contains("up/"),
            "{path}: {}",
            answer.body
        );
    }
}

#[test]
fn http_calls_follow_settings_and_access_policy() {
    let serving = keyed(&json!({"http": {"calls": true}}));
    let call = |key, name: &str, arguments: Value| {
        serving.json(
            "/v1/call",
            &[key],
            &json!({"name": name, "arguments": arguments}),
        )
    };
    let (status, result) = call(ADMIN, "up/echo", json!({"text": "hello"}));
    assert_eq!(
        (status, &result["content"][0]["text"]),
        (200, &json!("hello")),
        "{result}"
    );
    assert_eq!(result["_meta"]["picktools/tool"], "up/echo");
    let (status, result) = call(ADMIN, "up__add", json!("{'a': 1, 'b': 2,}"));
    assert_eq!(
        (status, &result["content"][0]["text"]),
        (200, &json!("{\"sum\": 3}")),
        "{result}"
    );
    for (key, name, arguments, status, code) in [
        (
            READER,
            "up/echo",
            json!({"text": "hello"}),
            404,
            "unknown_tool",
        ),
        (
            READER,
            "up/delete_everything",
            json!({"name": "a"}),
            404,
            "unknown_tool",
        ),
        (ADMIN, "up/no_such", json!({}), 404, "unknown_tool"),
        (ADMIN, "up/add", json!({"a": 1}), 422, "invalid_arguments"),
        (ADMIN, "up/dies", json!({}), 502, "upstream_died"),
    ] {
        let (told, problem) = call(key, name, arguments.clone());
        assert_eq!(
            (told, &problem["code"]),
            (status, &json!(code)),
            "{name} {arguments}: {problem}"
        );
    }
    // If a call needs a confirmation and nobody can be asked, the operator decides.
    let careful = keyed(&json!({"http": {"calls": true}, "roles": {"admin": {}, "reader": {}}}));
    let (status, problem) = careful.json(
        "/v1/call",
        &[ADMIN],
        &json!({"name": "up/delete_everything", "arguments": {"name": "a"}}),
    );
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("not_confirmed")),
        "{problem}"
    );
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("picktools approve --call")),
        "{problem}"
    );
}

#[test]
fn http_rate_limit_reports_when_to_retry() {
    let key = json!({"name": "one", "sha256": digest("admin"), "per_minute": 1, "burst": 3});
    let serving = keyed(&json!({"keys": [key], "roles": {}}));
    for _ in 0..3 {
        assert_eq!(serving.get("/v1/tools", &[ADMIN]).0, 200);
    }
    let answer = serving.raw("GET", "/v1/tools", &[ADMIN], "");
    assert_eq!(answer.status, 429);
    assert!(
        answer
            .header("retry-after")
            .and_then(|s| s.parse::<u64>().ok())
            .is_some_and(|s| (30..=60).contains(&s))
    );
    assert_eq!(read(&answer).1["code"], "too_many_requests");
}

#[test]
fn openapi_description_lists_every_route() {
    let serving = workplace();
    let (status, described) = serving.get("/openapi.json", &[]);
    assert_eq!(status, 200);
    assert!(
        described["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1"))
    );
    for (path, method) in [
        ("/v1/pick", "post"),
        ("/v1/pick/batch", "post"),
        ("/v1/resolve", "post"),
        ("/v1/validate", "post"),
        ("/v1/translate", "post"),
        ("/v1/tools", "get"),
        ("/v1/tools/{name}", "get"),
        ("/v1/call", "post"),
        ("/v1/embeddings", "post"),
    ] {
        let route = &described["paths"][path][method];
        assert!(
            route["summary"].is_string() && route["responses"]["200"].is_object(),
            "{path}: {route}"
        );
    }
    let mut references = Vec::new();
    collect(&described, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("it is of this document");
        assert!(
            described.pointer(pointer).is_some(),
            "{reference} is not there"
        );
    }
    let body = &described["components"]["schemas"]["PickRequest"]["properties"];
    assert!(
        body["query"].is_object() && body["options"].is_object() && body["provider"].is_object(),
        "{body}"
    );
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            into.extend(
                members
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            members.values().for_each(|member| collect(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        _ => {}
    }
}

#[test]
fn serve_follows_catalog_files_without_calls() {
    let place = Place::with(&json!({"up": upstream()}));
    let tool = |name: &str| json!({"name": name, "source": "notes", "description": format!("{name} a note"), "parameters": {"type": "object"}});
    place.write("tools.json", &json!([tool("write")]));
    place.write("settings.json", &json!({"http": {"calls": true}}));
    let path = place.path("tools.json").display().to_string();
    let serving = Serving::start(place, &["--catalog", &path]);
    let (_, picked_first) = serving.json("/v1/pick", &[], &json!({"query": "write a note"}));
    assert_eq!(picked(&picked_first)[0], "notes/write");
    assert!(
        serving.get("/v1/tools?source=up", &[]).1["total"]
            .as_u64()
            .is_some_and(|total| total > 10),
        "those of servers too"
    );
    let (status, problem) = serving.json(
        "/v1/call",
        &[],
        &json!({"name": "notes/write", "arguments": {}}),
    );
    assert_eq!(
        (status, &problem["code"]),
        (501, &json!("not_carried")),
        "{problem}"
    );
    serving
        .place
        .write("tools.json", &json!([tool("write"), tool("burn")]));
    let has_burn = || serving.get("/v1/tools?source=notes", &[]).1["total"] == 2;
    let came = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        has_burn()
    });
    assert!(came, "the file was read again");
    std::fs::write(serving.place.path("tools.json"), "[{").expect("a file");
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(has_burn(), "what cannot be read changes nothing");
}
