//! Records and marks: those an attempt writes, without secrets, and those it reads.

use windlass_core::{Name, NewRecord, Notes, Record};
use windlass_executor::HostError;
use windlass_store::QueueView;

use crate::dispatcher::reporter::Reporter;

impl Reporter {
    /// Records and marks as the store accepts them, without secrets; `None` if there are none.
    pub(super) fn notes(&self, notes: Notes) -> Option<Box<Notes>> {
        let record = |record: NewRecord| NewRecord { value: self.clean_result(record.value.into()).to_vec(), ..record };
        Notes::new(notes.records.into_iter().map(record).collect(), notes.marks)
    }

    pub(super) async fn read_record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        let queue = Name::parse("queue", queue).map_err(|refusal| HostError::Invalid(refusal.to_string()))?;
        self.retrying(|| self.store.record(queue.clone(), key.to_owned())).await
    }

    /// The queues that a gate connects with the job's own, on either side.
    pub(super) async fn gated_queues(&self) -> Result<Vec<String>, HostError> {
        let own = self.parent().await?.queue;
        let queues = self.retrying(|| self.store.queues()).await?;
        let other_side = |view: &QueueView| {
            let gate = view.queue.settings.gate.as_ref()?;
            gate.other_side(&view.queue.name, &own).map(ToString::to_string)
        };
        Ok(queues.iter().filter_map(other_side).collect())
    }
}
