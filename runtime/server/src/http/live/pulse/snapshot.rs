//! Everything that watchers of one namespace may be told, at one moment: each part as the JSON that is sent, so that a
//! change is a different text and the same text is made once for all watchers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use windlass_core::{Counts, Job, JobId, Name, Namespace, Plugin, QueueName, State as JobState, Time};
use windlass_store::{Clock, QueueView};

use crate::dispatcher::RunningAttempt;
use crate::http::Api;
use crate::http::jobs::bulk::BulkView;
use crate::http::jobs::view::ProgressView;
use crate::http::live::attempts::live_of;
use crate::http::plugins::CanaryAnswer;
use crate::http::queues::QueueAnswer;
use crate::http::wire::Rfc3339;
use crate::limits;
use crate::metrics::Recent;

/// A part of a message. Texts are shared with the snapshot before, where nothing has changed.
pub type Text = Arc<str>;

pub struct Snapshot {
    /// Counts up by one with each snapshot of all namespaces.
    pub number: u64,
    pub at: Time,
    pub queues: BTreeMap<QueueName, Arc<QueueRow>>,
    pub slots: Text,
    pub canaries: Text,
    /// By the name a worker gives itself, with the queues it serves.
    pub workers: Vec<(Vec<QueueName>, Text)>,
    pub bulk: Text,
    pub paused_since: Text,
    pub trouble: Text,
    /// The jobs that anybody watches, in any namespace.
    pub jobs: Arc<HashMap<JobId, Arc<JobRow>>>,
    /// The difference to the snapshot before, for those who may see all queues and watch no job: made for the first of
    /// them.
    pub for_all: OnceLock<Option<Bytes>>,
}

#[derive(PartialEq)]
pub struct QueueRow {
    pub text: Text,
    pub counts: [u64; JobState::ALL.len()],
    /// Enqueued, completed and failed in a second, over the last five.
    pub rates: [f64; 3],
}

#[derive(PartialEq)]
pub struct JobRow {
    pub queue: QueueName,
    pub text: Text,
}

/// What is read once for the snapshots of all namespaces.
pub struct Reading {
    number: u64,
    at: Time,
    queues: Vec<QueueView>,
    plugins: Vec<Plugin>,
    running: Vec<Arc<RunningAttempt>>,
    jobs: Arc<HashMap<JobId, Arc<JobRow>>>,
    bulks: Vec<windlass_core::Bulk>,
    paused_since: Text,
    trouble: Text,
}

/// A watched job.
#[derive(Serialize)]
struct Watched {
    state: &'static str,
    attempt: u32,
    progress: Option<ProgressView>,
    live: Option<crate::http::live::view::LiveView>,
    updated_at: Rfc3339,
}

impl Reading {
    /// Reads what all namespaces share. `before` are the watched jobs of the last time.
    pub async fn take(
        api: &Api,
        number: u64,
        wanted: &[JobId],
        before: &HashMap<JobId, Arc<JobRow>>,
    ) -> Result<Reading, windlass_store::Error> {
        let store = &api.whole_store;
        let now = (api.clock.now(), Instant::now());
        let running = api.running.list();
        let mut jobs = HashMap::new();
        for id in wanted {
            if let Some(job) = store.job(*id).await? {
                let row = job_row(job, &running, now);
                jobs.insert(*id, shared(before.get(id), row));
            }
        }
        Ok(Reading {
            number,
            at: now.0,
            queues: store.queues().await?,
            plugins: store.plugins().await?,
            running,
            jobs: Arc::new(jobs),
            bulks: store.bulks().await?,
            paused_since: text(&store.paused().map(Rfc3339)),
            trouble: text(&store.trouble()),
        })
    }

    pub fn jobs(&self) -> &Arc<HashMap<JobId, Arc<JobRow>>> {
        &self.jobs
    }

    /// The part of one namespace, which shares with the snapshot before it whatever is the same.
    pub fn of(&self, api: &Api, namespace: &Namespace, before: Option<&Snapshot>) -> Snapshot {
        let now = Instant::now();
        let own = self.queues.iter().filter(|view| view.queue.name.is_in(namespace));
        let queues = own.map(|view| {
            let row = queue_row(view, &api.rates.of(&view.queue.name, now, &view.queue.counts));
            let before = before.and_then(|before| before.queues.get(&view.queue.name));
            (view.queue.name.clone(), shared(before, row))
        });
        Snapshot {
            number: self.number,
            at: self.at,
            queues: queues.collect(),
            slots: self.slots(api.slots, namespace),
            canaries: self.canaries(namespace),
            workers: workers(api, namespace),
            bulk: self.bulk(namespace),
            paused_since: Arc::clone(&self.paused_since),
            trouble: Arc::clone(&self.trouble),
            jobs: Arc::clone(&self.jobs),
            for_all: OnceLock::new(),
        }
    }

    /// How many slots are in use, and by which plugins. Of other namespaces only the number is told.
    fn slots(&self, total: usize, namespace: &Namespace) -> Text {
        let mut by_plugin: BTreeMap<&str, usize> = BTreeMap::new();
        for attempt in self.running.iter().filter(|attempt| attempt.plugin.is_in(namespace)) {
            *by_plugin.entry(attempt.plugin.as_str()).or_default() += 1;
        }
        let busy: usize = by_plugin.values().sum();
        let elsewhere = self.running.len() - busy;
        text(&json!({"total": total, "busy": busy + elsewhere, "by_plugin": by_plugin, "busy_elsewhere": elsewhere}))
    }

    fn canaries(&self, namespace: &Namespace) -> Text {
        let own = self.plugins.iter().filter(|plugin| plugin.name.is_in(namespace));
        let canaries = own.filter_map(|plugin| {
            let canary = plugin.canary.clone()?;
            let answer = CanaryAnswer::from(canary);
            let running =
                self.running.iter().filter(|one| one.plugin == plugin.name && one.version == answer.version());
            Some((plugin.name.as_str(), with_running(&answer, running.count(), &plugin.name)))
        });
        text(&canaries.collect::<BTreeMap<_, _>>())
    }

    /// Operations on many jobs that run, or have ended a moment ago.
    fn bulk(&self, namespace: &Namespace) -> Text {
        let since = Time(self.at.millis().saturating_sub(limits::PULSE_BULK.as_millis() as u64));
        let shown = self
            .bulks
            .iter()
            .filter(|bulk| bulk.namespace == *namespace && bulk.finished_at.is_none_or(|finished| finished >= since));
        text(&shown.cloned().map(BulkView::from).collect::<Vec<_>>())
    }
}

fn with_running(canary: &CanaryAnswer, running: usize, plugin: &Name) -> serde_json::Value {
    let mut value = serde_json::to_value(canary).unwrap_or_default();
    value["plugin"] = json!(plugin.as_str());
    value["running"] = json!(running);
    value
}

fn queue_row(view: &QueueView, recent: &Recent) -> QueueRow {
    let Counts { now, .. } = view.queue.counts;
    let rates = [recent.seconds.enqueued, recent.seconds.completed, recent.seconds.failed];
    QueueRow { text: text(&QueueAnswer::with_rates(view.clone(), *recent)), counts: now, rates }
}

fn job_row(job: Job, running: &[Arc<RunningAttempt>], now: (Time, Instant)) -> JobRow {
    let live = live_of(running, &job, now);
    let watched = Watched {
        state: job.state.as_str(),
        attempt: job.attempt,
        live,
        updated_at: Rfc3339(job.updated_at),
        progress: job.progress.map(ProgressView::from),
    };
    JobRow { text: text(&watched), queue: job.queue }
}

fn workers(api: &Api, namespace: &Namespace) -> Vec<(Vec<QueueName>, Text)> {
    let known = api.workers.of_namespace(namespace).into_iter();
    known.map(|(queues, worker)| (queues, text(&worker))).collect()
}

/// The one from before, if it is the same.
fn shared<T: PartialEq>(before: Option<&Arc<T>>, now: T) -> Arc<T> {
    match before {
        Some(before) if **before == now => Arc::clone(before),
        Some(_) | None => Arc::new(now),
    }
}

/// These types always serialize.
fn text(value: &impl Serialize) -> Text {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()).into()
}
