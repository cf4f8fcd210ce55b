//! Batches on request: made, filled and sealed.

use windlass_core::flow::{Batch, NewBatch};
use windlass_core::{JobId, Namespace, NewJob, Refusal};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;
use crate::engine::requests::operation::Answer;
use crate::{BatchMade, Caller};

impl<D: Disk> Engine<D> {
    pub(crate) fn make_batch(
        &mut self,
        new: NewBatch,
        mut jobs: Vec<NewJob>,
        seal: bool,
    ) -> Result<BatchMade, Failure> {
        new.check()?;
        let chance = u128::from(self.next_seed()) << 16 ^ u128::from(self.next_seed());
        let batch = new.make(JobId::new(self.now, chance), self.now);
        let id = batch.id.clone();
        for job in &mut jobs {
            job.batch_id = Some(id.clone());
        }
        let key = keys::batch(&id);
        // A request that is sent again finds its batch, sealed by now.
        let known = self.flows.batches.get(&self.disk, &key)?.is_some();
        if !known {
            self.flows.batches.put(key.clone(), Some(batch));
        }
        let sealed = match self.flows.batches.change(&self.disk, &key)? {
            Some(batch) if known => batch.sealed_at.take(),
            Some(_) | None => None,
        };
        let stored = self.enqueue(jobs);
        let Some(batch) = self.flows.batches.change(&self.disk, &key)? else { return Err(no_batch(&id).into()) };
        batch.sealed_at = sealed;
        let jobs = match stored {
            Ok(jobs) => jobs,
            Err(error) => {
                if !known {
                    self.flows.batches.put(key, None);
                }
                return Err(error);
            }
        };
        if seal {
            batch.seal(self.now);
        }
        if let Some(payload) = new.callback.and_then(|callback| callback.payload).filter(|_| !known) {
            self.unsaved.batch.put(Space::Flows, keys::callback(&id), codec::wrap(&payload));
        }
        self.flows.moved.insert(id.clone());
        self.unsaved.require_commit();
        Ok(BatchMade { id, jobs })
    }

    /// Seals a batch; to seal it again changes nothing.
    pub(crate) fn seal(&mut self, id: String, caller: Option<&Caller>, answer: Answer<Batch>) -> Result<(), DiskError> {
        let known = self.flows.batches.change(&self.disk, &keys::batch(&id))?;
        let own = |batch: &&mut Batch| caller.is_none_or(|caller| caller.allowed.namespace == batch.namespace);
        let Some(batch) = known.filter(own) else {
            let error = Err(no_batch(&id).into());
            self.release.push(answer, error);
            return Ok(());
        };
        batch.seal(self.now);
        self.flows.moved.insert(id.clone());
        self.flows.sealing.push((id, answer));
        self.unsaved.require_commit();
        Ok(())
    }

    /// Removes the batches of a namespace that ends. Those with members have ended with them.
    pub(crate) fn remove_batches(&mut self, name: &Namespace) -> Result<(), DiskError> {
        let mut rows = Vec::new();
        self.disk.each(Space::Flows, &keys::batches(), &mut |key, value| rows.push((key.to_vec(), value.to_vec())))?;
        for (key, row) in rows {
            let batch: Batch = codec::decode(Space::Flows, &row)?;
            if batch.namespace == *name {
                self.unsaved.batch.delete(Space::Flows, keys::callback(&batch.id));
                self.flows.batches.put(key, None);
            }
        }
        Ok(())
    }

    /// Answers those who sealed a batch, now that it is known whether that fired its callback.
    pub(crate) fn answer_seals(&mut self) -> Result<(), DiskError> {
        for (id, answer) in std::mem::take(&mut self.flows.sealing) {
            let batch = self.flows.batches.get(&self.disk, &keys::batch(&id))?.cloned();
            let value = batch.ok_or_else(|| no_batch(&id).into());
            self.release.push(answer, value);
        }
        Ok(())
    }
}

fn no_batch(id: &str) -> Refusal {
    Refusal::not_found("batch", id)
}
