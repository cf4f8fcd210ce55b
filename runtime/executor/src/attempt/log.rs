//! The log of one attempt: whatever the guest writes, by call or to its standard streams, line by line, up to a limit.
//!
//! Writing never fails and never traps: what is too much is dropped, and the place is marked.

use std::sync::{Arc, Mutex, PoisonError};

use crate::attempt::meter::Life;
use crate::host::{Host, Level, LogLine, Stream};
use crate::limits::{LAST_WORDS_BYTES, LOG_LINE_BYTES};

pub(crate) struct Logbook {
    pages: Mutex<Pages>,
}

struct Pages {
    host: Arc<dyn Host>,
    life: Arc<Life>,
    limit: usize,
    written: usize,
    full: bool,
    stdout: Line,
    stderr: Line,
    /// The end of what the guest complained about: a panic message goes here before the trap.
    last_words: String,
}

/// A line of a standard stream that has not ended yet.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    too_long: bool,
}

impl Logbook {
    pub(crate) fn new(host: Arc<dyn Host>, life: Arc<Life>, limit: usize) -> Self {
        Logbook { pages: Mutex::new(Pages::new(host, life, limit)) }
    }

    /// Begins the log of the next attempt on the same instance, whose streams still lead here.
    pub(crate) fn renew(&self, host: Arc<dyn Host>, life: Arc<Life>, limit: usize) {
        *self.pages() = Pages::new(host, life, limit);
    }

    /// One message from the `log` import. It may have several lines and stays one entry.
    pub(crate) fn write(&self, stream: Stream, level: Level, message: String) {
        let mut pages = self.pages();
        pages.life.sign();
        let cut = message.len() > LOG_LINE_BYTES;
        let message = if cut { message[..message.floor_char_boundary(LOG_LINE_BYTES)].to_owned() } else { message };
        pages.put(LogLine { stream, level, message, cut });
    }

    /// Bytes written to standard output or error.
    pub(crate) fn stream(&self, stream: Stream, bytes: &[u8]) {
        let mut pages = self.pages();
        pages.life.sign();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            pages.line(stream).add(text);
            if ended {
                pages.end_line(stream);
            }
        }
    }

    /// Writes down the lines that never ended.
    pub(crate) fn finish(&self) {
        let mut pages = self.pages();
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !pages.line(stream).bytes.is_empty() {
                pages.end_line(stream);
            }
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.pages().written as u64
    }

    /// What the guest wrote to standard error, or logged as an error, most recently.
    pub(crate) fn last_words(&self) -> String {
        self.pages().last_words.trim().to_owned()
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        // A panic while it was held leaves at worst a line half written.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn new(host: Arc<dyn Host>, life: Arc<Life>, limit: usize) -> Self {
        let (stdout, stderr) = (Line::default(), Line::default());
        Pages { host, life, limit, written: 0, full: false, stdout, stderr, last_words: String::new() }
    }

    fn end_line(&mut self, stream: Stream) {
        let line = std::mem::take(self.line(stream));
        let bytes = line.bytes.strip_suffix(b"\r").unwrap_or(&line.bytes);
        let message = String::from_utf8_lossy(bytes).into_owned();
        self.put(LogLine { stream, level: Level::Info, message, cut: line.too_long });
    }

    fn put(&mut self, line: LogLine) {
        if line.stream == Stream::Stderr || line.level == Level::Error {
            self.remember(&line.message);
        }
        if self.full {
            return;
        }
        // An empty line is an entry too, and must not be free.
        let size = line.message.len() + 1;
        if size > self.limit - self.written {
            self.full = true;
            let message = format!("the log is cut here: an attempt may write {} bytes", self.limit);
            self.host.log(LogLine { stream: Stream::Log, level: Level::Warn, message, cut: true });
            return;
        }
        self.written += size;
        self.host.log(line);
    }

    fn line(&mut self, stream: Stream) -> &mut Line {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr | Stream::Log => &mut self.stderr,
        }
    }

    fn remember(&mut self, words: &str) {
        self.last_words.push_str(words);
        self.last_words.push('\n');
        if self.last_words.len() > LAST_WORDS_BYTES {
            let from = self.last_words.ceil_char_boundary(self.last_words.len() - LAST_WORDS_BYTES);
            self.last_words.drain(..from);
        }
    }
}

impl Line {
    fn add(&mut self, text: &[u8]) {
        let room = LOG_LINE_BYTES - self.bytes.len();
        if text.len() > room {
            self.too_long = true;
        }
        self.bytes.extend_from_slice(&text[..text.len().min(room)]);
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
    struct Lines(Mutex<Vec<LogLine>>);

    #[async_trait::async_trait]
    impl Host for Lines {
        fn progress(&self, _progress: Progress) {}
        fn log(&self, line: LogLine) {
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

    fn written(limit: usize, write: impl FnOnce(&Logbook)) -> Vec<LogLine> {
        let lines = Arc::new(Lines::default());
        let logbook = Logbook::new(Arc::clone(&lines) as Arc<dyn Host>, Arc::new(Life::begin(Instant::now())), limit);
        write(&logbook);
        logbook.finish();
        lines.0.lock().expect("no panic").clone()
    }

    fn texts(lines: &[LogLine]) -> Vec<&str> {
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
    fn a_full_log_says_so_once_and_takes_no_more() {
        let lines = written(10, |log| (0..100).for_each(|_| log.stream(Stream::Stdout, b"1234\n")));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2].message, "the log is cut here: an attempt may write 10 bytes");
        assert!(lines[2].cut);
    }

    #[test]
    fn last_words_survive_a_full_log() {
        let log = Logbook::new(Arc::new(Lines::default()), Arc::new(Life::begin(Instant::now())), 0);
        log.write(Stream::Log, Level::Error, "é".repeat(LAST_WORDS_BYTES));
        log.write(Stream::Log, Level::Info, "nothing of note".to_owned());
        log.stream(Stream::Stderr, b"panicked at lib.rs\n");
        assert!(log.last_words().ends_with("panicked at lib.rs"));
        assert!(log.last_words().len() <= LAST_WORDS_BYTES);
    }
}
