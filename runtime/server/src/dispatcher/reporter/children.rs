//! Children: storing those that an attempt spawns, and reading those it has.

use bytes::Bytes;
use windlass_core::{BodyKind, Job, JobId, Name, Namespace, NewJob, Refusal, Unique, UniqueScope, Until};
use windlass_executor::{Child, ChildPage, ChildRead, HostError, PageLimits};
use windlass_store::Error;

use crate::dispatcher::reporter::Reporter;
use crate::limits;

impl Reporter {
    /// Children as the store accepts them. Their ids are derived from the parent and the ordinal, so that a repeated
    /// attempt creates none twice.
    pub(super) async fn new_jobs(&self, children: Vec<Child>) -> Result<Vec<NewJob>, Error> {
        let mut jobs = Vec::with_capacity(children.len());
        for child in children {
            self.refuse_secrets(&child)?;
            let payload = self.store.keep_for(self.namespace(), child.payload.clone()).await?;
            jobs.push(NewJob { payload: Some(payload), ..new_job(self.job, &self.namespace, child)? });
        }
        Ok(jobs)
    }

    /// A child runs with the payload it was given, so a secret cannot be redacted there and is refused.
    fn refuse_secrets(&self, child: &Child) -> Result<(), Refusal> {
        let texts = child.tags.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = texts.chain(&child.scope).chain(&child.unique_key).chain([&child.queue]);
        if self.contains_secret(&child.payload) || texts.any(|text| self.contains_secret(text.as_bytes())) {
            let why = "a child's queue, payload, tags, scope and unique key are not secret, and this one contains a secret; let \
                       the plugin that runs the child read the secret itself";
            return Err(Refusal::invalid("payload", why));
        }
        Ok(())
    }

    pub(super) async fn read_children(&self, start: u32, page: PageLimits) -> Result<ChildPage, HostError> {
        let parent = self.parent().await?;
        let (found, mut next) = self.retrying(|| self.store.children(&parent, u64::from(start), page.children)).await?;
        let mut children = Vec::with_capacity(found.len());
        let mut bytes = 0;
        let room = page.bytes as u64;
        for (number, child) in found {
            let size = child.result.len();
            let fits = size <= limits::EVENT_RESULT;
            if fits && size > 0 && !children.is_empty() && bytes + size > room {
                next = Some(number);
                break;
            }
            let result = if fits { self.result_of(&child).await? } else { None };
            bytes += if fits { size } else { 0 };
            children.push(child_read(number, child, result));
        }
        Ok(ChildPage { children, next: next.and_then(|number| u32::try_from(number).ok()) })
    }

    pub(super) async fn read_child_result(&self, ordinal: u32) -> Result<Option<Bytes>, HostError> {
        let parent = self.parent().await?;
        let (found, _) = self.retrying(|| self.store.children(&parent, u64::from(ordinal), 1)).await?;
        match found.first() {
            Some((number, child)) if *number == u64::from(ordinal) => self.result_of(child).await,
            Some(_) | None => Err(HostError::no_child(ordinal)),
        }
    }

    async fn result_of(&self, child: &Job) -> Result<Option<Bytes>, HostError> {
        self.retrying(|| self.store.body(child, BodyKind::Result)).await
    }
}

/// A child, as its parent reads it.
fn child_read(number: u64, job: Job, result: Option<Bytes>) -> ChildRead {
    ChildRead {
        ordinal: u32::try_from(number).unwrap_or(u32::MAX),
        id: job.id,
        queue: job.queue,
        state: job.state,
        result,
        result_bytes: job.result.len(),
        error: job.last_error,
    }
}

/// Everything of a child except its payload.
fn new_job(parent: JobId, namespace: &Namespace, child: Child) -> Result<NewJob, Refusal> {
    let mut job = NewJob {
        queue: Some(Name::parse("queue", &child.queue)?.within(namespace)),
        delay: child.delay,
        tags: child.tags,
        scope: child.scope,
        parent: Some(parent),
        id: Some(JobId::child(parent, child.ordinal)),
        ..NewJob::default()
    };
    job.unique = child.unique_key.map(|key| Unique {
        key,
        within: UniqueScope::default(),
        until: Until::default(),
        period: child.unique_period.unwrap_or(windlass_core::DEFAULT_PERIOD),
    });
    job.policy.max_attempts = child.max_attempts;
    job.policy.priority = child.priority;
    Ok(job)
}
