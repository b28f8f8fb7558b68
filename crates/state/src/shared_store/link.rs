//! The connections to a store. Everything that depends on the Redis client is in this file.

use std::time::Duration;

pub(super) use client_impl::{ChangeConnection, ConnectionPool};

/// The longest duration of a command.
pub(super) const DEADLINE: Duration = Duration::from_millis(500);

mod client_impl {
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use picktools_net::{RedisConnection, RedisLimits};
    use redis::{ConnectionInfo, ErrorKind, IntoConnectionInfo, ServerErrorKind, Value, cmd};

    use crate::lock::lock;
    use crate::shared_store::fault::{StoreFailure, StoreFault};
    use crate::shared_store::link::DEADLINE;
    use crate::shared_store::reply::StoreReply;

    /// The most bytes of an answer.
    const MAX_ANSWER_BYTES: usize = 16 << 20;
    /// The most idle connections.
    const MAX_IDLE: usize = 16;

    pub(in super::super) struct ConnectionPool {
        info: ConnectionInfo,
        idle: Mutex<Vec<RedisConnection>>,
    }

    impl ConnectionPool {
        /// Opens a store by its address. Returns the address without the password, for messages.
        pub(in super::super) fn open(url: &str) -> Result<(Self, String), String> {
            // The text may contain a password, so no message repeats it.
            let hint = "invalid --store address; use redis://[USER:PASSWORD@]HOST[:PORT]\
                        [/DATABASE], or rediss:// for TLS";
            if !url.starts_with("redis://") && !url.starts_with("rediss://") {
                return Err(hint.to_owned());
            }
            let info = url.into_connection_info().map_err(|_| hint.to_owned())?;
            let address = format!("{}/{}", info.addr(), info.redis_settings().db());
            // The program that uses the library may have set a TLS provider already.
            picktools_net::install_tls_backend();
            Ok((
                Self {
                    info,
                    idle: Mutex::default(),
                },
                address,
            ))
        }

        pub(in super::super) fn execute(
            &self,
            command: &[&[u8]],
        ) -> Result<StoreReply, StoreFailure> {
            let deadline = Instant::now() + DEADLINE;
            let pooled =
                std::iter::from_fn(|| lock(&self.idle).pop()).find(RedisConnection::is_usable);
            let is_pooled = pooled.is_some();
            let connection = pooled.map_or_else(|| self.connect(deadline), Ok)?;
            match send(connection, command, deadline) {
                Ok((connection, answer)) => {
                    let mut idle = lock(&self.idle);
                    if idle.len() < MAX_IDLE {
                        idle.push(connection);
                    }
                    answer
                }
                // A pooled connection that the server closed since its last use says nothing about
                // the store. The command may have run already; every command is safe to repeat.
                Err((_, true)) if is_pooled => {
                    lock(&self.idle).clear();
                    match send(self.connect(deadline)?, command, deadline) {
                        Ok((_, answer)) => answer,
                        Err((failure, _)) => Err(failure),
                    }
                }
                Err((failure, _)) => {
                    lock(&self.idle).clear();
                    Err(failure)
                }
            }
        }

        fn connect(&self, deadline: Instant) -> Result<RedisConnection, StoreFailure> {
            RedisConnection::open(&self.info, limits_until(deadline))
                .map_err(|error| failure(&error))
        }
    }

    /// A connection that waits for entries of a stream.
    pub(in super::super) struct ChangeConnection {
        /// `None` after a failure.
        connection: Option<RedisConnection>,
        key: String,
        /// The id of the last entry that was seen.
        last: Vec<u8>,
    }

    impl ConnectionPool {
        /// Opens a connection that waits for later entries of a stream.
        pub(in super::super) fn connect_for_changes(
            &self,
            key: &str,
        ) -> Result<ChangeConnection, StoreFailure> {
            let connection = self.connect(Instant::now() + DEADLINE)?;
            let mut changes = ChangeConnection {
                connection: Some(connection),
                key: key.to_owned(),
                last: b"0-0".to_vec(),
            };
            let command: [&[u8]; 6] = [b"XREVRANGE", key.as_bytes(), b"+", b"-", b"COUNT", b"1"];
            let entries = changes.send(&command, DEADLINE)?;
            changes.remember_last(&entries);
            if entries.parts().is_empty() {
                changes.create_stream()?;
            }
            Ok(changes)
        }
    }

    impl ChangeConnection {
        /// Waits for an entry. Returns `false` if there was none in this time.
        pub(in super::super) fn wait(&mut self, time: Duration) -> Result<bool, StoreFailure> {
            let (key, last) = (self.key.clone(), self.last.clone());
            let block = time.as_millis().to_string();
            let command: [&[u8]; 6] = [
                b"XREAD",
                b"BLOCK",
                block.as_bytes(),
                b"STREAMS",
                key.as_bytes(),
                &last,
            ];
            let answer = self.send(&command, time + DEADLINE)?;
            // The answer names the stream and its entries.
            let [stream] = answer.parts() else {
                return Ok(false);
            };
            if let [_, entries] = stream.parts() {
                self.remember_last(entries);
            }
            Ok(true)
        }

        /// Creates the stream. A user without the permission waits for one that others create.
        fn create_stream(&mut self) -> Result<(), StoreFailure> {
            let key = self.key.clone();
            let command: [&[u8]; 5] = [b"XADD", key.as_bytes(), b"*", b"changed", b"begin"];
            match self.send(&command, DEADLINE) {
                Ok(StoreReply::Text(id)) => self.last = id,
                Err(failure) if failure.fault == StoreFault::Unreachable => return Err(failure),
                _ => {}
            }
            Ok(())
        }

        fn send(&mut self, command: &[&[u8]], time: Duration) -> Result<StoreReply, StoreFailure> {
            let connection = self.connection.take();
            let connection = connection.ok_or_else(StoreFailure::timed_out)?;
            match send(connection, command, Instant::now() + time) {
                Ok((connection, answer)) => {
                    self.connection = Some(connection);
                    answer
                }
                Err((failure, _)) => Err(failure),
            }
        }

        /// Remembers the id of the newest of these entries.
        fn remember_last(&mut self, entries: &StoreReply) {
            let newest = entries.parts().last();
            let id = newest.and_then(|entry| entry.parts().first());
            if let Some(StoreReply::Text(id)) = id {
                self.last.clone_from(id);
            }
        }
    }

    fn limits_until(deadline: Instant) -> RedisLimits {
        RedisLimits {
            time: deadline.saturating_duration_since(Instant::now()),
            bytes: MAX_ANSWER_BYTES,
        }
    }

    /// The connection, if it is still usable, with the reply. Otherwise the failure, and `true` if
    /// the server had closed the connection.
    type SendResult =
        Result<(RedisConnection, Result<StoreReply, StoreFailure>), (StoreFailure, bool)>;

    fn send(mut connection: RedisConnection, command: &[&[u8]], deadline: Instant) -> SendResult {
        connection.begin(limits_until(deadline));
        let Some((name, arguments)) = command.split_first() else {
            return Err((StoreFailure::timed_out(), false));
        };
        let mut redis_command = cmd(&String::from_utf8_lossy(name));
        for argument in arguments {
            redis_command.arg(*argument);
        }
        match redis_command.query::<Value>(&mut connection) {
            Ok(value) => Ok((connection, answer(value))),
            Err(error) => {
                let failure = failure(&error);
                match error.is_io_error() || failure.fault == StoreFault::Unreachable {
                    true => Err((
                        failure,
                        error.is_connection_dropped() && !error.is_timeout(),
                    )),
                    false => Ok((connection, Err(failure))),
                }
            }
        }
    }

    fn answer(value: Value) -> Result<StoreReply, StoreFailure> {
        Ok(match value {
            Value::Nil => StoreReply::Nothing,
            Value::Int(number) => StoreReply::Number(number),
            Value::BulkString(bytes) => StoreReply::Text(bytes),
            Value::SimpleString(text) => StoreReply::Text(text.into_bytes()),
            Value::Okay => StoreReply::Text(b"OK".to_vec()),
            Value::Array(parts) | Value::Set(parts) => {
                StoreReply::List(parts.into_iter().map(answer).collect::<Result<_, _>>()?)
            }
            _ => {
                return Err(StoreFailure::new(
                    StoreFault::Foreign,
                    "unexpected reply type",
                ));
            }
        })
    }

    /// Maps an error of the client. The kinds used here contain no address and no password.
    fn failure(error: &redis::RedisError) -> StoreFailure {
        let fault = match error.kind() {
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => StoreFault::Unreachable,
            // The server is starting, or is a read-only replica. The next attempt may reach the
            // right server.
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ReadOnly,
            ) => StoreFault::Unreachable,
            _ => match error.code() {
                Some("OOM") => StoreFault::Full,
                Some("WRONGTYPE") => StoreFault::Foreign,
                Some("BUSY") => StoreFault::Unreachable,
                _ if error.to_string().contains("WRONGTYPE") => StoreFault::Foreign,
                _ if error.to_string().contains("OOM") => StoreFault::Full,
                _ => StoreFault::Refused,
            },
        };
        let message = match error.is_timeout() {
            true => "no reply in time".to_owned(),
            false => error.to_string(),
        };
        StoreFailure::new(fault, message)
    }
}
