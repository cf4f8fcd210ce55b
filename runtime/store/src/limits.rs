//! A limit on everything the store holds in memory or commits at once.

use std::time::Duration;

/// Commands that may wait for the engine; one more is refused as overloaded.
pub const COMMANDS: usize = 8_192;
/// How long a refused caller should wait.
pub const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Commands in one group commit.
pub(crate) const GROUP: usize = 1_024;
/// Bytes of bodies in one group commit.
pub(crate) const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Bodies larger than this are files of their own.
pub const INLINE_BODY: usize = 64 * 1024;
/// Table files of the database that stay open at once, and at most one in so many of the files that the process may
/// open.
pub(crate) const OPEN_TABLES: usize = 900;
pub(crate) const OPEN_TABLES_PART: usize = 6;
/// Job rows cached in memory.
pub(crate) const CACHED_JOBS: usize = 32 * 1024;
/// Ids in the window of one lane: refilled from a cursor.
pub(crate) const WINDOW: usize = 256;
/// Lanes with a window in memory, per queue and priority.
pub(crate) const HOT_LANES: usize = 4_096;
/// How far the cursor of a lane may move before it is written again: what a restart steps over at most.
pub(crate) const CURSOR_STEP: u64 = 1_024;
/// Limiters of keys cached in memory.
pub(crate) const KEY_LIMITERS: usize = 32 * 1024;
/// Timers in memory.
pub(crate) const TIMERS: usize = 4_096;
/// Timers fired between two commits, so that a million due jobs do not stall an enqueue.
pub(crate) const TIMERS_PER_GROUP: usize = 512;
/// Jobs one step of the background work (retention, clear) touches.
pub(crate) const BACKGROUND_STEP: usize = 256;
/// Children that are looked at for one whose failure a parent's error names.
pub(crate) const FAILED_CHILD_LOOK: usize = 1_024;
/// Flows that one page of a list looks at: of those that the caller does not see, and of children, none is in it.
pub(crate) const FLOWS_LOOKED_AT: usize = 2_000;
/// Events stored on disk, and for how long.
pub const EVENTS: u64 = 100_000;
pub(crate) const EVENT_AGE: Duration = Duration::from_secs(24 * 3600);
/// Events in memory for watchers that come late or fall behind.
pub const RECENT_EVENTS: usize = 8_192;
/// Groups of log lines in memory for watchers that fall behind.
pub(crate) const RECENT_LOGS: usize = 1_024;
/// Log lines stored per job.
pub(crate) const LOG_LINES: u64 = 10_000;
/// Entries of the audit log that stay stored, unless the operator chooses another number.
pub const AUDIT_ENTRIES: u64 = 1_000_000;
/// Entries that are removed with each new one, at most, until there are no more than should be.
pub(crate) const AUDIT_REMOVED: u64 = 16;
/// Entries of the audit log in one page.
pub const AUDIT_PAGE: usize = 1_000;
/// Entries that are looked at for one page.
pub(crate) const AUDIT_LOOK: usize = 50_000;
/// How long progress and logs may wait for a commit to ride along with.
pub(crate) const SOFT_DELAY: Duration = Duration::from_millis(500);
/// How many event numbers are set aside ahead of use, so that none is used twice after a crash.
pub(crate) const EVENT_RESERVE: u64 = 100_000;
/// How often the last acknowledged commit is written to the witness.
pub(crate) const WITNESS_EVERY: Duration = Duration::from_secs(1);
/// A commit that takes longer than this is given up, and the process with it.
pub(crate) const COMMIT_STUCK: Duration = Duration::from_secs(10);
/// How often a store that could not write looks whether it can again.
pub(crate) const REOPEN_EVERY: Duration = Duration::from_secs(1);
/// How much room the disk must have before such a store is reopened: as much as a large commit takes.
pub(crate) const ROOM_TO_WRITE: usize = GROUP_BYTES;
/// How long a reopen waits for reads that are under way; after that it is tried again later.
pub(crate) const READERS_LEAVE: Duration = Duration::from_secs(1);
/// How long a read waits for a database that is being reopened.
pub(crate) const READ_WAITS: Duration = Duration::from_secs(10);

/// How often all tables may be read in search of a damaged one.
pub(crate) const SUSPECT_EVERY: Duration = Duration::from_secs(600);
/// How often the store looks whether disk space can be given back.
pub(crate) const RECLAIM_EVERY: Duration = Duration::from_secs(3);
/// It waits while there are more commits in a second than this or they take more than this share of the time, but not
/// longer than this.
pub(crate) const RECLAIM_COMMITS: f64 = 100.0;
pub(crate) const RECLAIM_BUSY: f64 = 0.25;
pub(crate) const RECLAIM_LATEST: Duration = Duration::from_secs(300);
/// Tables of one kind of row are merged from this size, where one in so many rows is a removal; and up to a size,
/// beyond which it would take too long at a stretch.
pub(crate) const RECLAIM_TABLES: u64 = 8 * 1024 * 1024;
pub(crate) const RECLAIM_PART: u64 = 6;
pub(crate) const RECLAIM_MOST: u64 = 16 * 1024 * 1024 * 1024;
/// How much room the disk must have besides that for the new tables.
pub(crate) const RECLAIM_ROOM: u64 = 64 * 1024 * 1024;
/// The pause after a try that left something, and what it grows to.
pub(crate) const RECLAIM_PAUSE: Duration = Duration::from_secs(5);
pub(crate) const RECLAIM_PAUSE_MOST: Duration = Duration::from_secs(3600);
/// How long to wait for a table to be written, or for other merges.
pub(crate) const RECLAIM_WAIT: Duration = Duration::from_secs(60);

/// A search that looks at no more jobs than this is answered on the spot.
pub(crate) const QUICK_ROWS: u64 = 5_000;
/// Searches at once: those that are soon over, and those that are not. The others wait.
pub(crate) const QUICK_SEARCHES: usize = 16;
pub(crate) const LONG_SEARCHES: usize = 2;
pub(crate) const WAITING_SEARCHES: usize = 32;
pub(crate) const SEARCH_RETRY: Duration = Duration::from_secs(1);
/// Threads of one long search.
pub(crate) const SEARCH_THREADS: usize = 2;
/// How long a search may take. It also bounds the age of the view it reads.
pub(crate) const SEARCH_TIME: Duration = Duration::from_secs(30);
/// Jobs that could not be read whose ids an answer lists; the others are only counted.
pub(crate) const UNREADABLE: usize = 100;
/// Different values that jobs are counted by at once.
pub(crate) const GROUPS: usize = 10_000;
/// Payloads handed to a sieve at once.
pub(crate) const SIEVE_ROWS: usize = 512;
pub(crate) const SIEVE_BYTES: usize = 1024 * 1024;
/// Jobs in one bulk operation.
pub const BULK_JOBS: usize = 5_000_000;
/// Jobs of a bulk operation in one group commit.
pub(crate) const BULK_STEP: usize = 256;
/// Bytes of values in one page of records, and one value more.
pub(crate) const RECORDS_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Bulk operations that are over and still known.
pub(crate) const BULKS_KEPT: usize = 1_000;
/// Words on bulk operations that a watcher may fall behind.
pub(crate) const BULK_NEWS: usize = 256;
/// Bulk operations that are not over yet.
pub(crate) const BULKS_OPEN: usize = 100;
/// Addresses that events can be sent to.
pub(crate) const WEBHOOKS: usize = 100;
/// Queues whose incoming webhooks must be signed.
pub(crate) const INBOUND_HOOKS: usize = 1_000;

/// The limits a simulator makes tiny, so that a few dozen jobs reach every edge that millions would.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    pub cached_jobs: usize,
    pub window: usize,
    pub hot_lanes: usize,
    pub cursor_step: u64,
    pub timers: usize,
    pub timers_per_group: usize,
    pub step: usize,
    pub events: u64,
    pub event_reserve: u64,
    pub log_lines: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            cached_jobs: CACHED_JOBS,
            window: WINDOW,
            hot_lanes: HOT_LANES,
            cursor_step: CURSOR_STEP,
            timers: TIMERS,
            timers_per_group: TIMERS_PER_GROUP,
            step: BACKGROUND_STEP,
            events: EVENTS,
            event_reserve: EVENT_RESERVE,
            log_lines: LOG_LINES,
        }
    }
}
