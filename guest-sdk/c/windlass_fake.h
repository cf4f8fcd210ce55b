/* A stand-in for the server, to test handlers natively, without wasm.
 *
 *     wl_fake *fake = wl_fake_new();
 *     wl_result result = wl_fake_run(fake, total, "[1, 2, 3]");
 *     assert(result.next == WL_OK && wl_is(result.output, "6"));
 *
 * Every wl_fake_run is one more attempt of the same job: it gets the state that the one before saved. So a crash is tested by
 * wl_fake_fail_checkpoints_after and a second run. What a run gives lives until the next one. */
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
/* Asks the handler to stop when it has looked this many times; 0 is at its first look. */
void wl_fake_cancel_after(wl_fake *fake, size_t looks, wl_reason reason);
/* Lets this many checkpoints succeed and refuses those after: as good as a crash. */
void wl_fake_fail_checkpoints_after(wl_fake *fake, size_t checkpoints);
/* Takes both back, as a new attempt would find it. */
void wl_fake_resume(wl_fake *fake);
/* A child has completed with this result, or is dead with this error: to be said before the run that follows a wait. The strings must
 * outlive the fake. */
void wl_fake_child_completed(wl_fake *fake, uint32_t ordinal, const char *result);
void wl_fake_child_died(wl_fake *fake, uint32_t ordinal, const char *error);
/* The queue and the round of the job. */
void wl_fake_queue(wl_fake *fake, const char *queue);
void wl_fake_round(wl_fake *fake, uint32_t round);
/* What another job has recorded under a key of a queue. The strings must outlive the fake. */
void wl_fake_put_record(wl_fake *fake, const char *queue, const char *key, const char *value);
/* What is committed there, and its mark: by the handler, or by the test; NULL if there is none. They live as long as the fake, or until
 * they are replaced. */
const char *wl_fake_get_record(const wl_fake *fake, const char *queue, const char *key);
const char *wl_fake_record_mark(const wl_fake *fake, const char *queue, const char *key);
/* What wl_http gives; without it every request fails. */
void wl_fake_http(wl_fake *fake, bool (*answer)(const wl_request *request, wl_response *response));

/* What the handler did, over all attempts. */
size_t wl_fake_saves(const wl_fake *fake);
size_t wl_fake_reports(const wl_fake *fake);
size_t wl_fake_children(const wl_fake *fake); /* committed ones */
wl_bytes wl_fake_state(const wl_fake *fake);
const char *wl_fake_log(const wl_fake *fake); /* line by line */

#endif
