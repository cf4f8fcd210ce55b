//! The request to stop, for every part of the server that has to.

use tokio::sync::watch;

/// Requested once, seen by all clones.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// Stops the server when `stop` is called or this is dropped.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (Trigger, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Trigger(sender), Shutdown(receiver))
    }

    /// Returns when the server must stop.
    pub async fn requested(&self) {
        // An error means that the trigger was dropped, which is a request to stop.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

impl Trigger {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// Returns at the first SIGINT or SIGTERM. Signals are caught from the call on, not only from the first poll, before
/// which they would end the process.
#[cfg(unix)]
pub(crate) fn signalled() -> impl Future<Output = std::io::Result<&'static str>> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    let caught =
        signal(SignalKind::interrupt()).and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
    async move {
        let (mut interrupt, mut terminate) = caught?;
        Ok(tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        })
    }
}

#[cfg(not(unix))]
pub(crate) async fn signalled() -> std::io::Result<&'static str> {
    tokio::signal::ctrl_c().await.map(|()| "Ctrl-C")
}
