/* First the part that is the same in a component and in a test: memory, results, state, dispatch. Then, in a component only, what
 * speaks to the server through the generated bindings; in a test that is windlass_fake.c. */
#include "windlass_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- Memory that lives until the attempt ends ------------------------------------------------------------------------------ */

typedef struct block {
    struct block *next, *before;
    max_align_t start[];
} block;

static block *blocks;

void *wl_alloc(size_t size) {
    block *made = malloc(sizeof(block) + size);
    if (made == NULL) wl_panic("out of memory: %zu bytes were wanted", size);
    made->next = blocks;
    made->before = NULL;
    if (blocks != NULL) blocks->before = made;
    blocks = made;
    return made->start;
}

void wl_release(void *memory) {
    if (memory == NULL) return;
    block *gone = (block *)((char *)memory - offsetof(block, start));
    if (gone->before != NULL) gone->before->next = gone->next;
    if (gone->next != NULL) gone->next->before = gone->before;
    if (blocks == gone) blocks = gone->next;
    free(gone);
}

void wl_free_all(void) {
    while (blocks != NULL) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static char *format_list(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) return "(a message that cannot be formatted)";
    char *text = wl_alloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

#define FORMAT(text, format)               \
    va_list arguments;                     \
    va_start(arguments, format);           \
    char *text = format_list(format, arguments); \
    va_end(arguments)

char *wl_format(const char *format, ...) {
    FORMAT(text, format);
    return text;
}

wl_bytes wl_text(const char *text) { return (wl_bytes){(const uint8_t *)text, text == NULL ? 0 : strlen(text)}; }

bool wl_is(wl_bytes bytes, const char *text) {
    return bytes.len == strlen(text) && memcmp(bytes.ptr, text, bytes.len) == 0;
}

/* --- Results ----------------------------------------------------------------------------------------------------------------- */

wl_result wl_ok(wl_bytes result) { return (wl_result){.next = WL_OK, .bytes = result}; }

wl_result wl_ok_text(const char *result) { return wl_ok(wl_text(result)); }

wl_result wl_fail(const char *format, ...) {
    FORMAT(text, format);
    return (wl_result){.next = WL_RETRY, .message = text};
}

wl_result wl_fatal(const char *format, ...) {
    FORMAT(text, format);
    return (wl_result){.next = WL_FATAL, .message = text};
}

wl_result wl_retry_after(uint64_t ms, const char *format, ...) {
    FORMAT(text, format);
    return (wl_result){.next = WL_RETRY_AFTER, .message = text, .after_ms = ms};
}

void wl_panic(const char *format, ...) {
    FORMAT(text, format);
    wl_server_panic(text);
}

/* --- The job and its state ----------------------------------------------------------------------------------------------------- */

const wl_job *wl_ctx_job(const wl_ctx *ctx) { return &ctx->job; }

wl_bytes wl_tag_value(const wl_ctx *ctx, const char *name) {
    for (size_t n = 0; n < ctx->job.tag_count; n++) {
        if (wl_is(ctx->job.tags[n].name, name)) return ctx->job.tags[n].value;
    }
    return (wl_bytes){NULL, 0};
}

bool wl_state(const wl_ctx *ctx, wl_bytes *state) {
    return ctx->saved_schema == ctx->schema && wl_state_any(ctx, state);
}

bool wl_state_any(const wl_ctx *ctx, wl_bytes *state) {
    if (ctx->saved_schema == 0 && ctx->saved.ptr == NULL) return false;
    *state = ctx->saved;
    return true;
}

uint32_t wl_state_schema(const wl_ctx *ctx) { return ctx->saved_schema; }

void wl_set_schema(wl_ctx *ctx, uint32_t schema) { ctx->schema = schema; }

uint64_t wl_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool wl_checkpoint(wl_ctx *ctx, wl_bytes state) {
    if (!wl_server_checkpoint(ctx, state)) return false;
    ctx->last_save_ms = wl_now_ms();
    return true;
}

bool wl_checkpoint_every(wl_ctx *ctx, uint64_t ms, wl_bytes state) {
    return wl_now_ms() - ctx->last_save_ms < ms || wl_checkpoint(ctx, state);
}

/* --- Short forms ----------------------------------------------------------------------------------------------------------------- */

void wl_progress(wl_ctx *ctx, uint64_t current, uint64_t total, const char *message) {
    wl_report(ctx, &(wl_event){.message = message, .level = WL_INFO, .counted = true, .current = current, .total = total});
}

void wl_log(wl_ctx *ctx, wl_level level, const char *format, ...) {
    FORMAT(text, format);
    wl_server_log(ctx, level, text);
}

wl_result wl_stopped(wl_ctx *ctx) {
    static const char *const reasons[] = {"user", "timeout", "shutdown", "swap"};
    wl_cancel cancel = {0};
    wl_cancelled(ctx, &cancel);
    return (wl_result){.next = WL_CANCELLED, .message = wl_format("stopped on request: %s", reasons[cancel.reason])};
}

wl_result wl_last_error(const wl_ctx *ctx) {
    return ctx->error.message != NULL ? ctx->error : wl_fail("no call has failed");
}

/* --- Children ------------------------------------------------------------------------------------------------------------------ */

wl_result wl_wait_for_children(wl_ctx *ctx, wl_on_failure on_failure, const wl_bytes *state) {
    if (!wl_server_wait(ctx, on_failure, state)) return wl_last_error(ctx);
    return (wl_result){.next = WL_WAITING, .message = "waits for its children"};
}

bool wl_next_child(wl_ctx *ctx, wl_children *children, wl_child_job *child) {
    wl_release(children->result_memory);
    children->result_memory = NULL;
    while (children->at == children->count) {
        wl_release(children->page_memory);
        children->page_memory = NULL;
        children->at = children->count = 0;
        if (children->failed || (children->begun && children->last)) return false;
        wl_page page;
        if (!wl_server_children(ctx, children->next, &page)) {
            children->failed = true;
            return false;
        }
        children->begun = true;
        children->last = page.last;
        children->next = page.next;
        children->page = page.children;
        children->count = page.count;
        children->page_memory = page.memory;
    }
    *child = children->page[children->at++];
    child->among = children;
    return true;
}

bool wl_child_result(wl_ctx *ctx, const wl_child_job *child, wl_bytes *result) {
    static const char *const states[] = {"open", "completed", "dead", "cancelled"};
    if (child->state != WL_CHILD_COMPLETED) {
        ctx->error = wl_fail("child %u has no result, it is %s%s%.*s", child->ordinal, states[child->state],
                             child->error.len > 0 ? ": " : "", (int)child->error.len, (const char *)child->error.ptr);
        return false;
    }
    *result = child->result;
    if (child->result.ptr != NULL || child->result_bytes == 0) return true;
    wl_release(child->among->result_memory);
    child->among->result_memory = NULL;
    if (!wl_server_child_result(ctx, child->ordinal, result)) return false;
    child->among->result_memory = (void *)result->ptr;
    return true;
}

void wl_free_record(wl_recorded *record) {
    wl_release((void *)record->value.ptr);
    wl_release((void *)record->mark.ptr);
    *record = (wl_recorded){0};
}

/* --- Dispatch ------------------------------------------------------------------------------------------------------------------ */

wl_result wl_dispatch(wl_ctx *ctx) {
    const wl_handler *found = NULL;
    for (const wl_handler *handler = wl_handlers; handler->queue != NULL; handler++) {
        bool exact = wl_is(ctx->job.queue, handler->queue);
        if (exact || (found == NULL && strcmp(handler->queue, "*") == 0)) found = handler;
        if (exact) break;
    }
    if (found == NULL) {
        return wl_fatal("this plugin has no handler for the queue `%.*s`", (int)ctx->job.queue.len, (const char *)ctx->job.queue.ptr);
    }
    return found->handle(ctx, ctx->job.payload);
}

/* --- The server, in a component ------------------------------------------------------------------------------------------------ */

#ifdef __wasm__

#include "bindings/windlass_wit.h"

/* The bindings ask for an object file with the world's type. `windlass plugin build` puts the type in itself. */
void __component_type_object_force_link_windlass_wit(void) {}

static windlass_wit_string_t string(const char *text) {
    return (windlass_wit_string_t){(uint8_t *)text, text == NULL ? 0 : strlen(text)};
}

/* Takes over what the host has allocated, and adds a terminating zero for use as a string. */
static wl_bytes adopt(uint8_t *ptr, size_t len) {
    uint8_t *copy = wl_alloc(len + 1);
    if (len > 0) memcpy(copy, ptr, len);
    copy[len] = 0;
    if (len > 0) free(ptr);
    return (wl_bytes){copy, len};
}

static bool refuse(wl_ctx *ctx, wl_result error) {
    ctx->error = error;
    return false;
}

static windlass_wit_option_string_t optional(const char *text) {
    return (windlass_wit_option_string_t){.is_some = text != NULL, .val = string(text)};
}

static windlass_wit_option_u64_t not_zero(uint64_t value) {
    return (windlass_wit_option_u64_t){.is_some = value != 0, .val = value};
}

static const char *adopt_text(windlass_wit_string_t text) { return (const char *)adopt(text.ptr, text.len).ptr; }

void wl_report(wl_ctx *ctx, const wl_event *event) {
    (void)ctx;
    windlass_job_progress_event_t told = {
        .phase = optional(event->phase), .message = optional(event->message), .level = (uint8_t)event->level,
        .detail = optional(event->detail),
    };
    if (event->counted) {
        told.amount.is_some = true;
        told.amount.val.tag = WINDLASS_JOB_PROGRESS_AMOUNT_COUNT;
        told.amount.val.val.count = (windlass_job_progress_count_t){
            .current = event->current, .total = not_zero(event->total), .unit = optional(event->unit),
            .weight = {.is_some = event->weight != 0, .val = event->weight},
        };
    } else if (event->percent >= 0) {
        told.amount.is_some = true;
        told.amount.val.tag = WINDLASS_JOB_PROGRESS_AMOUNT_PERCENT;
        told.amount.val.val.percent = event->percent;
    }
    windlass_job_progress_report(&told);
}

bool wl_server_checkpoint(wl_ctx *ctx, wl_bytes state) {
    windlass_wit_list_u8_t bytes = {(uint8_t *)state.ptr, state.len};
    windlass_job_checkpoint_refusal_t refusal;
    if (windlass_job_checkpoint_save(ctx->schema, &bytes, &refusal)) return true;
    if (refusal.tag == WINDLASS_JOB_CHECKPOINT_REFUSAL_TOO_LARGE) {
        return refuse(ctx, wl_fatal("the state has %zu bytes, and a checkpoint may have %llu", state.len,
                                    (unsigned long long)refusal.val.too_large));
    }
    return refuse(ctx, wl_fail("the checkpoint was not saved: %s", adopt_text(refusal.val.unavailable)));
}

bool wl_cancelled(wl_ctx *ctx, wl_cancel *cancel) {
    (void)ctx;
    windlass_job_cancel_request_t request;
    if (!windlass_job_cancel_cancelled(&request)) return false;
    if (cancel != NULL) *cancel = (wl_cancel){(wl_reason)request.reason, request.time_left_ms};
    return true;
}

bool wl_spawn(wl_ctx *ctx, const wl_child *child, uint32_t *ordinal) {
    windlass_job_spawn_child_t told = {
        .queue = string(child->queue),
        .payload = {(uint8_t *)child->payload.ptr, child->payload.len},
        .priority = {.is_some = child->priority != WL_QUEUE_PRIORITY, .val = (uint8_t)(child->priority - WL_CRITICAL)},
        .delay_ms = not_zero(child->delay_ms),
        .max_attempts = {.is_some = child->max_attempts != 0, .val = child->max_attempts},
        .unique_key = optional(child->unique_key),
        .unique_period_ms = not_zero(child->unique_period_ms),
        .scope = optional(child->scope),
    };
    if (child->tag_count > 0) {
        told.tags.len = child->tag_count;
        told.tags.ptr = wl_alloc(child->tag_count * sizeof(*told.tags.ptr));
        for (size_t n = 0; n < child->tag_count; n++) {
            wl_tag tag = child->tags[n];
            told.tags.ptr[n].f0 = (windlass_wit_string_t){(uint8_t *)tag.name.ptr, tag.name.len};
            told.tags.ptr[n].f1 = (windlass_wit_string_t){(uint8_t *)tag.value.ptr, tag.value.len};
        }
    }
    uint32_t number;
    windlass_job_spawn_refusal_t refusal;
    if (windlass_job_spawn_start(&told, &number, &refusal)) {
        if (ordinal != NULL) *ordinal = number;
        return true;
    }
    switch (refusal.tag) {
    case WINDLASS_JOB_SPAWN_REFUSAL_TOO_MANY:
        return refuse(ctx, wl_fatal("more than %llu children wait for a checkpoint; save one in between",
                                    (unsigned long long)refusal.val.too_many));
    case WINDLASS_JOB_SPAWN_REFUSAL_TOO_LARGE:
        return refuse(ctx, wl_fatal("the children that wait for a checkpoint have more than %llu bytes; save one in between",
                                    (unsigned long long)refusal.val.too_large));
    default:
        /* Invalid and denied both carry a message. */
        return refuse(ctx, wl_fatal("%s", adopt_text(refusal.val.invalid)));
    }
}

bool wl_joined(wl_ctx *ctx, wl_child_counts *counts) {
    (void)ctx;
    windlass_job_children_counts_t found;
    if (!windlass_job_children_joined(&found)) return false;
    if (counts != NULL) *counts = (wl_child_counts){found.total, found.completed, found.dead, found.cancelled};
    return true;
}

bool wl_server_wait(wl_ctx *ctx, wl_on_failure on_failure, const wl_bytes *state) {
    windlass_job_children_saved_state_t saved, *given = NULL;
    if (state != NULL) {
        saved = (windlass_job_children_saved_state_t){ctx->schema, {(uint8_t *)state->ptr, state->len}};
        given = &saved;
    }
    windlass_job_children_refusal_t refusal;
    if (windlass_job_children_wait((uint8_t)on_failure, given, &refusal)) return true;
    if (refusal.tag == WINDLASS_JOB_CHILDREN_REFUSAL_TOO_LARGE) {
        return refuse(ctx, wl_fatal("the state has %zu bytes, and a checkpoint may have %llu", state == NULL ? 0 : state->len,
                                    (unsigned long long)refusal.val.too_large));
    }
    return refuse(ctx, wl_fatal("%s", adopt_text(refusal.val.invalid)));
}

static bool not_read(wl_ctx *ctx, windlass_job_children_refusal_t *refusal) {
    switch (refusal->tag) {
    case WINDLASS_JOB_CHILDREN_REFUSAL_INVALID:
        return refuse(ctx, wl_fatal("%s", adopt_text(refusal->val.invalid)));
    case WINDLASS_JOB_CHILDREN_REFUSAL_TOO_LARGE:
        return refuse(ctx, wl_fatal("it has more than %llu bytes", (unsigned long long)refusal->val.too_large));
    default:
        return refuse(ctx, wl_fail("the children were not read: %s", adopt_text(refusal->val.unavailable)));
    }
}

/* Copies bytes to where `room` is, and moves it on. */
static wl_bytes copy_to(uint8_t **room, const uint8_t *ptr, size_t len) {
    wl_bytes copy = {*room, len};
    if (len > 0) memcpy(*room, ptr, len);
    (*room)[len] = 0;
    *room += len + 1;
    return copy;
}

/* How many children to ask for at once; the server returns no more. */
#define CHILDREN_PAGE 100

bool wl_server_children(wl_ctx *ctx, uint32_t start, wl_page *page) {
    windlass_job_children_page_t read;
    windlass_job_children_refusal_t refusal;
    if (!windlass_job_children_read(start, CHILDREN_PAGE, &read, &refusal)) return not_read(ctx, &refusal);
    /* All of it in one allocation, so that one call frees it. */
    size_t size = read.children.len * sizeof(wl_child_job);
    for (size_t n = 0; n < read.children.len; n++) {
        windlass_job_children_child_t *child = &read.children.ptr[n];
        size += child->id.len + child->queue.len + 4;
        if (child->error.is_some) size += child->error.val.len;
        if (child->result.is_some) size += child->result.val.len;
    }
    *page = (wl_page){.count = read.children.len, .last = !read.next.is_some, .memory = wl_alloc(size)};
    if (read.next.is_some) page->next = read.next.val;
    page->children = page->memory;
    uint8_t *room = (uint8_t *)(page->children + page->count);
    for (size_t n = 0; n < page->count; n++) {
        windlass_job_children_child_t *child = &read.children.ptr[n];
        page->children[n] = (wl_child_job){
            .ordinal = child->ordinal, .state = (wl_child_state)child->state, .result_bytes = child->result_bytes,
            .id = copy_to(&room, child->id.ptr, child->id.len), .queue = copy_to(&room, child->queue.ptr, child->queue.len),
        };
        if (child->error.is_some) page->children[n].error = copy_to(&room, child->error.val.ptr, child->error.val.len);
        if (child->result.is_some) page->children[n].result = copy_to(&room, child->result.val.ptr, child->result.val.len);
    }
    windlass_job_children_page_free(&read);
    return true;
}

bool wl_server_child_result(wl_ctx *ctx, uint32_t ordinal, wl_bytes *result) {
    windlass_wit_option_list_u8_t read;
    windlass_job_children_refusal_t refusal;
    if (!windlass_job_children_result(ordinal, &read, &refusal)) return not_read(ctx, &refusal);
    *result = read.is_some ? adopt(read.val.ptr, read.val.len) : (wl_bytes){NULL, 0};
    return true;
}

static bool not_recorded(wl_ctx *ctx, windlass_job_records_refusal_t *refusal) {
    switch (refusal->tag) {
    case WINDLASS_JOB_RECORDS_REFUSAL_TOO_MANY:
        return refuse(ctx, wl_fatal("more than %llu records wait for a checkpoint; save one in between",
                                    (unsigned long long)refusal->val.too_many));
    case WINDLASS_JOB_RECORDS_REFUSAL_TOO_LARGE:
        return refuse(ctx, wl_fatal("the record has more than %llu bytes, alone or with those that wait for a checkpoint",
                                    (unsigned long long)refusal->val.too_large));
    case WINDLASS_JOB_RECORDS_REFUSAL_UNAVAILABLE:
        return refuse(ctx, wl_fail("the record was not read: %s", adopt_text(refusal->val.unavailable)));
    default:
        /* Invalid and denied both carry a message. */
        return refuse(ctx, wl_fatal("%s", adopt_text(refusal->val.denied)));
    }
}

bool wl_put_record(wl_ctx *ctx, const char *key, wl_bytes value) {
    windlass_wit_string_t name = string(key);
    windlass_wit_list_u8_t bytes = {(uint8_t *)value.ptr, value.len};
    windlass_job_records_refusal_t refusal;
    return windlass_job_records_put(&name, &bytes, &refusal) || not_recorded(ctx, &refusal);
}

bool wl_get_record(wl_ctx *ctx, const char *queue, const char *key, wl_recorded *record) {
    windlass_wit_string_t from = string(queue), name = string(key);
    windlass_job_records_option_entry_t found;
    windlass_job_records_refusal_t refusal;
    if (!windlass_job_records_get(&from, &name, &found, &refusal)) return not_recorded(ctx, &refusal);
    *record = (wl_recorded){.found = found.is_some};
    if (!found.is_some) return true;
    record->value = adopt(found.val.value.ptr, found.val.value.len);
    if (found.val.mark.is_some) record->mark = adopt(found.val.mark.val.ptr, found.val.mark.val.len);
    return true;
}

bool wl_mark(wl_ctx *ctx, const char *queue, const char *key, const char *mark) {
    windlass_wit_string_t at = string(queue), name = string(key), word = string(mark);
    windlass_job_records_refusal_t refusal;
    return windlass_job_records_mark(&at, &name, mark == NULL ? NULL : &word, &refusal) || not_recorded(ctx, &refusal);
}

void wl_server_log(wl_ctx *ctx, wl_level level, const char *message) {
    (void)ctx;
    windlass_wit_string_t text = string(message);
    windlass_job_log_write((uint8_t)level, &text);
}

void wl_server_panic(const char *message) {
    /* A trap carries no message. So the message is logged first, and the server adds it to the error. */
    wl_server_log(NULL, WL_ERROR, wl_format("panic: %s", message));
    __builtin_trap();
}

bool wl_config(wl_ctx *ctx, const char *name, wl_bytes *value) {
    (void)ctx;
    windlass_wit_string_t key = string(name), found;
    if (!windlass_job_config_get(&key, &found)) return false;
    *value = adopt(found.ptr, found.len);
    return true;
}

bool wl_secret(wl_ctx *ctx, const char *name, wl_bytes *value) {
    windlass_wit_string_t key = string(name), found;
    windlass_job_secrets_refusal_t refusal;
    if (!windlass_job_secrets_get(&key, &found, &refusal)) {
        /* Both kinds of refusal carry a message. */
        return refuse(ctx, wl_fatal("%s", adopt_text(refusal.val.denied)));
    }
    *value = adopt(found.ptr, found.len);
    return true;
}

/* --- HTTP ---------------------------------------------------------------------------------------------------------------------- */

static wasi_http_types_method_t method(const char *name) {
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    if (name == NULL) name = "GET";
    for (uint8_t tag = 0; tag < sizeof(names) / sizeof(names[0]); tag++) {
        if (strcmp(name, names[tag]) == 0) return (wasi_http_types_method_t){.tag = tag};
    }
    return (wasi_http_types_method_t){.tag = WASI_HTTP_TYPES_METHOD_OTHER, .val.other = string(name)};
}

/* The names of the errors, in the order of the interface. */
static const char *const http_errors[] = {
    "the name lookup took too long", "the name was not found", "the destination was not found",
    "the destination is unavailable", "the address is not allowed", "the address cannot be reached",
    "the connection was refused", "the connection was broken off", "connecting took too long",
    "the answer took too long", "sending took too long", "too many connections", "TLS failed",
    "the certificate is not valid", "TLS was refused", "the request was denied; the plugin needs a grant for this host",
};

static const char *http_error(const wasi_http_types_error_code_t *error) {
    if (error->tag < sizeof(http_errors) / sizeof(http_errors[0])) return http_errors[error->tag];
    if (error->tag == WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR && error->val.internal_error.is_some) {
        windlass_wit_string_t text = error->val.internal_error.val;
        return wl_format("%.*s", (int)text.len, (const char *)text.ptr);
    }
    return wl_format("HTTP error %u of wasi:http", error->tag);
}

/* http://host/path → is it https, the host, the path. */
static bool split_url(const char *url, bool *secure, windlass_wit_string_t *authority, windlass_wit_string_t *path) {
    if (strncmp(url, "https://", 8) == 0) {
        *secure = true;
        url += 8;
    } else if (strncmp(url, "http://", 7) == 0) {
        *secure = false;
        url += 7;
    } else {
        return false;
    }
    size_t host = strcspn(url, "/?#");
    *authority = (windlass_wit_string_t){(uint8_t *)url, host};
    url += host;
    size_t rest = strcspn(url, "#");
    *path = *url == '/' ? (windlass_wit_string_t){(uint8_t *)url, rest}
                        : string(wl_format("/%.*s", (int)rest, url));
    return host > 0;
}

static bool send_body(wasi_http_types_own_outgoing_body_t outgoing, wl_bytes body) {
    bool sent = true;
    if (body.len > 0) {
        wasi_http_types_own_output_stream_t stream;
        if (!wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(outgoing), &stream)) return false;
        for (size_t at = 0; at < body.len && sent; at += 4096) {
            windlass_wit_list_u8_t part = {(uint8_t *)body.ptr + at, body.len - at < 4096 ? body.len - at : 4096};
            wasi_io_streams_stream_error_t failed;
            sent = wasi_io_streams_method_output_stream_blocking_write_and_flush(
                wasi_io_streams_borrow_output_stream(stream), &part, &failed);
        }
        wasi_io_streams_output_stream_drop_own(stream);
    }
    wasi_http_types_error_code_t error;
    return wasi_http_types_static_outgoing_body_finish(outgoing, NULL, &error) && sent;
}

static bool read_body(wl_ctx *ctx, wasi_http_types_own_incoming_response_t answer, wl_bytes *body) {
    wasi_http_types_own_incoming_body_t incoming;
    wasi_http_types_own_input_stream_t stream;
    if (!wasi_http_types_method_incoming_response_consume(wasi_http_types_borrow_incoming_response(answer), &incoming) ||
        !wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(incoming), &stream)) {
        return refuse(ctx, wl_fail("the answer has no body to read"));
    }
    size_t len = 0, room = 64 * 1024;
    uint8_t *bytes = malloc(room);
    bool whole = bytes != NULL;
    while (whole) {
        windlass_wit_list_u8_t part;
        wasi_io_streams_stream_error_t end;
        if (!wasi_io_streams_method_input_stream_blocking_read(wasi_io_streams_borrow_input_stream(stream), 64 * 1024, &part, &end)) {
            whole = end.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED;
            if (!whole) wasi_io_streams_stream_error_free(&end);
            break;
        }
        while (room < len + part.len) room *= 2;
        uint8_t *larger = realloc(bytes, room);
        whole = larger != NULL;
        if (whole) {
            bytes = larger;
            memcpy(bytes + len, part.ptr, part.len);
            len += part.len;
        }
        windlass_wit_list_u8_free(&part);
    }
    wasi_io_streams_input_stream_drop_own(stream);
    wasi_http_types_incoming_body_drop_own(incoming);
    if (!whole) {
        free(bytes);
        return refuse(ctx, wl_fail("the answer broke off after %zu bytes", len));
    }
    *body = adopt(bytes, len);
    return true;
}

static bool read_answer(wl_ctx *ctx, wasi_http_types_own_incoming_response_t answer, wl_response *response) {
    wasi_http_types_borrow_incoming_response_t borrowed = wasi_http_types_borrow_incoming_response(answer);
    response->status = wasi_http_types_method_incoming_response_status(borrowed);
    wasi_http_types_own_fields_t fields = wasi_http_types_method_incoming_response_headers(borrowed);
    wasi_http_types_list_tuple2_field_name_field_value_t entries;
    wasi_http_types_method_fields_entries(wasi_http_types_borrow_fields(fields), &entries);
    response->header_count = entries.len;
    response->headers = wl_alloc(entries.len * sizeof(wl_tag));
    for (size_t n = 0; n < entries.len; n++) {
        response->headers[n].name = adopt(entries.ptr[n].f0.ptr, entries.ptr[n].f0.len);
        response->headers[n].value = adopt(entries.ptr[n].f1.ptr, entries.ptr[n].f1.len);
    }
    if (entries.len > 0) free(entries.ptr);
    wasi_http_types_fields_drop_own(fields);
    bool read = read_body(ctx, answer, &response->body);
    wasi_http_types_incoming_response_drop_own(answer);
    return read;
}

static bool make_request(wl_ctx *ctx, const wl_request *request, wasi_http_types_own_outgoing_request_t *made) {
    wasi_http_types_scheme_t scheme = {0};
    windlass_wit_string_t authority, path;
    bool secure;
    if (request->url == NULL || !split_url(request->url, &secure, &authority, &path)) {
        return refuse(ctx, wl_fatal("`%s` is no http:// or https:// address", request->url == NULL ? "" : request->url));
    }
    scheme.tag = secure ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP;
    wasi_http_types_list_tuple2_field_name_field_value_t headers = {NULL, request->header_count};
    if (headers.len > 0) headers.ptr = wl_alloc(headers.len * sizeof(*headers.ptr));
    for (size_t n = 0; n < headers.len; n++) {
        wl_tag header = request->headers[n];
        headers.ptr[n].f0 = (windlass_wit_string_t){(uint8_t *)header.name.ptr, header.name.len};
        headers.ptr[n].f1 = (wasi_http_types_field_value_t){(uint8_t *)header.value.ptr, header.value.len};
    }
    wasi_http_types_own_fields_t fields;
    wasi_http_types_header_error_t wrong;
    if (!wasi_http_types_static_fields_from_list(&headers, &fields, &wrong)) {
        return refuse(ctx, wl_fatal("a header of the request cannot be sent"));
    }
    *made = wasi_http_types_constructor_outgoing_request(fields);
    wasi_http_types_borrow_outgoing_request_t borrowed = wasi_http_types_borrow_outgoing_request(*made);
    wasi_http_types_method_t verb = method(request->method);
    if (!wasi_http_types_method_outgoing_request_set_method(borrowed, &verb) ||
        !wasi_http_types_method_outgoing_request_set_scheme(borrowed, &scheme) ||
        !wasi_http_types_method_outgoing_request_set_authority(borrowed, &authority) ||
        !wasi_http_types_method_outgoing_request_set_path_with_query(borrowed, &path)) {
        return refuse(ctx, wl_fatal("`%s` cannot be requested", request->url));
    }
    return true;
}

bool wl_http(wl_ctx *ctx, const wl_request *request, wl_response *response) {
    wasi_http_types_own_outgoing_request_t made;
    if (!make_request(ctx, request, &made)) return false;
    wasi_http_outgoing_handler_own_request_options_t options, *chosen = NULL;
    if (request->timeout_ms != 0) {
        options = wasi_http_types_constructor_request_options();
        wasi_http_types_borrow_request_options_t borrowed = wasi_http_types_borrow_request_options(options);
        uint64_t ns = request->timeout_ms * 1000000;
        wasi_http_types_method_request_options_set_connect_timeout(borrowed, &ns);
        wasi_http_types_method_request_options_set_first_byte_timeout(borrowed, &ns);
        wasi_http_types_method_request_options_set_between_bytes_timeout(borrowed, &ns);
        chosen = &options;
    }
    wasi_http_outgoing_handler_own_future_incoming_response_t future;
    wasi_http_outgoing_handler_error_code_t error;
    /* The body is taken before the request is given away, and filled after. */
    wasi_http_types_own_outgoing_body_t outgoing;
    bool has_body = wasi_http_types_method_outgoing_request_body(wasi_http_types_borrow_outgoing_request(made), &outgoing);
    if (!wasi_http_outgoing_handler_handle(made, chosen, &future, &error)) {
        return refuse(ctx, wl_fail("%s: %s", request->url, http_error(&error)));
    }
    if (has_body && !send_body(outgoing, request->body)) {
        return refuse(ctx, wl_fail("%s: the request could not be sent whole", request->url));
    }
    wasi_http_types_borrow_future_incoming_response_t waiting = wasi_http_types_borrow_future_incoming_response(future);
    wasi_io_poll_own_pollable_t ready = wasi_http_types_method_future_incoming_response_subscribe(waiting);
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
    wasi_io_poll_pollable_drop_own(ready);
    wasi_http_types_result_result_own_incoming_response_error_code_void_t got;
    bool there = wasi_http_types_method_future_incoming_response_get(waiting, &got);
    wasi_http_types_future_incoming_response_drop_own(future);
    if (!there || got.is_err) return refuse(ctx, wl_fail("%s: no answer", request->url));
    if (got.val.ok.is_err) return refuse(ctx, wl_fail("%s: %s", request->url, http_error(&got.val.ok.val.err)));
    return read_answer(ctx, got.val.ok.val.ok, response);
}

/* --- One attempt ---------------------------------------------------------------------------------------------------------------- */

static uint8_t *to_give(const void *bytes, size_t len) {
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) __builtin_trap();
    if (len > 0) memcpy(copy, bytes, len);
    return copy;
}

bool exports_windlass_job_run_run(exports_windlass_job_run_job_t *job, windlass_wit_list_u8_t *ret,
                                  exports_windlass_job_run_failure_t *err) {
    wl_ctx ctx = {
        .job = {
            .id = {job->id.ptr, job->id.len}, .queue = {job->queue.ptr, job->queue.len},
            .payload = {job->payload.ptr, job->payload.len}, .attempt = job->attempt, .max_attempts = job->max_attempts,
            /* A tag of the interface is two strings, as ours is. */
            .tags = (const wl_tag *)job->tags.ptr, .tag_count = job->tags.len, .created_at_ms = job->created_at_ms,
        },
        .schema = 1,
        .last_save_ms = wl_now_ms(),
    };
    _Static_assert(sizeof(wl_tag) == sizeof(windlass_job_types_tag_t), "a tag is two strings");
    if (job->scope.is_some) ctx.job.scope = (wl_bytes){job->scope.val.ptr, job->scope.val.len};
    ctx.job.has_round = job->round.is_some;
    if (job->round.is_some) ctx.job.round = job->round.val;
    if (job->deadline_ms.is_some) ctx.job.deadline_ms = job->deadline_ms.val;
    if (job->checkpoint.is_some) {
        ctx.saved = (wl_bytes){job->checkpoint.val.state.ptr, job->checkpoint.val.state.len};
        ctx.saved_schema = job->checkpoint.val.schema;
    }
    wl_result result = wl_dispatch(&ctx);
    /* The server knows that the job waits, and ignores its result. */
    bool ok = result.next == WL_OK || result.next == WL_WAITING;
    if (ok) {
        *ret = (windlass_wit_list_u8_t){to_give(result.bytes.ptr, result.bytes.len), result.bytes.len};
    } else {
        const char *message = result.message == NULL ? "the handler failed and did not say why" : result.message;
        err->message = (windlass_wit_string_t){to_give(message, strlen(message)), strlen(message)};
        err->detail.is_some = result.detail != NULL;
        if (result.detail != NULL) {
            err->detail.val = (windlass_wit_string_t){to_give(result.detail, strlen(result.detail)), strlen(result.detail)};
        }
        err->retry.tag = result.next == WL_FATAL         ? EXPORTS_WINDLASS_JOB_RUN_RETRY_NEVER
                         : result.next == WL_RETRY_AFTER ? EXPORTS_WINDLASS_JOB_RUN_RETRY_AFTER_MS
                                                         : EXPORTS_WINDLASS_JOB_RUN_RETRY_BACKOFF;
        err->retry.val.after_ms = result.after_ms;
    }
    exports_windlass_job_run_job_free(job);
    wl_free_all();
    return ok;
}

#endif /* __wasm__ */
