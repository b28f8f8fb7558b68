//! Faulty download sources: none of them may leave a file behind.

use std::cell::Cell;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const CONTENT: &[u8] = b"hello\n";
const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
const LIMITS: DownloadLimits = DownloadLimits {
    bytes: 100,
    time: Duration::from_secs(20),
};

/// A destination in a folder that does not exist yet, and a file as source.
struct DownloadFixture {
    temporary: TempDir,
}

impl DownloadFixture {
    fn new() -> Self {
        Self {
            temporary: tempfile::tempdir().expect("a folder can be made"),
        }
    }

    fn to(&self) -> PathBuf {
        self.temporary.path().join("models").join("model.onnx")
    }

    fn from(&self, content: &[u8]) -> String {
        let path = self.temporary.path().join("from.onnx");
        fs::write(&path, content).expect("it can be written");
        path.to_str().expect("the path is plain").to_owned()
    }

    fn fetch(&self, from: &str, limits: &DownloadLimits) -> Result<(), EmbedError> {
        fetch(
            &ExpectedFile {
                model: "tuned",
                sha256: SHA256,
                to: &self.to(),
            },
            from,
            limits,
            &|_, _| {},
        )
    }

    /// Checks that the download fails without a file left behind, and returns the message.
    fn refused(&self, from: &str, limits: &DownloadLimits) -> String {
        let error = self
            .fetch(from, limits)
            .expect_err("it is not what is expected");
        assert!(
            matches!(&error, EmbedError::Download { name, .. } if name == "tuned"),
            "{error}"
        );
        let file_count =
            fs::read_dir(self.to().parent().expect("it has one")).map_or(0, Iterator::count);
        assert_eq!(file_count, 0, "a file was left behind: {error}");
        error.to_string()
    }
}

#[test]
fn fetch_from_file_reports_progress_and_replaces_old_file() {
    let fixture = DownloadFixture::new();
    let from = fixture.from(CONTENT);
    for _ in 0..2 {
        let progress = Cell::new((0, None));
        let expected = ExpectedFile {
            model: "tuned",
            sha256: SHA256,
            to: &fixture.to(),
        };
        fetch(&expected, &from, &LIMITS, &|done, total| {
            progress.set((done, total));
        })
        .expect("it is valid");
        assert_eq!(progress.get(), (6, Some(6)));
        assert_eq!(fs::read(fixture.to()).expect("it is there"), CONTENT);
        assert_eq!(sha256(&fixture.to()).ok().as_deref(), Some(SHA256));
        fs::write(fixture.to(), b"older").expect("it can be written");
    }
}

#[test]
fn fetch_from_wrong_file_fails() {
    let fixture = DownloadFixture::new();
    let text = fixture.refused(&fixture.from(b"hello!"), &LIMITS);
    assert!(
        text.contains("from.onnx")
            && text.contains(SHA256)
            && text.contains("use the file of picktools"),
        "{text}"
    );
    assert!(
        fixture
            .refused(&fixture.from(b""), &LIMITS)
            .contains(SHA256)
    );
    assert!(
        fixture
            .refused(&fixture.from(&[0; 101]), &LIMITS)
            .contains("larger than 100 bytes")
    );
    let none = fixture.refused("no/such/file.onnx", &LIMITS);
    assert!(
        none.contains("no/such/file.onnx") && none.contains("--from"),
        "{none}"
    );
    let folder = fixture
        .temporary
        .path()
        .to_str()
        .expect("the path is plain")
        .to_owned();
    assert!(fixture.refused(&folder, &LIMITS).contains("not a file"));
    for from in ["ftp://example.org/model.onnx", "file:///model.onnx", "://"] {
        assert!(
            fixture
                .refused(from, &LIMITS)
                .contains("neither a file nor"),
            "{from}"
        );
    }
}

#[test]
fn fetch_to_unwritable_folder_fails() {
    let fixture = DownloadFixture::new();
    let from = fixture.from(CONTENT);
    let to = PathBuf::from(&from).join("below-a-file").join("model.onnx");
    let expected = ExpectedFile {
        model: "tuned",
        sha256: SHA256,
        to: &to,
    };
    let error = fetch(&expected, &from, &LIMITS, &|_, _| {})
        .expect_err("below a file is no folder")
        .to_string();
    assert!(
        error.contains("cannot write") && error.contains("--cache-dir"),
        "{error}"
    );
}

/// Downloads from a local test server.
mod url {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Starts a server that answers each path with `answer`, and returns its URL.
    fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut lines =
                    BufReader::new(stream.try_clone().expect("it can be cloned")).lines();
                let first = lines.next().and_then(Result::ok).unwrap_or_default();
                while lines
                    .next()
                    .and_then(Result::ok)
                    .is_some_and(|line| !line.is_empty())
                {}
                answer(first.split(' ').nth(1).unwrap_or_default(), &mut stream);
            }
        });
        url
    }

    /// Starts a server with one answer.
    fn server(head: &'static str, body: &'static [u8]) -> String {
        serve(move |_, stream| {
            let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
            let _gone = stream.write_all(&[head.as_bytes(), body].concat());
        })
    }

    #[test]
    fn fetch_from_url_works_without_length_and_with_redirects() {
        for head in ["200 OK\r\nContent-Length: 6", "200 OK"] {
            let fixture = DownloadFixture::new();
            fixture
                .fetch(&format!("{}/m.onnx", server(head, CONTENT)), &LIMITS)
                .expect("it is valid");
            assert_eq!(
                fs::read(fixture.to()).expect("it is there"),
                CONTENT,
                "{head}"
            );
        }
        let redirecting = serve(|path, stream| {
            let answer = match path {
                "/m.onnx" => "302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
                _ => "200 OK\r\nContent-Length: 6\r\n\r\nhello\n",
            };
            let _gone = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
        });
        let fixture = DownloadFixture::new();
        fixture
            .fetch(&format!("{redirecting}/m.onnx"), &LIMITS)
            .expect("it is valid");
        assert_eq!(fs::read(fixture.to()).expect("it is there"), CONTENT);
    }

    #[test]
    fn fetch_of_wrong_answers_fails() {
        for (head, body, part) in [
            (
                "404 Not Found\r\nContent-Length: 4",
                &b"none"[..],
                "answered 404 Not Found",
            ),
            (
                "500 Internal Server Error\r\nContent-Length: 0",
                b"",
                "answered 500",
            ),
            (
                "302 Found\r\nLocation: /m.onnx\r\nContent-Length: 0",
                b"",
                "redirect",
            ),
            ("200 OK\r\nContent-Length: 6", b"hello!", "its SHA-256 is "),
            (
                "200 OK\r\nContent-Length: 6",
                b"hel",
                "stopped after 3 of 6 bytes",
            ),
            ("200 OK", b"hel", "its SHA-256 is "),
            (
                "200 OK\r\nContent-Length: 99999999999",
                b"",
                "larger than 100 bytes",
            ),
            ("200 OK", &[0; 5_000], "larger than 100 bytes"),
            ("200 OK\r\nContent-Length: many", b"hello\n", "failed"),
        ] {
            let fixture = DownloadFixture::new();
            let url = server(head, body);
            let text = fixture.refused(&format!("{url}/m.onnx?token=hunter2"), &LIMITS);
            assert!(
                text.contains(part) && text.contains(&url) && !text.contains("hunter2"),
                "{head}: {text}"
            );
        }
    }

    #[test]
    fn fetch_from_dead_or_endless_server_fails() {
        let fixture = DownloadFixture::new();
        let text = fixture.refused("http://127.0.0.1:1/m.onnx", &LIMITS);
        assert!(
            text.contains("connection") && text.contains("check the network"),
            "{text}"
        );
        let slow = serve(|_, stream| {
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        });
        let limits = DownloadLimits {
            time: Duration::from_millis(700),
            ..LIMITS
        };
        let text = fixture.refused(&slow, &limits);
        assert!(
            text.contains("stopped after") && text.contains("no complete answer within 700ms"),
            "{text}"
        );
        for url in ["http://", "https:// /", "http://a b/"] {
            assert!(!fixture.refused(url, &LIMITS).is_empty(), "{url}");
        }
    }
}
