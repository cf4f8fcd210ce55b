//! The rules: what a job is and how it moves.
//!
//! This crate owns every decision about a job. It does no IO, reads no clock, is not async and has no randomness of its
//! own: `now` and a seed are handed in, and what comes back is data. The store calls [`decide`] and carries out what it
//! says, in one atomic batch.

mod agent;
mod body;
pub mod bounds;
mod bulk;
mod command;
mod decide;
mod event;
pub mod flow;
mod id;
mod job;
pub mod limits;
mod name;
pub mod plugin;
mod policy;
pub mod quantity;
mod queue;
pub mod queue_pattern;
mod record;
mod refusal;
pub mod retry;
pub mod schedule;
mod time;
mod unique;
mod webhook;

pub use agent::{Agent, AgentStatus, Closing, ModelUsage, ModelUsageTotals, StepStatus};
pub use body::{Blob, Body, BodyKind, BodyRef};
pub use bulk::{Action, Bulk, BulkId, BulkStatus, Guard};
pub use command::{Change, Checkpoint, Command, Decision, Effect, Facts, Failure, Holder, Reply, Retry};
pub use decide::{decide, next_watch};
pub use event::{Event, EventKind};
pub use id::{JobId, Token};
pub use job::{
    AfterStop, AttemptError, EndedAttempt, Job, NewJob, Progress, Reason, Run, Runner, State, Step, Stop, Timeline,
    Usage,
};
pub use name::{Name, QueueName};
pub use plugin::{
    Canary, Choice, Digest, NewCanary, Plugin, PluginChange, PluginCommand, PluginEvent, PluginFacts,
    PluginHistoryEntry, PluginHistoryKind, Stopped, Swap, Version, Why, change as change_plugin, parse_digest,
    short as short_digest,
};
pub use policy::{Backoff, BackoffKind, DEFAULT_LEASE, Policy, PolicyChoice, Priority};
pub use queue::{Counts, Histogram, Queue, Retention, RetentionLimit, Settings};
pub use record::{NewMark, NewRecord, Notes, Record, check_key};
pub use refusal::Refusal;
pub use time::Time;
pub use unique::{DEFAULT_PERIOD, Lock, LockKey, Unique, UniqueScope, Until};
pub use webhook::Webhook;
