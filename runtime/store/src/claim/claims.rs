//! Claims: choosing the best job for a runner, and the runners that wait for one.
//!
//! A claim that finds nothing waits here. When something becomes startable its queue is marked awake, and before the
//! group commits the waiting claims are served: so a free slot takes a job in the very commit that stores it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::limits::Admission;
use windlass_core::{Command, HandBack, Holder, JobId, Priority, QueueName, Runner, State, Time, Usage};

use crate::disk::{Disk, DiskError};
use crate::engine::Engine;
use crate::engine::requests::operation::Answer;
use crate::{Assignment, By, Claim};

pub(crate) struct Waiter {
    pub(crate) claim: Claim,
    /// The key or the person that asks.
    pub(crate) caller: Option<String>,
    pub(crate) deadline: Time,
    pub(crate) answer: Answer<Vec<Assignment>>,
}

#[derive(Default)]
pub struct WaitingClaims {
    /// By ticket: the longest waiting first.
    waiters: BTreeMap<u64, Waiter>,
    /// Those of workers that look at a queue, and those of this process; local ones that take whatever is served stand
    /// under no name.
    by_queue: HashMap<QueueName, BTreeSet<u64>>,
    local: HashMap<QueueName, BTreeSet<u64>>,
    anything: BTreeSet<u64>,
    deadlines: BTreeSet<(Time, u64)>,
    /// Claims whose callers had disconnected when they were answered: to be returned.
    pub lost: Vec<Assignment>,
}

impl WaitingClaims {
    fn add(&mut self, ticket: u64, waiter: Waiter) {
        if waiter.claim.queues.is_empty() {
            self.anything.insert(ticket);
        }
        let by_queue = if waiter.claim.by == By::Local { &mut self.local } else { &mut self.by_queue };
        for queue in &waiter.claim.queues {
            by_queue.entry(queue.clone()).or_default().insert(ticket);
        }
        self.deadlines.insert((waiter.deadline, ticket));
        self.waiters.insert(ticket, waiter);
    }

    /// Forgets a claim.
    pub fn forget(&mut self, ticket: u64) {
        self.remove(ticket);
    }

    /// Every claim that waits, to be answered.
    pub fn drain(&mut self) -> Vec<Answer<Vec<Assignment>>> {
        let tickets: Vec<u64> = self.waiters.keys().copied().collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).map(|waiter| waiter.answer).collect()
    }

    fn remove(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.anything.remove(&ticket);
        self.deadlines.remove(&(waiter.deadline, ticket));
        let by_queue = if waiter.claim.by == By::Local { &mut self.local } else { &mut self.by_queue };
        for queue in &waiter.claim.queues {
            if let Some(tickets) = by_queue.get_mut(queue) {
                tickets.remove(&ticket);
                if tickets.is_empty() {
                    by_queue.remove(queue);
                }
            }
        }
        Some(waiter)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn overdue(&self, now: Time) -> Option<u64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, ticket)| *ticket)
    }

    /// The first claim after `after` that looks at this queue; `here` is whether this process may start a job of it.
    fn next_for(&self, queue: &QueueName, here: bool, after: u64) -> Option<u64> {
        let local = [self.local.get(queue), Some(&self.anything)].into_iter().flatten().filter(|_| here);
        let tickets = self.by_queue.get(queue).into_iter().chain(local);
        tickets.filter_map(|tickets| tickets.range(after + 1..).next()).min().copied()
    }
}

/// A job that could start now.
struct Candidate {
    queue: QueueName,
    priority: Priority,
    target: String,
    id: JobId,
    /// What it is chosen by: effective priority, then age.
    rank: (i64, u64),
}

impl<D: Disk> Engine<D> {
    pub(crate) fn claim(&mut self, ticket: u64, waiter: Waiter) -> Result<(), DiskError> {
        let got = self.take(&waiter)?;
        if got.is_empty() && waiter.deadline > self.now {
            self.waiting.add(ticket, waiter);
        } else {
            self.release.assign(waiter.answer, got);
        }
        Ok(())
    }

    /// Serves the claims that wait for what has become startable, and answers those whose time is up.
    pub(crate) fn serve_waiting(&mut self) -> Result<(), DiskError> {
        for lost in std::mem::take(&mut self.waiting.lost) {
            self.give_back(lost)?;
        }
        for name in self.queues.take_awake() {
            let mut after = 0;
            loop {
                // A plugin that runs as many as it may, or has its share of the slots, leaves the queue to workers.
                let admits = self.plugin_admits(&name);
                let Some(ticket) = self.waiting.next_for(&name, admits, after) else { break };
                after = ticket;
                let Some(waiter) = self.waiting.remove(ticket) else { continue };
                if waiter.answer.is_closed() {
                    continue;
                }
                let got = self.take(&waiter)?;
                if !got.is_empty() {
                    self.release.assign(waiter.answer, got);
                    continue;
                }
                // Nothing for this one: nor for another, unless jobs are for one worker alone.
                self.waiting.add(ticket, waiter);
                if !self.queues.get(&name).is_some_and(|queue| queue.line.has_targets()) {
                    break;
                }
            }
        }
        while let Some(ticket) = self.waiting.overdue(self.now) {
            if let Some(waiter) = self.waiting.remove(ticket) {
                self.release.assign(waiter.answer, Vec::new());
            }
        }
        Ok(())
    }

    /// A claim that did not reach its caller: the job is pending again at once, and nothing is counted.
    pub(crate) fn give_back(&mut self, lost: Assignment) -> Result<(), DiskError> {
        // Whatever becomes of this commit, the job does not run.
        self.local.remove(&(lost.job.id, lost.token));
        let holder = Holder::Token(lost.token);
        let reason = "the worker that asked for it had gone".into();
        self.try_ask(lost.job.id, Command::HandBack(HandBack { holder, reason, usage: Usage::default() }))?;
        Ok(())
    }

    /// Takes up to as many jobs as the claim wants.
    fn take(&mut self, waiter: &Waiter) -> Result<Vec<Assignment>, DiskError> {
        let mut got = Vec::new();
        if self.paused.is_some() {
            return Ok(got);
        }
        while got.len() < waiter.claim.count.max(1) {
            match self.take_one(waiter)? {
                Some(assignment) => got.push(assignment),
                None => break,
            }
        }
        Ok(got)
    }

    fn take_one(&mut self, Waiter { claim, caller, .. }: &Waiter) -> Result<Option<Assignment>, DiskError> {
        let worker = match &claim.by {
            By::Local => "",
            By::Worker { worker_id, .. } => worker_id.as_str(),
        };
        loop {
            let mut best: Option<Candidate> = None;
            let everything: Vec<QueueName>;
            let queues = if claim.queues.is_empty() && claim.by == By::Local {
                everything = self.catalogue.served_queues().cloned().collect();
                &everything
            } else {
                &claim.queues
            };
            for name in queues {
                if claim.by == By::Local && !self.plugin_admits(name) {
                    continue;
                }
                if let Some(candidate) = self.candidate(name, worker)?
                    && best.as_ref().is_none_or(|best| candidate.rank < best.rank)
                {
                    best = Some(candidate);
                }
            }
            let Some(best) = best else { return Ok(None) };
            let Some(runner) = self.runner(&claim.by, &best.queue) else { return Ok(None) };
            let started = self.start(best.id, runner, caller.clone())?;
            if let Some(queue) = self.queues.get_mut(&best.queue) {
                queue.line_touched = true;
                queue.line.ring(queue.row.id, best.priority, &best.target).take(started.is_some());
            }
            if let Some((job, token)) = started {
                if claim.by == By::Local {
                    self.local.insert((job.id, token));
                }
                let served = match &claim.by {
                    By::Local => self.served_beside(&best.queue),
                    By::Worker { .. } => Vec::new(),
                };
                return Ok(Some(Assignment { job, token, served }));
            }
        }
    }

    /// All queues of the plugin that serves this one.
    fn served_beside(&self, queue: &QueueName) -> Vec<QueueName> {
        self.catalogue.plugin_of(queue).map(|plugin| plugin.queues.clone()).unwrap_or_default()
    }

    fn runner(&self, by: &By, queue: &QueueName) -> Option<Runner> {
        match by {
            By::Local => {
                let plugin = self.catalogue.plugin_of(queue)?;
                let version = plugin.active_version()?.digest();
                Some(Runner::Local { plugin: plugin.name.clone(), version })
            }
            By::Worker { worker_id, hostname } => {
                Some(Runner::External { worker_id: worker_id.clone(), hostname: hostname.clone() })
            }
        }
    }

    /// The job of this queue that should start next for this worker, if its limits let one start.
    fn candidate(&mut self, name: &QueueName, worker: &str) -> Result<Option<Candidate>, DiskError> {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(name) else { return Ok(None) };
        if queue.row.settings.paused || queue.closed_until.is_some_and(|until| until > now) {
            return Ok(None);
        }
        let settings = &queue.row.settings;
        match queue.limiter.admit(settings.max_concurrency, settings.rate, now) {
            Admission::Go => queue.closed_until = None,
            Admission::Full => return Ok(None),
            Admission::Until(at) => {
                queue.closed_until = Some(at);
                return Ok(None);
            }
        }
        let ageing = settings.ageing;
        let targets: &[&str] = if worker.is_empty() { &[""] } else { &["", worker] };
        let mut best: Option<Candidate> = None;
        for priority in Priority::ALL {
            for target in targets.iter().copied() {
                let Some((id, seq, since)) = self.front(name, priority, target)? else { continue };
                let aged = ageing.map_or(0, |span| (now.since(since).as_millis() / span.as_millis().max(1)) as i64);
                let rank = (i64::from(priority.rank()) - aged, seq);
                if best.as_ref().is_none_or(|best| rank < best.rank) {
                    best = Some(Candidate { queue: name.clone(), priority, target: target.to_owned(), id, rank });
                }
            }
            if best.is_some() && ageing.is_none() {
                break;
            }
        }
        Ok(best)
    }

    /// The first in one ring that is really pending and whose key may start something.
    fn front(
        &mut self,
        name: &QueueName,
        priority: Priority,
        target: &str,
    ) -> Result<Option<(JobId, u64, Time)>, DiskError> {
        loop {
            let Some(queue) = self.queues.get_mut(name) else { return Ok(None) };
            let queue_id = queue.row.id;
            let ring = queue.line.ring(queue_id, priority, target);
            let Some((limit_key, place)) = ring.peek(&self.disk)? else { return Ok(None) };
            let is_pending = self.load(place.id)?.is_some_and(|job| {
                job.state == State::Pending
                    && job.ready_seq == place.seq
                    && job.priority == priority
                    && job.queue == *name
            });
            if !is_pending {
                if let Some(queue) = self.queues.get_mut(name) {
                    queue.line_touched = true;
                    queue.line.ring(queue_id, priority, target).take(false);
                }
                continue;
            }
            match self.admit_key(name, &limit_key)? {
                Admission::Go => return Ok(Some((place.id, place.seq, place.since))),
                Admission::Full => {}
                Admission::Until(at) => {
                    self.limiters.park(at, queue_id, limit_key);
                }
            }
            if let Some(queue) = self.queues.get_mut(name) {
                queue.line.ring(queue_id, priority, target).park();
            }
        }
    }

    fn admit_key(&mut self, name: &QueueName, limit_key: &str) -> Result<Admission, DiskError> {
        let Some(queue) = self.queues.get(name) else { return Ok(Admission::Full) };
        self.limiters.admit_key(&self.disk, queue.row.id, limit_key, &queue.row.settings, self.now)
    }
}
