//! What operators of the simulated store ask: settings, rounds, plugins, schedules. They come alone in their group, so
//! that the model knows the order of what they change.

use bytes::Bytes;
use std::time::Duration;

use windlass_core::flow::Gate;
use windlass_core::limits::Rate;
use windlass_core::plugin::grant::Grant;
use windlass_core::plugin::manifest::{Limits, Manifest};
use windlass_core::schedule::{CatchUp, Overlap, Schedule};
use windlass_core::{
    Blob, Name, NewCanary, PluginCommand, PolicyChoice, QueueName, RetentionLimit, Settings, Swap, Time,
};
use windlass_store::ScheduleChange;
use windlass_store::engine::requests::operations::{ChangePlugin, Clear, Configure, RemoveQueue};

use super::commands::{Asked, PLUGINS, QUEUES, Request, SCHEDULES, queue, seconds};
use super::world::World;
use crate::rng::Rng;

impl World {
    pub fn setting(&mut self) -> (Request, Asked) {
        match self.rng.below(100) {
            0..40 => self.configure(),
            40..50 => {
                let queue = queue(&mut self.rng);
                let (request, answer) = Request::new(Clear { queue: queue.clone() });
                (request, Asked::Clear { queue, answer })
            }
            50..58 => {
                let queue = queue(&mut self.rng);
                let (request, answer) = Request::new(RemoveQueue { queue: queue.clone() });
                (request, Asked::RemoveQueue { queue, answer })
            }
            58..86 => self.plugin(),
            _ => self.schedule(),
        }
    }

    fn configure(&mut self) -> (Request, Asked) {
        let queue = queue(&mut self.rng);
        let rng = &mut self.rng;
        let rate = |rng: &mut Rng| Rate { count: 1 + rng.below(4) as u32, per: seconds(rng, 20) };
        let keep = |rng: &mut Rng| RetentionLimit { age: seconds(rng, 120), count: rng.maybe(30, |rng| rng.below(4)) };
        let mut settings = Settings {
            paused: rng.chance(20),
            max_concurrency: rng.maybe(30, |rng| rng.below(4) as u32),
            rate: rng.maybe(20, rate),
            key_concurrency: rng.maybe(30, |rng| 1 + rng.below(2) as u32),
            key_rate: rng.maybe(20, rate),
            ageing: rng.maybe(20, |rng| Duration::from_secs(1 + rng.below(10))),
            ..Settings::default()
        };
        if rng.chance(30) {
            settings.retention.completed = keep(rng);
            settings.retention.dead = keep(rng);
            settings.retention.cancelled = keep(rng);
        }
        if rng.chance(20) {
            settings.defaults.max_attempts = Some(2);
        }
        self.choose_rounds(&queue, &mut settings);
        self.set(queue, settings)
    }

    /// Mostly as it is: it can be changed only while nothing is open.
    fn choose_rounds(&mut self, queue: &QueueName, settings: &mut Settings) {
        if let Some(known) = self.model.queues.get(queue) {
            settings.rounds = known.settings.rounds;
            settings.gate = known.settings.gate.clone();
        }
        if self.rng.chance(15) {
            settings.rounds = self.rng.chance(60);
        }
        if !settings.rounds {
            settings.gate = None;
        } else if self.rng.chance(30) {
            settings.gate = self.rng.maybe(60, gate);
        }
    }

    /// Half the runs begin with queues that have rounds.
    pub fn rounds_at_first(&mut self) -> Vec<(Request, Asked)> {
        if self.rng.chance(40) {
            return Vec::new();
        }
        self.walks = self.rng.chance(70);
        let first: QueueName = QUEUES[0].parse().expect("a name");
        let second: QueueName = QUEUES[1].parse().expect("a name");
        let on = Settings { rounds: true, ..Settings::default() };
        let mut requests = vec![self.set(first.clone(), on.clone())];
        if self.rng.chance(60) {
            let gate = self.rng.maybe(80, |rng| Gate { queue: first, ..gate(rng) });
            requests.push(self.set(second, Settings { gate, ..on }));
        }
        requests
    }

    pub fn set(&mut self, queue: QueueName, settings: Settings) -> (Request, Asked) {
        let wanted = settings.clone();
        let change = Box::new(move |current: &mut Settings| *current = wanted);
        let (request, answer) = Request::new(Configure { queue: queue.clone(), change, by: None });
        (request, Asked::Configure { queue, settings: Box::new(settings), answer })
    }

    fn plugin(&mut self) -> (Request, Asked) {
        let name: Name = self.rng.pick(&PLUGINS).expect("there are plugins").parse().expect("a name");
        let command = self.some_change();
        let (request, answer) = Request::new(ChangePlugin { name: name.clone(), command: command.clone(), by: None });
        let command = Box::new(command);
        (request, Asked::Plugin { name, command, answer })
    }

    fn some_change(&mut self) -> PluginCommand {
        let rng = &mut self.rng;
        let version = [rng.below(3) as u8; 32];
        match rng.below(100) {
            0..40 => PluginCommand::Upload {
                component: Blob { sha256: version, len: 10 },
                imports: Vec::new(),
                manifest: rng.maybe(60, manifest),
                queues: rng.maybe(60, |rng| (0..1 + rng.below(2)).map(|_| queue(rng)).collect()),
                by: None,
                swap: rng.maybe(75, swap),
            },
            40..52 => PluginCommand::Activate { version, swap: swap(rng) },
            52..58 => PluginCommand::Rollback { swap: swap(rng) },
            58..64 => PluginCommand::SetManifest { version: rng.maybe(50, |_| version), manifest: manifest(rng) },
            64..76 => PluginCommand::StartCanary(NewCanary {
                version,
                share: 1 + rng.below(100) as u32,
                max_failures_per_mille: rng.below(800) as u32,
                min_attempts: 1 + rng.below(4) as u32,
                promote_after: rng.maybe(60, |rng| 4 + rng.below(4) as u32),
            }),
            76..80 => PluginCommand::EndCanary { promote: rng.chance(50) },
            80..86 => PluginCommand::RemoveVersion { version, force: rng.chance(50) },
            86..92 => PluginCommand::Remove { force: rng.chance(50) },
            _ => {
                let concurrency = rng.maybe(60, |rng| 1 + rng.below(2) as u32);
                PluginCommand::Grant(Grant { limits: Limits { concurrency, ..Limits::default() }, ..Grant::default() })
            }
        }
    }

    fn schedule(&mut self) -> (Request, Asked) {
        let rng = &mut self.rng;
        let name: Name = (*rng.pick(&SCHEDULES).expect("there are schedules")).parse().expect("a name");
        let change = match rng.below(10) {
            0..5 => ScheduleChange::Put { schedule: Box::new(schedule(rng, name, self.now)), replace: rng.chance(70) },
            5..7 => ScheduleChange::Pause { name, paused: rng.chance(50) },
            7..9 => ScheduleChange::RunNow { name },
            _ => ScheduleChange::Remove { name },
        };
        let (request, answer) = Request::new(change.clone());
        (request, Asked::Schedule { change, answer })
    }
}

fn gate(rng: &mut Rng) -> Gate {
    let lead = rng.below(3) as u32;
    Gate { queue: queue(rng), lead, max_lead: rng.maybe(50, |rng| lead + rng.below(3) as u32) }
}

fn swap(rng: &mut Rng) -> Swap {
    match rng.below(3) {
        0 => Swap::Drain,
        1 => Swap::Checkpoint { within: seconds(rng, 30) },
        _ => Swap::Now,
    }
}

fn manifest(rng: &mut Rng) -> Manifest {
    let concurrency = rng.maybe(40, |rng| 1 + rng.below(3) as u32);
    Manifest {
        schemas: rng.maybe(50, |rng| vec![rng.below(3) as u32]),
        limits: Limits { concurrency, ..Limits::default() },
        payload: rng.maybe(20, |_| "{\"type\": \"object\"}".parse().expect("a schema")),
        ..Manifest::default()
    }
}

fn schedule(rng: &mut Rng, name: Name, now: Time) -> Schedule {
    let cron = if name.as_str() == "hourly" { "0 * * * *" } else { "*/5 * * * *" };
    Schedule {
        name,
        queue: queue(rng),
        cron: cron.into(),
        timezone: "UTC".into(),
        payload: Bytes::from_static(b"{}"),
        policy: PolicyChoice::default(),
        unique: None,
        tags: Vec::new(),
        catch_up: match rng.below(3) {
            0 => CatchUp::Skip,
            1 => CatchUp::Once,
            _ => CatchUp::All { at_most: 1 + rng.below(4) as u32 },
        },
        overlap: match rng.below(3) {
            0 => Overlap::Allow,
            1 => Overlap::Skip,
            _ => Overlap::Cancel,
        },
        paused: rng.chance(20),
        created_at: now,
        updated_at: now,
        last_run: None,
        last_job: None,
        next_run: None,
        skipped: Default::default(),
        created_by: None,
    }
}
