//! The audit log: who changed what. Each entry holds the hash of the one before it, so that none can be changed or
//! removed from the middle without anybody noticing.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::access::Actor;
use crate::decide::bounded;
use crate::{Namespace, Time, bounds};

/// What somebody asked for. Never contains a value: no payload, secret or key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    pub actor: Actor,
    pub namespace: Namespace,
    /// Such as `plugin.activate`.
    pub action: &'static str,
    /// The job, queue, plugin or key that it is about.
    pub target: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub seq: u64,
    pub at: Time,
    pub actor: Actor,
    pub namespace: Namespace,
    pub action: String,
    pub target: String,
    pub outcome: AuditOutcome,
    /// Of this entry and the hash of the one before.
    pub hash: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditOutcome {
    Done,
    /// The rules refused it: nothing changed.
    Refused(String),
    /// The caller may not do it.
    Denied,
}

/// Where the log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// The number of the last entry; the first is 1.
    pub seq: u64,
    pub hash: [u8; 32],
    /// The oldest entry that is still stored.
    pub from: u64,
}

impl AuditOutcome {
    pub fn as_str(&self) -> &'static str {
        match self {
            AuditOutcome::Done => "done",
            AuditOutcome::Refused(_) => "refused",
            AuditOutcome::Denied => "denied",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            AuditOutcome::Refused(why) => Some(why),
            AuditOutcome::Done | AuditOutcome::Denied => None,
        }
    }
}

impl AuditHead {
    /// The next entry; the head moves on to it.
    pub fn append(&mut self, note: AuditNote, outcome: AuditOutcome, now: Time) -> AuditEntry {
        let outcome = match outcome {
            AuditOutcome::Refused(why) => AuditOutcome::Refused(bounded(why, bounds::REASON_BYTES)),
            other => other,
        };
        let AuditNote { actor, namespace, action, target } = note;
        let target = bounded(target, bounds::REASON_BYTES);
        let seq = self.seq + 1;
        let mut entry =
            AuditEntry { seq, at: now, actor, namespace, action: action.to_owned(), target, outcome, hash: [0; 32] };
        entry.hash = entry.chained(&self.hash);
        self.seq = seq;
        self.hash = entry.hash;
        self.from = self.from.max(1);
        entry
    }

    /// Checks one page of the log against where the log stands: that it begins with the entry after `after`, or with
    /// the oldest that is stored, follows without a change or a gap, and, if it is the last page, ends where the log
    /// ends. `before` is the hash of the entry `after`, if that is stored. Returns the number of the first entry that
    /// is wrong or missing.
    pub fn verify_page(
        &self,
        (after, before): (u64, Option<[u8; 32]>),
        entries: &[AuditEntry],
        is_last: bool,
    ) -> Result<(), u64> {
        let first = after.saturating_add(1).max(self.from);
        let is_stored = (self.from.max(1)..=self.seq).contains(&after);
        if is_stored && before.is_none() {
            return Err(after);
        }
        if entries.first().is_some_and(|entry| entry.seq != first) {
            return Err(first);
        }
        let hash = verify_chain(entries, before)?;
        let end = entries.last().map_or(after, |entry| entry.seq);
        if is_last && end != self.seq {
            return Err(if entries.is_empty() { first } else { end + 1 });
        }
        if is_last && hash.is_some_and(|hash| hash != self.hash) {
            return Err(end);
        }
        Ok(())
    }
}

impl AuditEntry {
    /// The hash that the entry should have after one with this hash.
    pub fn chained(&self, before: &[u8; 32]) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(before);
        add(&self.seq.to_be_bytes());
        add(&self.at.millis().to_be_bytes());
        add(self.actor.id.as_bytes());
        add(self.actor.role.map_or("", |role| role.as_str()).as_bytes());
        add(self.actor.address.map(|address| address.to_string()).unwrap_or_default().as_bytes());
        add(self.namespace.as_str().as_bytes());
        add(self.action.as_bytes());
        add(self.target.as_bytes());
        add(self.outcome.as_str().as_bytes());
        add(self.outcome.reason().unwrap_or_default().as_bytes());
        hash.finalize().into()
    }
}

/// Checks that entries follow each other without a change or a gap. `before` is the hash before the first, where it is
/// known. Returns the number of the first entry that is wrong.
pub fn verify_chain(entries: &[AuditEntry], before: Option<[u8; 32]>) -> Result<Option<[u8; 32]>, u64> {
    let mut known = before;
    let mut last: Option<u64> = None;
    for entry in entries {
        if last.is_some_and(|last| entry.seq != last + 1)
            || known.is_some_and(|hash| entry.chained(&hash) != entry.hash)
        {
            return Err(entry.seq);
        }
        last = Some(entry.seq);
        known = Some(entry.hash);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn note(target: &str) -> AuditNote {
        let actor = Actor { id: "k1".into(), role: Some(Role::Admin), address: "10.0.0.1".parse().ok() };
        AuditNote { actor, namespace: Namespace::default(), action: "queue.clear", target: target.into() }
    }

    fn log() -> Vec<AuditEntry> {
        let mut head = AuditHead::default();
        let refused = AuditOutcome::Refused("no such queue".into());
        [AuditOutcome::Done, refused, AuditOutcome::Denied, AuditOutcome::Done]
            .into_iter()
            .enumerate()
            .map(|(at, outcome)| head.append(note(&format!("q{at}")), outcome, Time(at as u64)))
            .collect()
    }

    #[test]
    fn an_untouched_log_verifies_from_its_first_entry_and_from_any_later_one() {
        let log = log();
        assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(verify_chain(&log, Some([0; 32])), Ok(Some(log[3].hash)));
        assert_eq!(verify_chain(&log[2..], Some(log[1].hash)), Ok(Some(log[3].hash)));
        assert_eq!(verify_chain(&log[2..], None), Ok(Some(log[3].hash)), "what came before was removed by its age");
        assert_eq!(verify_chain(&[], None), Ok(None));
    }

    #[test]
    fn every_change_of_an_entry_is_noticed() {
        type Change = fn(&mut AuditEntry);
        let changes: [Change; 9] = [
            |entry| entry.at = Time(99),
            |entry| entry.actor.id = "k2".into(),
            |entry| entry.actor.role = Some(Role::Viewer),
            |entry| entry.actor.address = None,
            |entry| entry.namespace = "acme".parse().expect("a namespace"),
            |entry| entry.action = "queue.pause".into(),
            |entry| entry.target = "other".into(),
            |entry| entry.outcome = AuditOutcome::Done,
            |entry| entry.hash = [1; 32],
        ];
        for change in changes {
            let mut changed = log();
            change(&mut changed[1]);
            assert_eq!(verify_chain(&changed, Some([0; 32])), Err(2));
        }
    }

    #[test]
    fn a_removed_or_exchanged_entry_is_noticed() {
        let mut removed = log();
        removed.remove(1);
        assert_eq!(verify_chain(&removed, Some([0; 32])), Err(3));
        let mut exchanged = log();
        exchanged.swap(1, 2);
        assert_eq!(verify_chain(&exchanged, Some([0; 32])), Err(3));
        assert_eq!(verify_chain(&log()[1..], Some([0; 32])), Err(2), "the first is gone");
    }

    #[test]
    fn a_log_that_was_emptied_or_cut_at_either_end_is_noticed() {
        let log = log();
        let head = AuditHead { seq: 4, hash: log[3].hash, from: 1 };
        let zero = Some([0; 32]);
        assert_eq!(head.verify_page((0, zero), &log, true), Ok(()));
        assert_eq!(head.verify_page((0, zero), &log[..2], false), Ok(()), "there are more pages");
        assert_eq!(head.verify_page((2, Some(log[1].hash)), &log[2..], true), Ok(()));
        assert_eq!(head.verify_page((4, Some(log[3].hash)), &[], true), Ok(()), "a page after the last entry");
        assert_eq!(head.verify_page((0, zero), &[], true), Err(1), "emptied");
        assert_eq!(head.verify_page((0, zero), &log[..3], true), Err(4), "the end is gone");
        assert_eq!(head.verify_page((0, zero), &log[1..], true), Err(1), "the beginning is gone");
        assert_eq!(head.verify_page((2, None), &log[2..], true), Err(2), "the one before the page is gone");
        assert_eq!(head.verify_page((9, None), &[], true), Err(10), "whoever has seen nine misses them");
        let other = AuditHead { hash: [1; 32], ..head };
        assert_eq!(other.verify_page((0, zero), &log, true), Err(4), "the last is not the one that was written");
        let aged = AuditHead { from: 3, ..head };
        assert_eq!(aged.verify_page((0, None), &log[2..], true), Ok(()), "what came before was removed by its age");
        assert_eq!(AuditHead::default().verify_page((0, zero), &[], true), Ok(()));
    }

    #[test]
    fn long_texts_are_cut() {
        let mut head = AuditHead::default();
        let long = "x".repeat(10 * bounds::REASON_BYTES);
        let entry = head.append(note(&long), AuditOutcome::Refused(long.clone()), Time(1));
        assert!(entry.target.len() <= bounds::REASON_BYTES + 8, "{}", entry.target.len());
        assert!(entry.outcome.reason().is_some_and(|why| why.len() <= bounds::REASON_BYTES + 8));
    }
}
