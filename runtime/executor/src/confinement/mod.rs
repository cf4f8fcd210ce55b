//! Confinement of the child processes that compile components and run jq filters. Both read what strangers have
//! written, so if the compiler or the interpreter has a bug, whoever uses it should find nothing to do: no files, no
//! network, no other programs.
//!
//! A child confines itself once it has all that it needs, which is memory, threads and the files that are open. Two
//! mechanisms of Linux do that, each by itself: Landlock takes away access to files and ports, and seccomp all system
//! calls but a few. A kernel that lacks one of them still has the other; on other systems, children have only their
//! limits on memory and time.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod seccomp;
mod trespass;

use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Whether a protection is in force, and otherwise why not.
pub type Protection = Result<String, String>;

/// What confines this process, or a child of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    pub landlock: Protection,
    pub seccomp: Protection,
}

/// Confines the calling thread, and all threads that it starts from now on. A protection that this system lacks is left
/// out.
#[cfg(target_os = "linux")]
pub fn confine() -> Confinement {
    // In this order: the filter does not let the calls of Landlock pass.
    Confinement { landlock: landlock::restrict(), seccomp: seccomp::restrict() }
}

#[cfg(not(target_os = "linux"))]
pub fn confine() -> Confinement {
    let missing = || Err("this system is not Linux".to_owned());
    Confinement { landlock: missing(), seccomp: missing() }
}

/// What the children of this process are confined by: asks a child that confines itself and then tries what it must not
/// do. `command` is this program with the arguments that make it call [`report`].
pub fn of_children(command: &[OsString]) -> Result<Confinement, String> {
    let (program, arguments) = command.split_first().ok_or("no program is configured")?;
    let child = Command::new(program).args(arguments).env_clear().stdin(Stdio::null()).stderr(Stdio::null()).output();
    let child = child.map_err(|error| format!("the child that tries it does not start: {error}"))?;
    let text = String::from_utf8_lossy(&child.stdout);
    let line = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let found = found.ok_or_else(|| format!("the child that tries it ended with {}", child.status))?;
        let protection = match found.split_once(' ') {
            Some(("yes", detail)) => Ok(detail.to_owned()),
            Some((_, why)) => Err(why.to_owned()),
            None => Err(found.to_owned()),
        };
        Ok::<Protection, String>(protection)
    };
    Ok(Confinement { landlock: line("landlock")?, seccomp: line("seccomp")? })
}

/// The child's side of [`of_children`]: one line for each protection. One that lets a trespass pass is not in force.
pub fn report() -> String {
    let Confinement { landlock, seccomp } = confine();
    let possible = trespass::possible();
    let seccomp = seccomp.and_then(|detail| match possible.is_empty() {
        true => Ok(detail),
        false => Err(format!("it is installed and still permits {}", possible.join(", "))),
    });
    let line = |name: &str, protection: Protection| match protection {
        Ok(detail) => format!("{name} yes {detail}\n"),
        Err(why) => format!("{name} no {why}\n"),
    };
    line("landlock", landlock) + &line("seccomp", seccomp)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;

    use super::*;

    /// In a thread of its own, because it cannot be undone.
    fn confined<T: Send + 'static>(work: impl FnOnce(Confinement) -> T + Send + 'static) -> T {
        thread::spawn(|| work(confine())).join().expect("it does not panic")
    }

    fn is_supported() -> bool {
        cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
    }

    #[test]
    fn a_confined_process_opens_no_file_connects_nowhere_and_starts_no_program() {
        let all = trespass::TRESPASSES.map(|trespass| trespass.what);
        assert_eq!(trespass::possible(), all, "each of them is possible for a process that is not confined");
        let (confinement, possible) = confined(|confinement| (confinement, trespass::possible()));
        match confinement.seccomp {
            Ok(_) => assert_eq!(possible, Vec::<&str>::new()),
            Err(why) => assert!(!is_supported(), "{why}"),
        }
    }

    #[test]
    fn landlock_alone_keeps_a_process_from_files_where_the_kernel_has_it() {
        let (restricted, read) = thread::spawn(|| (landlock::restrict(), std::fs::read("/proc/self/status")))
            .join()
            .expect("it does not panic");
        match restricted {
            Ok(_) => assert!(read.is_err()),
            Err(why) => assert!(why.contains("kernel"), "{why}"),
        }
    }

    #[test]
    fn a_confined_process_still_computes_and_starts_threads() {
        let sum = confined(|_| {
            let work = || (0..1_000_000u64).collect::<Vec<_>>().into_iter().sum::<u64>();
            let threads: Vec<_> = (0..4).map(|_| thread::spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it computes")).sum::<u64>()
        });
        assert_eq!(sum, 4 * 499_999_500_000);
    }

    #[test]
    fn what_a_child_reports_is_understood_and_a_child_that_reports_nothing_is_an_error() {
        let echo = |text: &str| of_children(&["printf".into(), "%s\n".into(), text.into()]);
        let told = echo("landlock no the kernel has none\nseccomp yes 60 system calls").expect("it reports");
        assert_eq!((told.landlock, told.seccomp), (Err("the kernel has none".into()), Ok("60 system calls".into())));
        assert!(echo("nothing").is_err());
        assert!(of_children(&["/no/such/program".into()]).is_err());
    }
}
