//! The audit log in the engine: an entry is written in the commit of the change that it is about.

use windlass_core::access::{AuditEntry, AuditHead, AuditNote, AuditOutcome};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::requests::operation::{Answer, Cost, Operation};
use crate::{AuditRetention, limits};

/// An operation that somebody answers for.
pub struct Audited<O> {
    pub operation: O,
    pub note: AuditNote,
}

impl<D: Disk, O: Operation<D>> Operation<D> for Audited<O> {
    type Answer = O::Answer;

    fn cost(&self) -> Cost {
        self.operation.cost()
    }

    fn start(self, engine: &mut Engine<D>, answer: Answer<O::Answer>) -> Result<(), DiskError> {
        engine.release.take_outcome();
        self.operation.start(engine, answer)?;
        // One whose answer is still to come has been accepted.
        let refused = engine.release.take_outcome().flatten();
        engine.note_audit(self.note, refused.map_or(AuditOutcome::Done, AuditOutcome::Refused))
    }
}

/// Only the entry: of what the engine has no part in, or of what somebody was not let do.
pub struct Note(pub AuditNote, pub AuditOutcome);

impl<D: Disk> Operation<D> for Note {
    type Answer = ();

    fn start(self, engine: &mut Engine<D>, answer: Answer<()>) -> Result<(), DiskError> {
        engine.note_audit(self.0, self.1)?;
        engine.release.push(answer, Ok(()));
        Ok(())
    }
}

impl<D: Disk> Engine<D> {
    fn note_audit(&mut self, note: AuditNote, outcome: AuditOutcome) -> Result<(), DiskError> {
        let mut head = match self.audit_head {
            Some(head) => head,
            None => read_head(&self.disk)?,
        };
        let entry = head.append(note, outcome, self.now);
        self.unsaved.batch.put(Space::Audit, keys::audit(entry.seq), codec::encode(&entry));
        for _ in 0..limits::AUDIT_REMOVED {
            if !self.is_audit_past_keeping(&head)? {
                break;
            }
            self.unsaved.batch.delete(Space::Audit, keys::audit(head.from));
            head.from += 1;
        }
        self.unsaved.batch.put(Space::Access, keys::audit_head(), codec::encode(&head));
        self.audit_head = Some(head);
        self.unsaved.require_commit();
        Ok(())
    }

    /// Whether the oldest entry is to be removed. The newest one never is: the next continues its hash.
    fn is_audit_past_keeping(&self, head: &AuditHead) -> Result<bool, DiskError> {
        let AuditRetention { age, entries } = self.audit_retention;
        if head.from >= head.seq || head.seq - head.from >= entries {
            return Ok(head.from < head.seq);
        }
        let Some(age) = age else { return Ok(false) };
        match self.written(Space::Audit, keys::audit(head.from).to_vec())? {
            Some(bytes) => Ok(codec::decode::<AuditEntry>(Space::Audit, &bytes)?.at + age < self.now),
            // Somebody has removed it.
            None => Ok(true),
        }
    }
}

pub fn read_head(disk: &impl Disk) -> Result<AuditHead, DiskError> {
    match disk.get(Space::Access, &keys::audit_head())? {
        Some(bytes) => codec::decode(Space::Access, &bytes),
        None => Ok(AuditHead::default()),
    }
}
