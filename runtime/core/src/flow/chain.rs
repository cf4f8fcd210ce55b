//! Chains: steps that follow each other, each with the result of the one before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::flow::Links;
use crate::flow::payload::{over, raw, value};
use crate::{Body, BodyRef, Job, JobId, NewJob, PolicyChoice, QueueName, Refusal, State, StepStatus, bounds};

/// What was asked for: stored once for all jobs of the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    pub steps: Vec<ChainStep>,
    pub on_failure: Option<ChainStep>,
    pub on_exit: Option<ChainStep>,
    /// Jobs of the chain that are still stored. The chain is deleted with the last of them.
    pub references: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainStep {
    pub queue: QueueName,
    pub payload: Option<Vec<u8>>,
}

/// Where in a chain a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlace {
    /// The first job of the chain, by which the chain is known.
    pub first: JobId,
    /// From 0; for `on_failure` and `on_exit`, that of the step they follow.
    pub step: u32,
    pub part: ChainPart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainPart {
    Step,
    OnFailure,
    OnExit,
}

impl ChainPlace {
    /// The chain's id, as people see it.
    pub fn chain_id(&self) -> String {
        Chain::id(self.first)
    }
}

impl Chain {
    pub fn id(first: JobId) -> String {
        first.to_string().replacen("job_", "chain_", 1)
    }

    /// The first job of the chain of this id.
    pub fn first(id: &str) -> Option<JobId> {
        format!("job_{}", id.strip_prefix("chain_")?).parse().ok()
    }

    pub fn check(&self, queue: &QueueName) -> Result<(), Refusal> {
        if !(2..=bounds::CHAIN_STEPS).contains(&self.steps.len()) {
            let why = format!("`steps` has 2 to {} steps, not {}", bounds::CHAIN_STEPS, self.steps.len());
            return Err(Refusal::invalid("chain", why));
        }
        if self.steps.first().is_some_and(|first| first.queue != *queue) {
            return Err(Refusal::invalid(
                "chain",
                format!("its first step is the job itself, so its queue is `{queue}`"),
            ));
        }
        let all = self.steps.iter().chain(&self.on_failure).chain(&self.on_exit);
        let bytes: usize = all.filter_map(|step| step.payload.as_ref()).map(Vec::len).sum();
        if bytes > bounds::CHAIN_BYTES {
            let why = format!("its payloads have at most {} bytes together, not {bytes}", bounds::CHAIN_BYTES);
            return Err(Refusal::invalid("chain", why));
        }
        Ok(())
    }

    /// The job that follows one of the chain that has ended, if any does. `result` is its result, when that is small
    /// enough to be handed on; a larger one is handed on by reference.
    pub fn next(&self, job: &Job, result: Option<&[u8]>) -> Option<NewJob> {
        let place = job.links.as_ref().and_then(|links| links.chain).filter(|place| place.part == ChainPart::Step)?;
        let exits = job.step_status == Some(StepStatus::Exit);
        let (part, step) = match job.state {
            State::Completed => match self.steps.get(place.step as usize + 1).filter(|_| !exits) {
                Some(step) => (ChainPart::Step, step),
                None => (ChainPart::OnExit, self.on_exit.as_ref()?),
            },
            State::Dead => (ChainPart::OnFailure, self.on_failure.as_ref()?),
            // Whoever cancels a step wants the chain to stop.
            _ => return None,
        };
        let told = match part {
            ChainPart::OnFailure => BTreeMap::from([
                ("failed_job_id", raw(&job.id.to_string())),
                ("failed_step", raw(&place.step)),
                ("error", raw(job.last_error.as_deref().unwrap_or("it died without an error"))),
            ]),
            ChainPart::Step | ChainPart::OnExit => BTreeMap::from([
                ("previous_job_id", raw(&job.id.to_string())),
                (
                    "previous_result",
                    match (job.result, result) {
                        (BodyRef::None, _) => raw(&()),
                        (_, Some(bytes)) => value(bytes),
                        (_, None) => raw(&BTreeMap::from([("$result_of", job.id.to_string())])),
                    },
                ),
            ]),
        };
        let next = place.step + u32::from(part == ChainPart::Step);
        let place = ChainPlace { step: next, part, ..place };
        Some(NewJob {
            id: Some(JobId::of_chain(place.first, next, part as u8)),
            queue: Some(step.queue.clone()),
            payload: Some(Body::Inline(over(told, step.payload.as_deref()))),
            policy: PolicyChoice { priority: Some(job.priority), ..PolicyChoice::default() },
            tags: job.tags.clone(),
            scope: job.scope.clone(),
            limit_key: job.limit_key.clone(),
            batch_id: job.batch_id.clone(),
            created_by: job.created_by.clone(),
            links: Some(Box::new(Links { chain: Some(place), ..Links::default() })),
            ..NewJob::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    fn step(queue: &str) -> ChainStep {
        ChainStep { queue: queue.parse().expect("a name"), payload: None }
    }

    fn chain(steps: usize) -> Chain {
        let (on_failure, on_exit) = (Some(step("failed")), Some(step("done")));
        Chain { steps: (0..steps).map(|at| step(&format!("q{at}"))).collect(), on_failure, on_exit, references: 0 }
    }

    /// A job of the chain that has ended.
    fn ended(at: u32, part: ChainPart, state: State) -> Job {
        let first = JobId::new(Time(5), 1);
        let place = ChainPlace { first, step: at, part };
        let links = Some(Box::new(Links { chain: Some(place), ..Links::default() }));
        Job { state, links, ..Job::new(JobId::new(Time(6), 2), "q0".parse().expect("a name"), Time(6)) }
    }

    fn payload(new: &NewJob) -> String {
        let Some(Body::Inline(bytes)) = &new.payload else { panic!("a small payload") };
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[test]
    fn an_id_names_the_first_job_of_the_chain() {
        let place = ChainPlace { first: JobId::new(Time(5), 1), step: 3, part: ChainPart::OnExit };
        assert!(place.chain_id().starts_with("chain_"));
        assert_eq!(Chain::first(&place.chain_id()), Some(place.first));
        for text in [place.first.to_string(), "chain_".to_owned(), "chain_7".to_owned()] {
            assert_eq!(Chain::first(&text), None, "{text}");
        }
    }

    #[test]
    fn a_chain_that_is_too_short_too_long_or_too_large_is_refused() {
        let queue = "q0".parse().expect("a name");
        for (steps, good) in [(1, false), (2, true), (bounds::CHAIN_STEPS, true), (bounds::CHAIN_STEPS + 1, false)] {
            assert_eq!(chain(steps).check(&queue).is_ok(), good, "{steps} steps");
        }
        assert!(chain(2).check(&"other".parse().expect("a name")).is_err(), "the first step is the job itself");
        for (bytes, good) in [(bounds::CHAIN_BYTES, true), (bounds::CHAIN_BYTES + 1, false)] {
            let mut large = chain(2);
            large.steps[1].payload = Some(vec![b'1'; bytes - 1]);
            large.on_exit = Some(ChainStep { payload: Some(vec![b'1']), ..step("done") });
            assert_eq!(large.check(&queue).is_ok(), good, "{bytes} bytes together");
        }
    }

    #[test]
    fn what_follows_a_job_depends_on_how_it_ended_and_where_it_stands() {
        use ChainPart::{OnExit, OnFailure, Step};
        let cases = [
            (0, Step, State::Completed, Some(("q1", 1, Step))),
            (1, Step, State::Completed, Some(("done", 1, OnExit))),
            (0, Step, State::Dead, Some(("failed", 0, OnFailure))),
            (0, Step, State::Cancelled, None),
            (0, Step, State::Active, None),
            (0, OnFailure, State::Completed, None),
            (1, OnExit, State::Completed, None),
        ];
        for (at, part, state, expected) in cases {
            let next = chain(2).next(&ended(at, part, state), None);
            let found = next.as_ref().map(|next| {
                let place = next.links.as_ref().and_then(|links| links.chain).expect("a place");
                (next.queue.as_ref().map_or("", |queue| queue.as_str()), place.step, place.part)
            });
            assert_eq!(found, expected, "{at} {part:?} {state:?}");
        }
        let exits = Job { step_status: Some(StepStatus::Exit), ..ended(0, Step, State::Completed) };
        let next = chain(2).next(&exits, None).expect("the exit");
        assert_eq!(next.queue, Some("done".parse().expect("a name")));
        let alone = Job { links: None, ..ended(0, Step, State::Completed) };
        assert_eq!(chain(2).next(&alone, None), None);
    }

    #[test]
    fn the_next_job_is_told_the_result_and_takes_over_whom_the_chain_is_about() {
        let job = Job {
            tags: vec![("a".into(), "b".into())],
            scope: Some("user:1".into()),
            limit_key: Some("tenant".into()),
            batch_id: Some("batch".into()),
            created_by: Some("key".into()),
            priority: crate::Priority::High,
            ..ended(0, ChainPart::Step, State::Completed)
        };
        let next = chain(2).next(&job, None).expect("another step");
        assert_eq!((&next.tags, &next.scope, &next.limit_key), (&job.tags, &job.scope, &job.limit_key));
        assert_eq!((&next.batch_id, &next.created_by), (&job.batch_id, &job.created_by));
        assert_eq!(next.policy.priority, Some(job.priority));
        let id = job.id;
        assert_eq!(payload(&next), format!(r#"{{"previous_job_id":"{id}","previous_result":null}}"#));
        let with_result = Job { result: BodyRef::from(&Body::Inline("7".into())), ..job.clone() };
        let told = |result: Option<&[u8]>| payload(&chain(2).next(&with_result, result).expect("another step"));
        assert_eq!(told(Some(b"7")), format!(r#"{{"previous_job_id":"{id}","previous_result":7}}"#));
        let by_reference = format!(r#"{{"previous_job_id":"{id}","previous_result":{{"$result_of":"{id}"}}}}"#);
        assert_eq!(told(None), by_reference);
        let dead = Job { last_error: Some("broke".into()), state: State::Dead, ..job };
        let failed = payload(&chain(2).next(&dead, None).expect("the failure step"));
        assert_eq!(failed, format!(r#"{{"error":"broke","failed_job_id":"{id}","failed_step":0}}"#));
    }

    #[test]
    fn no_two_jobs_of_a_chain_have_the_same_id() {
        let follow = |at, state| chain(3).next(&ended(at, ChainPart::Step, state), None).and_then(|next| next.id);
        let ids =
            [(0, State::Completed), (1, State::Completed), (2, State::Completed), (0, State::Dead), (1, State::Dead)]
                .map(|(at, state)| follow(at, state).expect("a job follows"));
        for (index, id) in ids.iter().enumerate() {
            assert!(!ids[..index].contains(id), "{ids:?}");
        }
    }
}
