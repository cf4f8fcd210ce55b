//! After a failure: the engine is rebuilt from what is on disk, and the database reopened if it has to be.
//!
//! A commit that failed is unknown, not undone, and fjall accepts no more writes after one. So the folder is reopened;
//! but only when it is the one that was opened, or holds as much, and when the disk has room: until then readers keep
//! the database that is open, and writes are refused. Nothing is created on the way, not even a file.

use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::disk::DiskError;
use crate::disk::counted::Acknowledged;
use crate::disk::fjall::FjallDisk;
use crate::disk::{check, folder};
use crate::engine::Engine;
use crate::engine::requests::operation::Request;
use crate::engine::thread::recover::Alive;
use crate::engine::thread::shared::Reads;
use crate::engine::thread::{EngineThread, Local};
use crate::limits;
use crate::store::store_dir;

/// A folder that was opened and found to lack acknowledged commits. It is not opened again as long as it is the same.
pub struct ShortStore {
    mark: folder::FolderFingerprint,
    why: String,
}

/// Another folder under the path of ours that may take its place.
struct Successor {
    /// None where the lock is the one we hold.
    lock: Option<File>,
    witness: File,
}

impl EngineThread {
    /// Tries until there is an engine that has committed; or the store is closed meanwhile.
    pub(crate) fn bring_back(
        &mut self,
        mut error: DiskError,
        mut local: Local,
        alive: impl Fn(&Local) -> Alive,
    ) -> Result<Engine<Acknowledged>, Vec<oneshot::Sender<()>>> {
        // After a read that failed the database is as good as before: another engine on it may continue at once.
        let mut waits = matches!(error, DiskError::Commit(_) | DiskError::Gone(_));
        if !waits {
            tracing::error!("the store met what it cannot read: {error}");
        }
        loop {
            if waits {
                self.report(&error);
                self.pause(&error, &mut local)?;
            }
            waits = true;
            match self.try_again(alive(&local)) {
                Ok(engine) => {
                    if self.shared.set_trouble(None) {
                        tracing::info!("the store takes writes again");
                    }
                    return Ok(engine);
                }
                Err(next) => error = self.with_reason(next),
            }
        }
    }

    /// Makes known why nothing can be written. A database without its folder is not read either: what it still has open
    /// is not what a restart would find.
    fn report(&mut self, error: &DiskError) {
        let why = error.to_string();
        if let DiskError::Gone(_) = error {
            // It also ends fjall's threads, which write by path.
            self.disk = None;
            self.shared.set_reads(Reads::Unavailable(why.clone()));
        }
        if self.shared.set_trouble(Some(why)) {
            tracing::error!("the store takes no writes: {error}; looking again every second");
        }
    }

    /// Refuses what is asked meanwhile.
    fn pause(&self, error: &DiskError, local: &mut Local) -> Result<(), Vec<oneshot::Sender<()>>> {
        // This pause concerns the machine and no job: it is measured with the steady clock.
        let began = Instant::now();
        while let Some(span) = limits::REOPEN_EVERY.checked_sub(began.elapsed()).filter(|span| !span.is_zero()) {
            match self.requests.recv_timeout(span) {
                Ok(Request::Close { answer }) => return Err(vec![answer]),
                Ok(Request::GiveBack { assignments }) => {
                    for assignment in assignments {
                        local.remove(&(assignment.job.id, assignment.token));
                    }
                }
                Ok(request) => request.refuse(crate::Error::Unavailable { why: error.to_string() }),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(Vec::new()),
            }
        }
        Ok(())
    }

    fn try_again(&mut self, alive: Alive) -> Result<Engine<Acknowledged>, DiskError> {
        let successor = match self.folder.check() {
            Ok(()) => None,
            Err(gone) => Some(self.successor().map_err(|why| DiskError::Gone(format!("{gone}{why}")))?),
        };
        self.folder.probe().map_err(|error| DiskError::Io(folder::explain(&error)))?;
        let disk = match self.disk.take() {
            Some(disk) if successor.is_none() && disk.takes_writes().is_ok() => disk,
            old => {
                // There is room on the disk, and still it has given up.
                if let Some(old) = old.as_ref().filter(|_| successor.is_none()) {
                    self.suspicion.look(old.places());
                }
                self.reopen(old)?
            }
        };
        if let Some(successor) = successor {
            self.move_into(successor)?;
        }
        // Readers have it from here on, whatever becomes of the first commit.
        self.disk = Some(disk.clone());
        self.shared.set_reads(Reads::Open(disk.clone()));
        let acknowledged = Acknowledged {
            disk,
            folder: self.folder.clone(),
            witness: self.witness.clone(),
            commit_status: self.commit_status.clone(),
        };
        let mut engine = Engine::recover(acknowledged, alive, limits::Tuning::default(), self.clock.now(), self.seed)?;
        // Its first commit shows whether there is room again.
        engine.group(Vec::new(), self.clock.now())?;
        Ok(engine)
    }

    /// Closes the old database and opens what is on disk. Reads wait meanwhile.
    fn reopen(&mut self, old: Option<FjallDisk>) -> Result<FjallDisk, DiskError> {
        let dir = &self.options.dir;
        let acknowledged = self.commit_status.acknowledged.load(Ordering::Relaxed);
        check::check_whole(dir, acknowledged).map_err(|error| DiskError::Gone(error.to_string()))?;
        if let Some(short) = &self.short
            && folder::FolderFingerprint::of(dir).is_ok_and(|mark| mark == short.mark)
        {
            return Err(DiskError::Gone(short.why.clone()));
        }
        self.shared.set_reads(Reads::Reopening);
        if let Some(old) = old
            && let Err(old) = close(old)
        {
            self.shared.set_reads(Reads::Open(old.clone()));
            self.disk = Some(old);
            return Err(DiskError::Io("it is reopened as soon as the reads that are under way have ended".into()));
        }
        let opened = FjallDisk::reopen(&store_dir(&self.options.dir), self.options.durability)
            .map(|disk| disk.with_keys(self.data_keys.clone()))
            .map_err(|error| DiskError::Io(crate::disk::fjall::explain(&error)))
            .and_then(|disk| self.check_complete(disk));
        opened.inspect_err(|error| self.shared.set_reads(Reads::Unavailable(error.to_string())))
    }

    /// What was acknowledged must all be there: less is not opened.
    fn check_complete(&mut self, disk: FjallDisk) -> Result<FjallDisk, DiskError> {
        let acknowledged = self.commit_status.acknowledged.load(Ordering::Relaxed);
        let found = check::last_commit(&disk)?;
        if found >= acknowledged {
            return Ok(disk);
        }
        drop(disk);
        let why = check::commits_missing(found, acknowledged);
        let why = format!("the database in {} is not complete: {why}", self.options.dir.display());
        self.short =
            folder::FolderFingerprint::of(&self.options.dir).ok().map(|mark| ShortStore { mark, why: why.clone() });
        Err(DiskError::Gone(why))
    }

    /// Looks at what lies where our folder was, without changing anything. It is a successor if nobody else has it and
    /// its witness knows all that we acknowledged: ours come back, or a copy of it.
    fn successor(&self) -> Result<Successor, String> {
        let dir = &self.options.dir;
        let missing = |what: &str| format!("; what lies there now has no {what}, so it is left alone");
        let acknowledged = self.commit_status.acknowledged.load(Ordering::Relaxed);
        check::check_whole(dir, acknowledged)
            .map_err(|error| format!("; what lies there now is left alone: {error}"))?;
        let witness = File::options().read(true).write(true).open(dir.join("witness"));
        let witness = witness.map_err(|_| missing("witness"))?;
        let found = crate::disk::witness::read(&witness).ok().flatten().map_or(0, |seen| seen.commit);
        if found < acknowledged {
            return Err(format!("; what lies there now is older: {}", check::commits_missing(found, acknowledged)));
        }
        let lock = File::options().write(true).open(dir.join("lock")).map_err(|_| missing("lock"))?;
        if folder::is_same(&lock, &self.lock) {
            return Ok(Successor { lock: None, witness });
        }
        lock.try_lock().map_err(|error| format!("; another process has what lies there now: {error}"))?;
        Ok(Successor { lock: Some(lock), witness })
    }

    fn move_into(&mut self, successor: Successor) -> Result<(), DiskError> {
        self.folder.remember().map_err(|error| DiskError::Gone(error.to_string()))?;
        self.witness.replace(successor.witness);
        if let Some(lock) = successor.lock {
            self.lock = lock;
        }
        self.short = None;
        self.suspicion = Default::default();
        Ok(())
    }
}

/// Closes a database that only we should hold by now. Given back when reads do not end soon: fjall would not be opened
/// a second time beside them.
fn close(disk: FjallDisk) -> Result<(), FjallDisk> {
    let until = Instant::now() + limits::READERS_LEAVE;
    while disk.is_read() {
        if Instant::now() >= until {
            return Err(disk);
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
