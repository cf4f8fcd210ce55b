//! What became apparent while an attempt ran, besides what it used: the limits that it ran into, and what it was
//! denied.

use serde::{Deserialize, Serialize};

use crate::plugin::grant::Denied;
use crate::{Time, bounds};

/// A limit of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LimitKind {
    /// It asked for more memory than it may use.
    Memory,
    /// Its processor time was used up.
    CpuTime,
    /// It took longer than its timeout.
    AttemptTimeout,
    /// It gave no sign of life for too long.
    StallTimeout,
    /// Its log was cut.
    Log,
    /// A checkpoint was too large and was refused.
    Checkpoint,
    /// Its result was too large.
    Result,
    /// It spawned too many children, or too large ones, between two checkpoints.
    Children,
    /// An HTTP request or its response was too large.
    Http,
}

impl LimitKind {
    pub const ALL: [LimitKind; 9] = [
        LimitKind::Memory,
        LimitKind::CpuTime,
        LimitKind::AttemptTimeout,
        LimitKind::StallTimeout,
        LimitKind::Log,
        LimitKind::Checkpoint,
        LimitKind::Result,
        LimitKind::Children,
        LimitKind::Http,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            LimitKind::Memory => "memory",
            LimitKind::CpuTime => "cpu_time",
            LimitKind::AttemptTimeout => "attempt_timeout",
            LimitKind::StallTimeout => "stall_timeout",
            LimitKind::Log => "log",
            LimitKind::Checkpoint => "checkpoint",
            LimitKind::Result => "result",
            LimitKind::Children => "children",
            LimitKind::Http => "http",
        }
    }
}

/// The limits that an attempt ran into, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHits(u16);

impl LimitHits {
    pub fn of_bits(bits: u16) -> LimitHits {
        LimitHits(bits)
    }

    pub fn bit(kind: LimitKind) -> u16 {
        1 << kind as u16
    }

    pub fn add(&mut self, kind: LimitKind) {
        self.0 |= LimitHits::bit(kind);
    }

    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = LimitKind> {
        LimitKind::ALL.into_iter().filter(move |kind| self.0 & LimitHits::bit(*kind) != 0)
    }
}

/// Something that an attempt tried and was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub at: Time,
    /// The field of a grant that would allow it: `http`, `private_http`, `secrets` or `spawn`.
    pub capability: String,
    /// What it tried: a host, the name of a secret, a queue.
    pub wanted: String,
    /// What to add to that field: what the manifest asks for, where that covers it.
    pub grant: String,
}

impl Denial {
    /// A denial as it is stored; none of what no grant would allow.
    pub fn of(denied: &Denied, at: Time) -> Option<Denial> {
        let (capability, grant) = denied.grant()?;
        // A handler may ask for a secret with a name of any length; such a name cannot be granted.
        let fits = grant.len() <= bounds::DENIAL_BYTES && denied.wanted.len() <= bounds::DENIAL_BYTES;
        fits.then(|| Denial {
            at,
            capability: capability.to_owned(),
            wanted: denied.wanted.clone(),
            grant: grant.to_owned(),
        })
    }
}

/// What became apparent while an attempt ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    pub hits: LimitHits,
    /// The first ones, each once.
    pub denials: Vec<Denial>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.hits.is_none() && self.denials.is_empty()
    }

    /// What is stored of it.
    pub(crate) fn bounded(mut self) -> Findings {
        self.denials.truncate(bounds::DENIALS);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_each_counted_once_and_have_names() {
        let mut hits = LimitHits::default();
        assert!(hits.is_none());
        for kind in [LimitKind::Log, LimitKind::Memory, LimitKind::Log] {
            hits.add(kind);
        }
        assert_eq!(hits.iter().map(LimitKind::as_str).collect::<Vec<_>>(), ["memory", "log"]);
        let mut all = LimitHits::default();
        LimitKind::ALL.into_iter().for_each(|kind| all.add(kind));
        assert_eq!(all.iter().collect::<Vec<_>>(), LimitKind::ALL);
        let names: std::collections::BTreeSet<_> = LimitKind::ALL.map(LimitKind::as_str).into();
        assert_eq!(names.len(), LimitKind::ALL.len());
    }

    #[test]
    fn a_denial_says_what_to_grant() {
        let host = "10.0.0.7:8080".parse().expect("a host");
        let queue = "bills.send".parse().expect("a queue");
        for (denied, capability, grant) in [
            (Denied::http(&"api.example.com".parse().expect("a host"), None), "http", "api.example.com"),
            (Denied::http(&host, None), "private_http", "10.0.0.7:8080"),
            (Denied::secret("token"), "secrets", "token"),
            (Denied::spawn(&queue, Some(&"bills.*".parse().expect("a pattern"))), "spawn", "bills.*"),
        ] {
            let denial = Denial::of(&denied, Time(5)).expect("it can be granted");
            assert_eq!((&*denial.capability, &*denial.grant, denial.at), (capability, grant, Time(5)));
        }
        let never = Denied::http(&"0.0.0.0:80".parse().expect("a host"), None);
        assert_eq!(Denial::of(&never, Time(5)), None, "{never:?}");
    }
}
