//! Which errors are the machine's and not the guest's: no file descriptors, no memory, no room. An attempt that meets one of them is
//! run again, and nobody is charged for it.

use std::error::Error as StdError;
use std::io;

use rustix::io::Errno;
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::attempt::state::Interrupted;

/// Whether the system has run out of something that everybody on it shares.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| is_short(Errno::from_raw_os_error(code)))
}

fn is_short(errno: Errno) -> bool {
    [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::AGAIN,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::ROFS,
        Errno::IO,
    ]
    .contains(&errno)
}

/// Whether a shortage is somewhere among the causes of an error.
pub(crate) fn has_shortage<'a>(causes: impl Iterator<Item = &'a (dyn StdError + 'static)>) -> bool {
    let short = |cause: &(dyn StdError + 'static)| {
        let io = cause.downcast_ref::<io::Error>().is_some_and(is_shortage);
        io || cause.downcast_ref::<Errno>().is_some_and(|errno| is_short(*errno))
    };
    let mut causes = causes;
    causes.any(short)
}

/// An instance that could not be made: by the guest's fault (it traps at its start, or wants more than it may have), or by ours.
pub(crate) fn of_instantiation(error: wasmtime::Error) -> wasmtime::Error {
    let by_guest = error.downcast_ref::<Trap>().is_some();
    let full = error.downcast_ref::<PoolConcurrencyLimitError>().is_some();
    if by_guest || !(full || has_shortage(error.chain())) {
        return error;
    }
    Interrupted(format!("the handler could not be started: {}", error.root_cause())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_descriptors_are_a_shortage_wherever_they_stand_in_the_chain_and_a_missing_file_is_none() {
        let shortage = |errno: Errno| wasmtime::Error::from(io::Error::from(errno)).context("cannot make an instance");
        let interrupted = of_instantiation(shortage(Errno::MFILE));
        let told = interrupted.downcast_ref::<Interrupted>().expect("the machine's fault");
        assert!(told.0.contains("could not be started"), "{}", told.0);
        assert!(of_instantiation(shortage(Errno::NOENT)).downcast_ref::<Interrupted>().is_none());
        let trapped = of_instantiation(wasmtime::Error::from(Trap::UnreachableCodeReached));
        assert!(trapped.downcast_ref::<Interrupted>().is_none(), "the guest's own");
    }
}
