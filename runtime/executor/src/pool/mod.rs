//! What attempts share: admission to the instance pool, idle instances, the guests' threads and the epoch that
//! interrupts them.

pub(crate) mod admission;
pub(crate) mod demotion;
pub(crate) mod epoch;
pub(crate) mod instances;
pub(crate) mod threads;
