//! Who gets which job: the lanes in which jobs wait, and the claims that wait for them.

pub(crate) mod claims;
#[doc(hidden)]
pub mod lanes;
