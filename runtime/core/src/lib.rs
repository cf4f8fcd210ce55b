//! The rules: what a job is and how it moves from state to state.
//!
//! This crate makes every decision about a job. It does no IO, reads no clock, is not async and has no randomness of
//! its own: the time and a seed are arguments, and the answer is data. That is why a transition can be tested in a
//! line, and why the store's simulator can replay any history from its seed.
//!
//! The centre is [`decide`]. It takes a [`Command`] ("cancel this job"), the [`Facts`] that the store has loaded for it
//! (the job, its queue, the unique lock it names), the time and a seed. It returns a [`Decision`]: the rows to write,
//! the effects to carry out once they are durable, and the reply. A [`Refusal`] means that nothing changes.
//!
//! ```
//! use windlass_core::{Change, Command, Facts, NewJob, Queue, Reply, Runner, Settings, State, Time, decide};
//!
//! let mail = Queue {
//!     name: "mail".parse().expect("a valid name"),
//!     id: 1,
//!     created_at: Time::ZERO,
//!     settings: Settings::default(),
//!     counts: Default::default(),
//!     settings_by: None,
//! };
//!
//! // A new job is stored, and waits for somebody to run it.
//! let new = NewJob { queue: Some(mail.name.clone()), ..NewJob::default() };
//! let now = Time(1_000);
//! let stored = decide(Command::Enqueue(Box::new(new.check(now)?)), Facts::new(None, &mail), now, 7)?;
//! assert!(matches!(stored.reply, Reply::Stored { state: State::Pending, .. }));
//! let job = stored.changes.into_iter().find_map(|change| match change {
//!     Change::Job(job) => Some(*job),
//!     _ => None,
//! });
//!
//! // A worker takes it: the decision names the token with which it must report, and when its lease ends.
//! let runner = Runner::External { worker_id: "w1".into(), hostname: "build-3".into() };
//! let started = decide(Command::Start { runner, by: None }, Facts::new(job.clone(), &mail), Time(2_000), 8)?;
//! assert!(matches!(started.reply, Reply::Started { lease_expires_at: Some(_), .. }));
//!
//! // A job that waits for no approval cannot be approved: the refusal says so, and nothing changes.
//! assert!(decide(Command::Approve, Facts::new(job, &mail), Time(2_000), 9).is_err());
//! # Ok::<(), windlass_core::Refusal>(())
//! ```
//!
//! Where to read on: `job` (the states, what is stored, what is enqueued and what was found), `command` (what can be
//! asked, and the answer), `decide` (one file per group of transitions), `flow` (batches, chains, children,
//! dependencies, rounds), `plugin` (versions, canaries and grants), `limits`, `slots`, `retry`, `unique` and `schedule`
//! (one rule each), `report` (what many jobs say together).

pub mod access;
pub mod bounds;
mod bulk;
mod command;
mod decide;
mod event;
pub mod flow;
mod job;
pub mod limits;
mod name;
pub mod plugin;
pub mod quantity;
mod queue;
mod refusal;
pub mod report;
pub mod retry;
pub mod schedule;
mod server_event;
mod slots;
mod time;
mod trailing;
mod unique;
mod webhook;

pub use bulk::{Action, Bulk, BulkId, BulkStatus, Guard};
pub use command::{
    Change, Checkpoint, Command, Complete, Decision, Edit, Effect, Facts, Fail, Failure, HandBack, Heartbeat, Holder,
    Move, Reply, Retry, Wait,
};
pub use decide::{decide, next_watch};
pub use event::{Event, EventKind};
pub use job::agent::{Agent, AgentStatus, Closing, ModelUsage, ModelUsageTotals, StepStatus};
pub use job::body::{Blob, Body, BodyKind, BodyRef};
pub use job::findings::{Denial, Findings, LimitHits, LimitKind};
pub use job::id::{JobId, Token};
pub use job::new_job::{CheckedJob, NewJob};
pub use job::past_attempt::{AttemptOutcome, PastAttempt, queued_at};
pub use job::policy::{Backoff, BackoffKind, DEFAULT_LEASE, Policy, PolicyChoice, Priority};
pub use job::record::{NewMark, NewRecord, Notes, Record, check_key};
pub use job::{
    AfterStop, AttemptError, EndedAttempt, Job, Progress, Reason, Run, Runner, State, Step, Stop, Timeline, Usage,
};
pub use name::namespace::{AllowedQueues, DEFAULT_NAMESPACE, Namespace};
pub use name::queue_pattern;
pub use name::{Name, QueueName};
pub use plugin::{
    Canary, Choice, Digest, NewCanary, Plugin, PluginChange, PluginCommand, PluginEvent, PluginFacts,
    PluginHistoryEntry, PluginHistoryKind, Stopped, Swap, Version, Why, change as change_plugin, parse_digest,
    short as short_digest,
};
pub use queue::{Counts, Histogram, Queue, Retention, RetentionLimit, Settings};
pub use refusal::{JobAction, Refusal};
pub use server_event::{BulkEvent, QueueEvent, ScheduleEvent, ScheduleHappening, WorkerEvent, WorkerHappening};
pub use slots::{SlotShare, SlotsHeld};
pub use time::Time;
pub use unique::{DEFAULT_PERIOD, Lock, LockKey, Unique, UniqueScope, Until};
pub use webhook::{
    Delivery, DeliveryCause, DeliveryLog, InboundHook, InboundSettings, PreviousSecret, SignatureScheme,
    SigningSecrets, Webhook, WebhookEdit,
};
