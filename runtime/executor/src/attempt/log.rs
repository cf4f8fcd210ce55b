//! The log of one attempt: what the guest logs or writes to its standard streams, line by line, up to a limit.
//!
//! Writing never fails and never traps: what exceeds the limit is dropped, and a line in the log says so.

use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::LimitKind;

use crate::attempt::gauge::Gauge;
use crate::attempt::meter::Liveness;
use crate::host::{GuestLogLine, Host, Level, Stream};
use crate::limits::{LAST_OUTPUT_BYTES, LOG_LINE_BYTES};

pub(crate) struct AttemptLog {
    state: Mutex<LogState>,
}

struct LogState {
    host: Arc<dyn Host>,
    liveness: Arc<Liveness>,
    gauge: Arc<Gauge>,
    limit: usize,
    written: usize,
    full: bool,
    stdout: Line,
    stderr: Line,
    /// The end of the guest's error output, where a panic message is written before the trap.
    last_output: String,
}

/// A line of a standard stream that has not ended yet.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    too_long: bool,
}

impl AttemptLog {
    pub(crate) fn new(host: Arc<dyn Host>, liveness: Arc<Liveness>, gauge: Arc<Gauge>, limit: usize) -> Self {
        AttemptLog { state: Mutex::new(LogState::new(host, liveness, gauge, limit)) }
    }

    /// Starts the log of the next attempt on the same instance, whose streams still write here.
    pub(crate) fn renew(&self, host: Arc<dyn Host>, liveness: Arc<Liveness>, gauge: Arc<Gauge>, limit: usize) {
        *self.state() = LogState::new(host, liveness, gauge, limit);
    }

    /// Writes one message of the `log` import. It may have several lines and stays one entry.
    pub(crate) fn write(&self, stream: Stream, level: Level, message: String) {
        let mut state = self.state();
        state.liveness.sign();
        let cut = message.len() > LOG_LINE_BYTES;
        let message = if cut { message[..message.floor_char_boundary(LOG_LINE_BYTES)].to_owned() } else { message };
        state.put(GuestLogLine { stream, level, message, cut });
    }

    /// Writes bytes from standard output or error.
    pub(crate) fn stream(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        state.liveness.sign();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            state.line(stream).add(text);
            if ended {
                state.end_line(stream);
            }
        }
    }

    /// Writes the lines that have no line break yet.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !state.line(stream).bytes.is_empty() {
                state.end_line(stream);
            }
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.state().written as u64
    }

    /// What the guest wrote to standard error, or logged as an error, most recently.
    pub(crate) fn last_output(&self) -> String {
        self.state().last_output.trim().to_owned()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LogState> {
        // A panic under the lock leaves at worst half a line.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn new(host: Arc<dyn Host>, liveness: Arc<Liveness>, gauge: Arc<Gauge>, limit: usize) -> Self {
        let (stdout, stderr) = (Line::default(), Line::default());
        LogState { host, liveness, gauge, limit, written: 0, full: false, stdout, stderr, last_output: String::new() }
    }

    fn end_line(&mut self, stream: Stream) {
        let line = std::mem::take(self.line(stream));
        let bytes = line.bytes.strip_suffix(b"\r").unwrap_or(&line.bytes);
        let message = String::from_utf8_lossy(bytes).into_owned();
        self.put(GuestLogLine { stream, level: Level::Info, message, cut: line.too_long });
    }

    fn put(&mut self, line: GuestLogLine) {
        if line.stream == Stream::Stderr || line.level == Level::Error {
            self.remember(&line.message);
        }
        if self.full {
            return;
        }
        // An empty line is an entry as well, so it must count.
        let size = line.message.len() + 1;
        if size > self.limit - self.written {
            self.full = true;
            self.gauge.hit(LimitKind::Log);
            let message = format!("the log is cut here: an attempt may write {} bytes", self.limit);
            self.host.log(GuestLogLine { stream: Stream::Log, level: Level::Warn, message, cut: true });
            return;
        }
        self.written += size;
        self.gauge.set_log(self.written);
        self.host.log(line);
    }

    fn line(&mut self, stream: Stream) -> &mut Line {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr | Stream::Log => &mut self.stderr,
        }
    }

    fn remember(&mut self, message: &str) {
        self.last_output.push_str(message);
        self.last_output.push('\n');
        if self.last_output.len() > LAST_OUTPUT_BYTES {
            let from = self.last_output.ceil_char_boundary(self.last_output.len() - LAST_OUTPUT_BYTES);
            self.last_output.drain(..from);
        }
    }
}

impl Line {
    fn add(&mut self, text: &[u8]) {
        let free = LOG_LINE_BYTES - self.bytes.len();
        if text.len() > free {
            self.too_long = true;
        }
        self.bytes.extend_from_slice(&text[..text.len().min(free)]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use windlass_core::{Progress, Usage};

    use crate::attempt::SavedState;
    use crate::host::{HostError, Uncommitted};

    #[derive(Default)]
    struct Lines(Mutex<Vec<GuestLogLine>>);

    #[async_trait::async_trait]
    impl Host for Lines {
        fn progress(&self, _progress: Progress) {}
        fn log(&self, line: GuestLogLine) {
            self.0.lock().expect("no panic").push(line);
        }
        async fn checkpoint(
            &self,
            _state: SavedState,
            _uncommitted: Uncommitted,
            _used: Usage,
        ) -> Result<(), HostError> {
            Ok(())
        }
    }

    fn written(limit: usize, write: impl FnOnce(&AttemptLog)) -> Vec<GuestLogLine> {
        let lines = Arc::new(Lines::default());
        let log = AttemptLog::new(
            Arc::clone(&lines) as Arc<dyn Host>,
            Arc::new(Liveness::begin(Instant::now())),
            Arc::default(),
            limit,
        );
        write(&log);
        log.finish();
        lines.0.lock().expect("no panic").clone()
    }

    fn texts(lines: &[GuestLogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.message.as_str()).collect()
    }

    #[test]
    fn streams_become_lines_however_they_are_chunked() {
        let lines = written(1_000, |log| {
            log.stream(Stream::Stdout, b"one\ntw");
            log.stream(Stream::Stderr, b"other");
            log.stream(Stream::Stdout, b"o\r\n\nend");
        });
        assert_eq!(texts(&lines), ["one", "two", "", "end", "other"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let lines = written(1_000_000, |log| {
            log.stream(Stream::Stdout, &vec![b'x'; LOG_LINE_BYTES]);
            log.stream(Stream::Stdout, &vec![b'x'; LOG_LINE_BYTES]);
            log.stream(Stream::Stdout, b"\nnext\n");
        });
        assert_eq!((lines[0].message.len(), lines[0].cut), (LOG_LINE_BYTES, true));
        assert_eq!((lines[1].message.as_str(), lines[1].cut), ("next", false));
    }

    #[test]
    fn a_full_log_says_so_once_and_accepts_no_more() {
        let lines = written(10, |log| (0..100).for_each(|_| log.stream(Stream::Stdout, b"1234\n")));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2].message, "the log is cut here: an attempt may write 10 bytes");
        assert!(lines[2].cut);
    }

    #[test]
    fn the_last_output_survives_a_full_log() {
        let log =
            AttemptLog::new(Arc::new(Lines::default()), Arc::new(Liveness::begin(Instant::now())), Arc::default(), 0);
        log.write(Stream::Log, Level::Error, "é".repeat(LAST_OUTPUT_BYTES));
        log.write(Stream::Log, Level::Info, "nothing of note".to_owned());
        log.stream(Stream::Stderr, b"panicked at lib.rs\n");
        assert!(log.last_output().ends_with("panicked at lib.rs"));
        assert!(log.last_output().len() <= LAST_OUTPUT_BYTES);
    }
}
