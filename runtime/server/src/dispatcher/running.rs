//! The attempts that run in this process: what each of them uses, and how to stop it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use windlass_core::{Job, JobId, Name, Runner, Time, Token};
use windlass_executor::{Cancel, Gauge, Limits};

type Key = (JobId, Token);

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct RunningAttempts(Arc<Mutex<Attempts>>);

#[derive(Default)]
struct Attempts {
    running: HashMap<Key, Entry>,
    /// Set once all attempts are to stop; attempts that start later are stopped as well.
    stop_all: Option<Cancel>,
}

struct Entry {
    cancel: watch::Sender<Option<Cancel>>,
    attempt: Arc<RunningAttempt>,
}

/// One attempt in this process.
#[derive(Debug)]
pub struct RunningAttempt {
    pub job: JobId,
    /// The plugin and the version that run it.
    pub plugin: Name,
    pub version: String,
    pub attempt: u32,
    pub started_at: Time,
    pub gauge: Arc<Gauge>,
    /// Known when its handler is about to begin.
    limits: OnceLock<Limits>,
    /// The first request to stop, and when it came.
    stopping: OnceLock<(Instant, Cancel)>,
}

/// An attempt's entry, removed when this is dropped.
pub(super) struct RunningEntry {
    running: RunningAttempts,
    key: Key,
    attempt: Arc<RunningAttempt>,
}

impl RunningAttempt {
    fn of(job: &Job) -> RunningAttempt {
        let run = job.run.as_ref();
        let (plugin, version) = match run.map(|run| &run.runner) {
            Some(Runner::Local { plugin, version }) => (plugin.clone(), version.clone()),
            // It fails at once, because nothing can run it here.
            Some(Runner::External { .. }) | None => (job.queue.clone(), String::new()),
        };
        RunningAttempt {
            job: job.id,
            plugin,
            version,
            attempt: job.attempt,
            started_at: run.map_or(job.since, |run| run.started_at),
            gauge: Arc::default(),
            limits: OnceLock::new(),
            stopping: OnceLock::new(),
        }
    }

    pub fn limits(&self) -> Option<&Limits> {
        self.limits.get()
    }

    pub fn stopping(&self) -> Option<(Instant, Cancel)> {
        self.stopping.get().copied()
    }
}

impl RunningEntry {
    pub(super) fn attempt(&self) -> &RunningAttempt {
        &self.attempt
    }

    /// What the attempt may use: known when its handler is about to begin.
    pub(super) fn set_limits(&self, limits: Limits) {
        // It begins once.
        let _ = self.attempt.limits.set(limits);
    }
}

impl RunningAttempts {
    pub(super) fn enter(&self, job: &Job, token: Token) -> (RunningEntry, watch::Receiver<Option<Cancel>>) {
        let attempt = Arc::new(RunningAttempt::of(job));
        let key = (job.id, token);
        let mut attempts = self.lock();
        let (cancel, receiver) = watch::channel(attempts.stop_all);
        attempts.running.insert(key, Entry { cancel, attempt: Arc::clone(&attempt) });
        (RunningEntry { running: self.clone(), key, attempt }, receiver)
    }

    /// All that run now, in no order.
    pub fn list(&self) -> Vec<Arc<RunningAttempt>> {
        self.lock().running.values().map(|entry| Arc::clone(&entry.attempt)).collect()
    }

    /// Asks one attempt to stop; false if it does not run here.
    pub(super) fn stop(&self, job: JobId, token: Token, cancel: Cancel) -> bool {
        let attempts = self.lock();
        let Some(entry) = attempts.running.get(&(job, token)) else {
            return false;
        };
        entry.ask(cancel);
        true
    }

    pub(super) fn stop_all(&self, cancel: Cancel) {
        let mut attempts = self.lock();
        attempts.stop_all = Some(cancel);
        for entry in attempts.running.values() {
            entry.ask(cancel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        // Each change is a single step, so a poisoned lock holds nothing inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// A second request may shorten the grace period of the first, never lengthen it.
    fn ask(&self, cancel: Cancel) {
        self.cancel.send_if_modified(|asked| {
            let sooner = asked.is_none_or(|asked| cancel.deadline < asked.deadline);
            if sooner {
                *asked = Some(cancel);
            }
            sooner
        });
        let _ = self.attempt.stopping.set((Instant::now(), cancel));
    }
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
    use windlass_core::{Command, Facts, NewJob, Queue, decide};
    use windlass_executor::CancelReason;

    const TOKEN: Token = Token { fence: 1, secret: 7 };

    /// A job that waits; for this registry its state does not matter.
    fn job() -> Job {
        let queue = Queue {
            name: "mail".parse().expect("a name"),
            id: 1,
            created_at: Time(1),
            settings: Default::default(),
            counts: Default::default(),
            settings_by: None,
        };
        let new = NewJob { queue: Some(queue.name.clone()), ..NewJob::default() };
        let checked = Box::new(new.check(Time(1)).expect("a job"));
        let stored = decide(Command::Enqueue(checked), Facts::new(None, &queue), Time(1), 1).expect("it is stored");
        let found = stored.changes.into_iter().find_map(|change| match change {
            windlass_core::Change::Job(job) => Some(*job),
            _ => None,
        });
        found.expect("a job")
    }

    #[test]
    fn only_the_attempt_with_the_token_is_stopped_and_only_while_it_runs() {
        let (running, job) = (RunningAttempts::default(), job());
        let (entry, cancel) = running.enter(&job, TOKEN);
        assert_eq!(running.list().iter().map(|one| one.job).collect::<Vec<_>>(), [job.id]);
        assert!(running.list()[0].stopping().is_none());
        let request = Cancel::within(CancelReason::User, Duration::from_secs(5));
        assert!(!running.stop(job.id, Token { fence: 2, ..TOKEN }, request), "another attempt of the job");
        assert!(running.stop(job.id, TOKEN, request));
        assert_eq!(*cancel.borrow(), Some(request));
        assert_eq!(running.list()[0].stopping().map(|(_, asked)| asked), Some(request));
        drop(entry);
        assert!(!running.stop(job.id, TOKEN, request));
        assert!(running.list().is_empty());
    }

    #[test]
    fn a_shutdown_stops_later_attempts_too_and_never_lengthens_a_grace_period() {
        let (running, job) = (RunningAttempts::default(), job());
        let (_entry, cancel) = running.enter(&job, TOKEN);
        let short = Cancel::within(CancelReason::User, Duration::from_secs(1));
        let long = Cancel::within(CancelReason::Shutdown, Duration::from_secs(9));
        running.stop(job.id, TOKEN, short);
        running.stop_all(long);
        assert_eq!(*cancel.borrow(), Some(short));
        let (_late, cancel) = running.enter(&job, Token { fence: 2, ..TOKEN });
        assert_eq!(*cancel.borrow(), Some(long));
    }
}
