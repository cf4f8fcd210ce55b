//! What travels between the handle and the engine's thread.

use tokio::sync::oneshot;
use windlass_core::flow::{Batch, NewBatch};
use windlass_core::{Bulk, Command, JobId, Name, NewJob, Plugin, PluginCommand, QueueName, Reply, Settings, Time};

use crate::engine::bulk::BulkChange;
use crate::{Assignment, BatchMade, Claim, Enqueued, Error, LogLine, ScheduleChange, SecretChange, WebhookChange};

pub type Answer<T> = oneshot::Sender<Result<T, Error>>;
pub type SettingsChange = Box<dyn FnOnce(&mut Settings) + Send>;

/// A wish, with where to send the answer.
#[allow(clippy::large_enum_variant, reason = "the large one is nearly every request: a box for each would cost more")]
pub enum Request {
    Enqueue {
        jobs: Vec<NewJob>,
        answer: Answer<Vec<Enqueued>>,
    },
    /// A new batch, with its first members.
    MakeBatch {
        batch: NewBatch,
        jobs: Vec<NewJob>,
        seal: bool,
        answer: Answer<BatchMade>,
    },
    Seal {
        batch: String,
        answer: Answer<Batch>,
    },
    /// `ticket` names the waiting claim, so that it can be taken back.
    Claim {
        ticket: u64,
        claim: Claim,
        deadline: Time,
        answer: Answer<Vec<Assignment>>,
    },
    /// The caller has gone.
    Forget {
        ticket: u64,
    },
    /// Claims whose caller went away after they were made.
    GiveBack {
        assignments: Vec<Assignment>,
    },
    Ask {
        job: JobId,
        command: Command,
        children: Vec<NewJob>,
        answer: Answer<Reply>,
    },
    AskEach {
        asks: Vec<(JobId, Command)>,
        answer: Answer<Vec<Result<Reply, Error>>>,
    },
    Log {
        job: JobId,
        lines: Vec<LogLine>,
    },
    Configure {
        queue: QueueName,
        change: SettingsChange,
        answer: Answer<Settings>,
    },
    Clear {
        queue: QueueName,
        answer: Answer<u64>,
    },
    RemoveQueue {
        queue: QueueName,
        answer: Answer<u64>,
    },
    Plugin {
        name: Name,
        command: Box<PluginCommand>,
        answer: Answer<Option<Plugin>>,
    },
    Secret {
        change: SecretChange,
        answer: Answer<()>,
    },
    Schedule {
        change: ScheduleChange,
        answer: Answer<()>,
    },
    Bulk {
        change: BulkChange,
        answer: Answer<Bulk>,
    },
    Webhook {
        change: WebhookChange,
        answer: Answer<()>,
    },
    /// Pause everything, or resume it.
    Pause {
        paused: bool,
        answer: Answer<()>,
    },
    /// Look whether the folder is still there and the database takes writes.
    Check,
    /// Commit what there is, then stop.
    Close {
        answer: oneshot::Sender<()>,
    },
}

impl Request {
    /// Bytes it brings into a commit.
    pub fn weight(&self) -> usize {
        let inline = |new: &NewJob| match &new.payload {
            Some(windlass_core::Body::Inline(bytes)) => bytes.len() + 256,
            _ => 256,
        };
        let notes = |command: &Command| {
            let notes = match command {
                Command::Complete { notes, .. } | Command::Wait { notes, .. } | Command::Beat { notes, .. } => {
                    notes.as_ref()
                }
                _ => None,
            };
            256 + notes.map_or(0, |notes| notes.weight())
        };
        match self {
            Request::Enqueue { jobs, .. } | Request::MakeBatch { jobs, .. } => jobs.iter().map(inline).sum(),
            Request::Ask { command, children, .. } => notes(command) + children.iter().map(inline).sum::<usize>(),
            Request::AskEach { asks, .. } => asks.iter().map(|(_, command)| notes(command)).sum(),
            Request::Bulk { change: BulkChange::Step { jobs, .. }, .. } => jobs.len() * 256,
            Request::Log { lines, .. } => lines.iter().map(|line| line.text.len() + 16).sum(),
            _ => 256,
        }
    }

    /// How many commands it counts for.
    pub fn commands(&self) -> usize {
        match self {
            Request::Enqueue { jobs, .. } | Request::MakeBatch { jobs, .. } => jobs.len(),
            Request::AskEach { asks, .. } => asks.len(),
            Request::Bulk { change: BulkChange::Step { jobs, .. }, .. } => jobs.len(),
            _ => 1,
        }
    }

    /// Answers that nothing was done.
    pub fn refuse(self, error: Error) {
        match self {
            Request::Enqueue { answer, .. } => drop(answer.send(Err(error))),
            Request::MakeBatch { answer, .. } => drop(answer.send(Err(error))),
            Request::Seal { answer, .. } => drop(answer.send(Err(error))),
            Request::Claim { answer, .. } => drop(answer.send(Err(error))),
            Request::Ask { answer, .. } => drop(answer.send(Err(error))),
            Request::AskEach { answer, .. } => drop(answer.send(Err(error))),
            Request::Configure { answer, .. } => drop(answer.send(Err(error))),
            Request::Clear { answer, .. } | Request::RemoveQueue { answer, .. } => drop(answer.send(Err(error))),
            Request::Plugin { answer, .. } => drop(answer.send(Err(error))),
            Request::Secret { answer, .. }
            | Request::Schedule { answer, .. }
            | Request::Webhook { answer, .. }
            | Request::Pause { answer, .. } => drop(answer.send(Err(error))),
            Request::Bulk { answer, .. } => drop(answer.send(Err(error))),
            Request::Close { answer } => drop(answer.send(())),
            Request::Forget { .. } | Request::GiveBack { .. } | Request::Log { .. } | Request::Check => {}
        }
    }
}

/// An answer that waits for the commit.
pub enum Outgoing {
    Enqueued(Answer<Vec<Enqueued>>, Result<Vec<Enqueued>, Error>),
    BatchMade(Answer<BatchMade>, Result<BatchMade, Error>),
    Batch(Answer<Batch>, Box<Result<Batch, Error>>),
    Assigned(Answer<Vec<Assignment>>, Vec<Assignment>),
    Reply(Answer<Reply>, Result<Reply, Error>),
    Replies(Answer<Vec<Result<Reply, Error>>>, Vec<Result<Reply, Error>>),
    Settings(Answer<Settings>, Box<Result<Settings, Error>>),
    Count(Answer<u64>, Result<u64, Error>),
    Done(Answer<()>, Result<(), Error>),
    Bulk(Answer<Bulk>, Box<Result<Bulk, Error>>),
    Plugin(Answer<Option<Plugin>>, Box<Result<Option<Plugin>, Error>>),
    Closed(oneshot::Sender<()>),
}

impl Outgoing {
    /// Sends it; answers with the claims nobody was there to take.
    pub fn send(self) -> Vec<Assignment> {
        match self {
            Outgoing::Enqueued(answer, value) => drop(answer.send(value)),
            Outgoing::BatchMade(answer, value) => drop(answer.send(value)),
            Outgoing::Batch(answer, value) => drop(answer.send(*value)),
            Outgoing::Assigned(answer, value) => {
                if let Err(Ok(lost)) = answer.send(Ok(value)) {
                    return lost;
                }
            }
            Outgoing::Reply(answer, value) => drop(answer.send(value)),
            Outgoing::Replies(answer, value) => drop(answer.send(Ok(value))),
            Outgoing::Settings(answer, value) => drop(answer.send(*value)),
            Outgoing::Count(answer, value) => drop(answer.send(value)),
            Outgoing::Done(answer, value) => drop(answer.send(value)),
            Outgoing::Bulk(answer, value) => drop(answer.send(*value)),
            Outgoing::Plugin(answer, value) => drop(answer.send(*value)),
            Outgoing::Closed(answer) => drop(answer.send(())),
        }
        Vec::new()
    }

    /// The commit failed: whether it was stored is not known.
    pub fn fail(self, error: Error) {
        match self {
            Outgoing::Enqueued(answer, _) => drop(answer.send(Err(error))),
            Outgoing::BatchMade(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Batch(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Assigned(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Reply(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Replies(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Settings(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Count(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Done(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Bulk(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Plugin(answer, _) => drop(answer.send(Err(error))),
            Outgoing::Closed(answer) => drop(answer.send(())),
        }
    }
}
