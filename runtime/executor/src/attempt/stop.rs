//! When an attempt must stop: it was cancelled, its time is used up, or it has stalled.
//!
//! The guest reads the request through `ask`; `watch` runs concurrently and returns when the guest must be stopped by
//! force.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::attempt::meter::Liveness;
use crate::attempt::{Cancel, CancelReason};
use crate::host::Host;
use crate::limits::TIMEOUT_GRACE;

/// The request to stop, if there is one. Clones see the same.
#[derive(Clone)]
pub(crate) struct Stop {
    cancel: watch::Receiver<Option<Cancel>>,
    time_up: Option<Instant>,
    seen_by_guest: Arc<AtomicBool>,
    /// Knows how long the guest has waited for a host that had failed.
    host: Option<Arc<dyn Host>>,
}

/// Why an attempt was stopped by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForcedStop {
    /// It did not end within the grace period.
    Cancelled(CancelReason),
    /// It gave no sign of life for this long.
    Stalled(Duration),
}

impl Stop {
    pub(crate) fn new(cancel: watch::Receiver<Option<Cancel>>, time_up: Option<Instant>) -> Self {
        Stop { cancel, time_up, seen_by_guest: Arc::new(AtomicBool::new(false)), host: None }
    }

    /// Excludes from the attempt's time what it waits for this host while the host has failed.
    pub(crate) fn extended_by(self, host: Arc<dyn Host>) -> Self {
        Stop { host: Some(host), ..self }
    }

    fn time_up(&self) -> Option<Instant> {
        let waited = self.host.as_ref().map_or(Duration::ZERO, |host| host.waited());
        self.time_up.map(|time_up| time_up + waited)
    }

    /// The current request. A cancellation takes precedence over the attempt's own timeout, but cannot extend it.
    pub(crate) fn request(&self, now: Instant) -> Option<Cancel> {
        let time_up = self.time_up();
        let last_moment = time_up.map(|time_up| time_up + TIMEOUT_GRACE);
        let asked = (*self.cancel.borrow()).map(|cancel| Cancel {
            deadline: last_moment.map_or(cancel.deadline, |last_moment| cancel.deadline.min(last_moment)),
            ..cancel
        });
        let timed_out = || {
            let over = time_up.is_some_and(|time_up| now >= time_up);
            last_moment.filter(|_| over).map(|deadline| Cancel { reason: CancelReason::Timeout, deadline })
        };
        asked.or_else(timed_out)
    }

    /// Returns the request to the guest: if the guest returns after this, it stopped cooperatively.
    pub(crate) fn ask(&self, now: Instant) -> Option<Cancel> {
        let request = self.request(now);
        if request.is_some() {
            self.seen_by_guest.store(true, Ordering::Relaxed);
        }
        request
    }

    /// The reason of the request, if the guest has seen it.
    pub(crate) fn obeyed(&self, now: Instant) -> Option<CancelReason> {
        if self.seen_by_guest.load(Ordering::Relaxed) { self.request(now).map(|request| request.reason) } else { None }
    }

    /// Returns when somebody has asked the attempt to stop.
    pub(crate) async fn asked(mut self) {
        while self.cancel.borrow_and_update().is_none() {
            if self.cancel.changed().await.is_err() {
                // Nobody can ask any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns when the attempt must be stopped by force.
    pub(crate) async fn watch(mut self, liveness: &Liveness, stall_timeout: Option<Duration>) -> ForcedStop {
        let mut may_change = true;
        loop {
            let now = Instant::now();
            let request = self.request(now);
            if let Some(request) = request
                && now >= request.deadline
            {
                return ForcedStop::Cancelled(request.reason);
            }
            let stalled_at = stall_timeout.map(|stall| liveness.last() + stall);
            if let (Some(stalled_at), Some(stall)) = (stalled_at, stall_timeout)
                && now >= stalled_at
            {
                return ForcedStop::Stalled(stall);
            }
            let next = request.map(|request| request.deadline).or_else(|| self.time_up());
            let wake = next.into_iter().chain(stalled_at).min();
            tokio::select! {
                changed = self.cancel.changed(), if may_change => may_change = changed.is_ok(),
                () = until(wake) => {}
            }
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_timeout_is_a_request_first_and_leaves_a_grace_period() {
        let (_sender, cancel) = watch::channel(None);
        let now = Instant::now();
        let stop = Stop::new(cancel, Some(now + SECOND));
        assert_eq!(stop.request(now), None);
        let request = stop.request(now + SECOND).expect("its time is up");
        assert_eq!(request, Cancel { reason: CancelReason::Timeout, deadline: now + SECOND + TIMEOUT_GRACE });
    }

    #[test]
    fn a_request_cannot_extend_the_timeout() {
        let now = Instant::now();
        let (_sender, cancel) =
            watch::channel(Some(Cancel { reason: CancelReason::User, deadline: now + 1_000 * SECOND }));
        let stop = Stop::new(cancel, Some(now + SECOND));
        let request = stop.request(now).expect("it was cancelled");
        assert_eq!(request, Cancel { reason: CancelReason::User, deadline: now + SECOND + TIMEOUT_GRACE });
    }

    struct Slow(Duration);

    #[async_trait::async_trait]
    impl Host for Slow {
        fn progress(&self, _: windlass_core::Progress) {}
        fn log(&self, _: crate::host::GuestLogLine) {}
        fn waited(&self) -> Duration {
            self.0
        }
        async fn checkpoint(
            &self,
            _: crate::attempt::SavedState,
            _: crate::host::Uncommitted,
            _: windlass_core::Usage,
        ) -> Result<(), crate::host::HostError> {
            Ok(())
        }
    }

    #[test]
    fn waiting_for_a_host_that_failed_does_not_count_as_the_attempts_time() {
        let (_sender, cancel) = watch::channel(None);
        let now = Instant::now();
        let stop = Stop::new(cancel, Some(now + SECOND)).extended_by(Arc::new(Slow(60 * SECOND)));
        assert_eq!(stop.request(now + 60 * SECOND), None);
        let request = stop.request(now + 61 * SECOND).expect("its own time is up");
        assert_eq!(request.deadline, now + 61 * SECOND + TIMEOUT_GRACE);
    }

    #[test]
    fn a_guest_that_never_asked_did_not_stop_cooperatively() {
        let now = Instant::now();
        let (_sender, cancel) = watch::channel(Some(Cancel { reason: CancelReason::Swap, deadline: now }));
        let stop = Stop::new(cancel, None);
        assert_eq!(stop.obeyed(now), None);
        stop.ask(now);
        assert_eq!(stop.obeyed(now), Some(CancelReason::Swap));
    }

    #[tokio::test]
    async fn whoever_waits_for_a_request_gets_it_whenever_it_comes() {
        let (sender, cancel) = watch::channel(None);
        let stop = Stop::new(cancel, None);
        let asked = tokio::spawn(stop.clone().asked());
        sender.send_replace(Some(Cancel { reason: CancelReason::Shutdown, deadline: Instant::now() + 3_600 * SECOND }));
        asked.await.expect("it returns");
        stop.asked().await;
    }

    #[tokio::test]
    async fn a_stall_is_noticed_even_when_the_attempt_can_no_longer_be_cancelled() {
        let (sender, cancel) = watch::channel(None);
        drop(sender);
        let liveness = Liveness::begin(Instant::now() - 2 * SECOND);
        let stop = Stop::new(cancel, None);
        assert_eq!(stop.watch(&liveness, Some(SECOND)).await, ForcedStop::Stalled(SECOND));
    }
}
