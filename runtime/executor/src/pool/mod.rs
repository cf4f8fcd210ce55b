//! What attempts share: places to run in, warm instances, the threads of guests and the epoch that interrupts them.

pub(crate) mod admission;
pub(crate) mod demotion;
pub(crate) mod epoch;
pub(crate) mod instances;
pub(crate) mod threads;
