//! The connections to a store. All that is known of its client is in this file.

pub(super) use with::Link;

mod with {
    use std::sync::Mutex;

    use redis::{Client, Connection, ErrorKind, IntoConnectionInfo, ServerErrorKind, Value, cmd};

    use crate::lock::lock;
    use crate::shared_store::fault::{Failure, Fault};
    use crate::shared_store::{Answer, DEADLINE};

    /// The most connections that wait for the next command.
    const MAX_IDLE: usize = 16;

    pub(in super::super) struct Link {
        client: Client,
        idle: Mutex<Vec<Connection>>,
    }

    impl Link {
        /// The store of an address, and how it is called in messages.
        pub(in super::super) fn open(url: &str) -> Result<(Self, String), String> {
            // What stands there may be a password, so the address itself is in no message.
            let wrong = "is named by redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS; --store is none of these";
            if !url.starts_with("redis://") && !url.starts_with("rediss://") {
                return Err(wrong.to_owned());
            }
            let info = url.into_connection_info().map_err(|_| wrong.to_owned())?;
            let address = format!("{}/{}", info.addr(), info.redis_settings().db());
            // The provider of the process may be set already, by whoever uses the library.
            picktools_net::install_tls_backend();
            let client = Client::open(info).map_err(|_| wrong.to_owned())?;
            Ok((
                Self {
                    client,
                    idle: Mutex::default(),
                },
                address,
            ))
        }

        pub(in super::super) fn ask(&self, command: &[&[u8]]) -> Result<Answer, Failure> {
            let kept = lock(&self.idle).pop();
            let is_kept = kept.is_some();
            let connection = kept.map_or_else(|| self.connect(), Ok)?;
            match send(connection, command) {
                Ok((connection, answer)) => {
                    let mut idle = lock(&self.idle);
                    if idle.len() < MAX_IDLE {
                        idle.push(connection);
                    }
                    answer
                }
                // A connection that was closed since its last use says nothing of the store. What
                // was sent on it may have been done: all that is asked is such that it may be asked
                // again.
                Err((_, true)) if is_kept => {
                    lock(&self.idle).clear();
                    send(self.connect()?, command)
                        .map(|(_, answer)| answer)
                        .unwrap_or_else(|(failure, _)| Err(failure))
                }
                Err((failure, _)) => {
                    lock(&self.idle).clear();
                    Err(failure)
                }
            }
        }

        fn connect(&self) -> Result<Connection, Failure> {
            let connection = self
                .client
                .get_connection_with_timeout(DEADLINE)
                .map_err(|error| failure(&error))?;
            let limited = connection
                .set_read_timeout(Some(DEADLINE))
                .and_then(|()| connection.set_write_timeout(Some(DEADLINE)));
            limited.map_err(|error| failure(&error))?;
            Ok(connection)
        }
    }

    /// The connection, where it is still good, with the answer; else why not, and whether it had
    /// been closed.
    type Sent = Result<(Connection, Result<Answer, Failure>), (Failure, bool)>;

    fn send(mut connection: Connection, command: &[&[u8]]) -> Sent {
        let Some((name, arguments)) = command.split_first() else {
            return Err((Failure::late(), false));
        };
        let mut asked = cmd(&String::from_utf8_lossy(name));
        for argument in arguments {
            asked.arg(*argument);
        }
        match asked.query::<Value>(&mut connection) {
            Ok(value) => Ok((connection, answer(value))),
            Err(error) => {
                let failure = failure(&error);
                match error.is_io_error() || failure.fault == Fault::Away {
                    true => Err((
                        failure,
                        error.is_connection_dropped() && !error.is_timeout(),
                    )),
                    false => Ok((connection, Err(failure))),
                }
            }
        }
    }

    fn answer(value: Value) -> Result<Answer, Failure> {
        Ok(match value {
            Value::Nil => Answer::Nothing,
            Value::Int(number) => Answer::Number(number),
            Value::BulkString(bytes) => Answer::Text(bytes),
            Value::SimpleString(text) => Answer::Text(text.into_bytes()),
            Value::Okay => Answer::Text(b"OK".to_vec()),
            Value::Array(parts) | Value::Set(parts) => {
                Answer::List(parts.into_iter().map(answer).collect::<Result<_, _>>()?)
            }
            _ => {
                return Err(Failure::new(
                    Fault::Foreign,
                    "it answers in a way that was not asked for",
                ));
            }
        })
    }

    /// What an error means here. Addresses and passwords are in none of them.
    fn failure(error: &redis::RedisError) -> Failure {
        let fault = match error.kind() {
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => Fault::Away,
            // It has just been started, or is a copy that takes nothing: another may be the right
            // one by the next attempt.
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ReadOnly,
            ) => Fault::Away,
            _ => match error.code() {
                Some("OOM") => Fault::Full,
                Some("WRONGTYPE") => Fault::Foreign,
                Some("BUSY") => Fault::Away,
                _ if error.to_string().contains("WRONGTYPE") => Fault::Foreign,
                _ if error.to_string().contains("OOM") => Fault::Full,
                _ => Fault::Refused,
            },
        };
        let message = match error.is_timeout() {
            true => "it did not answer in time".to_owned(),
            false => error.to_string(),
        };
        Failure::new(fault, message)
    }
}
