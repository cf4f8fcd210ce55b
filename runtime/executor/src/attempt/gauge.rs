//! What an attempt uses and runs into while it runs, for those who look at it from outside.
//!
//! The attempt writes here as it goes, a few relaxed stores for each call; whoever reads gets numbers that are a moment
//! old.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::plugin::grant::Denied;
use windlass_core::{LimitHits, LimitKind, bounds};

use crate::attempt::meter::{CpuMeter, Liveness};

/// One for each attempt, shared with whoever wants to look at it.
#[derive(Debug, Default)]
pub struct Gauge {
    cpu: Arc<CpuMeter>,
    /// Set when the guest gets its instance.
    liveness: OnceLock<Arc<Liveness>>,
    memory: AtomicU64,
    memory_peak: AtomicU64,
    host_calls: AtomicU64,
    log_bytes: AtomicU64,
    hits: AtomicU16,
    denied: Mutex<Vec<(Instant, Denied)>>,
}

/// What an attempt uses at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub cpu: Duration,
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
    pub host_calls: u64,
    pub log_bytes: u64,
    /// How long ago the handler last gave a sign of life; none before it has begun.
    pub quiet: Option<Duration>,
    pub hits: LimitHits,
}

impl Gauge {
    pub fn read(&self) -> Reading {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Reading {
            cpu: self.cpu.used(),
            memory_bytes: of(&self.memory),
            memory_peak_bytes: of(&self.memory_peak),
            host_calls: of(&self.host_calls),
            log_bytes: of(&self.log_bytes),
            quiet: self.liveness.get().map(|liveness| liveness.last().elapsed()),
            hits: self.hits(),
        }
    }

    /// The limits that it has run into so far.
    pub fn hits(&self) -> LimitHits {
        LimitHits::of_bits(self.hits.load(Ordering::Relaxed))
    }

    /// What it was denied, and when; each once, the first ones.
    pub fn denied(&self) -> Vec<(Instant, Denied)> {
        self.lock().clone()
    }

    pub(crate) fn cpu(&self) -> &Arc<CpuMeter> {
        &self.cpu
    }

    pub(crate) fn begin(&self, liveness: Arc<Liveness>) {
        // An attempt begins once.
        let _ = self.liveness.set(liveness);
    }

    pub(crate) fn hit(&self, limit: LimitKind) {
        self.hits.fetch_or(LimitHits::bit(limit), Ordering::Relaxed);
    }

    pub(crate) fn deny(&self, denied: &Denied) {
        let mut known = self.lock();
        let is_new = known.iter().all(|(_, other)| (&other.wanted, &other.needed) != (&denied.wanted, &denied.needed));
        if denied.grant().is_some() && is_new && known.len() < bounds::DENIALS {
            known.push((Instant::now(), denied.clone()));
        }
    }

    pub(crate) fn set_memory(&self, used: usize, peak: usize) {
        self.memory.store(used as u64, Ordering::Relaxed);
        self.memory_peak.store(peak as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_host_calls(&self, calls: u64) {
        self.host_calls.store(calls, Ordering::Relaxed);
    }

    pub(crate) fn set_log(&self, written: usize) {
        self.log_bytes.store(written as u64, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Denied)>> {
        // Entries are pushed whole.
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_again_is_listed_once_and_only_so_much_is() {
        let gauge = Gauge::default();
        let secret = |number: usize| Denied::secret(&format!("s{number}"));
        (0..2).for_each(|_| (0..bounds::DENIALS * 2).for_each(|number| gauge.deny(&secret(number))));
        let denied = gauge.denied();
        assert_eq!(denied.len(), bounds::DENIALS);
        assert_eq!(denied[1].1, secret(1));
    }

    #[test]
    fn limits_that_were_hit_add_up() {
        let gauge = Gauge::default();
        [LimitKind::Log, LimitKind::Memory, LimitKind::Log].into_iter().for_each(|limit| gauge.hit(limit));
        assert_eq!(gauge.read().hits.iter().collect::<Vec<_>>(), [LimitKind::Memory, LimitKind::Log]);
        assert_eq!(gauge.read().quiet, None, "no handler has begun");
    }
}
