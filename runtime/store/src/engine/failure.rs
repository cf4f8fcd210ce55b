//! Why the engine did not do something: it was refused, or the disk failed.

use windlass_core::Refusal;

use crate::Error;
use crate::disk::DiskError;

#[derive(Clone, Debug)]
pub enum Failure {
    /// Nothing was done; the caller gets the reason.
    Refused(Error),
    /// The engine must be rebuilt; everybody who waits gets the error.
    Disk(DiskError),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Failure {
        Failure::Disk(error)
    }
}

/// For callers that continue after a refusal: only an error of the disk stops them.
pub trait UnlessRefused<T> {
    /// None when it was refused.
    fn unless_refused(self) -> Result<Option<T>, DiskError>;
}

impl<T> UnlessRefused<T> for Result<T, Failure> {
    fn unless_refused(self) -> Result<Option<T>, DiskError> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Refused(_)) => Ok(None),
            Err(Failure::Disk(error)) => Err(error),
        }
    }
}
