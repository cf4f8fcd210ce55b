//! The wish to stop, as seen by everybody who has to.

use tokio::sync::watch;

/// Told once, seen by all clones.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// Whoever holds this can stop the server. Dropping it stops the server too.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (Trigger, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Trigger(sender), Shutdown(receiver))
    }

    /// Returns when the server is to stop.
    pub async fn requested(&self) {
        // An error means that the trigger is gone, and nobody else could ever stop us.
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

/// Returns at the first SIGINT or SIGTERM.
#[cfg(unix)]
pub(crate) async fn signalled() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    })
}

#[cfg(not(unix))]
pub(crate) async fn signalled() -> std::io::Result<&'static str> {
    tokio::signal::ctrl_c().await.map(|()| "Ctrl-C")
}
