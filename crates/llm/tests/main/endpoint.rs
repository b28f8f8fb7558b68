//! Embedding models behind an HTTP endpoint: requests, validation of answers, retries and errors.
//! The endpoint is a test server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::embed::{EmbedError, Embedder, TextRole};
use picktools::engine::IndexError;
use picktools::selection::Stage;
use picktools::{Engine, PickOptions};
use picktools_llm::{EndpointEmbedder, EndpointOptions};
use picktools_testing::server::{RecordedRequest, Reply, TestServer};
use picktools_testing::{fake_vector, ids, pick, workplace};
use serde_json::{Value, json};

const KEY: &str = "sk-secret-0123456789";

/// A server with an embedding model.
trait EmbeddingServer: Sized {
    /// Gives a valid answer to every request except the n-th.
    fn wrong_at(
        n: usize,
        wrong: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self;

    fn try_open(&self) -> Result<EndpointEmbedder, EmbedError>;

    fn open(&self) -> EndpointEmbedder {
        self.try_open().expect("the endpoint is valid")
    }
}

impl EmbeddingServer for TestServer {
    fn wrong_at(
        n: usize,
        wrong: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |index, request| {
            if index == n {
                wrong(request)
            } else {
                valid_answer(request)
            }
        })
    }

    fn try_open(&self) -> Result<EndpointEmbedder, EmbedError> {
        EndpointEmbedder::open(&self.url, "fake", &options())
    }
}

/// Returns the texts of an embedding request.
fn request_texts(request: &RecordedRequest) -> Vec<String> {
    let texts = request.body["input"]
        .as_array()
        .expect("texts are sent as a list");
    texts
        .iter()
        .map(|text| text.as_str().expect("a text is a string").to_owned())
        .collect()
}

/// Returns a valid answer, in reverse order.
fn valid_answer(request: &RecordedRequest) -> Reply {
    let texts = request_texts(request).into_iter().enumerate().rev();
    let data: Vec<Value> = texts
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": fake_vector(&text)}))
        .collect();
    Reply::Json(
        json!({"object": "list", "data": data, "model": "fake", "usage": {"total_tokens": 1}}),
    )
}

/// Returns an answer with these vectors, in order.
fn vectors(vectors: &[Value]) -> Reply {
    let items = vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| json!({"index": index, "embedding": vector}));
    Reply::Json(json!({"data": items.collect::<Vec<_>>()}))
}

fn options() -> EndpointOptions {
    EndpointOptions {
        api_key: Some(KEY.to_owned()),
        timeout: Duration::from_secs(20),
        ..EndpointOptions::default()
    }
}

fn embed(embedder: &EndpointEmbedder, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
    embedder.embed(TextRole::Document, texts, &|_| {})
}

/// Checks an error: it names the endpoint, the model and a remedy, and never the key.
fn check_error(error: &EmbedError, server: &TestServer, part: &str) {
    let EmbedError::Endpoint {
        url, model, remedy, ..
    } = error
    else {
        panic!("another error: {error}")
    };
    assert_eq!(
        (url.as_str(), model.as_str()),
        (format!("{}/embeddings", server.url).as_str(), "fake")
    );
    assert!(!remedy.is_empty());
    let text = error.to_string();
    assert!(text.contains(part), "{part:?} is not in: {text}");
    assert!(text.len() < 1_000 && !text.contains('\n'), "{text}");
    assert!(!format!("{error:?} {text}").contains(KEY), "{text}");
}

// Requests and answers

#[test]
fn vectors_have_the_order_of_the_texts_and_unit_length() {
    let server = TestServer::new(|_, request| {
        let Reply::Json(mut answer) = valid_answer(request) else {
            unreachable!("a valid answer is JSON")
        };
        for item in answer["data"].as_array_mut().expect("data is a list") {
            for value in item["embedding"]
                .as_array_mut()
                .expect("a vector is a list")
            {
                *value = json!(value.as_f64().expect("a component is a number") * 3e38);
            }
        }
        Reply::Json(answer)
    });
    let embedder = server.open();
    let texts = [
        "book a room",
        "",
        "查询订单",
        "read \"file\"\n",
        "book a room",
    ];
    let embedded = embed(&embedder, &texts).expect("the endpoint is valid");
    assert_eq!(embedder.dimensions(), fake_vector("").len());
    for (text, vector) in texts.iter().zip(&embedded) {
        let cosine: f32 = vector
            .iter()
            .zip(fake_vector(text))
            .map(|(a, b)| a * b)
            .sum();
        assert!((cosine - 1.0).abs() < 1e-4, "{text:?}: {cosine}");
    }
    let requests = server.requests();
    assert!(
        requests[1].head.starts_with("post /v1/embeddings http/1.1"),
        "{}",
        requests[1].head
    );
    assert_eq!(
        (
            &requests[1].body["model"],
            &requests[1].body["encoding_format"]
        ),
        (&"fake".into(), &"float".into())
    );
    assert_eq!(
        (requests.len(), request_texts(&requests[1])),
        (2, texts.map(str::to_owned).to_vec())
    );
    assert!(
        embed(&embedder, &[])
            .expect("nothing is embedded")
            .is_empty()
    );
    assert_eq!(server.requests().len(), 2, "an empty list sends no request");
}

#[test]
fn many_texts_are_sent_in_batches_with_progress() {
    let server = TestServer::new(|_, request| valid_answer(request));
    let texts: Vec<String> = (0..150).map(|i| format!("tool number {i}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let reported = Mutex::new(Vec::new());
    let report = |done| reported.lock().expect("nobody panicked").push(done);
    let embedded = server
        .open()
        .embed(TextRole::Document, &texts, &report)
        .expect("the endpoint is valid");
    assert_eq!(embedded.len(), 150);
    assert_eq!(*reported.lock().expect("nobody panicked"), [64, 128, 150]);
    let sizes: Vec<usize> = server.requests()[1..]
        .iter()
        .map(|request| request_texts(request).len())
        .collect();
    assert_eq!(sizes, [64, 64, 22]);
}

#[test]
fn identity_differs_for_endpoints_and_models() {
    let (one, other) = (
        TestServer::new(|_, request| valid_answer(request)),
        TestServer::new(|_, request| valid_answer(request)),
    );
    let open = |url: &str, model: &str| {
        EndpointEmbedder::open(url, model, &options()).expect("the endpoint is valid")
    };
    let identity = open(&one.url, "fake").identity().to_owned();
    assert!(
        identity.contains(&one.url) && identity.contains("fake") && !identity.contains(KEY),
        "{identity}"
    );
    assert_eq!(
        identity,
        open(&format!("{}/embeddings", one.url), "fake").identity()
    );
    assert_ne!(identity, open(&other.url, "fake").identity());
    assert_ne!(identity, open(&one.url, "fake-2").identity());
}

#[test]
fn key_is_sent_and_never_reported() {
    let server = TestServer::wrong_at(1, |_| {
        // The answer repeats the key, also at the end of an excerpt.
        Reply::status(
            "401 Unauthorized",
            &format!("{} {KEY} {KEY}", "x".repeat(170)),
        )
    });
    let embedder = server.open();
    let error = embed(&embedder, &["x"]).expect_err("the key is refused");
    check_error(&error, &server, "401 Unauthorized");
    assert!(
        !error.to_string().contains("sk-sec") && error.to_string().contains("check the key"),
        "{error}"
    );
    assert!(server.requests().iter().all(|request| {
        request
            .head
            .contains(&format!("authorization: bearer {KEY}"))
    }));
    assert!(!format!("{embedder:?} {:?}", options()).contains(KEY));
    for none in [None, Some(String::new()), Some(" \n".to_owned())] {
        let options = EndpointOptions {
            api_key: none,
            ..options()
        };
        EndpointEmbedder::open(&server.url, "fake", &options).expect("a key is not needed");
        assert!(
            !server
                .requests()
                .last()
                .expect("a request was sent")
                .head
                .contains("authorization")
        );
    }
    let broken = EndpointOptions {
        api_key: Some(format!("{KEY}\r\nx: y")),
        ..options()
    };
    let error = EndpointEmbedder::open(&server.url, "fake", &broken)
        .expect_err("the key is not a header value");
    assert!(
        error.to_string().contains("API key") && !error.to_string().contains(KEY),
        "{error}"
    );
}

#[test]
fn redirect_is_reported_and_not_followed() {
    let other = TestServer::new(|_, request| valid_answer(request));
    let target = other.url.replace("http://", "http://me:hunter2@");
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let target = target.clone();
        let server = TestServer::new(move |_, _| {
            Reply::Raw(status, format!("location: {target}\r\n"), String::new())
        });
        let error = server.try_open().expect_err("redirects are not followed");
        check_error(&error, &server, &other.url);
        assert!(
            error.to_string().contains(status) && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
    assert!(other.requests().is_empty(), "the key goes nowhere else");
}

#[test]
fn invalid_url_is_refused_without_its_secrets() {
    for (url, part) in [
        ("http://me:hunter2@localhost:1/v1", "user name"),
        ("http://localhost:1/v1?key=hunter2", "query"),
        ("localhost:11434/v1", "http://"),
        ("me:hunter2@localhost/v1", "http://"),
        ("", "http://"),
    ] {
        let error = EndpointEmbedder::open(url, "fake", &options()).expect_err("it is refused");
        assert!(
            error.to_string().contains(part) && !error.to_string().contains("hunter2"),
            "{url}: {error}"
        );
    }
    let error = EndpointEmbedder::open("http://localhost:1/v1", " ", &options())
        .expect_err("it is refused");
    assert!(error.to_string().contains("no name"), "{error}");
}

// Retries

#[test]
fn rate_limited_request_is_retried_after_the_requested_time() {
    for (header, min_time) in [
        ("retry-after: 1\r\n", Duration::from_secs(1)),
        ("", Duration::from_millis(400)),
    ] {
        let server = TestServer::wrong_at(0, move |_| {
            Reply::Raw("429 Too Many Requests", header.into(), "slow".into())
        });
        let started = Instant::now();
        server.open();
        let took = started.elapsed();
        assert!(
            took >= min_time && took < Duration::from_secs(10),
            "{header:?}: {took:?}"
        );
        assert_eq!(server.requests().len(), 2);
    }
    let server = TestServer::new(|_, _| {
        Reply::Raw(
            "429 Too Many Requests",
            "retry-after: 3600\r\n".into(),
            "".into(),
        )
    });
    let error = server.try_open().expect_err("an hour is too long");
    check_error(&error, &server, "429 Too Many Requests, retry after 3600 s");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn server_error_is_reported_after_three_attempts() {
    let server = TestServer::new(|_, _| {
        Reply::status(
            "500 Internal Server Error",
            r#"{"error": {"message": "no\nGPU"}}"#,
        )
    });
    let error = server.try_open().expect_err("the server never answers");
    check_error(
        &error,
        &server,
        "it answered 500 Internal Server Error: no GPU (tried 3 times); ",
    );
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn refusal_is_not_retried() {
    for (status, body, part) in [
        (
            "404 Not Found",
            r#"{"error": "model \"fake\" not found"}"#,
            r#"model "fake" not found"#,
        ),
        ("400 Bad Request", "<html>no</html>", "<html>no</html>"),
        ("403 Forbidden", "", "403 Forbidden; check the key"),
    ] {
        let server = TestServer::new(move |_, _| Reply::status(status, body));
        check_error(
            &server.try_open().expect_err("the server refuses"),
            &server,
            part,
        );
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[test]
fn unreachable_server_is_reported() {
    let server = TestServer {
        url: "http://127.0.0.1:1/v1".to_owned(),
        requests: Arc::default(),
    };
    check_error(
        &server.try_open().expect_err("nobody listens"),
        &server,
        "the connection failed: ",
    );
}

#[test]
fn hanging_server_is_a_timeout() {
    let server = TestServer::new(|_, _| Reply::Hang);
    let options = EndpointOptions {
        timeout: Duration::from_millis(300),
        ..options()
    };
    let started = Instant::now();
    let error = EndpointEmbedder::open(&server.url, "fake", &options)
        .expect_err("the server never answers");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    check_error(&error, &server, "no complete answer within 300ms");
    assert_eq!(server.requests().len(), 1, "a timeout is not retried");
}

#[test]
fn attempts_and_pauses_end_before_the_deadline() {
    let busy = || {
        Reply::Raw(
            "503 Service Unavailable",
            "retry-after: 15\r\n".into(),
            "warming up".into(),
        )
    };
    for (answer, part) in [
        (
            Box::new(busy) as Box<dyn Fn() -> Reply + Send + Sync>,
            "503 Service Unavailable",
        ),
        (
            Box::new(|| Reply::status("500 Internal Server Error", "no GPU")),
            "no GPU",
        ),
        (Box::new(|| Reply::Hang), "no complete answer within"),
    ] {
        let server = TestServer::new(move |n, request| {
            if n == 0 {
                valid_answer(request)
            } else {
                answer()
            }
        });
        let embedder = server.open();
        let started = Instant::now();
        let deadline = Some(started + Duration::from_millis(300));
        let error = embedder
            .embed_until(TextRole::Query, &["x"], &|_| {}, deadline)
            .expect_err("there is no answer");
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{part}: {:?}",
            started.elapsed()
        );
        check_error(&error, &server, part);
        assert_eq!(
            server.requests().len(),
            2,
            "{part}: a pause of half a second is too long"
        );
    }
}

// Validation of answers

#[test]
fn invalid_answer_is_refused() {
    let valid_vector = || json!(fake_vector("x"));
    let cases: Vec<(Reply, &str)> = vec![
        (vectors(&[valid_vector()]), "it gave 1 vectors for 2 texts"),
        (
            vectors(&[valid_vector(), valid_vector(), valid_vector()]),
            "it gave 3 vectors for 2 texts",
        ),
        (
            vectors(&[valid_vector(), json!([1.0, 2.0])]),
            "it gave a vector of 2 dimensions instead of 64",
        ),
        (
            vectors(&[valid_vector(), json!([])]),
            "it gave a vector of 0 dimensions instead of 64",
        ),
        (
            vectors(&[valid_vector(), json!(vec![0.0; 64])]),
            "it gave a vector of zeros",
        ),
        (
            vectors(&[valid_vector(), json!(vec![1e39; 64])]),
            "number out of range",
        ),
        (
            vectors(&[valid_vector(), json!(vec!["NaN"; 64])]),
            "invalid type: string",
        ),
        (
            vectors(&[valid_vector(), json!(vec![Value::Null; 64])]),
            "invalid type: null",
        ),
        (
            vectors(&[valid_vector(), json!("AACAPw==")]),
            "invalid type: string",
        ),
        (
            Reply::status("200 OK", r#"{"data": [{"index": 0, "embedding": [NaN]}]}"#),
            "contains no embeddings",
        ),
        (
            Reply::status("200 OK", "<html>\r\n<b>Welcome</b>"),
            "<html> <b>Welcome</b>",
        ),
        (Reply::status("200 OK", ""), "contains no embeddings"),
        (
            Reply::status("200 OK", &"[".repeat(100_000)),
            "contains no embeddings",
        ),
        (
            Reply::status("200 OK", &format!("\"{}\"", KEY.repeat(10_000))),
            "contains no embeddings",
        ),
        (
            Reply::Json(json!({"error": {"message": "quota is used up"}})),
            "quota is used up",
        ),
        (
            Reply::Json(json!({"data": [{"embedding": fake_vector("x")}]})),
            "missing field `index`",
        ),
        (index_pair(0, 0), "it gave two vectors for the text 0"),
        (index_pair(0, 2), "it gave a vector for the text 2 of 2"),
    ];
    for (reply, part) in cases {
        let reply = Mutex::new(Some(reply));
        let server = TestServer::wrong_at(1, move |_| {
            reply
                .lock()
                .expect("nobody panicked")
                .take()
                .expect("asked once")
        });
        let error = embed(&server.open(), &["one", "two"]).expect_err(part);
        check_error(&error, &server, part);
        assert_eq!(
            server.requests().len(),
            2,
            "{part}: an invalid answer is not retried"
        );
    }
}

fn index_pair(one: i32, other: i32) -> Reply {
    let item = |index: i32| json!({"index": index, "embedding": fake_vector("x")});
    Reply::Json(json!({"data": [item(one), item(other)]}))
}

#[test]
fn vector_of_invalid_length_is_refused() {
    for (length, part) in [(0, "0 dimensions"), (100_000, "100000 dimensions")] {
        let server = TestServer::new(move |_, _| vectors(&[json!(vec![1; length])]));
        check_error(
            &server.try_open().expect_err("it is refused"),
            &server,
            part,
        );
    }
}

#[test]
fn endless_answer_is_not_read_completely() {
    let server = TestServer::new(|_, _| Reply::Endless);
    check_error(
        &server.try_open().expect_err("the answer never ends"),
        &server,
        "longer than 16 MiB",
    );
    assert_eq!(server.requests().len(), 1);
}

// In the engine

fn engine(server: &TestServer) -> Result<Engine, IndexError> {
    Engine::builder(workplace())
        .embedder(Arc::new(server.open()))
        .build()
}

#[test]
fn endpoint_failure_for_tools_is_an_error_for_requests_degrades() {
    let server = TestServer::wrong_at(2, |_| Reply::status("400 Bad Request", "too long"));
    let error = engine(&server).expect_err("the second batch fails");
    let IndexError::Embed(error) = error else {
        panic!("another error: {error}")
    };
    check_error(&error, &server, "400 Bad Request: too long");
    // One request to open, four batches for 220 tools, then the picks.
    let server = TestServer::new(|n, request| {
        if n == 6 {
            Reply::status("403 Forbidden", "")
        } else {
            valid_answer(request)
        }
    });
    let engine = engine(&server).expect("the endpoint is valid");
    let hybrid = pick(&engine, "book a meeting room", &PickOptions::default());
    assert_eq!(
        (hybrid.scorer.as_str(), ids(&hybrid)[0]),
        ("hybrid", "calendar/book_meeting_room")
    );
    assert!(hybrid.degraded.is_empty() && hybrid.picks[0].provenance.semantic.len() == 2);
    let default_engine = Engine::new(workplace()).expect("it builds");
    let degraded = pick(&engine, "book a meeting room", &PickOptions::default());
    assert_eq!(
        ids(&degraded),
        ids(&pick(
            &default_engine,
            "book a meeting room",
            &PickOptions::default()
        ))
    );
    assert_eq!(degraded.degraded[0].stage, Stage::Semantic);
    assert!(
        degraded.degraded[0].reason.contains("403 Forbidden"),
        "{}",
        degraded.degraded[0].reason
    );
}

#[test]
fn cached_vectors_are_not_requested_again() {
    let server = TestServer::new(|_, request| valid_answer(request));
    let temporary = tempfile::tempdir().expect("a folder can be made");
    for requests in [5, 6] {
        let builder = Engine::builder(workplace()).embedder(Arc::new(server.open()));
        let engine = builder
            .cache_dir(temporary.path())
            .build()
            .expect("the endpoint is valid");
        assert_eq!(engine.stats().cache.map(|cache| cache.entries), Some(220));
        assert_eq!(
            server.requests().len(),
            requests,
            "one request to open; tools are embedded once"
        );
    }
}
