//! How a store is opened: where, with which clock, and what an acknowledgement of it promises.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::{SlotShare, Time, bounds};

use crate::disk::data_keys::KeyWrap;
use crate::limits;

/// Where the store gets its time from. The server's `clock` is the only reader of system time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;
}

/// What an acknowledgement promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: survives power loss.
    #[default]
    Fsync,
    /// With the operating system: survives the death of the process only.
    Os,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub dir: PathBuf,
    pub durability: Durability,
}

/// What an operator chooses for one start.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// How many acknowledged commits are known to be missing, and given up.
    pub lost: u64,
    /// Nothing starts, and nothing happens by itself, until `resume`: also after further starts.
    pub paused: bool,
    pub fair_use: FairUse,
    pub audit: AuditRetention,
    /// Without it, a store of which anything is encrypted is not opened.
    pub encryption: Option<Encryption>,
}

/// How texts of users are encrypted.
#[derive(Clone, Debug)]
pub struct Encryption {
    pub wrap: Arc<dyn KeyWrap>,
    /// Whether what is written from now on is encrypted. What was written before stays as it is and is read either way.
    pub is_on: bool,
}

/// How much of the audit log stays stored. What goes beyond is removed as new entries are written.
#[derive(Clone, Copy, Debug)]
pub struct AuditRetention {
    /// None: entries have no age at which they are removed.
    pub age: Option<Duration>,
    pub entries: u64,
}

impl Default for AuditRetention {
    fn default() -> AuditRetention {
        AuditRetention { age: None, entries: limits::AUDIT_ENTRIES }
    }
}

/// What no plugin may exceed, for the sake of the others.
#[derive(Clone, Copy, Debug)]
pub struct FairUse {
    /// How plugins share the slots of this process. None if local claims are not limited by slots.
    pub slots: Option<SlotShare>,
    /// How deep children may have children of their own.
    pub spawn_depth: u32,
}

impl Default for FairUse {
    fn default() -> FairUse {
        FairUse { slots: None, spawn_depth: bounds::SPAWN_DEPTH }
    }
}
