/* The same modes in every language; see tests/guests/README.md. The payload is a flat JSON object, so that looking for a key is all
 * the parsing there is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "windlass.h"

/* Where the value of a key begins. */
static const char *find(wl_bytes payload, const char *key) {
    char *wanted = wl_format("\"%s\":", key);
    size_t len = strlen(wanted);
    for (size_t at = 0; at + len <= payload.len; at++) {
        if (memcmp(payload.ptr + at, wanted, len) == 0) return (const char *)payload.ptr + at + len;
    }
    return NULL;
}

/* A string as it stands in the JSON, with its quotes and escapes. */
static wl_bytes literal(wl_bytes payload, const char *key) {
    const char *start = find(payload, key), *end = (const char *)payload.ptr + payload.len;
    while (start != NULL && start < end && *start == ' ') start++;
    if (start == NULL || start >= end || *start != '"') return wl_text("\"\"");
    const char *at = start + 1;
    while (at < end && *at != '"') at += *at == '\\' ? 2 : 1;
    return (wl_bytes){(const uint8_t *)start, (size_t)(at - start) + 1};
}

/* The same without quotes; the tests use no escapes where it matters. */
static const char *text(wl_bytes payload, const char *key) {
    wl_bytes quoted = literal(payload, key);
    return wl_format("%.*s", (int)quoted.len - 2, (const char *)quoted.ptr + 1);
}

static unsigned long number(wl_bytes payload, const char *key) {
    const char *start = find(payload, key);
    return start == NULL ? 0 : strtoul(start, NULL, 10);
}

static char *quote(wl_bytes bytes) {
    char *out = wl_alloc(bytes.len * 6 + 3), *at = out;
    *at++ = '"';
    for (size_t n = 0; n < bytes.len; n++) {
        uint8_t byte = bytes.ptr[n];
        if (byte == '"' || byte == '\\') {
            *at++ = '\\';
            *at++ = (char)byte;
        } else if (byte < 0x20) {
            at += sprintf(at, "\\u%04x", byte);
        } else {
            *at++ = (char)byte;
        }
    }
    *at++ = '"';
    *at = 0;
    return out;
}

static wl_result steps(wl_ctx *ctx, wl_bytes payload) {
    unsigned long steps = number(payload, "steps"), pause = number(payload, "pause_ms"), from = 0;
    wl_bytes state;
    if (wl_state(ctx, &state)) from = strtoul(wl_format("%.*s", (int)state.len, (const char *)state.ptr), NULL, 10);
    for (unsigned long step = from + 1; step <= steps; step++) {
        if (wl_cancelled(ctx, NULL)) return wl_stopped(ctx);
        wl_log(ctx, WL_INFO, "step %lu", step);
        if (pause > 0) nanosleep(&(struct timespec){(time_t)(pause / 1000), (long)(pause % 1000) * 1000000}, NULL);
        wl_progress(ctx, step, steps, wl_format("step %lu", step));
        if (!wl_checkpoint(ctx, wl_text(wl_format("%lu", step)))) return wl_last_error(ctx);
    }
    return wl_ok_text(wl_format("{\"steps\":%lu,\"ran\":%lu,\"from\":%lu,\"attempt\":%u}", steps, steps - from, from, wl_ctx_job(ctx)->attempt));
}

static wl_result fetch(wl_ctx *ctx, wl_bytes payload) {
    wl_response response;
    if (!wl_http(ctx, &(wl_request){.url = text(payload, "url")}, &response)) return wl_last_error(ctx);
    return wl_ok_text(wl_format("{\"status\":%u,\"body\":%s}", response.status, quote(response.body)));
}

static wl_result spawn(wl_ctx *ctx, wl_bytes payload) {
    unsigned long count = number(payload, "count");
    wl_bytes given = literal(payload, "text");
    const char *child = wl_format("{\"mode\":\"echo\",\"text\":%.*s}", (int)given.len, (const char *)given.ptr);
    for (unsigned long n = 0; n < count; n++) {
        wl_child made = {.queue = text(payload, "queue"), .payload = wl_text(child), .priority = WL_LOW};
        if (!wl_spawn(ctx, &made, NULL)) return wl_last_error(ctx);
    }
    return wl_ok_text(wl_format("{\"spawned\":%lu}", count));
}

static wl_result join(wl_ctx *ctx, wl_bytes payload) {
    unsigned long count = number(payload, "count"), bad = number(payload, "bad");
    wl_child_counts counts;
    wl_bytes state = wl_text("begun");
    if (!wl_joined(ctx, &counts)) {
        wl_bytes given = literal(payload, "text");
        for (unsigned long n = 0; n < count; n++) {
            const char *mode = n < bad ? "fatal" : "echo";
            const char *child = wl_format("{\"mode\":\"%s\",\"text\":%.*s}", mode, (int)given.len, (const char *)given.ptr);
            if (!wl_spawn(ctx, &(wl_child){.queue = text(payload, "queue"), .payload = wl_text(child)}, NULL)) return wl_last_error(ctx);
        }
        const char *policy = text(payload, "on_failure");
        wl_on_failure on_failure = strcmp(policy, "continue") == 0 ? WL_ON_FAILURE_CONTINUE
                                   : strcmp(policy, "cancel") == 0 ? WL_ON_FAILURE_CANCEL
                                                                   : WL_ON_FAILURE_FAIL;
        return wl_wait_for_children(ctx, on_failure, &state);
    }
    if (!wl_state(ctx, &state) || !wl_is(state, "begun")) return wl_fatal("the state that the wait saved is not there");
    const char *texts = "";
    wl_children all = {0};
    wl_child_job child;
    while (wl_next_child(ctx, &all, &child)) {
        wl_bytes result;
        if (child.state != WL_CHILD_COMPLETED) continue;
        if (!wl_child_result(ctx, &child, &result)) return wl_last_error(ctx);
        wl_bytes echo = literal(result, "text");
        texts = wl_format("%s%s%.*s", texts, *texts == 0 ? "" : ",", (int)echo.len, (const char *)echo.ptr);
    }
    if (all.failed) return wl_last_error(ctx);
    return wl_ok_text(wl_format("{\"total\":%llu,\"completed\":%llu,\"dead\":%llu,\"texts\":[%s]}", (unsigned long long)counts.total,
                                (unsigned long long)counts.completed, (unsigned long long)counts.dead, texts));
}

static wl_result record(wl_ctx *ctx, wl_bytes payload) {
    const char *queue = text(payload, "queue"), *name = text(payload, "name");
    wl_recorded found;
    if (!wl_get_record(ctx, queue, name, &found)) return wl_last_error(ctx);
    if (!wl_put_record(ctx, name, literal(payload, "text")) || !wl_mark(ctx, queue, name, "seen")) return wl_last_error(ctx);
    const wl_job *job = wl_ctx_job(ctx);
    const char *at = job->has_round ? wl_format("%u", job->round) : "null";
    const char *value = found.found ? wl_format("%.*s", (int)found.value.len, (const char *)found.value.ptr) : "null";
    return wl_ok_text(wl_format("{\"found\":%s,\"mark\":%s,\"round\":%s}", value, found.mark.ptr == NULL ? "null" : quote(found.mark), at));
}

static wl_result conform(wl_ctx *ctx, wl_bytes payload) {
    const char *mode = text(payload, "mode");
    if (strcmp(mode, "noop") == 0) return wl_ok_text("{}");
    if (strcmp(mode, "echo") == 0) {
        wl_bytes given = literal(payload, "text");
        return wl_ok_text(wl_format("{\"text\":%.*s,\"bytes\":%zu}", (int)given.len, (const char *)given.ptr, payload.len));
    }
    if (strcmp(mode, "steps") == 0) return steps(ctx, payload);
    if (strcmp(mode, "spin") == 0) {
        for (volatile unsigned long n = 0;; n++) {
        }
    }
    if (strcmp(mode, "fail") == 0) return wl_fail("%s", text(payload, "text"));
    if (strcmp(mode, "fatal") == 0) return wl_fatal("%s", text(payload, "text"));
    if (strcmp(mode, "retry_after") == 0) return wl_retry_after(number(payload, "ms"), "%s", text(payload, "text"));
    if (strcmp(mode, "panic") == 0) wl_panic("%s", text(payload, "text"));
    if (strcmp(mode, "spawn") == 0) return spawn(ctx, payload);
    if (strcmp(mode, "join") == 0) return join(ctx, payload);
    if (strcmp(mode, "record") == 0) return record(ctx, payload);
    if (strcmp(mode, "fetch") == 0) return fetch(ctx, payload);
    wl_bytes value;
    if (strcmp(mode, "config") == 0) {
        return wl_ok_text(wl_format("{\"value\":%s}", wl_config(ctx, text(payload, "name"), &value) ? quote(value) : "null"));
    }
    if (strcmp(mode, "secret") == 0) {
        if (!wl_secret(ctx, text(payload, "name"), &value)) return wl_last_error(ctx);
        return wl_ok_text(wl_format("{\"value\":%s}", quote(value)));
    }
    return wl_fatal("there is no mode `%s`", mode);
}

const wl_handler wl_handlers[] = {{"*", conform}, {NULL, NULL}};
