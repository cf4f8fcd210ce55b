//! The epoch clock: one plain thread that makes computing guests yield at every tick.
//!
//! It sleeps while no guest is on a processor, so an idle server costs nothing, however many attempts are asleep in it.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use wasmtime::Engine;

use crate::error::Error;
use crate::limits::{IDLE_TICKS, TICK};

/// When the executor is dropped, ticks continue for at most this long, so that guests still computing leave their
/// threads.
const LAST_TICKS: Duration = Duration::from_secs(2);

/// Owns the thread; joins it on drop.
pub(crate) struct Ticker {
    handle: TickerHandle,
    thread: Option<JoinHandle<()>>,
}

/// Through this handle the executor reports that a guest is on a processor.
#[derive(Clone)]
pub(crate) struct TickerHandle(Arc<Shared>);

struct Shared {
    on_cpu: AtomicUsize,
    parked: AtomicBool,
    stop: AtomicBool,
    thread: OnceLock<Thread>,
}

/// Present while a guest is being polled.
pub(crate) struct OnCpu<'a>(&'a Shared);

impl Ticker {
    pub(crate) fn start(engine: Engine) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            on_cpu: AtomicUsize::new(0),
            parked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            thread: OnceLock::new(),
        });
        let ticking = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("windlass-ticker".to_owned())
            .spawn(move || tick(&engine, &ticking))
            .map_err(Error::Thread)?;
        shared.thread.get_or_init(|| thread.thread().clone());
        Ok(Ticker { handle: TickerHandle(shared), thread: Some(thread) })
    }

    pub(crate) fn handle(&self) -> TickerHandle {
        self.handle.clone()
    }
}

impl TickerHandle {
    /// Keeps the clock ticking until the returned guard is dropped.
    pub(crate) fn enter(&self) -> OnCpu<'_> {
        // The ticker sets `parked` before it reads `on_cpu`; here it is the other way round. One of the two sees the
        // other's write, so a guest never computes while the ticker sleeps.
        self.0.on_cpu.fetch_add(1, Ordering::SeqCst);
        if self.0.parked.load(Ordering::SeqCst) {
            self.0.wake();
        }
        OnCpu(&self.0)
    }
}

impl Shared {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Drop for OnCpu<'_> {
    fn drop(&mut self) {
        self.0.on_cpu.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.handle.0.stop.store(true, Ordering::SeqCst);
        self.handle.0.wake();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic; if it did, there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

fn tick(engine: &Engine, shared: &Shared) {
    let mut idle = 0;
    let mut stopping = None;
    loop {
        let busy = shared.on_cpu.load(Ordering::SeqCst) > 0;
        if shared.stop.load(Ordering::SeqCst) {
            let since = *stopping.get_or_insert_with(Instant::now);
            if !busy || since.elapsed() > LAST_TICKS {
                return;
            }
        }
        idle = if busy { 0 } else { idle + 1 };
        if idle > IDLE_TICKS {
            shared.parked.store(true, Ordering::SeqCst);
            while shared.on_cpu.load(Ordering::SeqCst) == 0 && !shared.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            shared.parked.store(false, Ordering::SeqCst);
            idle = 0;
        }
        thread::sleep(TICK);
        engine.increment_epoch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_ticker_wakes_for_a_guest_and_is_joined_on_drop() {
        let ticker = Ticker::start(Engine::default()).expect("a thread");
        let handle = ticker.handle();
        let waited = Instant::now();
        while !handle.0.parked.load(Ordering::SeqCst) {
            assert!(waited.elapsed() < Duration::from_secs(30), "the idle ticker never parked");
            thread::yield_now();
        }
        let on_cpu = handle.enter();
        while handle.0.parked.load(Ordering::SeqCst) {
            assert!(waited.elapsed() < Duration::from_secs(30), "the ticker never woke");
            thread::yield_now();
        }
        drop(on_cpu);
        drop(ticker);
        assert_eq!(Arc::strong_count(&handle.0), 1, "the thread is gone");
    }
}
