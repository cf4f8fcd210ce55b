//! Who gets which job: the lanes in which jobs wait, and the claims that wait for them.

pub(crate) mod claims;
// Public for the simulator, which reads the disk itself.
#[doc(hidden)]
pub mod lanes;
