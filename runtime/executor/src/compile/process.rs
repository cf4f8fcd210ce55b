//! Compiling in a process of its own: only a process can be stopped in the middle, held to so much memory, and crash without taking
//! the server along.
//!
//! The child gets the component on its standard input and writes the code to a file that we made; nothing else of ours reaches it,
//! no variable and no open file. It has the lowest priority and dies with us. What it writes is trusted as much as the
//! compiler in our own process would be: it is the same program, and the file has no other name that anybody knows.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::Rejected;
use crate::executor::settings;
use crate::limits::{APART_ADDRESSES, APART_LOOK};
use crate::pool::threads::lower_priority;
use crate::trouble::is_shortage;

/// Where the child writes to, and how much memory it may take. Not arguments: a test is a child as well, and has its own.
const OUTPUT: &str = "WINDLASS_COMPILE_OUTPUT";
const MEMORY: &str = "WINDLASS_COMPILE_MEMORY";

/// The first byte of what the child writes.
const CODE: u8 = 0;
const INVALID: u8 = 1;

/// A child that the machine has no room for ends with this and the error's number: a full disk takes no words.
const SHORT: i32 = 64;

/// How a child is started, and what it may take.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
    pub(crate) memory: u64,
    /// Where the two files lie in the meantime.
    pub(crate) folder: PathBuf,
}

impl Apart {
    /// The code of a component, as `Component::deserialize` takes it. Blocks until the child has ended, by itself or by force.
    pub(crate) fn compile(&self, component: &[u8]) -> Result<Vec<u8>, Rejected> {
        let failed = |what: &'static str| move |error: io::Error| Rejected::ours(what, &error);
        let mut input = tempfile::tempfile_in(&self.folder).map_err(failed("no file to compile from"))?;
        let written = input.write_all(component).and_then(|()| input.rewind());
        written.map_err(failed("the component cannot be written to the disk"))?;
        let output = tempfile::NamedTempFile::new_in(&self.folder).map_err(failed("no file to compile to"))?;
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| Rejected::Internal { reason: "no compiler".to_owned() })?;
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
            _ if let Some(error) = shortage(status) => Err(Rejected::ours("the compiler cannot go on", &error)),
            // An allocation that fails ends the process.
            _ if aborted(status) => Err(Rejected::TooMuchMemory { limit: self.memory }),
            _ => Err(Rejected::Internal { reason: format!("the compiler ended with {status}") }),
        }
    }
}

/// A child that does not outlive whoever watches it.
struct Watched(Child);

impl Watched {
    fn wait(mut self, apart: &Apart) -> Result<ExitStatus, Rejected> {
        let began = Instant::now();
        let mut look = APART_LOOK / 8;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(Rejected::ours("the compiler is lost", &error)),
            }
            if began.elapsed() >= apart.time {
                return Err(Rejected::TooSlow { limit: apart.time });
            }
            if resident(self.0.id()).is_some_and(|bytes| bytes > apart.memory) {
                return Err(Rejected::TooMuchMemory { limit: apart.memory });
            }
            thread::sleep(look);
            look = (look * 2).min(APART_LOOK);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The memory that a process really has; none where the system does not tell.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches(" kB");
    kib.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// What the machine had no more of, when the child ended for that.
fn shortage(status: ExitStatus) -> Option<io::Error> {
    // A child that ended with a smaller status has failed in another way, and a negative number is no error of the system.
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

/// The child's side: what the program in `Config::compiler` must do. Reads a component from the standard input, writes its code.
pub fn compile_apart() -> Result<(), String> {
    lower_priority();
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| error.to_string())?;
    let output =
        env::var_os(OUTPUT).ok_or_else(|| format!("{OUTPUT} is not set; this is started by the server only"))?;
    let memory: u64 = env::var(MEMORY).ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX);
    let addresses = memory.saturating_add(APART_ADDRESSES);
    // Whoever watches counts what is really used; this is for what is asked for between two looks.
    let _ = setrlimit(Resource::As, Rlimit { current: Some(addresses), maximum: Some(addresses) });
    let told = |error: io::Error| {
        if let Some(code) = error.raw_os_error().filter(|_| is_shortage(&error)) {
            process::exit(SHORT + code);
        }
        error.to_string()
    };
    let mut component = Vec::new();
    io::stdin().read_to_end(&mut component).map_err(told)?;
    let engine = wasmtime::Engine::new(&settings()).map_err(|error| format!("{error:#}"))?;
    let (mark, text) = match engine.precompile_component(&component) {
        Ok(code) => (CODE, code),
        Err(error) => (INVALID, format!("{error:#}").into_bytes()),
    };
    let mut file = fs::File::create(output).map_err(told)?;
    file.write_all(&[mark]).and_then(|()| file.write_all(&text)).map_err(told)
}
