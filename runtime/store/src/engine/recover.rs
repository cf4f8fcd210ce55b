//! From disk to a running engine: what every start, and every restart after a failed commit, begins with.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};
use windlass_core::limits::Limiter;
use windlass_core::plugin::grant::Grant;
use windlass_core::schedule::Schedule;
use windlass_core::{
    Bulk, Command, Effect, Event, HandBack, Holder, JobId, Plugin, Queue, State, Time, Token, Usage, Webhook,
};

use crate::claim::claims::WaitingClaims;
use crate::claim::lanes::QueueRings;
use crate::disk::{Disk, DiskError, Space, WriteBatch};
use crate::disk::{codec, keys};
use crate::engine::job_cache::JobCache;
use crate::engine::operation::Outbox;
use crate::engine::pause;
use crate::engine::{Engine, META_KEY, Meta, QueueState};
use crate::flow::Flows;
use crate::flow::rounds::Rounds;
use crate::limits::Tuning;
use crate::retention::Sweeps;
use crate::timers::Timers;
use crate::{EventRecord, LogRecord};

/// What a restart inside the living process keeps.
pub struct Alive {
    pub hub: broadcast::Sender<Arc<EventRecord>>,
    pub log_hub: broadcast::Sender<Arc<LogRecord>>,
    pub orders: mpsc::UnboundedSender<Effect>,
    /// Where it is told since when everything is paused.
    pub paused: watch::Sender<Option<Time>>,
    /// Whether this start pauses everything.
    pub pause: bool,
    /// Attempts this process is running. Empty when the process is new.
    pub local: HashSet<(JobId, Token)>,
    /// Whether the process that wrote the disk has died: then what it ran has died with it.
    pub new_process: bool,
}

impl<D: Disk> Engine<D> {
    /// Reads what an engine needs to know, and puts right what a crash left: local attempts that died, leases.
    pub fn recover(disk: D, alive: Alive, tuning: Tuning, now: Time, seed: u64) -> Result<Engine<D>, DiskError> {
        let meta: Option<Meta> = match disk.get(Space::Meta, META_KEY)? {
            Some(bytes) => Some(codec::decode(Space::Meta, &bytes)?),
            None => None,
        };
        let meta = meta.unwrap_or(Meta { seed, ..Meta::default() });
        let now = now.max(meta.now);
        let mut queues = HashMap::new();
        for queue in read_all::<Queue>(&disk, Space::Queues)? {
            let mut limiter: Limiter = match disk.get(Space::Limiters, &keys::limiter(queue.id, ""))? {
                Some(bytes) => codec::decode(Space::Limiters, &bytes)?,
                None => Limiter::default(),
            };
            limiter.running = u32::try_from(queue.counts.of(State::Active)).unwrap_or(u32::MAX);
            let name = queue.name.clone();
            let line = QueueRings::new(tuning);
            let state = QueueState { row: queue, line, limiter, closed_until: None, dirty: false, line_touched: false };
            queues.insert(name, state);
        }
        let plugins: BTreeMap<String, Plugin> = read_all::<Plugin>(&disk, Space::Plugins)?
            .into_iter()
            .map(|plugin| (plugin.name.clone(), plugin))
            .collect();
        let grants: BTreeMap<String, Grant> = read_all::<(String, Grant)>(&disk, Space::Grants)?.into_iter().collect();
        let schedules: BTreeMap<String, Schedule> = read_all::<Schedule>(&disk, Space::Schedules)?
            .into_iter()
            .map(|schedule| (schedule.name.clone(), schedule))
            .collect();
        let bulks = read_all::<Bulk>(&disk, Space::Bulks)?.into_iter().map(|bulk| (bulk.id, bulk)).collect();
        let webhooks: BTreeMap<String, Webhook> =
            read_all::<Webhook>(&disk, Space::Webhooks)?.into_iter().map(|hook| (hook.id.clone(), hook)).collect();
        let rounds = Rounds::read(&disk, &queues)?;
        let paused = pause::read(&disk)?;
        let (event_chunks, events_stored) = read_event_chunks(&disk, meta.events_from, now)?;
        let mut engine = Engine {
            queue_names: queues.values().map(|queue| (queue.row.id, queue.row.name.clone())).collect(),
            timers: Timers::new(meta.timers_from, tuning),
            // Numbers above the last commit may have been shown to watchers already.
            next_event: meta.events_reserved.max(1),
            tuning,
            meta,
            disk,
            batch: WriteBatch::default(),
            queues,
            jobs: JobCache::default(),
            dirty: Default::default(),
            removed: Default::default(),
            damaged: Default::default(),
            new_errors: Default::default(),
            new_records: Default::default(),
            locks: HashMap::new(),
            key_limiters: HashMap::new(),
            dirty_limiters: HashSet::new(),
            timer_changes: Vec::new(),
            parked: Default::default(),
            waiting: WaitingClaims::default(),
            awake: Default::default(),
            plugins,
            dirty_plugins: Default::default(),
            grants,
            served: HashMap::new(),
            ceilings: HashMap::new(),
            plugin_limiters: HashMap::new(),
            schedules,
            webhooks,
            sweeps: Sweeps::default(),
            bulks,
            flows: Flows::default(),
            rounds,
            events: Vec::new(),
            shown: 0,
            to_show: Vec::new(),
            event_chunks,
            events_stored,
            logs: HashMap::new(),
            log_next: HashMap::new(),
            effects: Vec::new(),
            outbox: Outbox::default(),
            hard: true,
            soft_since: None,
            local: HashSet::new(),
            local_ended: Vec::new(),
            hub: alive.hub,
            log_hub: alive.log_hub,
            orders: alive.orders,
            paused,
            paused_hub: alive.paused,
            started_at: now,
            now,
        };
        if alive.pause {
            engine.pause();
        }
        engine.route();
        engine.settle_local(&alive.local, alive.new_process)?;
        for queue in engine.queues.values() {
            for state in [State::Completed, State::Dead, State::Cancelled] {
                if queue.row.counts.of(state) > 0 {
                    engine.sweeps.look_at(queue.row.id, state, now);
                }
            }
        }
        Ok(engine)
    }

    /// The attempts that ran in this process: alive still, dead with an earlier process, or never heard of. Those of
    /// external workers are the clock's to look at.
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
                // Claimed in a commit whose caller never heard of it.
                let reason = "the claim was never delivered".to_owned();
                self.try_ask(
                    id,
                    Command::HandBack(HandBack { holder: Holder::Token(token), reason, usage: Usage::default() }),
                )?;
            }
        }
        Ok(())
    }
}

fn read_all<T: serde::de::DeserializeOwned>(disk: &impl Disk, space: Space) -> Result<Vec<T>, DiskError> {
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

type Chunks = VecDeque<(u64, u32, Time)>;

/// Which event records are stored: their last number, how many events, and how old.
fn read_event_chunks(disk: &impl Disk, from: u64, now: Time) -> Result<(Chunks, u64), DiskError> {
    let mut chunks = VecDeque::new();
    let mut stored = 0;
    let mut start = keys::event(from);
    loop {
        let page = disk.scan(Space::Events, &start, &[u8::MAX; 16], 1_024)?;
        for (key, value) in &page {
            let (first, events): (u64, Vec<Event>) = codec::decode(Space::Events, value)?;
            let at = events.last().map_or(now, |event| event.at);
            stored += events.len() as u64;
            chunks.push_back((first + (events.len() as u64).saturating_sub(1), events.len() as u32, at));
            start = key.to_vec();
            start.push(0);
        }
        if page.len() < 1_024 {
            return Ok((chunks, stored));
        }
    }
}
