//! Waiting for a store that cannot serve a request now: a full disk, no file descriptors, overload.
//!
//! None of these is a failure of the job. A guest's call waits here for a while; if the store does not recover, the
//! attempt is handed back and does not count as a failure. The time spent waiting does not count toward the attempt's
//! timeout.

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
    finished: Duration,
    /// When the call that waits now began to wait.
    since: Option<Instant>,
}

/// The waiting of one call.
pub(super) struct StoreWait<'a> {
    waited: &'a Waited,
    job: JobId,
    /// When it began to wait; `None` if it has not had to.
    since: Option<Instant>,
    most: Duration,
}

impl Waited {
    /// Up to now, including a call that still waits.
    pub(super) fn total(&self) -> Duration {
        let sum = self.lock();
        sum.finished + sum.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// For one call of an attempt of this job.
    pub(super) fn begin(&self, job: JobId, most: Duration) -> StoreWait<'_> {
        StoreWait { waited: self, job, since: None, most }
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        // Each field is set in one step, so a poisoned lock holds nothing inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreWait<'_> {
    /// Pauses before the request is retried, or returns the error for the guest if a retry would not help.
    pub(super) async fn retry(&mut self, error: Error) -> Result<(), HostError> {
        if !is_transient(&error) {
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

impl Drop for StoreWait<'_> {
    fn drop(&mut self) {
        let Some(since) = self.since else { return };
        let mut sum = self.waited.lock();
        sum.finished += since.elapsed();
        sum.since = None;
        info!(job = %self.job, "an attempt has waited {:.1?} for the store", since.elapsed());
    }
}

/// Whether the same request may succeed a little later.
pub(super) fn is_transient(error: &Error) -> bool {
    match error {
        Error::Overloaded { .. } | Error::Unavailable { .. } | Error::Unknown { .. } => true,
        Error::Refused(_) | Error::NoSearch { .. } | Error::Damaged { .. } | Error::Closed => false,
    }
}

/// The error that a guest gets, or `Interrupted`, which ends its attempt because the guest did not cause the error.
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

/// Repeats a request until the store can answer it: an attempt's outcome must not be lost to a full disk.
pub(super) async fn retry_until_answered<T, F>(mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut warned = false;
    loop {
        match ask().await {
            Err(error) if is_transient(&error) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!("the store cannot answer; the request is repeated until it can: {error}");
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
    async fn a_call_waits_for_a_full_disk_and_then_its_attempt_is_interrupted() {
        let waited = Waited::default();
        let mut wait = waited.begin(JobId::new(Time(1), 1), Duration::ZERO);
        let ended = wait.retry(full()).await;
        assert!(matches!(&ended, Err(HostError::Interrupted(why)) if why.contains("no space left")), "{ended:?}");
        let mut wait = waited.begin(JobId::new(Time(1), 1), Duration::from_secs(3_600));
        assert_eq!(wait.retry(Error::Overloaded { retry_after: Duration::from_millis(1) }).await, Ok(()));
        drop(wait);
        assert!(waited.total() > Duration::ZERO && waited.lock().since.is_none());
    }

    #[tokio::test]
    async fn an_error_that_waiting_cannot_change_is_returned_immediately() {
        let waited = Waited::default();
        let mut wait = waited.begin(JobId::new(Time(1), 1), Duration::from_secs(3_600));
        let refused = wait.retry(Refusal::invalid("queue", "no").into()).await;
        assert!(matches!(refused, Err(HostError::Unavailable(_))), "the guest's own error: {refused:?}");
        let damaged = wait.retry(Error::Damaged { what: "a file".to_owned() }).await;
        assert!(matches!(damaged, Err(HostError::Unavailable(_))), "{damaged:?}");
        let closed = wait.retry(Error::Closed).await;
        assert!(matches!(closed, Err(HostError::Interrupted(_))), "the server stops: {closed:?}");
        assert_eq!(waited.total(), Duration::ZERO);
    }
}
