//! Every limit of this crate, in one place.
//!
//! `Limits` is what one attempt may use; the server fills it from the job, the queue and the plugin. The constants need
//! no tuning; each has its reason.

use std::time::Duration;

use crate::attempt::disk_rate::Rate;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What one attempt may use. `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All linear memories and tables of the attempt together. A single `memory.fill` cannot be interrupted and takes
    /// up to 0.8 s for a GiB, so this also bounds how late a stop can be.
    pub memory_bytes: usize,
    /// Wall time of the attempt. When it is used up, the attempt is asked to stop, and soon after stopped by force.
    pub attempt_timeout: Option<Duration>,
    /// Time without progress, checkpoint or log line. When it is used up, the attempt is stopped by force.
    pub stall_timeout: Option<Duration>,
    /// Processor time of the attempt.
    pub cpu_time: Option<Duration>,
    /// Bytes of log: log calls, standard output and standard error together. The rest is dropped, and the log says so.
    pub log_bytes: usize,
    /// Bytes of one checkpoint.
    pub checkpoint_bytes: usize,
    /// Bytes of the result.
    pub result_bytes: usize,
    /// Children waiting for the next checkpoint or the result.
    pub children: usize,
    /// Bytes of those children, including their payloads.
    pub children_bytes: usize,
    /// What each of its HTTP requests may use.
    pub http: RequestLimits,
}

/// What one HTTP request of a guest may use, and how many there may be. The guest may set shorter timeouts, but not
/// longer ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Waiting for a free connection, DNS, connecting and the TLS handshake.
    pub connect: Duration,
    /// From there to the head of the response, including sending the request.
    pub first_byte: Duration,
    /// Between two parts of the response.
    pub between_bytes: Duration,
    /// The whole request, to the last byte of the response.
    pub total: Duration,
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// Requests that one attempt has open at once. Further ones wait.
    pub at_once: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
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
            attempt_timeout: Some(windlass_core::bounds::ATTEMPT_TIMEOUT),
            stall_timeout: None,
            cpu_time: None,
            log_bytes: MIB,
            checkpoint_bytes: 16 * MIB,
            result_bytes: 16 * MIB,
            children: 1_000,
            children_bytes: 16 * MIB,
            http: RequestLimits::default(),
        }
    }
}

impl Limits {
    /// How many bytes a guest may pass in one call. Above this the call traps before the host has copied them; below
    /// it, the host function returns an error for what is too large.
    pub(crate) fn bytes_per_call(&self) -> usize {
        let largest = self.checkpoint_bytes.max(self.result_bytes).max(self.children_bytes);
        largest.saturating_mul(2).saturating_add(MIB)
    }
}

/// Processor time after which an attempt is moved to the threads for long computations. A Python handler starts within
/// it.
pub const DEMOTE_AFTER: Duration = Duration::from_millis(20);

/// How many polls a thread for short attempts does before it checks its timers. Each check is a system call; most polls
/// there are short, and none is longer than a tick.
pub(crate) const SHORT_EVENT_INTERVAL: u32 = 8;

/// How long an attempt may continue after its timeout, to save a last checkpoint.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

/// One tick of the epoch clock: the longest a computing guest keeps a thread to itself.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// The ticker continues for this many ticks after the last guest has left the processor, so that a guest that sleeps
/// and wakes does not have to wake the ticker each time.
pub(crate) const IDLE_TICKS: u32 = 64;

/// The largest component that is accepted. A Python component takes 18 MiB.
pub(crate) const COMPONENT_BYTES: usize = 64 * MIB;

/// How much written memory of an instance, and of each of its tables, stays resident for the next instance that is put
/// there. The pool keeps at most a hundred such instances.
pub(crate) const RESIDENT_MEMORY: usize = 512 * KIB;
pub(crate) const RESIDENT_TABLE: usize = 64 * KIB;

/// How much an attempt may write to the disk, and all attempts of a plugin together: checkpoints, results, children,
/// records and log. Progress is not counted: of twenty reports a second one is written, of 20 KiB at most.
pub(crate) const OF_ATTEMPT: Rate = Rate { per_second: 8 * MIB, at_once: 32 * MIB };
pub(crate) const OF_PLUGIN: Rate = Rate { per_second: 64 * MIB, at_once: 256 * MIB };
/// Plugins whose budget is remembered; more only while they run or owe.
pub(crate) const DISK_BUDGETS: usize = 1_024;
/// What a child costs besides its payload, tags and texts, and what a record or a mark costs besides its own.
pub(crate) const CHILD_COST: usize = 4 * KIB;
pub(crate) const NOTE_COST: usize = 512;

/// One line of the log. Longer lines are cut.
pub(crate) const LOG_LINE_BYTES: usize = 8 * KIB;
/// How much of the guest's most recent output is included in the error when it traps: a panic message is there.
pub(crate) const LAST_OUTPUT_BYTES: usize = 2 * KIB;
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

/// Random bytes in one call; the epoch cannot interrupt a host call.
pub(crate) const RANDOM_BYTES: u64 = MIB as u64;

/// Handles (streams, pollables, descriptors) that a guest holds at once; each is host memory.
pub(crate) const RESOURCES: usize = 10_000;

/// HTTP requests and lists of headers that a guest has created and not sent; each is host memory.
pub(crate) const HTTP_UNSENT: usize = 1_000;
/// HTTP requests that one attempt has sent and that have not ended, including those that wait for a connection.
pub(crate) const HTTP_OPEN: usize = 256;
/// The parts of a request. Setting a longer one fails.
pub(crate) const HTTP_METHOD_BYTES: usize = 64;
pub(crate) const HTTP_AUTHORITY_BYTES: usize = 512;
pub(crate) const HTTP_PATH_BYTES: usize = 16 * KIB;
/// One list of headers, in memory.
pub(crate) const HTTP_FIELDS_BYTES: usize = 32 * KIB;
/// Headers of a request or a response, and the bytes of a response's head.
pub(crate) const HTTP_HEADERS: usize = 128;
pub(crate) const HTTP_HEAD_BYTES: usize = 64 * KIB;
/// Addresses of one name that are tried.
pub(crate) const HTTP_ADDRESSES: usize = 8;
/// The pause before retrying a connection for which this machine had no file descriptor.
pub(crate) const HTTP_SHORTAGE: Duration = Duration::from_millis(100);
/// DNS lookups at once for all guests together; each takes a thread and cannot be interrupted.
pub(crate) const HTTP_LOOKUPS: usize = 32;
/// Denied requests that the error of an attempt lists.
pub(crate) const HTTP_REFUSALS: usize = 8;

/// Idle instances retained for reuse, over all plugins.
pub(crate) const IDLE_INSTANCES: usize = 64;
/// How long an idle instance is retained.
pub(crate) const IDLE_INSTANCE_TIME: Duration = Duration::from_secs(60);

/// The fraction of the pool (one in this many) that is reserved for plugins that hold less than that fraction.
pub(crate) const RESERVED_PART: u32 = 8;
/// How often lighter attempts may overtake a heavy one that does not fit yet.
pub(crate) const OVERTAKEN: u32 = 64;

/// How long compiling may take. On threads of this process the work cannot be interrupted, so the caller gets an error
/// and the work ends by itself; a child process is killed, and only its processor time counts.
pub(crate) const COMPILE_TIME: Duration = Duration::from_secs(120);
/// How many times longer a child process may take by the clock, when a busy machine leaves it little of the processor.
pub(crate) const COMPILE_STARVATION: u32 = 10;
/// A compilation that takes longer than this no longer delays the next one.
pub(crate) const COMPILE_TURN: Duration = Duration::from_secs(5);
/// How many compilations run at once, including abandoned ones: each may take half a GiB.
pub(crate) const COMPILES: usize = 3;
/// How much memory compiling may take in a child process. A Python component takes half of it.
pub(crate) const COMPILE_MEMORY: u64 = 1024 * MIB as u64;
/// How much address space that process may reserve beyond its memory limit, without touching it.
pub(crate) const COMPILER_EXTRA_ADDRESSES: u64 = 4096 * MIB as u64;
/// How often such a process is checked, after a start at shorter intervals.
pub(crate) const COMPILER_POLL_INTERVAL: Duration = Duration::from_millis(16);
/// The code of one function. Compiling takes more than twice the time and memory for twice the size; the largest
/// function of a Python or JavaScript engine has a few hundred KiB.
pub(crate) const FUNCTION_BYTES: usize = 2 * MIB;

/// Shares of the instance pool. One share is one memory and `TABLES_PER_SHARE` tables.
pub(crate) const SHARES: u32 = 1_024;
pub(crate) const TABLES_PER_SHARE: u32 = 4;
/// The most that one component may take from the pool.
pub(crate) const MEMORIES_PER_COMPONENT: u32 = 16;
pub(crate) const TABLES_PER_COMPONENT: u32 = 64;
pub(crate) const CORE_INSTANCES_PER_COMPONENT: u32 = 128;
/// Elements of one table. A Go or C# module has some ten thousand functions.
pub(crate) const TABLE_ELEMENTS: usize = 100_000;

/// Stack of the wasm code itself, and of the fiber that holds it together with the host calls it makes.
pub(crate) const WASM_STACK_BYTES: usize = 512 * KIB;
pub(crate) const FIBER_STACK_BYTES: usize = 2 * MIB;

/// Truncates a text to at most `max` bytes, at a character boundary, and marks the cut.
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
    fn a_truncated_text_has_whole_characters_and_a_mark() {
        assert_eq!(cut("short".into(), 10), "short");
        assert_eq!(cut("äääääääää".into(), 11), "ää [cut]");
        assert!(cut("x".repeat(100), 20).len() <= 20);
    }
}
