//! What happened, for those who watch. An event is stored with the change it describes, and published after it.

use serde::{Deserialize, Serialize};

use crate::flow::RoundEvent;
use crate::{BulkEvent, JobId, PluginEvent, Progress, QueueEvent, QueueName, Reason, ScheduleEvent, Time, WorkerEvent};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    /// `JobId::NONE` when it is about something else: a queue, a round or a schedule of it, or a worker that fetches
    /// from it. One about a plugin stands under the plugin's own name, and one about a bulk operation under a name of
    /// its namespace.
    pub job: JobId,
    pub queue: QueueName,
    pub scope: Option<String>,
    pub kind: EventKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    Enqueued,
    /// It waits: for so many other jobs, for its round, or for everything below it to be removed.
    Blocked {
        waits_for: u32,
        /// The round it waits for, when it waits for nothing else.
        round: Option<u32>,
    },
    /// It waits for no other job any more, only for its time; or it has been given another time.
    Scheduled {
        at: Time,
    },
    /// Its time has come (scheduled, retrying), or it was handed back or retried: it is pending again.
    Pending {
        reason: Reason,
    },
    Started {
        attempt: u32,
    },
    Progress(Progress),
    Checkpoint {
        attempt: u32,
        bytes: u64,
    },
    /// An iteration of an agent has ended, and the next is pending.
    Continued {
        iteration: u32,
    },
    Completed {
        attempt: u32,
    },
    /// An attempt failed and the job will run again.
    Failed {
        attempt: u32,
        error: String,
        next_attempt_at: Time,
    },
    Held {
        reason: Reason,
    },
    Approved,
    Rejected,
    Dead {
        attempt: u32,
        reason: Reason,
    },
    /// Somebody asked; the attempt is still running.
    Cancelling,
    Cancelled {
        reason: Reason,
    },
    Moved {
        from: QueueName,
    },
    /// An ancestor is rebuilt: the job is removed when everything below it has been.
    Removing,
    Deleted,
    /// Something happened to a plugin.
    Plugin(PluginEvent),
    /// A round of the queue has started or ended.
    Round(RoundEvent),
    /// Somebody has changed a job that waits.
    Edited {
        by: String,
        /// The names of what was changed: `payload, priority`.
        fields: String,
    },
    Queue(QueueEvent),
    Schedule(ScheduleEvent),
    Bulk(BulkEvent),
    Worker(WorkerEvent),
}

impl EventKind {
    /// Whether it is about something of a namespace, and no job or queue.
    pub fn is_of_namespace(&self) -> bool {
        matches!(self, EventKind::Plugin(_) | EventKind::Bulk(_))
    }

    /// All the names in the stream.
    pub const WORDS: [&'static str; 50] = [
        "enqueued",
        "blocked",
        "scheduled",
        "pending",
        "started",
        "progress",
        "checkpoint",
        "continued",
        "completed",
        "failed",
        "held",
        "approved",
        "rejected",
        "dead",
        "cancelling",
        "cancelled",
        "moved",
        "edited",
        "removing",
        "deleted",
        "plugin.uploaded",
        "plugin.activated",
        "plugin.manifest_set",
        "plugin.granted",
        "plugin.canary_started",
        "plugin.canary_stopped",
        "plugin.promoted",
        "plugin.rolled_back",
        "plugin.version_removed",
        "plugin.removed",
        "round.started",
        "round.ended",
        "queue.paused",
        "queue.resumed",
        "queue.changed",
        "queue.removed",
        "schedule.created",
        "schedule.changed",
        "schedule.paused",
        "schedule.resumed",
        "schedule.ran",
        "schedule.skipped",
        "schedule.removed",
        "bulk.started",
        "bulk.completed",
        "bulk.failed",
        "bulk.cancelled",
        "worker.connected",
        "worker.drained",
        "worker.resumed",
    ];

    /// The name in the stream.
    pub fn as_str(&self) -> &'static str {
        match self {
            EventKind::Enqueued => "enqueued",
            EventKind::Blocked { .. } => "blocked",
            EventKind::Scheduled { .. } => "scheduled",
            EventKind::Pending { .. } => "pending",
            EventKind::Started { .. } => "started",
            EventKind::Progress(_) => "progress",
            EventKind::Checkpoint { .. } => "checkpoint",
            EventKind::Continued { .. } => "continued",
            EventKind::Completed { .. } => "completed",
            EventKind::Failed { .. } => "failed",
            EventKind::Held { .. } => "held",
            EventKind::Approved => "approved",
            EventKind::Rejected => "rejected",
            EventKind::Dead { .. } => "dead",
            EventKind::Cancelling => "cancelling",
            EventKind::Cancelled { .. } => "cancelled",
            EventKind::Moved { .. } => "moved",
            EventKind::Edited { .. } => "edited",
            EventKind::Removing => "removing",
            EventKind::Deleted => "deleted",
            EventKind::Plugin(event) => event.happening.as_str(),
            EventKind::Round(event) => event.as_str(),
            EventKind::Queue(event) => event.as_str(),
            EventKind::Schedule(event) => event.happening.as_str(),
            EventKind::Bulk(event) => event.as_str(),
            EventKind::Worker(event) => event.as_str(),
        }
    }
}
