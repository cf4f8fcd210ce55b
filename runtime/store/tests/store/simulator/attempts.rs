//! What attempts report: by the one that holds its job mostly, sometimes by one that lost it.

use std::time::Duration;

use windlass_core::flow::OnFailure;
use windlass_core::{
    AgentStatus, Checkpoint, Closing, Command, Complete, Fail, Failure, HandBack, Heartbeat, Holder, JobId, ModelUsage,
    NewJob, NewMark, NewRecord, Notes, Progress, Retry, Token, Usage, Wait,
};

use super::commands::{Asked, KEYS, Request, body, queue};
use super::world::World;
use crate::rng::Rng;

impl World {
    /// A report of an attempt, which may have lost its job.
    pub fn attempt_command(&mut self) -> (Request, Asked) {
        if self.rng.chance(30)
            && let Some((job, token)) = self.crashed_before()
        {
            let checkpoint = Checkpoint { body: body(&mut self.rng), schema: 0, usage: Usage::default() };
            let holder = Holder::Token(token);
            let saved = Command::Heartbeat(Heartbeat { checkpoint: Some(checkpoint), ..Heartbeat::by(holder) });
            return self.ask(job, saved, Vec::new());
        }
        let (job, holder) = self.reporter();
        let notes = if self.rng.chance(25) { self.notes() } else { None };
        let walks = self.walks && self.rng.chance(50);
        let choice = if walks { 0 } else { self.rng.below(100) };
        let command = report(&mut self.rng, choice, holder, notes);
        let children = self.children(job, &command);
        self.ask(job, command, children)
    }

    /// What the attempt spawns along with its report.
    fn children(&mut self, parent: JobId, command: &Command) -> Vec<NewJob> {
        let waits = matches!(command, Command::Wait(_));
        let spawns =
            matches!(command, Command::Complete(_) | Command::Heartbeat(Heartbeat { checkpoint: Some(_), .. }));
        let mut children = Vec::new();
        let in_rounds = self.model.jobs.get(&parent).is_some_and(|job| job.round.is_some());
        let few = self.model.jobs.values().filter(|job| !job.state.is_ended()).count() < 40;
        let spawning = if in_rounds && few { 75 } else { 20 };
        if (waits && self.rng.chance(90)) || (spawns && self.rng.chance(spawning)) {
            let committed = self.model.jobs.get(&parent).map_or(0, |job| job.children);
            for ordinal in committed..committed + 1 + self.rng.below(2) as u32 {
                let mut child = self.new_job();
                if let Some(parent) = self.model.jobs.get(&parent).filter(|job| job.round.is_some())
                    && self.rng.chance(60)
                {
                    child.queue = Some(parent.queue.clone());
                    child.chain = None;
                }
                child.id = Some(JobId::child(parent, ordinal));
                child.parent = Some(parent);
                children.push(child);
            }
        }
        children
    }

    /// The attempt of a job that an earlier process died under: a checkpoint of it also sets its crashes back.
    fn crashed_before(&mut self) -> Option<(JobId, Token)> {
        let crashed = |job: &super::model::ModelJob| job.token.filter(|_| job.tries.crashes > Some(0));
        let found: Vec<_> = self.model.jobs.iter().filter_map(|(id, job)| Some((*id, crashed(job)?))).collect();
        self.rng.pick(&found).copied()
    }

    /// A job and a token for it: the right one mostly, sometimes a stale one, a wrong one, or none.
    fn reporter(&mut self) -> (JobId, Holder) {
        let wrong = Token { fence: 1, secret: 77 };
        if self.rng.chance(85)
            && let Some((job, token)) = self.rng.pick(&self.held).copied()
        {
            let holder = match self.rng.below(10) {
                0..7 => Holder::Token(token),
                7..9 => Holder::Unsigned,
                _ => Holder::Token(wrong),
            };
            return (job, holder);
        }
        (self.some_job(), if self.rng.chance(50) { Holder::Unsigned } else { Holder::Token(wrong) })
    }

    /// Few keys, so that jobs overwrite each other's records; no value comes twice.
    fn notes(&mut self) -> Option<Box<Notes>> {
        let mut records = Vec::new();
        for _ in 0..self.rng.below(3) {
            self.made += 1;
            let value = self.made.to_be_bytes().to_vec();
            records.push(NewRecord { key: (*self.rng.pick(&KEYS).expect("there are keys")).to_owned(), value });
        }
        let rng = &mut self.rng;
        let mark = |rng: &mut Rng| NewMark {
            queue: queue(rng),
            key: (*rng.pick(&KEYS).expect("there are keys")).to_owned(),
            mark: rng.maybe(70, |_| "newer".to_owned()),
        };
        let marks = (0..rng.below(3)).map(|_| mark(rng)).collect();
        Notes::new(records, marks)
    }
}

fn report(rng: &mut Rng, choice: u64, holder: Holder, notes: Option<Box<Notes>>) -> Command {
    match choice {
        0..40 => Command::Complete(Complete {
            holder,
            result: rng.maybe(60, body),
            usage: Usage::default(),
            closing: closing(rng),
            notes,
        }),
        40..62 => {
            let retry = match rng.below(10) {
                0..6 => Retry::Backoff,
                6..9 => Retry::After(Duration::from_millis(rng.below(5_000))),
                _ => Retry::Never,
            };
            let failure = Failure { error: "it broke".into(), backtrace: None, retry };
            Command::Fail(Fail { holder, failure, usage: Usage::default() })
        }
        62..66 => Command::Wait(Wait {
            holder,
            on_child_failure: OnFailure::ALL[rng.below(3) as usize],
            checkpoint: rng.maybe(30, |rng| Checkpoint { body: body(rng), schema: 0, usage: usage(rng) }),
            usage: usage(rng),
            notes,
        }),
        66..72 => Command::HandBack(HandBack { holder, reason: "handed back".into(), usage: usage(rng) }),
        _ => {
            let checkpoint =
                rng.maybe(30, |rng| Checkpoint { body: body(rng), schema: rng.below(3) as u32, usage: usage(rng) });
            let percent = |rng: &mut Rng| Progress { percent: Some(rng.below(100) as f64), ..Progress::default() };
            let notes = notes.filter(|_| checkpoint.is_some());
            Command::Heartbeat(Heartbeat { holder, progress: rng.maybe(60, percent), checkpoint, spent: None, notes })
        }
    }
}

fn usage(rng: &mut Rng) -> Usage {
    Usage { wall_ms: rng.below(3), ..Usage::default() }
}

/// What an agent reports besides its result; most attempts report nothing.
fn closing(rng: &mut Rng) -> Option<Box<Closing>> {
    let agent = match rng.below(100) {
        0..8 => AgentStatus::Continue,
        8..12 => AgentStatus::Hold,
        12..14 => AgentStatus::Done,
        _ => return None,
    };
    let checkpoint = rng.maybe(50, |rng| Checkpoint { body: body(rng), schema: 1, usage: usage(rng) });
    let spent = Some(ModelUsage { input_tokens: 10, cost_usd: 0.25, ..ModelUsage::default() });
    Some(Box::new(Closing { agent: Some(agent), checkpoint, spent, ..Closing::default() }))
}
