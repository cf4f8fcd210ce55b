//! What a handler is told: its job, and a request to stop.

use std::fmt;
use std::time::Duration;

/// One job, as one attempt sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The same in every attempt.
    pub id: String,
    pub queue: String,
    /// What the producer sent, byte for byte.
    pub payload: Vec<u8>,
    /// Counted from 1.
    pub attempt: u32,
    /// How many attempts may fail. `attempt` can be higher: one that the server handed back is not counted.
    pub max_attempts: u32,
    pub tags: Vec<(String, String)>,
    /// What the job is about, as `type:id`.
    pub scope: Option<String>,
    /// Milliseconds since 1970.
    pub created_at_ms: u64,
    /// When this attempt will be stopped, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
}

impl Job {
    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// What a job has recorded under a key, and the mark that somebody has put on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded<T> {
    pub value: T,
    pub mark: Option<String>,
}

/// How serious a log line or a progress event is.
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
    /// After this the attempt is stopped dead.
    pub time_left: Duration,
}

/// Why an attempt is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Somebody cancelled the job.
    User,
    /// The attempt has used up its time.
    Timeout,
    /// The server is going down; the job goes on later, at no charge.
    Shutdown,
    /// A new version of the plugin takes over, at no charge.
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
