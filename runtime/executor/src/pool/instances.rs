//! Instances that are kept for the next attempt, for plugins whose start is dear and who asked for it (`reuse`).
//!
//! Whatever a guest leaves in its globals, the next attempt finds. So an instance serves only attempts of the same version, the
//! same limit key and the very same permissions, and one that trapped, was stopped or met a limit is never kept. An idle
//! instance holds its place in the pool only while nobody waits for one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::Store;

use crate::attempt::Reuse;
use crate::attempt::state::State;
use crate::bindings::Handler;
use crate::limits::{KEPT, KEPT_FOR};
use crate::permissions::Permissions;
use crate::pool::admission::Place;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Shelf>>);

#[derive(Default)]
struct Shelf {
    /// Oldest first.
    idle: VecDeque<(u64, Key, Live)>,
    next: u64,
}

/// What two attempts must have in common to share an instance.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    version: Arc<str>,
    limit_key: String,
    memory_bytes: usize,
    permissions: Permissions,
}

/// An instance and all that belongs to it.
pub(crate) struct Live {
    pub(crate) store: Store<State>,
    /// Absent until the first call has instantiated it.
    pub(crate) handler: Option<Handler>,
    /// Attempts it has served.
    pub(crate) served: u32,
    /// Dropped last: the place is free when the instance is gone.
    pub(crate) _place: Place,
}

impl Key {
    pub(crate) fn new(version: &Arc<str>, reuse: &Reuse, memory_bytes: usize, permissions: &Permissions) -> Self {
        let (version, limit_key) = (Arc::clone(version), reuse.limit_key.clone());
        Key { version, limit_key, memory_bytes, permissions: permissions.clone() }
    }
}

impl Kept {
    /// The instance that was used last: its memory is the warmest.
    pub(crate) fn take(&self, key: &Key) -> Option<Live> {
        let mut shelf = self.lock();
        let at = shelf.idle.iter().rposition(|(_, own, _)| own == key)?;
        shelf.idle.remove(at).map(|(_, _, live)| live)
    }

    /// Puts an instance away until it is wanted, or has been idle for too long.
    pub(crate) fn keep(&self, key: Key, live: Live) {
        let (number, oldest) = {
            let mut shelf = self.lock();
            let number = shelf.next;
            shelf.next += 1;
            shelf.idle.push_back((number, key, live));
            let oldest = if shelf.idle.len() > KEPT { shelf.idle.pop_front() } else { None };
            (number, oldest)
        };
        drop(oldest);
        let shelf = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            if let Some(shelf) = shelf.upgrade() {
                Kept(shelf).forget(|idle| idle == number);
            }
        });
    }

    /// Gives every place back: somebody waits for one.
    pub(crate) fn clear(&self) {
        self.forget(|_| true);
    }

    fn forget(&self, which: impl Fn(u64) -> bool) {
        let gone: VecDeque<_> = {
            let mut shelf = self.lock();
            let (gone, stay) = shelf.idle.drain(..).partition(|(number, ..)| which(*number));
            shelf.idle = stay;
            gone
        };
        // Freeing an instance takes a while and hands its place on: not under the lock.
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
