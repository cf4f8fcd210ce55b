//! A job to be stored, and the check of its input.

use core::ops::Deref;
use core::time::Duration;

use crate::flow::{Batch, Chain, Dependency, Links, OnFailure};
use crate::{Agent, Body, Job, JobId, PolicyChoice, QueueName, Refusal, Time, Unique, bounds};

/// A job to be stored, as a producer describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewJob {
    pub queue: Option<QueueName>,
    pub payload: Option<Body>,
    pub policy: PolicyChoice,
    pub scheduled_at: Option<Time>,
    /// Instead of `scheduled_at`: counted from the moment it is stored.
    pub delay: Option<Duration>,
    pub unique: Option<Unique>,
    pub tags: Vec<(String, String)>,
    pub scope: Option<String>,
    pub limit_key: Option<String>,
    pub target_worker: Option<String>,
    pub parent: Option<JobId>,
    pub batch_id: Option<String>,
    pub schedule: Option<String>,
    pub created_by: Option<String>,
    pub checkpoint: Option<Body>,
    pub agent: Option<Box<Agent>>,
    /// Given for children and scheduled jobs, whose ids are derived; otherwise random.
    pub id: Option<JobId>,
    /// Stored as held: somebody must approve it first.
    pub hold_reason: Option<String>,
    /// Blocked until these have ended.
    pub depends_on: Vec<Dependency>,
    pub on_dependency_failure: OnFailure,
    /// It is the first step of this chain.
    pub chain: Option<Box<Chain>>,
    /// Given for the jobs that flows create.
    pub links: Option<Box<Links>>,
}

/// A new job whose input has been checked. Only [`NewJob::check`] makes one, so no job is stored unchecked, and none is
/// checked twice.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedJob {
    new: NewJob,
    queue: QueueName,
}

impl CheckedJob {
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// The id of a child, which the store derives from its parent.
    pub fn set_id(&mut self, id: JobId) {
        self.new.id = Some(id);
    }

    /// Names the siblings that the job depends on by their ids, now that they have been stored.
    pub fn resolve_siblings(&mut self, stored: impl Fn(usize) -> Option<JobId>) {
        for dependency in &mut self.new.depends_on {
            if let Dependency::Sibling(sibling) = *dependency
                && let Some(id) = stored(sibling)
            {
                *dependency = Dependency::Job(id);
            }
        }
    }

    /// Refuses to join a batch that does not exist or is sealed.
    pub fn check_batch(&self, batch: Option<&Batch>) -> Result<(), Refusal> {
        let Some(id) = &self.new.batch_id else { return Ok(()) };
        let why = match batch {
            None => format!("there is no batch `{id}`; create it before jobs join it"),
            Some(batch) if batch.sealed_at.is_some() => format!("batch `{id}` is sealed, and no more jobs can join it"),
            Some(_) => return Ok(()),
        };
        Err(Refusal::invalid("batch_id", why))
    }

    /// Refuses a parent that is being rebuilt, or whose round is the last; `rounds` is whether the child's queue has rounds.
    pub fn check_parent(&self, parent: &Job, rounds: bool) -> Result<(), Refusal> {
        let id = parent.id;
        let why = if parent.removing().is_some() {
            format!("job {id} is being rebuilt, and all below it is removed first")
        } else if rounds && parent.round.is_some_and(|at| at >= bounds::ROUNDS) {
            format!("job {id} is of round {}, and there is none after it", bounds::ROUNDS)
        } else {
            return Ok(());
        };
        Err(Refusal::invalid("parent_id", why))
    }

    pub(crate) fn into_inner(self) -> NewJob {
        self.new
    }
}

impl Deref for CheckedJob {
    type Target = NewJob;

    fn deref(&self) -> &NewJob {
        &self.new
    }
}

impl NewJob {
    /// The child with this place among those that an attempt of `parent` creates, of which there are `first` already. Its id is
    /// derived from both, so that an attempt that is repeated creates no second one.
    pub fn child_of(self, parent: JobId, first: u32, place: usize) -> Result<NewJob, Refusal> {
        let ordinal = u32::try_from(place).ok().and_then(|place| first.checked_add(place));
        let Some(ordinal) = ordinal else { return Err(Refusal::invalid("children", "the job has had too many")) };
        Ok(NewJob { parent: Some(parent), id: Some(JobId::child(parent, ordinal)), ..self })
    }

    /// Refuses what could never be stored, naming the field. Looks at nothing but the input, so that all jobs of a request can
    /// be checked before the first is stored.
    pub fn check(self, now: Time) -> Result<CheckedJob, Refusal> {
        let Some(queue) = self.queue.clone() else {
            return Err(Refusal::invalid("queue", "name the queue the job is for"));
        };
        self.policy.check()?;
        if let Some(agent) = &self.agent {
            agent.check()?;
        }
        if let Some(unique) = &self.unique {
            unique.check(self.scope.as_deref())?;
        }
        self.check_texts()?;
        if let Some(chain) = &self.chain {
            chain.check(&queue)?;
        }
        if self.depends_on.len() > bounds::DEPENDENCIES {
            let why = format!("at most {} jobs; for more, make a batch with a callback", bounds::DEPENDENCIES);
            return Err(Refusal::invalid("depends_on", why));
        }
        self.check_tags()?;
        if self.scheduled_at.is_some_and(|at| at > now + bounds::FURTHEST) {
            return Err(Refusal::invalid("scheduled_at", "at most ten years from now"));
        }
        if self.delay.is_some_and(|delay| delay > bounds::FURTHEST) {
            return Err(Refusal::invalid("delay", "at most ten years"));
        }
        Ok(CheckedJob { new: self, queue })
    }

    fn check_texts(&self) -> Result<(), Refusal> {
        let texts = [
            ("scope", self.scope.as_deref(), bounds::SCOPE_BYTES),
            ("limit_key", self.limit_key.as_deref(), bounds::LIMIT_KEY_BYTES),
            ("target_worker", self.target_worker.as_deref(), bounds::WORKER_BYTES),
            ("batch_id", self.batch_id.as_deref(), bounds::NAME_BYTES),
        ];
        for (field, text, most) in texts {
            if text.is_some_and(|text| text.is_empty() || text.len() > most || text.contains('\0')) {
                return Err(Refusal::invalid(field, format!("1 to {most} bytes without a zero byte")));
            }
        }
        Ok(())
    }

    fn check_tags(&self) -> Result<(), Refusal> {
        if self.tags.len() > bounds::TAGS {
            return Err(Refusal::invalid("tags", format!("at most {} tags", bounds::TAGS)));
        }
        for (key, value) in &self.tags {
            if key.is_empty() || key.len() > bounds::TAG_KEY_BYTES || value.len() > bounds::TAG_VALUE_BYTES {
                let why = format!(
                    "a tag's key has 1 to {} bytes and its value at most {}",
                    bounds::TAG_KEY_BYTES,
                    bounds::TAG_VALUE_BYTES
                );
                return Err(Refusal::invalid("tags", why));
            }
        }
        Ok(())
    }
}
