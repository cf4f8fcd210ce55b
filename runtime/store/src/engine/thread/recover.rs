//! From disk to a running engine: how every start begins, and every restart after a failed commit.

use std::collections::HashSet;

use windlass_core::{Bulk, Command, HandBack, Holder, JobId, Queue, State, Time, Token, Usage};

use crate::claim::claims::WaitingClaims;
use crate::disk::{Disk, DiskError, Space};
use crate::disk::{codec, keys};
use crate::engine::commit::event_log::{EventLog, JobLogs};
use crate::engine::commit::release::{Channels, Release};
use crate::engine::commit::unsaved::Unsaved;
use crate::engine::memory::catalogue::Catalogue;
use crate::engine::memory::job_cache::JobCache;
use crate::engine::memory::limiters::Limiters;
use crate::engine::memory::queues::Queues;
use crate::engine::memory::quotas::NamespaceQuotas;
use crate::engine::pause;
use crate::engine::{Engine, META_KEY, Meta};
use crate::flow::Flows;
use crate::flow::rounds::Rounds;
use crate::limits::Tuning;
use crate::retention::RetentionWork;
use crate::timers::Timers;
use crate::{AuditRetention, FairUse};

/// What a new engine gets from the process it starts in.
pub struct Alive {
    pub channels: Channels,
    /// Whether this start pauses everything.
    pub pause: bool,
    pub fair_use: FairUse,
    pub audit: AuditRetention,
    /// Attempts that this process is running. Empty if the process is new.
    pub local: HashSet<(JobId, Token)>,
    /// Whether the process that wrote the disk has died: then the attempts in it have died too.
    pub new_process: bool,
}

impl<D: Disk> Engine<D> {
    /// Reads what an engine needs to know, and corrects what a crash has left behind: attempts that died with their
    /// process.
    pub fn recover(disk: D, alive: Alive, tuning: Tuning, now: Time, seed: u64) -> Result<Engine<D>, DiskError> {
        let mut engine = Engine::read(disk, alive.channels, tuning, now, seed)?;
        engine.set_fair_use(alive.fair_use);
        engine.audit_retention = alive.audit;
        engine.release.set_paused(engine.paused);
        if alive.pause {
            engine.pause();
        }
        engine.route();
        engine.settle_local(&alive.local, alive.new_process)?;
        engine.look_at_ended();
        Ok(engine)
    }

    /// The engine as the disk has it.
    fn read(disk: D, channels: Channels, tuning: Tuning, now: Time, seed: u64) -> Result<Engine<D>, DiskError> {
        let meta: Option<Meta> = match disk.get(Space::Meta, META_KEY)? {
            Some(bytes) => Some(codec::decode(Space::Meta, &bytes)?),
            None => None,
        };
        let meta = meta.unwrap_or(Meta { seed, ..Meta::default() });
        let now = now.max(meta.now);
        let queues = Queues::read(&disk, read_all::<Queue>(&disk, Space::Queues)?, tuning)?;
        let bulks = read_all::<Bulk>(&disk, Space::Bulks)?;
        Ok(Engine {
            tuning,
            unsaved: Unsaved::new(),
            release: Release::default(),
            channels,
            jobs: JobCache::default(),
            damaged: Default::default(),
            limiters: Limiters::default(),
            fair_use: FairUse::default(),
            catalogue: Catalogue::read(&disk)?,
            timers: Timers::new(meta.timers_from, tuning),
            waiting: WaitingClaims::default(),
            retention: RetentionWork::default(),
            bulks: bulks.into_iter().map(|bulk| (bulk.id, bulk)).collect(),
            flows: Flows::default(),
            rounds: Rounds::read(&disk, &queues)?,
            events: EventLog::read(&disk, &meta, now)?,
            logs: JobLogs::default(),
            local: HashSet::new(),
            paused: pause::read(&disk)?,
            audit_head: None,
            audit_retention: AuditRetention::default(),
            quotas: NamespaceQuotas::read(&disk, &queues)?,
            started_at: now,
            newest: JobId::NONE,
            now,
            queues,
            meta,
            disk,
        })
    }

    /// Retention is not stored: it looks at every queue that has ended jobs.
    fn look_at_ended(&mut self) {
        for queue in self.queues.iter() {
            for state in [State::Completed, State::Dead, State::Cancelled] {
                if queue.row.counts.of(state) > 0 {
                    self.retention.look_at(queue.row.id, state, self.now);
                }
            }
        }
    }

    /// The attempts that ran in this process: still alive, dead with an earlier process, or claimed in a commit that
    /// was never answered. Those of external workers are watched by the clock.
    fn settle_local(&mut self, live: &HashSet<(JobId, Token)>, new_process: bool) -> Result<(), DiskError> {
        let mut ids = Vec::new();
        self.disk.each(Space::Locals, &[], &mut |key, _| ids.extend(keys::last_job(key)))?;
        for id in &ids {
            let job = self.load(*id)?.cloned();
            self.count_attempt(None, job.as_ref());
        }
        for id in ids {
            let Some(token) = self.load(id)?.and_then(|job| job.run.as_ref()).map(|run| run.token) else { continue };
            if new_process {
                self.try_ask(id, Command::Crash)?;
            } else if live.contains(&(id, token)) {
                self.local.insert((id, token));
            } else {
                // Claimed in a commit that was never answered.
                let reason = "the claim was never delivered".to_owned();
                let back = HandBack { holder: Holder::Token(token), reason, usage: Usage::default() };
                self.try_ask(id, Command::HandBack(back))?;
            }
        }
        Ok(())
    }
}

pub(in crate::engine) fn read_all<T: serde::de::DeserializeOwned>(
    disk: &impl Disk,
    space: Space,
) -> Result<Vec<T>, DiskError> {
    let mut rows = Vec::new();
    let mut failed = None;
    disk.each(space, &[], &mut |_, value| match codec::decode(space, value) {
        Ok(row) => rows.push(row),
        Err(error) => failed = Some(error),
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(rows),
    }
}
