//! Answers and events, sent once a group is durable. Nothing is sent that a power cut could undo.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};
use windlass_core::{Effect, JobId, Time, Token};

use crate::disk::DiskError;
use crate::engine::failure::Failure;
use crate::engine::requests::operation::Answer;
use crate::{Assignment, Error, EventRecord, LogRecord};

/// Where the engine publishes what has happened. It outlives the engine, which is rebuilt after a failure.
#[derive(Clone)]
pub struct Channels {
    pub events: broadcast::Sender<Arc<EventRecord>>,
    pub logs: broadcast::Sender<Arc<LogRecord>>,
    pub effects: mpsc::UnboundedSender<Effect>,
    /// Since when everything is paused.
    pub paused: watch::Sender<Option<Time>>,
}

/// The answers, assignments, events and effects of a group.
#[derive(Default)]
pub struct Release {
    /// Each sends its answer, or the error of the commit that failed.
    answers: Vec<Box<dyn FnOnce(Option<Error>) + Send>>,
    claims: Vec<(Answer<Vec<Assignment>>, Vec<Assignment>)>,
    events: Vec<Arc<EventRecord>>,
    effects: Vec<Effect>,
    /// Attempts that have ended. Until that is durable they count as running: if the commit fails, their runner reports
    /// again.
    ended: Vec<(JobId, Token)>,
    /// Since when everything is paused, if that has changed.
    paused: Option<Option<Time>>,
    /// How the last operation came out: why it was refused, if it was.
    outcome: Option<Option<String>>,
}

/// What the engine follows up after a release.
pub struct Released {
    /// Claims whose callers have disconnected.
    pub undelivered: Vec<Assignment>,
    pub ended: Vec<(JobId, Token)>,
}

impl Release {
    pub fn push<T: Send + 'static>(&mut self, answer: Answer<T>, value: Result<T, Error>) {
        self.outcome = Some(value.as_ref().err().map(ToString::to_string));
        self.answers.push(Box::new(move |failed| drop(answer.send(failed.map_or(value, Err)))));
    }

    /// The outcome of an operation: an answer or a refusal, which wait for the commit. If the disk has failed there
    /// will be no commit, and the caller gets the error at once.
    pub fn settle<T: Send + 'static>(&mut self, answer: Answer<T>, done: Result<T, Failure>) -> Result<(), DiskError> {
        match done {
            Ok(value) => self.push(answer, Ok(value)),
            Err(Failure::Refused(error)) => self.push(answer, Err(error)),
            Err(Failure::Disk(error)) => {
                let _ = answer.send(Err(error.clone().into()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// How the last operation came out; none while its answer is still to come.
    pub(crate) fn take_outcome(&mut self) -> Option<Option<String>> {
        self.outcome.take()
    }

    pub fn assign(&mut self, answer: Answer<Vec<Assignment>>, assignments: Vec<Assignment>) {
        self.claims.push((answer, assignments));
    }

    pub fn show(&mut self, events: impl IntoIterator<Item = Arc<EventRecord>>) {
        self.events.extend(events);
    }

    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>) {
        self.effects.extend(effects);
    }

    pub(crate) fn end_attempt(&mut self, job: JobId, token: Token) {
        self.ended.push((job, token));
    }

    pub fn set_paused(&mut self, since: Option<Time>) {
        self.paused = Some(since);
    }

    /// The group is durable: sends everything.
    pub fn send(&mut self, channels: &Channels) -> Released {
        if let Some(paused) = self.paused.take() {
            channels.paused.send_if_modified(|shown| std::mem::replace(shown, paused) != paused);
        }
        for event in self.events.drain(..) {
            // Nobody may be listening, here and below.
            let _ = channels.events.send(event);
        }
        for effect in self.effects.drain(..) {
            let _ = channels.effects.send(effect);
        }
        for send in self.answers.drain(..) {
            send(None);
        }
        let undelivered = |(answer, got): (Answer<Vec<Assignment>>, _)| answer.send(Ok(got)).err()?.ok();
        let undelivered = self.claims.drain(..).filter_map(undelivered).flatten().collect();
        Released { undelivered, ended: std::mem::take(&mut self.ended) }
    }

    /// The commit failed, and whether it was stored is not known. Returns the claims that were not answered.
    pub fn fail(&mut self, error: &Error) -> Vec<Assignment> {
        for send in self.answers.drain(..) {
            send(Some(error.clone()));
        }
        let mut unheard = Vec::new();
        for (answer, assignments) in self.claims.drain(..) {
            unheard.extend(assignments);
            let _ = answer.send(Err(error.clone()));
        }
        unheard
    }
}
