//! Encrypting the rows of a commit, each with the key of its namespace.

use rustc_hash::FxHashMap;
use windlass_core::{Job, JobId, Name, QueueName};

use crate::disk::data_keys::{DataKeyRow, SHARED};
use crate::disk::encrypted::{RowOwner, encrypt, owner};
use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::engine::Engine;

/// Whose key encrypts a row.
enum Owner {
    Nobody,
    Shared,
    /// That of the namespace of this name.
    Namespace(Name),
}

impl<D: Disk> Engine<D> {
    /// Encrypts what is to be, and adds the keys that were made for it. They are saved once the batch is durable.
    pub(crate) fn encrypt(&mut self, batch: &mut WriteBatch) -> Result<Vec<DataKeyRow>, DiskError> {
        let Some(data_keys) = self.disk.data_keys().cloned() else { return Ok(Vec::new()) };
        if data_keys.is_on() {
            let mut queues = self.unsaved.take_queues();
            for ((space, key), value) in &mut batch.writes {
                // A row of one byte says only that it is there.
                let Some(value) = value.as_mut().filter(|value| value.len() > 1) else { continue };
                match self.owner(*space, key, &mut queues)? {
                    Owner::Nobody => {}
                    Owner::Shared => *value = encrypt(&data_keys, SHARED, *space, key, value)?,
                    Owner::Namespace(of) => *value = encrypt(&data_keys, of.namespace_name(), *space, key, value)?,
                }
            }
        }
        let made = data_keys.unsaved();
        for row in &made {
            batch.put(Space::Access, keys::data_key(row.id), codec::encode(row));
        }
        Ok(made)
    }

    fn owner(
        &mut self,
        space: Space,
        key: &[u8],
        queues: &mut FxHashMap<JobId, QueueName>,
    ) -> Result<Owner, DiskError> {
        let found = match owner(space) {
            RowOwner::Nobody => return Ok(Owner::Nobody),
            RowOwner::Shared => None,
            RowOwner::Name => std::str::from_utf8(key).ok().map(Name::stored),
            // Behind the kind of the row.
            RowOwner::Queue => {
                let id = key.get(1..5).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
                id.and_then(|id| self.queues.by_id(id)).map(|queue| queue.row.name.clone())
            }
            RowOwner::Job => match key.first_chunk::<16>() {
                Some(id) => self.queue_of(JobId(u128::from_be_bytes(*id)), queues)?,
                None => None,
            },
        };
        Ok(found.map_or(Owner::Shared, Owner::Namespace))
    }

    /// The queue of a job that has changed or whose log has grown; none if the job is gone.
    fn queue_of(&mut self, id: JobId, known: &mut FxHashMap<JobId, QueueName>) -> Result<Option<QueueName>, DiskError> {
        if let Some(queue) = known.get(&id) {
            return Ok(Some(queue.clone()));
        }
        let found = match self.jobs.get(id) {
            Some(job) => Some(job.queue.clone()),
            // Not through the cache: a job that ends in this very batch is newer than its row.
            None => match self.disk.get(Space::Jobs, &keys::job(id)) {
                Ok(Some(row)) => codec::decode::<Job>(Space::Jobs, &row).ok().map(|job| job.queue),
                Ok(None) => None,
                Err(error) if error.is_damage() => None,
                Err(error) => return Err(error),
            },
        };
        known.extend(found.clone().map(|queue| (id, queue)));
        Ok(found)
    }
}
