//! What the operating system offers per thread: a priority and a processor clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Puts the calling thread behind everything else on the machine, so that guests and the compiler get what is left over and
/// HTTP and the store never wait for them. Lowering one's own priority is always allowed; where it still fails, running at
/// the usual one is only less polite.
pub(crate) fn lower_priority() {
    // On Linux priorities belong to threads, and "no process" names the calling one. Elsewhere they belong to processes.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!(%error, "cannot lower the priority of a thread");
    }
}

/// Puts the calling thread behind even those: whoever else wakes up takes the processor from it at once. Between two threads of
/// any other priority the one that computes keeps it until its slice of some milliseconds is used up.
pub(crate) fn leave_to_all_others() {
    lower_priority();
    #[cfg(target_os = "linux")]
    if let Err(error) = idle_policy() {
        tracing::debug!(%error, "cannot give a thread the idle policy");
    }
}

/// No crate that we have offers this call.
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
