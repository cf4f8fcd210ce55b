//! What may have caused the events of a group: what was asked in it, who claimed, and whether the engine was rebuilt.

use windlass_core::{Command, Holder, JobId, Name, QueueName, Settings};
use windlass_store::{Claim, WebhookChange};

use super::bulks::BulkAsk;
use super::model::ModelJob;

/// What may have caused the events of a group.
#[derive(Default)]
pub struct Causes {
    pub commands: Vec<(JobId, Command)>,
    pub claims: Vec<Claim>,
    /// A batch was asked for.
    pub batches: bool,
    pub sealed: Vec<String>,
    pub runs_now: bool,
    /// The schedule that somebody changed, or ran by hand.
    pub changed_schedule: Option<Name>,
    pub configured: Option<(QueueName, Settings)>,
    pub bulk: Option<BulkAsk>,
    pub webhook: Option<WebhookChange>,
    /// Everything was paused (true) or resumed.
    pub paused: Option<bool>,
    /// The engine was rebuilt; true when the process was, too.
    pub rebuilt: Option<bool>,
}

impl Causes {
    pub fn asked(&self, id: JobId, what: impl Fn(&Command) -> bool) -> bool {
        self.commands.iter().any(|(job, command)| *job == id && what(command))
    }

    /// A command may have changed its place in its lane, at a moment within the group that no event shows.
    pub fn reordered(&self, id: JobId) -> bool {
        self.asked(id, |command| {
            let priority = matches!(command, Command::Edit(edit) if edit.priority.is_some());
            priority || matches!(command, Command::Reprioritise { .. } | Command::Move(_))
        })
    }

    /// Somebody gave it another time, or none.
    pub fn given_time(&self, id: JobId) -> bool {
        self.asked(id, |command| {
            let time = matches!(command, Command::Edit(edit) if edit.scheduled_at.is_some());
            time || matches!(command, Command::RunNow)
        })
    }

    pub fn reprioritised(&self, id: JobId) -> usize {
        let reprioritise = |command: &Command| match command {
            Command::Reprioritise { .. } => true,
            Command::Edit(edit) => edit.priority.is_some(),
            _ => false,
        };
        self.commands.iter().filter(|(job, command)| *job == id && reprioritise(command)).count()
    }

    pub fn holder(&self, id: JobId, job: &ModelJob, what: impl Fn(&Command) -> Option<Holder>) -> bool {
        self.commands.iter().filter(|(other, _)| *other == id).any(|(_, command)| match what(command) {
            Some(Holder::Token(token)) => job.token.is_none_or(|own| own == token),
            Some(Holder::Unsigned) => !job.local,
            None => false,
        })
    }
}
