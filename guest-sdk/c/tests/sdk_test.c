/* The SDK against its own fake server. */
#include "windlass_fake.h"

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>

static wl_result outcomes(wl_ctx *ctx, wl_bytes payload) {
    (void)ctx;
    if (wl_is(payload, "fail")) return wl_fail("row %d is bad", 7);
    if (wl_is(payload, "fatal")) return wl_fatal("no such account");
    if (wl_is(payload, "later")) return wl_retry_after(9000, "busy");
    if (wl_is(payload, "panic")) wl_panic("oh %s", "no");
    return wl_ok(payload);
}

static void an_outcome_says_what_should_happen_next(void) {
    wl_fake *fake = wl_fake_new();
    wl_result result = wl_fake_run(fake, outcomes, "fail");
    assert(result.next == WL_RETRY && strcmp(result.message, "row 7 is bad") == 0);
    assert(wl_fake_run(fake, outcomes, "fatal").next == WL_FATAL);
    result = wl_fake_run(fake, outcomes, "later");
    assert(result.next == WL_RETRY_AFTER && result.after_ms == 9000);
    result = wl_fake_run(fake, outcomes, "panic");
    assert(result.next == WL_RETRY && strcmp(result.message, "panic: oh no") == 0);
    assert(wl_is(wl_fake_run(fake, outcomes, "h\xc3\xa9").bytes, "h\xc3\xa9"));
    wl_fake_free(fake);
}

static wl_result saves(wl_ctx *ctx, wl_bytes payload) {
    (void)payload;
    wl_bytes state;
    if (wl_state(ctx, &state)) return wl_ok(state);
    for (int n = 0; n < 1000; n++) {
        if (!wl_checkpoint_every(ctx, 3600000, wl_text("rarely"))) return wl_last_error(ctx);
    }
    if (!wl_checkpoint(ctx, wl_text("kept"))) return wl_last_error(ctx);
    return wl_fail("crash");
}

static void state_is_kept_for_the_next_attempt(void) {
    wl_fake *fake = wl_fake_new();
    assert(wl_fake_run(fake, saves, "").next == WL_RETRY && wl_fake_saves(fake) == 1);
    assert(wl_is(wl_fake_run(fake, saves, "").bytes, "kept"));
    wl_fake_free(fake);
}

static wl_result refused(wl_ctx *ctx, wl_bytes payload) {
    (void)payload;
    wl_bytes value;
    assert(wl_config(ctx, "name", &value) && wl_is(value, "value") && !wl_config(ctx, "other", &value));
    assert(wl_secret(ctx, "token", &value) && wl_is(value, "s3cret"));
    wl_log(ctx, WL_WARN, "%d of %d", 1, 2);
    if (!wl_secret(ctx, "other", &value)) return wl_last_error(ctx);
    return wl_ok_text("");
}

static void a_refused_call_gives_the_error_to_return(void) {
    wl_fake *fake = wl_fake_new();
    wl_fake_config(fake, "name", "value");
    wl_fake_secret(fake, "token", "s3cret");
    wl_result result = wl_fake_run(fake, refused, "");
    assert(result.next == WL_FATAL && strstr(result.message, "`other`") != NULL);
    assert(strcmp(wl_fake_log(fake), "1 of 2\n") == 0);
    wl_fake_free(fake);
}

static wl_result stops(wl_ctx *ctx, wl_bytes payload) {
    (void)payload;
    for (int n = 0; n < 10; n++) {
        if (wl_cancelled(ctx, NULL)) return wl_stopped(ctx);
        uint32_t ordinal;
        if (!wl_spawn(ctx, &(wl_child){.queue = "q", .payload = wl_text("{}")}, &ordinal)) return wl_last_error(ctx);
        assert(ordinal == (uint32_t)n);
    }
    return wl_ok_text("");
}

static void a_handler_that_stops_has_started_no_children(void) {
    wl_fake *fake = wl_fake_new();
    wl_fake_cancel_after(fake, 3, WL_BY_SWAP);
    wl_result result = wl_fake_run(fake, stops, "");
    assert(result.next == WL_CANCELLED && strstr(result.message, "swap") != NULL && wl_fake_children(fake) == 0);
    wl_fake_resume(fake);
    assert(wl_fake_run(fake, stops, "").next == WL_OK && wl_fake_children(fake) == 10);
    wl_fake_free(fake);
}

static bool answer(const wl_request *request, wl_response *response) {
    *response = (wl_response){.status = 200, .body = wl_text(request->url)};
    return true;
}

static wl_result fetches(wl_ctx *ctx, wl_bytes payload) {
    (void)payload;
    wl_response response;
    if (!wl_http(ctx, &(wl_request){.url = "http://a/b"}, &response)) return wl_last_error(ctx);
    return wl_ok(response.body);
}

static void requests_are_answered_by_the_test(void) {
    wl_fake *fake = wl_fake_new();
    assert(wl_fake_run(fake, fetches, "").next == WL_RETRY);
    wl_fake_http(fake, answer);
    assert(wl_is(wl_fake_run(fake, fetches, "").bytes, "http://a/b"));
    wl_fake_free(fake);
}

/* Doubles each digit in a child of its own, and adds up their results. */
static wl_result double_all(wl_ctx *ctx, wl_bytes payload) {
    if (!wl_joined(ctx, NULL)) {
        for (size_t n = 0; n < payload.len; n++) {
            if (!wl_spawn(ctx, &(wl_child){.queue = "double", .payload = {payload.ptr + n, 1}}, NULL)) return wl_last_error(ctx);
        }
        wl_bytes state = wl_text("begun");
        return wl_wait_for_children(ctx, WL_ON_FAILURE_CONTINUE, &state);
    }
    wl_bytes state;
    assert(wl_state(ctx, &state) && wl_is(state, "begun"));
    size_t sum = 0, dead = 0;
    wl_children all = {0};
    wl_child_job child;
    while (wl_next_child(ctx, &all, &child)) {
        wl_bytes result;
        if (child.state == WL_CHILD_DEAD) {
            assert(!wl_child_result(ctx, &child, &result) && strstr(wl_last_error(ctx).message, "it is dead: boom") != NULL);
            dead++;
            continue;
        }
        if (!wl_child_result(ctx, &child, &result)) return wl_last_error(ctx);
        sum += result.len > 9 ? result.len : (size_t)(result.ptr[0] - '0');
    }
    if (all.failed) return wl_last_error(ctx);
    return wl_ok_text(wl_format("%zu, %zu dead", sum, dead));
}

static void a_parent_waits_for_its_children_and_reads_their_results(void) {
    wl_fake *fake = wl_fake_new();
    assert(wl_fake_run(fake, double_all, "1234").next == WL_WAITING && wl_fake_children(fake) == 4);
    assert(strstr(wl_fake_run(fake, double_all, "1234").message, "child 0 has not ended") != NULL);
    static char large[100001];
    memset(large, 'x', 100000);
    wl_fake_child_completed(fake, 0, "2");
    wl_fake_child_completed(fake, 1, large);
    wl_fake_child_completed(fake, 2, "6");
    wl_fake_child_died(fake, 3, "boom");
    assert(wl_is(wl_fake_run(fake, double_all, "1234").bytes, "100008, 1 dead"));
    wl_fake_free(fake);
}

static wl_result strict(wl_ctx *ctx, wl_bytes payload) {
    if (!wl_spawn(ctx, &(wl_child){.queue = "double"}, NULL)) return wl_last_error(ctx);
    wl_bytes state = wl_text("never");
    wl_result waits = wl_wait_for_children(ctx, WL_ON_FAILURE_FAIL, &state);
    return payload.len > 0 ? wl_fail("no after all") : waits;
}

static void a_failure_after_a_wait_counts_and_a_dead_child_takes_its_parent_along(void) {
    wl_fake *fake = wl_fake_new();
    assert(wl_fake_run(fake, strict, "fail").next == WL_RETRY && wl_fake_children(fake) == 0 && wl_fake_state(fake).len == 0);
    assert(wl_fake_run(fake, strict, "").next == WL_WAITING && wl_fake_children(fake) == 1);
    wl_fake_child_died(fake, 0, "boom");
    assert(strcmp(wl_fake_run(fake, strict, "").message, "a child failed") == 0);
    wl_fake_free(fake);
}

static wl_result compare(wl_ctx *ctx, wl_bytes payload) {
    const wl_job *job = wl_ctx_job(ctx);
    wl_recorded theirs;
    if (!wl_put_record(ctx, "a/b", wl_text(wl_format("%u", job->attempt)))) return wl_last_error(ctx);
    if (!wl_get_record(ctx, "src", "a/b", &theirs) || !wl_mark(ctx, "src", "a/b", "newer")) return wl_last_error(ctx);
    if (!theirs.found || payload.len > 0) return wl_fail("crash");
    bool same = wl_is(theirs.value, "7") && theirs.mark.ptr == NULL && job->has_round && job->round == 3;
    wl_free_record(&theirs);
    return wl_ok_text(same ? "same" : "other");
}

static void records_commit_with_a_checkpoint_or_the_result_and_others_read_and_mark_them(void) {
    wl_fake *fake = wl_fake_new();
    wl_fake_queue(fake, "dst");
    wl_fake_round(fake, 3);
    assert(wl_fake_run(fake, compare, "").next == WL_RETRY);
    wl_fake_put_record(fake, "src", "a/b", "7");
    assert(wl_fake_run(fake, compare, "fail").next == WL_RETRY && wl_fake_get_record(fake, "dst", "a/b") == NULL);
    assert(wl_is(wl_fake_run(fake, compare, "").bytes, "same"));
    assert(strcmp(wl_fake_get_record(fake, "dst", "a/b"), "3") == 0);
    assert(strcmp(wl_fake_record_mark(fake, "src", "a/b"), "newer") == 0);
    wl_fake_free(fake);
}

int main(void) {
    an_outcome_says_what_should_happen_next();
    state_is_kept_for_the_next_attempt();
    a_refused_call_gives_the_error_to_return();
    a_handler_that_stops_has_started_no_children();
    requests_are_answered_by_the_test();
    a_parent_waits_for_its_children_and_reads_their_results();
    a_failure_after_a_wait_counts_and_a_dead_child_takes_its_parent_along();
    records_commit_with_a_checkpoint_or_the_result_and_others_read_and_mark_them();
    puts("the C SDK: ok");
    return 0;
}
