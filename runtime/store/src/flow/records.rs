//! Records: written and marked in the commit of what they came with, found by queue and key, by mark, and by the job
//! that owns them.

use windlass_core::{JobId, NewMark, NewRecord, Queue, QueueName, Record, Refusal};

use crate::disk::fjall::View;
use crate::disk::{Disk, DiskError, Space, after_prefix};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::read::row;
use crate::store::Store;
use crate::{Error, limits};

impl<D: Disk> Engine<D> {
    /// Writes a record under the queue of its job. It replaces one with the same key, whoever wrote it.
    pub(crate) fn put_record(&mut self, owner: JobId, new: NewRecord) -> Result<(), DiskError> {
        let Some(name) = self.load(owner)?.map(|job| job.queue.clone()) else { return Ok(()) };
        let Some(queue) = self.queues.get(&name).map(|queue| queue.row.id) else { return Ok(()) };
        if let Some(old) = self.stored_record(queue, &new.key)? {
            self.unsaved.batch.delete(Space::Records, keys::record_of(old.job, queue, &new.key));
            self.unsaved.batch.delete(Space::Records, keys::marked(queue, &new.key));
        }
        self.unsaved.batch.put(Space::Records, keys::record_of(owner, queue, &new.key), vec![codec::FORMAT]);
        self.unsaved.add_record(owner, queue, new.key.clone());
        let NewRecord { key, value } = new;
        let row = Record { queue: name, key, value, mark: None, job: owner, updated_at: self.now };
        self.unsaved.batch.put(Space::Records, keys::record(queue, &row.key), codec::encode(&row));
        self.unsaved.require_commit();
        Ok(())
    }

    /// Marks a record, or removes its mark. A missing record is ignored.
    pub(crate) fn put_mark(&mut self, new: NewMark) -> Result<(), DiskError> {
        let Some(queue) = self.queues.get(&new.queue).map(|queue| queue.row.id) else { return Ok(()) };
        let Some(mut row) = self.stored_record(queue, &new.key)? else { return Ok(()) };
        if row.mark == new.mark {
            return Ok(());
        }
        row.mark = new.mark;
        row.updated_at = self.now;
        match row.mark {
            Some(_) => self.unsaved.batch.put(Space::Records, keys::marked(queue, &new.key), vec![codec::FORMAT]),
            None => self.unsaved.batch.delete(Space::Records, keys::marked(queue, &new.key)),
        }
        self.unsaved.batch.put(Space::Records, keys::record(queue, &new.key), codec::encode(&row));
        self.unsaved.require_commit();
        Ok(())
    }

    /// The job is removed or rebuilt: the records it wrote are deleted, unless others have replaced them.
    pub(crate) fn drop_records(&mut self, owner: JobId) -> Result<(), DiskError> {
        let mut owned = self.unsaved.take_records(owner);
        let prefix = keys::records_of(owner);
        self.disk.each(Space::Records, &prefix, &mut |key, _| owned.extend(keys::read_record_of(key)))?;
        for (queue, key) in owned {
            self.unsaved.batch.delete(Space::Records, keys::record_of(owner, queue, &key));
            if self.stored_record(queue, &key)?.is_some_and(|row| row.job == owner) {
                self.unsaved.batch.delete(Space::Records, keys::record(queue, &key));
                self.unsaved.batch.delete(Space::Records, keys::marked(queue, &key));
            }
        }
        self.unsaved.require_commit();
        Ok(())
    }

    fn stored_record(&self, queue: u32, key: &str) -> Result<Option<Record>, DiskError> {
        match self.written(Space::Records, keys::record(queue, key))? {
            Some(bytes) => Ok(Some(codec::decode(Space::Records, &bytes)?)),
            None => Ok(None),
        }
    }
}

impl Store {
    /// What a handler has noted under this key of this queue.
    pub async fn record(&self, queue: QueueName, key: String) -> Result<Option<Record>, Error> {
        let queue = self.own_queue(queue)?;
        let view = self.view().await?;
        match queue_id(&view, &queue)? {
            Some(id) => Ok(row(&view, Space::Records, &keys::record(id, &key))?),
            None => Ok(None),
        }
    }

    /// A page of the records of a queue in the order of their keys, and the key that the next page begins with.
    pub async fn records(
        &self,
        queue: QueueName,
        from: String,
        limit: usize,
        marked_only: bool,
    ) -> Result<(Vec<Record>, Option<String>), Error> {
        let queue = self.own_queue(queue)?;
        self.read(move |view| {
            let Some(id) = queue_id(view, &queue)? else { return Ok((Vec::new(), None)) };
            let all = if marked_only { keys::marked(id, "") } else { keys::record(id, "") };
            let start: Vec<u8> = all.iter().copied().chain(from.bytes()).collect();
            let (mut found, mut bytes) = (Vec::new(), 0);
            for pair in view.range(Space::Records, &start, &after_prefix(&all)) {
                let (key, value) = pair?;
                let text = key_text(&key, &all);
                if found.len() >= limit || bytes >= limits::RECORDS_PAGE_BYTES {
                    return Ok((found, Some(text)));
                }
                let record: Option<Record> = match marked_only {
                    true => row(view, Space::Records, &keys::record(id, &text))?,
                    false => Some(codec::decode(Space::Records, &value)?),
                };
                bytes += record.as_ref().map_or(0, |record| record.value.len());
                found.extend(record);
            }
            Ok((found, None))
        })
        .await
    }
}

/// The jobs whose records of this queue are marked.
pub(crate) fn marked_jobs(view: &View, queue: u32) -> Result<Vec<JobId>, DiskError> {
    let all = keys::marked(queue, "");
    let mut jobs = Vec::new();
    for pair in view.under(Space::Records, &all) {
        let key = key_text(&pair?.0, &all);
        jobs.extend(row::<Record>(view, Space::Records, &keys::record(queue, &key))?.map(|record| record.job));
    }
    Ok(jobs)
}

/// What follows what all keys of their kind begin with.
fn key_text(key: &[u8], all: &[u8]) -> String {
    String::from_utf8_lossy(key.get(all.len()..).unwrap_or_default()).into_owned()
}

fn queue_id(view: &View, queue: &QueueName) -> Result<Option<u32>, DiskError> {
    Ok(row::<Queue>(view, Space::Queues, &keys::named(queue))?.map(|queue| queue.id))
}

/// Says which queue is not there.
pub(crate) fn known_queue(view: &View, queue: &QueueName) -> Result<u32, Error> {
    queue_id(view, queue)?.ok_or_else(|| Refusal::not_found("queue", queue).into())
}
