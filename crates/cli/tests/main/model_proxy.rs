//! The model proxy: official clients, a provider that these tests serve, and malformed requests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, gateway_program};
use crate::gateway_http::{Answer, Serving, digest, send};
use crate::mcp_servers::installed;
use crate::support::root;

const TURNS: [(&str, &[&str]); 5] = [
    (
        "what is the weather like in Oslo over the weekend?",
        &["weather_get_forecast"],
    ),
    (
        "then book a meeting room for Monday at ten",
        &["book_meeting_room"],
    ),
    ("post in the chat that we meet there", &["post_message"]),
    (
        "open a bug report that the export is empty, and assign the issue to me",
        &["tracker_create_issue", "assign_issue"],
    ),
    (
        "and how many days of leave do I have left?",
        &["get_leave_balance"],
    ),
];

/// A provider whose model calls the named tool if it is shown.
pub(crate) struct Provider {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Provider {
    fn start(place: &Place) -> Self {
        let wanted: serde_json::Map<String, Value> = TURNS
            .iter()
            .map(|(said, tools)| ((*said).to_owned(), json!(tools)))
            .collect();
        Self::answering(place, &Value::Object(wanted), r#"{"q": "x"}"#)
    }

    /// Starts a provider whose model calls these tools by the text of the request, with these raw
    /// arguments.
    pub(crate) fn answering(place: &Place, wanted: &Value, arguments: &str) -> Self {
        place.write("wanted.json", wanted);
        let log = place.path("provider.log");
        fs::write(&log, "").expect("a file");
        let mut child = Command::new("python3")
            .arg(root("crates/cli/tests/servers/provider.py"))
            .args([&log, &place.path("wanted.json")])
            .arg(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("its port");
        Self {
            child,
            port: line.trim().parse().expect("a port"),
            log,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Returns the requests that it received since the last call.
    fn sent(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).expect("its log");
        fs::write(&self.log, "").expect("a file");
        log.lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .expect("it can be ended");
    }
}

/// Starts picktools in front of such a provider, with these settings of the proxy and these further
/// settings.
fn proxy(openai: &Value, anthropic: &Value, more: &Value) -> (Provider, Serving) {
    let place = Place::with(&json!({}));
    let provider = Provider::start(&place);
    let with_url = |settings: &Value| {
        let mut settings = settings.clone();
        settings["url"] = json!(provider.url());
        settings
    };
    let mut settings =
        json!({"proxy": {"openai": with_url(openai), "anthropic": with_url(anthropic)}});
    for (name, value) in more.as_object().into_iter().flatten() {
        match name.strip_prefix("proxy.") {
            Some(name) => settings["proxy"][name] = value.clone(),
            None => settings[name] = value.clone(),
        }
    }
    place.write("settings.json", &settings);
    (provider, Serving::start(place, &[]))
}

fn plain() -> (Provider, Serving) {
    proxy(&json!({}), &json!({}), &json!({}))
}

/// Returns the tools of the workplace catalog in a provider's format.
fn tools(format: &str) -> Value {
    let workplace = root("fixtures/catalogs/workplace").display().to_string();
    let output = picktools(&[
        "translate",
        "--catalog",
        &workplace,
        "--provider",
        format,
        "--json",
    ])
    .output()
    .expect("it runs");
    let translated: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    translated["tools"].clone()
}

/// Runs an official client over five turns, and returns its results.
fn client(place: &Place, which: &str, url: &str, stream: &str, tools: &Value) -> Value {
    let said: Vec<&str> = TURNS.iter().map(|turn| turn.0).collect();
    place.write("tools.json", tools);
    place.write("turns.json", &json!(said));
    let output = Command::new(installed("python/bin/python"))
        .arg(root("crates/cli/tests/clients/models.py"))
        .args([which, url, stream])
        .args([place.path("tools.json"), place.path("turns.json")])
        .output()
        .expect("it runs");
    serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|_| panic!("{which} {stream}: {}", stderr(&output)))
}

fn called() -> Value {
    TURNS
        .iter()
        .map(|(_, tools)| json!({"said": "done", "called": tools}))
        .collect()
}

fn body(sent: &Value) -> Value {
    serde_json::from_str(sent["body"].as_str().expect("a body")).expect("JSON")
}

fn names(tools: &Value) -> Vec<String> {
    let name = |tool: &Value| {
        tool.get("function").unwrap_or(tool)["name"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    tools.as_array().expect("a list").iter().map(name).collect()
}

/// Checks that each list starts with the previous one and is shorter than the client's list.
fn only_grow(lists: &[Vec<Value>], all: usize) {
    for pair in lists.windows(2) {
        assert_eq!(
            pair[1].get(..pair[0].len()),
            Some(pair[0].as_slice()),
            "it begins as the one before"
        );
    }
    assert!(
        lists
            .iter()
            .all(|list| !list.is_empty() && list.len() * 3 < all),
        "few are shown"
    );
    assert!(
        lists[0].len() < lists[lists.len() - 1].len(),
        "what is needed later comes later"
    );
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

#[test]
fn proxied_official_clients_see_a_growing_tool_list() {
    let (provider, serving) = plain();
    let url = format!("http://{}", serving.address);
    for (which, format) in [
        ("chat", "openai"),
        ("responses", "openai-responses"),
        ("messages", "anthropic"),
    ] {
        let all = tools(format);
        for stream in ["whole", "stream"] {
            assert_eq!(
                client(&serving.place, which, &url, stream, &all),
                called(),
                "{which} {stream}"
            );
            let sent = provider.sent();
            assert_eq!(sent.len(), 11, "a request a turn, and one a call");
            let lists: Vec<Vec<Value>> =
                sent.iter().map(|sent| list(&body(sent)["tools"])).collect();
            only_grow(&lists, names(&all).len());
            let of_client = list(&all);
            assert!(
                lists.iter().flatten().all(|tool| of_client.contains(tool)),
                "each as the client has it"
            );
        }
    }
}

#[test]
fn proxy_with_allowed_tools_keeps_the_list() {
    let (provider, serving) = proxy(&json!({"mode": "allowed"}), &json!({}), &json!({}));
    let url = format!("http://{}", serving.address);
    for (which, format) in [("chat", "openai"), ("responses", "openai-responses")] {
        let all = tools(format);
        assert_eq!(
            client(&serving.place, which, &url, "whole", &all),
            called(),
            "{which}"
        );
        let sent: Vec<Value> = provider.sent().iter().map(body).collect();
        assert!(
            sent.iter().all(|sent| sent["tools"] == all),
            "the whole list each time"
        );
        let allowed = |sent: &Value| {
            let choice = &sent["tool_choice"];
            assert_eq!(choice["type"], "allowed_tools", "{choice}");
            let choice = choice.get("allowed_tools").unwrap_or(choice);
            assert_eq!(choice["mode"], "auto");
            names(&choice["tools"]).len()
        };
        let counts: Vec<usize> = sent.iter().map(allowed).collect();
        assert!(
            counts.is_sorted() && counts[0] <= 12 && counts[10] * 3 < names(&all).len(),
            "{counts:?}"
        );
    }
}

#[test]
fn proxy_with_deferred_tools_keeps_all_tools() {
    let (provider, serving) = proxy(&json!({}), &json!({"mode": "defer"}), &json!({}));
    let all = tools("anthropic");
    let url = format!("http://{}", serving.address);
    assert_eq!(
        client(&serving.place, "messages", &url, "stream", &all),
        called()
    );
    let mut shown = Vec::new();
    for sent in provider.sent() {
        let mut tools = list(&body(&sent)["tools"]);
        assert_eq!(tools.remove(0)["type"], "tool_search_tool_bm25_20251119");
        let (mut waiting, now): (Vec<Value>, Vec<Value>) = tools
            .into_iter()
            .partition(|tool| tool["defer_loading"] == true);
        for tool in &mut waiting {
            tool.as_object_mut()
                .expect("an object")
                .remove("defer_loading");
        }
        let of_client = list(&all);
        assert_eq!(waiting.len() + now.len(), of_client.len());
        assert!(
            waiting
                .iter()
                .chain(&now)
                .all(|tool| of_client.contains(tool)),
            "each as the client has it"
        );
        shown.push(now);
    }
    only_grow(&shown, names(&all).len());
}

/// Returns the text of chunks, and `true` if they are complete.
fn unchunked(answer: &[u8]) -> (String, bool) {
    let text = String::from_utf8(answer.to_vec()).expect("UTF-8");
    let mut rest = text.split_once("\r\n\r\n").expect("a head").1;
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return (whole, true);
        }
        let Some(chunk) = after.get(..size) else {
            break;
        };
        whole.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    (whole, false)
}

fn asked(said: &str, more: &Value) -> Value {
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": said}], "tools": tools("openai")});
    for (name, value) in more.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request
}

#[test]
fn proxy_returns_answers_byte_for_byte() {
    let (provider, serving) = plain();
    let straight = SocketAddr::from(([127, 0, 0, 1], provider.port));
    for said in [TURNS[0].0, "slow", "broken"] {
        let body = asked(said, &json!({"stream": true})).to_string();
        let (through, ended) =
            unchunked(&send(serving.address, "POST", "/v1/chat/completions", &[], &body).0);
        let sent = provider.sent().remove(0)["body"]
            .as_str()
            .expect("a body")
            .to_owned();
        let (expected, expected_end) =
            unchunked(&send(straight, "POST", "/v1/chat/completions", &[], &sent).0);
        if said == "broken" {
            assert!(
                !ended && !expected_end,
                "a stream that breaks off does not seem to have ended"
            );
            assert!(
                expected.starts_with(&through) && through.contains("comment"),
                "{through:?} {expected:?}"
            );
        } else {
            assert_eq!((through, ended), (expected, expected_end), "{said}");
        }
        provider.sent();
    }
    let answer = serving.raw(
        "POST",
        "/v1/chat/completions",
        &[],
        &asked("fault", &json!({})).to_string(),
    );
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("7")),
        "{}",
        answer.body
    );
    assert!(
        answer.body.starts_with("{\n \"error\"") && answer.header("x-request-id") == Some("r-1"),
        "{}",
        answer.body
    );
    let answer = serving.raw(
        "POST",
        "/v1/chat/completions",
        &[],
        &asked(TURNS[0].0, &json!({})).to_string(),
    );
    assert_eq!(
        answer.header("picktools-tools"),
        Some("12/220"),
        "ours, not what the provider says: {}",
        answer.head
    );
    assert_eq!(answer.header("picktools-mode"), Some("narrow"));
    let saved: usize = answer
        .header("picktools-saved-tokens")
        .and_then(|saved| saved.parse().ok())
        .expect("a number");
    assert!((18_000..22_334).contains(&saved), "{saved}");
}

#[test]
fn proxy_changes_only_the_tools() {
    let (provider, serving) = plain();
    let all = tools("openai").to_string();
    let request = |tools: &str| {
        format!(
            " {{ \"seed\" : 90071992547409931,\t\"messages\": [{{\"role\":\"user\",\"content\":\"weather \\u00e9 in Oslo\"}}] ,\n\
             \"tools\" :{tools}, \"x_unknown\": {{\"deep\": [1.50, -0]}} }} "
        )
    };
    let answer = serving.raw(
        "POST",
        "/v1/chat/completions?beta=true",
        &[("X-Mine", "1")],
        &request(&all),
    );
    assert_eq!(
        answer.header("picktools-mode"),
        Some("narrow"),
        "{}",
        answer.head
    );
    let sent = provider.sent().remove(0);
    let text = sent["body"].as_str().expect("a body");
    let tools = text
        .split_once("\"tools\" :")
        .and_then(|(_, rest)| rest.split_once(", \"x_unknown\""))
        .expect("tools")
        .0;
    assert_eq!(text, request(tools), "every other byte is the client's");
    assert_eq!(sent["path"], "/v1/chat/completions?beta=true");
    let headers: Vec<(&str, &str)> = sent["headers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| Some((it[0].as_str()?, it[1].as_str()?)))
        .collect();
    assert!(headers.contains(&("x-mine", "1")), "{headers:?}");
    assert_eq!(
        headers.iter().filter(|(name, _)| *name == "host").count(),
        1
    );
    assert!(
        headers.contains(&("host", &format!("127.0.0.1:{}", provider.port))),
        "{headers:?}"
    );
}

#[test]
fn proxy_keeps_provider_tools_and_forced_tool() {
    let (provider, serving) = plain();
    let mut all = list(&tools("openai-responses"));
    let own = json!({"type": "web_search", "filters": {"allowed_domains": ["example.org"]}});
    all.push(own.clone());
    let choice = json!({"type": "function", "name": "make-qr-code"});
    let request =
        json!({"model": "m", "input": "weather in Oslo", "tools": all, "tool_choice": choice});
    let answer = serving.raw("POST", "/v1/responses", &[], &request.to_string());
    assert_eq!(
        answer.header("picktools-tools"),
        Some("13/220"),
        "{}",
        answer.head
    );
    let tools = list(&body(&provider.sent().remove(0))["tools"]);
    assert_eq!(
        (&tools[0], &tools[13]["name"]),
        (&own, &json!("make-qr-code"))
    );

    // If the client caches the prompt up to its last tool, the proxy caches it up to the last shown
    // tool.
    let mut all = list(&self::tools("anthropic"));
    let mark = json!({"type": "ephemeral"});
    all[219]["cache_control"] = mark.clone();
    let request = json!({"model": "m", "max_tokens": 9, "tools": all,
        "messages": [{"role": "user", "content": "weather in Oslo"}]});
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let answer = serving.raw("POST", path, &[], &request.to_string());
        assert_eq!(
            answer.header("picktools-tools"),
            Some("12/220"),
            "{}",
            answer.head
        );
        let sent = provider.sent().remove(0);
        assert_eq!(sent["path"], path);
        let tools = list(&body(&sent)["tools"]);
        let marks: Vec<Option<&Value>> =
            tools.iter().map(|tool| tool.get("cache_control")).collect();
        assert_eq!(
            (marks[11], marks.iter().flatten().count()),
            (Some(&mark), 1)
        );
    }
}

#[test]
fn proxy_forwards_other_requests_unchanged_with_reason() {
    let (provider, serving) = plain();
    let few = json!(list(&tools("openai"))[..15]);
    let mut twice = list(&tools("openai"));
    twice.push(twice[0].clone());
    let responses = tools("openai-responses");
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}});
    let of_responses = |more: Value| {
        let mut request = json!({"model": "m", "input": "weather", "tools": responses});
        request
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        request.to_string()
    };
    let deep = format!(
        "{{\"messages\": {}{}, \"tools\": {}}}",
        "[".repeat(5_000),
        "]".repeat(5_000),
        tools("openai")
    );
    let chat = "/v1/chat/completions";
    for (path, why, body) in [
        (
            chat,
            "few-tools",
            asked("a", &json!({"tools": few})).to_string(),
        ),
        (
            chat,
            "few-tools",
            asked("a", &json!({"tools": null})).to_string(),
        ),
        (
            chat,
            "tools",
            asked("a", &json!({"tools": twice})).to_string(),
        ),
        (
            chat,
            "tools",
            asked(
                "a",
                &json!({"tools": vec![json!({"type": "function"}); 20]}),
            )
            .to_string(),
        ),
        (
            chat,
            "tools",
            asked("a", &json!({"tools": vec![7; 20]})).to_string(),
        ),
        (
            chat,
            "tools",
            asked(
                "a",
                &json!({"tool_choice": {"type": "function", "function": {"name": "no"}}}),
            )
            .to_string(),
        ),
        (
            chat,
            "choice",
            asked("a", &json!({"tool_choice": allowed})).to_string(),
        ),
        (
            chat,
            "conversation",
            asked("a", &json!({"messages": []})).to_string(),
        ),
        (
            chat,
            "conversation",
            asked("a", &json!({"messages": 7})).to_string(),
        ),
        (chat, "conversation", deep),
        (chat, "body", "{\"model\": \"m\"".to_owned()),
        (
            chat,
            "body",
            asked("a", &json!({}))
                .to_string()
                .replacen('{', "{\"tools\": [],", 1),
        ),
        (chat, "body", "[]".to_owned()),
        (chat, "body", "\u{0}".to_owned()),
        (
            "/v1/responses",
            "conversation",
            of_responses(json!({"previous_response_id": "r1"})),
        ),
        (
            "/v1/responses",
            "conversation",
            of_responses(json!({"conversation": {"id": "c1"}})),
        ),
    ] {
        let answer = serving.raw("POST", path, &[], &body);
        assert_eq!(
            answer.header("picktools-unchanged"),
            Some(why),
            "{body:.300}: {}",
            answer.head
        );
        assert!(answer.header("picktools-tools").is_none());
        assert_eq!(provider.sent().remove(0)["body"], body, "{why}");
    }
    let compressed = serving.raw("POST", chat, &[("Content-Encoding", "gzip")], "not really");
    assert_eq!(compressed.header("picktools-unchanged"), Some("body"));
    assert_eq!(provider.sent().remove(0)["body"], "not really");
}

/// Checks that an error of the proxy has its status and cause, and reveals neither keys nor
/// addresses.
fn is_problem(answer: &Answer, status: u16, said: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    let problem: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(problem["status"], status);
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(said)),
        "{problem}"
    );
    assert!(
        !answer.body.contains("sk-") && !answer.body.contains("127.0.0.1"),
        "{}",
        answer.body
    );
}

#[test]
fn proxy_never_mixes_gateway_and_provider_keys() {
    let keys = json!([{"name": "one", "sha256": digest("pk-first"), "per_minute": 60, "burst": 6}]);
    let settings = json!({"keys": keys, "anonymous": "default", "proxy.max_bytes": 200_000});
    // Every process has this variable.
    let (provider, serving) = proxy(&json!({}), &json!({"key_env": "PATH"}), &settings);
    let path = std::env::var("PATH").expect("it is set");
    let chat = asked("weather", &json!({})).to_string();
    let ask = |path: &str, headers: &[(&str, &str)]| serving.raw("POST", path, headers, &chat);
    let sent = |name: &str| {
        let sent = provider.sent().remove(0);
        let headers = list(&sent["headers"]);
        let value = headers
            .iter()
            .find(|header| header[0] == name)
            .map(|header| header[1].clone());
        assert!(
            !sent.to_string().contains("pk-"),
            "no key of ours goes on: {sent}"
        );
        value
    };

    // The client sends its own OpenAI key, and the gateway's key in a separate header.
    let own = ("Authorization", "Bearer sk-client");
    assert_eq!(
        ask(
            "/v1/chat/completions",
            &[own, ("Picktools-Key", "pk-first")]
        )
        .status,
        200
    );
    assert_eq!(sent("authorization"), Some(json!("Bearer sk-client")));
    for key in ["pk-second", "", "pk-first,pk-first"] {
        is_problem(
            &ask("/v1/chat/completions", &[own, ("Picktools-Key", key)]),
            401,
            "unknown key",
        );
    }
    let two = [
        own,
        ("Picktools-Key", "pk-first"),
        ("Picktools-Key", "pk-first"),
    ];
    is_problem(&ask("/v1/chat/completions", &two), 401, "unknown key");

    // The proxy sends the Anthropic key, and clients send a key of the gateway instead.
    assert_eq!(
        ask("/v1/messages", &[("X-Api-Key", "pk-first")]).status,
        200
    );
    assert_eq!(sent("x-api-key"), Some(json!(path)));
    assert_eq!(
        ask("/v1/messages", &[("Authorization", "Bearer pk-first")]).status,
        200
    );
    assert_eq!(sent("authorization"), None);
    for header in [
        ("X-Api-Key", "pk-second"),
        ("Authorization", "Bearer pk-second"),
        ("Authorization", "Basic cGs="),
    ] {
        is_problem(&ask("/v1/messages", &[header]), 401, "unknown key");
    }

    // Only from this machine, and not from foreign web pages.
    for (header, said) in [
        (("Origin", "https://evil.example"), "Origin"),
        (("Origin", "null"), "Origin"),
        (("Host", "evil.example"), "Host"),
        (("Host", "127.0.0.1.evil.example"), "Host"),
    ] {
        let answer = ask("/v1/chat/completions", &[own, header]);
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains(said), "{}", answer.body);
    }
    let large = asked(&"a".repeat(200_000), &json!({})).to_string();
    is_problem(
        &serving.raw("POST", "/v1/chat/completions", &[], &large),
        413,
        "larger",
    );
    assert_eq!(
        serving.raw("GET", "/v1/chat/completions", &[], "").status,
        405
    );
    assert_eq!(serving.raw("POST", "/v1/files", &[], "").status, 404);
    let statuses: Vec<u16> = (0..8)
        .map(|_| ask("/v1/messages", &[("X-Api-Key", "pk-first")]).status)
        .collect();
    assert_eq!((statuses[0], statuses[7]), (200, 429), "{statuses:?}");
    assert!(
        provider.sent().len() < 8,
        "what is not let in does not go on"
    );
}

#[test]
fn proxy_reports_unreachable_provider_without_address() {
    let place = Place::with(&json!({}));
    let openai = json!({"url": "http://127.0.0.1:1/v1"});
    let anthropic = json!({"url": "http://127.0.0.1:1/v1", "key_env": "NO_SUCH_VARIABLE"});
    place.write(
        "settings.json",
        &json!({"proxy": {"openai": openai, "anthropic": anthropic}}),
    );
    let serving = Serving::start(place, &[]);
    let chat = asked("weather", &json!({})).to_string();
    is_problem(
        &serving.raw("POST", "/v1/chat/completions", &[], &chat),
        502,
        "cannot be reached",
    );
    is_problem(
        &serving.raw("POST", "/v1/messages", &[], &chat),
        502,
        "key of the provider is not set",
    );
    let serving = Serving::start(Place::with(&json!({})), &[]);
    is_problem(
        &serving.raw("POST", "/v1/chat/completions", &[], &chat),
        404,
        "no provider",
    );
}

#[test]
fn serve_with_only_a_provider_works() {
    let place = Place::with(&json!({}));
    let provider = Provider::start(&place);
    let state = place.path("state").display().to_string();
    let mut child = gateway_program()
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            &state,
            "--openai-url",
            &provider.url(),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("it is piped"))
        .lines()
        .take(2);
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    child
        .kill()
        .and_then(|()| child.wait())
        .expect("it can be ended");
    assert!(
        said[1].starts_with("serving the OpenAI model proxy at http://127.0.0.1:"),
        "{said:?}"
    );
    let refused = picktools(&["serve", "--openai-url", "http://models.example/v1"])
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("proxy.openai.url") && stderr(&refused).contains("https"),
        "{}",
        stderr(&refused)
    );
}
