//! Events as text: `id`, `event` and `data` lines, one of each, and an empty line.

use bytes::Bytes;
use serde::Serialize;
use windlass_core::{BodyKind, EventKind, Job, JobId, QueueName, State, Time};
use windlass_store::{EventRecord, LogLine, Store};

use crate::http::events::no_job::of_no_job;
use crate::http::jobs::view::ProgressView;
use crate::http::wire::{Rfc3339, Shown};
use crate::limits;

/// The `data` of every event.
#[derive(Debug, Serialize)]
struct Data<'a> {
    /// Its number in the stream. Lines of a log have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(rename = "type")]
    kind: &'a str,
    job_id: JobIdText,
    queue: &'a QueueName,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(flatten)]
    at: EventTime,
    data: Details,
}

/// When it happened; older clients read the nanoseconds.
#[derive(Debug, Default, Serialize)]
pub(super) struct EventTime {
    at: Rfc3339,
    at_ns: u128,
}

impl From<Time> for EventTime {
    fn from(at: Time) -> EventTime {
        EventTime { at: Rfc3339(at), at_ns: u128::from(at.millis()) * 1_000_000 }
    }
}

#[derive(Debug)]
struct JobIdText(JobId);

impl Serialize for JobIdText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Further fields of an event, depending on its type.
#[derive(Debug, Default, Serialize)]
struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<u32>,
    /// The round it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<QueueName>,
    /// Who changed it, and what.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Shown>,
    /// The result is too large for an event; it can be read from the job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    result_omitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(flatten)]
    progress: Option<ProgressView>,
    /// The message of a log line; progress has its own.
    #[serde(skip_serializing_if = "Option::is_none", rename = "level")]
    log_level: Option<String>,
}

pub async fn of_event(store: &Store, record: &EventRecord) -> Bytes {
    let json = event_json(store, record).await;
    Bytes::from(format!("id: {}\nevent: {}\ndata: {json}\n\n", record.seq, record.event.kind.as_str()))
}

/// The `data` of an event, in one line.
pub async fn event_json(store: &Store, record: &EventRecord) -> String {
    let event = &record.event;
    if let Some(data) = of_no_job(record.seq, event) {
        return data;
    }
    let ended = matches!(event.kind, EventKind::Completed { .. } | EventKind::Dead { .. });
    let job = if ended { store.job(event.job).await.ok().flatten() } else { None };
    let details = details(store, &event.kind, job.as_ref()).await;
    json(&Data {
        seq: Some(record.seq),
        kind: event.kind.as_str(),
        job_id: JobIdText(event.job),
        queue: &event.queue,
        scope: event.scope.as_deref(),
        at: event.at.into(),
        data: details,
    })
}

/// The `data` of an event that somebody asked for, to try a webhook.
pub fn test_event_json(kind: &str, webhook: &str, at: Time) -> String {
    #[derive(Serialize)]
    struct Test<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(flatten)]
        at: EventTime,
        data: TestDetails<'a>,
    }
    #[derive(Serialize)]
    struct TestDetails<'a> {
        webhook_id: &'a str,
        message: &'a str,
    }
    let data = TestDetails { webhook_id: webhook, message: "A test, as somebody asked for one." };
    serde_json::to_string(&Test { kind, at: at.into(), data }).unwrap_or_default()
}

/// The final event of a job whose events are no longer stored, derived from the job.
pub async fn of_ended_job(store: &Store, job: &Job) -> Bytes {
    let attempt = job.attempt;
    let reason = job.timeline.steps.last().map(|step| step.reason.clone()).unwrap_or_default();
    let kind = match job.state {
        State::Completed => EventKind::Completed { attempt },
        State::Cancelled => EventKind::Cancelled { reason },
        _ => EventKind::Dead { attempt, reason },
    };
    let details = details(store, &kind, Some(job)).await;
    of_job(kind.as_str(), job, job.since, details)
}

pub fn of_log(job: &Job, n: u64, line: LogLine) -> Bytes {
    let details = Details {
        n: Some(n),
        attempt: Some(line.attempt),
        log_level: Some(line.level),
        text: Some(line.text),
        ..Details::default()
    };
    of_job("log", job, line.at, details)
}

/// An event about the stream itself.
pub fn of_stream(kind: &str, code: &str, message: &str) -> Bytes {
    let data = serde_json::json!({ "error": message, "code": code });
    Bytes::from(format!("event: {kind}\ndata: {data}\n\n"))
}

/// An event without a number in the stream.
fn of_job(kind: &str, job: &Job, at: Time, data: Details) -> Bytes {
    let (queue, scope) = (&job.queue, job.scope.as_deref());
    let data = Data { seq: None, kind, job_id: JobIdText(job.id), queue, scope, at: at.into(), data };
    Bytes::from(format!("event: {kind}\ndata: {}\n\n", json(&data)))
}

fn json(data: &Data<'_>) -> String {
    // A map of plain fields always serializes. A result is shown as it was sent, perhaps over several lines; outside of
    // its strings, where line breaks are escaped, a line break is only white space.
    serde_json::to_string(data).unwrap_or_default().replace(['\n', '\r'], " ")
}

async fn details(store: &Store, kind: &EventKind, job: Option<&Job>) -> Details {
    let none = Details::default();
    match kind {
        EventKind::Started { attempt } => Details { attempt: Some(*attempt), ..none },
        EventKind::Progress(progress) => Details { progress: Some(progress.clone().into()), ..none },
        EventKind::Checkpoint { attempt, bytes } => Details { attempt: Some(*attempt), bytes: Some(*bytes), ..none },
        EventKind::Continued { iteration } => Details { iteration: Some(*iteration), ..none },
        EventKind::Completed { attempt } => {
            let (result, result_omitted) = result(store, job).await;
            Details { attempt: Some(*attempt), result, result_omitted, ..none }
        }
        EventKind::Failed { attempt, error, next_attempt_at } => Details {
            attempt: Some(*attempt),
            error: Some(error.clone()),
            next_attempt_at: Some(Rfc3339(*next_attempt_at)),
            ..none
        },
        EventKind::Dead { attempt, reason } => Details {
            attempt: Some(*attempt),
            reason: Some(reason.to_string()),
            error: job.and_then(|job| job.last_error.clone()),
            ..none
        },
        EventKind::Pending { reason } | EventKind::Held { reason } | EventKind::Cancelled { reason } => {
            Details { reason: Some(reason.to_string()), ..none }
        }
        EventKind::Edited { by, fields } => Details { by: Some(by.clone()), fields: Some(fields.clone()), ..none },
        EventKind::Moved { from } => Details { from: Some(from.clone()), ..none },
        EventKind::Blocked { waits_for, round } => Details { waits_for: Some(*waits_for), round: *round, ..none },
        EventKind::Scheduled { at } => Details { scheduled_at: Some(Rfc3339(*at)), ..none },
        EventKind::Enqueued
        | EventKind::Approved
        | EventKind::Rejected
        | EventKind::Cancelling
        | EventKind::Removing
        | EventKind::Deleted
        | EventKind::Round(_)
        | EventKind::Queue(_)
        | EventKind::Schedule(_)
        | EventKind::Bulk(_)
        | EventKind::Worker(_)
        | EventKind::Plugin(_) => none,
    }
}

/// The job's result if it is small enough for an event, and whether it is too large.
async fn result(store: &Store, job: Option<&Job>) -> (Option<Shown>, bool) {
    let Some(job) = job.filter(|job| !job.result.is_none()) else { return (None, false) };
    if job.result.len() > limits::EVENT_RESULT {
        return (None, true);
    }
    match store.body(job, BodyKind::Result).await {
        Ok(bytes) => (bytes.map(Shown), false),
        Err(_) => (None, true),
    }
}
