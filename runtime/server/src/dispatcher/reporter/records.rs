//! Records and marks: those an attempt writes, without secrets, and those it reads.

use windlass_core::{Name, NewMark, NewRecord, Notes, Record};
use windlass_executor::HostError;
use windlass_store::QueueView;

use crate::dispatcher::reporter::Reporter;

impl Reporter {
    /// Records and marks as the store accepts them, without secrets; `None` if there are none.
    pub(super) fn notes(&self, notes: Notes) -> Option<Box<Notes>> {
        let record = |record: NewRecord| NewRecord { value: self.clean_result(record.value.into()).to_vec(), ..record };
        let mark = |mark: NewMark| NewMark { queue: mark.queue.within(&self.namespace), ..mark };
        let (records, marks) = (notes.records.into_iter().map(record), notes.marks.into_iter().map(mark));
        Notes::new(records.collect(), marks.collect())
    }

    pub(super) async fn read_record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        let queue = Name::parse("queue", queue).map_err(|refusal| HostError::Invalid(refusal.to_string()))?;
        let queue = queue.within(&self.namespace);
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
