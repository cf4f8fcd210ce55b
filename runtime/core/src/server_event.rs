//! Events about what is not a job: queues, schedules, bulk operations and workers. Each is told in the commit of the
//! change, and only if something has changed.

use serde::{Deserialize, Serialize};

use crate::schedule::SkipReason;
use crate::{Bulk, BulkId, BulkStatus, Event, EventKind, JobId, Name, QueueName, Settings, Time};

/// Something happened to a queue as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueEvent {
    /// `draining`: so that its running jobs finish.
    Paused {
        draining: bool,
    },
    Resumed,
    /// The names of the settings that are others now: `max_concurrency, rate`.
    Changed {
        fields: String,
    },
    /// With all its jobs.
    Removed,
}

/// Something happened to a schedule; its queue is that of the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEvent {
    pub schedule: Name,
    pub happening: ScheduleHappening,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScheduleHappening {
    Created,
    Changed,
    Paused,
    Resumed,
    /// A job was enqueued for this instant.
    Ran {
        instant: Time,
        job: JobId,
    },
    /// The run of this instant did not take place.
    Skipped {
        instant: Time,
        reason: SkipReason,
    },
    Removed,
}

/// A bulk operation has begun, or is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkEvent {
    pub bulk: BulkId,
    pub status: BulkStatus,
    /// What is done to each of the jobs.
    pub action: String,
    pub total: u64,
    pub processed: u64,
    pub affected: u64,
    pub errors: u64,
    pub error: Option<String>,
}

/// Something happened to a worker; the first of its queues is that of the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEvent {
    pub worker: String,
    pub hostname: String,
    pub happening: WorkerHappening,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerHappening {
    /// It fetches for the first time since the server started.
    Connected,
    Drained,
    Resumed,
}

impl QueueEvent {
    /// What a change of settings comes to; nothing if they are as they were.
    pub fn of(was: &Settings, is: &Settings) -> Vec<QueueEvent> {
        let mut events = Vec::new();
        match (was.paused, is.paused) {
            (false, true) => events.push(QueueEvent::Paused { draining: is.draining }),
            (true, false) => events.push(QueueEvent::Resumed),
            _ => {}
        }
        let mut fields = was.differences(is);
        // Told by the pause, or by its end.
        fields.retain(|field| *field != "draining" || was.paused == is.paused);
        if !fields.is_empty() {
            events.push(QueueEvent::Changed { fields: fields.join(", ") });
        }
        events
    }

    pub fn event(self, queue: &QueueName, now: Time) -> Event {
        about(queue.clone(), EventKind::Queue(self), now)
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            QueueEvent::Paused { .. } => "queue.paused",
            QueueEvent::Resumed => "queue.resumed",
            QueueEvent::Changed { .. } => "queue.changed",
            QueueEvent::Removed => "queue.removed",
        }
    }
}

impl ScheduleHappening {
    pub fn event(self, schedule: &Name, queue: &QueueName, now: Time) -> Event {
        let kind = EventKind::Schedule(ScheduleEvent { schedule: schedule.clone(), happening: self });
        about(queue.clone(), kind, now)
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            ScheduleHappening::Created => "schedule.created",
            ScheduleHappening::Changed => "schedule.changed",
            ScheduleHappening::Paused => "schedule.paused",
            ScheduleHappening::Resumed => "schedule.resumed",
            ScheduleHappening::Ran { .. } => "schedule.ran",
            ScheduleHappening::Skipped { .. } => "schedule.skipped",
            ScheduleHappening::Removed => "schedule.removed",
        }
    }
}

impl BulkEvent {
    /// As it is now. It belongs to no queue: the event stands under a name of its namespace.
    pub fn event(bulk: &Bulk, now: Time) -> Event {
        let event = BulkEvent {
            bulk: bulk.id,
            status: bulk.status,
            action: bulk.action.as_str().to_owned(),
            total: bulk.total,
            processed: bulk.processed,
            affected: bulk.affected,
            errors: bulk.errors,
            error: bulk.error.clone(),
        };
        let name: Name = "bulk".parse().expect("a short plain word is a name");
        about(name.within(&bulk.namespace), EventKind::Bulk(event), now)
    }

    pub fn as_str(&self) -> &'static str {
        match self.status {
            BulkStatus::Queued | BulkStatus::Running => "bulk.started",
            BulkStatus::Completed => "bulk.completed",
            BulkStatus::Failed => "bulk.failed",
            BulkStatus::Cancelled => "bulk.cancelled",
        }
    }
}

impl WorkerEvent {
    pub fn event(self, queue: &QueueName, now: Time) -> Event {
        about(queue.clone(), EventKind::Worker(self), now)
    }

    pub fn as_str(&self) -> &'static str {
        match self.happening {
            WorkerHappening::Connected => "worker.connected",
            WorkerHappening::Drained => "worker.drained",
            WorkerHappening::Resumed => "worker.resumed",
        }
    }
}

fn about(queue: QueueName, kind: EventKind, now: Time) -> Event {
    Event { at: now, job: JobId::NONE, queue, scope: None, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_settings_is_told_by_what_it_changes() {
        let calm = Settings::default();
        let told = |is: &Settings| QueueEvent::of(&calm, is);
        assert_eq!(told(&calm), []);
        let paused = Settings { paused: true, ..calm.clone() };
        assert_eq!(told(&paused), [QueueEvent::Paused { draining: false }]);
        assert_eq!(QueueEvent::of(&paused, &calm), [QueueEvent::Resumed]);
        assert_eq!(QueueEvent::of(&paused, &paused), []);
        let drained = Settings { paused: true, draining: true, ..calm.clone() };
        assert_eq!(told(&drained), [QueueEvent::Paused { draining: true }]);
        let changed = |fields: &str| QueueEvent::Changed { fields: fields.to_owned() };
        assert_eq!(QueueEvent::of(&paused, &drained), [changed("draining")]);
        let limited = Settings { max_concurrency: Some(4), rounds: true, ..paused };
        assert_eq!(told(&limited), [QueueEvent::Paused { draining: false }, changed("max_concurrency, rounds")]);
    }

    #[test]
    fn every_name_is_one_of_the_stream() {
        let (instant, job) = (Time(1), JobId::NONE);
        let schedules = [
            ScheduleHappening::Created,
            ScheduleHappening::Changed,
            ScheduleHappening::Paused,
            ScheduleHappening::Resumed,
            ScheduleHappening::Ran { instant, job },
            ScheduleHappening::Skipped { instant, reason: SkipReason::Paused },
            ScheduleHappening::Removed,
        ];
        let fields = String::new();
        let queues = [
            QueueEvent::Paused { draining: true },
            QueueEvent::Resumed,
            QueueEvent::Changed { fields },
            QueueEvent::Removed,
        ];
        let names = schedules.iter().map(ScheduleHappening::as_str).chain(queues.iter().map(QueueEvent::as_str));
        for name in names {
            assert!(EventKind::WORDS.contains(&name), "{name}");
        }
    }
}
