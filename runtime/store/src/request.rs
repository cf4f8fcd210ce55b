//! What callers pass to the store, and what it returns.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::flow::{Round, RoundsState};
use windlass_core::schedule::Schedule;
use windlass_core::{
    AttemptError, Delivery, Event, InboundSettings, Job, JobId, Name, PastAttempt, Queue, QueueName, State, Time,
    Token, Webhook, WebhookEdit,
};

use crate::limits;

/// A request for jobs to run.
#[derive(Clone, Debug)]
pub struct Claim {
    pub by: By,
    /// The queues to take from. For a local claim, empty means every queue that a plugin serves.
    pub queues: Vec<QueueName>,
    pub count: usize,
    /// How long to wait for the first job. Zero answers at once.
    pub wait: Duration,
}

/// Who will run what is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// This process: the engine names the plugin and its active version.
    Local,
    Worker {
        worker_id: String,
        hostname: String,
    },
}

/// A claimed job: durable before anybody sees it.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub job: Job,
    pub token: Token,
    /// The queues that the job's plugin served when it was claimed; empty for an external worker.
    pub served: Vec<QueueName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    pub id: JobId,
    /// The state of the stored job; for a duplicate, of the job that was there.
    pub state: State,
    pub duplicate: bool,
}

/// A new batch, and its first members in the order they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMade {
    pub id: String,
    pub jobs: Vec<Enqueued>,
}

/// A job at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linked {
    pub id: JobId,
    /// Its state; its last state when it was removed.
    pub state: Option<State>,
}

/// A queue as it stands.
#[derive(Clone, Debug)]
pub struct QueueView {
    pub queue: Queue,
    /// The plugin that serves it; `None`: external workers fetch from it.
    pub served_by: Option<Name>,
    pub oldest_pending_at: Option<Time>,
    /// Where it is, when it runs level by level.
    pub rounds: Option<RoundsView>,
}

/// Where a queue with rounds is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundsView {
    pub course: RoundsState,
    /// What its round waits for, as a sentence.
    pub waits_for: Option<String>,
}

/// The numbers of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundRow {
    pub number: u32,
    pub round: Round,
}

/// Which jobs of a queue are taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepFor {
    /// The dead ones.
    pub failed: bool,
    /// Those whose records are marked.
    pub marked: bool,
    pub cancelled: bool,
}

/// An event with its place in the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    pub seq: u64,
    pub event: Event,
}

/// Which event numbers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventBounds {
    /// The oldest that is still stored: those before it were deleted.
    pub from: u64,
    /// The next number that will be assigned.
    pub reserved: u64,
}

/// One line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub at: Time,
    pub attempt: u32,
    /// `stdout`, `stderr`, or the level a handler gave.
    pub level: String,
    pub text: String,
}

/// Lines of a job's log as they are written, ahead of the disk. Should the disk fail or the process die, their numbers
/// are given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    pub job: JobId,
    /// The number of the first line; the others follow without a gap.
    pub first: u64,
    pub lines: Vec<LogLine>,
}

/// How much disk space the database uses, in bytes. Large bodies and components are files beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub tables: u64,
    pub journals: u64,
}

impl DiskUse {
    pub fn total(self) -> u64 {
        self.tables + self.journals
    }
}

/// Jobs that belong to an answer and could not be read, because a file of the store is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    pub count: u64,
    /// The first of them.
    pub ids: Vec<JobId>,
    /// What is damaged and what can be done about it, as the first of them shows it.
    pub why: Option<String>,
}

impl Unreadable {
    pub fn add(&mut self, id: JobId, why: impl std::fmt::Display) {
        self.merge(Unreadable { count: 1, ids: vec![id], why: Some(why.to_string()) });
    }

    pub fn merge(&mut self, other: Unreadable) {
        self.count += other.count;
        self.ids.extend(other.ids);
        self.ids.truncate(limits::UNREADABLE);
        if self.why.is_none() {
            self.why = other.why;
        }
    }
}

/// A plain list of jobs.
#[derive(Clone, Debug, Default)]
pub struct JobList {
    pub queue: Option<QueueName>,
    pub state: Option<State>,
    pub limit: usize,
    pub offset: usize,
}

/// What is stored of an attempt that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptRow {
    /// Which claim of the job it was.
    pub number: u32,
    pub past: Option<PastAttempt>,
    pub error: Option<AttemptError>,
}

/// An attempt that runs in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAttempt {
    pub job: JobId,
    pub plugin: Name,
    /// The digest in hexadecimal.
    pub version: String,
}

/// A secret as it is stored: encrypted by the server, and opaque here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRow {
    pub name: Name,
    pub encrypted: Vec<u8>,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Clone, Debug)]
pub enum SecretChange {
    Put { name: Name, encrypted: Vec<u8> },
    Remove { name: Name },
}

/// Where a ciphertext of the server's is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptedRow {
    Secret(Name),
    Webhook(String),
    InboundHook(QueueName),
    /// A data key, by its id.
    DataKey(u32),
}

/// A ciphertext that takes the place of another one, of the same text under another key.
#[derive(Clone, Debug)]
pub struct NewCiphertext {
    pub row: EncryptedRow,
    /// It is replaced only if this is what is stored.
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

/// A step in the rotation of a key; answers how many ciphertexts were replaced.
#[derive(Clone, Debug)]
pub struct EncryptedAnew {
    /// What the audit log says of it.
    pub note: String,
    pub rows: Vec<NewCiphertext>,
}

impl EncryptedAnew {
    /// A step that replaces nothing.
    pub fn note(note: String) -> EncryptedAnew {
        EncryptedAnew { note, rows: Vec::new() }
    }
}

impl std::fmt::Display for EncryptedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EncryptedRow::Secret(name) => write!(f, "the secret `{name}`"),
            EncryptedRow::Webhook(id) => write!(f, "the webhook `{id}`"),
            EncryptedRow::InboundHook(queue) => write!(f, "the inbound webhook of queue `{queue}`"),
            EncryptedRow::DataKey(id) => write!(f, "data key {id}"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum WebhookChange {
    /// A new one. It gets the events from now on.
    Add(Box<Webhook>),
    Edit {
        id: String,
        edit: WebhookEdit,
    },
    /// A new secret; deliveries are also signed with the previous one for as long as `keep`.
    Rotate {
        id: String,
        encrypted: Vec<u8>,
        keep: Duration,
    },
    Remove {
        id: String,
    },
    /// Events have been delivered, or given up.
    Delivered {
        id: String,
        up_to: u64,
        delivered: u64,
        failed: u64,
        last_error: Option<String>,
        /// The attempts that have not been stored yet.
        deliveries: Vec<Delivery>,
    },
    /// An attempt that says nothing of how far the webhook is: one that is tried again, or that somebody asked for.
    Tried {
        id: String,
        delivery: Delivery,
    },
}

impl WebhookChange {
    /// The webhook that must be there.
    pub(crate) fn known(&self) -> Option<&String> {
        match self {
            WebhookChange::Add(_) => None,
            WebhookChange::Edit { id, .. }
            | WebhookChange::Rotate { id, .. }
            | WebhookChange::Remove { id }
            | WebhookChange::Delivered { id, .. }
            | WebhookChange::Tried { id, .. } => Some(id),
        }
    }
}

#[derive(Clone, Debug)]
pub enum InboundChange {
    Set { queue: QueueName, settings: InboundSettings },
    Remove { queue: QueueName },
}

#[derive(Clone, Debug)]
pub enum ScheduleChange {
    /// Stores it as given; `replace` says whether one of that name may exist.
    Put {
        schedule: Box<Schedule>,
        replace: bool,
    },
    Pause {
        name: Name,
        paused: bool,
    },
    RunNow {
        name: Name,
    },
    Remove {
        name: Name,
    },
}

impl ScheduleChange {
    /// The schedule it is about.
    pub(crate) fn name(&self) -> &Name {
        match self {
            ScheduleChange::Put { schedule, .. } => &schedule.name,
            ScheduleChange::Pause { name, .. } | ScheduleChange::RunNow { name } | ScheduleChange::Remove { name } => {
                name
            }
        }
    }

    /// Whether no schedule of the name may exist yet.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, ScheduleChange::Put { replace: false, .. })
    }
}
