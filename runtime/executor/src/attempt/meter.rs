//! What an attempt uses: processor time and memory; and when it last made progress.
//!
//! Wasmtime limits each memory separately and does not measure processor time, so both are counted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wasmtime::ResourceLimiter;
use windlass_core::LimitKind;

use crate::attempt::gauge::Gauge;
use crate::pool::threads::cpu_clock;

/// Processor time, read from the thread's own clock around each poll. Counting ticks would charge a guest for time in
/// which its thread did not run.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    used_ns: AtomicU64,
    poll_began_ns: AtomicU64,
    /// Work on its behalf outside its own polls.
    aside_ns: AtomicU64,
}

impl CpuMeter {
    /// Runs one poll of the guest and charges its time. A poll never changes threads.
    pub(crate) fn charge<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.poll_began_ns.store(nanos(cpu_clock()), Ordering::Relaxed);
        let answer = poll();
        let began = self.poll_began_ns.load(Ordering::Relaxed);
        let poll_ns = nanos(cpu_clock()).saturating_sub(began);
        self.used_ns.fetch_add(poll_ns, Ordering::Relaxed);
        answer
    }

    /// Charges work that is done for the guest on any thread, such as an HTTP request.
    pub(crate) fn charge_aside<T>(&self, poll: impl FnOnce() -> T) -> T {
        let began = nanos(cpu_clock());
        let answer = poll();
        self.aside_ns.fetch_add(nanos(cpu_clock()).saturating_sub(began), Ordering::Relaxed);
        answer
    }

    /// The time used so far, called from within a poll.
    pub(crate) fn used_within_poll(&self) -> Duration {
        let began = self.poll_began_ns.load(Ordering::Relaxed);
        self.used() + Duration::from_nanos(nanos(cpu_clock()).saturating_sub(began))
    }

    /// The time used by the polls that have ended, of the guest and on its behalf.
    pub(crate) fn used(&self) -> Duration {
        let aside = self.aside_ns.load(Ordering::Relaxed);
        Duration::from_nanos(self.used_ns.load(Ordering::Relaxed).saturating_add(aside))
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// When the guest last made progress. Written by host calls, read by the stall timeout.
#[derive(Debug)]
pub(crate) struct Liveness {
    began: Instant,
    last_ms: AtomicU64,
    /// The guest waits for the host, so it has not stalled.
    waiting: AtomicBool,
}

impl Liveness {
    pub(crate) fn begin(now: Instant) -> Self {
        Liveness { began: now, last_ms: AtomicU64::new(0), waiting: AtomicBool::new(false) }
    }

    /// Wall time since the attempt started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn sign(&self) {
        let elapsed = self.began.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
        self.waiting.store(false, Ordering::Relaxed);
    }

    /// From now until `sign` the guest waits for the host, and time does not count against it.
    pub(crate) fn pause(&self) {
        self.waiting.store(true, Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Instant {
        if self.waiting.load(Ordering::Relaxed) {
            return Instant::now();
        }
        self.began + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }
}

/// All memories and tables of one attempt together, against one limit.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    limit: usize,
    gauge: Arc<Gauge>,
    used: usize,
    peak: usize,
    /// What was allowed last, subtracted again if the growth fails after all.
    allowed: usize,
    refused: bool,
}

impl MemoryMeter {
    pub(crate) fn new(limit: usize, gauge: Arc<Gauge>) -> Self {
        MemoryMeter { limit, gauge, used: 0, peak: 0, allowed: 0, refused: false }
    }

    /// Resets the peak and the refusal for the next attempt on the same memory.
    pub(crate) fn renew(&mut self, gauge: Arc<Gauge>) {
        self.peak = self.used;
        self.refused = false;
        self.gauge = gauge;
        self.gauge.set_memory(self.used, self.peak);
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the guest ever asked for more than its limit. If it traps after that, this is most likely why.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let more = desired.saturating_sub(current);
        self.allowed = 0;
        match self.used.checked_add(more) {
            Some(total) if total <= self.limit => {
                self.used = total;
                self.peak = self.peak.max(total);
                self.allowed = more;
                self.gauge.set_memory(self.used, self.peak);
                true
            }
            _ => {
                self.refused = true;
                self.gauge.hit(LimitKind::Memory);
                false
            }
        }
    }

    fn undo_growth(&mut self) {
        self.used -= self.allowed;
        self.allowed = 0;
        self.gauge.set_memory(self.used, self.peak);
    }
}

/// A table element is a pointer.
const ELEMENT_BYTES: usize = size_of::<usize>();

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Beyond the memory's own maximum the growth fails anyway, which is not a refusal by this limit.
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.allowed = 0;
            return Ok(false);
        }
        Ok(self.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.undo_growth();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.allowed = 0;
            return Ok(false);
        }
        Ok(self.grow(current.saturating_mul(ELEMENT_BYTES), desired.saturating_mul(ELEMENT_BYTES)))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.undo_growth();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_memories_share_one_limit() {
        let mut meter = MemoryMeter::new(100, Arc::default());
        assert!(meter.memory_growing(0, 60, None).expect("no error"));
        assert!(!meter.memory_growing(0, 60, None).expect("no error"));
        assert!(meter.refused());
        assert!(meter.memory_growing(0, 40, None).expect("no error"));
        assert_eq!(meter.peak(), 100);
    }

    #[test]
    fn a_growth_that_fails_later_is_subtracted_once() {
        let mut meter = MemoryMeter::new(100, Arc::default());
        assert!(meter.memory_growing(0, 80, None).expect("no error"));
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).expect("no error");
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).expect("no error");
        assert!(meter.memory_growing(0, 100, None).expect("no error"));
    }

    #[test]
    fn tables_count_by_their_bytes() {
        let mut meter = MemoryMeter::new(10 * ELEMENT_BYTES, Arc::default());
        assert!(meter.table_growing(0, 10, None).expect("no error"));
        assert!(!meter.table_growing(10, 11, None).expect("no error"));
    }

    #[test]
    fn a_memory_beyond_its_own_maximum_is_not_refused_by_the_limit() {
        let mut meter = MemoryMeter::new(100, Arc::default());
        assert!(!meter.memory_growing(0, 50, Some(40)).expect("no error"));
        assert!(!meter.refused());
    }

    #[test]
    fn a_guest_that_waits_for_the_host_does_not_stall() {
        let long_ago = Instant::now() - Duration::from_secs(60);
        let liveness = Liveness::begin(long_ago);
        assert_eq!(liveness.last(), long_ago);
        liveness.pause();
        assert!(liveness.last() > long_ago + Duration::from_secs(59));
        liveness.sign();
        assert!(liveness.last() > long_ago + Duration::from_secs(59), "the host's answer counts as progress");
    }

    #[test]
    fn processor_time_is_charged_for_computing() {
        let meter = CpuMeter::default();
        let mut sum = 0u64;
        while meter.used() < Duration::from_millis(1) {
            meter.charge(|| (0..10_000u64).for_each(|n| sum = std::hint::black_box(sum.wrapping_add(n))));
        }
        assert!(meter.used_within_poll() >= meter.used());
    }
}
