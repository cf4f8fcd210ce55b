//! `GET /workers`: who has fetched lately, as far as this process has seen. A restart forgets them until they come again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{QueueName, Runner, State as JobState, Time};
use windlass_store::{Clock, JobList};

use super::Api;
use super::error::Result;
use super::wire::{NameText, Rfc3339};
use crate::limits;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Workers(Arc<Mutex<BTreeMap<String, Seen>>>);

struct Seen {
    hostname: String,
    queues: Vec<QueueName>,
    first: Time,
    last: Time,
}

impl Workers {
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
        });
        hostname.clone_into(&mut seen.hostname);
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The jobs it holds.
    jobs: Vec<String>,
}

/// Workers that have fetched lately, and what they hold
#[utoipa::path(get, path = "/workers", tag = "workers", responses((status = 200, body = Vec<WorkerAnswer>)))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<WorkerAnswer>>> {
    let active = JobList { state: Some(JobState::Active), limit: limits::PAGE_MOST, ..JobList::default() };
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for job in api.store.jobs(active).await? {
        if let Some(Runner::External { worker_id, .. }) = job.run.map(|run| run.runner) {
            held.entry(worker_id).or_default().push(job.id.to_string());
        }
    }
    let now = api.clock.now();
    let workers = api.workers.lock();
    let answers = workers.iter().map(|(id, seen)| WorkerAnswer {
        id: id.clone(),
        hostname: seen.hostname.clone(),
        queues: seen.queues.clone(),
        last_heartbeat: Rfc3339(seen.last),
        started_at: Rfc3339(seen.first),
        uptime_seconds: now.since(seen.first).as_secs(),
        jobs: held.remove(id).unwrap_or_default(),
    });
    Ok(Json(answers.collect()))
}
