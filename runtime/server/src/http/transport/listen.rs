//! Connections: how many there may be, how they are encrypted, how long a client may take to send a request, and how
//! they are closed.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::http::transport::auth::AccessControl;
use crate::http::transport::connections::ConnectionSlots;
use crate::http::transport::peer::Peer;
use crate::http::transport::refusal::{self, Refusals};
use crate::http::transport::tls::Tls;
use crate::http::transport::write_timeout::WriteTimeout;
use crate::{Shutdown, limits};

/// What the server listens on.
pub struct Door {
    pub listener: TcpListener,
    /// Without it, connections are not encrypted.
    pub tls: Option<Tls>,
    /// Connections come from a proxy, whose headers about its clients are true.
    pub behind_proxy: bool,
    pub slots: ConnectionSlots,
}

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many may be open at once.
    pub connections: usize,
    /// How many of them one address may have.
    pub of_address: usize,
    /// How long a client may take to send the head of a request, counted from when it could send it, and to read a
    /// response.
    pub client_timeout: Duration,
}

/// Serves requests until shutdown, then lets the open ones finish within a limit.
pub async fn serve(door: Door, service: AccessControl, bounds: Bounds, shutdown: Shutdown) {
    let Door { listener, tls, behind_proxy, slots } = door;
    let graceful = GracefulShutdown::new();
    let refusals = Refusals::new();
    let mut acceptor = Acceptor { listener, warned_at: None };
    loop {
        let next = async {
            let (stream, address) = acceptor.accept(&slots).await;
            let address = address.ip();
            (stream, address, slots.take(address).await)
        };
        let (stream, address, slot) = tokio::select! {
            next = next => next,
            () = shutdown.requested() => break,
        };
        let tls = tls.as_ref().map(Tls::acceptor);
        let Ok(slot) = slot else {
            refusals.too_many(stream, tls);
            continue;
        };
        let peer = Peer::new(slot, address, tls.is_some(), behind_proxy);
        let conversation = Conversation {
            service: service.of(peer.clone()),
            bounds,
            watcher: graceful.watcher(),
            shutdown: shutdown.clone(),
        };
        tokio::spawn(conversation.hold(stream, tls, peer));
    }
    drop(acceptor);
    if timeout(limits::HTTP_GRACE, graceful.shutdown()).await.is_err() {
        warn!("some requests were still open after {} s", limits::HTTP_GRACE.as_secs());
    }
}

/// What one connection needs.
struct Conversation {
    service: AccessControl,
    bounds: Bounds,
    watcher: Watcher,
    shutdown: Shutdown,
}

impl Conversation {
    /// Answers requests until the connection ends or its slot is needed.
    async fn hold(self, stream: TcpStream, tls: Option<TlsAcceptor>, peer: Peer) {
        // The first head has less time than later ones, and TLS has to fit in: until the head arrives, the client has
        // not shown that it will send anything.
        let first_head = self.bounds.client_timeout.min(limits::FIRST_HEAD);
        tokio::select! {
            () = self.greet(stream, tls) => {}
            () = peer.slot.closing(first_head) => debug!("a connection without a request was closed"),
        }
    }

    async fn greet(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let write_timeout = self.bounds.client_timeout;
        let Some(tls) = tls else { return self.talk(WriteTimeout::new(stream, write_timeout)).await };
        if refusal::is_plain(&stream).await {
            return refusal::not_encrypted(stream).await;
        }
        let handshake = tls.accept(WriteTimeout::new(stream, write_timeout));
        tokio::select! {
            encrypted = handshake => match encrypted {
                Ok(stream) => self.talk(stream).await,
                Err(error) => debug!("a TLS handshake failed: {error}"),
            },
            () = self.shutdown.requested() => {}
        }
    }

    async fn talk(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.client_timeout)
            .serve_connection(TokioIo::new(stream), self.service);
        if let Err(error) = self.watcher.watch(connection).await {
            debug!("a connection broke: {error}");
        }
    }
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    /// When it was last logged that none can be accepted.
    warned_at: Option<Instant>,
}

impl Acceptor {
    async fn accept(&mut self, slots: &ConnectionSlots) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // A response is one write; waiting to fill a packet would only delay it.
                    let _ = stream.set_nodelay(true);
                    return (stream, address);
                }
                Err(error) if is_of_one_connection(&error) => {
                    debug!("a connection was closed before it was accepted: {error}")
                }
                Err(error) => {
                    let often = self.warned_at.is_some_and(|last| last.elapsed() < limits::ACCEPT_WARNING_EVERY);
                    if !often {
                        warn!("connections cannot be accepted: {error}");
                        self.warned_at = Some(Instant::now());
                    }
                    if Errno::from_io_error(&error).is_some_and(|errno| [Errno::MFILE, Errno::NFILE].contains(&errno)) {
                        slots.close_oldest();
                    }
                    // An immediate retry would fail the same way.
                    sleep(limits::ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Whether the error concerns only the connection that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
