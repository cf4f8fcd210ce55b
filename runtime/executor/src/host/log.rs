//! `log`: lines for the job's log. Standard output and error arrive in the same log through `stdio`.

use crate::attempt::state::State;
use crate::bindings::windlass::job::log as wit;
use crate::bindings::windlass::job::types;

/// One line of the job's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestLogLine {
    pub stream: Stream,
    pub level: Level,
    pub message: String,
    /// Something is missing after this: the rest of the line, or of the log.
    pub cut: bool,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The `log` import.
    Log,
    Stdout,
    Stderr,
}

/// How serious a line or an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

impl From<types::Level> for Level {
    fn from(level: types::Level) -> Self {
        match level {
            types::Level::Debug => Level::Debug,
            types::Level::Info => Level::Info,
            types::Level::Warn => Level::Warn,
            types::Level::Error => Level::Error,
        }
    }
}

impl wit::Host for State {
    fn write(&mut self, level: types::Level, message: String) -> wasmtime::Result<()> {
        self.host_called();
        self.log.write(Stream::Log, level.into(), message);
        Ok(())
    }
}
