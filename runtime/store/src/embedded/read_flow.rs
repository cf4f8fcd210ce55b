//! Reads of flows: straight from the database, past the engine.

use windlass_core::flow::Batch;
use windlass_core::{Job, JobId, State};

use super::disk::{Disk, DiskError, Space, after_prefix};
use super::fjall_disk::FjallDisk;
use super::flow::read_end;
use super::{Embedded, keys, record};
use crate::{Error, Linked};

impl Embedded {
    pub async fn batch(&self, id: &str) -> Result<Option<Batch>, Error> {
        let key = keys::batch(id);
        self.read(move |disk| row(disk, Space::Flows, &key)).await
    }

    pub async fn dependencies(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        self.read(move |disk| linked(disk, &keys::dependencies(id), limit, read_end)).await
    }

    pub async fn dependants(&self, id: JobId, limit: usize) -> Result<Vec<Linked>, Error> {
        self.read(move |disk| linked(disk, &keys::dependants(id), limit, |_| None)).await
    }
}

/// `gone` reads from a link how a job stood that is no longer there.
fn linked(
    disk: &FjallDisk,
    prefix: &[u8],
    limit: usize,
    gone: impl Fn(&[u8]) -> Option<State>,
) -> Result<Vec<Linked>, DiskError> {
    let mut found = Vec::new();
    for (key, value) in disk.scan(Space::Links, prefix, &after_prefix(prefix), limit)? {
        let Some(id) = keys::last_job(&key) else { continue };
        let state = match row::<Job>(disk, Space::Jobs, &keys::job(id))? {
            Some(job) => Some(job.state),
            None => gone(&value),
        };
        found.push(Linked { id, state });
    }
    Ok(found)
}

fn row<T: serde::de::DeserializeOwned>(disk: &FjallDisk, space: Space, key: &[u8]) -> Result<Option<T>, DiskError> {
    match disk.get(space, key)? {
        Some(bytes) => Ok(Some(record::decode(space, &bytes)?)),
        None => Ok(None),
    }
}
