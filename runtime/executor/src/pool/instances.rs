//! Instances retained for the next attempt, for plugins that are slow to start and ask for it (`reuse`).
//!
//! The next attempt sees whatever a guest leaves in its globals. So an instance serves only attempts of the same plugin
//! in the same version, with the same limit key and exactly the same permissions, and one that trapped, was stopped or
//! hit a limit is not reused. An idle instance holds its place in the pool only while no attempt waits for one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::Store;

use crate::attempt::Reuse;
use crate::attempt::state::State;
use crate::bindings::Handler;
use crate::limits::{IDLE_INSTANCE_TIME, IDLE_INSTANCES};
use crate::permissions::Permissions;
use crate::pool::admission::PoolPermit;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct IdleInstances(Arc<Mutex<Idle>>);

#[derive(Default)]
struct Idle {
    /// Oldest first.
    idle: VecDeque<(u64, Key, Instance)>,
    next: u64,
}

/// What two attempts must have in common to share an instance.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Permissions say nothing of the namespace, and two tenants may have equal ones.
    owner: Arc<str>,
    version: Arc<str>,
    limit_key: String,
    memory_bytes: usize,
    permissions: Permissions,
}

/// An instance with its store and its permit.
pub(crate) struct Instance {
    pub(crate) store: Store<State>,
    /// Absent until the first call has instantiated it.
    pub(crate) handler: Option<Handler>,
    /// Attempts it has served.
    pub(crate) served: u32,
    /// Dropped last: the place is free once the instance is gone.
    pub(crate) _permit: PoolPermit,
}

impl Key {
    pub(crate) fn new(
        owner: &Arc<str>,
        version: &Arc<str>,
        reuse: &Reuse,
        memory_bytes: usize,
        permissions: &Permissions,
    ) -> Self {
        let (owner, version, limit_key) = (Arc::clone(owner), Arc::clone(version), reuse.limit_key.clone());
        Key { owner, version, limit_key, memory_bytes, permissions: permissions.clone() }
    }
}

impl IdleInstances {
    /// Takes the instance that was used last: its memory is the most likely to be in the processor's caches.
    pub(crate) fn take(&self, key: &Key) -> Option<Instance> {
        let mut idle = self.lock();
        let at = idle.idle.iter().rposition(|(_, own, _)| own == key)?;
        idle.idle.remove(at).map(|(_, _, instance)| instance)
    }

    /// Retains an instance until it is taken or has been idle for too long.
    pub(crate) fn put(&self, key: Key, instance: Instance) {
        let (number, oldest) = {
            let mut idle = self.lock();
            let number = idle.next;
            idle.next += 1;
            idle.idle.push_back((number, key, instance));
            let oldest = if idle.idle.len() > IDLE_INSTANCES { idle.idle.pop_front() } else { None };
            (number, oldest)
        };
        drop(oldest);
        let idle = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE_INSTANCE_TIME).await;
            if let Some(idle) = idle.upgrade() {
                IdleInstances(idle).remove(|idle| idle == number);
            }
        });
    }

    /// Drops every idle instance, because an attempt waits for a place.
    pub(crate) fn drop_all(&self) {
        self.remove(|_| true);
    }

    fn remove(&self, which: impl Fn(u64) -> bool) {
        let gone: VecDeque<_> = {
            let mut idle = self.lock();
            let (gone, stay) = idle.idle.drain(..).partition(|(number, ..)| which(*number));
            idle.idle = stay;
            gone
        };
        // Outside the lock: freeing an instance takes time and passes its place on.
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
