//! What is done for each request.

pub mod access;
pub mod bulk;
mod encrypted_anew;
mod namespaces;
pub mod operation;
pub mod operations;
mod plugins;
mod quotas;
mod webhooks;

use std::sync::Arc;

use windlass_core::flow::order;
use windlass_core::schedule::Schedule;
use windlass_core::{
    CheckedJob, Command, Event, Findings, JobId, NewJob, QueueEvent, QueueName, Refusal, Reply, ScheduleHappening,
    State,
};

use crate::claim::claims::Waiter;
use crate::disk::keys;
use crate::disk::keys::TimerFor;
use crate::disk::{Disk, DiskError};
use crate::engine::Engine;
use crate::engine::facts::Brings;
use crate::engine::failure::Failure;
use crate::engine::requests::operation::Request;
use crate::engine::requests::operations::SettingsChange;
use crate::{Enqueued, Error, LogLine, LogRecord, ScheduleChange};

impl<D: Disk> Engine<D> {
    pub(crate) fn handle(&mut self, request: Request<D>) -> Result<(), DiskError> {
        match request {
            Request::Operation(call) => call.start(self)?,
            Request::Claim { ticket, claim, caller, deadline, answer } => {
                self.claim(ticket, Waiter { claim, caller, deadline, answer })?;
            }
            Request::Forget { ticket } => self.waiting.forget(ticket),
            Request::GiveBack { assignments } => {
                for assignment in assignments {
                    self.give_back(assignment)?;
                }
            }
            // The engine's thread has done both.
            Request::Check | Request::Close { .. } => {}
        }
        Ok(())
    }

    /// All of the jobs, or none.
    pub(crate) fn enqueue(&mut self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Failure> {
        let (jobs, order) = self.check_all(jobs)?;
        self.store_all(jobs, order)
    }

    /// Stores jobs that have been checked, each after those of them that it depends on.
    fn store_all(&mut self, jobs: Vec<CheckedJob>, order: Vec<usize>) -> Result<Vec<Enqueued>, Failure> {
        let mut jobs: Vec<Option<CheckedJob>> = jobs.into_iter().map(Some).collect();
        let mut stored: Vec<Option<Enqueued>> = vec![None; jobs.len()];
        for index in order {
            let Some(mut job) = jobs[index].take() else { continue };
            job.resolve_siblings(|sibling| stored[sibling].as_ref().map(|stored| stored.id));
            let reply = self.enqueue_one(job)?;
            stored[index] = Some(self.enqueued(reply)?);
        }
        Ok(stored.into_iter().flatten().collect())
    }

    fn enqueued(&mut self, reply: Reply) -> Result<Enqueued, DiskError> {
        match reply {
            Reply::Duplicate { id } => {
                let state = self.load(id)?.map_or(State::Completed, |job| job.state);
                Ok(Enqueued { id, state, duplicate: true })
            }
            Reply::Stored { id, state } => Ok(Enqueued { id, state, duplicate: false }),
            other => unreachable!("an enqueue is stored or a duplicate, not {other:?}"),
        }
    }

    pub(crate) fn ask_with_children(
        &mut self,
        id: JobId,
        command: Command,
        (children, findings): (Vec<NewJob>, Option<Box<Findings>>),
    ) -> Result<Reply, Failure> {
        let (children, order) = self.check_all(children)?;
        let count = u32::try_from(children.len()).unwrap_or(u32::MAX);
        let reply = self.ask_bringing(id, command, Brings { children: count, findings })?;
        // Nor are there children of a job that was to be deleted when its attempt ended.
        if matches!(reply, Reply::Unchanged | Reply::Removed) {
            return Ok(reply);
        }
        self.store_all(children, order)?;
        Ok(reply)
    }

    /// Everything that can be refused is refused before anything is stored. Returns the jobs with the order to store
    /// them in.
    fn check_all(&mut self, jobs: Vec<NewJob>) -> Result<(Vec<CheckedJob>, Vec<usize>), Failure> {
        let many = jobs.len() > 1;
        let mut checked = Vec::with_capacity(jobs.len());
        for (index, job) in jobs.into_iter().enumerate() {
            match job.check(self.now).map_err(Failure::from).and_then(|job| self.check_ties(&job).map(|()| job)) {
                // Among many, say which.
                Err(Failure::Refused(Error::Refused(Refusal::Invalid { field, why }))) if many => {
                    return Err(Refusal::Invalid { field, why: format!("{why} (jobs[{index}])") }.into());
                }
                job => checked.push(job?),
            }
        }
        let order = order(&checked)?;
        self.quotas.admit(&checked, |queue| !self.queues.contains(queue))?;
        Ok((checked, order))
    }

    pub(crate) fn configure(
        &mut self,
        name: QueueName,
        change: SettingsChange,
        by: Option<String>,
    ) -> Result<windlass_core::Settings, Error> {
        let mut settings = self.queues.get(&name).map(|queue| queue.row.settings.clone()).unwrap_or_default();
        change(&mut settings);
        settings.check()?;
        self.check_rounds(&name, &settings)?;
        self.admit_queues([&name])?;
        self.ensure_queue(&name);
        let now = self.now;
        if let Some(queue) = self.queues.get_mut(&name) {
            let told = QueueEvent::of(&queue.row.settings, &settings);
            self.events.extend(told.into_iter().map(|event| event.event(&name, now)));
            queue.row.settings = settings.clone();
            queue.row.settings_by = by;
            queue.dirty = true;
            queue.closed_until = None;
            for ring in queue.line.rings() {
                ring.unpark_all();
            }
            for state in [State::Completed, State::Dead, State::Cancelled] {
                self.retention.look_at(queue.row.id, state, now);
            }
        }
        self.regate();
        self.queues.wake(&name);
        self.unsaved.require_commit();
        Ok(settings)
    }

    pub(crate) fn change_schedule(&mut self, change: ScheduleChange) -> Result<(), Failure> {
        match change {
            ScheduleChange::Put { schedule, replace } => {
                let mut schedule = *schedule;
                let old = self.catalogue.schedule(&schedule.name).cloned();
                let old = old.as_ref();
                if old.is_some() && !replace {
                    return Err(Refusal::Exists { what: "schedule", name: schedule.name.to_string() }.into());
                }
                schedule.created_at = old.map_or(self.now, |old| old.created_at);
                if let Some(old) = old {
                    schedule.created_by = old.created_by.clone();
                }
                schedule.updated_at = self.now;
                schedule.last_run = old.and_then(|old| old.last_run);
                schedule.last_job = old.and_then(|old| old.last_job);
                schedule.skipped = old.map(|old| old.skipped.clone()).unwrap_or_default();
                schedule.check()?;
                schedule.next_run = schedule.next_after(self.now).ok().flatten();
                self.admit_queues([&schedule.queue])?;
                match old {
                    None => self.tell_of_schedule(&schedule, ScheduleHappening::Created),
                    Some(old) if old.differs(&schedule) => {
                        self.tell_of_schedule(&schedule, ScheduleHappening::Changed);
                    }
                    Some(_) => {}
                }
                self.ensure_queue(&schedule.queue);
                self.put_schedule(schedule);
            }
            ScheduleChange::Pause { name, paused } => {
                let mut schedule = self.catalogue.known_schedule(&name)?;
                if schedule.paused != paused {
                    let told = if paused { ScheduleHappening::Paused } else { ScheduleHappening::Resumed };
                    self.tell_of_schedule(&schedule, told);
                }
                schedule.paused = paused;
                schedule.updated_at = self.now;
                // Instants that passed while it was paused are not missed: they were not wanted.
                schedule.next_run = schedule.next_after(self.now).ok().flatten();
                self.put_schedule(schedule);
            }
            ScheduleChange::RunNow { name } => {
                let mut schedule = self.catalogue.known_schedule(&name)?;
                self.run_instant(&mut schedule, self.now)?;
                self.put_schedule(schedule);
            }
            ScheduleChange::Remove { name } => {
                let schedule = self.catalogue.known_schedule(&name)?;
                if let Some(at) = schedule.next_run {
                    self.unsaved.delete_timer(keys::timer(at, &TimerFor::Schedule(name.clone())));
                }
                self.tell_of_schedule(&schedule, ScheduleHappening::Removed);
                self.catalogue.drop_schedule(&name, &mut self.unsaved.batch);
                self.unsaved.require_commit();
            }
        }
        Ok(())
    }

    pub(crate) fn tell_of_schedule(&mut self, schedule: &Schedule, happening: ScheduleHappening) {
        self.events.push(happening.event(&schedule.name, &schedule.queue, self.now));
    }

    /// Something happened that no row tells of.
    pub(crate) fn tell_of_worker(&mut self, event: Event) {
        self.events.push(event);
        self.unsaved.require_commit();
    }

    pub(crate) fn add_log(&mut self, id: JobId, mut lines: Vec<LogLine>) -> Result<(), DiskError> {
        // Only an attempt writes a log; the removal of a job that never started looks for none.
        if self.load(id)?.is_none_or(|job| job.fence == 0) {
            return Ok(());
        }
        let first = self.logs.number(&self.disk, id, &mut lines, self.tuning.log_lines)?;
        if lines.is_empty() {
            return Ok(());
        }
        // Shown ahead of their commit, like progress.
        if self.channels.logs.receiver_count() > 0 {
            let _ = self.channels.logs.send(Arc::new(LogRecord { job: id, first, lines: lines.clone() }));
        }
        self.logs.add(id, first, lines);
        self.unsaved.may_wait(self.now);
        Ok(())
    }
}
