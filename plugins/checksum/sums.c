#include "checksum.h"

#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t word, int by) { return word >> by | word << (32 - by); }

static void sha_block(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], v[8];
    for (int n = 0; n < 16; n++) {
        w[n] = (uint32_t)block[4 * n] << 24 | (uint32_t)block[4 * n + 1] << 16 | (uint32_t)block[4 * n + 2] << 8 | block[4 * n + 3];
    }
    for (int n = 16; n < 64; n++) {
        uint32_t a = w[n - 15], b = w[n - 2];
        w[n] = w[n - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[n - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int n = 0; n < 64; n++) {
        uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]), most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t one = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + choose + K[n] + w[n];
        uint32_t two = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + most;
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int n = 0; n < 8; n++) state[n] += v[n];
}

static uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t len) {
    static uint32_t table[256];
    if (table[1] == 0) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t c = n;
            for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
            table[n] = c;
        }
    }
    for (size_t n = 0; n < len; n++) crc = table[(crc ^ bytes[n]) & 0xff] ^ crc >> 8;
    return crc;
}

void sums_begin(sums *sums) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(sums, 0, sizeof *sums);
    memcpy(sums->sha, start, sizeof start);
    sums->crc = 0xffffffff;
}

void sums_add(sums *sums, const uint8_t *bytes, size_t len) {
    sums->crc = crc_add(sums->crc, bytes, len);
    size_t held = sums->bytes % 64;
    sums->bytes += len;
    while (len > 0) {
        size_t part = len < 64 - held ? len : 64 - held;
        memcpy(sums->block + held, bytes, part);
        bytes += part;
        len -= part;
        held = (held + part) % 64;
        if (held == 0) sha_block(sums->sha, sums->block);
    }
}

void sums_sha256(const sums *so_far, char hex[65]) {
    sums sums = *so_far;
    uint64_t bits = sums.bytes * 8;
    uint8_t end[72] = {0x80};
    size_t held = sums.bytes % 64, pad = held < 56 ? 56 - held : 120 - held;
    for (int n = 0; n < 8; n++) end[pad + (size_t)n] = (uint8_t)(bits >> (56 - 8 * n));
    sums_add(&sums, end, pad + 8);
    for (int n = 0; n < 8; n++) snprintf(hex + 8 * n, 9, "%08x", sums.sha[n]);
}

uint32_t sums_crc32(const sums *sums) { return ~sums->crc; }
