//! Threads that yield to all others: what reads all jobs uses only processor time that is otherwise idle.

/// Runs the calling thread only while nothing else wants the processor: any other thread that wakes up preempts it. A
/// low priority alone would not do: between two threads of any other policy the one that computes keeps its slice of
/// some milliseconds. Processes that it starts inherit this. Lowering is always allowed.
pub fn use_idle_priority() {
    #[cfg(target_os = "linux")]
    {
        let lowered = rustix::process::setpriority_process(None, 19).map_err(std::io::Error::from);
        if let Err(error) = lowered.and_then(|()| idle_policy()) {
            tracing::debug!(%error, "a thread cannot be given idle priority");
        }
    }
}

/// Lowers the priority of the calling thread, for work that is not urgent and holds locks that others wait for: with
/// `use_idle_priority` they might wait long for it.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 10) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
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
