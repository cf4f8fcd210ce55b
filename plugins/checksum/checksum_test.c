#include "checksum.h"
#include "windlass_fake.h"

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void the_sums_are_those_that_everybody_knows(void) {
    static const struct { const char *text, *sha; uint32_t crc; } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 0x352441c2},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 0x171a3f5f},
        {"123456789", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225", 0xcbf43926},
    };
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        sums sums;
        char hex[65];
        sums_begin(&sums);
        sums_add(&sums, (const uint8_t *)known[n].text, strlen(known[n].text));
        sums_sha256(&sums, hex);
        assert(strcmp(hex, known[n].sha) == 0 && sums_crc32(&sums) == known[n].crc);
    }
}

static void it_does_not_matter_where_the_bytes_are_cut(void) {
    uint8_t bytes[300];
    for (size_t n = 0; n < sizeof bytes; n++) bytes[n] = (uint8_t)(n * 7);
    char whole[65], parts[65];
    sums sums;
    sums_begin(&sums);
    sums_add(&sums, bytes, sizeof bytes);
    sums_sha256(&sums, whole);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        sums_begin(&sums);
        sums_add(&sums, bytes, cut);
        sums_add(&sums, bytes + cut, sizeof bytes - cut);
        sums_sha256(&sums, parts);
        assert(strcmp(whole, parts) == 0);
    }
}

static void a_later_attempt_goes_on_in_the_middle(void) {
    size_t len = 3 << 20;
    uint8_t *bytes = malloc(len);
    memset(bytes, 'x', len);
    wl_fake *fake = wl_fake_new();
    wl_result result = wl_fake_run_bytes(fake, checksum, (wl_bytes){bytes, len});
    assert(result.next == WL_OK);
    char *whole = strndup((const char *)result.bytes.ptr, result.bytes.len);
    wl_fake_free(fake);

    fake = wl_fake_new();
    wl_fake_cancel_after(fake, 5, WL_BY_SHUTDOWN);
    assert(wl_fake_run_bytes(fake, checksum, (wl_bytes){bytes, len}).next == WL_CANCELLED && wl_fake_saves(fake) >= 1);
    assert(wl_fake_reports(fake) == 5);
    wl_fake_resume(fake);
    result = wl_fake_run_bytes(fake, checksum, (wl_bytes){bytes, len});
    assert(result.next == WL_OK && wl_is(result.bytes, whole) && wl_fake_reports(fake) == 12);
    /* A state that is not ours is no reason to guess. */
    assert(wl_fake_run(fake, checksum, "short").next == WL_FATAL);
    wl_fake_free(fake);
    free(whole);
    free(bytes);
}

int main(void) {
    the_sums_are_those_that_everybody_knows();
    it_does_not_matter_where_the_bytes_are_cut();
    a_later_attempt_goes_on_in_the_middle();
    puts("checksum: ok");
    return 0;
}
