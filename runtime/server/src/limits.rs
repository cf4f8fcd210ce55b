//! A limit on everything this crate accepts or waits for.

use std::time::Duration;

/// The largest request body, unless the configuration says otherwise.
pub const BODY: usize = 16 * 1024 * 1024;
/// The largest `--max-body`: a body is held in memory while it is read.
pub const BODY_MOST: usize = 1024 * 1024 * 1024;
/// What the bodies of all requests may take together, unless the configuration says otherwise.
pub const BUFFERED_BODIES: usize = 256 * 1024 * 1024;
/// A body of this size never has to give way to others: a connection takes about as much.
pub const SMALL_BODY: usize = 16 * 1024;
/// The pause before a body is sent again for which there was no room.
pub const BODY_RETRY: Duration = Duration::from_secs(1);
/// How deep the JSON of a request may be nested, and of a body that a response contains as JSON. Responses add a few
/// levels around it, and many JSON parsers stop at 128, including that of this command line.
pub const JSON_DEPTH: usize = 100;
/// Unknown fields of one request that are named in its response, those that are collected while it is parsed (including
/// fields of a type that shares the object), and the characters of a path to one. Further ones are only counted.
pub const UNKNOWN_NAMED: usize = 20;
pub const UNKNOWN_COLLECTED: usize = 200;
pub const UNKNOWN_PATH: usize = 120;
/// The largest component that can be uploaded.
pub const COMPONENT: usize = 64 * 1024 * 1024;
/// How much of a refused body is read and discarded, so that the client can read the response.
pub const DISCARD: usize = 64 * 1024 * 1024;
pub const DISCARD_TIME: Duration = Duration::from_secs(2);

/// The same of a request that is refused before its body is looked at.
pub const REFUSED_BODY: usize = 64 * 1024;

/// Attempts that run at once, unless the configuration says otherwise.
pub const SLOTS: usize = 64;
pub const SLOTS_MOST: usize = 1_024;
/// How much of the slots that the others leave one plugin may take, in percent.
pub const PLUGIN_SHARE: u32 = 75;
/// How often a waiting slot renews its claim.
pub const CLAIM_WAIT: Duration = Duration::from_secs(60);
/// The least time between two progress reports of one attempt to the store.
pub const REPORT_EVERY: Duration = Duration::from_millis(50);
/// How long a handler may continue after it was asked to stop.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// The same when the server stops.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Connections that are open at once, unless the configuration says otherwise.
pub const CONNECTIONS: usize = 10_000;
/// The share of them that one address may have, unless the configuration says otherwise: one in `ADDRESS_SHARE`, and at
/// least `ADDRESS_LEAST`.
pub const ADDRESS_SHARE: usize = 2;
pub const ADDRESS_LEAST: usize = 64;
/// How long a new connection may take to send the head of its first request, with the TLS handshake before it.
pub const FIRST_HEAD: Duration = Duration::from_secs(5);
/// How often the files of `--tls-cert` and its like are looked at for a change.
pub const TLS_LOOK: Duration = Duration::from_secs(2);
/// How many excess connections are refused with a response at the same time, and how long that may take; also how long the rest of a
/// refused request is waited for.
pub const REFUSALS: usize = 16;
pub const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// The pause before the next connection is accepted after the system refused one, and how often that is logged.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);
pub const ACCEPT_WARNING_EVERY: Duration = Duration::from_secs(10);
/// The limit on open files is raised to the first of these, or to the second where the system does not accept the
/// first.
pub const OPEN_FILES_MOST: u64 = 1_048_576;
pub const OPEN_FILES_MODEST: u64 = 10_240;
/// How long a client may take to send the head of a request, pause in the middle of a body, or leave a response unread,
/// unless the configuration says otherwise.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
pub const CLIENT_TIMEOUT_MOST: u64 = 3_600;
/// How long a whole body may take.
pub const BODY_TIME: Duration = Duration::from_secs(600);
/// The shortest API key that is accepted. Throttling delays nobody who guesses right, so that it must be out of reach
/// to guess.
pub const KEY_LEAST: usize = 24;
/// How many wrong keys in a row a client may send before it has to wait, how long it waits first, and how long at most.
pub const WRONG_KEYS: u32 = 5;
pub const WRONG_KEY_WAIT: Duration = Duration::from_secs(1);
pub const WRONG_KEY_WAIT_MOST: Duration = Duration::from_secs(60);
/// After how long wrong keys are forgotten, and of how many clients they are remembered.
pub const WRONG_KEY_MEMORY: Duration = Duration::from_secs(600);
pub const WRONG_KEY_CLIENTS: usize = 10_000;
/// How long open requests may continue when the server stops.
pub const HTTP_GRACE: Duration = Duration::from_secs(5);
/// The pause before a request to a store that cannot write is retried.
pub const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often a stop checks for an attempt that has not reached its slot yet.
pub const STOP_RETRY: Duration = Duration::from_millis(10);
/// How long a call of a guest waits for a store that cannot write before its job is handed back.
pub const STORE_WAIT: Duration = Duration::from_secs(60);
/// How long until a version that cannot be run is tried again: the first interval, and the longest.
pub const PROBLEM_RETRY: Duration = Duration::from_secs(5);
pub const PROBLEM_RETRY_MOST: Duration = Duration::from_secs(300);
/// The pause before a job that this machine could not run is handed back, because it would be claimed again
/// immediately.
pub const INTERRUPTED_PAUSE: Duration = Duration::from_secs(5);

/// How many characters of a version's digest are enough to name it.
pub const DIGEST_LEAST: usize = 6;
/// A manifest or a grant, as text.
pub const MANIFEST: usize = 64 * 1024;
/// Bytes of a secret.
pub const SECRET_LEAST: usize = 4;
pub const SECRET: usize = 64 * 1024;
/// The current key of secrets and the older ones that are still needed.
pub const SECRET_KEYS: usize = 16;
/// Bytes of the key in a webhook's signing secret: of one that the server makes, and the range that Standard Webhooks
/// allows.
pub const SIGNING_KEY: usize = 32;
pub const SIGNING_KEY_LEAST: usize = 24;
pub const SIGNING_KEY_MOST: usize = 64;
/// Bytes of the secret with which another service signs its webhooks.
pub const SENDER_SECRET_LEAST: usize = 16;
pub const SENDER_SECRET: usize = 1024;
/// How long the secret before a new one still signs, unless the rotation says otherwise.
pub const PREVIOUS_SECRET: Duration = Duration::from_secs(24 * 3600);
/// How long a swap waits for a checkpoint by default.
pub const SWAP_WAIT: Duration = Duration::from_secs(60);

/// Jobs in one bulk enqueue.
pub const BATCH: usize = 10_000;
/// Rounds of a queue in one response.
pub const ROUNDS_PAGE: usize = 1_000;
/// Records in one response.
pub const RECORDS_PAGE: usize = 1_000;
/// Jobs in one page of a list.
pub const PAGE: usize = 50;
pub const PAGE_MOST: usize = 1_000;
/// Characters of a body in its preview: in a list, for one job, and at most.
pub const PREVIEW: usize = 200;
pub const PREVIEW_OF_ONE: usize = 4_096;
pub const PREVIEW_MOST: usize = 65_536;
/// Values in one count by a value.
pub const GROUPS: usize = 100;
pub const GROUPS_MOST: usize = 1_000;
/// Ids of jobs in the answer to a dry run.
pub const DRY_RUN_SAMPLE: usize = 10;
/// A text that is searched for, or a jq filter.
pub const FILTER_TEXT: usize = 4_096;
pub const FILTER_STATES: usize = 64;
/// How much processor time a jq filter may use on a few payloads; how long that may take; and how much it may use in
/// total, in case the server has died.
pub const JQ_TIME: Duration = Duration::from_secs(2);
pub const JQ_WALL: Duration = Duration::from_secs(20);
pub const JQ_CPU: Duration = Duration::from_secs(60);
pub const JQ_MEMORY: u64 = 1024 * 1024 * 1024;
/// How deep a payload may be nested to be read by a jq filter; a deeper one never matches. More than requests may
/// contain, because payloads can also come from handlers, or be older than that limit.
pub const JQ_DEPTH: usize = 1_000;
/// Searches by jq at once; each has up to two children. The others wait.
pub const JQ_FILTERS: usize = 8;
/// How many values a jq filter may yield for one payload; further ones are ignored.
pub const JQ_OUTPUTS: usize = 10_000;
/// A bulk operation on more jobs than this runs in the background; on fewer, the caller waits up to `BULK_WAIT`.
pub const BULK_SYNC: usize = 10_000;
pub const BULK_WAIT: Duration = Duration::from_secs(60);
/// Nodes in the picture of a flow, and neighbours of one node in it.
pub const FLOW_NODES: usize = 300;
pub const FLOW_CHILDREN: usize = 50;
/// Dead jobs that are looked at for the groups of their errors, the latest.
pub const DEAD_LOOKED_AT: usize = 20_000;
/// Ended jobs that are looked at for what they used, the latest; how far back, unless the request says otherwise, and
/// at most.
pub const USAGE_LOOKED_AT: usize = 100_000;
pub const USAGE_PERIOD: Duration = Duration::from_secs(7 * 24 * 3600);
pub const USAGE_PERIOD_MOST: Duration = Duration::from_secs(400 * 24 * 3600);
/// How many of the jobs that a job waits for are listed.
pub const WAITS_FOR: usize = 20;
/// Log lines in one response.
pub const LOG_PAGE: usize = 1_000;
pub const LOG_PAGE_MOST: usize = 10_000;
/// Jobs in one fetch, ack or heartbeat of a worker.
pub const WORKER_BATCH: usize = 512;
/// How long a fetch waits for a job.
pub const POLL: Duration = Duration::from_secs(30);
pub const POLL_MOST: Duration = Duration::from_secs(60);
/// A poll is answered this much early, because the client's own timeout may be as long as the poll.
pub const POLL_EARLY: Duration = Duration::from_millis(500);
/// Jobs in one bulk-get.
pub const BULK_GET: usize = 1_000;
/// Workers that are held in memory.
pub const WORKERS: usize = 10_000;
/// How many upcoming times of a schedule are returned.
pub const NEXT_TIMES: usize = 5;
pub const NEXT_TIMES_MOST: usize = 1_000;
/// How long an `Idempotency-Key` is retained, and a signed incoming webhook recognised. Longer than its signature is
/// accepted, which may be signed as far ahead of its time as it may arrive after it.
pub const IDEMPOTENCY: Duration = Duration::from_secs(24 * 3600);
const _: () = assert!(IDEMPOTENCY.as_secs() >= 2 * windlass_core::bounds::TOLERANCE_MOST.as_secs());
pub const IDEMPOTENCY_KEY: usize = 255;
/// Queues one fetch may name, and one plugin may serve.
pub const QUEUES: usize = 256;

/// How long after its last fetch or heartbeat a worker still counts as serving its queues.
pub const WORKER_SEEN: Duration = Duration::from_secs(120);
/// Queues whose last fetch is held in memory, before those without recent fetches are dropped.
pub const FETCHED_QUEUES: usize = 10_000;
/// Queues without a plugin or worker that are named in the response to one request.
pub const UNSERVED_NAMED: usize = 10;
/// Fetches that may wait on one queue, unless the configuration says otherwise.
pub const FETCHES: usize = 1_000;
/// After how long a fetch that was refused because of too many others should be retried.
pub const FETCH_RETRY: Duration = Duration::from_secs(1);
/// How often queues are sampled for their rates, and the windows over which a rate is computed.
pub const RATE_SAMPLE: Duration = Duration::from_secs(1);
pub const RATE_SHORT: Duration = Duration::from_secs(5);
pub const RATE_SPAN: Duration = Duration::from_secs(60);
/// After a slow sample, the pause is this many times as long, so that sampling uses at most a fiftieth of a processor.
pub const RATE_REST: u32 = 50;
/// The steps in which queues are counted for their figures over time, and for how long these are kept: fine ones and
/// coarse ones.
pub const SERIES_STEP: Duration = Duration::from_secs(5);
pub const SERIES_FINE: Duration = Duration::from_secs(3600);
pub const SERIES_COARSE_STEP: Duration = Duration::from_secs(60);
pub const SERIES_COARSE: Duration = Duration::from_secs(24 * 3600);
/// Queues, and namespaces as a whole, that have figures over time. Each takes up to about 170 KiB, when something
/// happens in all of its steps.
pub const SERIES_QUEUES: usize = 128;
pub const SERIES_NAMESPACES: usize = 64;

/// How often watchers of the pulse are told of changes, and how much longer than a slow snapshot the pause after it is:
/// taking them uses at most a tenth of a processor.
pub const PULSE_EVERY: Duration = Duration::from_millis(500);
pub const PULSE_REST: u32 = 9;
/// Jobs that one watcher of the pulse may watch, and how long an operation on many jobs is shown there after its end.
pub const PULSE_JOBS: usize = 50;
pub const PULSE_BULK: Duration = Duration::from_secs(60);
/// Running attempts that are read for a list of them.
pub const ATTEMPTS: usize = 10_000;
/// Plugins whose attempts are counted, and denials that are remembered of each.
pub const FIGURES_OF_PLUGINS: usize = 1_000;
pub const DENIALS_OF_PLUGIN: usize = 32;
/// Answers of these sizes are compressed, and up to which size without a change of the thread.
pub const COMPRESS_LEAST: u64 = 1024;
pub const COMPRESS_MOST: u64 = 64 * 1024 * 1024;
pub const COMPRESS_HERE: usize = 64 * 1024;
/// How often the sizes of the folders are measured, while somebody asks for them.
pub const SIZES_EVERY: Duration = Duration::from_secs(30);

/// How long a receiver may take to answer a delivery.
pub const DELIVERY: Duration = Duration::from_secs(10);
/// The first pause before a delivery is retried; it doubles up to the longest.
pub const DELIVERY_RETRY: Duration = Duration::from_millis(500);
pub const DELIVERY_RETRY_MOST: Duration = Duration::from_secs(300);
/// Events of one webhook between two writes of its position, and how long one that was delivered may wait for a write.
pub const DELIVERIES: usize = 100;
pub const DELIVERY_SAVE: Duration = Duration::from_secs(1);
/// How much of a receiver's answer is read, so that the connection closes cleanly, and how much of it a test shows.
pub const DELIVERY_ANSWER: usize = 64 * 1024;
pub const DELIVERY_EXCERPT: usize = 1024;
/// How often a webhook checks for events without a notification, and whether it still exists.
pub const DELIVERY_POLL: Duration = Duration::from_secs(1);

/// Recent events in memory for watchers that connect late, and how far a watcher may fall behind.
pub const RECENT_EVENTS: usize = 4_096;
pub const WATCHER_LAG: usize = 4_096;
/// The same for watchers of one job; and how many watched jobs there may be before those without watchers are removed.
pub const JOB_LAG: usize = 512;
pub const WATCHED_JOBS: usize = 1_024;
/// Events published before watchers get to run, when there are many to catch up on.
pub const EVENTS_PER_YIELD: usize = 64;
/// Events read from the disk at once.
pub const EVENT_PAGE: usize = 1_000;
/// Past events of one job that a new watcher gets.
pub const JOB_EVENTS: usize = 100;
/// The largest result that is included in the event of its job's completion.
pub const EVENT_RESULT: u64 = 64 * 1024;
/// How often a stream without events sends a comment, so that no proxy closes it as dead.
pub const SSE_COMMENT: Duration = Duration::from_secs(15);
/// How often a followed log is read from disk, for lines that were written before it was followed or that came too
/// fast. A line is on disk within half a second.
pub const LOG_POLL: Duration = Duration::from_millis(250);
pub const LOG_POLLS: u32 = 4;
/// How long `wait` waits for the end of a job.
pub const WAIT: Duration = Duration::from_secs(30);
pub const WAIT_MOST: Duration = Duration::from_secs(600);

/// How long somebody who has signed in with a browser stays signed in.
pub const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How often the time of the last use of keys is written, and expired sessions are removed.
pub const KEY_USE_EVERY: Duration = Duration::from_secs(60);
/// Rates that are counted at once, of keys, and of addresses without one.
pub const RATES: usize = 100_000;
/// The smallest audit log that an operator may choose.
pub const AUDIT_ENTRIES_LEAST: u64 = 1_000;
/// Different refusals that are written into the audit log in a minute.
pub const DENIALS_NOTED: usize = 1_000;

/// How long the removal of a namespace waits for its jobs to end, and how often it looks.
pub const NAMESPACE_WAIT: Duration = Duration::from_secs(20);
pub const NAMESPACE_POLL: Duration = Duration::from_millis(50);

/// Requests to an OpenID Connect provider: how long one may take, and the bytes of its answer.
pub const OIDC_TIME: Duration = Duration::from_secs(10);
pub const OIDC_ANSWER: usize = 1024 * 1024;
/// How often the provider is asked for its keys, and at most, whoever wants them; and the pause while it does not
/// answer.
pub const OIDC_REFRESH: Duration = Duration::from_secs(3600);
pub const OIDC_REFRESH_LEAST: Duration = Duration::from_secs(5);
pub const OIDC_RETRY: Duration = Duration::from_secs(5);
pub const OIDC_RETRY_MOST: Duration = Duration::from_secs(60);
/// How far the provider's clock may differ from ours.
pub const OIDC_SKEW: Duration = Duration::from_secs(30);
/// How long somebody may take to sign in at the provider; how many are being signed in at once; and those that are
/// remembered, so that none counts twice.
pub const OIDC_ATTEMPT: Duration = Duration::from_secs(600);
pub const OIDC_EXCHANGES: usize = 16;
pub const OIDC_USED: usize = 10_000;
/// Bytes of the subject in a token, which OpenID Connect limits, too; and of the address to return to after signing in.
pub const OIDC_SUBJECT: usize = 255;
pub const OIDC_RETURN: usize = 1_024;
