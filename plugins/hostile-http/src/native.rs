//! Natively there is nobody to speak to.

use windlass::{Error, Result};

pub fn attempt(_attempt: super::Attempt) -> Result<String> {
    Err(Error::new("there is no wasi:http outside of a component"))
}
