//! A limit on everything this crate accepts or waits for.

use std::time::Duration;

/// The largest request body, unless the configuration says otherwise.
pub const BODY: usize = 16 * 1024 * 1024;
/// The largest `--max-body`: a body is held in memory while it is read.
pub const BODY_MOST: usize = 1024 * 1024 * 1024;
/// How deep the JSON of a request may be nested, and of a body that an answer shows as JSON. Answers put a few levels around it,
/// and many readers of JSON stop at 128, this command among them.
pub const JSON_DEPTH: usize = 100;
/// Unknown fields of one request that are named in its answer, those that are remembered while it is read (fields of a type that
/// shares the object are among them), and the characters of a path to one. More are counted.
pub const UNKNOWN_NAMED: usize = 20;
pub const UNKNOWN_COLLECTED: usize = 200;
pub const UNKNOWN_PATH: usize = 120;
/// The largest component that can be uploaded.
pub const COMPONENT: usize = 64 * 1024 * 1024;
/// How much of a refused body is read and thrown away, so that the client gets to read the refusal.
pub const DISCARD: usize = 64 * 1024 * 1024;
pub const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Attempts that run at once, unless the configuration says otherwise.
pub const SLOTS: usize = 64;
pub const SLOTS_MOST: usize = 1_024;
/// How often a waiting slot renews its claim.
pub const CLAIM_WAIT: Duration = Duration::from_secs(60);
/// The least time between two progress reports of one attempt to the store.
pub const REPORT_EVERY: Duration = Duration::from_millis(50);
/// How long a handler may go on after it was asked to stop.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// The same when the server stops.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Connections that are open at once, unless the configuration says otherwise.
pub const CONNECTIONS: usize = 10_000;
/// The part of them that one address may have, unless the configuration says otherwise: one in so many, and this many at least.
pub const ADDRESS_SHARE: usize = 2;
pub const ADDRESS_LEAST: usize = 64;
/// How long a new connection may take to send the head of its first request.
pub const FIRST_HEAD: Duration = Duration::from_secs(5);
/// Connections that are told at the same time that they are too many, and how long that may take.
pub const REFUSALS: usize = 16;
pub const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Waiting before another connection is taken when the system refused one, and how often that is said.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);
pub const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// The limit on open files is raised up to this; and to that, where the system takes no more.
pub const OPEN_FILES_MOST: u64 = 1_048_576;
pub const OPEN_FILES_MODEST: u64 = 10_240;
/// How long a client may take to send the head of a request, fall silent in the middle of a body, or leave an answer untaken, unless
/// the configuration says otherwise.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
pub const CLIENT_TIMEOUT_MOST: u64 = 3_600;
/// How long all of a body may take.
pub const BODY_TIME: Duration = Duration::from_secs(600);
/// The shortest key that is worth the name.
pub const KEY_LEAST: usize = 8;
/// How long open requests may go on when the server stops.
pub const HTTP_GRACE: Duration = Duration::from_secs(5);
/// Waiting before something is asked again of a store that cannot write.
pub const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often a stop looks for an attempt that is still on its way to its slot.
pub const STOP_RETRY: Duration = Duration::from_millis(10);
/// How long a call of a guest waits for a store in trouble before its attempt is handed back.
pub const STORE_PATIENCE: Duration = Duration::from_secs(60);
/// How often versions that cannot be run are looked at again, at first and at most.
pub const PROBLEM_LOOK: Duration = Duration::from_secs(5);
pub const PROBLEM_LOOK_MOST: Duration = Duration::from_secs(300);
/// The pause before a job is handed back that this machine could not run: it would be claimed again at once.
pub const INTERRUPTED_PAUSE: Duration = Duration::from_secs(5);

/// How much of a version's digest names it.
pub const DIGEST_LEAST: usize = 6;
/// A manifest or a grant, as text.
pub const MANIFEST: usize = 64 * 1024;
/// Bytes of a secret.
pub const SECRET_LEAST: usize = 4;
pub const SECRET: usize = 64 * 1024;
/// The most bytes of the secret that a webhook signs with.
pub const WEBHOOK_SECRET: usize = 1024;
/// How long a swap waits for a checkpoint, unless it is said.
pub const SWAP_WAIT: Duration = Duration::from_secs(60);

/// Jobs in one batch enqueue.
pub const BATCH: usize = 10_000;
/// Jobs in one answer of the plain list.
/// Rounds of a queue in one answer.
pub const ROUNDS_PAGE: usize = 1_000;
/// Records in one answer.
pub const RECORDS_PAGE: usize = 1_000;
pub const PAGE: usize = 50;
pub const PAGE_MOST: usize = 1_000;
/// A text that is searched for, or a jq filter.
pub const FILTER_TEXT: usize = 4_096;
pub const FILTER_STATES: usize = 64;
/// How much processor time a jq filter may take on a handful of payloads; how long it may take to get it; and how much in all,
/// should the server have died meanwhile.
pub const JQ_TIME: Duration = Duration::from_secs(2);
pub const JQ_WALL: Duration = Duration::from_secs(20);
pub const JQ_CPU: Duration = Duration::from_secs(60);
pub const JQ_MEMORY: u64 = 1024 * 1024 * 1024;
/// How deep a payload may be nested to be read by a jq filter; a deeper one passes none. More than requests may bring: others are
/// made by handlers, or older than that limit.
pub const JQ_DEPTH: usize = 1_000;
/// Searches by jq at once; each has up to two children. The others wait.
pub const JQ_FILTERS: usize = 8;
/// What a jq filter may yield for one payload before it counts as yielding nothing.
pub const JQ_OUTPUTS: usize = 10_000;
/// A bulk operation on more jobs than this runs in the background; on fewer, the caller waits so long.
pub const BULK_WAITS: usize = 10_000;
pub const BULK_PATIENCE: Duration = Duration::from_secs(60);
/// Nodes in the picture of a flow, and neighbours of one node in it.
pub const FLOW_NODES: usize = 300;
pub const FLOW_CHILDREN: usize = 50;
/// How many of the jobs that a job waits for are named.
pub const WAITS_FOR: usize = 20;
/// Log lines in one answer.
pub const LOG_PAGE: usize = 1_000;
pub const LOG_PAGE_MOST: usize = 10_000;
/// Jobs in one fetch, ack or heartbeat of a worker.
pub const WORKER_BATCH: usize = 512;
/// How long a fetch waits for a job.
pub const POLL: Duration = Duration::from_secs(30);
pub const POLL_MOST: Duration = Duration::from_secs(60);
/// A poll is answered this much early: the client's own timeout may be as long as the poll.
pub const POLL_EARLY: Duration = Duration::from_millis(500);
/// Jobs in one bulk-get.
pub const BULK_GET: usize = 1_000;
/// Workers that are remembered.
pub const WORKERS: usize = 10_000;
/// How many future instants of a schedule are told.
pub const NEXT_TIMES: usize = 5;
pub const NEXT_TIMES_MOST: usize = 1_000;
/// How long an `Idempotency-Key` is remembered.
pub const IDEMPOTENCY: Duration = Duration::from_secs(24 * 3600);
pub const IDEMPOTENCY_KEY: usize = 255;
/// Queues one fetch may name, and one plugin may serve.
pub const QUEUES: usize = 256;

/// How long after its last fetch or heartbeat a worker still counts as serving its queues.
pub const WORKER_SEEN: Duration = Duration::from_secs(120);
/// Queues whose last fetch is remembered, before those that nobody fetches from any more are forgotten.
pub const FETCHED_QUEUES: usize = 10_000;
/// Queues that nobody serves, named one by one in the answer to one request.
pub const UNSERVED_NAMED: usize = 10;
/// Fetches that may wait on one queue, unless the configuration says otherwise.
pub const FETCHES: usize = 1_000;
/// When a fetch that found too many others is worth another try.
pub const FETCH_RETRY: Duration = Duration::from_secs(1);
/// How often queues are looked at for their rates, and over which windows a rate is counted.
pub const RATE_SAMPLE: Duration = Duration::from_secs(1);
pub const RATE_SHORT: Duration = Duration::from_secs(5);
pub const RATE_SPAN: Duration = Duration::from_secs(60);
/// After a look that took its time, the next waits so many times as long: looking costs a fiftieth of a processor at most.
pub const RATE_REST: u32 = 50;

/// How long an address may take to answer a delivery.
pub const DELIVERY: Duration = Duration::from_secs(10);
/// The first pause before a delivery is tried again; it doubles up to the longest.
pub const DELIVERY_RETRY: Duration = Duration::from_millis(500);
pub const DELIVERY_RETRY_MOST: Duration = Duration::from_secs(300);
/// Events of one webhook between two notes of how far it has been told.
pub const DELIVERIES: usize = 100;
/// How often a webhook looks for events that came without a sign, and whether it is still there.
pub const DELIVERY_LOOK: Duration = Duration::from_secs(1);

/// Events in memory for watchers that come a little late, and how far a watcher may fall behind.
pub const RECENT_EVENTS: usize = 4_096;
pub const WATCHER_LAG: usize = 4_096;
/// The same for those who watch one job; and how many watched jobs there are before the unwatched are looked for.
pub const JOB_LAG: usize = 512;
pub const WATCHED_JOBS: usize = 1_024;
/// Events handed on before watchers get a turn, when there is much to make up for.
pub const TOLD_AT_ONCE: usize = 64;
/// Events read from the disk at once.
pub const EVENT_PAGE: usize = 1_000;
/// Events of one job that a late watcher gets.
pub const JOB_EVENTS: usize = 100;
/// The largest result that the event of its completion carries.
pub const EVENT_RESULT: u64 = 64 * 1024;
/// A stream that has nothing to say says so this often, so that nobody between takes it for dead.
pub const SSE_COMMENT: Duration = Duration::from_secs(15);
/// How often a followed log is looked at on disk, for lines that were written before somebody followed it or that came too fast.
/// What is written is there within half a second.
pub const LOG_POLL: Duration = Duration::from_millis(250);
pub const LOG_LOOKS: u32 = 4;
/// How long `wait` waits for the end of a job.
pub const WAIT: Duration = Duration::from_secs(30);
pub const WAIT_MOST: Duration = Duration::from_secs(600);
