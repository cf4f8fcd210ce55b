//! What one run leaves for the next: the checkpoint, how many attempts there were, and how many children were started.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_executor::SavedState;

pub struct StateFile {
    path: PathBuf,
    pub saved_run: SavedRun,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SavedRun {
    /// Runs that have started.
    pub attempts: u32,
    pub children: u32,
    pub schema: u32,
    /// In Base64; absent until something is saved.
    pub state: Option<String>,
}

impl StateFile {
    /// The state of an earlier run, or an empty one.
    pub fn open(path: &Path) -> anyhow::Result<StateFile> {
        let saved_run = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} was not written by `windlass run`; remove it", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => SavedRun::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(StateFile { path: path.to_owned(), saved_run })
    }

    /// Durable when it returns, and never written partially.
    pub fn write(&self) -> std::io::Result<()> {
        let part = self.path.with_extension("part");
        let mut file = fs::File::create(&part)?;
        file.write_all(&serde_json::to_vec_pretty(&self.saved_run)?)?;
        file.sync_all()?;
        fs::rename(&part, &self.path)
    }

    pub fn remove(&self) -> std::io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl SavedRun {
    pub fn checkpoint(&self) -> Option<SavedState> {
        let bytes = STANDARD.decode(self.state.as_ref()?).ok()?;
        Some(SavedState { schema: self.schema, bytes: Bytes::from(bytes) })
    }

    pub fn save(&mut self, checkpoint: &SavedState, children: u32) {
        self.schema = checkpoint.schema;
        self.state = Some(STANDARD.encode(&checkpoint.bytes));
        self.children += children;
    }
}
