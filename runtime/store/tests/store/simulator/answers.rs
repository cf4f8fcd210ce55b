//! Every answer must be true: an acknowledgement has its effect on disk, a refusal has its reason.

use windlass_core::flow::Batch;
use windlass_core::{
    Command, Complete, Fail, HandBack, Heartbeat, Holder, JobId, Move, Name, NewJob, Notes, Plugin, QueueName, Refusal,
    Reply, Settings, State, Wait,
};
use windlass_store::{Assignment, BatchMade, Enqueued, Error};

use super::commands::{Asked, Receiver};
use super::world::World;

impl World {
    pub fn take_answers(&mut self, asked: Vec<Asked>) {
        let group: Vec<(JobId, Command)> = asked.iter().flat_map(Asked::commands).collect();
        for asked in asked {
            match asked {
                Asked::Enqueue { jobs, answer } => match answered(answer) {
                    Ok(stored) => self.check_all_stored(&jobs, &stored),
                    Err(error) => self.check_refused(&jobs, &error),
                },
                Asked::MakeBatch { jobs, answer } => match answered(answer) {
                    Ok(made) => self.check_made(&jobs, &made),
                    Err(error) => self.check_refused(&jobs, &error),
                },
                Asked::Seal { batch, answer } => self.check_sealed(&batch, answered(answer)),
                Asked::Claim { claim, deadline, answer } => self.waiting.push((claim, deadline, answer)),
                Asked::Ask { job, command, children, answer } => {
                    self.check_ask(job, &command, &children, &answered(answer), &group);
                }
                Asked::Each { asks, answer } => {
                    let answers = answered(answer).expect("each has its own answer");
                    for ((job, command), answer) in asks.iter().zip(answers) {
                        self.check_reply(*job, command, &answer);
                    }
                }
                Asked::Configure { queue, settings, answer } => {
                    self.check_configured(&queue, &settings, answered(answer));
                }
                Asked::Clear { queue, answer } | Asked::RemoveQueue { queue, answer } => {
                    self.clearing.push((queue, answer));
                }
                Asked::Plugin { name, answer, .. } => self.check_plugin(&name, answered(answer)),
                Asked::Schedule { answer, .. } => match answered(answer) {
                    Ok(()) | Err(Error::Refused(_)) => {}
                    Err(error) => panic!("{error}"),
                },
                Asked::Bulk { ask, answer } => self.check_bulk(&ask, answer),
                Asked::Webhook { answer, .. } => match answered(answer) {
                    Ok(()) | Err(Error::Refused(Refusal::NotFound { .. } | Refusal::Exists { .. })) => {}
                    Err(error) => panic!("{error}"),
                },
                Asked::Pause { paused, answer } => {
                    answered(answer).expect("never refused");
                    assert_eq!(self.model.paused.is_some(), paused, "an acknowledged pause or resume is stored");
                    assert_eq!(*self.channels.paused.borrow(), self.model.paused, "and published");
                }
                Asked::Log => {}
            }
        }
        self.take_assignments();
    }

    fn check_all_stored(&self, jobs: &[NewJob], stored: &[Enqueued]) {
        assert_eq!(stored.len(), jobs.len());
        for (job, stored) in jobs.iter().zip(stored) {
            self.check_stored(job, stored.id, stored.duplicate);
        }
    }

    fn check_made(&self, jobs: &[NewJob], made: &BatchMade) {
        self.check_all_stored(jobs, &made.jobs);
        // A batch that no new job joined and that has no callback may be gone already: nothing is left for it to do.
        let known = self.model.flows.batches.contains_key(&made.id);
        let empty = made.jobs.iter().all(|job| job.duplicate);
        assert!(known || empty, "{} is not stored", made.id);
    }

    fn check_sealed(&self, batch: &str, answer: Result<Batch, Error>) {
        match answer {
            Ok(sealed) => assert!(sealed.sealed_at.is_some() && sealed.id == batch, "{sealed:?} should be sealed"),
            Err(Error::Refused(Refusal::NotFound { .. })) => {
                assert!(!self.model.flows.batches.contains_key(batch), "{batch} exists");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn check_ask(
        &self,
        job: JobId,
        command: &Command,
        children: &[NewJob],
        answer: &Result<Reply, Error>,
        group: &[(JobId, Command)],
    ) {
        if let Err(error @ Error::Refused(Refusal::Invalid { field, .. })) = answer
            && !["wait", "queue"].contains(field)
            && !matches!(command, Command::Edit(_))
        {
            self.check_refused(children, error);
            return;
        }
        self.check_reply(job, command, answer);
        if matches!(answer, Ok(reply) if !matches!(reply, Reply::Unchanged | Reply::Removed)) {
            self.check_children(job, children);
            self.check_notes(job, command, group);
        }
    }

    fn check_configured(&self, queue: &QueueName, settings: &Settings, answer: Result<Settings, Error>) {
        match answer {
            Ok(stored) => {
                assert_eq!(stored, *settings);
                assert_eq!(self.model.queues[queue].settings, *settings, "acknowledged settings are stored");
            }
            Err(Error::Refused(Refusal::InUse { .. } | Refusal::Invalid { field: "gate", .. })) => {
                assert!(self.gates_matter(queue, settings), "{settings:?} of {queue} were refused");
            }
            Err(error) => panic!("{settings:?} of {queue}: {error}"),
        }
    }

    fn check_plugin(&self, name: &Name, answer: Result<Option<Plugin>, Error>) {
        match answer {
            Ok(answered) => {
                // A canary may be counted within the same group, after the answer was made.
                let lasting = |plugin: &Plugin| (plugin.queues.clone(), plugin.versions.clone());
                let stored = self.model.plugins.get(name).map(lasting);
                assert_eq!(answered.as_ref().map(lasting), stored, "an acknowledged change of {name} is stored");
            }
            Err(Error::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Jobs are refused only for their batch, parent or dependencies, and then none of them is stored.
    fn check_refused(&self, jobs: &[NewJob], error: &Error) {
        let tied = jobs.iter().any(|job| job.batch_id.is_some() || job.parent.is_some() || !job.depends_on.is_empty());
        let Error::Refused(Refusal::Invalid { field: "batch_id" | "depends_on" | "parent_id", .. }) = error else {
            panic!("{jobs:?} are refused: {error}");
        };
        assert!(tied, "{jobs:?} are tied to nothing: {error}");
        for job in jobs {
            let label = job.created_by.as_ref().expect("every job has a label");
            assert!(!self.model.stored.contains_key(label), "{job:?} was refused ({error}) and is stored");
        }
    }

    fn check_stored(&self, job: &NewJob, id: JobId, duplicate: bool) {
        if duplicate {
            assert!(job.unique.is_some() || job.id.is_some(), "{job:?} is no duplicate");
            return;
        }
        // It may have been removed again within the group.
        let gone = !self.model.jobs.contains_key(&id) && self.model.seen.contains_key(&id);
        let label = job.created_by.as_ref().expect("every job has a label");
        assert!(gone || self.model.stored.get(label) == Some(&id), "{id} was acknowledged and is not stored");
    }

    /// Children are stored in the same commit as the report they came with.
    fn check_children(&self, parent: JobId, children: &[NewJob]) {
        for child in children {
            let id = child.id.expect("a child's id is derived");
            let known =
                self.model.jobs.contains_key(&id) || self.model.seen.contains_key(&id) || child.unique.is_some();
            assert!(known, "child {id} of {parent} was acknowledged and is not stored");
        }
    }

    /// Whether settings may be refused because of rounds.
    fn gates_matter(&self, queue: &QueueName, settings: &Settings) -> bool {
        let was = self.model.queues.get(queue).is_some_and(|queue| queue.settings.rounds);
        settings.rounds != was || settings.gate.is_some()
    }

    /// A job with a round does not wait for its children, and one that does gets no round.
    fn check_no_wait(&self, id: JobId, command: &Command) {
        // One that was removed within the group could have been anything before.
        let Some(job) = self.model.jobs.get(&id).filter(|_| !self.model.seen.contains_key(&id)) else { return };
        match command {
            Command::Wait(_) => assert!(job.round.is_some() || job.unseen, "{job:?} can wait for its children"),
            Command::Move(Move { queue, .. }) => {
                let rounds = self.model.queues.get(queue).is_some_and(|queue| queue.settings.rounds);
                assert!(rounds && job.state == State::Blocked, "{job:?} can be moved to {queue}");
            }
            other => panic!("{other:?} of {job:?} is refused"),
        }
    }

    /// Records that were acknowledged are stored, unless another command of the group touched them.
    fn check_notes(&self, id: JobId, command: &Command, group: &[(JobId, Command)]) {
        let Some(notes) = notes_of(command) else { return };
        let (Some(job), Some(queue)) = (self.model.jobs.get(&id), self.model.jobs.get(&id).map(|job| &job.queue))
        else {
            return;
        };
        let moved = group.iter().filter(|(other, _)| *other == id).count() > 1 || job.removing.is_some();
        let Some(queue) = self.model.queues.get(queue).map(|queue| queue.id).filter(|_| !moved) else { return };
        for (index, record) in notes.records.iter().enumerate() {
            let again = notes.records[index + 1..].iter().any(|later| later.key == record.key);
            let by_others = group.iter().filter(|(other, _)| *other != id).filter_map(|(_, other)| notes_of(other));
            let mut by_others = by_others.flat_map(|notes| &notes.records);
            if again || by_others.any(|other| other.key == record.key) {
                continue;
            }
            let stored = self.model.records.get(&(queue, record.key.clone()));
            let value = stored.map(|stored| (&stored.value, stored.job));
            assert_eq!(value, Some((&record.value, id)), "{record:?} was acknowledged and is not stored");
        }
    }

    fn check_reply(&self, id: JobId, command: &Command, answer: &Result<Reply, Error>) {
        let now = self.model.jobs.get(&id).map(|job| job.state);
        let states: Vec<State> = self.model.seen.get(&id).cloned().unwrap_or_else(|| now.into_iter().collect());
        match answer {
            Ok(reply) => {
                let could = states.iter().any(|state| allowed(command, *state));
                // The ack that ended an iteration of an agent, sent again.
                let again = matches!((command, reply), (Command::Complete(_), Reply::Unchanged));
                assert!(could || again, "{command:?} of {id} was accepted ({reply:?}), though it was only {states:?}");
                if let (Reply::Now { state, .. }, false) = (reply, states.is_empty()) {
                    assert!(
                        states.contains(state),
                        "{command:?} of {id} answered {reply:?}, and it was only {states:?}"
                    );
                }
            }
            Err(Error::Refused(Refusal::WrongState { state, .. })) => {
                assert!(states.contains(state), "{id} was never {state:?}, only {states:?}");
                assert!(!allowed(command, *state), "{command:?} of {id} can be done when {state:?}");
            }
            Err(Error::Refused(Refusal::NotActive { .. })) => {
                // With the token of the running attempt, and with no other change in the group, it must be accepted.
                let calm = states == [State::Active] && !self.model.seen.contains_key(&id);
                let own = self.model.jobs.get(&id).and_then(|job| job.token);
                let said = match command {
                    Command::Complete(Complete { holder, .. })
                    | Command::Fail(Fail { holder, .. })
                    | Command::HandBack(HandBack { holder, .. })
                    | Command::Wait(Wait { holder, .. })
                    | Command::Heartbeat(Heartbeat { holder, .. }) => *holder,
                    other => panic!("{other:?} does not come from an attempt"),
                };
                let right = matches!((said, own), (Holder::Token(said), Some(own)) if said == own);
                assert!(!(calm && right), "{command:?} of {id} comes from its running attempt");
            }
            Err(Error::Refused(Refusal::NotFound { .. })) => {
                let gone = now.is_none() || states.len() > 1;
                assert!(gone, "{id} exists: {states:?}");
            }
            Err(Error::Refused(Refusal::Locked { .. })) => {
                let comes_back = matches!(
                    command,
                    Command::Retry | Command::RetryWith { .. } | Command::Rebuild | Command::Requeue | Command::Move(_)
                );
                assert!(comes_back, "{command:?} needs no lock");
            }
            Err(Error::Refused(Refusal::Invalid { field: "wait" | "queue", .. })) => self.check_no_wait(id, command),
            Err(Error::Refused(Refusal::Invalid { field, .. })) => {
                check_no_edit(command, field, &states);
            }
            Err(error) => panic!("{command:?} of {id}: {error}"),
        }
    }

    /// Takes the jobs that waiting callers were given.
    pub fn take_assignments(&mut self) {
        let mut still = Vec::new();
        for (claim, deadline, mut answer) in std::mem::take(&mut self.waiting) {
            match answer.try_recv() {
                Ok(Ok(got)) => {
                    assert!(got.len() <= claim.count, "more than {claim:?} wanted");
                    assert!(!got.is_empty() || deadline <= self.now, "{claim:?} had time until {deadline}");
                    for Assignment { job, token, .. } in got {
                        self.model.delivered.insert((job.id, token.fence));
                        self.held.push((job.id, token));
                    }
                }
                Ok(Err(error)) => panic!("{claim:?}: {error}"),
                Err(_) => {
                    assert!(deadline > self.now, "{claim:?} should have been answered at {deadline}");
                    still.push((claim, deadline, answer));
                }
            }
        }
        self.waiting = still;
        if self.held.len() > 60 {
            self.held.drain(..20);
        }
        self.clearing.retain_mut(|(_, answer)| answer.try_recv().is_err());
        let clearing = &self.clearing;
        self.model.clearing.retain(|name| clearing.iter().any(|(queue, _)| queue == name));
    }

    /// Once the engine has nothing more to do, no claim waits although a job could start.
    pub fn check_waiting(&self) {
        assert!(self.clearing.is_empty(), "a queue is never done being cleared");
        if self.model.paused.is_some() {
            return;
        }
        for (claim, ..) in &self.waiting {
            let startable = self.model.startable(claim, self.now);
            assert!(
                startable.is_none(),
                "{claim:?} waits, although {startable:?} could start: {:?}",
                startable.map(|id| &self.model.jobs[&id])
            );
        }
    }
}

/// The answer, which must have arrived by now.
fn answered<T>(mut answer: Receiver<T>) -> Result<T, Error> {
    answer.try_recv().expect("an answer")
}

/// The commit failed: nothing of it may have been acknowledged.
pub fn assert_unacknowledged(asked: Asked) {
    fn check<T>(mut answer: Receiver<T>) {
        assert!(!matches!(answer.try_recv(), Ok(Ok(_))), "it was acknowledged, and never committed");
    }
    match asked {
        Asked::Enqueue { answer, .. } => check(answer),
        Asked::MakeBatch { answer, .. } => check(answer),
        Asked::Seal { answer, .. } => check(answer),
        Asked::Claim { answer, .. } => check(answer),
        Asked::Ask { answer, .. } => check(answer),
        Asked::Each { answer, .. } => check(answer),
        Asked::Configure { answer, .. } => check(answer),
        Asked::Clear { answer, .. } | Asked::RemoveQueue { answer, .. } => check(answer),
        Asked::Plugin { answer, .. } => check(answer),
        Asked::Schedule { answer, .. } | Asked::Webhook { answer, .. } | Asked::Pause { answer, .. } => check(answer),
        Asked::Bulk { answer, .. } => check(answer),
        Asked::Log => {}
    }
}

/// A time is refused of a job that has none of its own, and fewer attempts than have failed.
fn check_no_edit(command: &Command, field: &str, states: &[State]) {
    let Command::Edit(edit) = command else { panic!("{command:?} is refused for its {field}") };
    let refused = match field {
        "scheduled_at" => {
            let none = states.iter().any(|state| matches!(state, State::Held | State::Blocked));
            edit.scheduled_at.is_some() && none
        }
        "max_attempts" => edit.max_attempts.is_some(),
        _ => false,
    };
    assert!(refused, "{edit:?} is refused for its {field}, and the job was {states:?}");
}

fn notes_of(command: &Command) -> Option<&Notes> {
    match command {
        Command::Complete(Complete { notes, .. })
        | Command::Wait(Wait { notes, .. })
        | Command::Heartbeat(Heartbeat { notes, .. }) => notes.as_deref(),
        _ => None,
    }
}

/// Whether a command can be carried out on a job in this state.
pub fn allowed(command: &Command, state: State) -> bool {
    match command {
        Command::Complete(_) => matches!(state, State::Active | State::Completed | State::Cancelled),
        Command::Fail(_) | Command::HandBack(_) | Command::Heartbeat(_) => state == State::Active,
        // Sent again by the attempt that began to wait, it changes nothing.
        Command::Wait(_) => true,
        Command::Cancel { .. } => !state.is_ended(),
        Command::Retry | Command::RetryWith { .. } | Command::Rebuild => state.is_ended(),
        Command::RunNow => matches!(state, State::Scheduled | State::Retrying),
        Command::Edit(_) => !state.is_ended() && state != State::Active,
        Command::Requeue => state == State::Dead,
        Command::Move(_) => state != State::Active,
        Command::Reprioritise { .. } => !state.is_ended() && state != State::Active,
        Command::Hold { .. } => {
            matches!(state, State::Scheduled | State::Pending | State::Retrying | State::Active)
        }
        Command::Approve | Command::Reject { .. } => state == State::Held,
        Command::Delete | Command::Swap { .. } => true,
        Command::Enqueue(_)
        | Command::Start { .. }
        | Command::Due
        | Command::Expire
        | Command::DependencyEnded { .. }
        | Command::RoundStarted
        | Command::RemoveSubtree
        | Command::SubtreeRemoved
        | Command::Joined
        | Command::ChildFailed { .. }
        | Command::Watch { .. }
        | Command::Crash => false,
    }
}
