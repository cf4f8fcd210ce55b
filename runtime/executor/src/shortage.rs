//! Which errors are the machine's and not the guest's: no file descriptors, no memory, no disk space. An attempt that
//! ends with one of them is run again, and it does not count as a failure.

use std::error::Error as StdError;
use std::io;

use rustix::io::Errno;
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::attempt::state::Interrupted;

/// Whether the system has run out of a shared resource.
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

/// Tells failures to instantiate that are the guest's (a trap at its start, a limit exceeded) from shortages of the
/// host.
pub(crate) fn of_instantiation(error: wasmtime::Error) -> wasmtime::Error {
    let by_guest = error.downcast_ref::<Trap>().is_some();
    let full = error.downcast_ref::<PoolConcurrencyLimitError>().is_some();
    if by_guest || !(full || has_shortage(error.chain())) {
        return error;
    }
    Interrupted(format!("the handler could not be started on this server: {}", error.root_cause())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_descriptors_are_a_shortage_anywhere_in_the_chain_and_a_missing_file_is_not() {
        let shortage =
            |errno: Errno| wasmtime::Error::from(io::Error::from(errno)).context("cannot create an instance");
        let interrupted = of_instantiation(shortage(Errno::MFILE));
        let interrupted_by = interrupted.downcast_ref::<Interrupted>().expect("the machine's fault");
        assert!(interrupted_by.0.contains("could not be started"), "{}", interrupted_by.0);
        assert!(of_instantiation(shortage(Errno::NOENT)).downcast_ref::<Interrupted>().is_none());
        let trapped = of_instantiation(wasmtime::Error::from(Trap::UnreachableCodeReached));
        assert!(trapped.downcast_ref::<Interrupted>().is_none(), "the guest's own");
    }
}
