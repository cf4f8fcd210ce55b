//! What the events about queues, schedules and bulk operations told so far: each must be of a change, and none may be
//! missing.

use std::collections::BTreeSet;

use windlass_core::{BulkId, BulkStatus, Event, EventKind, JobId, Name, QueueEvent, QueueName, ScheduleHappening};

#[derive(Clone, Debug, Default)]
pub struct Told {
    paused: BTreeSet<QueueName>,
    schedules: BTreeSet<Name>,
    running: BTreeSet<BulkId>,
}

impl Told {
    pub fn take(&mut self, event: &Event) {
        assert_eq!(event.job, JobId::NONE, "{event:?}: it is about no job");
        match &event.kind {
            EventKind::Queue(about) => self.queue(event, about),
            EventKind::Schedule(about) => {
                let changed = match about.happening {
                    ScheduleHappening::Created => self.schedules.insert(about.schedule.clone()),
                    ScheduleHappening::Removed => self.schedules.remove(&about.schedule),
                    ScheduleHappening::Changed
                    | ScheduleHappening::Paused
                    | ScheduleHappening::Resumed
                    | ScheduleHappening::Ran { .. }
                    | ScheduleHappening::Skipped { .. } => self.schedules.contains(&about.schedule),
                };
                assert!(changed, "{event:?}: that is no change");
            }
            EventKind::Bulk(about) => {
                let changed = match about.status {
                    BulkStatus::Queued | BulkStatus::Running => self.running.insert(about.bulk),
                    // One on no jobs is over as soon as it begins.
                    BulkStatus::Completed if about.total == 0 => true,
                    BulkStatus::Completed | BulkStatus::Failed | BulkStatus::Cancelled => {
                        self.running.remove(&about.bulk)
                    }
                };
                assert!(changed, "{event:?}: that is no change");
            }
            _ => unreachable!("it is about none of these"),
        }
    }

    fn queue(&mut self, event: &Event, about: &QueueEvent) {
        let queue = &event.queue;
        let changed = match about {
            QueueEvent::Paused { .. } => self.paused.insert(queue.clone()),
            QueueEvent::Resumed => self.paused.remove(queue),
            QueueEvent::Changed { fields } => !fields.is_empty(),
            QueueEvent::Removed => {
                self.paused.remove(queue);
                true
            }
        };
        assert!(changed, "{event:?}: that is no change");
    }

    /// The schedules that there are, as far as events told.
    pub fn schedules(&self) -> &BTreeSet<Name> {
        &self.schedules
    }
}
