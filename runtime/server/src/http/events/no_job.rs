//! Events about what is not a job: plugins, rounds, queues, schedules, bulk operations and workers. Each says what it
//! is about instead of a `job_id`.

use serde::Serialize;
use windlass_core::{
    Blob, BulkEvent, Event, EventKind, PluginEvent, QueueEvent, QueueName, ScheduleEvent, ScheduleHappening,
};

use crate::http::events::line::EventTime;
use crate::http::wire::{GroupCounts, Rfc3339};

#[derive(Debug, Default, Serialize)]
struct Data<'a> {
    seq: u64,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a QueueName>,
    #[serde(flatten)]
    at: EventTime,
    data: Details<'a>,
}

#[derive(Debug, Default, Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    #[serde(flatten)]
    counts: Option<GroupCounts>,
    /// Of a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    draining: Option<bool>,
    /// Which settings are others now.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a str>,
    /// The time that a schedule was to run at, and the job it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<String>,
    /// Why it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    bulk: Option<BulkDetails<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct BulkDetails<'a> {
    action: &'a str,
    total: u64,
    processed: u64,
    affected: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The `data` of an event, in one line; none for one about a job.
pub fn of_no_job(seq: u64, event: &Event) -> Option<String> {
    let (kind, queue, at) = (event.kind.as_str(), Some(&event.queue), event.at.into());
    let data = match &event.kind {
        EventKind::Plugin(about) => Data { plugin: Some(&about.plugin), data: of_plugin(about), ..Data::default() },
        EventKind::Round(about) => {
            let counts = GroupCounts {
                total: about.total,
                open: about.open,
                completed: about.completed,
                dead: about.dead,
                cancelled: about.cancelled,
            };
            let data = Details { round: Some(about.round), counts: Some(counts), ..Details::default() };
            Data { queue, data, ..Data::default() }
        }
        EventKind::Queue(about) => Data { queue, data: of_queue(about), ..Data::default() },
        EventKind::Schedule(about) => {
            Data { schedule: Some(&about.schedule), queue, data: of_schedule(about), ..Data::default() }
        }
        EventKind::Bulk(about) => {
            Data { bulk_id: Some(about.bulk.to_string()), data: of_bulk(about), ..Data::default() }
        }
        EventKind::Worker(about) => {
            let data = Details { hostname: Some(&about.hostname), ..Details::default() };
            Data { worker_id: Some(&about.worker), queue, data, ..Data::default() }
        }
        EventKind::Enqueued
        | EventKind::Blocked { .. }
        | EventKind::Scheduled { .. }
        | EventKind::Pending { .. }
        | EventKind::Started { .. }
        | EventKind::Progress(_)
        | EventKind::Checkpoint { .. }
        | EventKind::Continued { .. }
        | EventKind::Completed { .. }
        | EventKind::Failed { .. }
        | EventKind::Held { .. }
        | EventKind::Approved
        | EventKind::Rejected
        | EventKind::Dead { .. }
        | EventKind::Cancelling
        | EventKind::Cancelled { .. }
        | EventKind::Moved { .. }
        | EventKind::Edited { .. }
        | EventKind::Removing
        | EventKind::Deleted => return None,
    };
    // Plain fields always serialize, and in one line.
    Some(serde_json::to_string(&Data { seq, kind, at, ..data }).unwrap_or_default())
}

fn of_plugin(about: &PluginEvent) -> Details<'_> {
    let version = about.version.map(|sha256| Blob { sha256, len: 0 }.hex());
    Details { version, detail: &about.detail, ..Details::default() }
}

fn of_queue(about: &QueueEvent) -> Details<'_> {
    match about {
        QueueEvent::Paused { draining } => Details { draining: Some(*draining), ..Details::default() },
        QueueEvent::Changed { fields } => Details { fields: Some(fields), ..Details::default() },
        QueueEvent::Resumed | QueueEvent::Removed => Details::default(),
    }
}

fn of_schedule(about: &ScheduleEvent) -> Details<'_> {
    match &about.happening {
        ScheduleHappening::Ran { instant, job } => {
            Details { scheduled_at: Some(Rfc3339(*instant)), job_id: Some(job.to_string()), ..Details::default() }
        }
        ScheduleHappening::Skipped { instant, reason } => {
            Details { scheduled_at: Some(Rfc3339(*instant)), reason: Some(reason.to_string()), ..Details::default() }
        }
        ScheduleHappening::Created
        | ScheduleHappening::Changed
        | ScheduleHappening::Paused
        | ScheduleHappening::Resumed
        | ScheduleHappening::Removed => Details::default(),
    }
}

fn of_bulk(about: &BulkEvent) -> Details<'_> {
    let bulk = BulkDetails {
        action: &about.action,
        total: about.total,
        processed: about.processed,
        affected: about.affected,
        errors: about.errors,
        error: about.error.as_deref(),
    };
    Details { bulk: Some(bulk), ..Details::default() }
}
