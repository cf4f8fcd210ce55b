//! Processor time and priority, as the executor's threads have them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time that all threads of this process have used so far.
pub fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Gives the calling thread the priority of the executor's guest threads, so that other load on the machine affects
/// both alike.
pub fn lower_priority() {
    // If it fails, the thread runs at the normal priority, as a guest thread would.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}
