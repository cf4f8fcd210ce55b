/* SHA-256 and CRC-32 of the payload, whatever bytes it has. In steps of 256 KiB: after each it reports, stops if asked to, and at
 * most ten times a second saves the sums in the middle of the stream. With the setting `pause_ms` it rests after each step, on a machine
 * that has other things to do. */
#include "checksum.h"

#include <string.h>
#include <time.h>

#define STEP (256 * 1024)
#define SAVE_MS 100

static bool read_pause(wl_ctx *ctx, struct timespec *pause) {
    wl_bytes text;
    unsigned long ms = 0;
    *pause = (struct timespec){0};
    if (!wl_config(ctx, "pause_ms", &text)) return true;
    for (size_t n = 0; n < text.len; n++) {
        if (text.ptr[n] < '0' || text.ptr[n] > '9' || ms > 1000000) return false;
        ms = ms * 10 + (text.ptr[n] - '0');
    }
    pause->tv_sec = (time_t)(ms / 1000);
    pause->tv_nsec = (long)(ms % 1000) * 1000000;
    return true;
}

wl_result checksum(wl_ctx *ctx, wl_bytes payload) {
    sums at;
    wl_bytes saved;
    struct timespec pause;
    if (!read_pause(ctx, &pause)) return wl_fatal("the setting `pause_ms` is no number of milliseconds");
    sums_begin(&at);
    if (wl_state(ctx, &saved)) {
        if (saved.len != sizeof at) return wl_fatal("the saved state has %zu bytes, not %zu", saved.len, sizeof at);
        memcpy(&at, saved.ptr, sizeof at);
        if (at.bytes > payload.len) return wl_fatal("the saved state is of another payload");
        wl_log(ctx, WL_INFO, "going on after %llu bytes", (unsigned long long)at.bytes);
    }
    wl_bytes state = {(const uint8_t *)&at, sizeof at};
    while (at.bytes < payload.len) {
        if (wl_cancelled(ctx, NULL)) {
            if (!wl_checkpoint(ctx, state)) return wl_last_error(ctx);
            return wl_stopped(ctx);
        }
        size_t rest = payload.len - (size_t)at.bytes;
        sums_add(&at, payload.ptr + at.bytes, rest < STEP ? rest : STEP);
        wl_report(ctx, &(wl_event){.phase = "hash", .message = "hashing", .level = WL_INFO, .unit = "bytes", .counted = true,
                                   .current = at.bytes, .total = payload.len});
        if (!wl_checkpoint_every(ctx, SAVE_MS, state)) return wl_last_error(ctx);
        if (pause.tv_sec > 0 || pause.tv_nsec > 0) nanosleep(&pause, NULL);
    }
    char hex[65];
    sums_sha256(&at, hex);
    return wl_ok_text(wl_format("{\"bytes\":%llu,\"sha256\":\"%s\",\"crc32\":\"%08x\"}", (unsigned long long)at.bytes, hex, sums_crc32(&at)));
}

const wl_handler wl_handlers[] = {{"*", checksum}, {NULL, NULL}};
