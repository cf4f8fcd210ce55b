//! Rounds and gates: a queue that runs level by level, and how far it may be ahead of another.
//!
//! A round is a few numbers that follow the moves of its jobs, as a batch's do. Which round a queue is at, and which
//! may run, follows from these numbers and from where the queues are that its gates name: nothing is remembered that
//! could be wrong after a crash.

#[cfg(test)]
mod tests;

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::flow::Tally;
use crate::{QueueName, Refusal, Settings};

/// The jobs of one round of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub tally: Tally,
    /// Open jobs that wait for nothing but the round.
    pub waiting: u64,
    /// Work is noted that makes those pending.
    pub opening: bool,
}

/// How far a queue may be ahead of another, set on the one that is behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The queue that is ahead.
    pub queue: QueueName,
    /// Round r starts when the other is at round r + `lead`, or has completed.
    pub lead: u32,
    /// The other's round s starts when this one is at round s - `max_lead`, or has completed.
    pub max_lead: Option<u32>,
}

impl Gate {
    /// The queue on the other side of this gate, which is set on `behind`; none if `queue` is on neither side.
    pub fn other_side<'a>(&'a self, behind: &'a QueueName, queue: &QueueName) -> Option<&'a QueueName> {
        match (behind == queue, self.queue == *queue) {
            (true, _) => Some(&self.queue),
            (_, true) => Some(behind),
            (false, false) => None,
        }
    }
}

/// Where a queue with rounds is: stored beside its rounds, so that they need not be searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundsState {
    /// It has had a job.
    pub began: bool,
    /// The lowest round with a job that has not ended.
    pub current: Option<u32>,
    /// The same, if an event has reported its start and none its end.
    pub running: Option<u32>,
}

/// What a gate sees of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// It never had a job: it counts as at round 0.
    Idle,
    At(u32),
    /// It had jobs, and all of them have ended.
    Completed,
}

impl Position {
    /// The round it counts as being at; none when it is past all of them.
    fn round(self) -> Option<u32> {
        match self {
            Position::Idle => Some(0),
            Position::At(round) => Some(round),
            Position::Completed => None,
        }
    }
}

/// The state of a queue with rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundsPhase {
    Idle,
    /// It has open jobs, and a gate does not let their round start.
    Waiting,
    Running,
    Completed,
}

impl RoundsPhase {
    pub const WORDS: [&'static str; 4] = ["idle", "waiting", "running", "completed"];

    pub fn as_str(self) -> &'static str {
        match self {
            RoundsPhase::Idle => "idle",
            RoundsPhase::Waiting => "waiting",
            RoundsPhase::Running => "running",
            RoundsPhase::Completed => "completed",
        }
    }
}

impl RoundsState {
    /// Where the queue is now, by its lowest open round and the highest that may run. Answers which round has ended
    /// (true) and which has started (false) since it was last asked; one that is only interrupted has not ended.
    pub fn step(
        &mut self,
        current: Option<u32>,
        upto: Option<u32>,
        is_open: impl Fn(u32) -> bool,
    ) -> [Option<(u32, bool)>; 2] {
        let running = current.filter(|round| upto.is_some_and(|upto| *round <= upto));
        let was = core::mem::replace(&mut self.running, running);
        self.current = current;
        if running == was {
            return [None, None];
        }
        [was.filter(|round| !is_open(*round)).map(|round| (round, true)), running.map(|round| (round, false))]
    }

    pub fn position(&self) -> Position {
        match (self.current, self.began) {
            (Some(round), _) => Position::At(round),
            (None, true) => Position::Completed,
            (None, false) => Position::Idle,
        }
    }

    pub fn phase(&self) -> RoundsPhase {
        match self.position() {
            Position::Idle => RoundsPhase::Idle,
            Position::Completed => RoundsPhase::Completed,
            Position::At(_) if self.running.is_some() => RoundsPhase::Running,
            Position::At(_) => RoundsPhase::Waiting,
        }
    }
}

/// Something that lets a queue's rounds start up to one of them, or none at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    upto: Option<u32>,
    by: By,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// A lower round of the same queue.
    Lower(u32),
    /// Its own gate: the other must be further.
    Lead { queue: QueueName, at: u32, lead: u32 },
    /// A gate that names it: the other must catch up.
    MaxLead { queue: QueueName, at: u32, max_lead: u32 },
}

impl Bound {
    /// The lowest open round of the queue itself.
    pub fn lower(current: u32) -> Bound {
        Bound { upto: Some(current), by: By::Lower(current) }
    }

    /// The queue's own gate, and where the other queue is.
    pub fn lead(gate: &Gate, other: Position) -> Option<Bound> {
        let at = other.round()?;
        Some(Bound { upto: at.checked_sub(gate.lead), by: By::Lead { queue: gate.queue.clone(), at, lead: gate.lead } })
    }

    /// The gate of a queue behind, which names this one.
    pub fn max_lead(behind: &QueueName, gate: &Gate, other: Position) -> Option<Bound> {
        let (max_lead, at) = (gate.max_lead?, other.round()?);
        Some(Bound { upto: Some(at.saturating_add(max_lead)), by: By::MaxLead { queue: behind.clone(), at, max_lead } })
    }

    pub fn admits(&self, round: u32) -> bool {
        self.upto.is_some_and(|upto| round <= upto)
    }

    /// The highest round that all of them let run; none when they let none.
    pub fn upto<'a>(bounds: impl IntoIterator<Item = &'a Bound>) -> Option<u32> {
        bounds.into_iter().try_fold(u32::MAX, |upto, bound| Some(upto.min(bound.upto?)))
    }

    /// What a round waits for, as a sentence.
    pub fn words(&self, round: u32) -> impl fmt::Display + '_ {
        Words { bound: self, round }
    }
}

struct Words<'a> {
    bound: &'a Bound,
    round: u32,
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let round = self.round;
        match &self.bound.by {
            By::Lower(current) => write!(f, "round {round} waits for round {current} to end"),
            By::Lead { queue, at, lead } => {
                let wanted = round.saturating_add(*lead);
                write!(f, "round {round} waits until queue `{queue}` is at round {wanted}; it is at {at}")
            }
            By::MaxLead { queue, at, max_lead } => {
                let wanted = round.saturating_sub(*max_lead);
                write!(f, "round {round} waits until queue `{queue}` is at round {wanted}; it is at {at}")
            }
        }
    }
}

/// What the rules know of the rounds of a job's queue, when that has rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundFacts {
    /// The highest round that may run now.
    pub upto: Option<u32>,
    /// For a new job: the round of its parent.
    pub parent: Option<u32>,
}

impl RoundFacts {
    /// The round of a new job.
    pub(crate) fn of_new(&self) -> u32 {
        self.parent.map_or(0, |parent| parent.saturating_add(1))
    }

    pub fn admits(&self, round: u32) -> bool {
        self.upto.is_some_and(|upto| round <= upto)
    }
}

/// What happened to a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundEvent {
    pub round: u32,
    /// It has started, or has ended.
    pub ended: bool,
    pub total: u64,
    pub open: u64,
    pub completed: u64,
    pub dead: u64,
    pub cancelled: u64,
}

impl RoundEvent {
    pub fn new(round: u32, ended: bool, numbers: &Round) -> RoundEvent {
        let Tally { total, open, completed, dead, cancelled, .. } = numbers.tally;
        RoundEvent { round, ended, total, open, completed, dead, cancelled }
    }

    pub fn as_str(&self) -> &'static str {
        if self.ended { "round.ended" } else { "round.started" }
    }
}

/// What is looked at when somebody changes whether a queue has rounds, or its gate.
pub struct GateCheck<'a> {
    pub queue: &'a QueueName,
    pub was: &'a Settings,
    pub new: &'a Settings,
    /// Its jobs that have not ended.
    pub open: u64,
    /// Queues whose gates name it.
    pub gated_by: &'a [QueueName],
}

impl GateCheck<'_> {
    /// `settings` finds those of another queue.
    pub fn check<'s>(&self, settings: impl Fn(&QueueName) -> Option<&'s Settings>) -> Result<(), Refusal> {
        if self.new.rounds != self.was.rounds && self.open > 0 {
            let used_by =
                format!("{} of its jobs have not ended, and rounds are turned on or off when all have", self.open);
            return Err(Refusal::InUse { what: "queue".into(), name: self.queue.to_string(), used_by });
        }
        if !self.new.rounds {
            named_by_gates(self.queue, self.gated_by)?;
        }
        let Some(gate) = &self.new.gate else { return Ok(()) };
        if !self.new.rounds {
            return Err(Refusal::invalid("gate", "a gate is for a queue with rounds; send `rounds: true` as well"));
        }
        if gate.queue == *self.queue {
            return Err(Refusal::invalid("gate", format!("it names another queue, and `{}` is the same", gate.queue)));
        }
        if gate.max_lead.is_some_and(|most| most < gate.lead) {
            let why = format!("`max_lead` is at least `lead`, which is {}: otherwise both would wait", gate.lead);
            return Err(Refusal::invalid("gate", why));
        }
        if settings(&gate.queue).is_none_or(|settings| !settings.rounds) {
            let why = format!("queue `{}` has no rounds; turn them on there first", gate.queue);
            return Err(Refusal::invalid("gate", why));
        }
        self.check_circle(gate, settings)
    }

    fn check_circle<'s>(
        &self,
        gate: &Gate,
        settings: impl Fn(&QueueName) -> Option<&'s Settings>,
    ) -> Result<(), Refusal> {
        let mut path = vec![self.queue.to_string(), gate.queue.to_string()];
        let mut next = settings(&gate.queue).and_then(|settings| settings.gate.as_ref());
        while let Some(gate) = next {
            path.push(gate.queue.to_string());
            if gate.queue == *self.queue {
                let why = format!("these would wait for each other in a circle: {}", path.join(" → "));
                return Err(Refusal::invalid("gate", why));
            }
            next = settings(&gate.queue).and_then(|settings| settings.gate.as_ref());
        }
        Ok(())
    }
}

/// Refuses to do without the rounds of a queue that gates name.
pub fn named_by_gates(queue: &QueueName, gated_by: &[QueueName]) -> Result<(), Refusal> {
    let Some(first) = gated_by.first() else { return Ok(()) };
    let used_by = format!("the gate of queue `{first}` names it; take that gate away first");
    Err(Refusal::InUse { what: "queue".into(), name: queue.to_string(), used_by })
}
