/* The server in a test. */
#include "windlass_fake.h"
#include "windlass_server.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

typedef struct pair {
    const char *name;
    const char *value;
} pair;

/* How a child ended: one of the two, or NULL while it has not. */
typedef struct ending {
    const char *result, *error;
} ending;

/* A record, or one that is noted and not committed; `is_mark` if only its mark is. Its texts are the fake's own. */
typedef struct record {
    char *queue, *key, *value, *mark;
    bool is_mark;
} record;

struct wl_fake {
    const char *queue;
    bool has_round;
    uint32_t round;
    record records[MOST], noted[MOST];
    size_t record_count, noted_count;
    pair config[MOST], secrets[MOST];
    size_t configs, secret_count;
    uint8_t *saved;
    size_t saved_len;
    uint32_t saved_schema, attempt;
    size_t saves, reports, spawned, children;
    ending endings[MOST];
    bool waits, waiting, joined; /* asked for in this attempt; by the last one; over */
    wl_on_failure on_failure;
    uint8_t *waits_with;
    size_t waits_with_len;
    uint32_t waits_schema;
    bool cancel;
    size_t checks;
    wl_reason reason;
    bool refuse_saves;
    size_t saves_left;
    bool (*answer)(const wl_request *, wl_response *);
    char *log;
    size_t log_len;
};

/* Where a panic of the running handler ends. */
static jmp_buf panicked;
static const char *panic_message;

/* A test has handlers, but need not have a table of them. */
__attribute__((weak)) const wl_handler wl_handlers[] = {{NULL, NULL}};

static bool refuse(wl_ctx *ctx, wl_result error) {
    ctx->error = error;
    return false;
}

static char *text_of(const char *text) { return text == NULL ? NULL : strdup(text); }

static void forget(record *record) {
    free(record->queue);
    free(record->key);
    free(record->value);
    free(record->mark);
}

static record *find(const wl_fake *fake, const char *queue, const char *key) {
    for (size_t n = 0; n < fake->record_count; n++) {
        const record *found = &fake->records[n];
        if (strcmp(found->queue, queue) == 0 && strcmp(found->key, key) == 0) return (record *)found;
    }
    return NULL;
}

/* Takes the texts over. */
static void put_record(wl_fake *fake, record made) {
    record *old = find(fake, made.queue, made.key);
    if (made.is_mark) {
        if (old != NULL) {
            free(old->mark);
            old->mark = text_of(made.mark);
        }
        forget(&made);
    } else if (old != NULL) {
        forget(old);
        *old = made;
    } else if (fake->record_count < MOST) {
        fake->records[fake->record_count++] = made;
    } else {
        forget(&made);
    }
}

static void commit_notes(wl_fake *fake) {
    for (size_t n = 0; n < fake->noted_count; n++) put_record(fake, fake->noted[n]);
    fake->noted_count = 0;
}

static void drop_notes(wl_fake *fake) {
    while (fake->noted_count > 0) forget(&fake->noted[--fake->noted_count]);
}

wl_fake *wl_fake_new(void) { return calloc(1, sizeof(wl_fake)); }

void wl_fake_free(wl_fake *fake) {
    drop_notes(fake);
    while (fake->record_count > 0) forget(&fake->records[--fake->record_count]);
    free(fake->saved);
    free(fake->waits_with);
    free(fake->log);
    free(fake);
    wl_free_all();
}

static const char *queue_of(const wl_fake *fake) { return fake->queue == NULL ? "test" : fake->queue; }

wl_result wl_fake_run(wl_fake *fake, wl_handle handle, const char *payload) {
    return wl_fake_run_bytes(fake, handle, wl_text(payload));
}

/* Decides, as the server would, whether a waiting job runs again. */
static wl_result join(wl_fake *fake) {
    bool failed = false;
    for (size_t n = 0; fake->waiting && n < fake->children; n++) {
        ending end = fake->endings[n < MOST ? n : MOST - 1];
        if (end.result == NULL && end.error == NULL) {
            return wl_fatal("child %zu has not ended; say how with wl_fake_child_completed or wl_fake_child_died", n);
        }
        failed = failed || end.error != NULL;
    }
    if (failed && fake->on_failure == WL_ON_FAILURE_FAIL) return wl_fatal("a child failed");
    fake->joined = fake->joined || fake->waiting;
    fake->waiting = false;
    return wl_ok_text("");
}

static void save(wl_fake *fake, uint8_t *state, size_t len, uint32_t schema) {
    free(fake->saved);
    fake->saved = state;
    fake->saved_len = len;
    fake->saved_schema = schema;
}

/* The attempt has ended well: what it spawned is committed, and its wait, if it asked for one. */
static wl_result commit(wl_fake *fake, wl_result result) {
    fake->children += fake->spawned;
    commit_notes(fake);
    if (!fake->waits) return result;
    fake->waiting = true;
    if (fake->waits_with != NULL) save(fake, fake->waits_with, fake->waits_with_len, fake->waits_schema);
    fake->waits_with = NULL;
    return (wl_result){.next = WL_WAITING, .message = "waits for its children"};
}

wl_result wl_fake_run_bytes(wl_fake *fake, wl_handle handle, wl_bytes payload) {
    wl_free_all();
    wl_result joined = join(fake);
    if (joined.next != WL_OK) return joined;
    wl_ctx ctx = {
        .job = {.id = wl_text("job_test"), .queue = wl_text(queue_of(fake)), .payload = payload, .attempt = ++fake->attempt, .max_attempts = 3,
                .has_round = fake->has_round, .round = fake->round},
        .schema = 1,
        .last_save_ms = wl_now_ms(),
        .server = fake,
    };
    if (fake->saved != NULL) {
        /* A copy: the handler may save while it still reads. */
        uint8_t *state = wl_alloc(fake->saved_len + 1);
        memcpy(state, fake->saved, fake->saved_len);
        ctx.saved = (wl_bytes){state, fake->saved_len};
        ctx.saved_schema = fake->saved_schema;
    }
    wl_result result;
    if (setjmp(panicked) == 0) {
        result = handle(&ctx, payload);
    } else {
        result = wl_fail("panic: %s", panic_message);
    }
    if (result.next == WL_OK || result.next == WL_WAITING) result = commit(fake, result);
    fake->spawned = 0;
    fake->waits = false;
    drop_notes(fake);
    return result;
}

static void put(pair *pairs, size_t *count, const char *name, const char *value) {
    if (*count < MOST) pairs[(*count)++] = (pair){name, value};
}

static const char *get(const pair *pairs, size_t count, const char *name) {
    while (count-- > 0) {
        if (strcmp(pairs[count].name, name) == 0) return pairs[count].value;
    }
    return NULL;
}

void wl_fake_config(wl_fake *fake, const char *name, const char *value) { put(fake->config, &fake->configs, name, value); }
void wl_fake_secret(wl_fake *fake, const char *name, const char *value) { put(fake->secrets, &fake->secret_count, name, value); }

void wl_fake_cancel_after(wl_fake *fake, size_t checks, wl_reason reason) {
    fake->cancel = true;
    fake->checks = checks;
    fake->reason = reason;
}

void wl_fake_fail_checkpoints_after(wl_fake *fake, size_t checkpoints) {
    fake->refuse_saves = true;
    fake->saves_left = checkpoints;
}

void wl_fake_resume(wl_fake *fake) { fake->cancel = fake->refuse_saves = false; }

void wl_fake_child_completed(wl_fake *fake, uint32_t ordinal, const char *result) {
    if (ordinal < MOST) fake->endings[ordinal] = (ending){.result = result};
}

void wl_fake_child_died(wl_fake *fake, uint32_t ordinal, const char *error) {
    if (ordinal < MOST) fake->endings[ordinal] = (ending){.error = error};
}

void wl_fake_queue(wl_fake *fake, const char *queue) { fake->queue = queue; }

void wl_fake_round(wl_fake *fake, uint32_t round) {
    fake->has_round = true;
    fake->round = round;
}

void wl_fake_put_record(wl_fake *fake, const char *queue, const char *key, const char *value) {
    put_record(fake, (record){.queue = text_of(queue), .key = text_of(key), .value = text_of(value)});
}

const char *wl_fake_get_record(const wl_fake *fake, const char *queue, const char *key) {
    record *found = find(fake, queue, key);
    return found == NULL ? NULL : found->value;
}

const char *wl_fake_record_mark(const wl_fake *fake, const char *queue, const char *key) {
    record *found = find(fake, queue, key);
    return found == NULL ? NULL : found->mark;
}

void wl_fake_http(wl_fake *fake, bool (*answer)(const wl_request *, wl_response *)) { fake->answer = answer; }

size_t wl_fake_saves(const wl_fake *fake) { return fake->saves; }
size_t wl_fake_reports(const wl_fake *fake) { return fake->reports; }
size_t wl_fake_children(const wl_fake *fake) { return fake->children; }
wl_bytes wl_fake_state(const wl_fake *fake) { return (wl_bytes){fake->saved, fake->saved_len}; }
const char *wl_fake_log(const wl_fake *fake) { return fake->log == NULL ? "" : fake->log; }

/* --- What a handler asks --------------------------------------------------------------------------------------------------- */

void wl_report(wl_ctx *ctx, const wl_event *event) {
    (void)event;
    ((wl_fake *)ctx->server)->reports++;
}

static uint8_t *copied(wl_bytes bytes) {
    uint8_t *copy = malloc(bytes.len + 1);
    if (bytes.len > 0) memcpy(copy, bytes.ptr, bytes.len);
    return copy;
}

bool wl_server_checkpoint(wl_ctx *ctx, wl_bytes state) {
    wl_fake *fake = ctx->server;
    if (fake->refuse_saves && fake->saves_left-- == 0) {
        fake->saves_left = 0;
        return refuse(ctx, wl_fail("the checkpoint was not saved: the test said so"));
    }
    save(fake, copied(state), state.len, ctx->schema);
    fake->saves++;
    fake->children += fake->spawned;
    fake->spawned = 0;
    commit_notes(fake);
    return true;
}

bool wl_cancelled(wl_ctx *ctx, wl_cancel *cancel) {
    wl_fake *fake = ctx->server;
    if (!fake->cancel) return false;
    if (fake->checks > 0) {
        fake->checks--;
        return false;
    }
    if (cancel != NULL) *cancel = (wl_cancel){fake->reason, 10000};
    return true;
}

bool wl_spawn(wl_ctx *ctx, const wl_child *child, uint32_t *ordinal) {
    wl_fake *fake = ctx->server;
    if (child->queue == NULL || child->queue[0] == 0) return refuse(ctx, wl_fatal("a child needs a queue"));
    if (ordinal != NULL) *ordinal = (uint32_t)(fake->children + fake->spawned);
    fake->spawned++;
    return true;
}

bool wl_joined(wl_ctx *ctx, wl_child_counts *counts) {
    wl_fake *fake = ctx->server;
    if (!fake->joined) return false;
    wl_child_counts found = {.total = fake->children};
    for (size_t n = 0; n < MOST; n++) found.dead += fake->endings[n].error != NULL;
    found.completed = found.total - found.dead;
    if (counts != NULL) *counts = found;
    return true;
}

bool wl_server_wait(wl_ctx *ctx, wl_on_failure on_failure, const wl_bytes *state) {
    wl_fake *fake = ctx->server;
    free(fake->waits_with);
    fake->waits = true;
    fake->on_failure = on_failure;
    fake->waits_with = state == NULL ? NULL : copied(*state);
    fake->waits_with_len = state == NULL ? 0 : state->len;
    fake->waits_schema = ctx->schema;
    return true;
}

bool wl_server_children(wl_ctx *ctx, uint32_t start, wl_page *page) {
    wl_fake *fake = ctx->server;
    /* Two at a time, so that a test of three sees more than one page. */
    size_t rest = fake->children > start ? fake->children - start : 0;
    *page = (wl_page){.count = rest < 2 ? rest : 2, .last = rest <= 2, .next = start + 2};
    page->memory = page->children = wl_alloc(2 * sizeof(wl_child_job));
    for (size_t n = 0; n < page->count; n++) {
        uint32_t ordinal = start + (uint32_t)n;
        ending end = ordinal < MOST ? fake->endings[ordinal] : (ending){NULL, NULL};
        wl_child_job *child = &page->children[n];
        *child = (wl_child_job){.ordinal = ordinal, .id = wl_text("job_child"), .queue = wl_text("test")};
        child->state = end.error != NULL ? WL_CHILD_DEAD : end.result != NULL ? WL_CHILD_COMPLETED : WL_CHILD_OPEN;
        if (end.error != NULL) child->error = wl_text(end.error);
        child->result_bytes = wl_text(end.result).len;
        /* As on the server, a large one is not on the page. */
        if (child->result_bytes > 0 && child->result_bytes <= 64 * 1024) child->result = wl_text(end.result);
    }
    return true;
}

bool wl_server_child_result(wl_ctx *ctx, uint32_t ordinal, wl_bytes *result) {
    wl_fake *fake = ctx->server;
    wl_bytes all = wl_text(ordinal < MOST ? fake->endings[ordinal].result : NULL);
    uint8_t *copy = wl_alloc(all.len + 1);
    memcpy(copy, all.ptr == NULL ? (const uint8_t *)"" : all.ptr, all.len);
    *result = (wl_bytes){copy, all.len};
    return true;
}

bool wl_put_record(wl_ctx *ctx, const char *key, wl_bytes value) {
    wl_fake *fake = ctx->server;
    if (key[0] == 0 || strlen(key) > 1024 || value.len > 64 * 1024) {
        return refuse(ctx, wl_fatal("a key has 1 to 1024 bytes, and a value at most 64 KiB"));
    }
    if (fake->noted_count == MOST) return refuse(ctx, wl_fatal("the fake holds %d records at once", MOST));
    record made = {.queue = text_of(queue_of(fake)), .key = text_of(key), .value = calloc(1, value.len + 1)};
    if (value.len > 0) memcpy(made.value, value.ptr, value.len);
    fake->noted[fake->noted_count++] = made;
    return true;
}

bool wl_get_record(wl_ctx *ctx, const char *queue, const char *key, wl_recorded *out) {
    record *found = find(ctx->server, queue, key);
    *out = (wl_recorded){.found = found != NULL};
    if (found != NULL) out->value = wl_text(wl_format("%s", found->value));
    if (found != NULL && found->mark != NULL) out->mark = wl_text(wl_format("%s", found->mark));
    return true;
}

bool wl_mark(wl_ctx *ctx, const char *queue, const char *key, const char *mark) {
    wl_fake *fake = ctx->server;
    if (fake->noted_count == MOST) return refuse(ctx, wl_fatal("the fake holds %d marks at once", MOST));
    fake->noted[fake->noted_count++] =
        (record){.queue = text_of(queue), .key = text_of(key), .mark = text_of(mark), .is_mark = true};
    return true;
}

void wl_server_log(wl_ctx *ctx, wl_level level, const char *message) {
    (void)level;
    wl_fake *fake = ctx->server;
    size_t len = strlen(message);
    fake->log = realloc(fake->log, fake->log_len + len + 2);
    memcpy(fake->log + fake->log_len, message, len);
    fake->log_len += len + 1;
    strcpy(fake->log + fake->log_len - 1, "\n");
}

void wl_server_panic(const char *message) {
    panic_message = message;
    longjmp(panicked, 1);
}

bool wl_config(wl_ctx *ctx, const char *name, wl_bytes *value) {
    wl_fake *fake = ctx->server;
    const char *found = get(fake->config, fake->configs, name);
    if (found != NULL) *value = wl_text(found);
    return found != NULL;
}

bool wl_secret(wl_ctx *ctx, const char *name, wl_bytes *value) {
    wl_fake *fake = ctx->server;
    const char *found = get(fake->secrets, fake->secret_count, name);
    if (found == NULL) return refuse(ctx, wl_fatal("this plugin may not read the secret `%s`", name));
    *value = wl_text(found);
    return true;
}

bool wl_http(wl_ctx *ctx, const wl_request *request, wl_response *response) {
    wl_fake *fake = ctx->server;
    if (fake->answer == NULL || !fake->answer(request, response)) return refuse(ctx, wl_fail("%s: no answer", request->url));
    return true;
}
