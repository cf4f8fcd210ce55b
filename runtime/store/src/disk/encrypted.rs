//! Which rows are encrypted, and with whose key: those with texts of users. What rows are found by is not: names, ids,
//! tags, keys of records, times and states. The key of a row is bound to its text, so a row moved to another job or
//! kind cannot be read.

use crate::disk::data_keys::{DataKeys, ENCRYPTED};
use crate::disk::{DiskError, Space, Value};

/// Whose key encrypts the rows of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOwner {
    /// They are not encrypted.
    Nobody,
    /// That of the job which the key begins with.
    Job,
    /// That of the queue in the key.
    Queue,
    /// That of the name which the key is.
    Name,
    /// A row may hold something of several namespaces.
    Shared,
}

pub fn owner(space: Space) -> RowOwner {
    match space {
        Space::Jobs | Space::Bodies | Space::Errors | Space::Attempts | Space::Logs => RowOwner::Job,
        Space::Records => RowOwner::Queue,
        Space::Schedules => RowOwner::Name,
        Space::Events | Space::Flows | Space::Bulks | Space::Deliveries => RowOwner::Shared,
        Space::Meta
        | Space::Ready
        | Space::Lanes
        | Space::States
        | Space::Locals
        | Space::Timers
        | Space::Queues
        | Space::Limiters
        | Space::Locks
        | Space::Plugins
        | Space::Webhooks
        | Space::Blobs
        | Space::Born
        | Space::Marks
        | Space::Grants
        | Space::Secrets
        | Space::Links
        | Space::Rounds
        | Space::Access
        | Space::Audit
        | Space::InboundHooks => RowOwner::Nobody,
    }
}

/// What a row is bound to.
fn associated_data(space: Space, key: &[u8]) -> Vec<u8> {
    [space.name().as_bytes(), b"\0", key].concat()
}

pub fn encrypt(keys: &DataKeys, namespace: &str, space: Space, key: &[u8], value: &[u8]) -> Result<Vec<u8>, DiskError> {
    keys.encrypt(namespace, &associated_data(space, key), value).map_err(DiskError::Io)
}

/// A row as it was written; none if its namespace was removed and its key with it.
pub fn decrypted(keys: Option<&DataKeys>, space: Space, key: &[u8], value: Value) -> Result<Option<Value>, DiskError> {
    if value.first() != Some(&ENCRYPTED) || owner(space) == RowOwner::Nobody {
        return Ok(Some(value));
    }
    let unreadable = |why: String| DiskError::Row { space, why };
    let keys = keys.ok_or_else(|| unreadable("it is encrypted, and the store was opened without a key".into()))?;
    let text = keys.decrypt(&associated_data(space, key), &value).map_err(unreadable)?;
    Ok(text.map(Value::from))
}
