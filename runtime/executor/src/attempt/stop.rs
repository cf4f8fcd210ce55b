//! When an attempt must end: somebody asked, its time is used up, or it has fallen silent.
//!
//! The guest reads the request through `ask`; `watch` runs beside the guest and returns when it must be stopped dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::attempt::meter::Life;
use crate::attempt::{Cancel, CancelReason};
use crate::host::Host;
use crate::limits::TIMEOUT_GRACE;

/// The request to stop, if there is one. Clones see the same.
#[derive(Clone)]
pub(crate) struct Stop {
    cancel: watch::Receiver<Option<Cancel>>,
    time_up: Option<Instant>,
    told: Arc<AtomicBool>,
    /// Knows how long the guest has waited for a host in trouble.
    host: Option<Arc<dyn Host>>,
}

/// Why an attempt was stopped dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    /// It did not end within the grace.
    Cancelled(CancelReason),
    /// It gave no sign of life for this long.
    Silent(Duration),
}

impl Stop {
    pub(crate) fn new(cancel: watch::Receiver<Option<Cancel>>, time_up: Option<Instant>) -> Self {
        Stop { cancel, time_up, told: Arc::new(AtomicBool::new(false)), host: None }
    }

    /// The same, where waiting for this host when it is in trouble does not count as the attempt's time.
    pub(crate) fn excused_by(self, host: Arc<dyn Host>) -> Self {
        Stop { host: Some(host), ..self }
    }

    fn time_up(&self) -> Option<Instant> {
        let waited = self.host.as_ref().map_or(Duration::ZERO, |host| host.waited());
        self.time_up.map(|time_up| time_up + waited)
    }

    /// The request as it stands. A request from outside goes before the attempt's own timeout, but cannot outlast it.
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

    /// The request, as answered to the guest: from now on its return counts as obeying.
    pub(crate) fn ask(&self, now: Instant) -> Option<Cancel> {
        let request = self.request(now);
        if request.is_some() {
            self.told.store(true, Ordering::Relaxed);
        }
        request
    }

    /// The request that the guest has been told of.
    pub(crate) fn obeyed(&self, now: Instant) -> Option<CancelReason> {
        if self.told.load(Ordering::Relaxed) { self.request(now).map(|request| request.reason) } else { None }
    }

    /// Returns when the attempt must be stopped dead.
    pub(crate) async fn watch(mut self, life: &Life, stall_timeout: Option<Duration>) -> Dead {
        let mut may_change = true;
        loop {
            let now = Instant::now();
            let request = self.request(now);
            if let Some(request) = request
                && now >= request.deadline
            {
                return Dead::Cancelled(request.reason);
            }
            let silent_at = stall_timeout.map(|stall| life.last() + stall);
            if let (Some(silent_at), Some(stall)) = (silent_at, stall_timeout)
                && now >= silent_at
            {
                return Dead::Silent(stall);
            }
            let next = request.map(|request| request.deadline).or_else(|| self.time_up());
            let wake = next.into_iter().chain(silent_at).min();
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
    fn a_timeout_is_a_request_first_and_leaves_a_grace() {
        let (_sender, cancel) = watch::channel(None);
        let now = Instant::now();
        let stop = Stop::new(cancel, Some(now + SECOND));
        assert_eq!(stop.request(now), None);
        let request = stop.request(now + SECOND).expect("its time is up");
        assert_eq!(request, Cancel { reason: CancelReason::Timeout, deadline: now + SECOND + TIMEOUT_GRACE });
    }

    #[test]
    fn a_request_cannot_outlast_the_timeout() {
        let now = Instant::now();
        let (_sender, cancel) =
            watch::channel(Some(Cancel { reason: CancelReason::User, deadline: now + 1_000 * SECOND }));
        let stop = Stop::new(cancel, Some(now + SECOND));
        let request = stop.request(now).expect("somebody asked");
        assert_eq!(request, Cancel { reason: CancelReason::User, deadline: now + SECOND + TIMEOUT_GRACE });
    }

    struct Slow(Duration);

    #[async_trait::async_trait]
    impl Host for Slow {
        fn progress(&self, _: windlass_core::Progress) {}
        fn log(&self, _: crate::host::LogLine) {}
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
    fn what_was_waited_for_a_host_in_trouble_is_not_the_attempts_time() {
        let (_sender, cancel) = watch::channel(None);
        let now = Instant::now();
        let stop = Stop::new(cancel, Some(now + SECOND)).excused_by(Arc::new(Slow(60 * SECOND)));
        assert_eq!(stop.request(now + 60 * SECOND), None);
        let request = stop.request(now + 61 * SECOND).expect("its own time is up");
        assert_eq!(request.deadline, now + 61 * SECOND + TIMEOUT_GRACE);
    }

    #[test]
    fn a_guest_that_never_asked_did_not_obey() {
        let now = Instant::now();
        let (_sender, cancel) = watch::channel(Some(Cancel { reason: CancelReason::Swap, deadline: now }));
        let stop = Stop::new(cancel, None);
        assert_eq!(stop.obeyed(now), None);
        stop.ask(now);
        assert_eq!(stop.obeyed(now), Some(CancelReason::Swap));
    }

    #[tokio::test]
    async fn silence_is_noticed_even_when_nobody_can_cancel_any_more() {
        let (sender, cancel) = watch::channel(None);
        drop(sender);
        let life = Life::begin(Instant::now() - 2 * SECOND);
        let stop = Stop::new(cancel, None);
        assert_eq!(stop.watch(&life, Some(SECOND)).await, Dead::Silent(SECOND));
    }
}
