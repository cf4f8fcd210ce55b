/* A stand-in for the server, to test handlers natively, without wasm.
 *
 *     wl_fake *fake = wl_fake_new();
 *     wl_result result = wl_fake_run(fake, total, "[1, 2, 3]");
 *     assert(result.next == WL_OK && wl_is(result.bytes, "6"));
 *
 * Every wl_fake_run is another attempt of the same job and starts from the state that the previous one saved. To test a crash, call
 * wl_fake_fail_checkpoints_after and run again. What a run returns is valid until the next one. */
#ifndef WINDLASS_FAKE_H
#define WINDLASS_FAKE_H

#include "windlass.h"

typedef struct wl_fake wl_fake;

wl_fake *wl_fake_new(void);
void wl_fake_free(wl_fake *fake);

/* Runs a handler as the next attempt. */
wl_result wl_fake_run(wl_fake *fake, wl_handle handle, const char *payload);
wl_result wl_fake_run_bytes(wl_fake *fake, wl_handle handle, wl_bytes payload);

/* Settings and secrets. The strings must outlive the fake. */
void wl_fake_config(wl_fake *fake, const char *name, const char *value);
void wl_fake_secret(wl_fake *fake, const char *name, const char *value);
/* Asks the handler to stop after it has checked this many times; 0 is at its first check. */
void wl_fake_cancel_after(wl_fake *fake, size_t checks, wl_reason reason);
/* Lets this many checkpoints succeed and refuses all later ones, to simulate a crash. */
void wl_fake_fail_checkpoints_after(wl_fake *fake, size_t checkpoints);
/* Undoes both, for the next attempt. */
void wl_fake_resume(wl_fake *fake);
/* Makes a child complete with this result, or dead with this error. Call them before the run that follows a wait. The strings must
 * outlive the fake. */
void wl_fake_child_completed(wl_fake *fake, uint32_t ordinal, const char *result);
void wl_fake_child_died(wl_fake *fake, uint32_t ordinal, const char *error);
/* The queue and the round of the job. */
void wl_fake_queue(wl_fake *fake, const char *queue);
void wl_fake_round(wl_fake *fake, uint32_t round);
/* Stores a record under a key of a queue, as another job would have. */
void wl_fake_put_record(wl_fake *fake, const char *queue, const char *key, const char *value);
/* The committed record there and its mark, whether stored by the handler or by the test; NULL if there is none. They are valid as long
 * as the fake, or until they are replaced. */
const char *wl_fake_get_record(const wl_fake *fake, const char *queue, const char *key);
const char *wl_fake_record_mark(const wl_fake *fake, const char *queue, const char *key);
/* Answers the requests of wl_http; without it, every request fails. */
void wl_fake_http(wl_fake *fake, bool (*answer)(const wl_request *request, wl_response *response));

/* What the handler did, over all attempts. */
size_t wl_fake_saves(const wl_fake *fake);
size_t wl_fake_reports(const wl_fake *fake);
size_t wl_fake_children(const wl_fake *fake); /* committed ones */
wl_bytes wl_fake_state(const wl_fake *fake);
const char *wl_fake_log(const wl_fake *fake); /* line by line */

#endif
