//! A limit on everything a caller can send, named once. The door (HTTP, CLI) and the rules both use these.

use core::time::Duration;

pub const NAME_BYTES: usize = 128;
pub const NAMESPACE_BYTES: usize = 32;
pub(crate) const KEY_NAME_BYTES: usize = 128;
/// Patterns of queues of one key, or of one enqueue rule.
pub(crate) const KEY_QUEUES: usize = 64;
/// Roles or keys that one enqueue rule names.
pub(crate) const RULE_NAMES: usize = 64;
pub const ENQUEUE_RULES: usize = 256;
pub const API_KEYS: usize = 10_000;
/// Sessions of browsers, and those of one key or person: beyond it the oldest of theirs ends.
pub const SESSIONS: usize = 10_000;
pub const SESSIONS_OF_ONE: usize = 32;
pub(crate) const SCOPE_BYTES: usize = 256;
pub(crate) const UNIQUE_KEY_BYTES: usize = 512;
pub const LIMIT_KEY_BYTES: usize = 256;
pub const WORKER_BYTES: usize = 256;
pub const TAGS: usize = 64;
pub(crate) const TAG_KEY_BYTES: usize = 128;
pub(crate) const TAG_VALUE_BYTES: usize = 512;
pub(crate) const REASON_BYTES: usize = 1024;
pub const ERROR_BYTES: usize = 16 * 1024;
pub const BACKTRACE_BYTES: usize = 64 * 1024;
pub const MESSAGE_BYTES: usize = 4 * 1024;
pub const DETAIL_BYTES: usize = 16 * 1024;

/// How many jobs one job may depend on. More are a batch with a callback.
pub const DEPENDENCIES: usize = 1_000;
/// How many dependencies the jobs of one request may have together.
pub(crate) const DEPENDENCIES_AT_ONCE: usize = 20_000;
pub(crate) const CHAIN_STEPS: usize = 100;
/// What the steps of a chain may be given, all together.
pub(crate) const CHAIN_BYTES: usize = 64 * 1024;
/// What the callback of a batch may be given.
pub(crate) const CALLBACK_BYTES: usize = 64 * 1024;

/// The last round of a queue: a child of a job in it is refused.
pub const ROUNDS: u32 = 100_000;
/// Records, and marks, that come with one result or checkpoint.
pub const NOTES: usize = 256;
pub const NOTES_BYTES: usize = 1024 * 1024;
pub const RECORD_KEY_BYTES: usize = 1024;
pub const RECORD_BYTES: usize = 64 * 1024;
pub const MARK_BYTES: usize = 256;
/// Records one job may write: they go with it, in one commit.
pub(crate) const RECORDS_OF_A_JOB: usize = 10_000;

/// Children one job may spawn, and how deep children may have children of their own: children of a job that nobody
/// spawned are at depth 1. What an operator may set instead is at most `SPAWN_DEPTH_MOST`.
pub const CHILDREN_OF_A_JOB: u32 = 1_000_000;
pub const SPAWN_DEPTH: u32 = 32;
pub const SPAWN_DEPTH_MOST: u32 = 100_000;

/// How long an attempt in the sandbox may take when neither its job, its queue nor its plugin says.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3600);
/// A server with this many slots or more spares one of them for a plugin that runs nothing, even if there is only one
/// plugin.
pub(crate) const SLOTS_TO_SPARE_ONE: u32 = 8;

/// How long a running attempt may be given to stop by itself, at most.
pub const LONGEST_GRACE: Duration = Duration::from_secs(3600);

/// How many steps of its history a job carries; older ones in the middle are dropped and counted.
pub(crate) const TIMELINE: usize = 64;
/// How many attempt errors are stored for a job.
pub const ERRORS: u32 = 50;
/// How many of its attempts a job has records of, and how many denials each of them keeps.
pub const ATTEMPTS: u32 = 100;
pub const DENIALS: usize = 16;
pub(crate) const DENIAL_BYTES: usize = 512;
/// For how many attempts a job lists the usage one by one.
pub(crate) const SPENDING_ATTEMPTS: usize = 50;
/// How many runs `max_attempts` may grant.
pub(crate) const MAX_ATTEMPTS: u32 = 10_000;
/// How often in a row, without a checkpoint between, the process may die under one job before the job is dead.
pub const MAX_CRASHES: u32 = 5;
/// The longest span any policy may name: ten years.
pub const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// The latest moment a job may be scheduled for, counted from now.
pub(crate) const FURTHEST: Duration = LONGEST;
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);
pub(crate) const URL_BYTES: usize = 2 * 1024;
/// How often the delivery of an event may be tried again.
pub(crate) const WEBHOOK_RETRIES: u32 = 20;
/// How many deliveries of a webhook are stored, for how long, and how much of an error: about 128 KiB for a webhook
/// altogether.
pub const DELIVERIES: u64 = 100;
pub const DELIVERY_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
pub(crate) const DELIVERY_ERROR_BYTES: usize = 1024;
/// How long a secret may stay valid beside the one that replaced it.
pub(crate) const PREVIOUS_SECRET: Duration = Duration::from_secs(30 * 24 * 3600);
/// How far the signed time of an incoming webhook may be from now.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);
pub(crate) const TOLERANCE_LEAST: Duration = Duration::from_secs(1);
pub const TOLERANCE_MOST: Duration = Duration::from_secs(12 * 3600);
/// The largest rate a limit may name per window.
pub(crate) const MAX_RATE: u32 = 1_000_000;
pub(crate) const LONGEST_RATE_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// How many versions a plugin may have, and how much of its history it carries.
pub const VERSIONS: usize = 100;
pub(crate) const PLUGIN_HISTORY: usize = 32;
/// How many attempts a canary may be asked for.
pub(crate) const CANARY_ATTEMPTS: u32 = 1_000_000;
/// How many missed runs a schedule may catch up on.
pub const CATCH_UP: u32 = 1_000;
/// Skipped runs that a schedule keeps, in a row for one reason being one, and how many of those that were missed at
/// once are counted.
pub const SKIPPED_RUNS: usize = 10;
pub const MISSED_RUNS: usize = 1_000;
