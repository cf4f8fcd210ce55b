//! The attempts that run in this process, and how to stop each of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::{JobId, Token};
use windlass_executor::Cancel;

type Key = (JobId, Token);

#[derive(Clone, Default)]
pub(super) struct RunningAttempts(Arc<Mutex<Attempts>>);

#[derive(Default)]
struct Attempts {
    running: HashMap<Key, watch::Sender<Option<Cancel>>>,
    /// Set once all attempts are to stop; attempts that start later are stopped as well.
    stop_all: Option<Cancel>,
}

/// An attempt's entry, removed when this is dropped.
pub(super) struct RunningEntry {
    running: RunningAttempts,
    key: Key,
}

impl RunningAttempts {
    pub(super) fn enter(&self, job: JobId, token: Token) -> (RunningEntry, watch::Receiver<Option<Cancel>>) {
        let mut attempts = self.lock();
        let (sender, receiver) = watch::channel(attempts.stop_all);
        attempts.running.insert((job, token), sender);
        (RunningEntry { running: self.clone(), key: (job, token) }, receiver)
    }

    /// Asks one attempt to stop; false if it does not run here.
    pub(super) fn stop(&self, job: JobId, token: Token, cancel: Cancel) -> bool {
        let attempts = self.lock();
        let Some(sender) = attempts.running.get(&(job, token)) else {
            return false;
        };
        ask(sender, cancel);
        true
    }

    pub(super) fn stop_all(&self, cancel: Cancel) {
        let mut attempts = self.lock();
        attempts.stop_all = Some(cancel);
        for sender in attempts.running.values() {
            ask(sender, cancel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        // Each change is a single step, so a poisoned lock holds nothing inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A second request may shorten the grace period of the first, never lengthen it.
fn ask(sender: &watch::Sender<Option<Cancel>>, cancel: Cancel) {
    sender.send_if_modified(|asked| {
        let sooner = asked.is_none_or(|asked| cancel.deadline < asked.deadline);
        if sooner {
            *asked = Some(cancel);
        }
        sooner
    });
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.running.lock().running.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use windlass_core::Time;
    use windlass_executor::CancelReason;

    const TOKEN: Token = Token { fence: 1, secret: 7 };

    #[test]
    fn only_the_attempt_with_the_token_is_stopped_and_only_while_it_runs() {
        let (running, job) = (RunningAttempts::default(), JobId::new(Time(1), 1));
        let (entry, cancel) = running.enter(job, TOKEN);
        let request = Cancel::within(CancelReason::User, Duration::from_secs(5));
        assert!(!running.stop(job, Token { fence: 2, ..TOKEN }, request), "another attempt of the job");
        assert!(running.stop(job, TOKEN, request));
        assert_eq!(*cancel.borrow(), Some(request));
        drop(entry);
        assert!(!running.stop(job, TOKEN, request));
    }

    #[test]
    fn a_shutdown_stops_later_attempts_too_and_never_lengthens_a_grace_period() {
        let (running, job) = (RunningAttempts::default(), JobId::new(Time(1), 1));
        let (_entry, cancel) = running.enter(job, TOKEN);
        let short = Cancel::within(CancelReason::User, Duration::from_secs(1));
        let long = Cancel::within(CancelReason::Shutdown, Duration::from_secs(9));
        running.stop(job, TOKEN, short);
        running.stop_all(long);
        assert_eq!(*cancel.borrow(), Some(short));
        let (_late, cancel) = running.enter(job, Token { fence: 2, ..TOKEN });
        assert_eq!(*cancel.borrow(), Some(long));
    }
}
