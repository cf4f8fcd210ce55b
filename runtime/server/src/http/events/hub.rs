//! One receiver for the whole process hands the store's events on to every watcher.
//!
//! It keeps the latest events in memory, because progress is told before it is on disk: who comes in between would find it
//! neither stored nor live. It renders nothing; the first watcher that wants an event does, and the others share the bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OnceCell, broadcast};
use tracing::warn;
use windlass_store::{EventRecord, Store};

use super::line;
use crate::{Shutdown, limits};

/// An event on its way to watchers.
pub struct Told {
    pub record: Arc<EventRecord>,
    line: OnceCell<Bytes>,
}

impl Told {
    pub fn new(record: Arc<EventRecord>) -> Told {
        Told { record, line: OnceCell::new() }
    }

    /// The event as it goes over the wire, made once for all watchers.
    pub async fn line(&self, store: &Store) -> Bytes {
        self.line.get_or_init(|| line::of_event(store, &self.record)).await.clone()
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// Oldest first. Held while an event is told, so that whoever joins has it either here or live, and never twice.
    recent: Mutex<VecDeque<Arc<Told>>>,
    live: broadcast::Sender<Arc<Told>>,
}

impl Hub {
    /// Begins to hand events on, until the server stops.
    pub fn start(store: Store, shutdown: Shutdown) -> Hub {
        let (live, _) = broadcast::channel(limits::WATCHER_LAG);
        let events = store.watch();
        let hub = Hub { inner: Arc::new(Inner { store, recent: Mutex::default(), live }) };
        tokio::spawn(hub.clone().run(events, shutdown));
        hub
    }

    async fn run(self, mut events: broadcast::Receiver<Arc<EventRecord>>, shutdown: Shutdown) {
        let mut last = 0;
        loop {
            let received = tokio::select! {
                received = events.recv() => received,
                () = shutdown.requested() => return,
            };
            match received {
                Ok(record) => {
                    last = record.seq;
                    self.tell(record);
                }
                Err(RecvError::Lagged(missed)) => {
                    warn!("{missed} events came too fast to be handed on; they are read from the disk");
                    last = self.catch_up(last).await;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// What is in memory, and everything from now on.
    pub fn join(&self) -> (Vec<Arc<Told>>, broadcast::Receiver<Arc<Told>>) {
        let recent = self.recent();
        (recent.iter().cloned().collect(), self.inner.live.subscribe())
    }

    /// Everything from now on.
    pub fn live(&self) -> broadcast::Receiver<Arc<Told>> {
        self.inner.live.subscribe()
    }

    /// How many watch.
    pub fn watchers(&self) -> usize {
        self.inner.live.receiver_count()
    }

    fn tell(&self, record: Arc<EventRecord>) {
        let told = Arc::new(Told::new(record));
        let mut recent = self.recent();
        // After catching up, the channel may hold events that have been told already.
        if recent.back().is_some_and(|newest| newest.record.seq >= told.record.seq) {
            return;
        }
        if recent.len() >= limits::RECENT_EVENTS {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&told));
        // Nobody watching is no reason to stop.
        let _ = self.inner.live.send(told);
    }

    async fn catch_up(&self, mut last: u64) -> u64 {
        loop {
            match self.inner.store.events_after(last, limits::EVENT_PAGE).await {
                Ok(page) if page.is_empty() => return last,
                Ok(page) => {
                    for record in page {
                        last = record.seq;
                        self.tell(Arc::new(record));
                    }
                }
                Err(error) => {
                    warn!("events that came too fast cannot be read: {error}");
                    return last;
                }
            }
        }
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Arc<Told>>> {
        // Entries are pushed and popped whole, so a poisoned lock holds nothing half done.
        self.inner.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
