//! What a handler receives: its job, records, and requests to stop.

use std::fmt;
use std::time::Duration;

/// A job, as seen by one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The same in every attempt.
    pub id: String,
    pub queue: String,
    /// What the producer sent, byte for byte.
    pub payload: Vec<u8>,
    /// Counted from 1.
    pub attempt: u32,
    /// How many attempts may fail. `attempt` can be higher: an attempt that the server handed back does not count.
    pub max_attempts: u32,
    pub tags: Vec<(String, String)>,
    /// What the job is about, as `type:id`.
    pub scope: Option<String>,
    /// The round this job is in, if its queue has rounds.
    pub round: Option<u32>,
    /// When the job was enqueued, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// When this attempt times out, in milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

impl Job {
    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// A record: what a job has stored under a key of its queue, and the mark on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded<T> {
    pub value: T,
    pub mark: Option<String>,
}

/// The severity of a log line or a progress event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub reason: Reason,
    /// How long until the server ends the attempt by force.
    pub time_left: Duration,
}

/// Why an attempt is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The job was cancelled.
    User,
    /// The attempt reached its deadline.
    Timeout,
    /// The server is shutting down; the job runs again later, and the attempt does not count as a failure.
    Shutdown,
    /// A new version of the plugin takes over, and the attempt does not count as a failure.
    Swap,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::User => "user",
            Reason::Timeout => "timeout",
            Reason::Shutdown => "shutdown",
            Reason::Swap => "swap",
        })
    }
}
