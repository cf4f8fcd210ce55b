//! Opening a data folder, and starting what works on it: the engine's thread, the keeper, the reclaimer, the driver of bulk operations.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};

use tokio::sync::{broadcast, mpsc, watch};

use crate::disk::blobs::Blobs;
use crate::disk::counted::{Acknowledged, CommitStatus};
use crate::disk::fjall::FjallDisk;
use crate::disk::folder::DataFolder;
use crate::disk::reclaim::Reclaimer;
use crate::disk::watchdog::Watchdog;
use crate::disk::witness::Witness;
use crate::disk::{check, ownership};
use crate::engine::Engine;
use crate::engine::bulk;
use crate::engine::recover::Alive;
use crate::engine::shared::Shared;
use crate::engine::thread::EngineThread;
use crate::store::{Inner, Store, store_dir};
use crate::{Clock, OpenError, Opening, Options, limits};

impl Store {
    /// Opens or makes the data folder, recovers what is in it, and starts the engine.
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Store, OpenError> {
        Store::open_with(options, clock, Opening::default())
    }

    /// Opens or makes the data folder, recovers what is in it, and starts the engine.
    /// The same, with what the operator says about this one start.
    pub fn open_with(options: Options, clock: Arc<dyn Clock>, opening: Opening) -> Result<Store, OpenError> {
        let dir = options.dir.clone();
        let refused = |error: std::io::Error| check::refused(&dir, &error);
        ownership::prepare(&dir)?;
        let lock = check::take_lock(&dir)?;
        check::check_format(&dir)?;
        let witness = Witness::open(&dir.join("witness"), options.durability).map_err(refused)?;
        check::clear_unfinished(&dir).map_err(refused)?;
        let acknowledged = witness.read().map_err(refused)?.filter(|seen| seen.promised).map_or(0, |seen| seen.commit);
        check::check_there(&dir, acknowledged)?;
        let disk =
            FjallDisk::open(&store_dir(&dir), options.durability).map_err(|error| check::not_opened(&dir, &error))?;
        check::check_complete(&dir, &disk, acknowledged, opening.lost)?;
        check::list_parts(&dir).map_err(refused)?;
        let blobs = Arc::new(Blobs::open(dir.join("blobs")).map_err(refused)?);
        let folder = Arc::new(DataFolder::of(&dir).map_err(refused)?);

        let (hub, _) = broadcast::channel(limits::RECENT_EVENTS);
        let (log_hub, _) = broadcast::channel(limits::RECENT_LOGS);
        let (orders, orders_receiver) = mpsc::unbounded_channel();
        let (requests, receiver) = sync_channel(limits::COMMANDS);
        let requests = Arc::new(requests);
        let commit_status = Arc::new(CommitStatus::default());
        let witness = Arc::new(witness);
        let shared = Arc::new(Shared::new(disk.clone()));
        let paused = watch::Sender::new(None);
        let alive = Alive {
            hub: hub.clone(),
            log_hub: log_hub.clone(),
            orders,
            paused: paused.clone(),
            pause: opening.paused,
            local: Default::default(),
            new_process: true,
        };
        let seed = RandomState::new().build_hasher().finish();
        let acknowledged = Acknowledged {
            disk: disk.clone(),
            folder: folder.clone(),
            witness: witness.clone(),
            commit_status: commit_status.clone(),
        };
        let mut engine = Engine::recover(acknowledged, alive, limits::Tuning::default(), clock.now(), seed)
            .map_err(|error| check::unreadable(&dir, &error))?;
        engine.group(Vec::new(), clock.now()).map_err(|error| check::not_written(&dir, &disk, error))?;

        let (bell, bell_receiver) = channel();
        let life = Arc::new(());
        let keeper = Watchdog {
            commit_status: commit_status.clone(),
            witness: witness.clone(),
            clock: clock.clone(),
            blobs: blobs.clone(),
            folder: folder.clone(),
            shared: shared.clone(),
            requests: Arc::downgrade(&requests),
            alive: Arc::downgrade(&life),
        };
        spawn("windlass-keeper", move || keeper.run()).map_err(refused)?;
        let reclaimer = Reclaimer {
            commit_status: commit_status.clone(),
            folder: folder.clone(),
            shared: shared.clone(),
            alive: Arc::downgrade(&life),
        };
        spawn("windlass-reclaim", move || reclaimer.run()).map_err(refused)?;
        let worker = EngineThread {
            options,
            clock: clock.clone(),
            requests: receiver,
            shared: shared.clone(),
            folder,
            witness,
            commit_status: commit_status.clone(),
            seed,
            lock,
            disk: Some(disk),
            suspicion: Default::default(),
            short: None,
        };
        spawn("windlass-engine", move || {
            for answer in worker.run(engine) {
                let _ = answer.send(());
            }
        })
        .map_err(refused)?;
        let inner = Inner {
            requests,
            shared,
            blobs,
            hub,
            log_hub,
            orders: Mutex::new(Some(orders_receiver)),
            paused,
            tickets: AtomicU64::new(0),
            clock,
            commit_status,
            search_admission: Default::default(),
            bell,
            bulk_hub: broadcast::channel(limits::BULK_NEWS).0,
            _alive: life,
        };
        let inner = Arc::new(inner);
        bulk::start(&inner, bell_receiver).map_err(refused)?;
        Ok(Store { inner, moment: None })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}
