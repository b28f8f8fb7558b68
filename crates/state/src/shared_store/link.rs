//! The connections to a store. Everything that depends on the Redis client is in this file.

use std::time::Duration;

pub(super) use client_impl::ConnectionPool;

/// The longest duration of a command.
pub(super) const DEADLINE: Duration = Duration::from_millis(500);

mod client_impl {
    use std::sync::Mutex;
    use std::time::Instant;

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
