//! Takes the snapshots, twice a second, while anybody watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::debug;
use windlass_core::{JobId, Namespace};

use crate::http::Api;
use crate::http::live::pulse::snapshot::{Reading, Snapshot};
use crate::limits;

/// The watchers. Cheap to clone.
#[derive(Clone, Default)]
pub struct Pulse(Arc<Mutex<Watchers>>);

#[derive(Default)]
struct Watchers {
    /// The namespaces that somebody watches. A sender without receivers is removed at the next snapshot.
    rooms: HashMap<Namespace, watch::Sender<Option<Arc<Snapshot>>>>,
    /// How many watch each job.
    jobs: HashMap<JobId, usize>,
    /// A task takes snapshots.
    running: bool,
    number: u64,
}

/// The place of one watcher.
pub struct Watching {
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    pub jobs: Vec<JobId>,
    pulse: Pulse,
}

impl Pulse {
    /// Joins the watchers of the caller's namespace. The first one of all starts the task that takes snapshots.
    pub fn watch(&self, api: &Api, jobs: Vec<JobId>) -> Watching {
        let mut watchers = self.lock();
        for id in &jobs {
            *watchers.jobs.entry(*id).or_default() += 1;
        }
        let namespace = api.caller.allowed.namespace.clone();
        let room = watchers.rooms.entry(namespace).or_insert_with(|| watch::channel(None).0);
        let mut snapshots = room.subscribe();
        // Jobs that are new to the server are not in the latest snapshot: this watcher begins with the next one.
        if jobs.is_empty() && snapshots.borrow().is_some() {
            snapshots.mark_changed();
        }
        if !std::mem::replace(&mut watchers.running, true) {
            tokio::spawn(self.clone().run(api.clone()));
        }
        Watching { snapshots, jobs, pulse: self.clone() }
    }

    /// How many watch now.
    pub fn watchers(&self) -> usize {
        self.lock().rooms.values().map(watch::Sender::receiver_count).sum()
    }

    async fn run(self, api: Api) {
        // The task belongs to nobody: it reads the whole store.
        let mut before: HashMap<Namespace, Arc<Snapshot>> = HashMap::new();
        let mut jobs = Arc::default();
        loop {
            let began = Instant::now();
            let Some((number, namespaces, wanted)) = self.next() else { return };
            match Reading::take(&api, number, &wanted, &jobs).await {
                Ok(reading) => {
                    jobs = Arc::clone(reading.jobs());
                    before.retain(|namespace, _| namespaces.contains(namespace));
                    for namespace in namespaces {
                        let snapshot = Arc::new(reading.of(&api, &namespace, before.get(&namespace).map(|it| &**it)));
                        before.insert(namespace.clone(), Arc::clone(&snapshot));
                        self.publish(&namespace, snapshot);
                    }
                }
                // Said by the server's other parts; watchers are told when it can be read again.
                Err(error) => debug!("there is no pulse: {error}"),
            }
            let pause = limits::PULSE_EVERY.saturating_sub(began.elapsed()).max(began.elapsed() * limits::PULSE_REST);
            tokio::select! {
                () = sleep(pause) => {}
                () = api.shutdown.requested() => return,
            }
        }
    }

    /// The number of the next snapshot, who is to get it, and the jobs in it; none when nobody watches any more.
    fn next(&self) -> Option<(u64, BTreeSet<Namespace>, Vec<JobId>)> {
        let mut watchers = self.lock();
        watchers.rooms.retain(|_, room| room.receiver_count() > 0);
        if watchers.rooms.is_empty() {
            watchers.running = false;
            return None;
        }
        watchers.number += 1;
        let namespaces = watchers.rooms.keys().cloned().collect();
        Some((watchers.number, namespaces, watchers.jobs.keys().copied().collect()))
    }

    fn publish(&self, namespace: &Namespace, snapshot: Arc<Snapshot>) {
        if let Some(room) = self.lock().rooms.get(namespace) {
            room.send_replace(Some(snapshot));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watchers> {
        // Each change is a single step, so a poisoned lock holds nothing inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watchers = self.pulse.lock();
        for id in &self.jobs {
            if let Some(count) = watchers.jobs.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    watchers.jobs.remove(id);
                }
            }
        }
    }
}
