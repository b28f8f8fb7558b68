//! The connections of the HTTP server: their number in all and per address.
//!
//! If there are too many, a new connection takes the place of one without a request under way. If
//! every connection is in use, the new one comes from a reserve, which answers only the paths about
//! the gateway itself.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum_server::accept::Accept;
use futures_util::future::{Ready, ready};
use picktools_gateway::settings::HttpSettings;
use picktools_state::lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::guarded_body;
use crate::problem::Problem;

/// The most connections of the reserve.
const RESERVE: usize = 8;
/// The fewest descriptors that are kept for servers, files and the reserve.
const MIN_FREE_DESCRIPTORS: u64 = 64;
/// The paths that a connection of the reserve answers.
const RESERVE_PATHS: [&str; 3] = ["/health", "/ready", "/metrics"];

/// The limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    total: usize,
    per_address: usize,
}

impl ConnectionLimits {
    /// Returns the limits of the settings, lowered to the descriptors that the process may open.
    pub(crate) fn new(settings: &HttpSettings) -> Self {
        let total = match descriptor_limit() {
            Some(limit) => settings.max_connections.min(connections_for(limit)),
            None => settings.max_connections,
        };
        Self {
            total,
            per_address: settings.max_connections_per_address,
        }
    }
}

/// Returns the number of connections that leave enough of these descriptors for other purposes.
fn connections_for(descriptors: u64) -> usize {
    let kept = MIN_FREE_DESCRIPTORS.max(descriptors / 4);
    usize::try_from(descriptors.saturating_sub(kept))
        .unwrap_or(usize::MAX)
        .max(1)
}

/// Returns the number of descriptors that the process may open, if it is limited.
#[cfg(unix)]
fn descriptor_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn descriptor_limit() -> Option<u64> {
    None
}

/// The open connections of a server.
pub(crate) struct Connections {
    limits: ConnectionLimits,
    table: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    /// The open connections by number. A smaller number is an older connection.
    open: HashMap<u64, ConnectionRecord>,
}

/// A connection. Removing its record closes it.
struct ConnectionRecord {
    address: IpAddr,
    pool: Pool,
    /// The number of requests under way.
    active: usize,
    /// The number of requests so far.
    requests: u64,
    /// The time at which the last response ended.
    answered: Option<Instant>,
    _close: oneshot::Sender<()>,
}

/// The part of the connections to which one belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    Regular,
    Reserve,
}

/// An accepted connection.
struct AcceptedConnection {
    ticket: Arc<ConnectionTicket>,
    closed: oneshot::Receiver<()>,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            table: Mutex::default(),
        })
    }

    /// Accepts a connection from an address, or refuses it if even the reserve is in use.
    fn accept(self: &Arc<Self>, address: IpAddr) -> Option<AcceptedConnection> {
        let mut table = lock(&self.table);
        let pool = table.make_room(address, self.limits)?;
        let number = table.next;
        table.next += 1;
        let (close, closed) = oneshot::channel();
        let record = ConnectionRecord {
            address,
            pool,
            active: 0,
            requests: 0,
            answered: None,
            _close: close,
        };
        drop(table.open.insert(number, record));
        let ticket = Arc::new(ConnectionTicket {
            connections: Arc::clone(self),
            number,
            pool,
        });
        Some(AcceptedConnection { ticket, closed })
    }

    /// Returns `true` if an open connection has a request under way, or had one within a time.
    pub(crate) fn are_in_use(&self, time: Duration) -> bool {
        let is_in_use = |record: &ConnectionRecord| {
            let was_used = |answered: Instant| answered.elapsed() < time;
            record.active > 0 || record.answered.is_some_and(was_used)
        };
        lock(&self.table).open.values().any(is_in_use)
    }
}

impl ConnectionTable {
    /// Returns the pool for a new connection. If necessary, closes one that has no request.
    fn make_room(&mut self, address: IpAddr, limits: ConnectionLimits) -> Option<Pool> {
        let regular = |record: &&ConnectionRecord| record.pool == Pool::Regular;
        let total = self.open.values().filter(regular).count();
        let of_address =
            |record: &ConnectionRecord| record.pool == Pool::Regular && record.address == address;
        let same = self.open.values().filter(|record| of_address(record));
        let has_room = if same.count() >= limits.per_address {
            // An address that has too many connections loses one of its own.
            self.close_idle(of_address)
        } else if total >= limits.total {
            let crowded = self.most_crowded_address();
            self.close_idle(|record| {
                record.pool == Pool::Regular && Some(record.address) == crowded
            }) || self.close_idle(|record| record.pool == Pool::Regular)
        } else {
            true
        };
        if has_room {
            return Some(Pool::Regular);
        }
        let in_reserve = |record: &ConnectionRecord| record.pool == Pool::Reserve;
        let reserve = self.open.values().filter(|record| in_reserve(record));
        let has_room = reserve.count() < RESERVE || self.close_idle(in_reserve);
        has_room.then_some(Pool::Reserve)
    }

    /// Returns the address with the most idle connections.
    fn most_crowded_address(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let records = self.open.values();
        for record in records.filter(|record| record.pool == Pool::Regular && record.active == 0) {
            *counts.entry(record.address).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(address, _)| address)
    }

    /// Closes one of these connections that has no request under way. Prefers one that never sent a
    /// request, and then the oldest.
    fn close_idle(&mut self, is_meant: impl Fn(&ConnectionRecord) -> bool) -> bool {
        let idle = self
            .open
            .iter()
            .filter(|(_, record)| record.active == 0 && is_meant(record));
        let oldest = idle.min_by_key(|(number, record)| (record.requests > 0, **number));
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        self.open.remove(&number).is_some()
    }
}

/// The place of a connection among the open ones, which is free again when this value is dropped.
pub(crate) struct ConnectionTicket {
    connections: Arc<Connections>,
    number: u64,
    pool: Pool,
}

impl ConnectionTicket {
    /// Counts a request as under way until the returned value is dropped.
    fn begin_request(self: &Arc<Self>) -> RequestUnderWay {
        if let Some(record) = lock(&self.connections.table).open.get_mut(&self.number) {
            record.active += 1;
            record.requests += 1;
        }
        RequestUnderWay(Arc::clone(self))
    }
}

impl Drop for ConnectionTicket {
    fn drop(&mut self) {
        drop(lock(&self.connections.table).open.remove(&self.number));
    }
}

/// A request under way on a connection.
struct RequestUnderWay(Arc<ConnectionTicket>);

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        let Self(ticket) = self;
        if let Some(record) = lock(&ticket.connections.table).open.get_mut(&ticket.number) {
            record.active = record.active.saturating_sub(1);
            record.answered = Some(Instant::now());
        }
    }
}

/// Counts a request as under way on its connection. A connection of the reserve gets answers about
/// the gateway itself only.
pub(crate) async fn count_request(
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let Some(ticket) = request.extensions().get::<Arc<ConnectionTicket>>().cloned() else {
        return next(request).await;
    };
    let under_way = ticket.begin_request();
    let mut response = match ticket.pool {
        Pool::Reserve if !RESERVE_PATHS.contains(&request.uri().path()) => {
            let message = "too many connections; close some, or raise http.max_connections or \
                           http.max_connections_per_address in the settings";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Problem::new(status, "too_many_connections", message)
                .retry_after(Duration::from_secs(1))
                .into_response()
        }
        _ => next(request).await,
    };
    if ticket.pool == Pool::Reserve {
        let close = HeaderValue::from_static("close");
        drop(response.headers_mut().insert(header::CONNECTION, close));
    }
    guarded_body::hold(response, under_way)
}

/// An acceptor that limits the connections.
#[derive(Clone)]
pub(crate) struct LimitedAcceptor(pub(crate) Arc<Connections>);

impl<S> Accept<TcpStream, S> for LimitedAcceptor {
    type Stream = LimitedStream;
    type Service = TicketedService<S>;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accept = || {
            let address = stream.peer_addr()?.ip().to_canonical();
            let refused = || io::Error::other("too many connections");
            let accepted = self.0.accept(address).ok_or_else(refused)?;
            stream.set_nodelay(true)?;
            Ok(accepted)
        };
        let accepted = accept().map(|AcceptedConnection { ticket, closed }| {
            let service = TicketedService {
                service,
                ticket: Arc::clone(&ticket),
            };
            let stream = LimitedStream {
                stream,
                closed: Some(closed),
                _ticket: ticket,
            };
            (stream, service)
        });
        ready(accepted)
    }
}

/// A service that adds the [`ConnectionTicket`] of its connection to requests.
#[derive(Clone)]
pub(crate) struct TicketedService<S> {
    service: S,
    ticket: Arc<ConnectionTicket>,
}

impl<B, S: tower_service::Service<axum::http::Request<B>>>
    tower_service::Service<axum::http::Request<B>> for TicketedService<S>
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: axum::http::Request<B>) -> S::Future {
        drop(request.extensions_mut().insert(Arc::clone(&self.ticket)));
        self.service.call(request)
    }
}

/// A stream that ends when its connection is closed in favour of another.
pub(crate) struct LimitedStream {
    stream: TcpStream,
    /// The signal to close the connection; `None` once it came.
    closed: Option<oneshot::Receiver<()>>,
    _ticket: Arc<ConnectionTicket>,
}

impl LimitedStream {
    fn check_open(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(closed) = &mut self.closed {
            if Pin::new(closed).poll(cx).is_pending() {
                return Ok(());
            }
            self.closed = None;
        }
        let message = "closed in favour of another connection";
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, message))
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn connections(total: usize, per_address: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { total, per_address })
    }

    fn is_closed(connection: &mut AcceptedConnection) -> bool {
        connection.closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn oldest_silent_connection_gives_its_place() {
        let connections = connections(3, 10);
        let mut open: Vec<_> = (0..3).filter_map(|_| connections.accept(FIRST)).collect();
        drop(open[0].ticket.begin_request());
        let busy = open[1].ticket.begin_request();
        let new = connections.accept(FIRST).expect("a place");
        assert_eq!(new.ticket.pool, Pool::Regular);
        let closed: Vec<bool> = open.iter_mut().map(is_closed).collect();
        assert_eq!(closed, [false, false, true], "it never sent a request");
        drop(busy);
    }

    #[test]
    fn crowded_address_loses_connections_to_others() {
        let connections = connections(6, 4);
        let mut second = connections.accept(SECOND).expect("a place");
        let mut open: Vec<_> = (0..5).filter_map(|_| connections.accept(FIRST)).collect();
        let closed: Vec<bool> = open.iter_mut().map(is_closed).collect();
        assert_eq!(closed, [true, false, false, false, false]);
        let mut others: Vec<_> = (0..2).filter_map(|_| connections.accept(SECOND)).collect();
        assert_eq!(others.len(), 2);
        let closed: Vec<bool> = open.iter_mut().map(is_closed).collect();
        assert_eq!(closed, [true, true, false, false, false]);
        assert!(!is_closed(&mut second) && !others.iter_mut().any(is_closed));
    }

    #[test]
    fn busy_connections_leave_a_bounded_reserve() {
        let connections = connections(2, 10);
        let open: Vec<_> = (0..2).filter_map(|_| connections.accept(FIRST)).collect();
        let busy: Vec<_> = open
            .iter()
            .map(|open| open.ticket.begin_request())
            .collect();
        let mut reserve: Vec<_> = (0..RESERVE)
            .filter_map(|_| connections.accept(SECOND))
            .collect();
        assert!(reserve.iter().all(|open| open.ticket.pool == Pool::Reserve));
        let next = connections
            .accept(FIRST)
            .expect("an idle place of the reserve");
        assert!(is_closed(&mut reserve[0]));
        let held: Vec<_> = reserve[1..]
            .iter()
            .chain([&next])
            .map(|open| open.ticket.begin_request())
            .collect();
        assert!(connections.accept(FIRST).is_none(), "all are in use");
        drop((busy, held, open, reserve, next));
        let table = lock(&connections.table);
        assert!(table.open.is_empty(), "all places are free again");
    }

    #[test]
    fn connection_is_in_use_for_a_time_after_its_answer() {
        let connections = connections(3, 10);
        let open: Vec<_> = (0..2).filter_map(|_| connections.accept(FIRST)).collect();
        assert!(!connections.are_in_use(Duration::MAX), "they are silent");
        let request = open[0].ticket.begin_request();
        assert!(connections.are_in_use(Duration::ZERO), "it is under way");
        drop(request);
        assert!(connections.are_in_use(Duration::MAX), "it was answered");
        assert!(!connections.are_in_use(Duration::ZERO), "it is idle");
        drop(open);
        assert!(!connections.are_in_use(Duration::MAX), "they are closed");
    }

    #[test]
    fn descriptors_are_kept_for_other_purposes() {
        assert_eq!(connections_for(128), 64);
        assert_eq!(connections_for(1_024), 768);
        assert_eq!(connections_for(10), 1);
    }
}
