//! What time brings, done at the start of a group: delays that are over, leases that lapse, limits that open again,
//! cron.

use windlass_core::schedule::{Begin, Schedule, SkipReason};
use windlass_core::{Command, Name, ScheduleHappening, Time};

use crate::disk::keys;
use crate::disk::keys::TimerFor;
use crate::disk::{Disk, DiskError};
use crate::engine::Engine;
use crate::engine::failure::Failure;

impl<D: Disk> Engine<D> {
    pub(crate) fn tick(&mut self) -> Result<(), DiskError> {
        if self.paused.is_none() {
            self.fire_timers()?;
        }
        self.open_limits();
        Ok(())
    }

    fn fire_timers(&mut self) -> Result<(), DiskError> {
        for _ in 0..self.tuning.timers_per_group {
            let Some((key, what)) = self.timers.due(&self.disk, self.now)? else { return Ok(()) };
            self.unsaved.delete_timer(key);
            match what {
                TimerFor::Due(id) => drop(self.try_ask(id, Command::Due)?),
                TimerFor::Expire(id) => drop(self.try_ask(id, Command::Expire)?),
                TimerFor::Retire(id) => self.retire(id)?,
                TimerFor::Unlock(lock) => self.unlock(lock)?,
                TimerFor::Schedule(name) => self.run_schedule(&name)?,
                TimerFor::Watch(id) => drop(self.try_ask(id, Command::Watch { alive_from: self.started_at })?),
            }
        }
        Ok(())
    }

    /// The job's own time of keeping is over.
    fn retire(&mut self, id: windlass_core::JobId) -> Result<(), DiskError> {
        let now = self.now;
        if self.load(id)?.is_some_and(|job| job.is_past_keeping(now)) {
            self.try_ask(id, Command::Delete)?;
        }
        Ok(())
    }

    fn unlock(&mut self, key: Vec<u8>) -> Result<(), DiskError> {
        let now = self.now;
        if self.load_lock(&key)?.is_some_and(|lock| !lock.holds(now)) {
            self.unsaved.set_lock(key, None);
        }
        Ok(())
    }

    /// Rate windows that have moved on let their lanes and queues start again.
    fn open_limits(&mut self) {
        while let Some((queue, limit_key)) = self.limiters.take_opened(self.now) {
            self.queues.unpark(queue, &limit_key);
        }
        self.queues.reopen(self.now);
    }

    /// Stores the jobs of the instants that are due, and moves the schedule on, in one commit.
    pub(crate) fn run_schedule(&mut self, name: &Name) -> Result<(), DiskError> {
        let Some(mut schedule) = self.catalogue.schedule(name).cloned() else { return Ok(()) };
        let due = match schedule.due(self.now) {
            Ok(due) => due,
            Err(refusal) => {
                tracing::warn!(schedule = name.qualified(), "cannot be run: {refusal}");
                return Ok(());
            }
        };
        if let Some(skipped) = due.skipped {
            self.tell_of_skipped(&schedule, skipped.last, &skipped.reason);
            schedule.note_skipped(skipped);
        }
        for instant in due.instants {
            self.run_instant(&mut schedule, instant)?;
        }
        schedule.next_run = due.next;
        self.put_schedule(schedule);
        Ok(())
    }

    /// One run of a schedule, unless its last one is still going and that matters. A run that does not take place is
    /// noted.
    pub(crate) fn run_instant(&mut self, schedule: &mut Schedule, instant: Time) -> Result<(), DiskError> {
        let unfinished = match schedule.last_job {
            Some(last) => self.load(last)?.filter(|job| !job.is_ended()).map(|job| job.id),
            None => None,
        };
        match schedule.begin(unfinished) {
            Begin::Now => {}
            Begin::AfterCancelling(last) => {
                let reason = format!("schedule {} runs again", schedule.name);
                self.try_ask(last, Command::Cancel { reason, grace: None })?;
            }
            Begin::Skip(reason) => {
                self.tell_of_skipped(schedule, instant, &reason);
                schedule.skip(instant, reason);
                return Ok(());
            }
        }
        let stored = match self.enqueue_scheduled(schedule.job(instant)) {
            Ok(reply) => Ok(reply),
            Err(Failure::Refused(error)) => {
                tracing::warn!(schedule = schedule.name.qualified(), "its job was refused: {error}");
                Err(error.to_string())
            }
            Err(Failure::Disk(error)) => return Err(error),
        };
        let told = match schedule.ran(instant, stored.as_ref().map_err(Clone::clone)) {
            Ok(job) => ScheduleHappening::Ran { instant, job },
            Err(reason) => ScheduleHappening::Skipped { instant, reason },
        };
        self.tell_of_schedule(schedule, told);
        Ok(())
    }

    fn tell_of_skipped(&mut self, schedule: &Schedule, instant: Time, reason: &SkipReason) {
        self.tell_of_schedule(schedule, ScheduleHappening::Skipped { instant, reason: reason.clone() });
    }

    /// Stores the schedule with its timer.
    pub(crate) fn put_schedule(&mut self, schedule: Schedule) {
        let what = TimerFor::Schedule(schedule.name.clone());
        if let Some(at) = self.catalogue.schedule(&schedule.name).and_then(|old| old.next_run) {
            self.unsaved.delete_timer(keys::timer(at, &what));
        }
        if let Some(at) = schedule.next_run {
            self.unsaved.put_timer(at, &what);
        }
        self.catalogue.put_schedule(schedule, &mut self.unsaved.batch);
        self.unsaved.require_commit();
    }
}
