//! Every operation of the engine: what is asked, what it costs, what it does and what it answers.

use std::sync::Arc;

use windlass_core::flow::{Batch, NewBatch};
use windlass_core::{
    Body, Bulk, Command, Findings, JobId, Name, NewJob, Notes, Plugin, PluginCommand, QueueName, Reply, Settings,
    WorkerEvent,
};

use crate::disk::{Disk, DiskError};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::engine::requests::bulk::BulkChange;
use crate::engine::requests::operation::{Answer, Cost, Operation};
use crate::{BatchMade, Caller, Enqueued, Error, InboundChange, LogLine, ScheduleChange, SecretChange, WebhookChange};

/// Stores all of the jobs, or none.
pub struct Enqueue {
    pub jobs: Vec<NewJob>,
}

impl<D: Disk> Operation<D> for Enqueue {
    type Answer = Vec<Enqueued>;

    fn cost(&self) -> Cost {
        of_jobs(&self.jobs)
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<Vec<Enqueued>>) -> Result<(), DiskError> {
        let done = engine.enqueue(self.jobs);
        engine.release.settle(answer, done)
    }
}

/// A new batch with its first members; `seal` closes it at once.
pub struct MakeBatch {
    pub batch: NewBatch,
    pub jobs: Vec<NewJob>,
    pub seal: bool,
}

impl<D: Disk> Operation<D> for MakeBatch {
    type Answer = BatchMade;

    fn cost(&self) -> Cost {
        of_jobs(&self.jobs)
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<BatchMade>) -> Result<(), DiskError> {
        let done = engine.make_batch(self.batch, self.jobs, self.seal);
        engine.release.settle(answer, done)
    }
}

/// Closes a batch: no more jobs join it. Answered when it is known whether that fired its callback.
pub struct Seal {
    pub batch: String,
    pub caller: Option<Arc<Caller>>,
}

impl<D: Disk> Operation<D> for Seal {
    type Answer = Batch;

    fn start(self, engine: &mut Engine<D>, answer: Answer<Batch>) -> Result<(), DiskError> {
        engine.seal(self.batch, self.caller.as_deref(), answer)
    }
}

/// One thing of one job. Children are stored together with what they come with, or not at all.
pub struct Ask {
    pub job: JobId,
    pub command: Command,
    pub children: Vec<NewJob>,
    /// What became apparent while the attempt ran that the command ends.
    pub findings: Option<Box<Findings>>,
    pub caller: Option<Arc<Caller>>,
}

impl<D: Disk> Operation<D> for Ask {
    type Answer = Reply;

    fn audit(&self) -> Option<(&'static str, String)> {
        Some((self.command.audit_name()?, self.job.to_string()))
    }

    fn cost(&self) -> Cost {
        Cost { commands: 1, bytes: of_command(&self.command) + of_jobs(&self.children).bytes }
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<Reply>) -> Result<(), DiskError> {
        let allowed = engine.check_caller(self.caller.as_deref(), self.job, &self.command);
        let done =
            allowed.and_then(|()| engine.ask_with_children(self.job, self.command, (self.children, self.findings)));
        engine.release.settle(answer, done)
    }
}

/// One thing each of many jobs; one refused does not touch the others.
pub struct AskEach {
    pub asks: Vec<(JobId, Command)>,
    pub caller: Option<Arc<Caller>>,
}

impl<D: Disk> Operation<D> for AskEach {
    type Answer = Vec<Result<Reply, Error>>;

    fn cost(&self) -> Cost {
        Cost { commands: self.asks.len(), bytes: self.asks.iter().map(|(_, command)| of_command(command)).sum() }
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<Self::Answer>) -> Result<(), DiskError> {
        let mut replies = Vec::with_capacity(self.asks.len());
        for (job, command) in self.asks {
            let allowed = engine.check_caller(self.caller.as_deref(), job, &command);
            replies.push(match allowed.and_then(|()| engine.ask(job, command)) {
                Ok(reply) => Ok(reply),
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Disk(error)) => return engine.release.settle(answer, Err(error.into())),
            });
        }
        engine.release.push(answer, Ok(replies));
        Ok(())
    }
}

/// Lines of a job's log.
pub struct Log {
    pub job: JobId,
    pub lines: Vec<LogLine>,
}

impl<D: Disk> Operation<D> for Log {
    type Answer = ();

    fn cost(&self) -> Cost {
        Cost { commands: 1, bytes: self.lines.iter().map(|line| line.text.len() + 16).sum() }
    }

    fn start(self, engine: &mut Engine<D>, _: Answer<()>) -> Result<(), DiskError> {
        engine.add_log(self.job, self.lines)
    }
}

/// Changes the settings of a queue, making the queue if need be.
pub struct Configure {
    pub queue: QueueName,
    pub change: SettingsChange,
    /// The key or the person that asks.
    pub by: Option<String>,
}

pub type SettingsChange = Box<dyn FnOnce(&mut Settings) + Send>;

impl<D: Disk> Operation<D> for Configure {
    type Answer = Settings;

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(("queue.configure", self.queue.to_string()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<Settings>) -> Result<(), DiskError> {
        let value = engine.configure(self.queue, self.change, self.by);
        engine.release.push(answer, value);
        Ok(())
    }
}

/// Removes the pending and scheduled jobs of a queue, step by step; answered with their number at the end.
pub struct Clear {
    pub queue: QueueName,
}

impl<D: Disk> Operation<D> for Clear {
    type Answer = u64;

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(("queue.clear", self.queue.to_string()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<u64>) -> Result<(), DiskError> {
        engine.begin_clear(self.queue, answer)
    }
}

/// Removes a queue and all its jobs, step by step; answered with their number at the end.
pub struct RemoveQueue {
    pub queue: QueueName,
}

impl<D: Disk> Operation<D> for RemoveQueue {
    type Answer = u64;

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(("queue.remove", self.queue.to_string()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<u64>) -> Result<(), DiskError> {
        engine.begin_remove_queue(self.queue, answer)
    }
}

/// Puts what happened to a worker into the stream of events. Workers themselves are not stored.
pub struct TellOfWorker {
    pub queue: QueueName,
    pub event: WorkerEvent,
}

impl<D: Disk> Operation<D> for TellOfWorker {
    type Answer = ();

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        engine.tell_of_worker(self.event.event(&self.queue, engine.now));
        engine.release.push(answer, Ok(()));
        Ok(())
    }
}

/// Pauses everything, or resumes it.
pub struct SetPaused(pub bool);

impl<D: Disk> Operation<D> for SetPaused {
    type Answer = ();

    fn audit(&self) -> Option<(&'static str, String)> {
        Some((if self.0 { "server.pause" } else { "server.resume" }, String::new()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        if self.0 {
            engine.pause()
        } else {
            engine.resume()
        }
        engine.release.push(answer, Ok(()));
        Ok(())
    }
}

/// One thing of one plugin; answered with what it is then, if it still is.
pub struct ChangePlugin {
    pub name: Name,
    pub command: PluginCommand,
    /// The key or the person that asks.
    pub by: Option<String>,
}

impl<D: Disk> Operation<D> for ChangePlugin {
    type Answer = Option<Plugin>;

    fn audit(&self) -> Option<(&'static str, String)> {
        Some((self.command.audit_name(), self.name.to_string()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<Option<Plugin>>) -> Result<(), DiskError> {
        let done = engine.change_plugin(&self.name, self.command, self.by);
        engine.release.settle(answer, done)
    }
}

impl<D: Disk> Operation<D> for SecretChange {
    type Answer = ();

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(match self {
            SecretChange::Put { name, .. } => ("secret.set", name.to_string()),
            SecretChange::Remove { name } => ("secret.remove", name.to_string()),
        })
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        let done = engine.change_secret(self);
        engine.release.settle(answer, done)
    }
}

impl<D: Disk> Operation<D> for ScheduleChange {
    type Answer = ();

    fn audit(&self) -> Option<(&'static str, String)> {
        let action = match self {
            ScheduleChange::Put { replace: false, .. } => "schedule.create",
            ScheduleChange::Put { .. } => "schedule.update",
            ScheduleChange::Pause { paused: true, .. } => "schedule.pause",
            ScheduleChange::Pause { .. } => "schedule.resume",
            ScheduleChange::RunNow { .. } => "schedule.run",
            ScheduleChange::Remove { .. } => "schedule.remove",
        };
        Some((action, self.name().to_string()))
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        let done = engine.change_schedule(self);
        engine.release.settle(answer, done)
    }
}

impl<D: Disk> Operation<D> for WebhookChange {
    type Answer = ();

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(match self {
            WebhookChange::Add(hook) => ("webhook.create", hook.id.clone()),
            WebhookChange::Edit { id, .. } => ("webhook.edit", id.clone()),
            WebhookChange::Rotate { id, .. } => ("webhook.rotate_secret", id.clone()),
            WebhookChange::Remove { id } => ("webhook.remove", id.clone()),
            WebhookChange::Delivered { .. } | WebhookChange::Tried { .. } => return None,
        })
    }

    fn cost(&self) -> Cost {
        match self {
            WebhookChange::Delivered { deliveries, .. } => {
                Cost { commands: 1, bytes: Cost::SMALL.bytes * (1 + deliveries.len()) }
            }
            _ => Cost::SMALL,
        }
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        let done = engine.change_webhook(self);
        engine.release.settle(answer, done)
    }
}

impl<D: Disk> Operation<D> for InboundChange {
    type Answer = ();

    fn audit(&self) -> Option<(&'static str, String)> {
        Some(match self {
            InboundChange::Set { queue, .. } => ("inbound-webhook.set", queue.to_string()),
            InboundChange::Remove { queue } => ("inbound-webhook.remove", queue.to_string()),
        })
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        let done = engine.change_inbound(self);
        engine.release.push(answer, done.map_err(Error::from));
        Ok(())
    }
}

impl<D: Disk> Operation<D> for BulkChange {
    type Answer = Bulk;

    fn audit(&self) -> Option<(&'static str, String)> {
        match self {
            BulkChange::Begin { action, jobs, .. } => Some((action.audit_name(), format!("{} jobs", jobs.len / 16))),
            BulkChange::Cancel { id } => Some(("bulk.cancel", id.to_string())),
            BulkChange::Step { .. } | BulkChange::Fail { .. } => None,
        }
    }

    fn cost(&self) -> Cost {
        match self {
            BulkChange::Step { jobs, .. } => Cost { commands: jobs.len(), bytes: jobs.len() * Cost::SMALL.bytes },
            _ => Cost::SMALL,
        }
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<Bulk>) -> Result<(), DiskError> {
        let done = engine.change_bulk(self);
        engine.release.settle(answer, done)
    }
}

fn of_jobs(jobs: &[NewJob]) -> Cost {
    let payload = |job: &NewJob| match &job.payload {
        Some(Body::Inline(bytes)) => bytes.len(),
        _ => 0,
    };
    Cost { commands: jobs.len(), bytes: jobs.iter().map(|job| payload(job) + Cost::SMALL.bytes).sum() }
}

fn of_command(command: &Command) -> usize {
    Cost::SMALL.bytes + command.notes().map_or(0, Notes::weight)
}
