//! Connections: how many there may be, how long a client may take to say what it wants, and how they end.

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
use crate::http::transport::write_timeout::Patient;
use crate::{Shutdown, limits};

/// What connections may come to.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many there are at once.
    pub connections: usize,
    /// How many of them one address has.
    pub of_address: usize,
    /// How long a client may take for the head of a request, counted from when it could send it, and to take what it is sent.
    pub client_timeout: Duration,
}

/// Answers requests until told to stop, then lets the open ones finish, but not for ever.
pub async fn serve(listener: TcpListener, door: AccessControl, bounds: Bounds, shutdown: Shutdown) {
    let graceful = GracefulShutdown::new();
    let places = ConnectionSlots::new(bounds.connections, bounds.of_address);
    let mut door_step = Acceptor { listener, complained: None, refusals: Arc::new(Semaphore::new(limits::REFUSALS)) };
    // The first head has less time than the later ones: until it has come, nobody knows whether somebody is there.
    let first_head = bounds.client_timeout.min(limits::FIRST_HEAD);
    loop {
        let next = async {
            let (stream, address) = door_step.accept(&places).await;
            (stream, places.take(address.ip()).await)
        };
        let (stream, place) = tokio::select! {
            next = next => next,
            () = shutdown.requested() => break,
        };
        let Ok(place) = place else {
            door_step.turn_away(stream);
            continue;
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.client_timeout)
            .serve_connection(TokioIo::new(Patient::new(stream, bounds.client_timeout)), door.of(&place));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        debug!("a connection broke: {error}");
                    }
                }
                () = place.lost(first_head) => debug!("a connection without a request was closed"),
            }
        });
    }
    drop(door_step);
    if timeout(limits::HTTP_GRACE, graceful.shutdown()).await.is_err() {
        warn!("some requests were still open after {} s", limits::HTTP_GRACE.as_secs());
    }
}

/// Where connections arrive.
struct Acceptor {
    listener: TcpListener,
    /// When it was last said that none can be taken.
    complained: Option<Instant>,
    /// Connections that are being told that they are too many.
    refusals: Arc<Semaphore>,
}

impl Acceptor {
    async fn accept(&mut self, places: &ConnectionSlots) -> (TcpStream, std::net::SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // An answer is one write; waiting to fill a packet would only delay it.
                    let _ = stream.set_nodelay(true);
                    return (stream, address);
                }
                Err(error) if is_of_one_client(&error) => debug!("a connection was gone before it was taken: {error}"),
                Err(error) => {
                    let often = self.complained.is_some_and(|last| last.elapsed() < limits::ACCEPT_WARNING_EVERY);
                    if !often {
                        warn!("connections cannot be taken: {error}");
                        self.complained = Some(Instant::now());
                    }
                    if Errno::from_io_error(&error).is_some_and(|errno| [Errno::MFILE, Errno::NFILE].contains(&errno)) {
                        places.close_oldest();
                    }
                    // Asked at once, the system would say the same again.
                    sleep(limits::ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Says that the address has all its connections. When too many must be told, some find their connection closed.
    fn turn_away(&self, mut stream: TcpStream) {
        let Ok(turn) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let told = async {
                stream.write_all(too_many().as_bytes()).await?;
                stream.shutdown().await?;
                // Closed with something unread, the connection would break before the answer is taken.
                let mut unread = [0; 1024];
                while stream.read(&mut unread).await? > 0 {}
                io::Result::Ok(())
            };
            let _ = timeout(limits::REFUSAL_TIME, told).await;
            drop(turn);
        });
    }
}

/// Whether only the connection that was to be taken is broken.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The whole answer: no request was read that a route could answer.
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
