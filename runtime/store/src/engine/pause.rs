//! A pause of everything: nothing is claimed and nothing happens by itself until somebody resumes. For a restored copy
//! of a data folder, whose jobs must not run beside those of the original.
//!
//! It is a separate row, so that it survives restarts. While it exists no claim gets a job, no timer fires (delays,
//! retries, expiry, leases, schedules), retention removes nothing, and bulk operations that were begun before it wait.
//! What people ask for is done: jobs are stored, cancelled, moved and deleted, and what follows from that for other
//! jobs follows.

use windlass_core::Time;

use crate::disk::codec;
use crate::disk::{Disk, DiskError, Space};
use crate::engine::Engine;

/// Where it is stored, in the space of the engine's own row.
pub const KEY: &[u8] = b"paused";

/// Since when everything is paused; none when it is not.
pub fn read(disk: &impl Disk) -> Result<Option<Time>, DiskError> {
    disk.get(Space::Meta, KEY)?.map(|bytes| codec::decode(Space::Meta, &bytes)).transpose()
}

impl<D: Disk> Engine<D> {
    /// An existing pause keeps its beginning.
    pub(crate) fn pause(&mut self) {
        if self.paused.is_none() {
            self.paused = Some(self.now);
            self.release.set_paused(self.paused);
            self.unsaved.batch.put(Space::Meta, KEY.to_vec(), codec::encode(&self.now));
            self.unsaved.require_commit();
        }
    }

    pub(crate) fn resume(&mut self) {
        if self.paused.take().is_none() {
            return;
        }
        self.release.set_paused(None);
        self.unsaved.batch.delete(Space::Meta, KEY.to_vec());
        // Workers have as long as after a start to show that they live: their heartbeats may have reached another
        // server.
        self.started_at = self.now;
        self.queues.wake_all();
        self.unsaved.require_commit();
    }
}
