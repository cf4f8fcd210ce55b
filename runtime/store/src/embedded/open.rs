//! Opening a data folder: alone in it, in a format we know, with everything that was ever acknowledged; or not at all,
//! with words that say what can be done.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::{broadcast, mpsc};

use super::blobs::{self, Blobs};
use super::disk::{Disk, DiskError, Space};
use super::engine::{Engine, META_KEY, Meta};
use super::fjall_disk::{self, FjallDisk};
use super::keeper::Keeper;
use super::recover::Alive;
use super::witness::Witness;
use super::worker::{Acknowledged, Pulse, Worker};
use super::{Embedded, Inner, bulk, record, store_dir};
use crate::{Clock, OpenError, Options, limits};

/// The layout of the data folder as a whole.
const FOLDER_FORMAT: u32 = 1;

impl Embedded {
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Embedded, OpenError> {
        let dir = options.dir.clone();
        let folder = |why: std::io::Error| OpenError::Folder { dir: dir.clone(), why: why.to_string() };
        fs::create_dir_all(&dir).map_err(folder)?;
        let lock = take_lock(&dir)?;
        check_format(&dir)?;
        let witness = Witness::open(&dir.join("witness"), options.durability).map_err(folder)?;
        check_parts(&dir)?;
        let disk = FjallDisk::open(&store_dir(&dir), options.durability).map_err(|error| damaged(&dir, &error))?;
        check_complete(&dir, &disk, &witness)?;
        list_parts(&dir).map_err(folder)?;
        let blobs = Arc::new(Blobs::open(dir.join("blobs")).map_err(folder)?);

        let (hub, _) = broadcast::channel(limits::RECENT_EVENTS);
        let (log_hub, _) = broadcast::channel(limits::RECENT_LOGS);
        let (orders, orders_receiver) = mpsc::unbounded_channel();
        let (requests, receiver) = sync_channel(limits::COMMANDS);
        let pulse = Arc::new(Pulse::default());
        let witness = Arc::new(witness);
        let shared = Arc::new(RwLock::new(Some(disk.clone())));
        let alive =
            Alive { hub: hub.clone(), log_hub: log_hub.clone(), orders, local: Default::default(), new_process: true };
        let seed = RandomState::new().build_hasher().finish();
        let acknowledged = Acknowledged::new(disk, witness.clone(), pulse.clone());
        let unreadable = |error: DiskError| OpenError::Damaged {
            file: store_dir(&dir),
            what: error.to_string(),
            advice: ADVICE.into(),
        };
        let mut engine =
            Engine::recover(acknowledged, alive, limits::Tuning::default(), clock.now(), seed).map_err(unreadable)?;
        engine.group(Vec::new(), clock.now()).map_err(unreadable)?;

        let (bell, bell_receiver) = channel();
        let life = Arc::new(());
        let keeper = Keeper {
            pulse: pulse.clone(),
            witness: witness.clone(),
            clock: clock.clone(),
            blobs: blobs.clone(),
            shared: shared.clone(),
            alive: Arc::downgrade(&life),
        };
        spawn("windlass-keeper", move || keeper.run()).map_err(folder)?;
        let worker = Worker {
            options,
            clock: clock.clone(),
            requests: receiver,
            shared: shared.clone(),
            witness,
            pulse: pulse.clone(),
            seed,
        };
        spawn("windlass-engine", move || {
            let waiting = worker.run(engine);
            drop(lock);
            for answer in waiting {
                let _ = answer.send(());
            }
        })
        .map_err(folder)?;
        let inner = Inner {
            requests,
            shared,
            blobs,
            hub,
            log_hub,
            orders: Mutex::new(Some(orders_receiver)),
            tickets: AtomicU64::new(0),
            clock,
            pulse,
            desk: Default::default(),
            bell,
            bulk_hub: broadcast::channel(limits::BULK_NEWS).0,
            _alive: life,
        };
        let inner = Arc::new(inner);
        bulk::start(&inner, bell_receiver).map_err(folder)?;
        Ok(Embedded { inner, moment: None })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// Two writers on one folder would be the end of it.
fn take_lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let folder = |why: std::io::Error| OpenError::Folder { dir: dir.to_owned(), why: why.to_string() };
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(folder)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(folder(error)),
    }
}

fn check_format(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join("format");
    let folder = |why: std::io::Error| OpenError::Folder { dir: dir.to_owned(), why: why.to_string() };
    match fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found <= FOLDER_FORMAT => Ok(()),
            Ok(found) => Err(OpenError::Newer { dir: dir.to_owned(), found, known: FOLDER_FORMAT }),
            Err(_) => Err(OpenError::Damaged {
                file: path,
                what: "it should hold a format number and does not".into(),
                advice: format!("If this is a windlass data folder of this version, write `{FOLDER_FORMAT}` into it."),
            }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if store_dir(dir).exists() {
                return Err(OpenError::Damaged {
                    file: path,
                    what: "it is missing, though there is a database beside it".into(),
                    advice: format!(
                        "If this is a windlass data folder of this version, make the file and write `{FOLDER_FORMAT}` into it."
                    ),
                });
            }
            fs::write(&path, format!("{FOLDER_FORMAT}\n")).map_err(folder)?;
            File::open(&path).and_then(|file| file.sync_all()).and_then(|()| blobs::sync(dir)).map_err(folder)
        }
        Err(error) => Err(folder(error)),
    }
}

const ADVICE: &str = "Nothing was changed. Restore the data folder from a backup, or move it aside to start empty; keep it: \
     what can still be read may be rescued.";

fn damaged(dir: &Path, error: &fjall::Error) -> OpenError {
    if let fjall::Error::Io(io) = error
        && matches!(io.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::StorageFull)
    {
        return OpenError::Folder { dir: dir.to_owned(), why: io.to_string() };
    }
    OpenError::Damaged {
        file: journal_of(dir).unwrap_or_else(|| store_dir(dir)),
        what: format!("the database cannot be opened: {}", fjall_disk::explain(error)),
        advice: ADVICE.into(),
    }
}

/// The files by which fjall knows its keyspaces. Where one is gone, it would begin an empty one without a word.
fn parts(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(store_dir(dir).join("keyspaces"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Writes down which parts the database has, so that the next start can tell whether one is missing.
fn list_parts(dir: &Path) -> std::io::Result<()> {
    let list = parts(dir)?.join("\n");
    let path = dir.join("parts");
    if fs::read_to_string(&path).is_ok_and(|known| known == list) {
        return Ok(());
    }
    let part = dir.join("parts.new");
    fs::write(&part, list)?;
    File::open(&part)?.sync_all()?;
    fs::rename(&part, &path)?;
    blobs::sync(dir)
}

fn check_parts(dir: &Path) -> Result<(), OpenError> {
    let Ok(list) = fs::read_to_string(dir.join("parts")) else { return Ok(()) };
    for name in list.lines() {
        let current = store_dir(dir).join("keyspaces").join(name).join("current");
        if current.metadata().map_or(true, |found| found.len() == 0) {
            let what = "it is missing or empty, and with it all that this part of the database held".into();
            return Err(OpenError::Damaged { file: current, what, advice: ADVICE.into() });
        }
    }
    Ok(())
}

/// What was acknowledged must all be there.
fn check_complete(dir: &Path, disk: &FjallDisk, witness: &Witness) -> Result<(), OpenError> {
    let folder = |why: String| OpenError::Folder { dir: dir.to_owned(), why };
    let acknowledged = witness.read().map_err(|error| folder(error.to_string()))?;
    let unreadable =
        |error: DiskError| OpenError::Damaged { file: store_dir(dir), what: error.to_string(), advice: ADVICE.into() };
    let found = match disk.get(Space::Meta, META_KEY).map_err(unreadable)? {
        Some(bytes) => record::decode::<Meta>(Space::Meta, &bytes).map_err(unreadable)?.commit,
        None => 0,
    };
    match acknowledged {
        Some(acknowledged) if found < acknowledged => Err(OpenError::Damaged {
            file: journal_of(dir).unwrap_or_else(|| store_dir(dir)),
            what: format!(
                "the database ends at commit {found}, but commit {acknowledged} was acknowledged: {} commits are missing, so a part of the journal is damaged",
                acknowledged - found
            ),
            advice: format!("{ADVICE} To go on without the missing commits, delete {}.", witness.path().display()),
        }),
        _ => Ok(()),
    }
}

/// The journal in use: the newest file of the database's journals.
fn journal_of(dir: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(store_dir(dir)).ok()?.flatten();
    files
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok())
}
