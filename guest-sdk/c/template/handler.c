/* Counts to a number, in steps that survive a crash. Replace the sum with your own work. */
#include "handler.h"

#include <stdlib.h>
#include <string.h>

/* What a checkpoint holds. */
typedef struct standing {
    uint64_t done;
    uint64_t sum;
} standing;

/* The number after `"steps":`. Payloads are bytes: read them as you like. */
static uint64_t steps_in(wl_bytes payload) {
    const char *text = wl_format("%.*s", (int)payload.len, (const char *)payload.ptr);
    const char *field = strstr(text, "\"steps\"");
    const char *colon = field == NULL ? NULL : strchr(field, ':');
    return colon == NULL ? 0 : strtoull(colon + 1, NULL, 10);
}

wl_result count(wl_ctx *ctx, wl_bytes payload) {
    uint64_t steps = steps_in(payload);
    if (steps == 0) return wl_fatal("the payload should be like {\"steps\": 10}");
    standing at = {0, 0};
    wl_bytes saved;
    if (wl_state(ctx, &saved) && saved.len == sizeof at) memcpy(&at, saved.ptr, sizeof at);
    while (at.done < steps) {
        if (wl_cancelled(ctx, NULL)) return wl_stopped(ctx);
        at.done++;
        at.sum += at.done;
        wl_progress(ctx, at.done, steps, "counting");
        if (!wl_checkpoint(ctx, (wl_bytes){(const uint8_t *)&at, sizeof at})) return wl_last_error(ctx);
    }
    return wl_ok_text(wl_format("{\"sum\":%llu}", (unsigned long long)at.sum));
}

const wl_handler wl_handlers[] = {{"{{name}}", count}, {NULL, NULL}};
