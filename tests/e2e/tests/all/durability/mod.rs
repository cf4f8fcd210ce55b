//! The guarantees under failures: crashes, full disks, damaged files.

mod crash;
mod crash_progress;
mod damaged_plugin;
mod damaged_store;
mod encrypted;
mod exhausted_machine;
mod reclaim;
mod store_gone;
