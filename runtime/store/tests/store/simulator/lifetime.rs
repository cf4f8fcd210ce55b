//! How jobs appear and are removed: each was asked for, and none is removed before its time.

use windlass_core::{Command, Event, Job, JobId, NewJob, PolicyChoice, Settings, State, Until};

use super::causes::Causes;
use super::model::{Model, ModelJob};
use super::recount::Tries;

impl Model {
    pub fn enqueued(&mut self, event: &Event, causes: &Causes, stored: Option<&Job>) {
        let (id, at) = (event.job, event.at);
        assert!(!self.jobs.contains_key(&id), "{event:?}: it was stored before");
        let spec = self.spec(event, causes, stored);
        let vague = stored.is_none();
        let parent = stored.and_then(|job| job.parent);
        let due = spec.delay.map(|delay| at + delay).filter(|due| *due > at);
        self.jobs.insert(id, self.new_model_job(event, spec, parent, vague));
        let of_parent = parent.and_then(|parent| self.jobs.get(&parent)).and_then(|parent| parent.round);
        let round = self.round_in(&event.queue, of_parent.map(|round| round + 1));
        if vague {
            self.blurred = self.group;
        } else {
            self.jobs.get_mut(&id).expect("it was just put there").round = round;
        }
        self.take_lock(id, at);
        self.move_to(id, if due.is_some() { State::Scheduled } else { State::Pending }, at);
        self.jobs.get_mut(&id).expect("it is there").due = due;
    }

    /// What was asked for: by a caller, a schedule, a batch or a chain.
    fn spec(&mut self, event: &Event, causes: &Causes, stored: Option<&Job>) -> NewJob {
        let id = event.job;
        // A later job of a chain carries the label of the first, and is not what was asked for under it.
        let follows = stored.filter(|job| self.flows.follows(job) && job.parent.is_none());
        let follows = follows
            .filter(|job| job.links.as_ref().and_then(|links| links.chain).is_some_and(|place| place.first != id));
        let label = stored.filter(|_| follows.is_none()).and_then(|job| job.created_by.clone());
        let spec = label.as_ref().and_then(|label| self.specs.get(label)).cloned();
        let scheduled = stored.is_some_and(|job| job.schedule.is_some());
        let called = stored.is_some_and(|job| self.flows.is_callback(job) || self.flows.follows(job));
        assert!(stored.is_none() || spec.is_some() || scheduled || called, "{event:?}: nobody asked for it");
        if scheduled {
            let on_the_hour = id.time().millis().is_multiple_of(300_000);
            assert!(!self.still || causes.runs_now, "{event:?}: no schedule runs while everything is paused");
            assert!(on_the_hour || causes.runs_now, "{event:?}: it is not its time");
            assert!(self.instants.insert(id), "{event:?}: one instant, one run");
        }
        if let Some(label) = label {
            self.stored.insert(label, id);
        }
        match follows {
            Some(job) => NewJob {
                policy: PolicyChoice { priority: Some(job.priority), ..PolicyChoice::default() },
                limit_key: job.limit_key.clone(),
                scope: job.scope.clone(),
                ..NewJob::default()
            },
            None => spec.unwrap_or_default(),
        }
    }

    fn new_model_job(&self, event: &Event, spec: NewJob, parent: Option<JobId>, vague: bool) -> ModelJob {
        let at = event.at;
        ModelJob {
            queue: event.queue.clone(),
            priority: spec.policy.priority.unwrap_or_default(),
            limit_key: spec.limit_key,
            target: spec.target_worker,
            unique: spec.unique,
            scope: spec.scope,
            state: State::Pending,
            since: at,
            order: 0,
            group: self.group,
            loose: false,
            due: None,
            expire_at: spec.policy.expire_after.map(|span| at + span),
            ttl: spec.policy.ttl.is_some(),
            starts: 0,
            children: 0,
            token: None,
            local: false,
            plugin: None,
            swapping: false,
            stopping: false,
            vague,
            unseen: vague,
            round: None,
            in_turn: true,
            parent,
            orphan: false,
            removing: None,
            created: at,
            started: None,
            tries: Tries::NONE,
        }
    }

    pub fn check_deletion(&self, id: JobId, job: &ModelJob, event: &Event, causes: &Causes) {
        let wanted = causes.asked(id, |command| matches!(command, Command::Delete))
            || (job.state == State::Active && job.stopping)
            || self.clearing.contains(&job.queue)
            || self.is_cleared(job);
        if wanted || job.vague {
            return;
        }
        assert!(!self.still, "{event:?}: nothing is removed by its age while everything is paused");
        assert!(job.state.is_ended(), "{event:?}: nobody asked for it, and it had not ended: {job:?}");
        // Retention: never before the queue's age or count, the job's own ttl or its lock allow.
        let allows = |settings: &Settings| {
            let keep = settings.retention.of(job.state).unwrap_or_default();
            event.at.since(job.since) >= keep.age || keep.count.is_some()
        };
        let queue = self.queues.get(&job.queue);
        let allowed = queue.is_none_or(|queue| allows(&queue.settings) || queue.before.as_ref().is_some_and(allows));
        let locked = self.locks.values().any(|lock| lock.job == id && lock.expires_at > event.at);
        assert!(!locked, "{event:?}: its lock should have prevented that");
        // A job with its own retention was given the time when it ended, by the settings of that moment.
        let own = job.ttl || job.unique.as_ref().is_some_and(|unique| unique.until == Until::Period);
        assert!(allowed || own, "{event:?}: it was removed too early: {job:?}");
    }
}
