//! What the operator grants a plugin, and which of the capabilities that it asks for it gets: [`effective`].
//!
//! Two sides must agree. What a plugin does not ask for it does not get, however much is granted; what is not granted
//! it does not get, however often it asks. Every refusal says what to grant, because it ends up in front of somebody
//! who must decide about it; the server adds with which command.

mod denied;
#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plugin::egress::HostPattern;
use crate::plugin::manifest;
use crate::plugin::manifest::{HttpLimits, Limits, Manifest};
use crate::quantity::{Size, Span};
use crate::queue_pattern::QueuePattern;
use crate::trailing;
use crate::{Name, Refusal, bounds};
pub use denied::{Denied, Needed};

/// What the operator allows one plugin. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// Ceilings. For memory, log, checkpoint, result and HTTP an absent one is the server's default, and the plugin
    /// gets no more.
    pub limits: Limits,
    /// Hosts it may send requests to, at public addresses.
    pub http: Vec<HostPattern>,
    /// Hosts it may send requests to wherever they are: loopback, private networks, link-local.
    pub private_http: Vec<HostPattern>,
    /// The folders it may see: the path it sees, and what is there.
    pub folders: BTreeMap<String, FolderGrant>,
    /// Environment variables with their values. Nothing is taken from the server's own environment.
    pub environment: BTreeMap<String, String>,
    /// Secrets it may read, by name.
    pub secrets: BTreeSet<String>,
    /// Queues it may spawn jobs into. Those it serves need no grant.
    pub spawn: Vec<QueuePattern>,
}

/// A grant as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredGrant {
    pub plugin: Name,
    pub grant: Grant,
    /// The key or the person that granted it. The last field, because grants that were stored without it are still
    /// read.
    #[serde(deserialize_with = "trailing::or_default")]
    pub created_by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderGrant {
    /// The folder on this machine.
    pub path: String,
    #[serde(default)]
    pub write: bool,
}

/// What a plugin really gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    pub limits: AllowedLimits,
    pub http: Vec<HostRule>,
    pub folders: Vec<Folder>,
    pub environment: BTreeMap<String, String>,
    pub secrets: BTreeSet<String>,
    pub spawn: Vec<QueuePattern>,
}

/// The limits with every default filled in. `None` is no limit; for `attempt_timeout` it is the default, unless the job
/// has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedLimits {
    pub memory: Size,
    pub cpu_time: Option<Span>,
    pub attempt_timeout: Option<Span>,
    pub stall_timeout: Option<Span>,
    pub log: Size,
    pub checkpoint: Size,
    pub result: Size,
    pub concurrency: Option<u32>,
    pub http: AllowedHttp,
}

/// What HTTP requests may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHttp {
    pub connect: Span,
    pub first_byte: Span,
    pub between_bytes: Span,
    pub total: Span,
    pub request: Size,
    pub response: Size,
    pub at_once: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    pub pattern: HostPattern,
    /// Whether the host may be at an address that is not public.
    pub private: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// What the guest sees.
    pub guest: String,
    /// What is there.
    pub host: String,
    pub write: bool,
}

impl Default for AllowedLimits {
    fn default() -> AllowedLimits {
        AllowedLimits {
            memory: Size(256 << 20),
            cpu_time: None,
            attempt_timeout: None,
            stall_timeout: None,
            log: Size(1 << 20),
            checkpoint: Size(16 << 20),
            result: Size(16 << 20),
            concurrency: None,
            http: AllowedHttp::default(),
        }
    }
}

impl Default for AllowedHttp {
    fn default() -> AllowedHttp {
        let seconds = |seconds| Span(Duration::from_secs(seconds));
        AllowedHttp {
            connect: seconds(10),
            first_byte: seconds(120),
            between_bytes: seconds(30),
            total: seconds(15 * 60),
            request: Size(64 << 20),
            response: Size(256 << 20),
            at_once: 16,
        }
    }
}

impl Grant {
    /// Refuses what cannot be meant, naming the field.
    pub fn check(&self) -> Result<(), Refusal> {
        self.limits.check()?;
        manifest::at_most("http", self.http.len())?;
        manifest::at_most("private_http", self.private_http.len())?;
        manifest::at_most("folders", self.folders.len())?;
        for (guest, folder) in &self.folders {
            manifest::guest_path("folders", guest)?;
            if !folder.path.starts_with('/') || folder.path.contains('\0') {
                let why = format!("`{}` must be the whole path of a folder on the server", folder.path);
                return Err(Refusal::invalid("folders", why));
            }
        }
        manifest::at_most("environment", self.environment.len())?;
        for (name, value) in &self.environment {
            manifest::variable("environment", name, value)?;
        }
        manifest::at_most("secrets", self.secrets.len())?;
        manifest::at_most("spawn", self.spawn.len())?;
        self.secrets.iter().try_for_each(|name| Name::parse("secrets", name).map(drop))
    }
}

/// The capabilities that a plugin gets, and those that it does not, in the order in which it asked.
pub fn effective(asked: &Manifest, granted: &Grant) -> (Allowed, Vec<Denied>) {
    let mut denied = Vec::new();
    let requested = &asked.capabilities;
    let mut allowed = Allowed { limits: limits(&asked.limits, &granted.limits, &mut denied), ..Allowed::default() };
    for pattern in &requested.http {
        hosts(pattern, granted, &mut allowed.http, &mut denied);
    }
    for (guest, write) in
        requested.read.iter().map(|path| (path, false)).chain(requested.write.iter().map(|path| (path, true)))
    {
        let found = granted.folders.get(guest);
        if let Some(folder) = found {
            // Never more than it asked for: a folder granted for writing stays read-only for who wants to read.
            let write = write && folder.write;
            allowed.folders.push(Folder { guest: guest.clone(), host: folder.path.clone(), write });
        }
        if found.is_none_or(|folder| write && !folder.write) {
            let verb = if write { "writing" } else { "reading" };
            let host = found.map(|folder| folder.path.clone());
            let needed = Needed::Folder { guest: guest.clone(), host, write };
            denied.push(Denied::new(format!("{verb} the folder `{guest}`"), needed));
        }
    }
    for name in &requested.environment {
        match granted.environment.get(name) {
            Some(value) => drop(allowed.environment.insert(name.clone(), value.clone())),
            None => {
                let what = format!("the environment variable `{name}`");
                denied.push(Denied::new(what, Needed::Environment(name.clone())));
            }
        }
    }
    for name in &requested.secrets {
        if granted.secrets.contains(name) {
            allowed.secrets.insert(name.clone());
        } else {
            denied.push(Denied::secret(name));
        }
    }
    for pattern in &requested.spawn {
        queues(pattern, &granted.spawn, &mut allowed.spawn, &mut denied);
    }
    (allowed, denied)
}

/// The queues that lie in both what was asked and what was granted.
fn queues(asked: &QueuePattern, granted: &[QueuePattern], allowed: &mut Vec<QueuePattern>, denied: &mut Vec<Denied>) {
    if granted.iter().any(|pattern| pattern.includes(asked)) {
        allowed.push(asked.clone());
        return;
    }
    allowed.extend(granted.iter().filter(|pattern| asked.includes(pattern)).cloned());
    denied.push(Denied::spawn(asked, None));
}

/// The patterns that lie in both what was asked and what was granted.
fn hosts(asked: &HostPattern, granted: &Grant, allowed: &mut Vec<HostRule>, denied: &mut Vec<Denied>) {
    let lists = [(&granted.private_http, true), (&granted.http, false)];
    let mut whole = false;
    for (pattern, private) in lists.into_iter().flat_map(|(list, private)| list.iter().map(move |one| (one, private))) {
        if pattern.includes(asked) {
            whole = true;
            allowed.push(HostRule { pattern: asked.clone(), private });
        } else if asked.includes(pattern) {
            allowed.push(HostRule { pattern: pattern.clone(), private });
        }
    }
    if !whole {
        denied.push(Denied::http(asked, None));
    }
}

fn limits(asked: &Limits, ceiling: &Limits, denied: &mut Vec<Denied>) -> AllowedLimits {
    let default = AllowedLimits::default();
    AllowedLimits {
        memory: with_default("memory", asked.memory, ceiling.memory, default.memory, denied),
        cpu_time: at_most("cpu_time", asked.cpu_time, ceiling.cpu_time, denied),
        attempt_timeout: attempt_timeout(asked.attempt_timeout, ceiling.attempt_timeout, denied),
        stall_timeout: at_most("stall_timeout", asked.stall_timeout, ceiling.stall_timeout, denied),
        log: with_default("log", asked.log, ceiling.log, default.log, denied),
        checkpoint: with_default("checkpoint", asked.checkpoint, ceiling.checkpoint, default.checkpoint, denied),
        result: with_default("result", asked.result, ceiling.result, default.result, denied),
        concurrency: at_most("concurrency", asked.concurrency, ceiling.concurrency, denied),
        http: http_limits(&asked.http, &ceiling.http, denied),
    }
}

fn http_limits(asked: &HttpLimits, ceiling: &HttpLimits, denied: &mut Vec<Denied>) -> AllowedHttp {
    let default = AllowedHttp::default();
    AllowedHttp {
        connect: with_default("http_connect", asked.connect, ceiling.connect, default.connect, denied),
        first_byte: with_default("http_first_byte", asked.first_byte, ceiling.first_byte, default.first_byte, denied),
        between_bytes: with_default(
            "http_between_bytes",
            asked.between_bytes,
            ceiling.between_bytes,
            default.between_bytes,
            denied,
        ),
        total: with_default("http_total", asked.total, ceiling.total, default.total, denied),
        request: with_default("http_request", asked.request, ceiling.request, default.request, denied),
        response: with_default("http_response", asked.response, ceiling.response, default.response, denied),
        at_once: with_default("http_at_once", asked.at_once, ceiling.at_once, default.at_once, denied),
    }
}

/// Whoever asks for more time than the default must be granted it.
fn attempt_timeout(asked: Option<Span>, ceiling: Option<Span>, denied: &mut Vec<Denied>) -> Option<Span> {
    let default = Span(bounds::ATTEMPT_TIMEOUT);
    if ceiling.is_none() && asked.is_some_and(|asked| asked > default) {
        at_most("attempt_timeout", asked, Some(default), denied);
        return None;
    }
    at_most("attempt_timeout", asked, ceiling, denied)
}

/// A limit that always holds: without a choice, the default is both what an attempt gets and the most it may get.
fn with_default<T: Copy + Ord + fmt::Display>(
    name: &str,
    asked: Option<T>,
    ceiling: Option<T>,
    default: T,
    denied: &mut Vec<Denied>,
) -> T {
    let ceiling = ceiling.unwrap_or(default);
    at_most(name, asked, Some(ceiling), denied).filter(|_| asked.is_some()).unwrap_or(default.min(ceiling))
}

/// A limit that holds only when somebody sets it: the lower of the two.
fn at_most<T: Copy + Ord + fmt::Display>(
    name: &str,
    asked: Option<T>,
    ceiling: Option<T>,
    denied: &mut Vec<Denied>,
) -> Option<T> {
    if let (Some(asked), Some(ceiling)) = (asked, ceiling)
        && asked > ceiling
    {
        let needed = Needed::Limit { name: name.to_owned(), value: asked.to_string() };
        denied.push(Denied::new(format!("a limit `{name}` of {asked} (at most {ceiling})"), needed));
    }
    asked.into_iter().chain(ceiling).min()
}
