//! What the operating system offers per thread: a priority and a processor clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Gives the calling thread the lowest normal priority, so that HTTP and the store never wait for guests or the
/// compiler. Lowering one's own priority is always allowed; if it fails all the same, the thread runs at the normal
/// one.
pub(crate) fn lower_priority() {
    // On Linux priorities belong to threads, and `None` names the calling one. Elsewhere they belong to processes.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!(%error, "cannot lower the priority of a thread");
    }
}

/// Gives the calling thread the idle policy: any other thread that wakes up preempts it immediately. Between two
/// threads of normal priorities, the one that computes keeps the processor until its time slice of some milliseconds is
/// used up.
pub(crate) fn run_only_when_idle() {
    lower_priority();
    #[cfg(target_os = "linux")]
    if let Err(error) = idle_policy() {
        tracing::debug!(%error, "cannot give a thread the idle policy");
    }
}

/// None of the dependencies offers this call.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn idle_policy() -> std::io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 names the calling thread, and `param` lives through the call, which only reads it.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The processor time that the calling thread has used so far.
pub(crate) fn cpu_clock() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
