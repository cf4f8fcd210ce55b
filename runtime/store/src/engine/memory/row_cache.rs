//! Small rows that many jobs share and every move of theirs changes (a batch's numbers): cached in memory, written once
//! a commit however often they changed.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::codec;
use crate::disk::{Disk, DiskError, Space, WriteBatch};

pub struct Table<V> {
    space: Space,
    /// By key; `None` is known not to be there.
    rows: FxHashMap<Vec<u8>, Option<V>>,
    changed: FxHashSet<Vec<u8>>,
}

impl<V: Serialize + DeserializeOwned> Table<V> {
    pub fn new(space: Space) -> Table<V> {
        Table { space, rows: FxHashMap::default(), changed: FxHashSet::default() }
    }

    pub fn get(&mut self, disk: &impl Disk, key: &[u8]) -> Result<Option<&V>, DiskError> {
        Ok(self.row(disk, key)?.as_ref())
    }

    /// The row, to be changed.
    pub fn change(&mut self, disk: &impl Disk, key: &[u8]) -> Result<Option<&mut V>, DiskError> {
        if self.row(disk, key)?.is_some() && !self.changed.contains(key) {
            self.changed.insert(key.to_vec());
        }
        Ok(self.row(disk, key)?.as_mut())
    }

    fn row(&mut self, disk: &impl Disk, key: &[u8]) -> Result<&mut Option<V>, DiskError> {
        match self.rows.entry(key.to_vec()) {
            Entry::Occupied(held) => Ok(held.into_mut()),
            Entry::Vacant(vacant) => {
                let row = match disk.get(self.space, key)? {
                    Some(bytes) => Some(codec::decode(self.space, &bytes)?),
                    None => None,
                };
                Ok(vacant.insert(row))
            }
        }
    }

    /// Stores the row, or removes it.
    pub fn put(&mut self, key: Vec<u8>, row: Option<V>) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    pub fn gather(&mut self, batch: &mut WriteBatch) {
        for key in self.changed.drain() {
            match self.rows.get(&key).and_then(Option::as_ref) {
                Some(row) => batch.put(self.space, key, codec::encode(row)),
                None => batch.delete(self.space, key),
            }
        }
    }

    /// Between two groups: what is not changed can be read again.
    pub fn age(&mut self, most: usize) {
        if self.rows.len() > most && self.changed.is_empty() {
            self.rows.clear();
        }
    }
}
