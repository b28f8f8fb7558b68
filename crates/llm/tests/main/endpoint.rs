//! Embedding models behind an HTTP endpoint: what is sent, what is believed, what is tried again,
//! and what is told when it fails. The endpoint is a server of these tests.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::embed::{EmbedError, Embedder, Role};
use picktools::engine::IndexError;
use picktools::selection::Stage;
use picktools::{Engine, PickOptions};
use picktools_llm::{EndpointEmbedder, EndpointOptions};
use picktools_testing::server::{Asked, Reply, Server};
use picktools_testing::{fake_vector, ids, pick, workplace};
use serde_json::{Value, json};

const KEY: &str = "sk-secret-0123456789";

/// A server that embeds.
trait Endpoint: Sized {
    /// Answers soundly but for the n-th request.
    fn wrong_at(n: usize, wrong: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self;

    fn try_open(&self) -> Result<EndpointEmbedder, EmbedError>;

    fn open(&self) -> EndpointEmbedder {
        self.try_open().expect("the endpoint is valid")
    }
}

impl Endpoint for Server {
    fn wrong_at(n: usize, wrong: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(move |at, asked| if at == n { wrong(asked) } else { sound(asked) })
    }

    fn try_open(&self) -> Result<EndpointEmbedder, EmbedError> {
        EndpointEmbedder::open(&self.url, "fake", &options())
    }
}

/// The texts that are to be embedded.
fn texts_of(asked: &Asked) -> Vec<String> {
    let texts = asked.body["input"]
        .as_array()
        .expect("texts are sent as a list");
    texts
        .iter()
        .map(|text| text.as_str().expect("a text is a string").to_owned())
        .collect()
}

/// A sound answer, in reverse order.
fn sound(asked: &Asked) -> Reply {
    let texts = texts_of(asked).into_iter().enumerate().rev();
    let data: Vec<Value> = texts
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": fake_vector(&text)}))
        .collect();
    Reply::Json(
        json!({"object": "list", "data": data, "model": "fake", "usage": {"total_tokens": 1}}),
    )
}

/// An answer with these vectors, in order.
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
    embedder.embed(Role::Document, texts, &|_| {})
}

/// Checks what every failure tells: the endpoint, the model, a remedy, and never the key.
fn check_told(error: &EmbedError, server: &Server, part: &str) {
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

// What is sent, and what comes back

#[test]
fn vectors_come_in_the_order_of_the_texts_and_of_unit_length() {
    let server = Server::new(|_, asked| {
        let Reply::Json(mut answer) = sound(asked) else {
            unreachable!("a sound answer is JSON")
        };
        for item in answer["data"].as_array_mut().expect("data is a list") {
            for value in item["embedding"]
                .as_array_mut()
                .expect("a vector is a list")
            {
                *value = json!(value.as_f64().expect("it is a number") * 3e38);
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
    let found = embed(&embedder, &texts).expect("the endpoint is valid");
    assert_eq!(embedder.dimensions(), fake_vector("").len());
    for (text, vector) in texts.iter().zip(&found) {
        let cosine: f32 = vector
            .iter()
            .zip(fake_vector(text))
            .map(|(a, b)| a * b)
            .sum();
        assert!((cosine - 1.0).abs() < 1e-4, "{text:?}: {cosine}");
    }
    let asked = server.asked();
    assert!(
        asked[1].head.starts_with("post /v1/embeddings http/1.1"),
        "{}",
        asked[1].head
    );
    assert_eq!(
        (&asked[1].body["model"], &asked[1].body["encoding_format"]),
        (&"fake".into(), &"float".into())
    );
    assert_eq!(
        (asked.len(), texts_of(&asked[1])),
        (2, texts.map(str::to_owned).to_vec())
    );
    assert!(
        embed(&embedder, &[])
            .expect("nothing is embedded")
            .is_empty()
    );
    assert_eq!(server.asked().len(), 2, "nothing is asked for no texts");
}

#[test]
fn many_texts_are_sent_in_batches_and_progress_is_told() {
    let server = Server::new(|_, asked| sound(asked));
    let texts: Vec<String> = (0..150).map(|i| format!("tool number {i}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let told = Mutex::new(Vec::new());
    let tell = |done| told.lock().expect("nobody panicked").push(done);
    let found = server
        .open()
        .embed(Role::Document, &texts, &tell)
        .expect("the endpoint is valid");
    assert_eq!(found.len(), 150);
    assert_eq!(*told.lock().expect("nobody panicked"), [64, 128, 150]);
    let sizes: Vec<usize> = server.asked()[1..]
        .iter()
        .map(|asked| texts_of(asked).len())
        .collect();
    assert_eq!(sizes, [64, 64, 22]);
}

#[test]
fn identities_tell_endpoints_and_models_apart() {
    let (one, other) = (
        Server::new(|_, asked| sound(asked)),
        Server::new(|_, asked| sound(asked)),
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
fn the_key_is_sent_and_never_told() {
    let server = Server::wrong_at(1, |_| {
        // A server that tells the key, at the place where an excerpt ends too.
        Reply::status(
            "401 Unauthorized",
            &format!("{} {KEY} {KEY}", "x".repeat(170)),
        )
    });
    let embedder = server.open();
    let error = embed(&embedder, &["x"]).expect_err("the key is refused");
    check_told(&error, &server, "401 Unauthorized");
    assert!(
        !error.to_string().contains("sk-sec") && error.to_string().contains("check the key"),
        "{error}"
    );
    assert!(
        server
            .asked()
            .iter()
            .all(|asked| asked.head.contains(&format!("authorization: bearer {KEY}")))
    );
    assert!(!format!("{embedder:?} {:?}", options()).contains(KEY));
    for none in [None, Some(String::new()), Some(" \n".to_owned())] {
        let options = EndpointOptions {
            api_key: none,
            ..options()
        };
        EndpointEmbedder::open(&server.url, "fake", &options).expect("a key is not needed");
        assert!(
            !server
                .asked()
                .last()
                .expect("it was asked")
                .head
                .contains("authorization")
        );
    }
    let broken = EndpointOptions {
        api_key: Some(format!("{KEY}\r\nx: y")),
        ..options()
    };
    let error = EndpointEmbedder::open(&server.url, "fake", &broken).expect_err("it is no header");
    assert!(
        error.to_string().contains("API key") && !error.to_string().contains(KEY),
        "{error}"
    );
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    let other = Server::new(|_, asked| sound(asked));
    let place = other.url.replace("http://", "http://me:hunter2@");
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let place = place.clone();
        let server = Server::new(move |_, _| {
            Reply::Raw(status, format!("location: {place}\r\n"), String::new())
        });
        let error = server.try_open().expect_err("redirects are not followed");
        check_told(&error, &server, &other.url);
        assert!(
            error.to_string().contains(status) && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
    assert!(other.asked().is_empty(), "the key goes nowhere else");
}

#[test]
fn a_url_that_cannot_be_used_is_refused_without_its_secrets() {
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

// What passes, and what does not

#[test]
fn too_many_requests_are_tried_again_after_the_time_that_is_asked_for() {
    for (header, least) in [
        ("retry-after: 1\r\n", Duration::from_secs(1)),
        ("", Duration::from_millis(400)),
    ] {
        let server = Server::wrong_at(0, move |_| {
            Reply::Raw("429 Too Many Requests", header.into(), "slow".into())
        });
        let started = Instant::now();
        server.open();
        let took = started.elapsed();
        assert!(
            took >= least && took < Duration::from_secs(10),
            "{header:?}: {took:?}"
        );
        assert_eq!(server.asked().len(), 2);
    }
    let server = Server::new(|_, _| {
        Reply::Raw(
            "429 Too Many Requests",
            "retry-after: 3600\r\n".into(),
            "".into(),
        )
    });
    let error = server.try_open().expect_err("an hour is not waited");
    check_told(
        &error,
        &server,
        "429 Too Many Requests, to be asked again after 3600 s",
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_server_in_trouble_is_tried_three_times_and_then_told() {
    let server = Server::new(|_, _| {
        Reply::status(
            "500 Internal Server Error",
            r#"{"error": {"message": "no\nGPU"}}"#,
        )
    });
    let error = server.try_open().expect_err("it never answers");
    check_told(
        &error,
        &server,
        "it answered 500 Internal Server Error: no GPU (tried 3 times); ",
    );
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn a_refusal_is_not_tried_again() {
    for (status, body, part) in [
        (
            "404 Not Found",
            r#"{"error": "model \"fake\" not found"}"#,
            r#"model "fake" not found"#,
        ),
        ("400 Bad Request", "<html>no</html>", "<html>no</html>"),
        ("403 Forbidden", "", "403 Forbidden; check the key"),
    ] {
        let server = Server::new(move |_, _| Reply::status(status, body));
        check_told(&server.try_open().expect_err("it refuses"), &server, part);
        assert_eq!(server.asked().len(), 1, "{status}");
    }
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a port is free")
        .local_addr()
        .expect("it is bound");
    let server = Server {
        url: format!("http://{free}/v1"),
        asked: Arc::default(),
    };
    check_told(
        &server.try_open().expect_err("nobody listens"),
        &server,
        "the connection failed: ",
    );
}

#[test]
fn a_server_that_hangs_is_left_when_time_is_up() {
    let server = Server::new(|_, _| Reply::Hang);
    let options = EndpointOptions {
        timeout: Duration::from_millis(300),
        ..options()
    };
    let started = Instant::now();
    let error =
        EndpointEmbedder::open(&server.url, "fake", &options).expect_err("it never answers");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    check_told(&error, &server, "no whole answer within 300ms");
    assert_eq!(
        server.asked().len(),
        1,
        "time that ran out is not tried again"
    );
}

#[test]
fn tries_and_pauses_fit_into_the_deadline() {
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
        (Box::new(|| Reply::Hang), "no whole answer within"),
    ] {
        let server = Server::new(move |n, asked| if n == 0 { sound(asked) } else { answer() });
        let embedder = server.open();
        let started = Instant::now();
        let deadline = Some(started + Duration::from_millis(300));
        let error = embedder
            .embed_until(Role::Query, &["x"], &|_| {}, deadline)
            .expect_err("there is no answer");
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{part}: {:?}",
            started.elapsed()
        );
        check_told(&error, &server, part);
        assert_eq!(
            server.asked().len(),
            2,
            "{part}: a pause of half a second is too long"
        );
    }
}

// What is believed

#[test]
fn an_answer_that_is_not_sound_is_refused() {
    let sound_vector = || json!(fake_vector("x"));
    let cases: Vec<(Reply, &str)> = vec![
        (vectors(&[sound_vector()]), "it gave 1 vectors for 2 texts"),
        (
            vectors(&[sound_vector(), sound_vector(), sound_vector()]),
            "it gave 3 vectors for 2 texts",
        ),
        (
            vectors(&[sound_vector(), json!([1.0, 2.0])]),
            "it gave a vector of 2 dimensions instead of 64",
        ),
        (
            vectors(&[sound_vector(), json!([])]),
            "it gave a vector of 0 dimensions instead of 64",
        ),
        (
            vectors(&[sound_vector(), json!(vec![0.0; 64])]),
            "it gave a vector of zeros",
        ),
        (
            vectors(&[sound_vector(), json!(vec![1e39; 64])]),
            "number out of range",
        ),
        (
            vectors(&[sound_vector(), json!(vec!["NaN"; 64])]),
            "invalid type: string",
        ),
        (
            vectors(&[sound_vector(), json!(vec![Value::Null; 64])]),
            "invalid type: null",
        ),
        (
            vectors(&[sound_vector(), json!("AACAPw==")]),
            "invalid type: string",
        ),
        (
            Reply::status("200 OK", r#"{"data": [{"index": 0, "embedding": [NaN]}]}"#),
            "holds no embeddings",
        ),
        (
            Reply::status("200 OK", "<html>\r\n<b>Welcome</b>"),
            "<html> <b>Welcome</b>",
        ),
        (Reply::status("200 OK", ""), "holds no embeddings"),
        (
            Reply::status("200 OK", &"[".repeat(100_000)),
            "holds no embeddings",
        ),
        (
            Reply::status("200 OK", &format!("\"{}\"", KEY.repeat(10_000))),
            "holds no embeddings",
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
        let server = Server::wrong_at(1, move |_| {
            reply
                .lock()
                .expect("nobody panicked")
                .take()
                .expect("asked once")
        });
        let error = embed(&server.open(), &["one", "two"]).expect_err(part);
        check_told(&error, &server, part);
        assert_eq!(server.asked().len(), 2, "{part}: what is wrong stays wrong");
    }
}

fn index_pair(one: i32, other: i32) -> Reply {
    let item = |index: i32| json!({"index": index, "embedding": fake_vector("x")});
    Reply::Json(json!({"data": [item(one), item(other)]}))
}

#[test]
fn a_vector_of_no_sane_length_is_refused() {
    for (length, part) in [(0, "0 dimensions"), (100_000, "100000 dimensions")] {
        let server = Server::new(move |_, _| vectors(&[json!(vec![1; length])]));
        check_told(
            &server.try_open().expect_err("it is refused"),
            &server,
            part,
        );
    }
}

#[test]
fn an_answer_without_end_is_not_read_to_the_end() {
    let server = Server::new(|_, _| Reply::Endless);
    check_told(
        &server.try_open().expect_err("it never ends"),
        &server,
        "longer than 16 MiB",
    );
    assert_eq!(server.asked().len(), 1);
}

// In the engine

fn engine(server: &Server) -> Result<Engine, IndexError> {
    Engine::builder(workplace())
        .embedder(Arc::new(server.open()))
        .build()
}

#[test]
fn an_endpoint_that_fails_on_tools_is_an_error_and_on_a_request_leaves_the_other_retrievers() {
    let server = Server::wrong_at(2, |_| Reply::status("400 Bad Request", "too long"));
    let error = engine(&server).expect_err("the second batch fails");
    let IndexError::Embed(error) = error else {
        panic!("another error: {error}")
    };
    check_told(&error, &server, "400 Bad Request: too long");
    // One to open, four batches of 220 tools, and then requests.
    let server = Server::new(|n, asked| {
        if n == 6 {
            Reply::status("403 Forbidden", "")
        } else {
            sound(asked)
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
    let rest = pick(&engine, "book a meeting room", &PickOptions::default());
    assert_eq!(
        ids(&rest),
        ids(&pick(
            &default_engine,
            "book a meeting room",
            &PickOptions::default()
        ))
    );
    assert_eq!(rest.degraded[0].stage, Stage::Semantic);
    assert!(
        rest.degraded[0].reason.contains("403 Forbidden"),
        "{}",
        rest.degraded[0].reason
    );
}

#[test]
fn what_is_cached_is_not_asked_for_again() {
    let server = Server::new(|_, asked| sound(asked));
    let temporary = tempfile::tempdir().expect("a folder can be made");
    for requests in [5, 6] {
        let builder = Engine::builder(workplace()).embedder(Arc::new(server.open()));
        let engine = builder
            .cache_dir(temporary.path())
            .build()
            .expect("the endpoint is valid");
        assert_eq!(engine.stats().cache.map(|cache| cache.entries), Some(220));
        assert_eq!(
            server.asked().len(),
            requests,
            "one to open; tools are embedded once"
        );
    }
}
