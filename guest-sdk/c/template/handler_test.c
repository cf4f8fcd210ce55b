#include "handler.h"
#include "windlass_fake.h"

#undef NDEBUG
#include <assert.h>

static void it_counts(void) {
    wl_fake *fake = wl_fake_new();
    wl_result result = wl_fake_run(fake, count, "{\"steps\": 4}");
    assert(result.next == WL_OK && wl_is(result.bytes, "{\"sum\":10}"));
    wl_fake_free(fake);
}

static void a_second_attempt_resumes_where_the_first_stopped(void) {
    wl_fake *fake = wl_fake_new();
    wl_fake_fail_checkpoints_after(fake, 2);
    assert(wl_fake_run(fake, count, "{\"steps\": 4}").next == WL_RETRY);
    wl_fake_resume(fake);
    wl_result result = wl_fake_run(fake, count, "{\"steps\": 4}");
    assert(result.next == WL_OK && wl_is(result.bytes, "{\"sum\":10}"));
    assert(wl_fake_reports(fake) == 3 + 2);
    wl_fake_free(fake);
}

int main(void) {
    it_counts();
    a_second_attempt_resumes_where_the_first_stopped();
    return 0;
}
