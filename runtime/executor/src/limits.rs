//! Every limit of this crate, in one place.
//!
//! `Limits` is what one attempt may use; the server fills it from the job, the queue and the plugin. The constants are what
//! nobody needs to tune, each with its reason.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What one attempt may use. `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All linear memories and tables of the attempt together. One `memory.fill` cannot be interrupted, and takes up to 0.8 s
    /// for a GiB, so this bounds how late a stop can be, too.
    pub memory_bytes: usize,
    /// Wall time of the attempt. When it is used up the attempt is asked to stop, and soon after stopped dead.
    pub attempt_timeout: Option<Duration>,
    /// Time without progress, checkpoint or log line. When it is used up the attempt is stopped dead.
    pub stall_timeout: Option<Duration>,
    /// Processor time of the attempt.
    pub cpu_time: Option<Duration>,
    /// Bytes of log, its own calls and standard output and error together. What comes after is dropped and marked.
    pub log_bytes: usize,
    /// Bytes of one checkpoint.
    pub checkpoint_bytes: usize,
    /// Bytes of the result.
    pub result_bytes: usize,
    /// Children waiting for the next checkpoint or the result.
    pub children: usize,
    /// Bytes of those children, payloads and all.
    pub children_bytes: usize,
    /// What each of its HTTP requests may take.
    pub http: HttpLimits,
}

/// What one HTTP request of a guest may take, and how many there may be. The guest may ask for shorter times, not for longer ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Waiting for a free line, finding the address, connecting and agreeing on encryption.
    pub connect: Duration,
    /// From there to the head of the answer, the sending of the request included.
    pub first_byte: Duration,
    /// Silence in the middle of the answer.
    pub between_bytes: Duration,
    /// All of it, to the last byte of the answer.
    pub total: Duration,
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// Requests of one attempt that are open at once. More wait for their turn.
    pub at_once: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            between_bytes: Duration::from_secs(30),
            total: Duration::from_secs(15 * 60),
            request_bytes: 64 * MIB as u64,
            response_bytes: 256 * MIB as u64,
            at_once: 16,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory_bytes: 256 * MIB,
            attempt_timeout: Some(Duration::from_secs(60 * 60)),
            stall_timeout: None,
            cpu_time: None,
            log_bytes: MIB,
            checkpoint_bytes: 16 * MIB,
            result_bytes: 16 * MIB,
            children: 1_000,
            children_bytes: 16 * MIB,
            http: HttpLimits::default(),
        }
    }
}

impl Limits {
    /// How many bytes a guest may hand over in one call. Above this the call traps before the host has copied them; below
    /// it the callee refuses in words what is too large for it.
    pub(crate) fn bytes_per_call(&self) -> usize {
        let largest = self.checkpoint_bytes.max(self.result_bytes).max(self.children_bytes);
        largest.saturating_mul(2).saturating_add(MIB)
    }
}

/// Processor time after which an attempt goes on among those that compute for long. A handler in Python starts within it.
pub const YOUNG: Duration = Duration::from_millis(20);

/// How many polls a thread of the young does before it looks at timers. Each look is a call into the system; most polls there are
/// short, and none is longer than a tick.
pub(crate) const YOUNG_EVENTS: u32 = 8;

/// How long an attempt may go on after its time is used up, to save a last checkpoint.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

/// One tick of the epoch clock: the longest a computing guest keeps a thread to itself.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// The ticker goes on for this many ticks after the last guest has left the processor, so that a guest that sleeps and wakes
/// does not pay for waking the ticker each time.
pub(crate) const IDLE_TICKS: u32 = 64;

/// The largest component that is accepted. A Python component takes 18 MiB.
pub(crate) const COMPONENT_BYTES: usize = 64 * MIB;

/// How much memory of an instance stays for the next one in its place, of what it has written; and of each of its tables. The pool
/// keeps a hundred such places at most.
pub(crate) const KEPT_MEMORY: usize = 512 * KIB;
pub(crate) const KEPT_TABLE: usize = 64 * KIB;

/// How many bytes of checkpoints an attempt may save in a second; and how many at once before that counts.
pub(crate) const SAVED_PER_SECOND: usize = 8 * MIB;
pub(crate) const SAVED_AT_ONCE: usize = 32 * MIB;

/// One line of the log. Longer lines are cut.
pub(crate) const LOG_LINE_BYTES: usize = 8 * KIB;
/// How much of what the guest wrote last goes into the error when it traps: there a panic message is found.
pub(crate) const LAST_WORDS_BYTES: usize = 2 * KIB;
/// The error message of a failure.
pub(crate) const ERROR_BYTES: usize = 8 * KIB;
/// The backtrace of a failure.
pub(crate) const BACKTRACE_BYTES: usize = 32 * KIB;

/// Short texts of a progress event: phase and unit.
pub(crate) const NAME_BYTES: usize = 256;
/// The message of a progress event.
pub(crate) const MESSAGE_BYTES: usize = 4 * KIB;
/// The detail of a progress event.
pub(crate) const DETAIL_BYTES: usize = 16 * KIB;

/// Children in one page, and the bytes of their results together.
pub(crate) const CHILDREN_PAGE: usize = 100;
pub(crate) const CHILDREN_PAGE_BYTES: usize = MIB;

/// A key, a value and a mark of a record.
pub(crate) const RECORD_KEY_BYTES: usize = windlass_core::bounds::RECORD_KEY_BYTES;
pub(crate) const RECORD_BYTES: usize = windlass_core::bounds::RECORD_BYTES;
pub(crate) const MARK_BYTES: usize = windlass_core::bounds::MARK_BYTES;
/// Records that wait for the next checkpoint or the result, as many marks, and the bytes of all of them.
pub(crate) const NOTES: usize = windlass_core::bounds::NOTES;
pub(crate) const NOTES_BYTES: usize = windlass_core::bounds::NOTES_BYTES;

/// Random bytes in one call; each call is host time that the epoch cannot interrupt.
pub(crate) const RANDOM_BYTES: u64 = MIB as u64;

/// Handles (streams, pollables, descriptors) that a guest holds at once; each is host memory.
pub(crate) const RESOURCES: usize = 10_000;

/// HTTP requests and lists of headers that a guest has made and not sent; each is host memory.
pub(crate) const HTTP_UNSENT: usize = 1_000;
/// HTTP requests that one attempt has sent and that are not over, those included that wait for their turn.
pub(crate) const HTTP_OPEN: usize = 256;
/// The parts of a request. What is longer is refused when it is set.
pub(crate) const HTTP_METHOD_BYTES: usize = 64;
pub(crate) const HTTP_AUTHORITY_BYTES: usize = 512;
pub(crate) const HTTP_PATH_BYTES: usize = 16 * KIB;
/// One list of headers, as it lies in memory.
pub(crate) const HTTP_FIELDS_BYTES: usize = 32 * KIB;
/// Headers of a request or an answer, and the bytes of an answer's head.
pub(crate) const HTTP_HEADERS: usize = 128;
pub(crate) const HTTP_HEAD_BYTES: usize = 64 * KIB;
/// Addresses of one name that are tried.
pub(crate) const HTTP_ADDRESSES: usize = 8;
/// The pause before a connection is tried again that this machine had no descriptors for.
pub(crate) const HTTP_SHORTAGE: Duration = Duration::from_millis(100);
/// Names that are looked up at once for all guests together; each takes a thread, and cannot be interrupted.
pub(crate) const HTTP_LOOKUPS: usize = 32;
/// Refused requests that the error of an attempt names.
pub(crate) const HTTP_REFUSALS: usize = 8;

/// Instances that are kept for reuse at once, over all plugins.
pub(crate) const KEPT: usize = 64;
/// How long an instance is kept when nobody wants it.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(60);

/// One part in so many of the pool is for plugins that hold less than that.
pub(crate) const RESERVED_PART: u32 = 8;
/// How often lighter attempts may go before a heavy one that does not fit yet.
pub(crate) const OVERTAKEN: u32 = 64;

/// How long compiling may take. On threads of our own the work cannot be interrupted, so whoever waits is told, and it ends by
/// itself; in a process of its own it is stopped.
pub(crate) const COMPILE_TIME: Duration = Duration::from_secs(120);
/// A compile that takes longer than this no longer holds up the next.
pub(crate) const COMPILE_TURN: Duration = Duration::from_secs(5);
/// How many compiles go on at once at most, the given up ones included: each may take half a GiB.
pub(crate) const COMPILES: usize = 3;
/// How much memory compiling may take, in a process of its own. A Python component takes half of it.
pub(crate) const COMPILE_MEMORY: u64 = 1024 * MIB as u64;
/// How many more addresses than bytes that process may have: reserved, and never touched.
pub(crate) const APART_ADDRESSES: u64 = 4096 * MIB as u64;
/// How often such a process is looked at, once it has gone on for a while.
pub(crate) const APART_LOOK: Duration = Duration::from_millis(16);
/// The code of one function. Compiling takes more than twice the time and memory for twice the size; the largest function of a
/// Python or JavaScript engine has a few hundred KiB.
pub(crate) const FUNCTION_BYTES: usize = 2 * MIB;

/// Shares of the instance pool. One share is one memory and `TABLES_PER_SHARE` tables.
pub(crate) const SHARES: u32 = 1_024;
pub(crate) const TABLES_PER_SHARE: u32 = 4;
/// What one component may take from the pool at most.
pub(crate) const MEMORIES_PER_COMPONENT: u32 = 16;
pub(crate) const TABLES_PER_COMPONENT: u32 = 64;
pub(crate) const CORE_INSTANCES_PER_COMPONENT: u32 = 128;
/// Elements of one table. A Go or C# module has some ten thousand functions.
pub(crate) const TABLE_ELEMENTS: usize = 100_000;

/// Stack of the wasm code itself, and of the fiber that holds it together with the host calls it makes.
pub(crate) const WASM_STACK_BYTES: usize = 512 * KIB;
pub(crate) const FIBER_STACK_BYTES: usize = 2 * MIB;

/// Cuts a text to at most `max` bytes, between two characters, and says so at the cut.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    const MARK: &str = " [cut]";
    if text.len() > max {
        let mut end = max.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_keeps_whole_characters_and_shows_the_cut() {
        assert_eq!(cut("short".into(), 10), "short");
        assert_eq!(cut("äääääääää".into(), 11), "ää [cut]");
        assert!(cut("x".repeat(100), 20).len() <= 20);
    }
}
