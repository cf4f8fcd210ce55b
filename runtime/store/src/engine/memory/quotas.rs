//! How much of the server each namespace uses, and how much it may. Counted only for namespaces that were made:
//! `default` has no quotas.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::access::{NamespaceRow, Quotas, Used};
use windlass_core::{BodyKind, CheckedJob, Job, Namespace, QueueName, Refusal};

use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::engine::memory::queues::Queues;

#[derive(Default)]
pub struct NamespaceQuotas {
    quotas: BTreeMap<Namespace, Quotas>,
    used: BTreeMap<Namespace, Used>,
    /// Whose stored bytes have changed since the last commit.
    changed: BTreeSet<Namespace>,
}

impl NamespaceQuotas {
    pub fn read(disk: &impl Disk, queues: &Queues) -> Result<NamespaceQuotas, DiskError> {
        let mut own = NamespaceQuotas::default();
        let mut rows = Vec::new();
        disk.each(Space::Access, &keys::namespaces(), &mut |_, value| rows.push(value.to_vec()))?;
        for row in rows {
            let row: NamespaceRow = codec::decode(Space::Access, &row)?;
            own.quotas.insert(row.name, row.quotas);
        }
        let mut stored = Vec::new();
        disk.each(Space::Access, &keys::usages(), &mut |_, value| stored.push(value.to_vec()))?;
        for row in stored {
            let (name, stored_bytes): (Namespace, u64) = codec::decode(Space::Access, &row)?;
            own.used.entry(name).or_default().stored_bytes = stored_bytes;
        }
        for queue in queues.iter().filter(|queue| queue.row.name.prefix().is_some()) {
            let used = own.used.entry(queue.row.name.namespace()).or_default();
            used.queues += 1;
            used.open_jobs += queue.row.counts.open();
        }
        Ok(own)
    }

    pub fn set(&mut self, name: Namespace, quotas: Quotas) {
        self.quotas.insert(name, quotas);
    }

    pub fn remove(&mut self, name: &Namespace) {
        self.quotas.remove(name);
        self.used.remove(name);
        // Its row is deleted with the next commit.
        self.changed.insert(name.clone());
    }

    /// How many attempts of a namespace may run at once.
    pub fn slots(&self, name: &Namespace) -> Option<u32> {
        self.quotas.get(name)?.slots
    }

    pub fn queue_added(&mut self, name: &QueueName) {
        if name.prefix().is_some() {
            self.used.entry(name.namespace()).or_default().queues += 1;
        }
    }

    pub fn queue_removed(&mut self, name: &QueueName) {
        if name.prefix().is_some() {
            let used = self.used.entry(name.namespace()).or_default();
            used.queues = used.queues.saturating_sub(1);
        }
    }

    /// A job has changed, was enqueued (`was` is none) or removed (`is` is none).
    pub fn follow(&mut self, was: Option<&Job>, is: Option<&Job>) {
        let Some(job) = is.or(was).filter(|job| job.queue.prefix().is_some()) else { return };
        let namespace = job.queue.namespace();
        let open = |job: Option<&Job>| u64::from(job.is_some_and(|job| !job.is_ended()));
        let bytes = |job: Option<&Job>| {
            job.map_or(0, |job| BodyKind::ALL.into_iter().map(|kind| job.body(kind).len()).sum::<u64>())
        };
        let used = self.used.entry(namespace.clone()).or_default();
        used.open_jobs = (used.open_jobs + open(is)).saturating_sub(open(was));
        if bytes(is) != bytes(was) {
            used.stored_bytes = (used.stored_bytes + bytes(is)).saturating_sub(bytes(was));
            self.changed.insert(namespace);
        }
    }

    /// Refuses jobs that would take a namespace over its quotas.
    pub fn admit(&self, jobs: &[CheckedJob], is_new: impl Fn(&QueueName) -> bool) -> Result<(), Refusal> {
        let mut more: BTreeMap<Namespace, (Used, BTreeSet<&QueueName>)> = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.queue().prefix().is_some()) {
            let (used, queues) = more.entry(job.queue().namespace()).or_default();
            used.open_jobs += 1;
            used.stored_bytes += job.stored_bytes();
            if is_new(job.queue()) {
                queues.insert(job.queue());
            }
        }
        for (namespace, (mut more, queues)) in more {
            more.queues = u32::try_from(queues.len()).unwrap_or(u32::MAX);
            self.admit_more(&namespace, more)?;
        }
        Ok(())
    }

    /// Refuses queues that are to be made if they would take a namespace over its quota.
    pub fn admit_queues<'a>(&self, new: impl IntoIterator<Item = &'a QueueName>) -> Result<(), Refusal> {
        let mut more: BTreeMap<Namespace, u32> = BTreeMap::new();
        for queue in new.into_iter().filter(|queue| queue.prefix().is_some()) {
            *more.entry(queue.namespace()).or_default() += 1;
        }
        more.into_iter().try_for_each(|(name, queues)| self.admit_more(&name, Used { queues, ..Used::default() }))
    }

    /// Refuses so much more in a namespace.
    pub fn admit_more(&self, namespace: &Namespace, more: Used) -> Result<(), Refusal> {
        let Some(quotas) = self.quotas.get(namespace) else { return Ok(()) };
        quotas.admit(namespace, self.used.get(namespace).copied().unwrap_or_default(), more)
    }

    /// Writes what has changed.
    pub fn gather(&mut self, batch: &mut WriteBatch) {
        for namespace in std::mem::take(&mut self.changed) {
            let key = keys::usage(&namespace);
            match self.used.get(&namespace) {
                Some(used) => batch.put(Space::Access, key, codec::encode(&(namespace, used.stored_bytes))),
                None => batch.delete(Space::Access, key),
            }
        }
    }
}
