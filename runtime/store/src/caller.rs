//! On whose behalf the store is asked: what the caller may see and change, and what the audit log calls them.
//!
//! A [`Store`] of a caller behaves as if everything else did not exist. The server's own parts (the dispatcher, the
//! registry, the streams) hold one without a caller, which sees everything.

use std::sync::Arc;

use windlass_core::access::{Actor, Role};
use windlass_core::{AllowedQueues, Command, Holder, Job, Name, Namespace, NewJob, QueueName, Refusal, Time};

use crate::ScheduleChange;
use crate::store::Store;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub allowed: AllowedQueues,
    pub actor: Actor,
    /// May choose any namespace.
    pub everywhere: bool,
    /// The session with which the request came.
    pub session: Option<Arc<str>>,
    /// Until when the token is valid with which it came, if it came with one.
    pub token_until: Option<Time>,
}

impl Store {
    /// The same store, as this caller sees it.
    pub fn of_caller(&self, caller: Arc<Caller>) -> Store {
        Store { caller: Some(caller), ..self.clone() }
    }

    /// Whether the caller may see what belongs to a queue.
    pub(crate) fn sees(&self, queue: &QueueName) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.allowed.allow(queue))
    }

    /// Whether a plugin, a schedule, a secret or a batch of this namespace is one of the caller's.
    pub(crate) fn sees_namespace(&self, namespace: &Namespace) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.allowed.namespace == *namespace)
    }

    pub(crate) fn sees_name(&self, name: &Name) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.allowed.is_in_namespace(name))
    }

    /// A name that a caller gave: whatever it is, it names something of their namespace.
    pub(crate) fn own(&self, name: Name) -> Name {
        match &self.caller {
            Some(caller) => name.within(&caller.allowed.namespace),
            None => name,
        }
    }

    /// The same for a queue, refused if the caller may not use it.
    pub(crate) fn own_queue(&self, queue: QueueName) -> Result<QueueName, Refusal> {
        let queue = self.own(queue);
        self.caller.as_ref().map_or(Ok(()), |caller| caller.allowed.check(&queue))?;
        Ok(queue)
    }

    /// Moves jobs into the caller's namespace and notes who enqueues them; refused if the caller may not use one of
    /// their queues, those of later steps of a chain included.
    pub(crate) fn check_jobs(&self, jobs: &mut [NewJob]) -> Result<(), Refusal> {
        let Some(caller) = &self.caller else { return Ok(()) };
        for job in jobs {
            job.move_to(&caller.allowed.namespace);
            job.queues().try_for_each(|queue| caller.allowed.check(queue))?;
            job.created_by.get_or_insert_with(|| caller.actor.id.clone());
        }
        Ok(())
    }

    /// Marks that come with a command are on records of the caller's namespace.
    pub(crate) fn own_marks(&self, command: &mut Command) {
        let Some(caller) = &self.caller else { return };
        if let Some(notes) = command.notes_mut() {
            notes.marks.iter_mut().for_each(|mark| mark.queue = mark.queue.within(&caller.allowed.namespace));
        }
    }

    pub(crate) fn own_schedule(&self, change: ScheduleChange) -> Result<ScheduleChange, Refusal> {
        Ok(match change {
            ScheduleChange::Put { mut schedule, replace } => {
                schedule.name = self.own(schedule.name);
                schedule.queue = self.own_queue(schedule.queue)?;
                schedule.created_by = self.actor();
                ScheduleChange::Put { schedule, replace }
            }
            ScheduleChange::Pause { name, paused } => ScheduleChange::Pause { name: self.own(name), paused },
            ScheduleChange::RunNow { name } => ScheduleChange::RunNow { name: self.own(name) },
            ScheduleChange::Remove { name } => ScheduleChange::Remove { name: self.own(name) },
        })
    }

    /// The namespace of what the caller makes.
    pub(crate) fn own_namespace(&self) -> Namespace {
        self.caller.as_ref().map(|caller| caller.allowed.namespace.clone()).unwrap_or_default()
    }

    /// Who asks, as what they make records it.
    pub(crate) fn actor(&self) -> Option<String> {
        self.caller.as_ref().map(|caller| caller.actor.id.clone())
    }

    /// What a list or a search is limited to.
    pub(crate) fn limits(&self) -> Option<AllowedQueues> {
        self.caller.as_ref().map(|caller| caller.allowed.clone())
    }
}

/// Whether a command on this job is the caller's to give. To anybody else the job does not exist. What a worker says
/// without a lease token counts if it comes with the key that fetched the job, or from an admin.
pub(crate) fn may_change(caller: Option<&Caller>, job: &Job, command: &Command) -> Result<(), Refusal> {
    let Some(caller) = caller else { return Ok(()) };
    if !caller.allowed.allow(&job.queue) {
        return Err(Refusal::not_found("job", job.id));
    }
    let is_foreign = |by: &String| *by != caller.actor.id && caller.actor.role != Some(Role::Admin);
    if command.holder() == Some(Holder::Unsigned) && job.claimed_by.as_ref().is_some_and(is_foreign) {
        return Err(Refusal::NotActive { id: job.id, state: job.state });
    }
    // Records are marked in any queue that the key may use.
    command.notes().into_iter().flat_map(|notes| &notes.marks).try_for_each(|mark| caller.allowed.check(&mark.queue))
}
