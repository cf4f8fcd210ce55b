//! Which job may start, and which must: first in first out within a lane, strict priority, limits that hold, and no
//! claim left waiting for what could start.

use std::collections::BTreeMap;

use windlass_core::limits::Rate;
use windlass_core::{Event, JobId, Name, Plugin, QueueName, SlotsHeld, State, Time};
use windlass_store::{By, Claim};

use super::causes::Causes;
use super::model::{Model, ModelJob, ModelQueue, Starts};
use super::silent::local_plugin;

impl Model {
    /// Checks one start against the lanes and the limits, and counts it.
    pub fn check_start(
        &mut self,
        id: JobId,
        job: &ModelJob,
        event: &Event,
        causes: &Causes,
        stored: Option<&windlass_core::Job>,
    ) {
        let at = event.at;
        assert!(!causes.claims.is_empty(), "{event:?}: nobody claimed anything");
        let queue = self.queues.get(&job.queue).unwrap_or_else(|| panic!("{event:?}: in no queue"));
        assert!(!queue.settings.paused, "{event:?}: its queue is paused");
        self.check_limits(job, queue, event);
        if !job.vague && !causes.reordered(id) {
            self.check_turn(id, job, queue, event, causes);
        }
        if let (Some(target), Some(run)) = (&job.target, stored.and_then(|stored| stored.run.as_ref())) {
            let windlass_core::Runner::External { worker_id, .. } = &run.runner else {
                panic!("{event:?}: it was for {target} alone")
            };
            assert_eq!(worker_id, target, "{event:?}: it was for another worker");
        }
        if let Some(plugin) = stored.and_then(|stored| stored.run.as_ref()).and_then(local_plugin) {
            let running = self.running(|other| other.plugin.as_ref() == Some(&plugin));
            let full =
                |ceilings: &BTreeMap<Name, u32>| ceilings.get(&plugin).is_some_and(|most| running >= *most as usize);
            let too_many = full(&self.ceilings) && full(&self.ceilings_before);
            assert!(!too_many, "{event:?}: {running} attempts of {plugin} run already");
            self.check_share(&plugin, event);
        }
        let limit_key = job.limit_key.clone();
        let queue = self.queues.get_mut(&job.queue).expect("it was just there");
        queue.starts.add(at);
        if let Some(limit_key) = limit_key {
            queue.by_key.entry(limit_key).or_default().add(at);
        }
    }

    /// Whether a plugin has its share of the slots: as it is now, and as it was when this group began.
    fn check_share(&self, plugin: &str, event: &Event) {
        let Some(share) = self.fair_use.slots else { return };
        let full = |serving| !share.admits(self.slots_held(plugin, serving));
        let too_many = full(self.serving) && full(self.serving_before);
        let held = self.slots_held(plugin, self.serving);
        assert!(!too_many, "{event:?}: one more attempt of {plugin} is more than its share: {held:?} of {share:?}");
    }

    /// The slots as this plugin sees them, when so many plugins serve a queue.
    fn slots_held(&self, plugin: &str, serving: usize) -> SlotsHeld {
        let count = |of: &dyn Fn(&str) -> bool| {
            let running = self.running(|job| job.plugin.as_deref().is_some_and(of));
            u32::try_from(running).expect("few run")
        };
        let (by_group, by_others) = (count(&|name| name == plugin), count(&|name| name != plugin));
        SlotsHeld { by_group, by_others, is_alone: serving <= 1 }
    }

    fn check_limits(&self, job: &ModelJob, queue: &ModelQueue, event: &Event) {
        let settings = &queue.settings;
        let running = self.running(|other| other.queue == job.queue);
        let full = settings.max_concurrency.is_some_and(|most| running >= most as usize);
        assert!(!full, "{event:?}: {running} run already, of {:?}", settings.max_concurrency);
        let fast =
            settings.rate.is_some_and(|rate| inside(&queue.starts.counted, rate, event.at) >= rate.count as usize);
        assert!(!fast, "{event:?}: more starts than {:?}", settings.rate);
        let Some(key) = &job.limit_key else { return };
        let running = self.running(|other| other.queue == job.queue && other.limit_key.as_ref() == Some(key));
        let full = settings.key_concurrency.is_some_and(|most| running >= most as usize);
        assert!(!full, "{event:?}: {running} of key {key} run already, of {:?}", settings.key_concurrency);
        if let (Some(rate), Some(starts)) = (settings.key_rate, queue.by_key.get(key)) {
            let starts = inside(&starts.counted, rate, event.at);
            assert!(starts < rate.count as usize, "{event:?}: {starts} starts of key {key} within {rate:?}");
        }
    }

    fn check_turn(&self, id: JobId, job: &ModelJob, queue: &ModelQueue, event: &Event, causes: &Causes) {
        for (other_id, other) in &self.jobs {
            if other.queue != job.queue || other.state != State::Pending || *other_id == id {
                continue;
            }
            if other.vague || causes.reordered(*other_id) {
                continue;
            }
            let same_lane =
                other.priority == job.priority && other.limit_key == job.limit_key && other.target == job.target;
            let unknown = other.group == job.group && (other.loose || job.loose);
            assert!(
                !same_lane || unknown || other.order > job.order,
                "{event:?}: {other_id} was before it: {other:?}, {job:?}"
            );
            // What became pending within this very group may not be seen yet, when there are very many keys.
            let passed_over = queue.settings.ageing.is_none()
                && other.priority < job.priority
                && other.target.is_none()
                && other.group < self.group
                && self.key_admits(other, queue, event.at);
            assert!(!passed_over, "{event:?}: {other_id} is more urgent: {other:?}, {job:?}");
        }
    }

    fn running(&self, of: impl Fn(&ModelJob) -> bool) -> usize {
        self.jobs.values().filter(|job| job.state == State::Active && of(job)).count()
    }

    /// Whether the limits of the job's key let it start. All starts count here, even those before a limit was set: the
    /// engine may remember them.
    fn key_admits(&self, job: &ModelJob, queue: &ModelQueue, now: Time) -> bool {
        let Some(key) = &job.limit_key else { return true };
        let running = self.running(|other| other.queue == job.queue && other.limit_key.as_ref() == Some(key));
        let place = queue.settings.key_concurrency.is_none_or(|most| running < most as usize);
        let slow = match (queue.settings.key_rate, queue.by_key.get(key)) {
            (Some(rate), Some(starts)) => inside(&starts.ever, rate, now) < rate.count as usize,
            (None, _) | (_, None) => true,
        };
        place && slow
    }

    /// A pending job that this claim could have, if there is one.
    pub fn startable(&self, claim: &Claim, now: Time) -> Option<JobId> {
        let served = |queue: &QueueName| {
            let serving = |plugin: &&Plugin| plugin.active.is_some() && plugin.queues.contains(queue);
            self.plugins.values().find(serving).is_some_and(|plugin| {
                let running = self.running(|other| other.plugin.as_ref() == Some(&plugin.name));
                let share = self.fair_use.slots;
                self.ceilings.get(&plugin.name).is_none_or(|most| running < *most as usize)
                    && share.is_none_or(|share| share.admits(self.slots_held(&plugin.name, self.serving)))
            })
        };
        let worker = match &claim.by {
            By::Local => None,
            By::Worker { worker_id, .. } => Some(worker_id),
        };
        let found = self.jobs.iter().find(|(_, job)| {
            let wanted = match (&claim.by, claim.queues.is_empty()) {
                (By::Local, true) => served(&job.queue),
                (By::Local, false) => served(&job.queue) && claim.queues.contains(&job.queue),
                (By::Worker { .. }, _) => claim.queues.contains(&job.queue),
            };
            let Some(queue) = self.queues.get(&job.queue) else { return false };
            let settings = &queue.settings;
            let running = self.running(|other| other.queue == job.queue);
            wanted
                && job.state == State::Pending
                && (job.target.is_none() || job.target.as_ref() == worker)
                && !settings.paused
                && settings.max_concurrency.is_none_or(|most| running < most as usize)
                && settings.rate.is_none_or(|rate| inside(&queue.starts.ever, rate, now) < rate.count as usize)
                && self.key_admits(job, queue, now)
        });
        found.map(|(id, _)| *id)
    }
}

impl Starts {
    fn add(&mut self, at: Time) {
        self.ever.push(at);
        self.counted.push(at);
    }
}

/// How many starts the window that ends now holds.
fn inside(starts: &[Time], rate: Rate, now: Time) -> usize {
    starts.iter().rev().take_while(|at| **at + rate.per > now).count()
}
