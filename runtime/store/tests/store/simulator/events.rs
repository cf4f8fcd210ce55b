//! How the model follows the stored events: each must be a move that the job could make, for a reason that somebody
//! gave.

use windlass_core::flow::AfterRemoval;
use windlass_core::{
    Command, Complete, Event, EventKind, Fail, HandBack, Heartbeat, Holder, Job, JobId, State, Time, Wait,
};
use windlass_store::EventRecord;

use super::causes::Causes;
use super::model::{Model, ModelJob};
use super::recount::CHARGED;
use super::silent::local_plugin;

const NOT_ITS_HOLDER: &str = "nobody who holds the job asked for that";

/// One event of a job.
struct Step<'a> {
    event: &'a Event,
    /// The job before the event.
    job: ModelJob,
    causes: &'a Causes,
    /// The row of the job after the group, if it still has one.
    stored: Option<&'a Job>,
}

impl Step<'_> {
    fn must(&self, holds: bool, why: &str) {
        assert!(holds, "{:?}: {why}; the job was {:?}", self.event, self.job);
    }

    fn must_be_active(&self) {
        self.must(self.job.state == State::Active, "only a running attempt can do that");
    }

    /// Whether one of the commands came from the attempt that holds the job.
    fn by_holder(&self, what: impl Fn(&Command) -> Option<Holder>) -> bool {
        self.causes.holder(self.event.job, &self.job, what)
    }

    fn acked(&self) -> bool {
        self.by_holder(|command| match command {
            Command::Complete(Complete { holder, .. }) => Some(*holder),
            _ => None,
        })
    }

    fn failed(&self) -> bool {
        self.by_holder(|command| match command {
            Command::Fail(Fail { holder, .. }) => Some(*holder),
            _ => None,
        })
    }

    fn check_checkpoint(&self) {
        self.must_be_active();
        let saves = |command: &Command| match command {
            Command::Heartbeat(Heartbeat { holder, .. })
            | Command::Wait(Wait { holder, .. })
            | Command::Complete(Complete { holder, closing: Some(_), .. }) => Some(*holder),
            _ => None,
        };
        self.must(self.by_holder(saves), NOT_ITS_HOLDER);
    }
}

/// A job that has begun or ended is not changed, nor by itself.
fn edited(step: &Step) {
    let edit = |command: &Command| matches!(command, Command::Edit(_));
    step.must(step.causes.asked(step.event.job, edit), "nobody edited it");
    step.must(!step.job.state.is_ended() && step.job.state != State::Active, "only jobs that wait are edited");
}

impl Model {
    /// Takes one stored event; `stored` is the row of its job after the group, if it still has one.
    pub fn take(&mut self, record: &EventRecord, causes: &Causes, stored: Option<&Job>) {
        let EventRecord { seq, event } = record;
        assert!(*seq > self.last_event, "event {seq} after event {}", self.last_event);
        self.last_event = *seq;
        match &event.kind {
            EventKind::Round(round) => self.check_round_event(event, round),
            EventKind::Plugin(_) | EventKind::Worker(_) => {
                assert_eq!(event.job, JobId::NONE, "{event:?}: it is about no job");
            }
            EventKind::Queue(_) | EventKind::Schedule(_) | EventKind::Bulk(_) => self.told.take(event),
            EventKind::Enqueued => self.enqueued(event, causes, stored),
            _ => {
                let job = self.jobs.get(&event.job).cloned();
                let job = job.unwrap_or_else(|| panic!("{event:?} of a job that does not exist"));
                self.step(&Step { event, job, causes, stored });
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match &step.event.kind {
            EventKind::Enqueued
            | EventKind::Plugin(_)
            | EventKind::Round(_)
            | EventKind::Queue(_)
            | EventKind::Schedule(_)
            | EventKind::Bulk(_)
            | EventKind::Worker(_) => unreachable!("taken above"),
            EventKind::Pending { reason } => self.became_pending(step, reason),
            EventKind::Blocked { round: Some(round), .. } => self.blocked_by_round(step, *round),
            EventKind::Blocked { round: None, waits_for } => self.blocked(step, *waits_for),
            EventKind::Removing => self.removing(step),
            EventKind::Scheduled { at } => self.scheduled(step, *at),
            EventKind::Started { attempt } => self.started(step, *attempt),
            // Progress may be committed with a later group than the one it came in.
            EventKind::Progress(_) => step.must_be_active(),
            EventKind::Checkpoint { .. } => step.check_checkpoint(),
            EventKind::Continued { .. } => self.acknowledged(step, State::Pending),
            EventKind::Completed { .. } => self.acknowledged(step, State::Completed),
            EventKind::Failed { next_attempt_at, error, .. } => self.attempt_failed(step, *next_attempt_at, error),
            EventKind::Held { .. } => self.held(step),
            EventKind::Approved | EventKind::Rejected => step.must(step.job.state == State::Held, "it was not held"),
            EventKind::Dead { reason, .. } => self.died(step, reason),
            EventKind::Cancelling => {
                step.must_be_active();
                self.job(step).stopping = true;
            }
            EventKind::Cancelled { .. } => self.cancelled(step),
            EventKind::Moved { .. } => self.moved(step),
            EventKind::Edited { .. } => edited(step),
            EventKind::Deleted => self.deleted(step),
        }
    }

    fn job(&mut self, step: &Step) -> &mut ModelJob {
        self.jobs.get_mut(&step.event.job).expect("it was there before the event")
    }

    fn enter(&mut self, step: &Step, state: State) {
        self.move_to(step.event.job, state, step.event.at);
    }

    fn became_pending(&mut self, step: &Step, reason: &str) {
        self.come_back(step);
        self.check_pending(step, &step.job, reason);
        self.enter(step, State::Pending);
    }

    fn blocked_by_round(&mut self, step: &Step, round: u32) {
        self.come_back(step);
        let Step { event, job, causes, .. } = step;
        // From every state from which it could become pending; and a pending one can be moved, or continue.
        if job.state != State::Pending {
            let new = job.state == State::Scheduled && job.group == self.group;
            let job = ModelJob { due: if new { Some(event.at) } else { job.due }, ..job.clone() };
            self.check_pending(step, &job, "had gone");
        }
        // One that is moved counts where it was until it has left that queue.
        if !causes.reordered(event.job) {
            let job = self.job(step).clone();
            self.check_waits_for_round(event, &job, round);
        }
        self.enter(step, State::Blocked);
    }

    fn blocked(&mut self, step: &Step, waits_for: u32) {
        self.come_back(step);
        let (id, state) = (step.event.job, step.job.state);
        if state.is_ended() {
            self.brought_back(step, waits_for);
        } else if state == State::Active {
            let waits = |command: &Command| match command {
                Command::Wait(Wait { holder, .. }) => Some(*holder),
                _ => None,
            };
            step.must(step.by_holder(waits), NOT_ITS_HOLDER);
            self.flows.wait_for_children(id, step.stored);
        } else {
            let new = matches!(state, State::Pending | State::Scheduled) && step.job.starts == 0;
            let new = (new && step.job.group == self.group) || state == State::Held;
            // One that waited for its children may still wait for others, if it was retried before.
            step.must(new || state == State::Blocked, "it waited for nothing");
        }
        self.enter(step, State::Blocked);
    }

    /// It had ended, and waits again: for what it depends on, or for the removal of everything below it.
    fn brought_back(&mut self, step: &Step, waits_for: u32) {
        let (id, causes) = (step.event.job, step.causes);
        self.take_lock(id, step.event.at);
        let rebuilt = causes.asked(id, |command| matches!(command, Command::Rebuild));
        let retried = causes
            .asked(id, |command| matches!(command, Command::Retry | Command::RetryWith { .. } | Command::Requeue));
        step.must(rebuilt || retried, "nobody brought it back");
        let job = self.job(step);
        job.expire_at = None;
        // Everything below it may have been removed already: then it continues within this very group.
        job.removing = (rebuilt && !(retried && waits_for > 0)).then_some(AfterRemoval::Rebuild);
    }

    fn removing(&mut self, step: &Step) {
        let job = &step.job;
        // Once its attempt was asked to stop for that, it is removed, even if the rebuild above it was cancelled.
        let stopped = job.state == State::Active && job.stopping;
        let allowed = stopped || (job.state != State::Active && self.is_cleared(job));
        step.must(allowed, "nothing above it is rebuilt");
        self.enter(step, State::Blocked);
        let job = self.job(step);
        job.expire_at = None;
        job.removing = Some(AfterRemoval::Remove);
    }

    fn scheduled(&mut self, step: &Step, due: Time) {
        step.must(due > step.event.at, "that time has come");
        match step.job.state {
            State::Blocked => {
                self.flows.check_unblocked(step.event.job);
                self.enter(step, State::Scheduled);
            }
            State::Pending => {
                step.must(step.causes.given_time(step.event.job), "nobody gave it a time");
                self.enter(step, State::Scheduled);
            }
            State::Scheduled | State::Retrying => {
                step.must(step.causes.given_time(step.event.job), "nobody gave it another time");
            }
            _ => step.must(false, "it waits for its time only after everything else"),
        }
        self.job(step).due = Some(due);
    }

    fn started(&mut self, step: &Step, attempt: u32) {
        let Step { event, job, causes, stored } = step;
        step.must(!self.still, "nothing starts while everything is paused");
        step.must(job.state == State::Pending, "only pending jobs start");
        step.must(attempt >= 1 && attempt <= job.starts + 1, "attempts rise by one");
        step.must(job.in_turn, "its round could not run when it became pending");
        self.check_start(event.job, job, event, causes, *stored);
        self.enter(step, State::Active);
        let job = self.job(step);
        job.starts += 1;
        job.plugin = stored.and_then(|stored| stored.run.as_ref()).and_then(local_plugin);
        job.local = job.plugin.is_some();
    }

    /// The attempt has succeeded: the job has completed, or an agent continues.
    fn acknowledged(&mut self, step: &Step, state: State) {
        step.must_be_active();
        step.must(step.acked(), NOT_ITS_HOLDER);
        self.enter(step, state);
    }

    fn attempt_failed(&mut self, step: &Step, next_attempt_at: Time, error: &str) {
        step.must_be_active();
        let crashed = error.starts_with("the server stopped");
        step.must(!crashed || step.causes.rebuilt == Some(true), "the process lives");
        let reported = step.failed();
        step.must(crashed || reported || !step.job.local, NOT_ITS_HOLDER);
        step.must(crashed || reported || !self.still, "no lease lapses while everything is paused");
        let lapsed = error.starts_with("lease lapsed");
        step.must(!lapsed || next_attempt_at == step.event.at, "a lapsed lease is retried at once");
        let lease = step.stored.map(|stored| self.alive_from + stored.policy.lease);
        let over = lease.is_none_or(|lease| step.event.at >= lease);
        step.must(!lapsed || over, "it had a lease from the start or the resume");
        self.enter(step, State::Retrying);
        self.job(step).due = Some(next_attempt_at);
    }

    fn held(&mut self, step: &Step) {
        let job = &step.job;
        let waiting = matches!(job.state, State::Scheduled | State::Pending | State::Retrying);
        let stopped = job.state == State::Active && (job.stopping || step.acked());
        step.must(waiting || stopped, "it cannot be held from there");
        self.enter(step, State::Held);
    }

    fn died(&mut self, step: &Step, reason: &str) {
        let (job, expired) = (&step.job, reason == "expired");
        step.must(!job.state.is_ended(), "it had ended");
        let active = job.state == State::Active;
        step.must(!expired || active || !self.still, "nothing expires while everything is paused");
        let charged = CHARGED.contains(&reason) && !step.failed();
        step.must(!charged || !self.still, "no lease lapses while everything is paused");
        step.must(!expired || job.expire_at.is_some_and(|due| due <= step.event.at), "it had time left");
        self.enter(step, State::Dead);
    }

    fn cancelled(&mut self, step: &Step) {
        let job = &step.job;
        step.must(!job.state.is_ended(), "it had ended");
        step.must(job.state != State::Active || job.stopping, "nobody had asked its attempt to stop");
        self.enter(step, State::Cancelled);
    }

    fn deleted(&mut self, step: &Step) {
        let (id, job) = (step.event.job, &step.job);
        self.check_deletion(id, job, step.event, step.causes);
        self.seen.entry(id).or_insert_with(|| vec![job.state]);
        self.locks.retain(|_, lock| lock.job != id);
        if self.is_cleared(job) {
            self.check_cleared(id);
        }
        self.jobs.values_mut().filter(|job| job.parent == Some(id)).for_each(|job| job.orphan = true);
        self.jobs.remove(&id);
    }

    /// It comes back from its end, or after everything below it was removed.
    fn come_back(&mut self, step: &Step) {
        let (id, job) = (step.event.job, &step.job);
        if job.removing == Some(AfterRemoval::Rebuild) {
            self.check_cleared(id);
        }
        if job.state.is_ended() || job.removing.is_some() {
            let round = self.round_in(&job.queue, job.round).filter(|_| !job.unseen);
            let job = self.job(step);
            job.round = round;
            if job.removing.take().is_some() {
                job.children = 0;
            }
        }
    }

    /// Whether `job`, as it was before, may become pending.
    fn check_pending(&mut self, step: &Step, job: &ModelJob, reason: &str) {
        let (event, id, at) = (step.event, step.event.job, step.event.at);
        let fine = match job.state {
            State::Scheduled | State::Retrying => {
                // One that failed just now may be retried at once, and people may run one before its time.
                let at_once = job.group == self.group || step.causes.given_time(id);
                assert!(at_once || !self.still, "{event:?}: no delay ends while everything is paused");
                step.causes.given_time(id) || job.due.is_some_and(|due| due <= at)
            }
            State::Held => true,
            State::Active => self.may_return(step, reason),
            State::Completed | State::Dead | State::Cancelled => {
                self.take_lock(id, at);
                let back = |command: &Command| {
                    let retried = matches!(command, Command::Retry | Command::RetryWith { .. });
                    retried || matches!(command, Command::Requeue | Command::Rebuild)
                };
                step.causes.asked(id, back)
            }
            State::Blocked => {
                self.flows.check_unblocked(id);
                true
            }
            State::Pending => false,
        };
        assert!(fine, "{event:?}: it cannot become pending from {job:?}");
        if job.state.is_ended() {
            self.job(step).expire_at = None;
        }
    }

    /// An active job becomes pending only when it was handed back, or its claim never reached its caller.
    fn may_return(&self, step: &Step, reason: &str) -> bool {
        let (job, causes) = (&step.job, step.causes);
        let handed = |command: &Command| match command {
            Command::HandBack(HandBack { holder, .. }) => Some(*holder),
            _ => None,
        };
        let undelivered = !self.delivered.contains(&(step.event.job, job.starts));
        let saved = |command: &Command| match command {
            Command::Heartbeat(Heartbeat { holder, checkpoint: Some(_), .. }) => Some(*holder),
            _ => None,
        };
        step.by_holder(handed)
            || (job.swapping && step.by_holder(saved))
            || causes.rebuilt == Some(true)
            || (undelivered && (reason.contains("had gone") || causes.rebuilt == Some(false)))
    }

    fn moved(&mut self, step: &Step) {
        let Step { event, job, .. } = step;
        step.must(job.state != State::Active, "an active job belongs to its attempt");
        let mut moved = job.clone();
        moved.queue = event.queue.clone();
        moved.since = event.at;
        moved.round = self.round_in(&event.queue, job.round).filter(|_| !job.unseen);
        self.move_lock(event, job);
        // Into the queue it had entered at this very moment: that is no move.
        let stays = moved.queue == job.queue && moved.since == job.since;
        self.jobs.insert(event.job, moved.clone());
        let in_turn = moved.state != State::Pending || self.may_run(&moved.queue, moved.round);
        self.job(step).in_turn = in_turn;
        if !stays {
            self.place_again(event.job);
        }
    }

    /// A unique key within a queue moves with its job; no other job may hold it there.
    fn move_lock(&mut self, event: &Event, job: &ModelJob) {
        let (id, at) = (event.job, event.at);
        let Some(unique) = &job.unique else { return };
        let from = unique.lock_key(&job.queue, job.scope.as_deref());
        let to = unique.lock_key(&event.queue, job.scope.as_deref());
        if from == to || self.locks.get(&from).is_none_or(|lock| lock.job != id) {
            return;
        }
        let lock = self.locks.remove(&from).expect("it was just there");
        if lock.expires_at > at {
            let other = self.locks.get(&to).filter(|other| other.expires_at > at);
            assert!(other.is_none(), "{id} was moved to where {other:?} holds its key");
            self.locks.insert(to, lock);
        }
    }
}
