//! How rows look on disk: a format version, then the value in postcard.
//!
//! The types are core's own, so a move costs no second copy of the job. When one of them changes its shape, the old
//! shape stays here under its version number and converted on reading; `tests/fixtures` holds one packed folder of each
//! format.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::{DiskError, Space};
use crate::store::old_formats;

/// The format that nearly every row is written in today.
pub const FORMAT: u8 = 1;

/// The format of the rows of a space. The second one of plugins and grants has the queues that may be spawned into,
/// that of webhooks two secrets and the numbers of the stored deliveries, that of jobs how deep below the first job
/// they are. The third one of plugins has the schemas of payloads.
fn format(space: Space) -> u8 {
    match space {
        Space::Plugins => 3,
        Space::Jobs | Space::Grants | Space::Webhooks => 2,
        _ => FORMAT,
    }
}

/// A row of a space whose format is its own.
pub fn encode_in<T: Serialize>(space: Space, value: &T) -> Vec<u8> {
    let mut row = encode(value);
    row[0] = format(space);
    row
}

pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Nearly every row fits here: writing to a fixed buffer is several times faster than growing a vector.
    let mut buffer = [0u8; 2048];
    buffer[0] = FORMAT;
    if let Ok(used) = postcard::to_slice(value, &mut buffer[1..]) {
        let len = used.len() + 1;
        return buffer[..len].to_vec();
    }
    postcard::to_extend(value, vec![FORMAT]).expect("our rows hold nothing that postcard cannot write")
}

pub fn decode<T: DeserializeOwned>(space: Space, bytes: &[u8]) -> Result<T, DiskError> {
    let unreadable = |why: String| DiskError::Row { space, why };
    match bytes.split_first() {
        Some((version, rest)) if *version == format(space) => {
            postcard::from_bytes(rest).map_err(|error| unreadable(error.to_string()))
        }
        Some((version, rest)) if (FORMAT..format(space)).contains(version) => {
            let row = old_formats::upgrade(space, *version, rest).map_err(|error| unreadable(error.to_string()))?;
            postcard::from_bytes(&row).map_err(|error| unreadable(error.to_string()))
        }
        Some((version, _)) => Err(unreadable(format!("format {version} is not one this version knows"))),
        None => Err(unreadable("it is empty".into())),
    }
}

/// Raw bytes (a body) behind their format version.
pub fn wrap(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.push(FORMAT);
    out.extend_from_slice(bytes);
    out
}

pub fn unwrap(space: Space, bytes: &[u8]) -> Result<&[u8], DiskError> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        _ => Err(DiskError::Row { space, why: "its format is not one this version knows".into() }),
    }
}
