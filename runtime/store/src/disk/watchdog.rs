//! The watchdog: one quiet thread that makes the witness durable about once a second, has the engine look whether its
//! folder is still there, ends a commit that is stuck, and removes blob files that no job holds.

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::thread::{park_timeout, sleep};
use std::time::{Duration, Instant};

use windlass_core::Time;

use crate::disk::blobs::Blobs;
use crate::disk::codec;
use crate::disk::counted::Acknowledged;
use crate::disk::counted::CommitStatus;
use crate::disk::folder::DataFolder;
use crate::disk::witness::Witness;
use crate::disk::{Disk, Space};
use crate::engine::requests::operation::Request;
use crate::engine::thread::shared::Shared;
use crate::{Clock, limits};

pub struct Watchdog {
    pub commit_status: Arc<CommitStatus>,
    pub witness: Arc<Witness>,
    pub clock: Arc<dyn Clock>,
    pub blobs: Arc<Blobs>,
    pub folder: Arc<DataFolder>,
    pub shared: Arc<Shared>,
    pub requests: Weak<SyncSender<Request<Acknowledged>>>,
    /// Gone when the store is.
    pub alive: Weak<()>,
}

const COLLECT_BLOBS_EVERY: Duration = Duration::from_secs(600);
/// A younger file may belong to a command that is on its way.
const BLOB_GRACE: Duration = Duration::from_secs(3600);

impl Watchdog {
    pub fn run(self) {
        let mut synced = 0;
        let mut last_collection = Instant::now();
        while self.alive.strong_count() > 0 {
            park_timeout(limits::WITNESS_EVERY);
            let acknowledged = self.commit_status.acknowledged.load(Ordering::Relaxed);
            if acknowledged != synced && self.witness.sync().is_ok() {
                synced = acknowledged;
            }
            self.end_stuck_commit();
            // Without this an idle server would notice only with its next commit. Where there is no place in the queue
            // the engine commits all the time, and looks then.
            if let Some(requests) = self.requests.upgrade() {
                let _ = requests.try_send(Request::Check);
            }
            if last_collection.elapsed() > COLLECT_BLOBS_EVERY {
                last_collection = Instant::now();
                self.collect_blobs();
            }
        }
    }

    /// A disk that hangs would hold every caller for ever. A dead process is restarted and recovers.
    fn end_stuck_commit(&self) {
        let busy = self.commit_status.busy_since.load(Ordering::Relaxed);
        if busy == 0 || self.clock.now().since(Time(busy - 1)) < limits::COMMIT_STUCK {
            return;
        }
        // One more look: the machine may just have woken up.
        sleep(limits::WITNESS_EVERY);
        if self.commit_status.busy_since.load(Ordering::Relaxed) == busy {
            tracing::error!(
                "a commit has been stuck for {} s: the disk does not answer. Ending the process; what was acknowledged is safe",
                limits::COMMIT_STUCK.as_secs()
            );
            std::process::abort();
        }
    }

    fn collect_blobs(&self) {
        let Ok(disk) = self.shared.now() else { return };
        // The files are found by their path, and must be those of this database.
        if self.folder.check().is_err() {
            return;
        }
        let mut components = Vec::new();
        let listed = disk.each(Space::Plugins, &[], &mut |_, value| {
            if let Ok(plugin) = codec::decode::<windlass_core::Plugin>(Space::Plugins, value) {
                components.extend(plugin.versions.iter().map(|version| version.component.sha256));
            }
        });
        if listed.is_err() {
            return;
        }
        // When in doubt, a file is held.
        let is_held = |sha256: &[u8; 32]| {
            components.contains(sha256)
                || disk
                    .scan(Space::Blobs, sha256, &crate::disk::after_prefix(sha256), 1)
                    .map_or(true, |holders| !holders.is_empty())
        };
        match self.blobs.collect(BLOB_GRACE, is_held) {
            Ok(0) => {}
            Ok(removed) => tracing::debug!(removed, "swept blobs that no job holds"),
            Err(error) => tracing::warn!("cannot collect unused blobs: {error}"),
        }
    }
}
