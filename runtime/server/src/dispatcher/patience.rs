//! Waiting for a store that is in trouble: a full disk, no file descriptors, more to do than it can.
//!
//! None of that is the failure of a job. A call of a guest waits here for a while; when that does not help, the attempt is handed
//! back and nobody is charged. What was waited is no part of the attempt's time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{info, warn};
use windlass_core::JobId;
use windlass_executor::HostError;
use windlass_store::Error;

use crate::limits;

/// How long the calls of one attempt have waited.
#[derive(Default)]
pub(super) struct Waited(Mutex<Sum>);

#[derive(Default)]
struct Sum {
    over: Duration,
    /// Since when a call waits now.
    since: Option<Instant>,
}

/// The patience of one call.
pub(super) struct Patience<'a> {
    waited: &'a Waited,
    job: JobId,
    /// Since when it waits; absent while all is well.
    since: Option<Instant>,
    most: Duration,
}

impl Waited {
    /// Up to this moment.
    pub(super) fn total(&self) -> Duration {
        let sum = self.lock();
        sum.over + sum.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// For one call of an attempt of this job.
    pub(super) fn patience(&self, job: JobId, most: Duration) -> Patience<'_> {
        Patience { waited: self, job, since: None, most }
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        // Both fields are set in one step each.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Patience<'_> {
    /// Waits a little before the store is asked again; or says what to tell the guest, when asking again would not help.
    pub(super) async fn wait(&mut self, error: Error) -> Result<(), HostError> {
        if !may_pass(&error) {
            return Err(host_error(error));
        }
        let since = *self.since.get_or_insert_with(|| {
            warn!(job = %self.job, "an attempt waits for the store: {error}");
            let now = Instant::now();
            self.waited.lock().since = Some(now);
            now
        });
        if since.elapsed() >= self.most {
            return Err(host_error(error));
        }
        sleep(pause_after(&error)).await;
        Ok(())
    }
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        let Some(since) = self.since else { return };
        let mut sum = self.waited.lock();
        sum.over += since.elapsed();
        sum.since = None;
        info!(job = %self.job, "an attempt has waited {:.1?} for the store", since.elapsed());
    }
}

/// Whether the store may be able to do it a little later.
pub(super) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Overloaded { .. } | Error::Unavailable { .. } | Error::Unknown { .. } => true,
        Error::Refused(_) | Error::NoSearch { .. } | Error::Damaged { .. } | Error::Closed => false,
    }
}

/// What a guest is told of an error; or that its attempt ends, because the trouble is not its own.
pub(super) fn host_error(error: Error) -> HostError {
    match error {
        Error::Overloaded { .. } | Error::Unavailable { .. } | Error::Unknown { .. } | Error::Closed => {
            HostError::Interrupted(error.to_string())
        }
        Error::Refused(_) | Error::NoSearch { .. } | Error::Damaged { .. } => HostError::Unavailable(error.to_string()),
    }
}

pub(super) fn pause_after(error: &Error) -> Duration {
    match error {
        Error::Overloaded { retry_after } => *retry_after,
        Error::Refused(_)
        | Error::Unavailable { .. }
        | Error::Unknown { .. }
        | Error::NoSearch { .. }
        | Error::Damaged { .. }
        | Error::Closed => limits::STORE_RETRY,
    }
}

/// Asks until the store can answer: an attempt's outcome is too dear to lose to a full disk.
pub(super) async fn insist<T, F>(mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut told = false;
    loop {
        match ask().await {
            Err(error) if may_pass(&error) => {
                if !std::mem::replace(&mut told, true) {
                    warn!("the store is asked until it can answer: {error}");
                }
                sleep(pause_after(&error)).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Refusal, Time};

    use super::*;

    fn full() -> Error {
        Error::Unavailable { why: "no space left on device".to_owned() }
    }

    #[tokio::test]
    async fn a_call_waits_for_a_full_disk_and_then_its_attempt_ends_uncharged() {
        let waited = Waited::default();
        let mut patience = waited.patience(JobId::new(Time(1), 1), Duration::ZERO);
        let ended = patience.wait(full()).await;
        assert!(matches!(&ended, Err(HostError::Interrupted(why)) if why.contains("no space left")), "{ended:?}");
        let mut patience = waited.patience(JobId::new(Time(1), 1), Duration::from_secs(3_600));
        assert_eq!(patience.wait(Error::Overloaded { retry_after: Duration::from_millis(1) }).await, Ok(()));
        drop(patience);
        assert!(waited.total() > Duration::ZERO && waited.lock().since.is_none());
    }

    #[tokio::test]
    async fn what_waiting_cannot_change_is_said_at_once() {
        let waited = Waited::default();
        let mut patience = waited.patience(JobId::new(Time(1), 1), Duration::from_secs(3_600));
        let refused = patience.wait(Refusal::invalid("queue", "no").into()).await;
        assert!(matches!(refused, Err(HostError::Unavailable(_))), "the guest's own: {refused:?}");
        let damaged = patience.wait(Error::Damaged { what: "a file".to_owned() }).await;
        assert!(matches!(damaged, Err(HostError::Unavailable(_))), "{damaged:?}");
        let closed = patience.wait(Error::Closed).await;
        assert!(matches!(closed, Err(HostError::Interrupted(_))), "the server stops: {closed:?}");
        assert_eq!(waited.total(), Duration::ZERO);
    }
}
