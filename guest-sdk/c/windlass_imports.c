/* The server in a component: what a handler asks for is passed to the imports through the generated bindings, and the export runs a
 * handler. In a test, windlass_fake.c takes its place. */
#ifdef __wasm__

#include "windlass_wasm.h"

/* The bindings ask for an object file with the world's type. `windlass plugin build` puts the type in itself. */
void __component_type_object_force_link_windlass_wit(void) {}

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
