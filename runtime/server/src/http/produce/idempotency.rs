//! `Idempotency-Key`: a request that is sent again under the same key finds the jobs of the first one.

use axum::http::HeaderMap;
use windlass_core::flow::Batch;
use windlass_core::{JobId, Namespace, NewJob, Unique, UniqueScope, Until};

use crate::http::transport::error::{Error, Result};
use crate::limits;

/// Makes a request safe to repeat: under the same key it returns the jobs of the first request.
pub(crate) struct IdempotencyKey(Option<String>);

impl IdempotencyKey {
    pub(crate) fn read(headers: &HeaderMap) -> Result<IdempotencyKey> {
        let Some(key) = headers.get("idempotency-key") else { return Ok(IdempotencyKey(None)) };
        match key.to_str() {
            Ok(key) if (1..=limits::IDEMPOTENCY_KEY).contains(&key.len()) => Ok(IdempotencyKey(Some(key.to_owned()))),
            _ => Err(Error::field("Idempotency-Key", format!("1 to {} ASCII characters", limits::IDEMPOTENCY_KEY))),
        }
    }

    /// The batch that the request creates, or created before.
    pub(crate) fn batch(&self, namespace: &Namespace) -> Option<String> {
        let name = self.0.as_ref()?;
        Some(Batch::id(JobId::of_batch(&namespace.qualify(&format!("idempotency:{name}")), windlass_core::Time::ZERO)))
    }

    /// Stored as a unique key that outlives the job. A job with its own unique key is recognised by that.
    pub(crate) fn mark(&self, mut job: NewJob, index: usize) -> NewJob {
        if let (Some(name), None) = (&self.0, &job.unique) {
            let key = format!("idempotency:{name}:{index}");
            let unique = Unique { key, within: UniqueScope::Queue, until: Until::Period, period: limits::IDEMPOTENCY };
            job.unique = Some(unique);
        }
        job
    }
}
