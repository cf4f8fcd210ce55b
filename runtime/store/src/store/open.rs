//! Opening a data folder, and starting the threads that work on it: the engine, the watchdog, the reclaimer, and the
//! driver of bulk operations.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Mutex};

use tokio::sync::{broadcast, mpsc, watch};

use crate::disk::blobs::Blobs;
use crate::disk::counted::{Acknowledged, CommitStatus};
use crate::disk::data_keys::DataKeys;
use crate::disk::fjall::FjallDisk;
use crate::disk::folder::DataFolder;
use crate::disk::reclaim::Reclaimer;
use crate::disk::watchdog::Watchdog;
use crate::disk::witness::Witness;
use crate::disk::{Disk, check, ownership};
use crate::engine::Engine;
use crate::engine::commit::release::Channels;
use crate::engine::requests::bulk;
use crate::engine::requests::operation::Request;
use crate::engine::thread::EngineThread;
use crate::engine::thread::recover::Alive;
use crate::engine::thread::shared::Shared;
use crate::store::{Inner, Store, store_dir};
use crate::{Clock, OpenError, Opening, Options, limits};

impl Store {
    /// Opens the data folder or creates it, recovers what is in it, and starts the engine.
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Store, OpenError> {
        Store::open_with(options, clock, Opening::default())
    }

    /// The same, with options for this one start.
    pub fn open_with(options: Options, clock: Arc<dyn Clock>, opening: Opening) -> Result<Store, OpenError> {
        let dir = options.dir.clone();
        let refused = |error: std::io::Error| check::refused(&dir, &error);
        let opened = OpenFolder::open(&options, &opening)?;
        let commit_status = Arc::new(CommitStatus::default());
        let acknowledged = Acknowledged {
            disk: opened.disk.clone(),
            folder: opened.folder.clone(),
            witness: opened.witness.clone(),
            commit_status: commit_status.clone(),
        };
        let (effects, effects_receiver) = mpsc::unbounded_channel();
        let channels = Channels {
            events: broadcast::channel(limits::RECENT_EVENTS).0,
            logs: broadcast::channel(limits::RECENT_LOGS).0,
            effects,
            paused: watch::Sender::new(None),
        };
        // The receivers of effects find out that the engine has ended: no other sender is kept.
        let alive = Alive {
            channels: channels.clone(),
            pause: opening.paused,
            fair_use: opening.fair_use,
            audit: opening.audit,
            local: Default::default(),
            new_process: true,
        };
        let seed = RandomState::new().build_hasher().finish();
        let mut engine = Engine::recover(acknowledged, alive, limits::Tuning::default(), clock.now(), seed)
            .map_err(|error| check::unreadable(&dir, &error))?;
        engine.group(Vec::new(), clock.now()).map_err(|error| check::not_written(&dir, &opened.disk, error))?;

        let (requests, receiver) = sync_channel(limits::COMMANDS);
        let (bell, bell_receiver) = channel();
        let inner = Inner {
            requests: Arc::new(requests),
            shared: Arc::new(Shared::new(opened.disk.clone())),
            blobs: opened.blobs.clone(),
            events: channels.events,
            logs: channels.logs,
            effects: Mutex::new(Some(effects_receiver)),
            paused: channels.paused,
            tickets: AtomicU64::new(0),
            clock,
            commit_status,
            search_admission: Default::default(),
            bell,
            bulk_hub: broadcast::channel(limits::BULK_NEWS).0,
            alive: Arc::new(()),
        };
        let inner = Arc::new(inner);
        start_helpers(&inner, &opened).map_err(refused)?;
        start_engine(&inner, opened, options, seed, receiver, engine).map_err(refused)?;
        bulk::start(&inner, bell_receiver).map_err(refused)?;
        Ok(Store { inner, moment: None, caller: None })
    }
}

/// A data folder that has been checked and is ours.
struct OpenFolder {
    lock: File,
    witness: Arc<Witness>,
    disk: FjallDisk,
    blobs: Arc<Blobs>,
    folder: Arc<DataFolder>,
}

impl OpenFolder {
    fn open(options: &Options, opening: &Opening) -> Result<OpenFolder, OpenError> {
        let dir = &options.dir;
        let refused = |error: std::io::Error| check::refused(dir, &error);
        ownership::prepare(dir)?;
        let lock = check::take_lock(dir)?;
        check::check_format(dir)?;
        let witness = Witness::open(&dir.join("witness"), options.durability).map_err(refused)?;
        check::clear_unfinished(dir).map_err(refused)?;
        let acknowledged = witness.read().map_err(refused)?.filter(|seen| seen.promised).map_or(0, |seen| seen.commit);
        check::check_there(dir, acknowledged)?;
        let disk =
            FjallDisk::open(&store_dir(dir), options.durability).map_err(|error| check::not_opened(dir, &error))?;
        check::check_complete(dir, &disk, acknowledged, opening.lost)?;
        check::list_parts(dir).map_err(refused)?;
        let keys = DataKeys::load(&disk, opening.encryption.as_ref())?;
        let disk = disk.with_keys(keys.clone());
        let blobs = Arc::new(Blobs::open(dir.join("blobs")).map_err(refused)?.with_keys(keys));
        let folder = Arc::new(DataFolder::of(dir).map_err(refused)?);
        Ok(OpenFolder { lock, witness: Arc::new(witness), disk, blobs, folder })
    }
}

/// Starts the threads that look after the folder. They end when the store is dropped.
fn start_helpers(inner: &Inner, opened: &OpenFolder) -> std::io::Result<()> {
    let watchdog = Watchdog {
        commit_status: inner.commit_status.clone(),
        witness: opened.witness.clone(),
        clock: inner.clock.clone(),
        blobs: opened.blobs.clone(),
        folder: opened.folder.clone(),
        shared: inner.shared.clone(),
        requests: Arc::downgrade(&inner.requests),
        alive: Arc::downgrade(&inner.alive),
    };
    spawn("windlass-watchdog", move || watchdog.run())?;
    let reclaimer = Reclaimer {
        commit_status: inner.commit_status.clone(),
        folder: opened.folder.clone(),
        shared: inner.shared.clone(),
        alive: Arc::downgrade(&inner.alive),
    };
    spawn("windlass-reclaim", move || reclaimer.run())
}

fn start_engine(
    inner: &Inner,
    opened: OpenFolder,
    options: Options,
    seed: u64,
    requests: Receiver<Request<Acknowledged>>,
    engine: Engine<Acknowledged>,
) -> std::io::Result<()> {
    let thread = EngineThread {
        options,
        clock: inner.clock.clone(),
        requests,
        shared: inner.shared.clone(),
        folder: opened.folder,
        witness: opened.witness,
        commit_status: inner.commit_status.clone(),
        seed,
        lock: opened.lock,
        data_keys: opened.disk.data_keys().cloned(),
        disk: Some(opened.disk),
        suspicion: Default::default(),
        short: None,
    };
    spawn("windlass-engine", move || {
        for answer in thread.run(engine) {
            let _ = answer.send(());
        }
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}
