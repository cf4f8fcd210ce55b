//! `windlass.toml`: what a plugin serves, what it needs, and what it asks for.
//!
//! Plain data, as users write it, and the checks that need no more than the text itself. Asking gives nothing: what
//! counts is what [`grant::effective`](crate::plugin::grant::effective) leaves of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plugin::egress::HostPattern;
use crate::plugin::payload_schema::PayloadSchema;
use crate::quantity::{Size, Span};
use crate::queue_pattern::QueuePattern;
use crate::{BackoffKind, Name, PolicyChoice, QueueName, Refusal, bounds};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Manifest {
    /// The queues it serves. Without any, the queue of its own name.
    pub queues: Vec<QueueName>,
    /// How many more jobs an instance may serve after its first. 0, the default: a fresh instance for every attempt.
    pub reuse: u32,
    pub retry: Retry,
    pub limits: Limits,
    /// Values that the guest reads with `config.get`. Not for secrets: they are shown to whoever may see the plugin.
    pub config: BTreeMap<String, String>,
    pub capabilities: Capabilities,
    /// The schemas of checkpoints that this version can continue from. Absent: any. A job whose checkpoint has another
    /// one stays with the version that saved it.
    pub schemas: Option<Vec<u32>>,
    /// What the payloads of its jobs look like, for people who write one.
    pub payload: Option<PayloadSchema>,
    /// How its author makes the component. The server ignores it.
    pub build: Build,
}

/// What `windlass plugin build` uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Build {
    pub lang: Option<Lang>,
    /// The plugin's name. By default the name of its folder.
    pub name: Option<String>,
    /// The source that registers the handlers, for languages that need it.
    pub entry: Option<String>,
    /// Where the SDK lies, seen from the folder. By default `sdk`.
    pub sdk: Option<String>,
    /// Whether it sends HTTP requests, for languages that must know it when they are built.
    pub http: bool,
}

/// The languages that handlers are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lang {
    Rust,
    Python,
    Js,
    Ts,
    Go,
    C,
}

/// How its jobs are tried again, unless the queue or the job says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The number of runs, the first included.
    pub max_attempts: Option<u32>,
    pub backoff: Option<Backoff>,
    pub base_delay: Option<Span>,
    pub max_delay: Option<Span>,
}

/// The kinds of backoff, by their names in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    None,
    Fixed,
    Linear,
    Quadratic,
    Exponential,
}

/// What one attempt may use. Absent is the server's default. Operators set ceilings with the same fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// All memories and tables together.
    pub memory: Option<Size>,
    pub cpu_time: Option<Span>,
    pub attempt_timeout: Option<Span>,
    /// Without progress, checkpoint or log.
    pub stall_timeout: Option<Span>,
    pub log: Option<Size>,
    pub checkpoint: Option<Size>,
    pub result: Option<Size>,
    /// How many of its attempts may run at once.
    pub concurrency: Option<u32>,
    /// What its HTTP requests may take.
    pub http: HttpLimits,
}

/// What one HTTP request may take, and how many there may be. Absent is the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpLimits {
    /// Waiting for its turn, finding the address, connecting and agreeing on encryption.
    pub connect: Option<Span>,
    /// From there to the head of the answer.
    pub first_byte: Option<Span>,
    /// Silence in the middle of the answer.
    pub between_bytes: Option<Span>,
    /// All of it, to the last byte of the answer.
    pub total: Option<Span>,
    /// The body of a request.
    pub request: Option<Size>,
    /// The body of an answer.
    pub response: Option<Size>,
    /// Requests of one attempt that are on their way at once; more wait for their turn.
    pub at_once: Option<u32>,
}

/// What it asks for beyond computing. Each is denied until the operator grants it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Hosts that it sends HTTP requests to.
    pub http: Vec<HostPattern>,
    /// Folders it reads, by the path under which it wants to see them. Where they lie is the operator's to say.
    pub read: Vec<String>,
    /// Folders it reads and writes.
    pub write: Vec<String>,
    /// Environment variables, by name.
    pub environment: Vec<String>,
    /// Secrets, by name.
    pub secrets: Vec<String>,
    /// Queues that it spawns jobs into, besides those it serves.
    pub spawn: Vec<QueuePattern>,
}

/// How many entries each list of a manifest or a grant may have.
pub(crate) const ENTRIES: usize = 256;
/// Bytes of one value: of the configuration, or of an environment variable.
pub(crate) const VALUE_BYTES: usize = 64 * 1024;
/// The least memory with which anything starts at all.
pub(crate) const LEAST_MEMORY: Size = Size(64 * 1024);
const MOST_REUSE: u32 = 1_000_000;
/// Requests of one attempt that may be on their way at once, whoever allows it: each is a connection.
const MOST_AT_ONCE: u32 = 256;

impl Manifest {
    /// Refuses what no plugin could live by, naming the field.
    pub fn check(&self) -> Result<(), Refusal> {
        at_most("queues", self.queues.len())?;
        for queue in &self.queues {
            Name::parse("queues", queue)?;
        }
        if self.reuse > MOST_REUSE {
            return Err(Refusal::invalid(
                "reuse",
                format!("at most {MOST_REUSE}, and 0 for a fresh instance each time"),
            ));
        }
        at_most("config", self.config.len())?;
        for (name, value) in &self.config {
            variable("config", name, value)?;
        }
        at_most("schemas", self.schemas.as_ref().map_or(0, Vec::len))?;
        self.payload.as_ref().map_or(Ok(()), PayloadSchema::check)?;
        self.limits.check()?;
        self.capabilities.check()?;
        self.policy().check()
    }

    /// The policy it gives its jobs. Time limits are left to the grant, which may shorten them.
    pub fn policy(&self) -> PolicyChoice {
        PolicyChoice {
            max_attempts: self.retry.max_attempts,
            backoff: self.retry.backoff.map(BackoffKind::from),
            base_delay: self.retry.base_delay.map(|span| span.0),
            max_delay: self.retry.max_delay.map(|span| span.0),
            ..PolicyChoice::default()
        }
    }
}

impl Limits {
    pub fn check(&self) -> Result<(), Refusal> {
        let http = &self.http;
        let sizes = [
            ("log", self.log),
            ("checkpoint", self.checkpoint),
            ("result", self.result),
            ("http.request", http.request),
            ("http.response", http.response),
        ];
        if self.memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            return Err(Refusal::invalid("memory", format!("at least {LEAST_MEMORY}: one page")));
        }
        if let Some((field, _)) = sizes.into_iter().find(|(_, size)| size.is_some_and(|size| size.0 == 0)) {
            return Err(Refusal::invalid(field, "more than zero, or leave it out for the default"));
        }
        let spans = [
            ("cpu_time", self.cpu_time),
            ("attempt_timeout", self.attempt_timeout),
            ("stall_timeout", self.stall_timeout),
            ("http.connect", http.connect),
            ("http.first_byte", http.first_byte),
            ("http.between_bytes", http.between_bytes),
            ("http.total", http.total),
        ];
        for (field, span) in spans {
            if span.is_some_and(|span| span.0.is_zero() || span.0 > bounds::LONGEST) {
                return Err(Refusal::invalid(
                    field,
                    "more than zero and at most ten years, or leave it out for no limit",
                ));
            }
        }
        if self.concurrency == Some(0) {
            return Err(Refusal::invalid("concurrency", "at least 1; pause the queue to run nothing"));
        }
        if http.at_once.is_some_and(|count| !(1..=MOST_AT_ONCE).contains(&count)) {
            return Err(Refusal::invalid("http.at_once", format!("1 to {MOST_AT_ONCE}")));
        }
        Ok(())
    }
}

impl Capabilities {
    fn check(&self) -> Result<(), Refusal> {
        at_most("http", self.http.len())?;
        for (field, paths) in [("read", &self.read), ("write", &self.write)] {
            at_most(field, paths.len())?;
            for path in paths {
                guest_path(field, path)?;
            }
        }
        if let Some(both) = self.write.iter().find(|path| self.read.contains(path)) {
            return Err(Refusal::invalid("read", format!("`{both}` is in `write` already, which includes reading")));
        }
        at_most("environment", self.environment.len())?;
        for name in &self.environment {
            variable("environment", name, "")?;
        }
        at_most("secrets", self.secrets.len())?;
        for name in &self.secrets {
            Name::parse("secrets", name)?;
        }
        at_most("spawn", self.spawn.len())
    }
}

pub(crate) fn at_most(field: &'static str, entries: usize) -> Result<(), Refusal> {
    if entries <= ENTRIES { Ok(()) } else { Err(Refusal::invalid(field, format!("at most {ENTRIES} entries"))) }
}

/// A name that fits an environment, and a value that fits in a message.
pub(crate) fn variable(field: &'static str, name: &str, value: &str) -> Result<(), Refusal> {
    let name_fits = (1..=bounds::NAME_BYTES).contains(&name.len()) && !name.contains(['=', '\0']);
    if !name_fits || value.contains('\0') || value.len() > VALUE_BYTES {
        let why =
            format!("a name has 1 to {} bytes without `=`, and its value at most {VALUE_BYTES}", bounds::NAME_BYTES);
        return Err(Refusal::invalid(field, why));
    }
    Ok(())
}

/// The path under which a guest sees a folder: absolute and in its plainest form, so that two never mean the same.
pub(crate) fn guest_path(field: &'static str, path: &str) -> Result<(), Refusal> {
    let plain = path.strip_prefix('/').is_some_and(|rest| {
        !rest.contains('\0') && rest.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
    });
    if plain && path.len() <= 1_024 {
        return Ok(());
    }
    Err(Refusal::invalid(
        field,
        format!("{path:?} must be a path such as `/data`, without `.`, `..` or a slash at its end"),
    ))
}

impl From<Backoff> for BackoffKind {
    fn from(backoff: Backoff) -> BackoffKind {
        match backoff {
            Backoff::None => BackoffKind::None,
            Backoff::Fixed => BackoffKind::Fixed,
            Backoff::Linear => BackoffKind::Linear,
            Backoff::Quadratic => BackoffKind::Quadratic,
            Backoff::Exponential => BackoffKind::Exponential,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Manifest), field: &str) {
        let mut manifest = Manifest::default();
        change(&mut manifest);
        match manifest.check() {
            Err(Refusal::Invalid { field: found, .. }) => assert_eq!(found, field),
            other => panic!("`{field}` was not refused: {other:?}"),
        }
    }

    #[test]
    fn an_empty_manifest_is_a_good_one() {
        assert_eq!(Manifest::default().check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_right_is_refused_by_field() {
        refused(|manifest| manifest.reuse = u32::MAX, "reuse");
        refused(|manifest| manifest.limits.memory = Some(Size(1)), "memory");
        refused(|manifest| manifest.limits.log = Some(Size(0)), "log");
        refused(|manifest| manifest.limits.cpu_time = Some(Span(Duration::ZERO)), "cpu_time");
        refused(|manifest| manifest.limits.concurrency = Some(0), "concurrency");
        refused(|manifest| manifest.limits.http.at_once = Some(257), "http.at_once");
        refused(|manifest| manifest.limits.http.total = Some(Span(Duration::ZERO)), "http.total");
        refused(|manifest| manifest.limits.http.response = Some(Size(0)), "http.response");
        refused(|manifest| manifest.retry.max_attempts = Some(u32::MAX), "max_attempts");
        refused(|manifest| manifest.capabilities.environment = vec!["A=B".into()], "environment");
        refused(|manifest| manifest.capabilities.secrets = vec!["a b".into()], "secrets");
        refused(|manifest| manifest.config = BTreeMap::from([(String::new(), String::new())]), "config");
        for path in ["data", "/", "/data/", "/a/../b", "/a//b", "/./a", ""] {
            refused(|manifest| manifest.capabilities.read = vec![path.into()], "read");
        }
        refused(
            |manifest| {
                manifest.capabilities.read = vec!["/data".into()];
                manifest.capabilities.write = vec!["/data".into()];
            },
            "read",
        );
    }

    #[test]
    fn its_retry_policy_is_a_choice_like_any_other() {
        let retry = Retry { max_attempts: Some(7), backoff: Some(Backoff::Linear), ..Retry::default() };
        let policy = Manifest { retry, ..Manifest::default() }.policy();
        assert_eq!((policy.max_attempts, policy.backoff), (Some(7), Some(BackoffKind::Linear)));
    }
}
