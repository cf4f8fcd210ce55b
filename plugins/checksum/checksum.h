/* SHA-256 and CRC-32 that can be saved in the middle of the stream: both are plain structs. */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include "windlass.h"

typedef struct sums {
    uint64_t bytes;
    uint32_t crc;
    uint32_t sha[8];
    uint8_t block[64]; /* the bytes of a block that is not full */
} sums;

void sums_begin(sums *sums);
void sums_add(sums *sums, const uint8_t *bytes, size_t len);
/* 65 bytes, the last of them 0. */
void sums_sha256(const sums *sums, char hex[65]);
uint32_t sums_crc32(const sums *sums);

wl_result checksum(wl_ctx *ctx, wl_bytes payload);

#endif
