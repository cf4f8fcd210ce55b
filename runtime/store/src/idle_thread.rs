//! Threads that give way: those that read all jobs do it with what nobody else wants of the processor.

/// Puts the calling thread behind everything else on the machine: whoever else wakes up takes the processor from it at once. A low
/// priority alone would not do: between two threads of any other policy the one that computes keeps its slice of some
/// milliseconds. Processes that it starts are born so too. Going down is always allowed.
pub fn leave_to_all_others() {
    #[cfg(target_os = "linux")]
    {
        let lowered = rustix::process::setpriority_process(None, 19).map_err(std::io::Error::from);
        if let Err(error) = lowered.and_then(|()| idle_policy()) {
            tracing::debug!(%error, "a thread cannot give way");
        }
    }
}

/// Lowers the priority of the calling thread, for work that is not urgent and holds locks that others wait for: with
/// `leave_to_all_others` they might wait long for it.
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
