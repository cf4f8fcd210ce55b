//! What an attempt uses: processor time, memory, signs of life.
//!
//! Wasmtime limits each memory on its own and knows no processor time, so both are counted here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wasmtime::ResourceLimiter;

use crate::pool::threads::cpu_clock;

/// Processor time, read from the thread's own clock around each poll. Counting ticks would charge a guest for the time in
/// which its thread was not running at all.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    used_ns: AtomicU64,
    poll_began_ns: AtomicU64,
    /// What others have done on its behalf, beside its own polls.
    aside_ns: AtomicU64,
}

impl CpuMeter {
    /// Runs one poll of the guest and charges it. A poll never changes its thread.
    pub(crate) fn charge<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.poll_began_ns.store(nanos(cpu_clock()), Ordering::Relaxed);
        let answer = poll();
        let began = self.poll_began_ns.load(Ordering::Relaxed);
        let poll_ns = nanos(cpu_clock()).saturating_sub(began);
        self.used_ns.fetch_add(poll_ns, Ordering::Relaxed);
        answer
    }

    /// Charges work that is done for the guest on whatever thread: an HTTP request of its.
    pub(crate) fn charge_aside<T>(&self, poll: impl FnOnce() -> T) -> T {
        let began = nanos(cpu_clock());
        let answer = poll();
        self.aside_ns.fetch_add(nanos(cpu_clock()).saturating_sub(began), Ordering::Relaxed);
        answer
    }

    /// The time used up to this moment, asked from within a poll.
    pub(crate) fn used_within_poll(&self) -> Duration {
        let began = self.poll_began_ns.load(Ordering::Relaxed);
        self.used() + Duration::from_nanos(nanos(cpu_clock()).saturating_sub(began))
    }

    /// The time used by the polls that have ended, its own and those aside.
    pub(crate) fn used(&self) -> Duration {
        let aside = self.aside_ns.load(Ordering::Relaxed);
        Duration::from_nanos(self.used_ns.load(Ordering::Relaxed).saturating_add(aside))
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// When the guest last said something. Written by host calls, read by the one who watches for stalls.
#[derive(Debug)]
pub(crate) struct Life {
    began: Instant,
    last_ms: AtomicU64,
    /// The guest waits for us, so its silence is our doing.
    waiting: AtomicBool,
}

impl Life {
    pub(crate) fn begin(now: Instant) -> Self {
        Life { began: now, last_ms: AtomicU64::new(0), waiting: AtomicBool::new(false) }
    }

    /// How long it has lived.
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
    used: usize,
    peak: usize,
    /// What was allowed last, to be given back if the growth fails after all.
    allowed: usize,
    refused: bool,
}

impl MemoryMeter {
    pub(crate) fn new(limit: usize) -> Self {
        MemoryMeter { limit, used: 0, peak: 0, allowed: 0, refused: false }
    }

    /// Begins a new attempt on the memory that there is.
    pub(crate) fn renew(&mut self) {
        self.peak = self.used;
        self.refused = false;
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the guest has ever asked for more than it may have. When it traps after that, this is most likely why.
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
                true
            }
            _ => {
                self.refused = true;
                false
            }
        }
    }

    fn give_back(&mut self) {
        self.used -= self.allowed;
        self.allowed = 0;
    }
}

/// A table element takes a pointer.
const ELEMENT_BYTES: usize = size_of::<usize>();

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Beyond its own maximum the growth fails whatever we say, and that is no limit of ours.
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.allowed = 0;
            return Ok(false);
        }
        Ok(self.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.give_back();
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
        self.give_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_memories_share_one_limit() {
        let mut meter = MemoryMeter::new(100);
        assert!(meter.memory_growing(0, 60, None).expect("no error"));
        assert!(!meter.memory_growing(0, 60, None).expect("no error"));
        assert!(meter.refused());
        assert!(meter.memory_growing(0, 40, None).expect("no error"));
        assert_eq!(meter.peak(), 100);
    }

    #[test]
    fn a_growth_that_fails_later_is_given_back_once() {
        let mut meter = MemoryMeter::new(100);
        assert!(meter.memory_growing(0, 80, None).expect("no error"));
        meter.memory_grow_failed(wasmtime::Error::msg("no room")).expect("no error");
        meter.memory_grow_failed(wasmtime::Error::msg("no room")).expect("no error");
        assert!(meter.memory_growing(0, 100, None).expect("no error"));
    }

    #[test]
    fn tables_count_by_their_bytes() {
        let mut meter = MemoryMeter::new(10 * ELEMENT_BYTES);
        assert!(meter.table_growing(0, 10, None).expect("no error"));
        assert!(!meter.table_growing(10, 11, None).expect("no error"));
    }

    #[test]
    fn a_memory_beyond_its_own_maximum_is_not_our_refusal() {
        let mut meter = MemoryMeter::new(100);
        assert!(!meter.memory_growing(0, 50, Some(40)).expect("no error"));
        assert!(!meter.refused());
    }

    #[test]
    fn silence_does_not_count_while_the_guest_waits_for_us() {
        let long_ago = Instant::now() - Duration::from_secs(60);
        let life = Life::begin(long_ago);
        assert_eq!(life.last(), long_ago);
        life.pause();
        assert!(life.last() > long_ago + Duration::from_secs(59));
        life.sign();
        assert!(life.last() > long_ago + Duration::from_secs(59), "and the answer is a sign of life");
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
