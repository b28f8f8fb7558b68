//! A store for a test, and a relay to it that can be slow or broken.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Value;
use tempfile::TempDir;

use crate::free_port;

/// A Valkey server that ends with the test.
pub struct StoreServer {
    child: Child,
    port: u16,
    folder: TempDir,
    more: Vec<String>,
}

/// Returns a file of `target/store` that `scripts/fetch-store.sh` fetched.
fn fetched_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut files = folders.map(|folder| folder.join("target/store").join(name));
    files
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is missing; run scripts/fetch-store.sh"))
}

fn start(port: u16, folder: &Path, more: &[String]) -> Child {
    Command::new(fetched_file("valkey-server"))
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
    /// Starts a server with further arguments.
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
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.try_ask(&["PING"]).is_err() {
            assert!(Instant::now() < deadline, "the server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns the URL of the server.
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

    /// Returns the answer to a command.
    pub fn ask(&self, command: &[&str]) -> Value {
        let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        self.try_ask(command)
            .unwrap_or_else(|error| panic!("{command:?}: {error}; {}", log()))
    }

    /// Starts a server with the search module.
    pub fn with_search(more: &[&str]) -> Self {
        let module = fetched_file("redisearch.so").display().to_string();
        Self::start(&[&["--loadmodule", &module], more].concat())
    }

    /// Executes a command with binary arguments.
    pub fn ask_bytes(&self, command: &[&[u8]]) {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection().expect("a connection");
        let name = std::str::from_utf8(command[0]).expect("a command");
        redis::cmd(name)
            .arg(&command[1..])
            .exec(&mut connection)
            .expect("it is done");
    }

    /// Returns the names of all keys.
    pub fn keys(&self) -> Vec<String> {
        redis::from_redis_value(self.ask(&["KEYS", "*"])).expect("keys")
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map(drop)
            .expect("it can be ended");
    }

    /// Starts the server again, with the saved data.
    pub fn restart(&mut self) {
        self.child = start(self.port, self.folder.path(), &self.more);
        self.wait();
    }

    /// Saves the data for a later start.
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

/// The behaviour of a relay.
#[derive(Clone, Copy)]
pub enum RelayMode {
    /// All data is forwarded.
    Forward = 0,
    /// Each answer takes two seconds.
    Slow = 1,
    /// All data is dropped silently.
    Cut = 2,
    /// Connections are closed.
    Closed = 3,
}

/// A relay between clients and a store.
pub struct Relay {
    /// The address for clients.
    pub address: SocketAddr,
    mode: Arc<AtomicU8>,
    server: Arc<Mutex<SocketAddr>>,
}

impl Relay {
    /// Starts a relay to a server.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mode = Arc::new(AtomicU8::new(RelayMode::Forward as u8));
        let server = Arc::new(Mutex::new(server));
        let (current_mode, target) = (Arc::clone(&mode), Arc::clone(&server));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if current_mode.load(Ordering::Relaxed) == RelayMode::Closed as u8 {
                    continue;
                }
                let server = *target.lock().expect("nothing panicked");
                let Ok(server) = TcpStream::connect(server) else {
                    continue;
                };
                for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        continue;
                    };
                    let mode = Arc::clone(&current_mode);
                    std::thread::spawn(move || forward(from, to, is_answer, &mode));
                }
            }
        });
        Self {
            address,
            mode,
            server,
        }
    }

    /// Connects new clients to another server.
    pub fn redirect_to(&self, server: SocketAddr) {
        *self.server.lock().expect("nothing panicked") = server;
    }

    /// Returns the URL of the store behind the relay.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// Changes the behaviour of the relay.
    pub fn set_mode(&self, mode: RelayMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_answer: bool, mode: &AtomicU8) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        match mode.load(Ordering::Relaxed) {
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
