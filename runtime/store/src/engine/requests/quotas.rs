//! What quotas say to requests that make more of something without enqueueing: settings, schedules and plugins of new
//! queues, moves, jobs that are taken up again, and larger payloads. The engine's own jobs, such as the next step of a
//! chain, are counted and never refused: they are part of work that was accepted.

use windlass_core::access::Used;
use windlass_core::{BodyKind, BodyRef, Command, JobId, NewJob, QueueName, Refusal, Reply};

use crate::disk::Disk;
use crate::engine::Engine;
use crate::engine::failure::Failure;

impl<D: Disk> Engine<D> {
    /// Refuses those of the queues that there are not yet, if they are too many.
    pub(crate) fn admit_queues<'a>(&self, named: impl IntoIterator<Item = &'a QueueName>) -> Result<(), Refusal> {
        self.quotas.admit_queues(named.into_iter().filter(|queue| !self.queues.contains(queue)))
    }

    /// Refuses a command after which a namespace would have more than it may.
    pub(crate) fn admit_command(&mut self, id: JobId, command: &Command) -> Result<(), Failure> {
        let (reopens, payload) = match command {
            Command::Move(target) => {
                self.admit_queues([&target.queue])?;
                (true, None)
            }
            Command::Retry | Command::Requeue | Command::Rebuild => (true, None),
            Command::RetryWith { payload } => (true, Some(payload)),
            Command::Edit(edit) if edit.payload.is_some() => (false, edit.payload.as_ref()),
            _ => return Ok(()),
        };
        let Some(job) = self.load(id)?.filter(|job| job.queue.prefix().is_some()) else { return Ok(()) };
        let (had, namespace) = (job.body(BodyKind::Payload).len(), job.queue.namespace());
        let more = Used {
            open_jobs: u64::from(reopens && job.is_ended()),
            stored_bytes: payload.map_or(0, |body| BodyRef::from(body).len().saturating_sub(had)),
            queues: 0,
        };
        Ok(self.quotas.admit_more(&namespace, more)?)
    }

    /// Stores a run of a schedule: nobody waits for it, so that it is refused like any other job.
    pub(crate) fn enqueue_scheduled(&mut self, new: NewJob) -> Result<Reply, Failure> {
        let checked = [new.check(self.now)?];
        self.quotas.admit(&checked, |queue| !self.queues.contains(queue))?;
        let [checked] = checked;
        self.enqueue_one(checked)
    }
}
