/* Write handlers for the Windlass job server in C.
 *
 * A handler is a function. Define one table of them, and the program becomes a component:
 *
 *     static wl_result total(wl_ctx *ctx, wl_bytes payload) { ... return wl_ok_text("42"); }
 *
 *     const wl_handler wl_handlers[] = {{"orders.total", total}, {NULL, NULL}};
 *
 * Payload, state and result are bytes, which the SDK does not interpret. What the server passes in lives until the attempt ends and
 * need not be freed. To test a handler natively, without a server, link windlass_fake.c instead of the bindings.
 */
#ifndef WINDLASS_H
#define WINDLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Bytes ---------------------------------------------------------------------------------------------------------------- */

typedef struct wl_bytes {
    const uint8_t *ptr;
    size_t len;
} wl_bytes;

/* The bytes of a string, without its terminating zero. */
wl_bytes wl_text(const char *text);
/* Whether the bytes equal those of the string. */
bool wl_is(wl_bytes bytes, const char *text);
/* printf into memory that lives until the attempt ends. */
char *wl_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Memory that lives until the attempt ends. */
void *wl_alloc(size_t size);

/* --- The job -------------------------------------------------------------------------------------------------------------- */

typedef struct wl_tag {
    wl_bytes name;
    wl_bytes value;
} wl_tag;

typedef struct wl_job {
    wl_bytes id;
    wl_bytes queue;
    wl_bytes payload;
    uint32_t attempt; /* the first is 1 */
    uint32_t max_attempts;
    const wl_tag *tags;
    size_t tag_count;
    wl_bytes scope;         /* empty if the producer did not specify it */
    bool has_round;         /* whether the job's queue has rounds */
    uint32_t round;         /* the round this job is in, if it has one */
    uint64_t created_at_ms; /* since the Unix epoch */
    uint64_t deadline_ms;   /* when the attempt times out; 0 if it has no time limit */
} wl_job;

typedef struct wl_ctx wl_ctx;

const wl_job *wl_ctx_job(const wl_ctx *ctx);
/* The value of a tag; ptr is NULL if the job has none of that name. */
wl_bytes wl_tag_value(const wl_ctx *ctx, const char *name);

/* --- How a handler ends ----------------------------------------------------------------------------------------------------- */

typedef enum wl_next {
    WL_OK,          /* completed */
    WL_RETRY,       /* failed; retried with the job's backoff */
    WL_RETRY_AFTER, /* failed; retried after a time */
    WL_FATAL,       /* failed, and would fail in every attempt: the job is dead at once */
    WL_CANCELLED,   /* stopped because it was asked to */
    WL_WAITING,     /* not a failure: the job runs again when its children have ended */
} wl_next;

typedef struct wl_result {
    wl_next next;
    wl_bytes bytes;      /* with WL_OK: the job's result */
    const char *message; /* otherwise: what went wrong, for a person */
    const char *detail;  /* details for debugging; may be NULL */
    uint64_t after_ms;   /* with WL_RETRY_AFTER */
} wl_result;

wl_result wl_ok(wl_bytes result);
wl_result wl_ok_text(const char *result);
wl_result wl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
wl_result wl_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
wl_result wl_retry_after(uint64_t ms, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the attempt at once, from any depth, like a panic in other languages. The job is retried. */
_Noreturn void wl_panic(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- Handlers and queues ---------------------------------------------------------------------------------------------------- */

typedef wl_result (*wl_handle)(wl_ctx *ctx, wl_bytes payload);

typedef struct wl_handler {
    const char *queue; /* "*" serves every other queue */
    wl_handle handle;
} wl_handler;

/* You define it; the last entry is {NULL, NULL}. */
extern const wl_handler wl_handlers[];

/* --- Progress --------------------------------------------------------------------------------------------------------------- */

typedef enum wl_level { WL_DEBUG, WL_INFO, WL_WARN, WL_ERROR } wl_level;

/* Reports how far the work has come. It never fails and never waits for the disk. */
void wl_progress(wl_ctx *ctx, uint64_t current, uint64_t total, const char *message);

typedef struct wl_event {
    const char *phase;   /* any of these may be NULL */
    const char *message;
    const char *detail;
    const char *unit;
    wl_level level;
    bool counted;        /* then current, and total if it is not 0; otherwise percent, if it is not negative */
    uint64_t current;
    uint64_t total;
    double weight;       /* 0: left out */
    double percent;
} wl_event;

/* The full form. */
void wl_report(wl_ctx *ctx, const wl_event *event);

/* --- Checkpoints ------------------------------------------------------------------------------------------------------------ */

/* Saves state for the next attempt. When it returns true, the state is on disk, together with the children spawned before; that
 * takes about half a millisecond. On false, return wl_last_error(ctx). */
bool wl_checkpoint(wl_ctx *ctx, wl_bytes state);
/* The same if the last save was at least this long ago. Also returns true if it was not. */
bool wl_checkpoint_every(wl_ctx *ctx, uint64_t ms, wl_bytes state);
/* Whether an earlier attempt saved state; if so, sets `state` to it. Returns false for state of a schema other than wl_set_schema's. */
bool wl_state(const wl_ctx *ctx, wl_bytes *state);
/* The schema of the saved state, 0 if there is none: to migrate it by hand with wl_state_any. */
uint32_t wl_state_schema(const wl_ctx *ctx);
bool wl_state_any(const wl_ctx *ctx, wl_bytes *state);
/* Sets the version of your state format, which is 1 unless set. Raise it when you change what you save. */
void wl_set_schema(wl_ctx *ctx, uint32_t schema);

/* --- Cancel ----------------------------------------------------------------------------------------------------------------- */

typedef enum wl_reason { WL_BY_USER, WL_BY_TIMEOUT, WL_BY_SHUTDOWN, WL_BY_SWAP } wl_reason;

typedef struct wl_cancel {
    wl_reason reason;
    uint64_t time_left_ms;
} wl_cancel;

/* Whether this attempt should stop, and why. `cancel` may be NULL. The call is cheap: make it between any two steps. */
bool wl_cancelled(wl_ctx *ctx, wl_cancel *cancel);
/* The result to return in that case. */
wl_result wl_stopped(wl_ctx *ctx);

/* --- Children --------------------------------------------------------------------------------------------------------------- */

typedef enum wl_priority { WL_QUEUE_PRIORITY, WL_CRITICAL, WL_HIGH, WL_NORMAL, WL_LOW } wl_priority;

/* Anything left zero is decided by the settings of its queue. */
typedef struct wl_child {
    const char *queue;
    wl_bytes payload;
    wl_priority priority;
    uint64_t delay_ms;
    uint32_t max_attempts;
    const char *unique_key;
    uint64_t unique_period_ms;
    const wl_tag *tags;
    size_t tag_count;
    const char *scope;
} wl_child;

/* Starts another job, atomically with the next checkpoint or the result; if the attempt fails before then, the job is never started.
 * On false, return wl_last_error(ctx). `ordinal` may be NULL. */
bool wl_spawn(wl_ctx *ctx, const wl_child *child, uint32_t *ordinal);

/* What happens to a waiting job when one of its children is dead or cancelled. */
typedef enum wl_on_failure {
    WL_ON_FAILURE_FAIL,     /* the job is dead at once, and its other children are cancelled */
    WL_ON_FAILURE_CANCEL,   /* the other children are cancelled, and the job runs again when all have ended */
    WL_ON_FAILURE_CONTINUE, /* the job runs again when all have ended, in whatever state */
} wl_on_failure;

/* Ends this attempt: return what it returns. The job runs again, from this state, when all of its children have ended; with NULL, the
 * last checkpoint remains. Children, state and wait are committed atomically. A waiting job occupies neither memory nor a slot. */
wl_result wl_wait_for_children(wl_ctx *ctx, wl_on_failure on_failure, const wl_bytes *state);

typedef struct wl_child_counts {
    uint64_t total, completed, dead, cancelled;
} wl_child_counts;

/* Whether this attempt follows a wait, and how the children ended. `counts` may be NULL. */
bool wl_joined(wl_ctx *ctx, wl_child_counts *counts);

typedef enum wl_child_state { WL_CHILD_OPEN, WL_CHILD_COMPLETED, WL_CHILD_DEAD, WL_CHILD_CANCELLED } wl_child_state;

typedef struct wl_children wl_children;

/* A job that this one has started. It is valid until the next call of wl_next_child. */
typedef struct wl_child_job {
    uint32_t ordinal; /* as set by wl_spawn */
    wl_bytes id;
    wl_bytes queue;
    wl_child_state state;
    wl_bytes error;         /* the last one; empty if there was none */
    wl_bytes result;        /* ptr is NULL if there is none or it is large; wl_child_result reads either */
    uint64_t result_bytes;
    wl_children *among;
} wl_child_job;

/* The position of a loop over the children. Initialise it with {0}; all fields but `failed` are internal. */
struct wl_children {
    bool failed; /* wl_last_error says why */
    bool begun, last;
    uint32_t next;
    wl_child_job *page;
    size_t at, count;
    void *page_memory, *result_memory;
};

/* The next child, in the order they were spawned; false after the last. They are read a page at a time:
 *
 *     wl_children all = {0};
 *     wl_child_job child;
 *     while (wl_next_child(ctx, &all, &child)) { ... }
 *     if (all.failed) return wl_last_error(ctx);
 */
bool wl_next_child(wl_ctx *ctx, wl_children *children, wl_child_job *child);
/* Reads a child's result, whatever its size; it is empty if there is none. It is valid as long as the child. On false, return
 * wl_last_error(ctx): the child did not complete, or could not be read. */
bool wl_child_result(wl_ctx *ctx, const wl_child_job *child, wl_bytes *result);

/* --- Records ------------------------------------------------------------------------------------------------------------------ */

/* Stores a value under a key of the job's own queue, for other jobs to read. It is committed with the next checkpoint or the result,
 * and discarded if the attempt fails before then. A value has at most 64 KiB. An existing record with this key is replaced. On false,
 * return wl_last_error(ctx). */
bool wl_put_record(wl_ctx *ctx, const char *key, wl_bytes value);

typedef struct wl_recorded {
    bool found;
    wl_bytes value;
    wl_bytes mark; /* ptr is NULL if there is none */
} wl_recorded;

/* Reads the committed record under a key of a queue. The plugin must serve the queue, or a gate must connect it to the job's own
 * queue. On false, return wl_last_error(ctx). Also returns true if there is no such record. */
bool wl_get_record(wl_ctx *ctx, const char *queue, const char *key, wl_recorded *record);
/* Frees what a wl_recorded holds before the attempt ends, for loops over many records. */
void wl_free_record(wl_recorded *record);
/* Sets the mark on a record, or removes it if `mark` is NULL. It is committed in the same way as a record. Marked records can be
 * listed, and their jobs rebuilt by a sweep. */
bool wl_mark(wl_ctx *ctx, const char *queue, const char *key, const char *mark);

/* --- Log, config and secrets ------------------------------------------------------------------------------------------------ */

/* Writes to the job's log. Standard output and standard error are logged too. */
void wl_log(wl_ctx *ctx, wl_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A setting of the plugin; false if it is not set. */
bool wl_config(wl_ctx *ctx, const char *name, wl_bytes *value);
/* A secret that the plugin was granted. On false, return wl_last_error(ctx): it says what to grant. */
bool wl_secret(wl_ctx *ctx, const char *name, wl_bytes *value);

/* --- HTTP ------------------------------------------------------------------------------------------------------------------- */

typedef struct wl_request {
    const char *method;     /* NULL is GET */
    const char *url;        /* http://… or https://… */
    const wl_tag *headers;
    size_t header_count;
    wl_bytes body;
    uint64_t timeout_ms;    /* for connecting, and between any two bytes; 0 is the server's default */
} wl_request;

typedef struct wl_response {
    uint16_t status;
    wl_tag *headers;
    size_t header_count;
    wl_bytes body;
} wl_response;

/* Sends a request to a host that the plugin was granted. Redirects are not followed. On false, return wl_last_error(ctx). */
bool wl_http(wl_ctx *ctx, const wl_request *request, wl_response *response);

/* --- Errors ----------------------------------------------------------------------------------------------------------------- */

/* The result to return after a call returned false; it says why. */
wl_result wl_last_error(const wl_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
