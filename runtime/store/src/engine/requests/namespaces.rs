//! The end of a namespace. What has names is removed first, by whoever asks for it; here is what would otherwise be
//! left, so that a namespace that is made again under the same name has nothing of the old one.

use windlass_core::access::{ApiKey, KeyNamespaces};
use windlass_core::{BulkStatus, Name, Namespace, Refusal};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;

impl<D: Disk> Engine<D> {
    pub(super) fn remove_namespace(&mut self, name: &Namespace) -> Result<(), Failure> {
        let key = keys::namespace(name);
        if self.written(Space::Access, key.clone())?.is_none() {
            return Err(Refusal::not_found("namespace", name).into());
        }
        let queue = self.queues.iter().find(|queue| queue.row.name.is_in(name));
        let queue = queue.map(|queue| format!("the queue `{}`", queue.row.name));
        let secret = if self.has_secrets(name)? { Some("secrets".to_owned()) } else { None };
        if let Some(what) = queue.or_else(|| self.catalogue.anything_in(name)).or(secret) {
            let why = format!("it still has {what}; send the request again to remove that, too");
            return Err(Refusal::invalid("name", why).into());
        }
        let (webhooks, inbound) = self.catalogue.hooks_in(name);
        for id in webhooks {
            self.remove_webhook(&id)?;
        }
        for queue in inbound {
            self.catalogue.drop_inbound_hook(&queue, &mut self.unsaved.batch);
        }
        self.remove_bulks(name);
        self.remove_batches(name)?;
        self.remove_keys(name)?;
        self.unsaved.batch.delete(Space::Access, key);
        self.unsaved.batch.delete(Space::Access, keys::enqueue_rules(name));
        // What is left of it in old tables and backups cannot be read any more.
        if let Some(row) = self.disk.data_keys().and_then(|keys| keys.remove(name.as_str())) {
            self.put_access(keys::data_key(row.id), &row);
        }
        self.quotas.remove(name);
        Ok(())
    }

    /// Keys of the namespace that were made while it was being emptied, and sessions of people.
    fn remove_keys(&mut self, name: &Namespace) -> Result<(), DiskError> {
        let of = KeyNamespaces::One(name.clone());
        let mut rows = Vec::new();
        self.disk.each(Space::Access, &keys::api_keys(), &mut |_, value| rows.push(value.to_vec()))?;
        for row in rows {
            let key: ApiKey = codec::decode(Space::Access, &row)?;
            if key.namespaces == of {
                self.unsaved.batch.delete(Space::Access, keys::api_key(&key.id));
            }
        }
        self.end_sessions(|session| session.namespaces == of)
    }

    fn has_secrets(&self, name: &Namespace) -> Result<bool, DiskError> {
        let mut any = false;
        self.disk.each(Space::Secrets, &[], &mut |key, _| {
            let is_own = std::str::from_utf8(key).is_ok_and(|key| Name::stored(key).is_in(name));
            let is_deleted =
                self.unsaved.batch.writes.get(&(Space::Secrets, key.to_vec())).is_some_and(Option::is_none);
            any |= is_own && !is_deleted;
        })?;
        Ok(any)
    }

    fn remove_bulks(&mut self, name: &Namespace) {
        let own = self.bulks.values().filter(|bulk| bulk.namespace == *name).cloned().collect::<Vec<_>>();
        for mut bulk in own {
            if !bulk.status.is_over() {
                // Its driver finds that there is nothing more to do.
                bulk.end(BulkStatus::Cancelled, self.now);
                self.unsaved.batch.delete(Space::Blobs, keys::blob_of_bulk(&bulk.jobs, bulk.id));
            }
            self.bulks.remove(&bulk.id);
            self.unsaved.batch.delete(Space::Bulks, keys::bulk(bulk.id));
        }
    }
}
