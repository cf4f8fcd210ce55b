//! What every measurement is given: how much to measure, and where its data folders are created.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Time;
use windlass_store::{Clock, Durability, Options, Store};

#[derive(Clone, Debug)]
pub struct Setting {
    /// A version of each figure that takes seconds.
    pub quick: bool,
    /// Where the data folders of the run are created and removed.
    pub dir: PathBuf,
}

impl Setting {
    pub fn folder(&self, name: &str) -> anyhow::Result<Folder> {
        let path = self.dir.join(format!("windlass-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }
}

/// Opens a store as a server does, with an fsync for every commit.
pub fn open(dir: &Path) -> anyhow::Result<Store> {
    let options = Options { dir: dir.to_owned(), durability: Durability::Fsync };
    Ok(Store::open(options, Arc::new(SteadyClock::start()))?)
}

/// A data folder, removed when it is dropped.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reports progress on standard error; the figures are written to standard output.
pub fn say(line: &str) {
    eprintln!("{line}");
}

/// The system's time at the start, continued by the monotonic clock, so that it never goes back.
pub struct SteadyClock {
    wall: Time,
    at: Instant,
}

impl SteadyClock {
    pub fn start() -> SteadyClock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        SteadyClock { wall: Time::ZERO + since, at: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Time {
        self.wall + self.at.elapsed()
    }
}
