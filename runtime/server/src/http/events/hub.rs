//! One receiver for the whole process passes the store's events on to every watcher.
//!
//! It keeps the latest events in memory, because progress is published before it is on disk: a client that connects in
//! between would find it neither stored nor live. Events are rendered by the first watcher that needs them, and the
//! others share the bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OnceCell, broadcast};
use tracing::warn;
use windlass_core::{JobId, Time};
use windlass_store::{EventRecord, LogRecord, Store};

use crate::http::events::line;
use crate::{Shutdown, limits};

/// An event on its way to watchers.
pub struct HubEvent {
    pub record: Arc<EventRecord>,
    line: OnceCell<Bytes>,
}

impl HubEvent {
    pub fn new(record: Arc<EventRecord>) -> HubEvent {
        HubEvent { record, line: OnceCell::new() }
    }

    /// The event as text, rendered once for all watchers.
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
    /// Oldest first. Locked while an event is published, so that a new watcher gets it either from here or live, and
    /// never twice.
    recent: Mutex<VecDeque<Arc<HubEvent>>>,
    live: broadcast::Sender<Arc<HubEvent>>,
    /// Channels for watchers of one job, so that a busy server does not wake them for every other job's events.
    jobs: Mutex<Channels<HubEvent>>,
    /// Channels for those who follow a job's log.
    logs: Mutex<Channels<LogRecord>>,
}

/// One channel for each job that is watched.
type Channels<T> = HashMap<JobId, broadcast::Sender<Arc<T>>>;

/// What a new watcher of one job gets.
pub struct Joined {
    /// The number and the time of the oldest event in memory, of any job.
    pub oldest: Option<(u64, Time)>,
    /// The job's events in memory, oldest first.
    pub recent: Vec<Arc<HubEvent>>,
    pub live: broadcast::Receiver<Arc<HubEvent>>,
}

impl Hub {
    /// Starts passing events on, until the server stops.
    pub fn start(store: Store, shutdown: Shutdown) -> Hub {
        let (live, _) = broadcast::channel(limits::WATCHER_LAG);
        let (events, lines) = (store.watch(), store.watch_logs());
        let (recent, jobs, logs) = (Mutex::default(), Mutex::default(), Mutex::default());
        let hub = Hub { inner: Arc::new(Inner { store, recent, live, jobs, logs }) };
        tokio::spawn(hub.clone().run(events, shutdown.clone()));
        tokio::spawn(hub.clone().run_logs(lines, shutdown));
        hub
    }

    /// Passes log lines on. A follower that misses some notices the gap and reads them from disk.
    async fn run_logs(self, mut lines: broadcast::Receiver<Arc<LogRecord>>, shutdown: Shutdown) {
        loop {
            let received = tokio::select! {
                received = lines.recv() => received,
                () = shutdown.requested() => return,
            };
            match received {
                Ok(record) => send(&mut lock(&self.inner.logs), record.job, &record),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
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
                    self.publish(record);
                }
                Err(RecvError::Lagged(missed)) => {
                    warn!("{missed} events came too fast to be passed on; they are read from disk");
                    last = self.catch_up(last).await;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// The events in memory, and a receiver of all later ones.
    pub fn join(&self) -> (Vec<Arc<HubEvent>>, broadcast::Receiver<Arc<HubEvent>>) {
        let recent = self.recent();
        (recent.iter().cloned().collect(), self.inner.live.subscribe())
    }

    /// The events of one job in memory, and a receiver of all its later ones.
    pub fn join_job(&self, id: JobId) -> Joined {
        let recent = self.recent();
        let oldest = recent.front().map(|event| (event.record.seq, event.record.event.at));
        let of_job = recent.iter().filter(|event| event.record.event.job == id).cloned().collect();
        Joined { oldest, recent: of_job, live: self.watch_job(id) }
    }

    /// A receiver of all later events of one job.
    pub fn watch_job(&self, id: JobId) -> broadcast::Receiver<Arc<HubEvent>> {
        subscribe(&mut lock(&self.inner.jobs), id)
    }

    /// A receiver of all later lines of one job's log.
    pub fn watch_log(&self, id: JobId) -> broadcast::Receiver<Arc<LogRecord>> {
        subscribe(&mut lock(&self.inner.logs), id)
    }

    /// How many watchers there are.
    pub fn watchers(&self) -> usize {
        let of_jobs: usize = lock(&self.inner.jobs).values().map(broadcast::Sender::receiver_count).sum();
        self.inner.live.receiver_count() + of_jobs
    }

    fn publish(&self, record: Arc<EventRecord>) {
        let event = Arc::new(HubEvent::new(record));
        let mut recent = self.recent();
        // After catching up, the channel may hold events that have already been published.
        if recent.back().is_some_and(|newest| newest.record.seq >= event.record.seq) {
            return;
        }
        if recent.len() >= limits::RECENT_EVENTS {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&event));
        send(&mut lock(&self.inner.jobs), event.record.event.job, &event);
        // Sending fails when there are no watchers, which is not an error.
        let _ = self.inner.live.send(event);
    }

    async fn catch_up(&self, mut last: u64) -> u64 {
        loop {
            match self.inner.store.events_after(last, limits::EVENT_PAGE).await {
                Ok(page) if page.is_empty() => return last,
                Ok(page) => {
                    for (count, record) in page.into_iter().enumerate() {
                        last = record.seq;
                        self.publish(Arc::new(record));
                        // A page published all at once would leave watchers behind that share this thread.
                        if count % limits::EVENTS_PER_YIELD == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                }
                Err(error) => {
                    warn!("events that came too fast cannot be read: {error}");
                    return last;
                }
            }
        }
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Arc<HubEvent>>> {
        lock(&self.inner.recent)
    }
}

/// Subscribes to the channel of one job, which is created for its first watcher.
fn subscribe<T>(channels: &mut Channels<T>, id: JobId) -> broadcast::Receiver<Arc<T>> {
    // From time to time, channels without watchers are removed.
    if channels.len() >= limits::WATCHED_JOBS && !channels.contains_key(&id) {
        channels.retain(|_, sender| sender.receiver_count() > 0);
    }
    channels.entry(id).or_insert_with(|| broadcast::channel(limits::JOB_LAG).0).subscribe()
}

/// Sends to the watchers of one job, if there are any.
fn send<T>(channels: &mut Channels<T>, id: JobId, event: &Arc<T>) {
    let unwatched = channels.get(&id).is_some_and(|sender| sender.send(Arc::clone(event)).is_err());
    if unwatched {
        channels.remove(&id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are inserted and removed in one step, so a poisoned lock holds nothing inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
