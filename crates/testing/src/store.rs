//! A store of the test's own, and a line to it that can be slow, cut or closed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Value;
use tempfile::TempDir;

/// A server that ends with the test.
pub struct StoreServer {
    child: Child,
    port: u16,
    folder: TempDir,
    more: Vec<String>,
}

/// A port that nobody has. Of those that connections are given by themselves it is none: while the
/// server is down, a connection to it could be given its port.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let place = std::process::id()
            .wrapping_mul(37)
            .wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        let port = 20_000 + u16::try_from(place % 10_000).expect("it is small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A file that `scripts/fetch-store.sh` has put into the target folder, wherever the test's package
/// lies.
fn fetched(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut files = folders.map(|folder| folder.join("target/store").join(name));
    files
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not there: run scripts/fetch-store.sh"))
}

fn start(port: u16, folder: &Path, more: &[String]) -> Child {
    Command::new(fetched("valkey-server"))
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .args(["--logfile", "log"])
        .arg("--dir")
        .arg(folder)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

impl StoreServer {
    /// Starts one with further arguments.
    pub fn start(more: &[&str]) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
        let more: Vec<String> = more.iter().map(|argument| (*argument).to_owned()).collect();
        let server = Self {
            child: start(port, folder.path(), &more),
            port,
            folder,
            more,
        };
        server.wait();
        server
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.try_ask(&["PING"]).is_err() {
            assert!(Instant::now() < until, "it does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    fn try_ask(&self, command: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection()?;
        redis::cmd(command[0])
            .arg(&command[1..])
            .query(&mut connection)
    }

    /// Returns its answer to a command.
    pub fn ask(&self, command: &[&str]) -> Value {
        let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        self.try_ask(command)
            .unwrap_or_else(|error| panic!("{command:?}: {error}; {}", log()))
    }

    /// Starts one that has an index.
    pub fn with_search(more: &[&str]) -> Self {
        let module = fetched("redisearch.so").display().to_string();
        Self::start(&[&["--loadmodule", &module], more].concat())
    }

    /// Has it do a command.
    pub fn ask_bytes(&self, command: &[&[u8]]) {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection().expect("a connection");
        let name = std::str::from_utf8(command[0]).expect("a command");
        redis::cmd(name)
            .arg(&command[1..])
            .exec(&mut connection)
            .expect("it is done");
    }

    /// The names of all keys.
    pub fn keys(&self) -> Vec<String> {
        redis::from_redis_value(self.ask(&["KEYS", "*"])).expect("keys")
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map(drop)
            .expect("it can be ended");
    }

    /// Starts it again with what its folder holds.
    pub fn restart(&mut self) {
        self.child = start(self.port, self.folder.path(), &self.more);
        self.wait();
    }

    /// Writes what there is into the folder, from where a later start takes it.
    pub fn save(&self) {
        self.ask(&["SAVE"]);
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a line does.
#[derive(Clone, Copy)]
pub enum Line {
    /// What comes goes on.
    Good = 0,
    /// Each answer takes two seconds.
    Slow = 1,
    /// Nothing comes through, and nobody is told.
    Cut = 2,
    /// Whoever calls is hung up on.
    Closed = 3,
}

/// A line to a store.
pub struct Relay {
    /// The address to call.
    pub address: SocketAddr,
    line: Arc<AtomicU8>,
    store: Arc<Mutex<SocketAddr>>,
}

impl Relay {
    /// Opens a line to a server.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let line = Arc::new(AtomicU8::new(Line::Good as u8));
        let store = Arc::new(Mutex::new(server));
        let (state, leads_to) = (Arc::clone(&line), Arc::clone(&store));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if state.load(Ordering::Relaxed) == Line::Closed as u8 {
                    continue;
                }
                let server = *leads_to.lock().expect("nothing panicked");
                let Ok(server) = TcpStream::connect(server) else {
                    continue;
                };
                for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        continue;
                    };
                    let state = Arc::clone(&state);
                    std::thread::spawn(move || pass(from, to, is_answer, &state));
                }
            }
        });
        Self {
            address,
            line,
            store,
        }
    }

    /// Leads whoever calls from now on to another store.
    pub fn leads_to(&self, server: SocketAddr) {
        *self.store.lock().expect("nothing panicked") = server;
    }

    /// Returns the URL of the store behind it.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// Changes what the line does.
    pub fn is(&self, line: Line) {
        self.line.store(line as u8, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_answer: bool, state: &AtomicU8) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        match state.load(Ordering::Relaxed) {
            1 if is_answer => std::thread::sleep(Duration::from_secs(2)),
            2 => continue,
            3 => break,
            _ => {}
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}
