//! The operating system's limit on open files, which includes sockets and pipes: raised as far as possible, and
//! divided, so that connections never take the files that the store and the guests need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::limits;

/// Raises the limit as far as this process may, and returns how many files can be open.
pub fn raise() -> usize {
    let now = getrlimit(Resource::Nofile);
    let before = now.current.unwrap_or(u64::MAX);
    // Without a hard limit the system still has one of its own, and may accept only a smaller number.
    let most = now.maximum.unwrap_or(u64::MAX).min(limits::OPEN_FILES_MOST);
    let wanted = [most, limits::OPEN_FILES_MODEST].into_iter().filter(|wanted| (before + 1..=most).contains(wanted));
    for current in wanted {
        let raised = Rlimit { current: Some(current), maximum: now.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            info!("{current} files may be open at once; it was {before}");
            return usize::try_from(current).unwrap_or(usize::MAX);
        }
    }
    info!("{before} files may be open at once");
    usize::try_from(before).unwrap_or(usize::MAX)
}

/// How many connections may be open: they get a third of the files, the bodies that they send another, and the rest is
/// for the store, guests, compilers and searches. Only a number that somebody has asked for is missed.
pub fn connections(wanted: Option<usize>, files: usize) -> usize {
    let most = (files / 3).max(1);
    if let Some(wanted) = wanted.filter(|wanted| *wanted > most) {
        warn!(
            "at most {most} connections can be open at once, not {wanted}: {files} files may be open, and some are reserved for the \
             store; raise that limit (`ulimit -n`, or LimitNOFILE= of a service) to allow more, or lower --max-connections"
        );
    }
    wanted.unwrap_or(limits::CONNECTIONS).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(connections(None, 1_048_576), limits::CONNECTIONS);
        assert_eq!(connections(None, 256), 85);
        assert_eq!(connections(Some(10_000), 0), 1);
        assert_eq!(connections(Some(7), 256), 7);
    }

    #[test]
    fn the_limit_is_raised_and_stays_raised() {
        let first = raise();
        assert!(first > 0);
        assert_eq!(raise(), first);
    }
}
