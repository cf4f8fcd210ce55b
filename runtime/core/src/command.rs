//! What can be asked of a job, what the rules must know to decide it, and what they return.

use core::time::Duration;

use crate::flow::{Chain, FailedChild, OnFailure, RoundFacts};
use crate::{
    AfterStop, AttemptError, Body, BodyKind, CheckedJob, Closing, Event, Findings, Job, JobId, Lock, LockKey,
    ModelUsage, NewMark, NewRecord, Notes, PastAttempt, Plugin, Priority, Progress, Queue, QueueName, Refusal, Runner,
    State, Time, Token, Usage,
};

/// One thing asked of one job.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Enqueue(Box<CheckedJob>),
    /// A runner has been found for it.
    Start {
        runner: Runner,
        /// The key or the person that fetches it.
        by: Option<String>,
    },
    Complete(Complete),
    Fail(Fail),
    Wait(Wait),
    HandBack(HandBack),
    Heartbeat(Heartbeat),
    /// Another version of the plugin is active: the attempt is handed over at its next checkpoint, or stopped at this
    /// time; without a time, it is stopped now.
    Swap {
        by: Option<Time>,
    },

    Cancel {
        reason: String,
        /// How long the attempt may take before it is stopped by force; as long as usual, if it is not said.
        grace: Option<Duration>,
    },
    Retry,
    /// The same with another payload, from the start.
    RetryWith {
        payload: Body,
    },
    /// A scheduled or retrying job waits no longer for its time.
    RunNow,
    /// A job that waits is changed.
    Edit(Box<Edit>),
    /// Run from the start, after everything below it has been removed: its children are created again under the same
    /// ids.
    Rebuild,
    Requeue,
    Move(Move),
    Reprioritise {
        priority: Priority,
    },
    Hold {
        reason: String,
    },
    Approve,
    Reject {
        reason: String,
    },
    Delete,

    /// The clock: a scheduled or retrying job's time has come.
    Due,
    /// The clock: `expire_after` has passed.
    Expire,
    /// The clock: a lease or a time limit of the running attempt may have passed. Silence counts from `alive_from` on:
    /// while the server itself was down no heartbeat could arrive.
    Watch {
        alive_from: Time,
    },
    /// A job that this one depends on has ended.
    DependencyEnded {
        dependency: JobId,
        state: State,
    },
    /// Its round may run.
    RoundStarted,
    /// An ancestor is rebuilt: everything below this job is removed, then the job.
    RemoveSubtree,
    /// Nothing is left below it.
    SubtreeRemoved,
    /// All its children have ended.
    Joined,
    /// Children have failed, and the job's policy is to fail with them: one of them, if it is known which, and the
    /// number of others.
    ChildFailed {
        child: Option<Box<FailedChild>>,
        more: u64,
    },
    /// The process died while the attempt ran in it.
    Crash,
}

/// The attempt has succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Complete {
    pub holder: Holder,
    pub result: Option<Body>,
    pub usage: Usage,
    /// What agents and steps of chains report besides the result. Boxed, because most attempts report nothing.
    pub closing: Option<Box<Closing>>,
    pub notes: Option<Box<Notes>>,
}

/// The attempt has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    pub holder: Holder,
    pub failure: Failure,
    pub usage: Usage,
}

/// The attempt is over, and the job runs again when its children have ended, with their results. Neither a failure nor
/// a crash.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub holder: Holder,
    pub on_child_failure: OnFailure,
    pub checkpoint: Option<Checkpoint>,
    pub usage: Usage,
    pub notes: Option<Box<Notes>>,
}

/// The runner returns the job unfinished, at a shutdown or a swap. Neither a failure nor a crash.
#[derive(Clone, Debug, PartialEq)]
pub struct HandBack {
    pub holder: Holder,
    pub reason: String,
    pub usage: Usage,
}

/// A sign of life, with what it carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    pub holder: Holder,
    pub progress: Option<Progress>,
    pub checkpoint: Option<Checkpoint>,
    pub spent: Option<Box<ModelUsage>>,
    /// Only with a checkpoint.
    pub notes: Option<Box<Notes>>,
}

/// To another queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    pub queue: QueueName,
    pub reset_attempts: bool,
    pub priority: Option<Priority>,
}

/// What is changed of a job that waits. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    pub payload: Option<Body>,
    pub priority: Option<Priority>,
    /// When it is due; at once, if that is now or has passed.
    pub scheduled_at: Option<Time>,
    /// All of its tags.
    pub tags: Option<Vec<(String, String)>>,
    pub max_attempts: Option<u32>,
    /// Of the limits, `Some(None)` is none.
    pub attempt_timeout: Option<Option<Duration>>,
    pub stall_timeout: Option<Option<Duration>>,
    pub max_duration: Option<Option<Duration>>,
    /// Who changes it, for its timeline.
    pub by: String,
}

impl Complete {
    /// Without a result or anything else.
    pub fn by(holder: Holder) -> Complete {
        Complete { holder, result: None, usage: Usage::default(), closing: None, notes: None }
    }
}

impl Heartbeat {
    /// Refuses records without a checkpoint: whatever follows a crash would find records of steps that are done again.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.notes.is_some() && self.checkpoint.is_none() {
            let why = "records and marks come with a checkpoint or a result: send one with them";
            return Err(Refusal::invalid("records", why));
        }
        Ok(())
    }

    /// A sign of life and no more.
    pub fn by(holder: Holder) -> Heartbeat {
        Heartbeat { holder, progress: None, checkpoint: None, spent: None, notes: None }
    }
}

impl Command {
    /// The checkpoint that comes with it.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        match self {
            Command::Heartbeat(heartbeat) => heartbeat.checkpoint.as_ref(),
            Command::Wait(wait) => wait.checkpoint.as_ref(),
            Command::Complete(complete) => complete.closing.as_ref()?.checkpoint.as_ref(),
            _ => None,
        }
    }

    /// The records and marks that come with it.
    pub fn notes(&self) -> Option<&Notes> {
        match self {
            Command::Complete(Complete { notes, .. })
            | Command::Wait(Wait { notes, .. })
            | Command::Heartbeat(Heartbeat { notes, .. }) => notes.as_deref(),
            _ => None,
        }
    }
}

impl Command {
    /// What the audit log calls it; none for what runners and the clock do.
    pub fn audit_name(&self) -> Option<&'static str> {
        Some(match self {
            Command::Cancel { .. } => "job.cancel",
            Command::Retry | Command::RetryWith { .. } => "job.retry",
            Command::RunNow => "job.run_now",
            Command::Edit(_) => "job.edit",
            Command::Rebuild => "job.rebuild",
            Command::Requeue => "job.requeue",
            Command::Move(_) => "job.move",
            Command::Reprioritise { .. } => "job.change_priority",
            Command::Hold { .. } => "job.hold",
            Command::Approve => "job.approve",
            Command::Reject { .. } => "job.reject",
            Command::Delete => "job.delete",
            Command::Enqueue(_)
            | Command::Start { .. }
            | Command::Complete(_)
            | Command::Fail(_)
            | Command::Wait(_)
            | Command::HandBack(_)
            | Command::Heartbeat(_)
            | Command::Swap { .. }
            | Command::Due
            | Command::Expire
            | Command::Watch { .. }
            | Command::DependencyEnded { .. }
            | Command::RoundStarted
            | Command::RemoveSubtree
            | Command::SubtreeRemoved
            | Command::Joined
            | Command::ChildFailed { .. }
            | Command::Crash => return None,
        })
    }

    /// Who says it, if it is the word of whoever holds the lease.
    pub fn holder(&self) -> Option<Holder> {
        match self {
            Command::Complete(complete) => Some(complete.holder),
            Command::Fail(fail) => Some(fail.holder),
            Command::Wait(wait) => Some(wait.holder),
            Command::HandBack(hand_back) => Some(hand_back.holder),
            Command::Heartbeat(heartbeat) => Some(heartbeat.holder),
            _ => None,
        }
    }

    pub fn notes_mut(&mut self) -> Option<&mut Notes> {
        match self {
            Command::Complete(Complete { notes, .. })
            | Command::Wait(Wait { notes, .. })
            | Command::Heartbeat(Heartbeat { notes, .. }) => notes.as_deref_mut(),
            _ => None,
        }
    }
}

/// Who holds the lease, as far as a command shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Token(Token),
    /// An external worker that sent no token: taken for the holder of the job's external lease, of which there is one
    /// at most. Whether it has the key that fetched the job is checked where callers are known.
    Unsigned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub error: String,
    pub backtrace: Option<String>,
    pub retry: Retry,
}

/// What a failure asks for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// As the policy says.
    Backoff,
    After(Duration),
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub body: Body,
    pub schema: u32,
    /// What the attempt had used by then, for the timeline if it ends here.
    pub usage: Usage,
}

/// What the store has loaded for a command.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The job the command is about; for an enqueue, a job that has the wanted id already.
    pub job: Option<Job>,
    /// Its queue; for an enqueue the queue it is meant for.
    pub queue: &'a Queue,
    /// The unique lock that the job names, if it is taken.
    pub lock: Option<Lock>,
    /// For a move: the lock of the same name in the target queue, if it is taken.
    pub target_lock: Option<Lock>,
    /// The plugin that runs it or would; for an enqueue the one that serves the queue.
    pub plugin: Option<&'a Plugin>,
    /// How many children are committed together with this command.
    pub children: u32,
    /// What became apparent while the attempt ran that this command ends.
    pub findings: Option<Box<Findings>>,
    /// For an enqueue: the last id that was made from time and randomness.
    pub newest: JobId,
    /// For an enqueue: how many generations the job descends from.
    pub depth: u32,
    /// For an enqueue: the jobs it depends on, and where they stand.
    pub dependencies: Vec<(JobId, State)>,
    /// Of its queue, when that has rounds.
    pub rounds: Option<RoundFacts>,
    /// For a move: those of the target queue.
    pub target_rounds: Option<RoundFacts>,
    /// The bytes of the job's checkpoint, if they are stored inline: loaded for a command that brings another one to a
    /// job that has crashed, to see whether it made progress.
    pub checkpoint: Option<Vec<u8>>,
}

impl<'a> Facts<'a> {
    /// What every command needs: the job, if there is one, and its queue. Everything else is absent.
    pub fn new(job: Option<Job>, queue: &'a Queue) -> Facts<'a> {
        Facts {
            job,
            queue,
            lock: None,
            target_lock: None,
            plugin: None,
            children: 0,
            findings: None,
            newest: JobId::NONE,
            depth: 0,
            dependencies: Vec::new(),
            rounds: None,
            target_rounds: None,
            checkpoint: None,
        }
    }
}

/// The outcome of a command: all of it is committed, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub changes: Vec<Change>,
    pub effects: Vec<Effect>,
    pub reply: Reply,
}

/// A typed row change. Index entries and counts follow from the rows; the store derives them.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Job(Box<Job>),
    /// The job and everything that belongs to it.
    Remove(JobId),
    /// The same for a job that is created again by its parent's rebuild: its round does not count it as removed.
    Forget(JobId),
    /// A record under the job's own queue.
    Record {
        job: JobId,
        record: NewRecord,
    },
    Mark(NewMark),
    /// Deletes all records of the job.
    DropRecords(JobId),
    Body {
        job: JobId,
        kind: BodyKind,
        body: Option<Body>,
    },
    Lock {
        key: LockKey,
        lock: Option<Lock>,
    },
    Error {
        job: JobId,
        error: AttemptError,
    },
    /// An attempt that has ended. Without `replace`, one that is stored already stays as it is.
    Attempt {
        job: JobId,
        attempt: Box<PastAttempt>,
        replace: bool,
    },
    /// The chain that a job begins.
    Chain {
        first: JobId,
        chain: Box<Chain>,
    },
    /// The job waits for the dependency; the store sends `DependencyEnded` when that has ended.
    Link {
        dependency: JobId,
        dependant: JobId,
    },
    Event(Event),
    /// A plugin whose canary was counted.
    Plugin(Box<Plugin>),
}

/// What is done outside the store, after the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the local executor to stop this attempt, within this time if somebody has said one.
    Stop { job: JobId, token: Token, why: AfterStop, grace: Option<Duration> },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Stored {
        id: JobId,
        state: State,
    },
    /// The unique key is taken by this job; nothing was stored.
    Duplicate {
        id: JobId,
    },
    Started {
        token: Token,
        lease_expires_at: Option<Time>,
    },
    /// Where the job stands now.
    Now {
        state: State,
        next_attempt_at: Option<Time>,
        runs_left: u32,
    },
    /// The attempt has been asked to stop.
    Stopping,
    Heartbeat {
        stop: Option<AfterStop>,
        lease_expires_at: Option<Time>,
    },
    /// The checkpoint is stored and the job is pending again: the attempt is over.
    HandedBack,
    Removed,
    /// Nothing to do: the clock was early, the state has changed meanwhile, or the command is a repetition.
    Unchanged,
}
