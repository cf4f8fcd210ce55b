//! What a job must be to be found. All that is given must hold.

use memchr::memmem::Finder;
use windlass_core::{AllowedQueues, Job, JobId, Name, Priority, QueueName, Runner, State, Time};

/// A span of time: from `after` on, and before `before`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub after: Option<Time>,
    pub before: Option<Time>,
}

impl Span {
    pub fn is_open(self) -> bool {
        self.after.is_none() && self.before.is_none()
    }

    fn holds(self, at: Option<Time>) -> bool {
        let Some(at) = at else { return self.is_open() };
        self.after.is_none_or(|after| at >= after) && self.before.is_none_or(|before| at < before)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// The queues that whoever searches may see.
    pub allowed: Option<AllowedQueues>,
    pub queue: Option<QueueName>,
    /// Any of these; empty: any.
    pub states: Vec<State>,
    pub priority: Option<Priority>,
    pub tags: Vec<(String, String)>,
    pub scope: Option<String>,
    pub created: Span,
    pub scheduled: Span,
    pub started: Span,
    pub completed: Span,
    pub failed: Span,
    pub expire: Span,
    /// The worker that runs it, or ran it last.
    pub worker_id: Option<String>,
    pub plugin: Option<Name>,
    /// The digest of the plugin's version, or how it begins.
    pub plugin_version: Option<String>,
    pub has_errors: Option<bool>,
    pub error_contains: Option<String>,
    /// Dead jobs that died of this.
    pub error_fingerprint: Option<String>,
    pub batch_id: Option<String>,
    pub parent: Option<JobId>,
    /// The first job of the chain it is in.
    pub chain: Option<JobId>,
    pub unique_key: Option<String>,
    pub round: Option<u32>,
    pub schedule: Option<Name>,
    pub limit_key: Option<String>,
    pub created_by: Option<String>,
    pub attempt_min: Option<u32>,
    pub attempt_max: Option<u32>,
    /// Ids from the first to the last, both included.
    pub ids: Option<(JobId, JobId)>,
    pub payload_contains: Option<String>,
}

impl Filter {
    /// Everything that the row alone can answer. Payloads and errors are read separately.
    pub fn admits(&self, job: &Job) -> bool {
        fn same<T: PartialEq + ?Sized>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        self.allows(&job.queue)
            && same(self.queue.as_ref(), Some(&job.queue))
            && (self.states.is_empty() || self.states.contains(&job.state))
            && same(self.priority.as_ref(), Some(&job.priority))
            && self.tags.iter().all(|tag| job.tags.contains(tag))
            && same(self.scope.as_deref(), job.scope.as_deref())
            && self.created.holds(Some(job.created_at))
            && self.scheduled.holds(job.scheduled_at)
            && self.started.holds(job.started_at)
            && self.completed.holds(job.completed_at)
            && self.failed.holds(job.failed_at)
            && self.expire.holds(job.expire_at)
            && self.ran_by(job)
            && self.has_errors.is_none_or(|wanted| wanted == job.last_error.is_some())
            && (self.error_contains.is_none() || job.last_error.is_some())
            && same(self.batch_id.as_deref(), job.batch_id.as_deref())
            && same(self.parent.as_ref(), job.parent.as_ref())
            && self.chain.is_none_or(|first| {
                job.links.as_ref().and_then(|links| links.chain).is_some_and(|place| place.first == first)
            })
            && same(self.unique_key.as_ref(), job.unique.as_ref().map(|unique| &unique.key))
            && same(self.round.as_ref(), job.round.as_ref())
            && same(self.schedule.as_ref(), job.schedule.as_ref())
            && same(self.limit_key.as_deref(), job.limit_key.as_deref())
            && same(self.created_by.as_deref(), job.created_by.as_deref())
            && self.attempt_min.is_none_or(|least| job.attempt >= least)
            && self.attempt_max.is_none_or(|most| job.attempt <= most)
            && self.ids.is_none_or(|(first, last)| (first..=last).contains(&job.id))
            && (self.payload_contains.is_none() || !job.payload.is_none())
            && self.died_of(job)
    }

    /// Whether jobs of this queue may be found at all.
    pub(crate) fn allows(&self, queue: &QueueName) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.allow(queue))
    }

    /// The dearest test of a row, so it comes last.
    fn died_of(&self, job: &Job) -> bool {
        self.error_fingerprint.is_none() || self.error_fingerprint == job.error_fingerprint()
    }

    fn ran_by(&self, job: &Job) -> bool {
        if self.worker_id.is_none() && self.plugin.is_none() && self.plugin_version.is_none() {
            return true;
        }
        let runner = job.run.as_ref().map(|run| &run.runner).or(job.ran_by.as_ref());
        match runner {
            None => false,
            Some(Runner::External { worker_id, .. }) => {
                self.worker_id.as_ref() == Some(worker_id) && self.plugin.is_none() && self.plugin_version.is_none()
            }
            Some(Runner::Local { plugin, version }) => {
                self.worker_id.is_none()
                    && self.plugin.as_ref().is_none_or(|wanted| wanted == plugin)
                    && self.plugin_version.as_ref().is_none_or(|wanted| version.starts_with(wanted.as_str()))
            }
        }
    }

    /// Whether nothing but queue and state is asked for: then the queues' own counts say how many there are.
    pub(crate) fn is_counted(&self) -> bool {
        let others = Filter { allowed: None, queue: None, states: Vec::new(), ..self.clone() };
        others == Filter::default()
    }

    /// Whether nothing but the payload decides, and which queues are allowed.
    pub(crate) fn is_of_payloads_alone(&self) -> bool {
        let others = Filter { allowed: None, payload_contains: None, ..self.clone() };
        others == Filter::default()
    }

    /// Whether it must look into the payload.
    pub(crate) fn reads_payloads(&self) -> bool {
        self.payload_contains.is_some()
    }

    /// No job made at or after this moment can pass: it is created before it starts and starts before it ends.
    pub(crate) fn made_before(&self) -> Option<Time> {
        [self.created.before, self.started.before, self.completed.before, self.failed.before]
            .into_iter()
            .flatten()
            .min()
    }

    /// No job that came into its state before this moment can pass: creation, start and end come before.
    pub(crate) fn entered_from(&self) -> Option<Time> {
        [self.created.after, self.started.after, self.completed.after, self.failed.after].into_iter().flatten().max()
    }

    /// The states that the filter leaves: only a completed job has a time of completion, and so on.
    pub(crate) fn states_left(&self) -> Vec<State> {
        let asked = |state: &State| self.states.is_empty() || self.states.contains(state);
        let possible = |state: &State| {
            (self.completed.is_open() || *state == State::Completed)
                && (self.error_fingerprint.is_none() || *state == State::Dead)
                && (self.failed.is_open() || matches!(state, State::Dead | State::Cancelled))
                && (self.scheduled.is_open() || !matches!(state, State::Pending | State::Active) && !state.is_ended())
        };
        State::ALL.into_iter().filter(asked).filter(possible).collect()
    }

    pub(crate) fn payload_finder(&self) -> Option<Finder<'_>> {
        self.payload_contains.as_deref().map(Finder::new)
    }
}
