//! A connection to a Redis or Valkey server with a deadline for complete answers and a limit of
//! their size. The client library limits neither: its timeout is that of one read.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{
    ConnectionAddr, ConnectionInfo, ConnectionLike, ErrorKind, Parser, RedisError, RedisResult,
    Value,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

/// The memory that a line of an answer may take beside its bytes: a value without content.
const LINE_BYTES: usize = 64;

/// The limits of one use of a connection.
#[derive(Debug, Clone, Copy)]
pub struct RedisLimits {
    /// The time until the last byte of the last answer.
    pub time: Duration,
    /// The most memory of all answers. Each line counts 64 bytes more than it has, because it may be
    /// a value of its own.
    pub bytes: usize,
}

/// A connection to a store.
pub struct RedisConnection {
    stream: RedisStream,
    parser: Parser,
    database: i64,
    /// The time at which the current use ends.
    deadline: Instant,
    /// The memory that the answers of the current use may still take.
    bytes_left: usize,
    is_open: bool,
}

/// The stream of a connection.
enum RedisStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl RedisConnection {
    /// Connects and authenticates within the limits.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if the server cannot be reached in time, or refuses the login.
    pub fn open(info: &ConnectionInfo, limits: RedisLimits) -> RedisResult<Self> {
        let deadline = Instant::now() + limits.time;
        let settings = info.redis_settings();
        let mut connection = Self {
            stream: RedisStream::connect(info.addr(), deadline)?,
            parser: Parser::new(),
            database: settings.db(),
            deadline,
            bytes_left: limits.bytes,
            is_open: true,
        };
        if let Some(password) = settings.password() {
            let mut login = redis::cmd("AUTH");
            login.arg(settings.username()).arg(password);
            let refused = |error: RedisError| match error.is_io_error() {
                true => error,
                false => (ErrorKind::AuthenticationFailed, "the login failed").into(),
            };
            login.exec(&mut connection).map_err(refused)?;
        }
        if settings.db() != 0 {
            let mut select = redis::cmd("SELECT");
            select.arg(settings.db()).exec(&mut connection)?;
        }
        connection.check_protocol()?;
        Ok(connection)
    }

    /// Begins a use of the connection within other limits.
    pub fn begin(&mut self, limits: RedisLimits) {
        self.deadline = Instant::now() + limits.time;
        self.bytes_left = limits.bytes;
    }

    /// Returns `true` if an idle connection can be used again: the server neither closed it nor
    /// sent anything.
    pub fn is_usable(&self) -> bool {
        let socket = self.stream.socket();
        let is_silent = || {
            socket.set_nonblocking(true).ok()?;
            let peeked = socket.peek(&mut [0]);
            socket.set_nonblocking(false).ok()?;
            Some(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
        };
        self.is_open && is_silent() == Some(true)
    }

    /// Checks that the other side is a store. A refusal is an answer too: a user may lack the
    /// permission.
    fn check_protocol(&mut self) -> RedisResult<()> {
        match self.req_packed_command(&redis::cmd("PING").get_packed_command())? {
            Value::SimpleString(_) | Value::ServerError(_) => Ok(()),
            _ => Err((ErrorKind::Parse, "unexpected answer to PING").into()),
        }
    }

    fn send(&mut self, command: &[u8]) -> RedisResult<()> {
        let result = self.stream.write_until(command, self.deadline);
        self.is_open &= result.is_ok();
        Ok(result?)
    }

    /// Reads an answer that is not a push message.
    fn receive(&mut self) -> RedisResult<Value> {
        loop {
            let reader = LimitedReader {
                stream: &mut self.stream,
                deadline: self.deadline,
                bytes_left: &mut self.bytes_left,
            };
            let answer = self.parser.parse_value(reader);
            if answer.is_err() {
                self.is_open = false;
            }
            match answer? {
                Value::Push { .. } => {}
                value => return Ok(value),
            }
        }
    }
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.send(command)?;
        self.receive()
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.send(commands)?;
        let mut refused = None;
        for _ in 0..offset {
            // The answers to the commands of a transaction before its end.
            if let Value::ServerError(error) = self.receive()? {
                refused = refused.or(Some(error));
            }
        }
        let answers = (0..count).map(|_| self.receive()).collect();
        match refused {
            Some(error) => Err(error.into()),
            None => answers,
        }
    }

    fn get_db(&self) -> i64 {
        self.database
    }

    fn check_connection(&mut self) -> bool {
        self.is_usable()
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}

impl RedisStream {
    fn connect(address: &ConnectionAddr, deadline: Instant) -> RedisResult<Self> {
        match address {
            ConnectionAddr::Tcp(host, port) => Ok(Self::Plain(connect_tcp(host, *port, deadline)?)),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                ..
            } => {
                let tcp = connect_tcp(host, *port, deadline)?;
                let failed = |_| RedisError::from((ErrorKind::InvalidClientConfig, "TLS setup"));
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    RedisError::from((ErrorKind::InvalidClientConfig, "invalid host name"))
                })?;
                let config = crate::TLS.clone().map_err(failed)?;
                let session =
                    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
                Ok(Self::Tls(Box::new(StreamOwned::new(session, tcp))))
            }
            _ => Err((
                ErrorKind::InvalidClientConfig,
                "only redis:// and rediss:// with verified certificates are supported",
            )
                .into()),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Writes all bytes until a time.
    fn write_until(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = time_until(deadline)?;
            self.socket().set_write_timeout(Some(left))?;
            self.socket().set_read_timeout(Some(left))?;
            let written = match self {
                Self::Plain(stream) => stream.write(bytes),
                Self::Tls(stream) => stream.write(bytes),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A reader that stops at a time, and when the memory is used up.
struct LimitedReader<'a> {
    stream: &'a mut RedisStream,
    deadline: Instant,
    bytes_left: &'a mut usize,
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(*self.bytes_left);
        if most == 0 && !buffer.is_empty() {
            let message = "the answer is too long";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let left = time_until(self.deadline)?;
        self.stream.socket().set_read_timeout(Some(left))?;
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        let count = match self.stream {
            RedisStream::Plain(stream) => stream.read(buffer)?,
            RedisStream::Tls(stream) => stream.read(buffer)?,
        };
        let received = buffer.get(..count).unwrap_or_default();
        let lines = received.iter().filter(|&&byte| byte == b'\n').count();
        *self.bytes_left = self.bytes_left.saturating_sub(count + lines * LINE_BYTES);
        Ok(count)
    }
}

/// Returns the time until a deadline, or an error if it has passed.
fn time_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time_until(deadline)?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use redis::IntoConnectionInfo;

    use super::*;

    /// Starts a server that answers each connection with a function.
    fn server(answer: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || listener.incoming().flatten().for_each(answer));
        address
    }

    fn limits(milliseconds: u64) -> RedisLimits {
        RedisLimits {
            time: Duration::from_millis(milliseconds),
            bytes: 1 << 20,
        }
    }

    /// Answers the first command, as a store does.
    fn greet(stream: &mut TcpStream) {
        drop(stream.read(&mut [0; 64]));
        drop(stream.write_all(b"+PONG\r\n"));
    }

    fn open(address: SocketAddr) -> RedisConnection {
        let info = format!("redis://{address}").into_connection_info();
        let info = info.expect("an address");
        RedisConnection::open(&info, limits(5_000)).expect("a connection")
    }

    #[test]
    fn answer_that_drips_ends_at_the_deadline() {
        let address = server(|mut stream| {
            greet(&mut stream);
            drop(stream.write_all(b"$100000\r\n"));
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let mut connection = open(address);
        connection.begin(limits(400));
        let started = Instant::now();
        let answer = redis::cmd("GET").arg("key").query::<Value>(&mut connection);
        let error = answer.expect_err("it never ends");
        assert!(error.is_timeout(), "{error}");
        assert!(started.elapsed() < Duration::from_secs(3));
        assert!(!connection.is_usable());
    }

    #[test]
    fn answer_has_a_maximum_size() {
        let address = server(|mut stream| {
            greet(&mut stream);
            drop(stream.write_all(b"$2147483647\r\n"));
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let mut connection = open(address);
        connection.begin(limits(20_000));
        let answer = redis::cmd("GET").arg("key").query::<Value>(&mut connection);
        let error = answer.expect_err("it is too long");
        assert!(!error.is_timeout(), "{error}");
    }

    #[test]
    fn many_small_values_count_with_their_memory() {
        let answer = |count: usize| format!("*{count}\r\n{}", "$1\r\nx\r\n".repeat(count));
        for (count, is_read) in [(1_000, true), (100_000, false)] {
            let address = server(move |mut stream| {
                greet(&mut stream);
                drop(stream.read(&mut [0; 64]));
                drop(stream.write_all(answer(count).as_bytes()));
            });
            let mut connection = open(address);
            connection.begin(limits(20_000));
            let answer = redis::cmd("KEYS").arg("*").query::<Value>(&mut connection);
            assert_eq!(answer.is_ok(), is_read, "{count}: {answer:.200?}");
        }
    }

    #[test]
    fn other_protocols_are_refused() {
        for answer in [
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "*-5\r\n$-7\r\n",
            ":1\r\n",
        ] {
            let address = server(move |mut stream| drop(stream.write_all(answer.as_bytes())));
            let info = format!("redis://{address}").into_connection_info();
            let info = info.expect("an address");
            assert!(
                RedisConnection::open(&info, limits(2_000)).is_err(),
                "{answer}"
            );
        }
    }

    #[test]
    fn idle_connection_that_was_closed_is_not_usable() {
        let address = server(|mut stream| {
            greet(&mut stream);
            greet(&mut stream);
            drop(stream.read(&mut [0; 64]));
        });
        let mut connection = open(address);
        connection.begin(limits(5_000));
        redis::cmd("PING").exec(&mut connection).expect("an answer");
        assert!(connection.is_usable());
        redis::cmd("QUIT")
            .exec(&mut connection)
            .expect_err("it is closed");
        assert!(!connection.is_usable());
    }
}
