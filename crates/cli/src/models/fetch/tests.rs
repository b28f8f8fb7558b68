//! Sources that do what they should not: none may leave a file behind.

use std::cell::Cell;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const CONTENT: &[u8] = b"hello\n";
const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
const LIMITS: Limits = Limits {
    bytes: 100,
    time: Duration::from_secs(20),
};

/// A destination below a folder that is not there yet, and a file to take.
struct Place {
    temporary: TempDir,
}

impl Place {
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

    fn fetch(&self, from: &str, limits: &Limits) -> Result<(), EmbedError> {
        fetch(
            &Wanted {
                model: "tuned",
                sha256: SHA256,
                to: &self.to(),
            },
            from,
            limits,
            &|_, _| {},
        )
    }

    /// Checks that nothing comes of it, and returns what is said.
    fn refused(&self, from: &str, limits: &Limits) -> String {
        let error = self
            .fetch(from, limits)
            .expect_err("it is not what is wanted");
        assert!(
            matches!(&error, EmbedError::Download { name, .. } if name == "tuned"),
            "{error}"
        );
        let left = fs::read_dir(self.to().parent().expect("it has one")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "something stays behind: {error}");
        error.to_string()
    }
}

#[test]
fn a_file_is_copied_with_progress_and_replaces_what_was_there() {
    let place = Place::new();
    let from = place.from(CONTENT);
    for _ in 0..2 {
        let told = Cell::new((0, None));
        let wanted = Wanted {
            model: "tuned",
            sha256: SHA256,
            to: &place.to(),
        };
        fetch(&wanted, &from, &LIMITS, &|done, total| {
            told.set((done, total))
        })
        .expect("it is valid");
        assert_eq!(told.get(), (6, Some(6)));
        assert_eq!(fs::read(place.to()).expect("it is there"), CONTENT);
        assert_eq!(sha256(&place.to()).ok().as_deref(), Some(SHA256));
        fs::write(place.to(), b"older").expect("it can be written");
    }
}

#[test]
fn a_file_that_is_not_the_wanted_one_is_refused() {
    let place = Place::new();
    let text = place.refused(&place.from(b"hello!"), &LIMITS);
    assert!(
        text.contains("from.onnx")
            && text.contains(SHA256)
            && text.contains("take the file of picktools"),
        "{text}"
    );
    assert!(place.refused(&place.from(b""), &LIMITS).contains(SHA256));
    assert!(
        place
            .refused(&place.from(&[0; 101]), &LIMITS)
            .contains("larger than 100 bytes")
    );
    let none = place.refused("no/such/file.onnx", &LIMITS);
    assert!(
        none.contains("no/such/file.onnx") && none.contains("--from"),
        "{none}"
    );
    let folder = place
        .temporary
        .path()
        .to_str()
        .expect("the path is plain")
        .to_owned();
    assert!(place.refused(&folder, &LIMITS).contains("no file"));
    for from in ["ftp://example.org/model.onnx", "file:///model.onnx", "://"] {
        assert!(
            place.refused(from, &LIMITS).contains("neither a file nor"),
            "{from}"
        );
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let place = Place::new();
    let from = place.from(CONTENT);
    let to = PathBuf::from(&from).join("below-a-file").join("model.onnx");
    let wanted = Wanted {
        model: "tuned",
        sha256: SHA256,
        to: &to,
    };
    let error = fetch(&wanted, &from, &LIMITS, &|_, _| {})
        .expect_err("below a file is no folder")
        .to_string();
    assert!(
        error.contains("cannot write") && error.contains("--cache-dir"),
        "{error}"
    );
}

/// From a server of the test.
mod url {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Starts a server that answers every request for a path as it is told; returns its URL.
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

    /// A server with one answer.
    fn server(head: &'static str, body: &'static [u8]) -> String {
        serve(move |_, stream| {
            let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
            let _gone = stream.write_all(&[head.as_bytes(), body].concat());
        })
    }

    #[test]
    fn a_url_is_fetched_with_and_without_a_told_length_and_through_redirects() {
        for head in ["200 OK\r\nContent-Length: 6", "200 OK"] {
            let place = Place::new();
            place
                .fetch(&format!("{}/m.onnx", server(head, CONTENT)), &LIMITS)
                .expect("it is valid");
            assert_eq!(
                fs::read(place.to()).expect("it is there"),
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
        let place = Place::new();
        place
            .fetch(&format!("{redirecting}/m.onnx"), &LIMITS)
            .expect("it is valid");
        assert_eq!(fs::read(place.to()).expect("it is there"), CONTENT);
    }

    #[test]
    fn answers_that_are_not_the_file_are_refused() {
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
                "broke off after 3 of 6 bytes",
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
            let place = Place::new();
            let url = server(head, body);
            let text = place.refused(&format!("{url}/m.onnx?token=hunter2"), &LIMITS);
            assert!(
                text.contains(part) && text.contains(&url) && !text.contains("hunter2"),
                "{head}: {text}"
            );
        }
    }

    #[test]
    fn a_server_that_is_gone_or_never_ends_is_given_up() {
        let place = Place::new();
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            listener.local_addr().expect("it is bound")
        };
        let text = place.refused(&format!("http://{closed}/m.onnx"), &LIMITS);
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
        let limits = Limits {
            time: Duration::from_millis(700),
            ..LIMITS
        };
        let text = place.refused(&slow, &limits);
        assert!(
            text.contains("broke off after") && text.contains("no whole answer within 700ms"),
            "{text}"
        );
        for url in ["http://", "https:// /", "http://a b/"] {
            assert!(!place.refused(url, &LIMITS).is_empty(), "{url}");
        }
    }
}
