//! What a decision must know, loaded from memory and disk. The only place that builds [`Facts`].

use windlass_core::{
    BodyKind, BodyRef, CheckedJob, Command, Facts, Findings, Job, JobId, Lock, LockKey, Refusal, Runner,
};

use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::Engine;
use crate::engine::failure::Failure;

/// What comes with a command on a job.
#[derive(Default)]
pub(crate) struct Brings {
    /// How many children are stored together with it.
    pub(crate) children: u32,
    /// What became apparent while the attempt ran that it ends.
    pub(crate) findings: Option<Box<Findings>>,
}

impl<D: Disk> Engine<D> {
    /// For a new job.
    pub(crate) fn facts_of_new(&mut self, new: &CheckedJob) -> Result<Facts<'_>, Failure> {
        let name = new.queue();
        self.ensure_queue(name);
        let twin = match new.id {
            Some(id) => self.load(id)?.cloned(),
            None => None,
        };
        // A stored job that cannot be read is not overwritten.
        if let Some(damaged) = new.id.filter(|_| twin.is_none()).and_then(|id| self.damage_of(id)) {
            return Err(damaged.into());
        }
        let lock = self.named_lock(new.unique.as_ref().map(|unique| unique.lock_key(name, new.scope.as_deref())))?;
        let dependencies = self.dependencies_of(new)?;
        let rounds = self.round_facts_of_new(name, new.parent)?;
        let depth = match new.parent {
            Some(parent) => self.load(parent)?.map_or(1, |parent| parent.depth_of_child(rounds.is_some())),
            None => 0,
        };
        let Some(queue) = self.queues.get(name) else { return Err(Refusal::not_found("queue", name).into()) };
        let plugin = self.catalogue.plugin_of(name);
        Ok(Facts { lock, plugin, newest: self.newest, depth, dependencies, rounds, ..Facts::new(twin, &queue.row) })
    }

    /// For a command about a stored job, with what it brings along.
    pub(crate) fn facts_of(&mut self, id: JobId, command: &Command, brings: Brings) -> Result<Facts<'_>, Failure> {
        let Some(job) = self.load(id)?.cloned() else {
            return Err(self.damage_of(id).unwrap_or_else(|| Refusal::not_found("job", id).into()).into());
        };
        let lock = self.named_lock(job.lock_key())?;
        let (mut target_lock, mut target_rounds) = (None, None);
        if let Command::Move(target) = command {
            self.ensure_queue(&target.queue);
            target_rounds = self.round_facts(&target.queue);
            let key = job.unique.as_ref().map(|unique| unique.lock_key(&target.queue, job.scope.as_deref()));
            target_lock = self.named_lock(key)?;
        }
        let rounds = self.round_facts(&job.queue);
        let checkpoint = self.checkpoint_before(&job, command)?;
        let Some(queue) = self.queues.get(&job.queue) else {
            let why = format!("job {id} is in a queue that is not stored");
            return Err(DiskError::Row { space: Space::Jobs, why }.into());
        };
        let runner = match (command, &job.run) {
            (Command::Start { runner, .. }, _) => Some(runner),
            (_, run) => run.as_ref().map(|run| &run.runner),
        };
        let plugin = match runner {
            Some(Runner::Local { plugin, .. }) => self.catalogue.plugin(plugin),
            Some(Runner::External { .. }) | None => None,
        };
        let Brings { children, findings } = brings;
        let known = Facts { children, findings, ..Facts::new(None, &queue.row) };
        Ok(Facts { job: Some(job), lock, target_lock, plugin, rounds, target_rounds, checkpoint, ..known })
    }

    fn named_lock(&mut self, key: Option<LockKey>) -> Result<Option<Lock>, DiskError> {
        match key {
            Some(key) => self.load_lock(&keys::lock(&key)),
            None => Ok(None),
        }
    }

    /// The checkpoint that a command would replace: read only for a job that has crashed, where it matters whether the
    /// new one differs.
    fn checkpoint_before(&self, job: &Job, command: &Command) -> Result<Option<Vec<u8>>, DiskError> {
        if command.checkpoint().is_none() || job.crashes == 0 || !matches!(job.checkpoint, BodyRef::Inline { .. }) {
            return Ok(None);
        }
        let stored = self.written(Space::Bodies, keys::body(job.id, BodyKind::Checkpoint));
        let read = stored.and_then(|stored| {
            stored.map(|bytes| codec::unwrap(Space::Bodies, &bytes).map(<[u8]>::to_vec)).transpose()
        });
        match read {
            // What cannot be read is replaced now.
            Err(error) if error.is_damage() => Ok(None),
            read => read,
        }
    }
}
