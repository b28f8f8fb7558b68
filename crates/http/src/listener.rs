//! A listener that can be closed while the connections that it accepted stay open.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use axum_server::{AddrListener, Address};
use picktools_state::lock;
use tokio::net::{TcpListener, TcpStream};

/// The address of a [`ClosableListener`] or of its client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerAddress(SocketAddr);

impl Address for ListenerAddress {
    type Stream = TcpStream;
    type Listener = ClosableListener;
}

/// A listener whose clones share one socket, `None` once it is closed.
#[derive(Debug, Clone)]
pub(crate) struct ClosableListener(Arc<Mutex<Option<TcpListener>>>);

impl ClosableListener {
    fn new(listener: TcpListener) -> Self {
        Self(Arc::new(Mutex::new(Some(listener))))
    }

    /// Listens on a socket that does not block.
    pub(crate) fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        TcpListener::from_std(listener).map(Self::new)
    }

    /// Refuses new connections from now on.
    pub(crate) fn close(&self) {
        drop(lock(&self.0).take());
    }
}

impl AddrListener<TcpStream, ListenerAddress> for ClosableListener {
    async fn bind_to(ListenerAddress(address): ListenerAddress) -> io::Result<Self> {
        TcpListener::bind(address).await.map(Self::new)
    }

    /// Accepts a connection. A closed listener accepts none and reports no error.
    async fn accept_stream(&self) -> io::Result<(TcpStream, ListenerAddress)> {
        let accept = poll_fn(|cx| match &*lock(&self.0) {
            Some(listener) => listener.poll_accept(cx),
            None => Poll::Pending,
        });
        let (stream, client) = accept.await?;
        Ok((stream, ListenerAddress(client)))
    }

    fn get_local_addr(&self) -> io::Result<ListenerAddress> {
        match &*lock(&self.0) {
            Some(listener) => listener.local_addr().map(ListenerAddress),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
