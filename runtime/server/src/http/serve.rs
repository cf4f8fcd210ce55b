//! Connections: how many there may be, how long a client may take to say what it wants, and how they end.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::access::Door;
use super::patient::Patient;
use crate::{Shutdown, limits};

/// What connections may come to.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many there are at once.
    pub connections: usize,
    /// How long a client may take for the head of a request, counted from when it could send it, and to take what it is sent.
    pub client_timeout: Duration,
}

/// Answers requests until told to stop, then lets the open ones finish, but not for ever.
pub async fn serve(listener: TcpListener, door: Door, bounds: Bounds, shutdown: Shutdown) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
    loop {
        // No place, no accept: the client waits in the operating system's queue.
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = shutdown.requested() => break,
        };
        let Some((stream, place)) = accepted else { continue };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.client_timeout)
            .serve_connection(TokioIo::new(Patient::new(stream, bounds.client_timeout)), door.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!("a connection broke: {error}");
            }
            drop(place);
        });
    }
    drop(listener);
    if timeout(limits::HTTP_GRACE, graceful.shutdown()).await.is_err() {
        warn!("some requests were still open after {} s", limits::HTTP_GRACE.as_secs());
    }
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // An answer is one write; waiting to fill a packet would only delay it.
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            // Most likely out of file descriptors: that passes when connections close.
            warn!("a connection was not taken: {error}");
            sleep(limits::STORE_RETRY).await;
            None
        }
    }
}
