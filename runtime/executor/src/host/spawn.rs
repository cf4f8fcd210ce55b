//! `spawn`: children, kept here until the next checkpoint or the result takes them along.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::{LimitKind, Priority, QueueName};

use crate::attempt::state::State;
use crate::bindings::windlass::job::spawn as wit;
use crate::limits::Limits;
use crate::permissions::Refused;

/// A job that this attempt wants started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its number among all children of the parent, from 0; the same when an attempt is repeated.
    pub ordinal: u32,
    pub queue: String,
    pub payload: Bytes,
    pub priority: Option<Priority>,
    pub delay: Option<Duration>,
    pub max_attempts: Option<u32>,
    pub unique_key: Option<String>,
    pub unique_period: Option<Duration>,
    pub tags: Vec<(String, String)>,
    pub scope: Option<String>,
}

/// The children of one attempt that are not committed yet.
#[derive(Debug)]
pub(crate) struct Children {
    waiting: Vec<Child>,
    bytes: usize,
    next: u32,
}

impl Children {
    pub(crate) fn starting_at(next: u32) -> Self {
        Children { waiting: Vec::new(), bytes: 0, next }
    }

    /// How many there are, and how many bytes.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a checkpoint takes along. They stay here until it has succeeded.
    pub(crate) fn uncommitted(&self) -> Vec<Child> {
        self.waiting.clone()
    }

    pub(crate) fn committed(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }

    pub(crate) fn take(&mut self) -> Vec<Child> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    fn add(&mut self, child: wit::Child, limits: &Limits) -> Result<u32, wit::Refusal> {
        if child.queue.is_empty() {
            return Err(wit::Refusal::Invalid("the child has no queue; name the queue it should go to".to_owned()));
        }
        if self.waiting.len() >= limits.children {
            return Err(wit::Refusal::TooMany(limits.children as u64));
        }
        let bytes = size(&child);
        if bytes > limits.children_bytes - self.bytes {
            return Err(wit::Refusal::TooLarge(limits.children_bytes as u64));
        }
        let ordinal = self.next;
        let Some(next) = ordinal.checked_add(1) else {
            return Err(wit::Refusal::TooMany(u64::from(u32::MAX)));
        };
        self.next = next;
        self.bytes += bytes;
        self.waiting.push(Child {
            ordinal,
            queue: child.queue,
            payload: Bytes::from(child.payload),
            priority: child.priority.map(priority),
            delay: child.delay_ms.map(Duration::from_millis),
            max_attempts: child.max_attempts,
            unique_key: child.unique_key,
            unique_period: child.unique_period_ms.map(Duration::from_millis),
            tags: child.tags,
            scope: child.scope,
        });
        Ok(ordinal)
    }
}

/// What a child holds of the host's memory. A tag counts for more than its text, or a million empty ones would be free.
fn size(child: &wit::Child) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let tags: usize = child.tags.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    child.queue.len() + child.payload.len() + text(&child.unique_key) + text(&child.scope) + tags + 256
}

fn priority(priority: wit::Priority) -> Priority {
    match priority {
        wit::Priority::Critical => Priority::Critical,
        wit::Priority::High => Priority::High,
        wit::Priority::Normal => Priority::Normal,
        wit::Priority::Low => Priority::Low,
    }
}

impl wit::Host for State {
    fn start(&mut self, child: wit::Child) -> wasmtime::Result<Result<u32, wit::Refusal>> {
        self.host_called();
        if !child.queue.is_empty()
            && let Err(Refused { how, denied }) = self.permissions.spawns(&child.queue)
        {
            if let Some(denied) = denied {
                self.gauge.deny(&denied);
            }
            return Ok(Err(refusal(&child.queue, how)));
        }
        let added = self.children.add(child, &self.limits);
        if matches!(added, Err(wit::Refusal::TooMany(_) | wit::Refusal::TooLarge(_))) {
            self.gauge.hit(LimitKind::Children);
        }
        Ok(added)
    }
}

/// Why a job may not be spawned into a queue. What is not the name of a queue cannot be granted either.
fn refusal(queue: &str, how: String) -> wit::Refusal {
    match queue.parse::<QueueName>() {
        Ok(_) => wit::Refusal::Denied(how),
        Err(_) => wit::Refusal::Invalid(how),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_a_grant_is_denied_and_a_wrong_name_is_invalid() {
        let how = || "the reason".to_owned();
        assert!(matches!(refusal("bills.send", how()), wit::Refusal::Denied(text) if text == "the reason"));
        for wrong in ["two words", "bills.*", ""] {
            assert!(matches!(refusal(wrong, how()), wit::Refusal::Invalid(text) if text == "the reason"), "{wrong:?}");
        }
    }
}
