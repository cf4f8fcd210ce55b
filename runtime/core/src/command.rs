//! What can be asked of one job, what is known when it is asked, and what comes of it.

use core::time::Duration;

use crate::flow::{Chain, FailedChild, OnFailure, RoundFacts};
use crate::{
    AfterStop, AttemptError, Body, BodyKind, Closing, Event, Job, JobId, Lock, LockKey, ModelUsage, NewJob, NewMark,
    NewRecord, Notes, Plugin, Priority, Progress, Queue, Runner, State, Time, Token, Usage,
};

/// One thing asked of one job.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Enqueue(Box<NewJob>),
    /// A runner has been found for it.
    Start {
        runner: Runner,
    },
    Complete {
        holder: Holder,
        result: Option<Body>,
        usage: Usage,
        /// What else was said; nothing by most.
        closing: Option<Box<Closing>>,
        notes: Option<Box<Notes>>,
    },
    Fail {
        holder: Holder,
        failure: Failure,
        usage: Usage,
    },
    /// The attempt is over, and the job goes on when its children have ended: run again, with their results. Charged to
    /// nobody.
    Wait {
        holder: Holder,
        on_child_failure: OnFailure,
        checkpoint: Option<Checkpoint>,
        usage: Usage,
        notes: Option<Box<Notes>>,
    },
    /// The runner gives it back unfinished: shutdown, swap. Charged to nobody.
    HandBack {
        holder: Holder,
        reason: String,
        usage: Usage,
    },
    /// Another version of the plugin has taken over: the attempt is handed over at its next checkpoint or stopped by then;
    /// without a time, it is stopped now.
    Swap {
        by: Option<Time>,
    },
    /// A sign of life, with what it carries.
    Heartbeat {
        holder: Holder,
        progress: Option<Progress>,
        checkpoint: Option<Checkpoint>,
        spent: Option<Box<ModelUsage>>,
        /// Only with a checkpoint.
        notes: Option<Box<Notes>>,
    },

    Cancel {
        reason: String,
    },
    Retry,
    /// From the start, and all that is below it is removed first, so that it is made anew and nothing is doubled.
    Rebuild,
    Requeue,
    Move {
        queue: crate::QueueName,
        reset_attempts: bool,
        priority: Option<Priority>,
    },
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
    /// while the server itself was down nobody could send a heartbeat.
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
    /// An ancestor is rebuilt: all that is below it goes, then the job.
    Clear,
    /// Nothing is left below it.
    Cleared,
    /// All its children have ended.
    Joined,
    /// A child has failed, and its policy is to fail with it: this one, if it is known which, and so many more.
    ChildFailed {
        child: Option<Box<FailedChild>>,
        more: u64,
    },
    /// The process died while the attempt ran in it.
    Crash,
}

/// Who speaks for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The holder of this token.
    Token(Token),
    /// An external worker that sent none: counts for the job's only active external lease.
    Unsigned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub error: String,
    pub backtrace: Option<String>,
    pub retry: Retry,
}

/// What a failure says of the next attempt.
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
    /// What the attempt had taken by then, for the record if it ends here.
    pub usage: Usage,
}

/// What the store has loaded for a command, in this order.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The job the command is about; for an enqueue, a job that has the wanted id already.
    pub job: Option<Job>,
    /// Its queue; for an enqueue the queue it is meant for.
    pub queue: &'a Queue,
    /// The unique lock that the job names, if it is taken.
    pub lock: Option<Lock>,
    /// For a move: the lock of the same name where it goes, if it is taken.
    pub target_lock: Option<Lock>,
    /// The plugin that runs it or would; for an enqueue the one that serves the queue.
    pub plugin: Option<&'a Plugin>,
    /// How many children are committed together with this command.
    pub children: u32,
    /// For an enqueue: the jobs it depends on, and where they stand.
    pub dependencies: Vec<(JobId, State)>,
    /// Of its queue, when that has rounds.
    pub rounds: Option<RoundFacts>,
    /// For a move: those of the queue where it goes.
    pub target_rounds: Option<RoundFacts>,
    /// The bytes of the job's checkpoint, for a command that brings another to a job that has seen a crash, if they are small
    /// enough to lie inline.
    pub checkpoint: Option<Vec<u8>>,
}

impl<'a> Facts<'a> {
    /// What every command needs: the job, if there is one, and its queue. All else is absent.
    pub fn new(job: Option<Job>, queue: &'a Queue) -> Facts<'a> {
        Facts {
            job,
            queue,
            lock: None,
            target_lock: None,
            plugin: None,
            children: 0,
            dependencies: Vec::new(),
            rounds: None,
            target_rounds: None,
            checkpoint: None,
        }
    }
}

/// What a command comes to: all of it is committed, or nothing.
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
    /// The job and all that belongs to it.
    Remove(JobId),
    /// The same, of one that will be made anew: no number remembers it.
    Forget(JobId),
    /// A record under the job's own queue.
    Record {
        job: JobId,
        record: NewRecord,
    },
    Mark(NewMark),
    /// All records of the job go.
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
    /// The chain that a job begins.
    Chain {
        first: JobId,
        chain: Box<Chain>,
    },
    /// The job waits for the dependency; the store tells it when that has ended.
    Link {
        dependency: JobId,
        dependant: JobId,
    },
    Event(Event),
    /// A plugin whose canary was counted.
    Plugin(Box<Plugin>),
}

/// What the shell does after the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the local executor to stop this attempt.
    Stop { job: JobId, token: Token, why: AfterStop },
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
    /// The checkpoint is stored and the job is back in line: the attempt is over.
    HandedBack,
    Removed,
    /// Nothing to do: the clock was early or the job has moved on, or the word had been taken before.
    Unchanged,
}
