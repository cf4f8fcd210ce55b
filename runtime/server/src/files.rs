//! The operating system's limit on open files, which sockets and pipes count against as well: raised as far as it goes, and shared
//! out, so that connections never take what the store and the guests need to go on.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::info;

use crate::limits;

/// Raises the limit as far as this process may, and says how many files can be open.
pub fn raise() -> usize {
    let now = getrlimit(Resource::Nofile);
    let before = now.current.unwrap_or(u64::MAX);
    // Where there is no bound, the system has one all the same, and a smaller number may be taken.
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

/// How many connections may be open: a third of the files are theirs, a third are for the bodies that they bring, and a third for
/// everything else: the store, guests, compilers and searches.
pub fn connections(wanted: usize, files: usize) -> usize {
    let most = (files / 3).max(1);
    if most < wanted {
        info!(
            "at most {most} connections are open at once, not {wanted}: {files} files may be open, and some are kept for the store; \
             raise that limit (`ulimit -n`, or LimitNOFILE= of a service) to have more"
        );
    }
    wanted.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everybody_else() {
        assert_eq!(connections(10_000, 1_048_576), 10_000);
        assert_eq!(connections(10_000, 256), 85);
        assert_eq!(connections(10_000, 0), 1);
        assert_eq!(connections(7, 256), 7);
    }

    #[test]
    fn the_limit_is_raised_and_stays_raised() {
        let first = raise();
        assert!(first > 0);
        assert_eq!(raise(), first);
    }
}
