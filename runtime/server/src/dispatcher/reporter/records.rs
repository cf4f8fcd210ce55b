//! Records and marks: those an attempt writes, without secrets, and those it reads.

use windlass_core::{Name, NewMark, NewRecord, Notes, Record, Refusal};
use windlass_executor::HostError;
use windlass_store::QueueView;

use crate::dispatcher::reporter::Reporter;

impl Reporter {
    /// Records and marks as the store accepts them; `None` if there are none. Values have no secrets in them
    /// afterwards. A key is found by its text, and a mark is read by others, so a secret there is refused instead.
    pub(super) fn notes(&self, notes: Notes) -> Result<Option<Box<Notes>>, Refusal> {
        let texts = |mark: &NewMark| [Some(mark.queue.to_string()), Some(mark.key.clone()), mark.mark.clone()];
        if notes.records.iter().any(|record| self.contains_secret(record.key.as_bytes())) {
            return Err(Refusal::invalid(
                "records",
                "the key of a record contains a secret; name the record differently",
            ));
        }
        if notes.marks.iter().flat_map(texts).flatten().any(|text| self.contains_secret(text.as_bytes())) {
            let why = "a mark, or the key of a marked record, contains a secret; marks are not secret";
            return Err(Refusal::invalid("marks", why));
        }
        let record = |record: NewRecord| NewRecord { value: self.clean_result(record.value.into()).to_vec(), ..record };
        let mark = |mark: NewMark| NewMark { queue: mark.queue.within(&self.namespace), ..mark };
        let (records, marks) = (notes.records.into_iter().map(record), notes.marks.into_iter().map(mark));
        Ok(Notes::new(records.collect(), marks.collect()))
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
