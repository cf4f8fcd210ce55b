//! Connections: how many there may be, how long a client may take to send a request, and how they are closed.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::http::transport::auth::AccessControl;
use crate::http::transport::connections::ConnectionSlots;
use crate::http::transport::write_timeout::WriteTimeout;
use crate::{Shutdown, limits};

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many may be open at once.
    pub connections: usize,
    /// How many of them one address may have.
    pub of_address: usize,
    /// How long a client may take to send the head of a request, counted from when it could send it, and to read a response.
    pub client_timeout: Duration,
}

/// Serves requests until shutdown, then lets the open ones finish within a limit.
pub async fn serve(listener: TcpListener, service: AccessControl, bounds: Bounds, shutdown: Shutdown) {
    let graceful = GracefulShutdown::new();
    let slots = ConnectionSlots::new(bounds.connections, bounds.of_address);
    let mut acceptor = Acceptor { listener, warned_at: None, refusals: Arc::new(Semaphore::new(limits::REFUSALS)) };
    // The first head has less time than later ones: until it arrives, the client has not shown that it will send anything.
    let first_head = bounds.client_timeout.min(limits::FIRST_HEAD);
    loop {
        let next = async {
            let (stream, address) = acceptor.accept(&slots).await;
            (stream, slots.take(address.ip()).await)
        };
        let (stream, slot) = tokio::select! {
            next = next => next,
            () = shutdown.requested() => break,
        };
        let Ok(slot) = slot else {
            acceptor.refuse(stream);
            continue;
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.client_timeout)
            .serve_connection(TokioIo::new(WriteTimeout::new(stream, bounds.client_timeout)), service.of(&slot));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        debug!("a connection broke: {error}");
                    }
                }
                () = slot.closing(first_head) => debug!("a connection without a request was closed"),
            }
        });
    }
    drop(acceptor);
    if timeout(limits::HTTP_GRACE, graceful.shutdown()).await.is_err() {
        warn!("some requests were still open after {} s", limits::HTTP_GRACE.as_secs());
    }
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    /// When it was last logged that none can be accepted.
    warned_at: Option<Instant>,
    /// Limits how many connections are refused with a response at the same time.
    refusals: Arc<Semaphore>,
}

impl Acceptor {
    async fn accept(&mut self, slots: &ConnectionSlots) -> (TcpStream, std::net::SocketAddr) {
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

    /// Responds that the address has too many connections. If too many must be refused at once, some are closed without a response.
    fn refuse(&self, mut stream: TcpStream) {
        let Ok(turn) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let refused = async {
                stream.write_all(too_many().as_bytes()).await?;
                stream.shutdown().await?;
                // If it were closed with unread data, it would break before the client reads the response.
                let mut unread = [0; 1024];
                while stream.read(&mut unread).await? > 0 {}
                io::Result::Ok(())
            };
            let _ = timeout(limits::REFUSAL_TIME, refused).await;
            drop(turn);
        });
    }
}

/// Whether the error concerns only the connection that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The whole response, because no request was read that a route could handle.
fn too_many() -> String {
    let body = serde_json::json!({
        "error": "this address has as many connections as one may have, and uses them; close some, or start the server with a larger \
                  --max-connections-per-address",
        "code": "OVERLOADED",
        "retry_after_ms": 1000,
    });
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}
