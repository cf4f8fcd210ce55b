//! What is in a folder: read once, sorted by name, so that both sides can be laid side by side.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// What an entry is. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    #[serde(rename = "f")]
    File,
    #[serde(rename = "d")]
    Folder,
    #[serde(rename = "l")]
    Link,
    #[serde(rename = "o")]
    Other,
}

/// One entry: its name, what it is, its bytes, and when it changed, in milliseconds since 1970. In JSON a list, to be
/// short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry(pub String, pub Kind, pub u64, pub u64);

impl Entry {
    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn is_folder(&self) -> bool {
        self.1 == Kind::Folder
    }

    pub fn bytes(&self) -> u64 {
        self.2
    }

    pub fn changed_ms(&self) -> u64 {
        self.3
    }
}

/// The entries of a folder, sorted by name. One that goes while it is looked at is left out.
pub fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(folder)? {
        let found = found?;
        let name = found.file_name().into_string().map_err(|name| {
            let why = format!("the name {name:?} is no UTF-8, and cannot be compared");
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        let about = match found.metadata() {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let kind = match about.file_type() {
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_file() => Kind::File,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        // How large a folder is, and when something in it came or went, says nothing about what is in it.
        let (bytes, changed) = if kind == Kind::Folder { (0, 0) } else { (about.len(), changed_ms(&about)) };
        entries.push(Entry(name, kind, bytes, changed));
    }
    entries.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(entries)
}

fn changed_ms(about: &fs::Metadata) -> u64 {
    let since = about.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0)
}
