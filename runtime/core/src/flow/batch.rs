//! Batches: jobs that are counted together, and one more that is enqueued when all of them have ended.
//!
//! A batch of a million jobs is these few numbers. They follow the moves of its members, as a queue's counts do.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::flow::payload::{over, raw};
use crate::flow::{Links, Tally};
use crate::name::namespace::or_default;
use crate::{Body, JobId, Namespace, NewJob, QueueName, Refusal, Time, bounds};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub id: String,
    pub created_at: Time,
    /// From here on no job can join.
    pub sealed_at: Option<Time>,
    /// When all members had ended for the first time.
    pub finished_at: Option<Time>,
    /// The queue and policy of the callback. Its payload is stored separately.
    pub callback_queue: Option<QueueName>,
    pub callback_job: Option<JobId>,
    /// Its members; the callback keeps the batch stored too.
    pub tally: Tally,
    /// The last field, because batches that were stored without it are still read.
    #[serde(deserialize_with = "or_default")]
    pub namespace: Namespace,
}

/// A batch that somebody wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewBatch {
    /// Derived from the caller's own name for the request; made from the seed otherwise.
    pub id: Option<String>,
    pub callback: Option<Callback>,
    pub namespace: Namespace,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Callback {
    pub queue: QueueName,
    pub payload: Option<Bytes>,
}

/// How a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStatus {
    /// Jobs can still join.
    Open,
    /// Sealed, and some members have not ended.
    Running,
    /// All members have ended; a member that was retried since is counted again, and calls nobody back.
    Finished,
}

impl BatchStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            BatchStatus::Open => "open",
            BatchStatus::Running => "running",
            BatchStatus::Finished => "finished",
        }
    }
}

const PREFIX: &str = "batch_";

impl NewBatch {
    pub fn check(&self) -> Result<(), Refusal> {
        let payload = self.callback.as_ref().and_then(|callback| callback.payload.as_ref());
        if payload.is_some_and(|payload| payload.len() > bounds::CALLBACK_BYTES) {
            let why = format!("at most {} bytes; put more where the callback can fetch it", bounds::CALLBACK_BYTES);
            return Err(Refusal::invalid("callback_payload", why));
        }
        Ok(())
    }

    /// The batch as it is first stored; `id` is used unless it brings its own.
    pub fn make(&self, id: JobId, now: Time) -> Batch {
        Batch {
            id: self.id.clone().unwrap_or_else(|| Batch::id(id)),
            created_at: now,
            sealed_at: None,
            finished_at: None,
            callback_queue: self.callback.as_ref().map(|callback| callback.queue.clone()),
            callback_job: None,
            tally: Tally::default(),
            namespace: self.namespace.clone(),
        }
    }
}

impl Batch {
    /// A batch's id: like a job's, with another prefix.
    pub fn id(from: JobId) -> String {
        from.to_string().replacen("job_", PREFIX, 1)
    }

    pub fn is_id(text: &str) -> bool {
        text.strip_prefix(PREFIX).is_some_and(|rest| format!("job_{rest}").parse::<JobId>().is_ok())
    }

    pub fn seal(&mut self, now: Time) {
        self.sealed_at.get_or_insert(now);
    }

    pub fn standing(&self) -> BatchStatus {
        match (self.sealed_at, self.tally.open) {
            (None, _) => BatchStatus::Open,
            (Some(_), 0) => BatchStatus::Finished,
            (Some(_), _) => BatchStatus::Running,
        }
    }

    /// Called once all that a commit changes is known: has the last member ended, for the first time? Then the callback
    /// is due, in this very commit.
    pub fn finish(&mut self, now: Time) -> bool {
        if self.standing() != BatchStatus::Finished || self.finished_at.is_some() {
            return false;
        }
        self.finished_at = Some(now);
        self.callback_queue.is_some()
    }

    /// The callback, with the numbers under what the producer gave.
    pub fn callback(&mut self, payload: Option<&[u8]>) -> Option<NewJob> {
        let queue = self.callback_queue.clone()?;
        let id = JobId::of_batch(&self.id, self.created_at);
        let told = BTreeMap::from([
            ("batch_id", raw(&self.id)),
            ("total", raw(&self.tally.total)),
            ("completed", raw(&self.tally.completed)),
            ("dead", raw(&self.tally.dead)),
            // What older clients read.
            ("succeeded", raw(&self.tally.completed)),
            ("failed", raw(&self.tally.dead)),
            ("cancelled", raw(&self.tally.cancelled)),
        ]);
        self.callback_job = Some(id);
        self.tally.keep();
        Some(NewJob {
            queue: Some(queue),
            payload: Some(Body::Inline(over(told, payload))),
            id: Some(id),
            links: Some(Box::new(Links { callback_of: Some(self.id.clone()), ..Links::default() })),
            ..NewJob::default()
        })
    }

    /// Nobody will ask for it any more: all is done, and none of its jobs is stored.
    pub fn is_over(&self) -> bool {
        self.finished_at.is_some() && self.tally.references == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn batch() -> Batch {
        let callback = Some(Callback { queue: "done".parse().expect("a name"), payload: None });
        NewBatch { callback, ..NewBatch::default() }.make(JobId::new(Time(7), 9), Time(7))
    }

    #[test]
    fn the_callback_comes_once_and_tells_the_numbers() {
        let mut batch = batch();
        batch.tally.moved(None, Some(State::Completed));
        assert!(!batch.finish(Time(8)), "it is not sealed");
        batch.seal(Time(9));
        assert!(batch.finish(Time(9)));
        let callback = batch.callback(Some(br#"{"total": "mine", "x": 1}"#)).expect("it has a queue");
        let Some(Body::Inline(payload)) = callback.payload else { panic!("a small payload") };
        let text = String::from_utf8(payload.to_vec()).expect("text");
        assert_eq!(
            text,
            format!(
                r#"{{"batch_id":"{}","cancelled":0,"completed":1,"dead":0,"failed":0,"succeeded":1,"total":"mine","x":1}}"#,
                batch.id
            )
        );
        batch.tally.moved(Some(State::Completed), Some(State::Pending));
        batch.tally.moved(Some(State::Pending), Some(State::Dead));
        assert!(!batch.finish(Time(10)), "a retried member calls nobody back");
    }

    #[test]
    fn an_id_is_known_by_its_form() {
        assert!(Batch::is_id(&batch().id));
        for text in ["batch_", "batch_7", "job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5", ""] {
            assert!(!Batch::is_id(text), "{text}");
        }
    }

    #[test]
    fn a_batch_is_open_until_it_is_sealed_and_over_when_none_of_its_jobs_is_stored() {
        let mut batch = batch();
        assert_eq!(batch.standing().as_str(), "open");
        batch.tally.moved(None, Some(State::Pending));
        batch.seal(Time(8));
        batch.seal(Time(9));
        assert_eq!((batch.sealed_at, batch.standing().as_str()), (Some(Time(8)), "running"));
        assert!(!batch.finish(Time(9)) && batch.finished_at.is_none(), "a member has not ended");
        batch.tally.moved(Some(State::Pending), Some(State::Dead));
        assert_eq!(batch.standing().as_str(), "finished");
        assert!(batch.finish(Time(10)) && batch.finished_at == Some(Time(10)));
        batch.callback(None).expect("it has a queue");
        batch.tally.moved(Some(State::Dead), None);
        assert!(!batch.is_over(), "its callback is stored");
        batch.tally.release();
        assert!(batch.is_over());
        assert!(!Batch { finished_at: None, ..batch }.is_over());
    }

    #[test]
    fn a_batch_without_a_callback_calls_nobody_and_takes_the_id_it_is_given() {
        let new = NewBatch { id: Some("batch_mine".into()), ..NewBatch::default() };
        let mut batch = new.make(JobId::new(Time(7), 9), Time(7));
        batch.seal(Time(8));
        assert!(!batch.finish(Time(8)) && batch.finished_at == Some(Time(8)));
        assert_eq!(batch.callback(None), None);
        assert_eq!(batch.id, "batch_mine");
    }

    #[test]
    fn the_payload_of_a_callback_has_a_bound() {
        for (bytes, good) in [(bounds::CALLBACK_BYTES, true), (bounds::CALLBACK_BYTES + 1, false)] {
            let callback = Callback { queue: "done".parse().expect("a name"), payload: Some(vec![b'1'; bytes].into()) };
            assert_eq!(
                NewBatch { callback: Some(callback), ..NewBatch::default() }.check().is_ok(),
                good,
                "{bytes} bytes"
            );
        }
    }
}
