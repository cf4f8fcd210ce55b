//! `/workers`: who has fetched lately, who drains, and how many fetches wait where, as far as this process has seen. A restart
//! forgets them until they come again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;
use windlass_core::{QueueName, Runner, State as JobState, Time};
use windlass_store::{Clock, JobList};

use super::Api;
use super::error::{Error, Result};
use super::jobs::{Status, status};
use super::read::TextPath;
use super::wire::{NameText, Rfc3339};
use crate::limits;

/// Cheap to clone.
#[derive(Clone)]
pub struct Workers {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    /// Fetches that wait, by queue.
    waiting: Arc<Mutex<HashMap<QueueName, usize>>>,
    /// How many may wait on one queue.
    most: usize,
    /// Somebody began or ended draining.
    drains: Arc<Notify>,
}

/// A fetch's place on its queues, free again when this is dropped.
pub struct Waiting {
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
    /// At most so many fetches wait on one queue.
    pub fn new(most: usize) -> Workers {
        Workers { seen: Arc::default(), waiting: Arc::default(), most, drains: Arc::default() }
    }

    /// A place to wait on these queues; the one that is full, when there is none. A storm on one queue is that queue's.
    pub fn wait(&self, queues: &[QueueName]) -> std::result::Result<Waiting, QueueName> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = queues.iter().find(|queue| waiting.get(queue).is_some_and(|count| *count >= self.most)) {
            return Err(full.clone());
        }
        for queue in queues {
            *waiting.entry(queue.clone()).or_default() += 1;
        }
        Ok(Waiting { workers: self.clone(), queues: queues.to_vec() })
    }

    /// Returns when this worker is to fetch no more.
    pub async fn drained(&self, id: &str) {
        loop {
            let changed = self.drains.notified();
            if self.lock().get(id).is_some_and(|seen| seen.draining) {
                return;
            }
            changed.await;
        }
    }

    /// False when no such worker is known.
    fn set_draining(&self, id: &str, draining: bool) -> bool {
        let known = self.lock().get_mut(id).map(|seen| seen.draining = draining).is_some();
        self.drains.notify_waiters();
        known
    }

    /// A worker asked for jobs. Those that name themselves with nothing cannot be told apart and are not listed.
    pub fn fetched(&self, id: &str, hostname: &str, queues: &[QueueName], now: Time) {
        if id.is_empty() {
            return;
        }
        let mut workers = self.lock();
        if !workers.contains_key(id) && workers.len() >= limits::WORKERS {
            let oldest = workers.iter().min_by_key(|(_, seen)| seen.last).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| workers.remove(&oldest));
        }
        let seen = workers.entry(id.to_owned()).or_insert_with(|| Seen {
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
    }

    pub fn beat(&self, id: &str, now: Time) {
        if let Some(seen) = self.lock().get_mut(id) {
            seen.last = now;
        }
    }

    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        // Entries are changed field by field, and each field is good by itself.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.workers.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in &self.queues {
            if let Some(count) = waiting.get_mut(queue) {
                *count -= 1;
                if *count == 0 {
                    waiting.remove(queue);
                }
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
    /// Since this server saw it first.
    uptime_seconds: u64,
    /// It gets no more jobs, and finishes those it holds.
    draining: bool,
    /// The jobs it holds.
    jobs: Vec<String>,
}

/// Workers that have fetched lately, and what they hold
#[utoipa::path(get, path = "/workers", tag = "workers", responses((status = 200, body = Vec<WorkerAnswer>)))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<WorkerAnswer>>> {
    let active = JobList { state: Some(JobState::Active), limit: limits::WORKERS, ..JobList::default() };
    let active = api.store.jobs(active).await?;
    let mut workers = api.workers.lock().clone();
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for job in active {
        let Some(run) = job.run else { continue };
        let Runner::External { worker_id, hostname } = run.runner else { continue };
        if worker_id.is_empty() {
            continue;
        }
        // One that fetched from the process before this one is known by what it holds.
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
/// Its fetches wait and are answered with nothing. `resume` lets it have jobs again, and so does a restart of the server.
#[utoipa::path(post, path = "/workers/{id}/drain", tag = "workers", responses((status = 200, body = Status)))]
pub async fn drain(State(api): State<Api>, TextPath(id): TextPath) -> Result<Json<Status>> {
    set(&api, &id, true)?;
    Ok(status("draining"))
}

/// Give a worker jobs again
#[utoipa::path(post, path = "/workers/{id}/resume", tag = "workers", responses((status = 200, body = Status)))]
pub async fn resume(State(api): State<Api>, TextPath(id): TextPath) -> Result<Json<Status>> {
    set(&api, &id, false)?;
    Ok(status("resumed"))
}

fn set(api: &Api, id: &str, draining: bool) -> Result<()> {
    if api.workers.set_draining(id, draining) {
        return Ok(());
    }
    Err(Error::not_found(format!("no worker `{id}` has fetched since the server started; GET /workers lists them")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        name.parse().expect("a name")
    }

    #[test]
    fn a_storm_on_one_queue_leaves_room_on_the_others() {
        let workers = Workers::new(2);
        let (busy, calm) = (queue("busy"), queue("calm"));
        let first = workers.wait(std::slice::from_ref(&busy)).ok();
        let second = workers.wait(&[busy.clone(), calm.clone()]).ok();
        assert!(first.is_some() && second.is_some());
        assert_eq!(workers.wait(&[calm.clone(), busy.clone()]).err(), Some(busy.clone()));
        let other = workers.wait(std::slice::from_ref(&calm)).ok();
        assert!(other.is_some(), "what was refused took no place");
        drop(second);
        assert!(workers.wait(&[busy]).is_ok());
    }

    #[tokio::test]
    async fn a_worker_that_waits_hears_that_it_drains() {
        let workers = Workers::new(2);
        assert!(!workers.set_draining("ann", true), "nobody knows her yet");
        workers.fetched("ann", "host", &[queue("mail")], Time(1));
        let own = workers.clone();
        let waiting = tokio::spawn(async move { own.drained("ann").await });
        assert!(workers.set_draining("ann", true));
        waiting.await.expect("it was told");
    }
}
