//! Compiling in a child process, which can be stopped at any point, limited in memory, and crash without ending the
//! server.
//!
//! The child reads the component from its standard input and writes the code to a file that the server created; it
//! inherits nothing else, no variable and no open file, and confines itself before it compiles, see `confinement`. It
//! has the lowest priority and is killed when the server ends. Its output is trusted as much as the compiler in the
//! server's own process: it is the same program, and nothing else knows the file's name.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::confinement::confine;
use crate::error::Rejected;
use crate::executor::settings;
use crate::limits::{COMPILE_STARVATION, COMPILER_EXTRA_ADDRESSES, COMPILER_POLL_INTERVAL};
use crate::pool::threads::lower_priority;
use crate::shortage::is_shortage;

/// Where the child writes to, and how much memory it may use. Not arguments, because in tests the child is the test
/// program, which has its own.
const OUTPUT: &str = "WINDLASS_COMPILE_OUTPUT";
const MEMORY: &str = "WINDLASS_COMPILE_MEMORY";

/// The first byte of what the child writes.
const CODE: u8 = 0;
const INVALID: u8 = 1;

/// A child that meets a shortage exits with this plus the error number, because it cannot write a message to a full
/// disk.
const SHORT: i32 = 64;

/// How a child is started, and its limits.
#[derive(Clone, Debug)]
pub(crate) struct CompilerProcess {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
    pub(crate) memory: u64,
    /// Where the component and the code are stored meanwhile.
    pub(crate) folder: PathBuf,
}

impl CompilerProcess {
    /// Returns the code of a component for `Component::deserialize`. Blocks until the child has ended, by itself or by
    /// force.
    pub(crate) fn compile(&self, component: &[u8]) -> Result<Vec<u8>, Rejected> {
        let failed = |what: &'static str| move |error: io::Error| Rejected::ours(what, &error);
        let mut input =
            tempfile::tempfile_in(&self.folder).map_err(failed("cannot create a file for the component"))?;
        let written = input.write_all(component).and_then(|()| input.rewind());
        written.map_err(failed("the component cannot be written to the disk"))?;
        let output =
            tempfile::NamedTempFile::new_in(&self.folder).map_err(failed("cannot create a file for the code"))?;
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| Rejected::Internal { reason: "no compiler is configured".to_owned() })?;
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .env(OUTPUT, output.path())
            .env(MEMORY, self.memory.to_string())
            .env("RAYON_NUM_THREADS", self.threads.to_string())
            .stdin(Stdio::from(input))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("the compiler does not start"))?;
        let status = Watched(child).wait(self)?;
        let mut written = fs::read(output.path()).map_err(failed("the code cannot be read"))?;
        match (status.success(), written.first()) {
            (true, Some(&CODE)) => {
                written.remove(0);
                Ok(written)
            }
            (true, Some(&INVALID)) => {
                Err(Rejected::Invalid { reason: String::from_utf8_lossy(&written[1..]).into_owned() })
            }
            _ if let Some(error) = shortage(status) => Err(Rejected::ours("the compiler cannot continue", &error)),
            // A failed allocation aborts the process.
            _ if aborted(status) => Err(Rejected::TooMuchMemory { limit: self.memory }),
            _ => Err(Rejected::Internal { reason: format!("the compiler ended with {status}") }),
        }
    }
}

/// A child that is killed when this is dropped.
struct Watched(Child);

impl Watched {
    fn wait(mut self, limits: &CompilerProcess) -> Result<ExitStatus, Rejected> {
        let began = Instant::now();
        let mut look = COMPILER_POLL_INTERVAL / 8;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(Rejected::ours("cannot wait for the compiler", &error)),
            }
            let used = processor_time(self.0.id()).unwrap_or(began.elapsed());
            if used >= limits.time || began.elapsed() >= limits.time.saturating_mul(COMPILE_STARVATION) {
                return Err(Rejected::TooSlow { limit: limits.time });
            }
            if resident(self.0.id()).is_some_and(|bytes| bytes > limits.memory) {
                return Err(Rejected::TooMuchMemory { limit: limits.memory });
            }
            thread::sleep(look);
            look = (look * 2).min(COMPILER_POLL_INTERVAL);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processor time of a process with all its threads; `None` on systems without `/proc`. The limit is on this and
/// not on the clock: at the lowest priority, a child on a busy machine waits far longer than it computes.
#[cfg(target_os = "linux")]
fn processor_time(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may contain spaces; user and system time are the 12th and 13th fields
    // after it, in hundredths of a second on every architecture that Linux and wasmtime share.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

#[cfg(not(target_os = "linux"))]
fn processor_time(_process: u32) -> Option<Duration> {
    None
}

/// The resident memory of a process; `None` on systems without `/proc`.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches(" kB");
    kib.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// The shortage that ended the child, if one did.
fn shortage(status: ExitStatus) -> Option<io::Error> {
    // With a smaller status the child failed in another way, and a negative number is not an error of the system.
    let number = status.code()?.checked_sub(SHORT).filter(|number| *number > 0)?;
    let error = io::Error::from_raw_os_error(number);
    is_shortage(&error).then_some(error)
}

#[cfg(unix)]
fn aborted(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(rustix::process::Signal::ABORT.as_raw())
}

#[cfg(not(unix))]
fn aborted(_status: ExitStatus) -> bool {
    false
}

/// The child's side, called by the program in `Config::compiler`: reads a component from standard input and writes its
/// code.
pub fn compile_in_child() -> Result<(), String> {
    lower_priority();
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| error.to_string())?;
    let output =
        env::var_os(OUTPUT).ok_or_else(|| format!("{OUTPUT} is not set; only the server starts this command"))?;
    let memory: u64 = env::var(MEMORY).ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX);
    let addresses = memory.saturating_add(COMPILER_EXTRA_ADDRESSES);
    // The server checks resident memory at intervals; this limits what is allocated in between.
    let _ = setrlimit(Resource::As, Rlimit { current: Some(addresses), maximum: Some(addresses) });
    let reported = |error: io::Error| {
        if let Some(code) = error.raw_os_error().filter(|_| is_shortage(&error)) {
            process::exit(SHORT + code);
        }
        error.to_string()
    };
    let mut component = Vec::new();
    io::stdin().read_to_end(&mut component).map_err(reported)?;
    let mut file = fs::File::create(output).map_err(reported)?;
    // From here on it needs nothing but memory and threads. A protection that is missing is what `windlass doctor`
    // reports.
    confine();
    let engine = wasmtime::Engine::new(&settings()).map_err(|error| format!("{error:#}"))?;
    let (mark, text) = match engine.precompile_component(&component) {
        Ok(code) => (CODE, code),
        Err(error) => (INVALID, format!("{error:#}").into_bytes()),
    };
    file.write_all(&[mark]).and_then(|()| file.write_all(&text)).map_err(reported)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn processor_time_counts_work_and_not_waiting() {
        let busy = |command: &str| Command::new("sh").args(["-c", command]).spawn().map(Watched).expect("a shell");
        let (works, waits) = (busy("while :; do :; done"), busy("sleep 60"));
        let until = Instant::now() + Duration::from_secs(60);
        while processor_time(works.0.id()).expect("a running process") < Duration::from_millis(200) {
            assert!(Instant::now() < until, "a busy process uses no processor time");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(processor_time(waits.0.id()).expect("a running process") < Duration::from_millis(200));
        assert_eq!(processor_time(u32::MAX), None);
    }
}
