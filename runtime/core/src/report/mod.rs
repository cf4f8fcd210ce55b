//! What many jobs say together, for people: dead jobs by what they died of, and what ended jobs used. Each is fed one
//! job at a time and holds a bounded number of groups; how jobs are found, and how many of them are looked at, is the
//! store's matter.
//!
//! Reading order: `fingerprint` (which errors are the same one), `failures` (dead jobs by it), `usage` (what ended jobs
//! cost).

mod failures;
mod fingerprint;
mod usage;

pub use failures::{FailureGroup, Failures, RanBy};
pub use fingerprint::{FINGERPRINT_BYTES, fingerprint, pattern};
pub use usage::{UsageBy, UsageReport, UsageSum};
