//! The limit: fjall alone, with the same keyspaces, the same number and size of writes, and one sync per group.

use std::path::Path;
use std::time::{Duration, Instant};

use windlass_core::retry::mix;
use windlass_store::Durability;
use windlass_store::disk::{Disk, Space, WriteBatch};
use windlass_store::store::FjallDisk;

/// What one group of the engine wrote, on average.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub writes: usize,
    pub bytes_per_write: usize,
}

/// The spaces that a lifecycle writes to, each about equally often.
const SPACES: [Space; 5] = [Space::Jobs, Space::Bodies, Space::Ready, Space::States, Space::Events];

pub struct Bare {
    disk: FjallDisk,
    next: u64,
}

impl Bare {
    pub fn open(dir: &Path) -> anyhow::Result<Bare> {
        Ok(Bare { disk: FjallDisk::open(dir, Durability::Fsync)?, next: 0 })
    }

    /// Commits one group of this shape.
    pub fn commit(&mut self, shape: Shape) -> anyhow::Result<()> {
        let mut batch = WriteBatch::default();
        for index in 0..shape.writes {
            self.next += 1;
            // Partly sequential and partly random, like the engine's own keys.
            let mut key = self.next.to_be_bytes().to_vec();
            key.extend(mix(self.next).to_be_bytes());
            let value = vec![b'x'; shape.bytes_per_write.saturating_sub(key.len())];
            batch.put(SPACES[index % SPACES.len()], key, value);
        }
        Ok(self.disk.commit(batch, 0)?)
    }

    /// Groups per second over a span.
    pub fn rate(&mut self, shape: Shape, span: Duration) -> anyhow::Result<f64> {
        let began = Instant::now();
        let mut groups = 0u64;
        while began.elapsed() < span {
            self.commit(shape)?;
            groups += 1;
        }
        Ok(groups as f64 / began.elapsed().as_secs_f64())
    }
}
