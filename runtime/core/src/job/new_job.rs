//! A job to be stored, and the check of its input.

use core::ops::Deref;
use core::time::Duration;

use crate::flow::{Batch, Chain, Dependency, Links, OnFailure};
use crate::{
    Agent, Body, BodyRef, Job, JobId, Name, Namespace, PolicyChoice, QueueName, Refusal, Time, Unique, bounds,
};

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
    pub schedule: Option<Name>,
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

    /// The bytes of its payload and its first checkpoint.
    pub fn stored_bytes(&self) -> u64 {
        let bodies = self.new.payload.iter().chain(&self.new.checkpoint);
        bodies.map(|body| BodyRef::from(body).len()).sum()
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

    /// Refuses a parent that is being rebuilt, whose round is the last, or that descends from too many parents itself;
    /// `rounds` is whether the child's queue has rounds.
    pub fn check_parent(&self, parent: &Job, rounds: bool, spawn_depth: u32) -> Result<(), Refusal> {
        let id = parent.id;
        let why = if parent.removing().is_some() {
            format!("job {id} is being rebuilt, and all below it is removed first")
        } else if parent.depth_of_child(rounds) > spawn_depth {
            format!(
                "job {id} is {} generations below the first, and may have no children: jobs descend at most {spawn_depth} \
                 generations; spawn more jobs from one parent, or start the server with a larger --spawn-depth",
                parent.depth
            )
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
    /// The child with this place among those that an attempt of `parent` creates, of which there are `first` already.
    /// Its id is derived from both, so that an attempt that is repeated creates no second one.
    pub fn child_of(self, parent: JobId, first: u32, place: usize) -> Result<NewJob, Refusal> {
        let ordinal = u32::try_from(place).ok().and_then(|place| first.checked_add(place));
        let Some(ordinal) = ordinal else { return Err(Refusal::invalid("children", "the job has had too many")) };
        Ok(NewJob { parent: Some(parent), id: Some(JobId::child(parent, ordinal)), ..self })
    }

    /// Everything that it names is in this namespace.
    pub fn move_to(&mut self, namespace: &Namespace) {
        let chain = self.chain.iter_mut();
        let steps =
            chain.flat_map(|chain| chain.steps.iter_mut().chain(&mut chain.on_failure).chain(&mut chain.on_exit));
        for queue in self.queue.iter_mut().chain(steps.map(|step| &mut step.queue)) {
            *queue = queue.within(namespace);
        }
    }

    /// The queues that it and what follows it are for.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        let chain = self.chain.iter();
        let steps = chain.flat_map(|chain| chain.steps.iter().chain(&chain.on_failure).chain(&chain.on_exit));
        self.queue.iter().chain(steps.map(|step| &step.queue))
    }

    /// Refuses what could never be stored, naming the field. Looks at nothing but the input, so that all jobs of a
    /// request can be checked before the first is stored.
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
        check_tags(&self.tags)?;
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
}

pub(crate) fn check_tags(tags: &[(String, String)]) -> Result<(), Refusal> {
    if tags.len() > bounds::TAGS {
        return Err(Refusal::invalid("tags", format!("at most {} tags", bounds::TAGS)));
    }
    for (key, value) in tags {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{AfterRemoval, NewBatch};

    fn plain() -> NewJob {
        NewJob { queue: Some("mail".parse().expect("a name")), ..NewJob::default() }
    }

    fn refused_field(new: NewJob) -> Option<&'static str> {
        match new.check(Time(5)) {
            Ok(_) => None,
            Err(Refusal::Invalid { field, .. }) => Some(field),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_is_refused_when_it_is_empty_too_long_or_has_a_zero_byte() {
        type Set = fn(&mut NewJob, String);
        let fields: [(&str, usize, Set); 4] = [
            ("scope", bounds::SCOPE_BYTES, |new, text| new.scope = Some(text)),
            ("limit_key", bounds::LIMIT_KEY_BYTES, |new, text| new.limit_key = Some(text)),
            ("target_worker", bounds::WORKER_BYTES, |new, text| new.target_worker = Some(text)),
            ("batch_id", bounds::NAME_BYTES, |new, text| new.batch_id = Some(text)),
        ];
        for (field, most, set) in fields {
            let with = |text: String| {
                let mut new = plain();
                set(&mut new, text);
                refused_field(new)
            };
            assert_eq!((with("x".into()), with("x".repeat(most))), (None, None), "{field}");
            for text in [String::new(), "x".repeat(most + 1), "a\0b".to_owned()] {
                assert_eq!(with(text), Some(field));
            }
        }
    }

    #[test]
    fn tags_are_refused_outside_their_bounds_and_taken_at_them() {
        let tag = |key: usize, value: usize| ("k".repeat(key), "v".repeat(value));
        let with = |tags| refused_field(NewJob { tags, ..plain() });
        let (key, value) = (bounds::TAG_KEY_BYTES, bounds::TAG_VALUE_BYTES);
        assert_eq!((with(vec![tag(1, 0); bounds::TAGS]), with(vec![tag(key, value)])), (None, None));
        for tags in [vec![tag(1, 0); bounds::TAGS + 1], vec![tag(0, 1)], vec![tag(key + 1, 1)], vec![tag(1, value + 1)]]
        {
            assert_eq!(with(tags), Some("tags"));
        }
    }

    #[test]
    fn a_job_is_refused_for_a_time_that_is_too_far_away_or_too_many_dependencies() {
        let (furthest, more) = (bounds::FURTHEST, Duration::from_millis(1));
        for (new, expected) in [
            (NewJob { delay: Some(furthest), ..plain() }, None),
            (NewJob { delay: Some(furthest + more), ..plain() }, Some("delay")),
            (NewJob { scheduled_at: Some(Time(5) + furthest), ..plain() }, None),
            (NewJob { scheduled_at: Some(Time(5) + furthest + more), ..plain() }, Some("scheduled_at")),
            (NewJob { depends_on: vec![Dependency::Sibling(0); bounds::DEPENDENCIES], ..plain() }, None),
            (
                NewJob { depends_on: vec![Dependency::Sibling(0); bounds::DEPENDENCIES + 1], ..plain() },
                Some("depends_on"),
            ),
            (NewJob { queue: None, ..plain() }, Some("queue")),
        ] {
            assert_eq!(refused_field(new), expected);
        }
    }

    #[test]
    fn a_batch_can_be_joined_until_it_is_sealed() {
        let mut batch = NewBatch::default().make(JobId::new(Time(1), 1), Time(1));
        let member = NewJob { batch_id: Some(batch.id.clone()), ..plain() }.check(Time(5)).expect("a good job");
        assert!(member.check_batch(Some(&batch)).is_ok());
        assert!(member.check_batch(None).is_err(), "there is no such batch");
        batch.seal(Time(2));
        assert!(member.check_batch(Some(&batch)).is_err(), "it is sealed");
        assert!(plain().check(Time(5)).expect("a good job").check_batch(None).is_ok(), "it names none");
    }

    #[test]
    fn a_child_is_refused_below_the_last_round_and_while_its_parent_is_rebuilt() {
        let child = plain().check(Time(5)).expect("a good job");
        let mut parent = Job::new(JobId::new(Time(1), 1), "mail".parse().expect("a name"), Time(1));
        for (round, rounds, good) in [
            (None, true, true),
            (Some(bounds::ROUNDS - 1), true, true),
            (Some(bounds::ROUNDS), true, false),
            (Some(bounds::ROUNDS), false, true),
        ] {
            parent.round = round;
            assert_eq!(child.check_parent(&parent, rounds, 1).is_ok(), good, "{round:?} {rounds}");
        }
        parent.round = None;
        parent.links = Some(Box::new(Links { removing: Some(AfterRemoval::Rebuild), ..Links::default() }));
        assert!(child.check_parent(&parent, false, 1).is_err());
    }

    #[test]
    fn a_child_is_refused_below_the_deepest_generation_and_levels_with_rounds_are_none() {
        let child = plain().check(Time(5)).expect("a good job");
        let mut parent = Job::new(JobId::new(Time(1), 1), "mail".parse().expect("a name"), Time(1));
        for (depth, round, rounds, good) in [
            (31, None, false, true),
            (32, None, false, false),
            (31, Some(7), false, true),
            (32, Some(7), false, false),
            (32, Some(7), true, true),
            (32, None, true, false),
        ] {
            (parent.depth, parent.round) = (depth, round);
            let told = child.check_parent(&parent, rounds, 32);
            assert_eq!(told.is_ok(), good, "{depth} {round:?} {rounds}");
            let named = told.err().is_none_or(|told| told.to_string().contains("at most 32 generations"));
            assert!(named, "the refusal names the limit");
        }
    }

    #[test]
    fn the_id_of_a_child_follows_from_its_parent_and_its_place() {
        let parent = JobId::new(Time(1), 1);
        let child = plain().child_of(parent, 3, 2).expect("room for it");
        assert_eq!((child.parent, child.id), (Some(parent), Some(JobId::child(parent, 5))));
        assert!(plain().child_of(parent, u32::MAX, 1).is_err());
        let mut checked = plain().check(Time(5)).expect("a good job");
        checked.set_id(parent);
        assert_eq!((checked.id, checked.queue().as_str()), (Some(parent), "mail"));
    }

    #[test]
    fn siblings_are_named_by_their_ids_once_they_are_stored() {
        let id = JobId::new(Time(1), 1);
        let new = NewJob { depends_on: vec![Dependency::Sibling(0), Dependency::Sibling(1)], ..plain() };
        let mut checked = new.check(Time(5)).expect("a good job");
        checked.resolve_siblings(|place| (place == 1).then_some(id));
        assert_eq!(checked.depends_on, [Dependency::Sibling(0), Dependency::Job(id)]);
    }
}
