//! The store's tests, in one binary: the simulator below the seam, the conformance suite above it, and what a real data
//! folder goes through: damage, a full disk, old formats.

mod conformance;
mod damage;
mod damaged_checkpoint;
mod damaged_table;
mod disk_full;
mod encrypted;
mod folder;
mod formats;
mod pack;
mod reclaim;
mod rng;
mod simulator;
mod vanish;
mod wrap;
