/* The part of the SDK that is the same in a component and in a test: memory, results, state, children, dispatch. The server that it
 * calls is windlass_imports.c and windlass_http.c in a component, and windlass_fake.c in a test. */
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
