//! `/workers`: which workers have fetched recently, which drain, and how many fetches wait on each queue. Held in
//! memory: after a restart, workers are unknown until they fetch again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;
use windlass_core::access::AuditOutcome;
use windlass_core::{Namespace, QueueName, Runner, State as JobState, Time, WorkerEvent, WorkerHappening};
use windlass_store::{Clock, JobList};

use crate::http::Api;
use crate::http::jobs::{Status, status};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::TextPath;
use crate::http::wire::{NameText, Rfc3339};
use crate::limits;

/// A worker by its namespace and the name it gives itself.
pub type WorkerId = (Namespace, String);

/// Cheap to clone.
#[derive(Clone)]
pub struct Workers {
    seen: Arc<Mutex<BTreeMap<WorkerId, Seen>>>,
    /// Queues that workers fetch from, or did recently.
    fetched: Arc<Mutex<HashMap<QueueName, Fetched>>>,
    /// How many may wait on one queue.
    most: usize,
    /// Notified when a worker starts or stops draining.
    drains: Arc<Notify>,
}

/// The fetches of one queue.
#[derive(Clone, Copy, Default)]
struct Fetched {
    /// Fetches that wait now.
    waiting: usize,
    /// When a fetch last began or ended, or a worker that fetches here last sent a heartbeat.
    last: Time,
}

/// Counts a fetch as waiting on its queues until this is dropped.
pub struct WaitingFetch {
    workers: Workers,
    queues: Vec<QueueName>,
}

#[derive(Clone)]
struct Seen {
    hostname: String,
    queues: Vec<QueueName>,
    first: Time,
    last: Time,
    draining: bool,
}

impl Workers {
    /// At most this many fetches wait on one queue.
    pub fn new(most: usize) -> Workers {
        Workers { seen: Arc::default(), fetched: Arc::default(), most, drains: Arc::default() }
    }

    /// Registers a fetch on these queues, or returns the queue that has too many. Too many fetches on one queue do not
    /// affect the others.
    pub fn wait(&self, queues: &[QueueName], now: Time) -> std::result::Result<WaitingFetch, QueueName> {
        let mut fetched = self.lock_fetched();
        let is_full = |queue: &&QueueName| fetched.get(queue).is_some_and(|queue| queue.waiting >= self.most);
        if let Some(full) = queues.iter().find(is_full) {
            return Err(full.clone());
        }
        if fetched.len() + queues.len() > limits::FETCHED_QUEUES {
            fetched.retain(|_, queue| queue.is_served(now));
        }
        for queue in queues {
            let fetched = fetched.entry(queue.clone()).or_default();
            fetched.waiting += 1;
            fetched.last = now;
        }
        Ok(WaitingFetch { workers: self.clone(), queues: queues.to_vec() })
    }

    /// Whether a worker serves the queue: a fetch waits on it, or there was one in the last [`limits::WORKER_SEEN`], or
    /// a worker that fetches from it has sent a heartbeat since.
    pub fn serve(&self, queue: &QueueName, now: Time) -> bool {
        self.lock_fetched().get(queue).is_some_and(|queue| queue.is_served(now))
    }

    /// Returns when this worker is draining.
    pub async fn drained(&self, id: &WorkerId) {
        loop {
            let changed = self.drains.notified();
            if self.lock().get(id).is_some_and(|seen| seen.draining) {
                return;
            }
            changed.await;
        }
    }

    /// The worker as it was before; nothing when no such worker is known.
    fn set_draining(&self, id: &WorkerId, draining: bool) -> Option<Seen> {
        let known = self.lock().get_mut(id).map(|seen| {
            let was = seen.clone();
            seen.draining = draining;
            was
        });
        self.drains.notify_waiters();
        known
    }

    /// A worker asked for jobs. Workers without a name cannot be distinguished and are not listed. Returns whether it
    /// is a new one.
    pub fn fetched(&self, id: &WorkerId, hostname: &str, queues: &[QueueName], now: Time) -> bool {
        if id.1.is_empty() {
            return false;
        }
        let mut workers = self.lock();
        let is_new = !workers.contains_key(id);
        if is_new && workers.len() >= limits::WORKERS {
            let oldest = workers.iter().min_by_key(|(_, seen)| seen.last).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| workers.remove(&oldest));
        }
        let seen = workers.entry(id.clone()).or_insert_with(|| Seen {
            hostname: String::new(),
            queues: Vec::new(),
            first: now,
            last: now,
            draining: false,
        });
        if !hostname.is_empty() {
            hostname.clone_into(&mut seen.hostname);
        }
        seen.queues = queues.to_vec();
        seen.last = now;
        is_new
    }

    pub fn heartbeat(&self, id: &WorkerId, now: Time) {
        let mut workers = self.lock();
        let Some(seen) = workers.get_mut(id) else { return };
        seen.last = now;
        let mut fetched = self.lock_fetched();
        for queue in &seen.queues {
            if let Some(queue) = fetched.get_mut(queue) {
                queue.last = now;
            }
        }
    }

    /// The workers of a namespace, each with the queues that it fetches from.
    pub fn of_namespace(&self, namespace: &Namespace) -> Vec<(Vec<QueueName>, WorkerNow)> {
        let workers = self.lock();
        let own = workers.iter().filter(|((of, _), _)| of == namespace);
        own.map(|((_, id), seen)| (seen.queues.clone(), WorkerNow::of(id, seen))).collect()
    }

    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<WorkerId, Seen>> {
        // Each field is set in one step and valid by itself, so a poisoned lock holds nothing inconsistent.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locked after the other lock where both are needed.
    fn lock_fetched(&self) -> MutexGuard<'_, HashMap<QueueName, Fetched>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetched {
    fn is_served(&self, now: Time) -> bool {
        self.waiting > 0 || now.since(self.last) <= limits::WORKER_SEEN
    }
}

impl WaitingFetch {
    /// The fetch has its response. Dropped without this, its client has disconnected.
    pub fn end(self, now: Time) {
        let mut fetched = self.workers.lock_fetched();
        for queue in &self.queues {
            if let Some(queue) = fetched.get_mut(queue) {
                queue.last = now;
            }
        }
    }
}

impl Drop for WaitingFetch {
    fn drop(&mut self) {
        let mut fetched = self.workers.lock_fetched();
        for queue in &self.queues {
            if let Some(queue) = fetched.get_mut(queue) {
                queue.waiting -= 1;
            }
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerAnswer {
    id: String,
    hostname: String,
    #[schema(value_type = Vec<NameText>)]
    queues: Vec<QueueName>,
    last_heartbeat: Rfc3339,
    started_at: Rfc3339,
    /// Since this server first saw it.
    uptime_seconds: u64,
    /// It gets no more jobs, and finishes those it holds.
    draining: bool,
    /// The jobs it holds.
    jobs: Vec<String>,
}

/// A worker without the jobs it holds: what the pulse tells of it.
#[derive(Debug, Serialize)]
pub struct WorkerNow {
    id: String,
    hostname: String,
    queues: Vec<QueueName>,
    draining: bool,
    started_at: Rfc3339,
    last_heartbeat: Rfc3339,
}

impl WorkerNow {
    fn of(id: &str, seen: &Seen) -> WorkerNow {
        WorkerNow {
            id: id.to_owned(),
            hostname: seen.hostname.clone(),
            queues: seen.queues.clone(),
            draining: seen.draining,
            started_at: Rfc3339(seen.first),
            last_heartbeat: Rfc3339(seen.last),
        }
    }
}

/// List the workers that have fetched since the server started, with the jobs they hold
#[utoipa::path(get, path = "/workers", tag = "workers", responses((status = 200, body = Vec<WorkerAnswer>)))]
pub async fn list(api: Api) -> Result<Json<Vec<WorkerAnswer>>> {
    let active = JobList { state: Some(JobState::Active), limit: limits::WORKERS, ..JobList::default() };
    let active = api.store.jobs(active).await?;
    let allowed = &api.caller.allowed;
    let known = api.workers.lock().clone().into_iter();
    let own = known.filter(|((namespace, _), seen)| {
        *namespace == allowed.namespace && seen.queues.iter().any(|queue| allowed.allow(queue))
    });
    let mut workers: BTreeMap<String, Seen> = own.map(|((_, id), seen)| (id, seen)).collect();
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for job in active {
        let Some(run) = job.run else { continue };
        let Runner::External { worker_id, hostname } = run.runner else { continue };
        if worker_id.is_empty() {
            continue;
        }
        // A worker that last fetched before a restart is known by the jobs it holds.
        let seen = workers.entry(worker_id.clone()).or_insert_with(|| Seen {
            hostname,
            queues: vec![job.queue],
            first: run.started_at,
            last: run.heartbeat_at,
            draining: false,
        });
        seen.last = seen.last.max(run.heartbeat_at);
        held.entry(worker_id).or_default().push(job.id.to_string());
    }
    let now = api.clock.now();
    let answers = workers.into_iter().map(|(id, seen)| WorkerAnswer {
        jobs: held.remove(&id).unwrap_or_default(),
        id,
        hostname: seen.hostname,
        queues: seen.queues,
        last_heartbeat: Rfc3339(seen.last),
        started_at: Rfc3339(seen.first),
        uptime_seconds: now.since(seen.first).as_secs(),
        draining: seen.draining,
    });
    Ok(Json(answers.collect()))
}

/// Give a worker no more jobs; it finishes those it holds
///
/// Its fetches wait and return no jobs. `resume` gives it jobs again, and so does a restart of the server.
#[utoipa::path(post, path = "/workers/{id}/drain", tag = "workers", responses((status = 200, body = Status)))]
pub async fn drain(api: Api, TextPath(id): TextPath) -> Result<Json<Status>> {
    set(&api, &id, true).await?;
    Ok(status("draining"))
}

/// Give a worker jobs again
#[utoipa::path(post, path = "/workers/{id}/resume", tag = "workers", responses((status = 200, body = Status)))]
pub async fn resume(api: Api, TextPath(id): TextPath) -> Result<Json<Status>> {
    set(&api, &id, false).await?;
    Ok(status("resumed"))
}

async fn set(api: &Api, id: &str, draining: bool) -> Result<()> {
    let Some(was) = api.workers.set_draining(&api.worker_id(id), draining) else {
        let why = format!("no worker `{id}` has fetched since the server started; GET /workers lists them");
        return Err(Error::not_found(why));
    };
    if was.draining != draining {
        let happening = if draining { WorkerHappening::Drained } else { WorkerHappening::Resumed };
        tell(api, id, &was.hostname, &was.queues, happening);
    }
    let action = if draining { "worker.drain" } else { "worker.resume" };
    Ok(api.store.note(action, id.to_owned(), AuditOutcome::Done).await?)
}

/// Puts what happened to a worker into the stream of events, under the first of its queues.
pub fn tell(api: &Api, id: &str, hostname: &str, queues: &[QueueName], happening: WorkerHappening) {
    if let Some(queue) = queues.first() {
        let event = WorkerEvent { worker: id.to_owned(), hostname: hostname.to_owned(), happening };
        api.store.tell_of_worker(queue.clone(), event);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue(name: &str) -> QueueName {
        name.parse().expect("a name")
    }

    fn ann() -> WorkerId {
        (Namespace::default(), "ann".to_owned())
    }

    #[test]
    fn too_many_fetches_on_one_queue_leave_room_on_the_others() {
        let workers = Workers::new(2);
        let (busy, calm) = (queue("busy"), queue("calm"));
        let first = workers.wait(std::slice::from_ref(&busy), Time(1)).ok();
        let second = workers.wait(&[busy.clone(), calm.clone()], Time(1)).ok();
        assert!(first.is_some() && second.is_some());
        assert_eq!(workers.wait(&[calm.clone(), busy.clone()], Time(1)).err(), Some(busy.clone()));
        let other = workers.wait(std::slice::from_ref(&calm), Time(1)).ok();
        assert!(other.is_some(), "the refused fetch is not counted");
        drop(second);
        assert!(workers.wait(&[busy], Time(1)).is_ok());
    }

    #[test]
    fn a_queue_is_served_while_a_fetch_waits_and_for_a_while_after_the_last_one() {
        let workers = Workers::new(2);
        let (mail, other) = (queue("mail"), queue("other"));
        let mails = std::slice::from_ref(&mail);
        let after = |from: Time, more: u64| from + limits::WORKER_SEEN + Duration::from_millis(more);
        assert!(!workers.serve(&mail, Time(0)));
        workers.fetched(&ann(), "host", mails, Time(1_000));
        let waiting = workers.wait(mails, Time(1_000)).expect("room for a fetch");
        assert!(workers.serve(&mail, after(Time(1_000), 1)), "a fetch waits");
        assert!(!workers.serve(&other, Time(1_000)));
        waiting.end(Time(5_000));
        assert!(workers.serve(&mail, after(Time(5_000), 0)) && !workers.serve(&mail, after(Time(5_000), 1)));
        workers.heartbeat(&ann(), Time(6_000));
        assert!(workers.serve(&mail, after(Time(6_000), 0)), "the worker holds a job of the queue");
        drop(workers.wait(mails, Time(7_000)));
        assert!(!workers.serve(&mail, after(Time(7_000), 1)));
    }

    #[test]
    fn queues_without_recent_fetches_are_removed() {
        let workers = Workers::new(2);
        let many: Vec<QueueName> = (0..limits::FETCHED_QUEUES).map(|n| queue(&format!("q{n}"))).collect();
        drop(workers.wait(&many, Time(0)));
        let now = Time(1) + limits::WORKER_SEEN;
        drop(workers.wait(&[queue("new")], now));
        assert_eq!(workers.lock_fetched().len(), 1);
        assert!(workers.serve(&queue("new"), now));
    }

    #[tokio::test]
    async fn a_waiting_fetch_is_notified_when_its_worker_drains() {
        let workers = Workers::new(2);
        assert!(workers.set_draining(&ann(), true).is_none(), "the worker is not known yet");
        workers.fetched(&ann(), "host", &[queue("mail")], Time(1));
        let own = workers.clone();
        let waiting = tokio::spawn(async move { own.drained(&ann()).await });
        assert!(workers.set_draining(&ann(), true).is_some_and(|was| !was.draining));
        waiting.await.expect("it was notified");
    }
}
